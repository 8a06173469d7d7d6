"""Functions of scipy.linalg: matrix functions, Sylvester's equation, LU factors, structured matrices.

The derivative of a function of a matrix is read off a block matrix: f([[A, E], [0, A]]) has f(A) on the diagonal and
the derivative of f at A along E above it (N. J. Higham, Functions of Matrices, 2008, eq. 3.16).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...errors import MissingRuleError
from ...graph.graph import Spec
from ...graph.primitive import Primitive
from ...graph.trace import bind
from ..complex import real_dtype
from ..define import as_value
from .basic import (
    batch_in_front,
    cholesky,
    conj,
    floating,
    left_solve,
    lower,
    mH,
    mT,
    per_matrix,
    positive,
    right_solve,
    same_spec,
    solve_with,
    stack_of_matrices,
    triangular_solve_p,
    upper,
    well_conditioned,
)
from .spectral import svd

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "circulant",
    "cosm",
    "expm",
    "expm_frechet",
    "hankel",
    "logm",
    "lu",
    "lu_factor",
    "lu_solve",
    "polar",
    "sinm",
    "solve_continuous_lyapunov",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "toeplitz",
]


@cache
def _scipy():
    import scipy.linalg

    return scipy.linalg


def _each(f, a, *rest):
    """Apply a function of matrices to every one of a stack."""
    if a.ndim == 2:
        return f(a, *rest)
    out = np.empty(a.shape, a.dtype)
    for i in np.ndindex(a.shape[:-2]):
        out[i] = f(a[i], *[x[i] for x in rest])
    return out


def _block(a, e):
    """[[A, E], [0, A]]."""
    top = np.concatenate([a, e], axis=-1)
    return np.concatenate([top, np.concatenate([np.zeros(np.shape(a), np.result_type(a)), a], axis=-1)], axis=-2)


def _corner(x):
    n = np.shape(x)[-1] // 2
    return x[..., :n, n:]


# -- exponential -------------------------------------------------------------------------------------------------------

expm_p = Primitive(
    "expm",
    lambda a: _scipy().expm(a).astype(a.dtype, copy=False),
    same_spec,
    flops=per_matrix(30.0),
    samples=lambda rng: [((rng.normal(size=(3, 3)),), {}), ((rng.normal(size=(2, 2, 2)),), {})],
)
expm_p.defvjp(lambda ct, out, a: bind(expm_frechet_p, mT(a), ct))
expm_p.defjvp(lambda t, out, a: bind(expm_frechet_p, a, t))
batch_in_front(expm_p)

expm_frechet_p: Primitive = Primitive(
    "expm_frechet",
    lambda a, e: _each(lambda a, e: _scipy().expm_frechet(a, e, compute_expm=False).astype(e.dtype, copy=False), a, e),
    lambda a, e: Spec(e.shape, e.dtype),
    flops=per_matrix(90.0),
    samples=lambda rng: [
        ((rng.normal(size=(3, 3)), rng.normal(size=(3, 3))), {}),
        ((rng.normal(size=(2, 2, 2)), rng.normal(size=(2, 2, 2))), {}),
    ],
)


def _second(a, e, f):
    """Second derivative of the exponential at A along E and F (symmetric in them)."""
    zero = np.zeros(np.shape(a), np.result_type(a))
    both = np.concatenate([np.concatenate([f, zero], axis=-1), np.concatenate([zero, f], axis=-1)], axis=-2)
    return _corner(bind(expm_frechet_p, _block(a, e), both))


@expm_frechet_p.defvjp_all
def _(ct, out, args, needed):
    a, e = args
    return [_second(mT(a), mT(e), ct) if needed[0] else None, bind(expm_frechet_p, mT(a), ct) if needed[1] else None]


expm_frechet_p.defjvp(lambda t, out, a, e: _second(a, e, t), lambda t, out, a, e: bind(expm_frechet_p, a, t))
batch_in_front(expm_frechet_p)


def expm(A):
    """Matrix exponential, as ``scipy.linalg.expm``, of stacks (…, n, n)."""
    A = floating("expm", A)
    stack_of_matrices("expm", A)
    return bind(expm_p, A)


def expm_frechet(A, E):
    """Derivative of the matrix exponential at `A` along `E`: ``scipy.linalg.expm_frechet(A, E,
    compute_expm=False)``.
    """
    A, E = floating("expm_frechet", A, E)
    stack_of_matrices("expm_frechet", A)
    if np.shape(A) != np.shape(E):
        raise ValueError(f"expm_frechet: A and E must have one shape, got {np.shape(A)} and {np.shape(E)}")
    return bind(expm_frechet_p, A, E)


def cosm(A):
    """Matrix cosine, as ``scipy.linalg.cosm``."""
    A = floating("cosm", A)
    if np.iscomplexobj(A):
        return (expm(1j * A) + expm(-1j * A)) / 2
    return np.real(expm(1j * A))


def sinm(A):
    """Matrix sine, as ``scipy.linalg.sinm``."""
    A = floating("sinm", A)
    if np.iscomplexobj(A):
        return (expm(1j * A) - expm(-1j * A)) / 2j
    return np.imag(expm(1j * A))


# -- logarithm and square root
# ---------------------------------------------------------------------------------------------


def _same_kind(name, a):
    """A matrix function of SciPy's in double precision; a complex result of a real matrix is refused, as a dtype cannot
    depend on values.
    """
    out = getattr(_scipy(), name)(a.astype(complex if a.dtype.kind == "c" else float))
    if a.dtype.kind == "f" and out.dtype.kind == "c":
        if np.abs(out.imag).max(initial=0) > 1e3 * np.finfo(a.dtype).eps * max(1.0, np.abs(out.real).max(initial=0)):
            raise np.linalg.LinAlgError(
                f"{name}: this real matrix has no real {name} (convert it with astype(complex))"
            )
        out = out.real
    return out.astype(a.dtype, copy=False)


logm_p = Primitive(
    "logm",
    lambda a: _each(lambda a: _same_kind("logm", a), a),
    same_spec,
    flops=per_matrix(100.0),
    samples=lambda rng: [((well_conditioned(rng, 3, 3),), {})],
)
logm_p.defvjp(lambda ct, out, a: _corner(bind(logm_p, _block(mT(a), ct))))
logm_p.defjvp(lambda t, out, a: _corner(bind(logm_p, _block(a, t))))
batch_in_front(logm_p)


def logm(A):
    """Matrix logarithm, as ``scipy.linalg.logm``; of a real matrix only where it is real."""
    A = floating("logm", A)
    stack_of_matrices("logm", A)
    return bind(logm_p, A)


sylvester_p = Primitive(
    "sylvester",
    lambda a, b, q: _solve_sylvester(a, b, q),
    lambda a, b, q: Spec(q.shape, q.dtype),
    flops=per_matrix(60.0),
    samples=lambda rng: [((well_conditioned(rng, 3, 3), well_conditioned(rng, 2, 2), rng.normal(size=(3, 2))), {})],
)


def _solve_sylvester(a, b, q):
    if q.ndim == 2:
        return _scipy().solve_sylvester(a, b, q).astype(q.dtype, copy=False)
    out = np.empty(q.shape, q.dtype)
    for i in np.ndindex(q.shape[:-2]):
        out[i] = _scipy().solve_sylvester(a[i], b[i], q[i])
    return out


@sylvester_p.defvjp_all
def _(ct, out, args, needed):
    a, b, _ = args
    y = bind(sylvester_p, mT(a), mT(b), ct)
    return [-np.matmul(y, mT(out)) if needed[0] else None, -np.matmul(mT(out), y) if needed[1] else None, y]


sylvester_p.defjvp(
    lambda t, out, a, b, q: -bind(sylvester_p, a, b, np.matmul(t, out)),
    lambda t, out, a, b, q: -bind(sylvester_p, a, b, np.matmul(out, t)),
    lambda t, out, a, b, q: bind(sylvester_p, a, b, t),
)
batch_in_front(sylvester_p)


def solve_sylvester(a, b, q):
    """X with ``A X + X B = Q``, as ``scipy.linalg.solve_sylvester``."""
    a, b, q = floating("solve_sylvester", a, b, q)
    stack_of_matrices("solve_sylvester", a)
    stack_of_matrices("solve_sylvester", b)
    if np.shape(q) != (*np.shape(a)[:-1], np.shape(b)[-1]):
        raise ValueError(
            f"solve_sylvester: q must have the shape (…, rows of a, rows of b), got {np.shape(q)} for {np.shape(a)} "
            f"and {np.shape(b)}"
        )
    return bind(sylvester_p, a, b, q)


def solve_continuous_lyapunov(a, q):
    """X with ``A X + X A^H = Q``, as ``scipy.linalg.solve_continuous_lyapunov``."""
    return solve_sylvester(a, mH(floating("solve_continuous_lyapunov", a)), q)


sqrtm_p = Primitive(
    "sqrtm",
    lambda a: _each(lambda a: _same_kind("sqrtm", a), a),
    same_spec,
    flops=per_matrix(35.0),
    samples=lambda rng: [((positive(rng, 3, 3),), {})],
)
sqrtm_p.defvjp(lambda ct, out, a: bind(sylvester_p, mT(out), mT(out), ct))
sqrtm_p.defjvp(lambda t, out, a: bind(sylvester_p, out, out, t))
batch_in_front(sqrtm_p)


def sqrtm(A):
    """Principal square root of matrices, as ``scipy.linalg.sqrtm``; of a real matrix only where it is real."""
    A = floating("sqrtm", A)
    stack_of_matrices("sqrtm", A)
    return bind(sqrtm_p, A)


def polar(a, side="right"):
    """``scipy.linalg.polar``: unitary and positive factor, ``a = u @ p`` or, with `side` "left", ``a = p @ u``."""
    if side not in ("right", "left"):
        raise ValueError(f"polar: side must be 'right' or 'left', got {side!r}")
    w, s, vh = svd(a, full_matrices=False)
    p = np.matmul(mH(vh) * s[..., None, :], vh) if side == "right" else np.matmul(w * s[..., None, :], mH(w))
    return np.matmul(w, vh), p


# -- systems with known structure
# ---------------------------------------------------------------------------------------


def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=True):
    """``scipy.linalg.solve_triangular``, of stacks; `b` is a vector only if one-dimensional."""
    a, b = floating("solve_triangular", a, b)
    stack_of_matrices("solve_triangular", a)
    trans = {"N": 0, "T": 1, "C": 2}.get(trans, trans)
    if trans not in (0, 1, 2):
        raise ValueError(f"solve_triangular: trans must be 0, 1, 2, 'N', 'T' or 'C', got {trans!r}")
    return solve_with(
        triangular_solve_p,
        "solve_triangular",
        conj(a) if trans == 2 else a,
        b,
        np.ndim(b) == 1,
        lower=bool(lower),
        transpose=trans > 0,
        unit=bool(unit_diagonal),
    )


def cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
    """Cholesky factor for `cho_solve`: ``(c, lower)``; unlike SciPy's, the other triangle of `c` is zero."""
    return cholesky(a, upper=not lower), bool(lower)


def cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True):
    """Solve ``A x = b`` with the result of `cho_factor`."""
    c, low = c_and_lower
    if low:
        return solve_triangular(c, solve_triangular(c, b, lower=True), trans=2, lower=True)
    return solve_triangular(c, solve_triangular(c, b, trans=2))


# -- LU ----------------------------------------------------------------------------------------------------------------


def _lu(a):
    *head, m, n = a.shape
    lu, piv = np.empty(a.shape, a.dtype), np.empty((*head, min(m, n)), np.int64)
    for i in np.ndindex(*head):
        lu[i], piv[i] = _scipy().lu_factor(a[i])
    return lu, piv, _order_of(piv, m)


def _order_of(piv, rows):
    """The order of `rows` rows after the exchanges `piv` (…, k) of LAPACK's."""
    out = np.empty((*piv.shape[:-1], rows), np.int64)
    for i in np.ndindex(piv.shape[:-1]):
        order = np.arange(rows)
        for j, p in enumerate(piv[i]):
            order[[j, p]] = order[[p, j]]
        out[i] = order
    return out


def _lu_spec(a):
    *head, m, n = a.shape
    return Spec(a.shape, a.dtype), Spec((*head, min(m, n)), np.dtype(np.int64)), Spec((*head, m), np.dtype(np.int64))


