"""Reductions."""

from __future__ import annotations

import builtins
import operator

import numpy as np

from triskele.core.graph.graph import Spec
from triskele.core.graph.primitive import Primitive
from triskele.core.graph.trace import bind
from triskele.core.ops.define import as_value
from triskele.core.tensor import implements


def reduced(shape, axes):
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _expanded(x, shape, axes):
    """`x` with the reduced axes put back, stretched to `shape`."""
    return np.broadcast_to(np.reshape(x, tuple(1 if i in axes else n for i, n in enumerate(shape))), shape)


def normal_axes(axis, rank):
    """A sorted tuple of non-negative axes."""
    if axis is None:
        return tuple(range(rank))
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    out = []
    for a in axes:
        a = operator.index(a)
        if not -rank <= a < rank:
            raise np.exceptions.AxisError(a, rank)
        out.append(a % rank)
    if len(set(out)) != len(out):
        raise ValueError("duplicate value in 'axis'")
    return tuple(sorted(out))


sum_p = Primitive("sum", lambda x, *, axes, dtype: np.sum(x, axis=axes, dtype=dtype), lambda x, *, axes, dtype: Spec(reduced(x.shape, axes), dtype),
                  kind="reduce", samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"axes": a, "dtype": np.dtype(float)}) for a in ((1,), (0, 2), (0, 1, 2))])
sum_p.defvjp(lambda ct, out, x, *, axes, dtype: _expanded(ct, np.shape(x), axes))
sum_p.defjvp("same")


@sum_p.defbatch
def _(args, axes_, size, *, axes, dtype):
    ax = axes_[0]
    out = bind(sum_p, args[0], axes=tuple(a + (a >= ax) for a in axes), dtype=dtype)
    return out, ax - builtins.sum(a < ax for a in [a + (a >= ax) for a in axes])


@implements(np.sum, method="sum")
def sum(x, axis=None, dtype=None, out=None, keepdims=False, initial=0, where=True):
    """``numpy.sum``."""
    x = as_value(x)
    if where is not True:
        x = np.where(where, x, np.zeros((), np.result_type(x)))
    axes = normal_axes(axis, np.ndim(x))
    if dtype is None:
        dtype = np.sum(np.empty(0, np.result_type(x))).dtype
    y = bind(sum_p, x, axes=axes, dtype=np.dtype(dtype))
    if keepdims:
        y = np.reshape(y, tuple(1 if i in axes else n for i, n in enumerate(np.shape(x))))
    return y + initial if not (isinstance(initial, int) and initial == 0) else y
