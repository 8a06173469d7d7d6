"""Derivatives of eigenvectors and singular vectors where eigenvalues (singular values) coincide to rounding.

The vectors of a degenerate eigenvalue w are a basis Q of its eigenspace that may be rotated freely, and have no
derivative. A function of all of w and V that does not see the rotation, such as V h(w) V^H, does have one: within the
eigenspace it is a Hermitian matrix M, of which reverse mode knows the diagonal, the cotangent of the eigenvalues. The
rest follows from the cotangent of the vectors, K = Q^H (df/dQ), in two cases. Where M = c I, as for symmetric functions
of the eigenvalues and for projectors on whole eigenspaces, its diagonal is constant. Where f = tr(B V h(w) V^H), M =
h'(w) C and K = 2 h(w) C with C = Q^H B Q, so that M is a multiple of K. Both follow from the diagonals, provided
that the basis is not aligned with B: reverse mode therefore reflects the basis that LAPACK returns. Anything else is
NaN: a function that sees the rotation (K is not Hermitian), several matrix functions at once, and derivatives of higher
order, in which `sealed` puts NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..define import elementwise

__all__ = ["differences", "off_diagonal", "reflected"]


def _coincide(x: Any) -> Any:
    """Mask [..., i, j] of values that are equal to rounding: within n ε max|x|, the backward error of the
    algorithms.
    """
    noise = np.shape(x)[-1] * np.finfo(np.result_type(x)).eps * np.max(np.abs(x), axis=-1, keepdims=True, initial=0.0)
    return np.less_equal(np.abs(x[..., None, :] - x[..., :, None]), noise[..., None])


def differences(x: Any) -> Any:
    """1/(xj - xi): 0 on the diagonal, and NaN elsewhere where they coincide."""
    d = x[..., None, :] - x[..., :, None]
    same = _coincide(x)
    none = np.where(np.eye(np.shape(x)[-1], dtype=bool), 0.0, np.nan).astype(np.result_type(d))
    return np.where(same, none, 1 / np.where(same, np.ones((), np.result_type(d)), d))


def reflected(x: Any, *vectors: Any) -> tuple[Any, ...]:
    """The columns of each of `vectors`, reflected within the spaces of coinciding `x` at one hyperplane."""
    n = np.shape(x)[-1]
    dtype = np.result_type(x)
    u = (0.3 + np.modf(np.arange(1, n + 1) * 0.6180339887498949)[0]).astype(dtype)
    same = _coincide(x)
    several = np.greater(np.sum(same, axis=-1, keepdims=True), 1) & same
    square = np.sum(np.where(same, u * u, np.zeros((), dtype)), axis=-1, keepdims=True)
    h = np.eye(n, dtype=dtype) - np.where(several, 2 * u[:, None] * u / square, np.zeros((), dtype))
    return tuple([np.matmul(v, h.astype(np.result_type(v))) for v in vectors])


def _sealed_loop(x, same):
    return x.dtype, np.dtype(bool), x.dtype


sealed = elementwise(
    "sealed",
    impl=lambda x, same: np.where(same, x, x),
    loop=_sealed_loop,
    d=(lambda out, x, same: np.where(same, np.nan, 1.0), None),
    emit=lambda b, x, same: x,
    domain=((-2, 2), (-2, 2)),
    doc="`x`, whose derivative is NaN where `same`.",
)
sealed.primitive.samples = lambda rng: [((rng.normal(size=(2, 3)), np.zeros((2, 3), bool)), {})]


def off_diagonal(k: Any, ct: Any, x: Any) -> Any:
    """Return the part of a gradient between different vectors, before its Hermitian part is taken.

    `k` (..., n, n) is the cotangent of the vectors in their own basis, `ct` that of the eigenvalues `x`, both (..., n).
    """
    n, real = np.shape(x)[-1], np.result_type(x)
    same, diagonal = _coincide(x), np.eye(n, dtype=bool)
    zero, one = np.zeros((), real), np.ones((), real)
    kept = np.real(np.diagonal(k, 0, -2, -1))
    row = lambda v: np.where(same, v[..., None, :], zero)
    slope = lambda v: np.sum(v, axis=-1)
    below = slope(row(kept * kept))
    factor = slope(row(kept * ct)) / np.where(np.equal(below, 0), one, below)
    mean = slope(row(ct)) / slope(same.astype(real))
    near = np.sqrt(np.finfo(real).eps) * slope(row(np.abs(ct)))
    constant = np.less_equal(slope(np.abs(np.where(same, ct[..., None, :] - mean[..., :, None], zero))), near)
    multiple = np.less_equal(
        slope(np.abs(np.where(same, ct[..., None, :] - factor[..., :, None] * kept[..., None, :], zero))), near
    )
    skew = k - np.conjugate(np.swapaxes(k, -1, -2))
    size = np.sqrt(np.finfo(real).eps) * np.max(np.abs(k), axis=(-2, -1), keepdims=True, initial=0.0)
    inside = np.where(constant, zero, np.where(multiple, factor, np.nan))[..., :, None] * k
    inside = np.where(np.greater(np.abs(skew), size), np.nan, inside)
    d = np.where(same, one, x[..., None, :] - x[..., :, None])
    return np.where(diagonal, np.zeros((), np.result_type(k)), np.where(same, sealed(inside, same), k / d))