lu_p = Primitive(
    "lu",
    _lu,
    _lu_spec,
    multiple=True,
    flops=per_matrix(2 / 3),
    samples=lambda rng: [((well_conditioned(rng, 3, 3),), {}), ((well_conditioned(rng, 2, 3, 3)[:, [2, 0, 1]],), {})],
)


def _square_lu(lu):
    if np.shape(lu)[-1] != np.shape(lu)[-2]:
        raise MissingRuleError(
            f"lu: derivatives are there for square matrices, got shape {np.shape(lu)} (factor the square part, and "
            "solve for the rest)"
        )
    unit = lower(lu, -1) + np.eye(np.shape(lu)[-1], dtype=np.result_type(lu))
    return unit, upper(lu)


@lu_p.defjvp_all
def _(tangents, out, args):
    l, u = _square_lu(out[0])
    t = np.take_along_axis(tangents[0], out[2][..., None], axis=-2)
    inner = right_solve(left_solve(l, t), u, low=False)
    return np.matmul(l, lower(inner, -1)) + np.matmul(upper(inner), u), None, None


@lu_p.defvjp_all
def _(ct, out, args, needed):
    if ct[0] is None:
        return [None]
    l, u = _square_lu(out[0])
    g = conj(ct[0])
    inner = lower(np.matmul(mH(l), lower(g, -1)), -1) + upper(np.matmul(upper(g), mH(u)))
    g = right_solve(left_solve(l, inner, adjoint=True), u, low=False, adjoint=True)
    return [conj(np.take_along_axis(g, np.argsort(out[2], axis=-1)[..., None], axis=-2))]


