"""Damped inverses of the blocks of a Fisher matrix, and their product with a gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.linalg.positive import positive_inverse
from .base import Rate, rate_of
from .curvature import Curvature

__all__ = ["add_scaled", "blend", "block_inverse", "dot", "precondition", "scalar", "scalar_dtype", "split", "trace"]


def scalar_dtype(leaves: Sequence[Any]) -> np.dtype:
    """The dtype of the numbers of a step: the widest of the float parameters."""
    return np.result_type(*[x for x in map(np.result_type, leaves) if x.kind == "f"])


def scalar(setting: Rate, count: Any, dtype: np.dtype) -> Any:
    """A setting, which may be a schedule, as a number of the step after `count` steps."""
    number = rate_of(setting, count)
    return np.astype(np.asarray(number) if isinstance(number, (int, float)) else number, dtype)


def blend(old: Any, new: Any, weight: Any) -> Any:
    """``weight * old + (1 - weight) * new`` in the dtype of `new`."""
    weight = np.astype(weight, np.result_type(new))
    return weight * old + (1 - weight) * new


def trace(factor: Any) -> Any:
    """Trace of a factor: a matrix, the diagonal of one, or a stack of diagonal blocks."""
    return np.sum(factor) if np.ndim(factor) == 1 else np.sum(np.trace(factor, axis1=-2, axis2=-1))


def split(factor: Any, size: int) -> Any:
    """The diagonal blocks of a matrix, (blocks, size, size); the last one is filled with zeros."""
    n = np.shape(factor)[0]
    count = -(-n // size)
    full = np.pad(factor, (0, count * size - n))
    return np.stack([full[k * size : (k + 1) * size, k * size : (k + 1) * size] for k in range(count)])


def block_inverse(factors: tuple[Any, ...], sizes: Sequence[int], damping: Any) -> tuple[Any, ...]:
    """Inverses of the factors of one block with Tikhonov damping (Martens & Grosse 2015, section 6.3).

    The factors of a Kronecker product get pi sqrt(damping) and sqrt(damping) / pi on their diagonals, where pi² is the
    quotient of their mean eigenvalues; `sizes` are the dimensions of the factors.
    """
    if not factors:
        return ()
    damping = np.astype(damping, np.result_type(factors[0]))
    if len(factors) == 1:
        return (1 / (factors[0] + damping),)
    a, g = (trace(f) / n for f, n in zip(factors, sizes, strict=True))
    one = np.ones((), np.result_type(a))
    known = (a > 0) & (g > 0)
    pi = np.sqrt(np.where(known, a, one) / np.where(known, g, one))
    root = np.sqrt(damping)
    return _inverse(factors[0], root * pi), _inverse(factors[1], root / pi)


def _inverse(factor, damping):
    if np.ndim(factor) == 1:
        return 1 / (factor + damping)
    return positive_inverse(factor + damping * np.eye(np.shape(factor)[-1], dtype=np.result_type(factor)))


def _times(factor, x):
    """A factor times a matrix."""
    if np.ndim(factor) != 3:
        return factor[:, None] * x if np.ndim(factor) == 1 else factor @ x
    (count, size, _), (n, m) = np.shape(factor), np.shape(x)
    x = np.reshape(np.pad(x, ((0, count * size - n), (0, 0))), (count, size, m))
    return np.reshape(factor @ x, (count * size, m))[:n]


def precondition(curvature: Curvature, inverses: Sequence[tuple[Any, ...]], grads: Sequence[Any]) -> list[Any]:
    """The inverse of the block-diagonal matrix times the gradient, leaf by leaf; zero for constant leaves."""
    out: list[Any] = [np.zeros(np.shape(g), np.result_type(g)) for g in grads]
    for place, inverse in zip(curvature.places, inverses, strict=True):
        if len(inverse) == 1:
            out[place.leaves[0]] = grads[place.leaves[0]] * inverse[0]
        elif inverse:
            left, right = inverse
            matrix = _times(right, curvature.as_matrix(place, grads).T).T  # factors are symmetric
            curvature.put_matrix(place, _times(left, matrix), out)
    return out


def dot(a: Sequence[Any], b: Sequence[Any], dtype: np.dtype) -> Any:
    """Sum of the products of all entries of float leaves."""
    return sum(np.astype(np.sum(x * y), dtype) for x, y in zip(a, b, strict=True) if np.result_type(x).kind == "f")


def add_scaled(x: Any, *terms: tuple[Any, Any]) -> Any:
    """`x` plus the sum of ``number * array``, in the dtype of `x`; integer arrays stay as they are."""
    dtype = np.result_type(x)
    return x + sum(np.astype(s, dtype) * t for s, t in terms) if dtype.kind == "f" else x
