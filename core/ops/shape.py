"""Operations that move elements about: reshape, transpose, broadcast_to …"""

from __future__ import annotations

import math
import operator

import numpy as np

from triskele.core.graph.graph import Spec
from triskele.core.graph.primitive import Primitive
from triskele.core.graph.trace import bind
from triskele.core.ops.define import as_value
from triskele.core.tensor import implements

# -- reshape ----------------------------------------------------------------------------------------------------------

reshape_p = Primitive("reshape", lambda x, *, shape: np.reshape(x, shape), lambda x, *, shape: Spec(shape, x.dtype), kind="reshape",
                      flops=0, samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"shape": (6, 4)})])
reshape_p.defvjp(lambda ct, out, x, *, shape: np.reshape(ct, np.shape(x)))
reshape_p.defjvp("same")


@reshape_p.defbatch
def _(args, axes, size, *, shape):
    x = np.moveaxis(args[0], axes[0], 0)
    return bind(reshape_p, x, shape=(size, *shape)), 0


@implements(np.reshape)
def reshape(x, /, shape, order="C", *, copy=None):
    """``numpy.reshape``; one entry of `shape` may be -1."""
    if order not in ("C", "A", "F"):
        raise ValueError(f"order must be one of 'C', 'F', or 'A' (got {order!r})")
    if order == "F":
        flipped = np.transpose(x)
        target = _full_shape(x, shape)
        return np.transpose(np.reshape(flipped, target[::-1]))
    return bind(reshape_p, as_value(x), shape=_full_shape(x, shape))


def _full_shape(x, shape):
    shape = (operator.index(shape),) if not isinstance(shape, (tuple, list)) else tuple(map(operator.index, shape))
    size = math.prod(np.shape(x))
    if -1 in shape:
        rest = -math.prod(shape)
        if shape.count(-1) > 1:
            raise ValueError("can only specify one unknown dimension")
        if rest == 0 or size % rest:
            raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
        shape = tuple(size // rest if n == -1 else n for n in shape)
    if math.prod(shape) != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
    return shape


# -- transpose --------------------------------------------------------------------------------------------------------

transpose_p = Primitive("transpose", lambda x, *, axes: np.transpose(x, axes),
                        lambda x, *, axes: Spec(tuple(x.shape[a] for a in axes), x.dtype), kind="pull", flops=0,
                        pull=lambda b, index, loads, in_specs, out_spec, *, axes: loads[0]([index[axes.index(i)] for i in range(len(axes))]),
                        samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"axes": (2, 0, 1)})])
transpose_p.defvjp(lambda ct, out, x, *, axes: np.transpose(ct, tuple(np.argsort(axes).tolist())))
transpose_p.defjvp("same")


@transpose_p.defbatch
def _(args, axes_, size, *, axes):
    ax = axes_[0]
    return bind(transpose_p, args[0], axes=(ax, *[a + (a >= ax) for a in axes])), 0


@implements(np.transpose)
def transpose(x, /, axes=None):
    """``numpy.transpose``."""
    rank = np.ndim(x)
    if axes is None:
        axes = range(rank)[::-1]
    axes = tuple(_axis(a, rank) for a in axes)
    if sorted(axes) != list(range(rank)):
        raise ValueError("axes don't match array")
    return bind(transpose_p, as_value(x), axes=axes)


def _axis(a, rank):
    a = operator.index(a)
    if not -rank <= a < rank:
        raise np.exceptions.AxisError(a, rank)
    return a % rank


# -- broadcast_to -----------------------------------------------------------------------------------------------------

def _broadcast_pull(b, index, loads, in_specs, out_spec, *, shape):
    own = in_specs[0].shape
    return loads[0]([b.index(0) if n == 1 else i for i, n in zip(index[len(index) - len(own):], own, strict=True)])


broadcast_p = Primitive("broadcast_to", lambda x, *, shape: np.broadcast_to(x, shape), lambda x, *, shape: Spec(shape, x.dtype),
                        kind="pull", pull=_broadcast_pull, flops=0, samples=lambda rng: [((rng.normal(size=(3, 1)),), {"shape": (2, 3, 4)})])
broadcast_p.defvjp(lambda ct, out, x, *, shape: sum_to(ct, np.shape(x)))
broadcast_p.defjvp("same")


@broadcast_p.defbatch
def _(args, axes, size, *, shape):
    x = np.moveaxis(args[0], axes[0], 0)
    x = np.reshape(x, (size, *(1,) * (len(shape) - np.ndim(x) + 1), *np.shape(x)[1:]))
    return bind(broadcast_p, x, shape=(size, *shape)), 0


@implements(np.broadcast_to)
def broadcast_to(x, shape, subok=False):
    """``numpy.broadcast_to``."""
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    own = np.shape(x)
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1], strict=False)):
        raise ValueError(f"operands could not be broadcast together with remapped shapes [original->remapped]: {own}  and requested shape {shape}")
    return bind(broadcast_p, as_value(x), shape=shape)


def sum_to(x, shape):
    """Undo broadcasting: sum `x` over the axes along which `shape` was stretched."""
    own = np.shape(x)
    if own == shape:
        return x
    extra = len(own) - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, n in enumerate(shape) if n == 1 and own[extra + i] != 1)
    x = np.sum(x, axis=axes) if axes else x
    return np.reshape(x, shape) if np.shape(x) != shape else x


implements(method="transpose")(lambda x, *axes: np.transpose(x, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None))
implements(method="reshape")(lambda x, *shape, order="C": np.reshape(x, shape[0] if len(shape) == 1 else shape, order=order))
implements(prop="T")(lambda x: np.transpose(x))


@implements(np.moveaxis)
def moveaxis(x, source, destination):
    """``numpy.moveaxis``."""
    rank = np.ndim(x)
    source = [_axis(a, rank) for a in ([source] if np.ndim(source) == 0 else source)]
    destination = [_axis(a, rank) for a in ([destination] if np.ndim(destination) == 0 else destination)]
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    if len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise ValueError("repeated axis in `source` or `destination` argument")
    order = [a for a in range(rank) if a not in source]
    for d, s in sorted(zip(destination, source, strict=True)):
        order.insert(d, s)
    return np.transpose(x, order)
