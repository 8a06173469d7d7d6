"""Linear systems: solve, inverse, determinant, Cholesky factor, triangular systems; the tools of the other linalg
files.

All work on stacks of matrices (…, M, N). Rules are derived with <X, Y> = Re tr(X^H Y); the core pairs cotangents
without conjugation, so that a rule's results are the conjugates of what the formula gives for conjugate cotangents.
Formulas: M. B. Giles, Collected matrix derivative results for forward and reverse mode AD (2008); I. Murray,
Differentiation of the Cholesky decomposition (2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...graph.graph import Spec
from ...graph.primitive import Primitive
from ...graph.trace import bind
from ...tensor import Tensor, implements
from ..define import as_value

__all__ = [
    "batch_in_front",
    "cholesky",
    "complex_sample",
    "conj",
    "floating",
    "from_triangle",
    "hermitian_p",
    "inv",
    "inv_p",
    "left_solve",
    "lower",
    "mH",
    "mT",
    "per_matrix",
    "positive",
    "real_diagonal",
    "right_solve",
    "same_spec",
    "solve",
    "solve_p",
    "solve_with",
    "stack_of_matrices",
    "to_triangle",
    "triangular_solve_p",
    "upper",
    "well_conditioned",
]

# -- tools ------------------------------------------------------------------------------------------------------------


def mT(x: Any) -> Any:
    """Matrices transposed."""
    if type(x) is np.ndarray:
        return x.swapaxes(-1, -2)
    rank = np.ndim(x)
    return np.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def conj(x: Any) -> Any:
    """Conjugate; real values and None as they are."""
    return np.conjugate(x) if x is not None and np.iscomplexobj(x) else x


def mH(x: Any) -> Any:
    """Matrices transposed and conjugated."""
    return mT(conj(x))


def as_matrices(x: Any) -> Any:
    """Scalars (…) as matrices (…, 1, 1), to be multiplied with matrices."""
    return np.reshape(x, (*np.shape(x), 1, 1))


def real_diagonal(x: Any) -> Any:
    """Diagonals of matrices, without imaginary parts."""
    d = np.diagonal(x, 0, -2, -1)
    return np.real(d) if np.iscomplexobj(d) else d


@cache
def triangle(n: int, m: int, k: int) -> np.ndarray:
    """The mask of ``numpy.tril``: j <= i + k."""
    mask = np.tri(n, m, k, dtype=bool)
    mask.flags.writeable = False
    return mask


def lower(x: Any, k: int = 0) -> Any:
    """``numpy.tril`` of stacks."""
    return np.where(triangle(*np.shape(x)[-2:], k), x, np.zeros((), np.result_type(x)))


def upper(x: Any, k: int = 0) -> Any:
    """``numpy.triu`` of stacks."""
    return np.where(triangle(*np.shape(x)[-2:], k - 1), np.zeros((), np.result_type(x)), x)


def floating(where: str, *xs: Any) -> Any:
    """Arrays of one LAPACK type; integers become float64, as in NumPy."""
    xs = [x if isinstance(x, (Tensor, np.ndarray)) else np.asarray(as_value(x)) for x in xs]
    dtype = xs[0].dtype if len({x.dtype for x in xs}) == 1 else np.result_type(*[x.dtype for x in xs])
    if dtype.kind in "iub":
        dtype = np.dtype(float)
    if dtype.char not in "fdFD":
        raise TypeError(f"{where}: array type {dtype} is unsupported in linalg")
    xs = [x if x.dtype == dtype else np.astype(x, dtype) for x in xs]
    return xs[0] if len(xs) == 1 else xs


def stack_of_matrices(where: str, x: Any, square: bool = True) -> None:
    """Raise NumPy's error if `x` is not a stack of (square) matrices."""
    shape = np.shape(x)
    if len(shape) < 2:
        raise np.linalg.LinAlgError(
            f"{len(shape)}-dimensional array given. Array must be at least two-dimensional (in {where})"
        )
    if square and shape[-1] != shape[-2]:
        raise np.linalg.LinAlgError(f"Last 2 dimensions of the array must be square, got shape {shape} (in {where})")


