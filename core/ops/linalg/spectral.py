"""Factorizations of matrices: eigenvalues, singular values, QR.

Where eigenvalues (singular values) coincide to rounding, their vectors have no derivative: it is NaN in forward mode.
In reverse mode functions that do not depend on the choice of the vectors have one (see `degenerate`).
Formulas: Giles 2008; S. F. Walter and L. Lehmann, arXiv:1001.1654 (QR); M. Seeger et al., arXiv:1710.08717; Z.-Q. Wan
and S.-X. Zhang, arXiv:1909.02659 (complex singular vectors).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...errors import MissingRuleError
from ...graph.graph import Spec
from ...graph.primitive import Primitive
from ...graph.trace import bind
from ...tensor import implements
from ..complex import complex_dtype, real_dtype
from .basic import (
    batch_in_front,
    conj,
    floating,
    from_triangle,
    hermitian_p,
    inv_p,
    lower,
    mH,
    mT,
    per_matrix,
    positive,
    real_diagonal,
    right_solve,
    solve_p,
    stack_of_matrices,
    to_triangle,
    upper,
    well_conditioned,
)
from .degenerate import differences, off_diagonal, reflected

__all__ = ["eigh", "eigvals", "eigvalsh", "qr", "svd", "svdvals", "svdvals_p"]


def on_diagonal(x: Any, dtype: Any = None) -> Any:
    """Diagonal matrices."""
    n = np.shape(x)[-1]
    x = np.where(np.eye(n, dtype=bool), x[..., None], np.zeros((), np.result_type(x)))
    return x if dtype is None or np.result_type(x) == dtype else np.astype(x, dtype)


def _like(g, x):
    """The cotangent of a real argument is real."""
    return np.real(g) if np.iscomplexobj(g) and not np.iscomplexobj(x) else g


def imaginary_diagonal(x: Any) -> Any:
    """The imaginary part of diagonals, as a diagonal matrix."""
    return 1j * on_diagonal(np.imag(np.diagonal(x, 0, -2, -1)))


# -- Hermitian eigenvalues
# ----------------------------------------------------------------------------------------------


class EighResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


def _symmetric(rng, *shape):
    return positive(rng, *shape) + np.diag(np.arange(shape[-1]) * 2.0)


eigh_p = Primitive(
    "eigh",
    lambda a, *, lower: tuple(np.linalg.eigh(a, "L" if lower else "U")),
    lambda a, *, lower: (Spec(a.shape[:-1], real_dtype(a.dtype)), Spec(a.shape, a.dtype)),
    multiple=True,
    flops=per_matrix(9.0),
    samples=lambda rng: [((_symmetric(rng, 3, 3),), {"lower": True}), ((_symmetric(rng, 2, 3, 3),), {"lower": False})],
)
eigvalsh_p = Primitive(
    "eigvalsh",
    lambda a, *, lower: np.linalg.eigvalsh(a, "L" if lower else "U"),
    lambda a, *, lower: Spec(a.shape[:-1], real_dtype(a.dtype)),
    flops=per_matrix(4 / 3),
    samples=lambda rng: [((_symmetric(rng, 3, 3),), {"lower": True})],
)


@eigh_p.deftaped
def _(args, needed, *, lower):
    w, v = bind(eigh_p, *args, lower=lower)
    (v,) = reflected(w, v)

    def pullback(ct):
        ct_w, ct_v = ct[0], conj(ct[1])
        inner = None
        if ct_v is not None:
            inner = off_diagonal(np.matmul(mH(v), ct_v), np.zeros_like(w) if ct_w is None else ct_w, w)
        if ct_w is not None:
            d = on_diagonal(ct_w, np.result_type(v))
            inner = d if inner is None else inner + d
        g = np.matmul(np.matmul(v, inner), mH(v))
        # LAPACK reads a triangle, which stands for a Hermitian matrix
        return [conj(to_triangle((g + mH(g)) / 2, lower))]

    return (w, v), pullback


@eigh_p.defjvp_all
def _(tangents, out, args, *, lower):
    w, v = out
    inner = np.matmul(np.matmul(mH(v), from_triangle(tangents[0], lower)), v)
    return real_diagonal(inner), np.matmul(v, inner * differences(w))


@eigvalsh_p.defvjp_all
def _(ct, out, args, needed, *, lower):
    _, v = bind(eigh_p, args[0], lower=lower)
    return [conj(to_triangle(np.matmul(v * ct[..., None, :], mH(v)), lower))]


@eigvalsh_p.defjvp_all
def _(tangents, out, args, *, lower):
    _, v = bind(eigh_p, args[0], lower=lower)
    return real_diagonal(np.matmul(np.matmul(mH(v), from_triangle(tangents[0], lower)), v))


batch_in_front(eigh_p)
batch_in_front(eigvalsh_p)


def _triangle_name(uplo):
    if uplo not in ("L", "U", "l", "u"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    return uplo in ("L", "l")


@implements(np.linalg.eigh)
def eigh(a, UPLO="L"):
    """``numpy.linalg.eigh``. The gradient is Hermitian.

    Vectors of coinciding eigenvalues are free to be rotated: reverse mode takes others of them than NumPy. Functions
    that do not depend on the choice keep their gradient, others get NaN.
    """
    a = floating("eigh", a)
    stack_of_matrices("eigh", a)
    return EighResult(*bind(eigh_p, bind(hermitian_p, a), lower=_triangle_name(UPLO)))


@implements(np.linalg.eigvalsh)
def eigvalsh(a, UPLO="L"):
    """``numpy.linalg.eigvalsh``. The gradient is Hermitian."""
    a = floating("eigvalsh", a)
    stack_of_matrices("eigvalsh", a)
    return bind(eigvalsh_p, bind(hermitian_p, a), lower=_triangle_name(UPLO))


# -- eigenvalues of general matrices
# ------------------------------------------------------------------------------------


class EigResult(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


def _eig(a):
    w, v = np.linalg.eig(a)
    dtype = complex_dtype(a.dtype)
    return w.astype(dtype), v.astype(dtype)


def _eig_sample(rng):
    return [((np.diag([1.0, 2.5, 4.0]) + 0.2 * rng.normal(size=(3, 3)),), {})]


eig_p = Primitive(
    "eig",
    _eig,
    lambda a: (Spec(a.shape[:-1], complex_dtype(a.dtype)), Spec(a.shape, complex_dtype(a.dtype))),
    multiple=True,
    flops=per_matrix(25.0),
    samples=_eig_sample,
)
eigvals_p = Primitive(
    "eigvals",
    lambda a: np.linalg.eigvals(a).astype(complex_dtype(a.dtype)),
    lambda a: Spec(a.shape[:-1], complex_dtype(a.dtype)),
    flops=per_matrix(10.0),
    samples=_eig_sample,
)


def _largest(v):
    """Mask of the component of each vector that LAPACK makes real: the largest one."""
    rows = np.reshape(np.arange(np.shape(v)[-2]), (-1, 1))
    return np.equal(rows, np.argmax(np.abs(v), axis=-2)[..., None, :])


def _column_sum(x):
    return np.sum(x, axis=-2, keepdims=True)


@eig_p.defjvp_all
def _(tangents, out, args):
    w, v = out
    inner = bind(solve_p, v, np.matmul(np.astype(tangents[0], np.result_type(v)), v))
    z = np.matmul(v, inner * differences(w))
    # vectors keep their length, and their largest component stays real
    stretch = np.real(_column_sum(conj(v) * z))
    turn = np.imag(_column_sum(np.where(_largest(v), z / v, 0)))
    return np.diagonal(inner, 0, -2, -1), z - v * (stretch + 1j * turn).astype(np.result_type(v))


@eig_p.defvjp_all
def _(ct, out, args, needed):
    w, v = out
    ct_w, ct_v = conj(ct[0]), conj(ct[1])
    inner: Any = None
    if ct_v is not None:
        n = -_column_sum(conj(v) * ct_v)
        z = ct_v + v * np.real(n) + np.where(_largest(v), 1j * np.imag(n) / conj(v), 0)
        inner = np.matmul(mH(v), z) * conj(differences(w))
    if ct_w is not None:
        d = on_diagonal(ct_w)
        inner = d if inner is None else inner + d
    g = bind(solve_p, mH(v), np.matmul(inner.astype(np.result_type(v)), mH(v)))
    return [_like(conj(g), args[0])]


@eigvals_p.defjvp_all
def _(tangents, out, args):
    _, v = bind(eig_p, args[0])
    return np.diagonal(bind(solve_p, v, np.matmul(np.astype(tangents[0], np.result_type(v)), v)), 0, -2, -1)


@eigvals_p.defvjp_all
def _(ct, out, args, needed):
    _, v = bind(eig_p, args[0])
    return [_like(mT(np.matmul(v * ct[..., None, :], bind(inv_p, v))), args[0])]


batch_in_front(eig_p)
batch_in_front(eigvals_p)


@implements(np.linalg.eig)
def eig(a):
    """``numpy.linalg.eig``; results are always complex here, as their dtype cannot depend on values."""
    a = floating("eig", a)
    stack_of_matrices("eig", a)
    return EigResult(*bind(eig_p, a))


@implements(np.linalg.eigvals)
def eigvals(a):
    """``numpy.linalg.eigvals``; the result is always complex here, as its dtype cannot depend on values."""
    a = floating("eigvals", a)
    stack_of_matrices("eigvals", a)
    return bind(eigvals_p, a)


# -- singular values ---------------------------------------------------------------------------------------------------


class SVDResult(NamedTuple):
    U: Any
    S: Any
    Vh: Any


def _svd_spec(a, *, full=False):
    *head, m, n = a.shape
    k = min(m, n)
    return (
        Spec((*head, m, m if full else k), a.dtype),
        Spec((*head, k), real_dtype(a.dtype)),
        Spec((*head, n if full else k, n), a.dtype),
    )


def _svd_samples(rng):
    return [
        ((np.diag([3.0, 2.0, 1.0])[:m, :n] + 0.3 * rng.normal(size=(m, n)),), {"full": False})
        for m, n in ((3, 3), (3, 2), (2, 3))
    ]


svd_p = Primitive(
    "svd",
    lambda a, *, full: tuple(np.linalg.svd(a, full)),
    _svd_spec,
    multiple=True,
    flops=per_matrix(14.0),
    samples=_svd_samples,
)
svdvals_p = Primitive(
    "svdvals",
    lambda a: np.linalg.svd(a, compute_uv=False),
    lambda a: _svd_spec(a)[1],
    flops=per_matrix(8 / 3),
    samples=lambda rng: [(args, {}) for args, _ in _svd_samples(rng)],
)


def _refuse_full(full, out):
    u, _, vh = out
    if full and np.shape(u)[-1] != np.shape(vh)[-1]:
        raise MissingRuleError(
            f"svd: vectors beyond the smaller dimension have no derivative, got shapes {np.shape(u)} and "
            f"{np.shape(vh)} (use full_matrices=False)"
        )


def _inverse(s):
    """1/s, and NaN where it is 0 to rounding: what it is needed for has no derivative there."""
    return _inverse_sum(s, s)


def _inverse_sum(x, s):
    """1/x for sums of the singular values `s`."""
    noise = max(1, np.shape(s)[-1]) * np.finfo(np.result_type(s)).eps * np.max(s, axis=-1, keepdims=True, initial=0.0)
    zero = np.less_equal(x, noise if np.ndim(x) == np.ndim(s) else noise[..., None])
    return np.where(zero, np.nan, 1 / np.where(zero, np.ones((), np.result_type(s)), x)).astype(np.result_type(s))


def _inverse_sums(s):
    """1/(si + sj), 0 on the diagonal of vanishing ones: nothing is turned there."""
    x = _inverse_sum(s[..., None, :] + s[..., :, None], s)
    return np.where(np.isnan(x) & np.eye(np.shape(s)[-1], dtype=bool), np.zeros((), np.result_type(s)), x)


@svd_p.defjvp_all
def _(tangents, out, args, *, full):
    _refuse_full(full, out)
    u, s, vh = out
    v = mH(vh)
    t = tangents[0]
    p = np.matmul(np.matmul(mH(u), t), v)
    ds = real_diagonal(p)
    even = (p + mH(p)) / 2 * differences(s)
    odd = (p - mH(p)) / 2 * _inverse_sums(s)
    du, dv = even + odd, even - odd
    du, dv = np.matmul(u, du), np.matmul(v, dv)
    m, n = np.shape(args[0])[-2:]
    if m > n:
        tv = np.matmul(t, v)
        du = du + (tv - np.matmul(u, np.matmul(mH(u), tv))) * _inverse(s)[..., None, :]
    if n > m:
        tu = np.matmul(mH(t), u)
        dv = dv + (tu - np.matmul(v, np.matmul(vh, tu))) * _inverse(s)[..., None, :]
    dtype = np.result_type(u)
    return np.astype(du, dtype), ds, mH(np.astype(dv, dtype))


@svd_p.deftaped
def _(args, needed, *, full):
    u, s, vh = bind(svd_p, *args, full=full)
    m, n = np.shape(args[0])[-2:]
    if not full or m == n:
        u, v = reflected(s, u, mH(vh))
        vh = mH(v)

    def pullback(ct):
        _refuse_full(full, (u, s, vh))
        ct_u, ct_s, ct_v = conj(ct[0]), ct[1], None if ct[2] is None else mT(ct[2])
        dtype = np.result_type(u)
        inner = None if ct_s is None else on_diagonal(ct_s, dtype)
        beyond = None
        k_u = None if ct_u is None else np.matmul(mH(u), ct_u)
        k_v: Any = None if ct_v is None else np.matmul(vh, ct_v)
        if k_u is not None or k_v is not None:
            plus = k_v if k_u is None else k_u if k_v is None else k_u + k_v
            minus = -k_v if k_u is None else k_u if k_v is None else k_u - k_v
            plus = off_diagonal(plus, np.zeros_like(s) if ct_s is None else ct_s, s)
            minus = minus * _inverse_sums(s)
            both = (plus + mH(plus) + minus - mH(minus)) / 2
            inner = both if inner is None else inner + both
        if k_u is not None and m > n:
            beyond = np.matmul((ct_u - np.matmul(u, k_u)) * _inverse(s)[..., None, :], vh)
        if k_v is not None and n > m:
            beyond = np.matmul(u * _inverse(s)[..., None, :], mH(ct_v - np.matmul(mH(vh), k_v)))
        g = np.matmul(np.matmul(u, np.astype(inner, dtype)), vh)
        return [conj(g if beyond is None else g + beyond)]

    return (u, s, vh), pullback


@svdvals_p.defjvp_all
def _(tangents, out, args):
    u, _, vh = bind(svd_p, args[0], full=False)
    return real_diagonal(np.matmul(np.matmul(mH(u), tangents[0]), mH(vh)))


@svdvals_p.defvjp_all
def _(ct, out, args, needed):
    u, _, vh = bind(svd_p, args[0], full=False)
    return [conj(np.matmul(u * ct[..., None, :], vh))]


batch_in_front(svd_p)
batch_in_front(svdvals_p)


@implements(np.linalg.svd)
def svd(a, full_matrices=True, compute_uv=True, hermitian=False):
    """``numpy.linalg.svd``. Derivatives need ``full_matrices=False`` (or a square matrix)."""
    a = floating("svd", a)
    stack_of_matrices("svd", a, square=False)
    if not compute_uv:
        return bind(svdvals_p, a)
    return SVDResult(*bind(svd_p, a, full=bool(full_matrices)))


@implements(np.linalg.svdvals)
def svdvals(x, /):
    """``numpy.linalg.svdvals``."""
    return svd(x, compute_uv=False)


# -- QR ---------------------------------------------------------------------------------------------------------------


class QRResult(NamedTuple):
    Q: Any
    R: Any


def _qr_spec(a, *, mode):
    *head, m, n = a.shape
    k = m if mode == "complete" else min(m, n)
    return Spec((*head, m, k), a.dtype), Spec((*head, k, n), a.dtype)


qr_p = Primitive(
    "qr",
    lambda a, *, mode: tuple(np.linalg.qr(a, mode)),
    _qr_spec,
    multiple=True,
    flops=per_matrix(4.0),
    samples=lambda rng: [((well_conditioned(rng, *shape),), {"mode": "reduced"}) for shape in ((3, 3), (2, 4, 3))],
)


def _refuse_wide(out, args):
    m, n = np.shape(args[0])[-2:]
    if np.shape(out[0])[-1] != n:
        raise MissingRuleError(f"qr: no derivative for a {m} by {n} matrix in mode 'complete' (use mode='reduced')")


@qr_p.defjvp_all
def _(tangents, out, args, *, mode):
    _refuse_wide(out, args)
    q, r = out
    w = right_solve(tangents[0], r, low=False)
    x = np.matmul(mH(q), w)
    strict = lower(x, -1)
    omega = strict - mH(strict)  # Q^H dQ: anti-Hermitian, such that dR is upper triangular with a real diagonal
    if np.iscomplexobj(x):
        omega = (omega + imaginary_diagonal(x)).astype(np.result_type(x))
    return np.matmul(q, omega - x) + w, np.matmul(x - omega, r)


@qr_p.defvjp_all
def _(ct, out, args, needed, *, mode):
    _refuse_wide(out, args)
    q, r = out
    ct_q, ct_r = conj(ct[0]), conj(ct[1])
    n = None if ct_r is None else np.matmul(ct_r, mH(r))
    if ct_q is not None:
        k = np.matmul(mH(q), ct_q)
        n = -k if n is None else n - k
    strict = upper(n, 1)
    inner = strict + mH(strict) + on_diagonal(real_diagonal(n), np.result_type(n))
    g = np.matmul(q, inner)
    return [conj(right_solve(g if ct_q is None else ct_q + g, r, low=False, adjoint=True))]


batch_in_front(qr_p)


@implements(np.linalg.qr)
def qr(a, mode="reduced"):
    """``numpy.linalg.qr`` in modes reduced, complete and r.

    Derivatives need the first min(m, n) columns to be independent.
    """
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode must be 'reduced', 'complete' or 'r' for traced values, got {mode!r}")
    a = floating("qr", a)
    stack_of_matrices("qr", a, square=False)
    m, n = np.shape(a)[-2:]
    if m < n:
        q, r = bind(qr_p, a[..., :m], mode="reduced")
        r = np.concatenate([r, np.matmul(mH(q), a[..., m:])], axis=-1)
    else:
        q, r = bind(qr_p, a, mode="complete" if mode == "complete" and m > n else "reduced")
    return r if mode == "r" else QRResult(q, r)