batch_in_front(lu_p)


def lu_factor(a, overwrite_a=False, check_finite=True):
    """``scipy.linalg.lu_factor``: both triangles in one matrix, and the row exchanges."""
    a = floating("lu_factor", a)
    stack_of_matrices("lu_factor", a, square=False)
    lu, piv, _ = bind(lu_p, a)
    return lu, piv


def lu(a, permute_l=False, overwrite_a=False, check_finite=True):
    """``scipy.linalg.lu``: ``a = p @ l @ u``; with `permute_l`, ``(p @ l, u)``."""
    a = floating("lu", a)
    stack_of_matrices("lu", a, square=False)
    m, n = np.shape(a)[-2:]
    k = min(m, n)
    packed, _, perm = bind(lu_p, a)
    l = lower(packed[..., :, :k], -1) + np.eye(m, k, dtype=np.result_type(a))
    u = upper(packed[..., :k, :])
    p = np.astype(np.equal(np.arange(m)[:, None], perm[..., None, :]), real_dtype(np.result_type(a)))
    return (np.matmul(p, l), u) if permute_l else (p, l, u)


pivots_p = Primitive(
    "pivots_to_order",
    lambda piv: _order_of(piv, piv.shape[-1]),
    lambda piv: Spec(piv.shape, np.dtype(np.int64)),
    differentiable=False,
    flops=0,
    samples=lambda rng: [((np.array([2, 2, 2]),), {})],
)
batch_in_front(pivots_p)


def lu_solve(lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True):
    """``scipy.linalg.lu_solve`` for one matrix."""
    packed, piv = lu_and_piv
    packed, b = floating("lu_solve", packed, b)
    if np.ndim(packed) != 2 or np.ndim(b) not in (1, 2):
        raise ValueError(
            f"lu_solve: expected one matrix (n, n) and b (n,) or (n, k), got shapes {np.shape(packed)} and "
            f"{np.shape(b)} (use vmap for stacks)"
        )
    order = bind(pivots_p, as_value(piv))
    if trans == 0:
        y = solve_triangular(packed, np.take(b, order, axis=0), lower=True, unit_diagonal=True)
        return solve_triangular(packed, y)
    y = solve_triangular(packed, solve_triangular(packed, b, trans=trans), trans=trans, lower=True, unit_diagonal=True)
    return np.take(y, np.argsort(order), axis=0)


# -- structured matrices
# --------------------------------------------------------------------------------------------------


def block_diag(*arrays):
    """``scipy.linalg.block_diag``: matrices along the diagonal, zeros elsewhere."""
    arrays = [as_value(a) for a in arrays]
    arrays = [np.reshape(a, (1, -1)) if np.ndim(a) < 2 else a for a in arrays]
    if any(np.ndim(a) != 2 for a in arrays):
        raise ValueError(
            f"block_diag: arrays must have at most two dimensions, got shapes {[np.shape(a) for a in arrays]}"
        )
    width = sum(np.shape(a)[1] for a in arrays)
    rows, at = [], 0
    for a in arrays:
        m, n = np.shape(a)
        left, right = [np.zeros((m, k), np.result_type(a)) for k in (at, width - at - n)]
        rows.append(np.concatenate([left, a, right], axis=1))
        at += n
    return np.concatenate(rows, axis=0)


def toeplitz(c, r=None):
    """``scipy.linalg.toeplitz``: first column `c`, first row `r` (by default the conjugate of `c`)."""
    c = as_value(c)
    r = conj(c) if r is None else as_value(r)
    m, n = np.shape(c)[-1], np.shape(r)[-1]
    values = np.concatenate([np.flip(c, -1), r[..., 1:]], axis=-1)
    return np.take(values, np.arange(m)[::-1, None] + np.arange(n), axis=-1)


def circulant(c):
    """``scipy.linalg.circulant``: first column `c`, each further one shifted down by one, cyclically."""
    c = as_value(c)
    n = np.shape(c)[-1]
    return np.take(c, (np.arange(n)[:, None] - np.arange(n)) % n, axis=-1)


def hankel(c, r=None):
    """``scipy.linalg.hankel``: first column `c`, last row `r` (zeros by default)."""
    c = as_value(c)
    r = np.zeros(np.shape(c), np.result_type(c)) if r is None else as_value(r)
    m, n = np.shape(c)[-1], np.shape(r)[-1]
    return np.take(np.concatenate([c, r[..., 1:]], axis=-1), np.arange(m)[:, None] + np.arange(n), axis=-1)