def same_heads(where: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Stacks of matrices with leading dimensions broadcast."""
    heads = np.shape(a)[:-2], np.shape(b)[:-2]
    if heads[0] == heads[1]:
        return a, b
    try:
        head = np.broadcast_shapes(*heads)
    except ValueError:
        raise ValueError(
            f"{where}: leading dimensions must broadcast, got shapes {np.shape(a)} and {np.shape(b)}"
        ) from None
    return np.broadcast_to(a, head + np.shape(a)[-2:]), np.broadcast_to(b, head + np.shape(b)[-2:])


def batch_in_front(p: Primitive) -> None:
    """Batching rule of operations on stacks: one more leading dimension for every argument and result."""

    def rule(args, axes, size, **params):
        args = [
            np.broadcast_to(x, (size, *np.shape(x))) if ax is None else x if ax == 0 else np.moveaxis(x, ax, 0)
            for x, ax in zip(args, axes, strict=True)
        ]
        out = bind(p, *args, **params)
        return (out, (0,) * len(out)) if p.multiple else (out, 0)

    p.defbatch(rule)


def per_matrix(weight: float, power: Callable[..., float] = lambda m, n: m * n * min(m, n)) -> Callable:
    """Flops of a factorization: `weight` times mn·min(m, n), four times that for complex ones, per matrix of the first
    input.
    """

    def flops(in_specs, out_specs, **params):
        *head, m, n = in_specs[0].shape
        return weight * (4 if in_specs[0].dtype.kind == "c" else 1) * math.prod(head) * power(m, n)

    return flops


def same_spec(a: Spec, **params: Any) -> Spec:
    """Return the spec of a result with the shape and dtype of the operand."""
    return Spec(a.shape, a.dtype)


def well_conditioned(rng: Any, *shape: int) -> np.ndarray:
    """Sample matrices for the conformance tests."""
    return rng.normal(size=shape) * 0.3 + np.eye(shape[-2], shape[-1]) * 2


def complex_sample(rng: Any, *shape: int) -> np.ndarray:
    """Sample complex matrices for the conformance tests."""
    return well_conditioned(rng, *shape) + 0.3j * rng.normal(size=shape)


# -- the derivative along Hermitian matrices --------------------------------------------------------------------------

# Functions of a Hermitian matrix read one of its triangles. Their primitives are differentiated as just that; this
# identity in front of them makes cotangents Hermitian, so that a gradient step leaves a symmetric matrix symmetric.
# (On the sample matrices, real and 1 by 1, the two agree.)
hermitian_p = Primitive(
    "hermitian",
    lambda a: a,
    same_spec,
    kind="pull",
    flops=0,
    pull=lambda b, index, loads, in_specs, out_spec: loads[0](index),
    samples=lambda rng: [((rng.normal(size=(2, 1, 1)),), {})],
)
hermitian_p.defvjp(lambda ct, out, a: (ct + mH(ct)) / 2)
hermitian_p.defjvp(lambda t, out, a: (t + mH(t)) / 2)
hermitian_p.defbatch(lambda args, axes, size: (bind(hermitian_p, np.moveaxis(args[0], axes[0], 0)), 0))


def from_triangle(t: Any, low: bool = True) -> Any:
    """The Hermitian matrix that LAPACK sees when it reads a triangle of `t`."""
    strict = lower(t, -1) if low else upper(t, 1)
    d = real_diagonal(t)
    return (
        strict + mH(strict) + np.where(np.eye(np.shape(t)[-1], dtype=bool), d[..., None], 0).astype(np.result_type(t))
    )


def to_triangle(g: Any, low: bool = True) -> Any:
    """The transpose of `from_triangle`."""
    both = g + mH(g)
    strict = lower(both, -1) if low else upper(both, 1)
    return strict + np.where(np.eye(np.shape(g)[-1], dtype=bool), real_diagonal(g)[..., None], 0).astype(
        np.result_type(g)
    )


# -- solve ------------------------------------------------------------------------------------------------------------


def _solve_spec(a, b):
    if a.shape[:-1] != b.shape[:-1]:
        raise ValueError(f"solve: a (…, n, n) and b (…, n, k) must agree, got {a} and {b}")
    return Spec(b.shape, b.dtype)


def _solve_flops(in_specs, out_specs):
    a, b = in_specs
    n = a.shape[-1]
    return (4 if a.dtype.kind == "c" else 1) * math.prod(a.shape[:-2]) * (2 / 3 * n**3 + 2 * n**2 * b.shape[-1])


solve_p = Primitive(
    "solve",
    np.linalg.solve,
    _solve_spec,
    flops=_solve_flops,
    samples=lambda rng: [
        ((well_conditioned(rng, 3, 3), rng.normal(size=(3, 2))), {}),
        ((complex_sample(rng, 2, 3, 3), complex_sample(rng, 2, 3, 1)), {}),
    ],
)
solve_p.defjvp(lambda t, out, a, b: -bind(solve_p, a, np.matmul(t, out)), lambda t, out, a, b: bind(solve_p, a, t))


@solve_p.defvjp_all
def _(ct, out, args, needed):
    y = bind(solve_p, mT(args[0]), ct)
    return [-np.matmul(y, mT(out)) if needed[0] else None, y]


def batch_of_systems(p: Primitive) -> None:
    """Batching rule of p(matrix, right-hand sides): with one matrix, the batch becomes more right-hand sides."""

    def rule(args, axes, size, **params):
        a, b = args
        axa, axb = axes
        if axa is None and np.ndim(a) == 2:
            b = np.moveaxis(b, axb, -1)
            n, k, _ = np.shape(b)
            return np.reshape(bind(p, a, np.reshape(b, (n, k * size)), **params), (n, k, size)), 2
        a, b = [
            np.broadcast_to(x, (size, *np.shape(x))) if ax is None else np.moveaxis(x, ax, 0)
            for x, ax in zip(args, axes, strict=True)
        ]
        return bind(p, a, b, **params), 0

    p.defbatch(rule)


batch_of_systems(solve_p)


def solve_with(p: Primitive, where: str, a: Any, b: Any, vector: bool, **params: Any) -> Any:
    """Apply a system-solving primitive with broadcasting; `vector`: `b` is (…, n) rather than (…, n, k)."""
    if vector:
        b = np.reshape(b, (*np.shape(b), 1))
    if np.shape(a)[-1] != np.shape(b)[-2]:
        raise ValueError(
            f"{where}: a and b must have as many rows, got shapes {np.shape(a)} and "
            f"{np.shape(b)[:-1] if vector else np.shape(b)}"
        )
    if np.ndim(a) == 2 and np.ndim(b) > 2:  # many right-hand sides for one matrix
        *head, n, k = np.shape(b)
        columns = np.reshape(np.moveaxis(b, -2, 0), (n, -1))
        x = np.moveaxis(np.reshape(bind(p, a, columns, **params), (n, *head, k)), 0, -2)
    else:
        x = bind(p, *same_heads(where, a, b), **params)
    return np.reshape(x, np.shape(x)[:-1]) if vector else x


@implements(np.linalg.solve)
def solve(a, b):
    """``numpy.linalg.solve``: x with ``a @ x = b``; stacks broadcast, `b` is a vector only if one-dimensional."""
    a, b = floating("solve", a, b)
    stack_of_matrices("solve", a)
    return solve_with(solve_p, "solve", a, b, np.ndim(b) == 1)


# -- triangular systems -----------------------------------------------------------------------------------------------


_SMALL = 48  # triangles up to this size are solved as general systems


def _triangular_solve(a, b, *, lower, transpose, unit):
    """By halves, products doing the work. All of it is NumPy's BLAS: SciPy brings another with threads of its own, and
    two
    pools that wait for work on the same cores made a product followed by SciPy's trsm 50 times slower.
    """
    if not unit:
        zero = np.diagonal(a, 0, -2, -1) == 0
        if zero.any():
            raise np.linalg.LinAlgError(
                f"singular matrix: resolution failed at diagonal {int(np.argwhere(zero)[0][-1])}"
            )
    if transpose:
        a, lower = a.swapaxes(-1, -2), not lower
    out = np.array(b, order="C")
    _by_halves(a, out, lower, unit)
    return out


def _by_halves(a, b, lower, unit):
    """Replace `b` by the solution."""
    n = a.shape[-1]
    if n <= _SMALL:
        a = np.where(triangle(n, n, 0) if lower else triangle(n, n, 0).T, a, a.dtype.type(0))
        if unit:
            a[..., np.arange(n), np.arange(n)] = 1
        # many right-hand sides: the inverse of a small triangle, which is as accurate (Higham, Accuracy and Stability
        # of Numerical Algorithms, 2002, section 14.2), spares copying them to LAPACK's order
        b[...] = np.matmul(np.linalg.inv(a), b) if b.shape[-1] > n else np.linalg.solve(a, b)
        return
    h = n // 2
    first, second = (slice(0, h), slice(h, n)) if lower else (slice(h, n), slice(0, h))
    _by_halves(a[..., first, first], b[..., first, :], lower, unit)
    b[..., second, :] -= np.matmul(a[..., second, first], b[..., first, :])
    _by_halves(a[..., second, second], b[..., second, :], lower, unit)


triangular_solve_p = Primitive(
    "triangular_solve",
    _triangular_solve,
    lambda a, b, **params: _solve_spec(a, b),
    flops=lambda in_specs, out_specs, **params: (
        (4 if in_specs[0].dtype.kind == "c" else 1) * in_specs[0].shape[-1] * in_specs[1].size
    ),
    samples=lambda rng: (
        [
            ((well_conditioned(rng, 3, 3), rng.normal(size=(3, 2))), {"lower": l, "transpose": t, "unit": u})
            for l, t, u in ((True, False, False), (False, False, False), (True, True, False), (False, True, True))
        ]
        + [
            (
                (complex_sample(rng, 2, 3, 3), complex_sample(rng, 2, 3, 3)),
                {"lower": True, "transpose": True, "unit": False},
            )
        ]
    ),
)


def _of_triangle(x, lower_, unit):
    return (lower(x, -1 if unit else 0)) if lower_ else upper(x, 1 if unit else 0)


@triangular_solve_p.defvjp_all
def _(ct, out, args, needed, *, lower, transpose, unit):
    y = bind(triangular_solve_p, args[0], ct, lower=lower, transpose=not transpose, unit=unit)
    if not needed[0]:
        return [None, y]
    g = np.matmul(out, mT(y)) if transpose else np.matmul(y, mT(out))
    return [-_of_triangle(g, lower, unit), y]


def _triangular_jvp_a(t, out, a, b, *, lower, transpose, unit):
    t = _of_triangle(t, lower, unit)
    return -bind(
        triangular_solve_p, a, np.matmul(mT(t) if transpose else t, out), lower=lower, transpose=transpose, unit=unit
    )


triangular_solve_p.defjvp(_triangular_jvp_a, lambda t, out, a, b, **params: bind(triangular_solve_p, a, t, **params))
batch_of_systems(triangular_solve_p)


def left_solve(a: Any, b: Any, *, low: bool = True, adjoint: bool = False) -> Any:
    """``A⁻¹ b`` (``A⁻ᴴ b``) for a triangular matrix, as used in rules."""
    return bind(triangular_solve_p, conj(a) if adjoint else a, b, lower=low, transpose=adjoint, unit=False)


def right_solve(b: Any, a: Any, *, low: bool, adjoint: bool = False) -> Any:
    """``b A⁻¹`` (``b A⁻ᴴ``) for a triangular matrix."""
    return mT(bind(triangular_solve_p, conj(a) if adjoint else a, mT(b), lower=low, transpose=not adjoint, unit=False))


# -- inverse -----------------------------------------------------------------------------------------------------------


def _inverse(a):
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        raise np.linalg.LinAlgError(
            f"inv: Singular matrix among {np.shape(a)} (the derivatives of inv, slogdet and solve, and third ones of "
            f"det, need the inverse too)"
        ) from None


inv_p = Primitive(
    "inv",
    _inverse,
    same_spec,
    flops=per_matrix(2.0),
    samples=lambda rng: [((well_conditioned(rng, 3, 3),), {}), ((complex_sample(rng, 2, 3, 3),), {})],
)
inv_p.defvjp(lambda ct, out, a: -np.matmul(np.matmul(mT(out), ct), mT(out)))
inv_p.defjvp(lambda t, out, a: -np.matmul(np.matmul(out, t), out))
batch_in_front(inv_p)


@implements(np.linalg.inv)
def inv(a):
    """``numpy.linalg.inv``."""
    a = floating("inv", a)
    stack_of_matrices("inv", a)
    return bind(inv_p, a)


# -- Cholesky ----------------------------------------------------------------------------------------------------------


def _half_lower(x):
    """Lower triangle with the diagonal halved."""
    return lower(x) - np.where(np.eye(np.shape(x)[-1], dtype=bool), x / 2, 0).astype(np.result_type(x))


def positive(rng: Any, *shape: int) -> np.ndarray:
    """Sample positive definite matrices."""
    x = rng.normal(size=shape)
    return x @ np.swapaxes(x, -1, -2) + 2 * np.eye(shape[-1])


cholesky_p = Primitive(
    "cholesky",
    np.linalg.cholesky,
    same_spec,
    flops=per_matrix(1 / 3),
    samples=lambda rng: [((positive(rng, 3, 3),), {}), ((positive(rng, 2, 3, 3),), {})],
)


@cholesky_p.defjvp_all
def _(tangents, out, args):
    t = from_triangle(tangents[0])
    inner = right_solve(left_solve(out, t), out, low=True, adjoint=True)
    return np.matmul(out, _half_lower(inner))


@cholesky_p.defvjp_all
def _(ct, out, args, needed):
    inner = _half_lower(np.matmul(mH(out), conj(ct)))
    g = right_solve(left_solve(out, inner, adjoint=True), out, low=True)
    return [conj(to_triangle((g + mH(g)) / 2))]


batch_in_front(cholesky_p)


@implements(np.linalg.cholesky)
def cholesky(a, /, *, upper=False):
    """``numpy.linalg.cholesky``. Reads one triangle; the gradient is the Hermitian one."""
    a = floating("cholesky", a)
    stack_of_matrices("cholesky", a)
    a = bind(hermitian_p, a)
    return mH(bind(cholesky_p, mH(a))) if upper else bind(cholesky_p, a)
