"""Norms, condition numbers, powers, and the tensor forms of solve and inverse: compositions of other operations."""

from __future__ import annotations

import operator

import numpy as np

from ...tensor import implements
from ..define import as_value
from ..reduce import norm_root
from .basic import floating, inv, solve, stack_of_matrices
from .spectral import svdvals

__all__ = ["norm"]


def _squares(x):
    if np.iscomplexobj(x):
        re, im = np.real(x), np.imag(x)
        return re * re + im * im
    return x * x


def _real_floating(x):
    x = as_value(x)
    return np.astype(x, float) if np.result_type(x).kind in "iub" else x


@implements(np.linalg.vector_norm)
def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """``numpy.linalg.vector_norm``. The 2-norm of a zero vector has gradient 0."""
    x = _real_floating(x)
    if axis is not None and not isinstance(axis, (int, np.integer)):
        axis = tuple(axis)
    how = {"axis": axis, "keepdims": keepdims}
    if ord is None or ord == 2:
        return norm_root(np.sum(_squares(x), **how))
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order '{ord}' for vectors")
    size = np.abs(x)
    if ord == np.inf:
        return np.max(size, **how)
    if ord == -np.inf:
        return np.min(size, **how)
    if ord == 0:
        return np.astype(np.sum(np.not_equal(x, 0), **how), np.result_type(size))
    if ord == 1:
        return np.sum(size, **how)
    total = np.sum(size**ord, **how)
    zero = np.equal(total, 0)
    return np.where(
        zero,
        np.zeros((), np.result_type(total)),
        np.where(zero, np.ones((), np.result_type(total)), total) ** (1 / ord),
    )


@implements(np.linalg.matrix_norm)
def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """``numpy.linalg.matrix_norm``: of the last two dimensions."""
    x = _real_floating(x)
    if np.ndim(x) < 2:
        raise ValueError(f"matrix_norm: expected at least two dimensions, got shape {np.shape(x)}")
    return norm(x, ord, (-2, -1), keepdims)


@implements(np.linalg.norm)
def norm(x, ord=None, axis=None, keepdims=False):
    """``numpy.linalg.norm``, all orders. A zero vector or matrix has gradient 0 where the norm has a kink."""
    x = _real_floating(x)
    rank = np.ndim(x)
    if axis is None:
        if ord is None or rank == 1 or (rank == 2 and ord == "fro"):
            return vector_norm(x, axis=None, keepdims=keepdims, ord=2 if ord in (None, "fro") and rank != 1 else ord)
        if rank != 2:
            raise ValueError("Improper number of dimensions to norm.")
        axis = (0, 1)
    axis = (operator.index(axis),) if not isinstance(axis, (tuple, list)) else tuple(axis)
    if len(axis) == 1:
        return vector_norm(x, axis=axis[0], keepdims=keepdims, ord=ord)
    if len(axis) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    row, column = (np.lib.array_utils.normalize_axis_index(a, rank) for a in axis)
    if row == column:
        raise ValueError("Duplicate axes given.")
    if ord in (None, "fro"):
        return vector_norm(x, axis=(row, column), keepdims=keepdims)
    if ord in (1, -1, np.inf, -np.inf):
        along, across = (row, column) if abs(ord) == 1 else (column, row)
        sums = np.sum(np.abs(x), axis=along, keepdims=True)
        out = (np.max if ord > 0 else np.min)(sums, axis=across, keepdims=True)
    elif ord in (2, -2, "nuc"):
        s = svdvals(floating("norm", np.moveaxis(x, (row, column), (-2, -1))))
        out = np.sum(s, axis=-1) if ord == "nuc" else np.max(s, axis=-1) if ord == 2 else np.min(s, axis=-1)
        out = np.expand_dims(out, tuple(sorted((row, column))))
    else:
        raise ValueError("Invalid norm order for matrices.")
    return out if keepdims else np.squeeze(out, axis=(row, column))


@implements(np.linalg.cond)
def cond(x, p=None):
    """``numpy.linalg.cond``."""
    x = floating("cond", x)
    if p in (None, 2, -2):
        stack_of_matrices("cond", x, square=False)
        s = svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    stack_of_matrices("cond", x)
    return norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))


@implements(np.linalg.matrix_power)
def matrix_power(a, n):
    """``numpy.linalg.matrix_power``: products by repeated squaring; negative powers of the inverse."""
    n = operator.index(n)
    a = as_value(a)
    stack_of_matrices("matrix_power", a)
    if n == 0:
        return np.broadcast_to(np.eye(np.shape(a)[-1], dtype=np.result_type(a)), np.shape(a))
    if n < 0:
        a, n = inv(a), -n
    result, square = None, a
    while True:
        if n & 1:
            result = square if result is None else np.matmul(result, square)
        n >>= 1
        if not n:
            return result
        square = np.matmul(square, square)


@implements(np.linalg.tensorinv)
def tensorinv(a, ind=2):
    """``numpy.linalg.tensorinv``."""
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    shape = np.shape(a)
    rows = int(np.prod(shape[:ind]))
    return np.reshape(inv(np.reshape(a, (rows, -1))), (*shape[ind:], *shape[:ind]))


@implements(np.linalg.tensorsolve, array=True)
def tensorsolve(a, b, axes=None):
    """``numpy.linalg.tensorsolve``."""
    a, b = as_value(a), as_value(b)
    if axes is not None:
        order = [k for k in range(np.ndim(a)) if k not in axes] + list(axes)
        a = np.transpose(a, order)
    shape = np.shape(a)[np.ndim(b) :]
    rows = int(np.prod(np.shape(b)))
    if int(np.prod(shape)) != rows:
        raise np.linalg.LinAlgError(
            f"tensorsolve: prod(a.shape[b.ndim:]) must be prod(b.shape), got shapes {np.shape(a)} and {np.shape(b)}"
        )
    return np.reshape(solve(np.reshape(a, (rows, rows)), np.reshape(b, (rows,))), shape)


def _cross(a, b):
    if np.shape(a)[-1] not in (2, 3) or np.shape(b)[-1] not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")
    a0, a1 = a[..., 0], a[..., 1]
    b0, b1 = b[..., 0], b[..., 1]
    last = a0 * b1 - a1 * b0
    if np.shape(a)[-1] == np.shape(b)[-1] == 2:
        return last
    a2 = a[..., 2] if np.shape(a)[-1] == 3 else 0
    b2 = b[..., 2] if np.shape(b)[-1] == 3 else 0
    parts = [a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, last]
    return np.stack([np.broadcast_to(p, np.shape(last)) for p in parts], axis=-1)


@implements(np.cross)
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """``numpy.cross``: of vectors with 3 (or 2) components."""
    if axis is not None:
        axisa = axisb = axisc = axis
    out = _cross(np.moveaxis(as_value(a), axisa, -1), np.moveaxis(as_value(b), axisb, -1))
    planar = np.shape(a)[axisa] == np.shape(b)[axisb] == 2
    return out if planar else np.moveaxis(out, -1, axisc)


@implements(np.linalg.cross)
def cross3(x1, x2, /, *, axis=-1):
    """``numpy.linalg.cross``: of vectors with 3 components."""
    if np.shape(x1)[axis] != 3 or np.shape(x2)[axis] != 3:
        raise ValueError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are {np.shape(x1)[axis]} and "
            f"{np.shape(x2)[axis]} dimensional instead."
        )
    return cross(x1, x2, axis=axis)
