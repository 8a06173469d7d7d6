"""Operations that move elements about: reshape, transpose, broadcast_to …"""

from __future__ import annotations

import math
import operator

import numpy as np

from ..errors import TracerError
from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind, view
from ..tensor import Tensor, implements
from ..views import is_scalar, memory_twin
from .define import as_value, named

__all__ = ["broadcast_p", "normal_axis", "open_grid", "part", "reshape_p", "sum_to"]

# -- reshape ----------------------------------------------------------------------------------------------------------

reshape_p = Primitive(
    "reshape",
    lambda x, *, shape: np.reshape(x, shape),
    lambda x, *, shape: Spec(shape, x.dtype),
    kind="reshape",
    flops=0,
    samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"shape": (6, 4)})],
)
reshape_p.defvjp(lambda ct, out, x, *, shape: np.reshape(ct, np.shape(x)))
reshape_p.defjvp("same")
reshape_p.defview(lambda x, new, *, shape: bind(reshape_p, new, shape=np.shape(x)), may_copy=True)


@reshape_p.defbatch
def _(args, axes, size, *, shape):
    x = np.moveaxis(args[0], axes[0], 0)
    return bind(reshape_p, x, shape=(size, *shape)), 0


@implements(np.reshape, view=True)
def reshape(x, /, shape, order="C", *, copy=None):
    """``numpy.reshape``; one entry of `shape` may be -1."""
    if order not in ("C", "A", "F"):
        raise ValueError(f"order must be one of 'C', 'F', or 'A' (got {order!r})")
    x = as_value(x)
    if copy is False and isinstance(x, Tensor):
        raise TypeError("reshape: copy=False is not supported for traced values (leave it out)")
    if order == "A":
        order = "F" if _memory(x, "reshape").flags.fnc else "C"
    target = _full_shape(x, shape)
    if order == "F":
        out = np.transpose(view(reshape_p, np.transpose(x), shape=target[::-1]))
    else:
        out = view(reshape_p, x, shape=target)
    return np.copy(out) if copy else out


def _memory(x, where):
    """An ndarray with the strides of `x`, on which the order of elements depends."""
    twin = memory_twin(x) if isinstance(x, Tensor) else x
    if twin is None:
        raise TracerError(
            f"{where}: order='A' and order='K' depend on the order of elements in memory, which a traced "
            f"array does not know (use order='C' or 'F')"
        )
    return twin


def _full_shape(x, shape):
    shape = tuple(map(operator.index, shape)) if np.ndim(shape) else (operator.index(shape),)
    size = math.prod(np.shape(x))
    if -1 in shape:
        rest = -math.prod(shape)
        if shape.count(-1) > 1:
            raise ValueError("can only specify one unknown dimension")
        if rest == 0 or size % rest:
            raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
        shape = tuple(size // rest if n == -1 else n for n in shape)
    if math.prod(shape) != size or any(n < 0 for n in shape):
        raise ValueError(f"cannot reshape array of size {size} into shape {shape}")
    return shape


# -- transpose --------------------------------------------------------------------------------------------------------

transpose_p = Primitive(
    "transpose",
    lambda x, *, axes: np.transpose(x, axes),
    lambda x, *, axes: Spec(tuple(x.shape[a] for a in axes), x.dtype),
    kind="pull",
    flops=0,
    pull=lambda b, index, loads, in_specs, out_spec, *, axes: loads[0](
        [index[axes.index(i)] for i in range(len(axes))]
    ),
    samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"axes": (2, 0, 1)})],
)
transpose_p.defvjp(lambda ct, out, x, *, axes: np.transpose(ct, tuple(np.argsort(axes).tolist())))
transpose_p.defjvp("same")
transpose_p.defview(lambda x, new, *, axes: bind(transpose_p, new, axes=tuple(np.argsort(axes).tolist())))


@transpose_p.defbatch
def _(args, axes_, size, *, axes):
    ax = axes_[0]
    return bind(transpose_p, args[0], axes=(ax, *[a + (a >= ax) for a in axes])), 0


@implements(np.transpose, view=True)
def transpose(x, /, axes=None):
    """``numpy.transpose``."""
    rank = np.ndim(x)
    if axes is None:
        axes = range(rank)[::-1]
    axes = tuple(normal_axis(a, rank) for a in axes)
    if sorted(axes) != list(range(rank)):
        raise ValueError("axes don't match array")
    return view(transpose_p, as_value(x), axes=axes)


def normal_axis(a, rank):
    """A non-negative axis."""
    a = operator.index(a)
    if not -rank <= a < rank:
        raise np.exceptions.AxisError(a, rank)
    return a % rank


def part(x, axis, start, stop):
    """The elements from `start` to `stop` along `axis`."""
    return x[(slice(None),) * axis + (slice(start, stop),)]


def open_grid(shape):
    """The positions along each axis, which broadcast to `shape` together."""
    return [np.reshape(np.arange(n), (-1,) + (1,) * (len(shape) - a - 1)) for a, n in enumerate(shape)]


# -- broadcast_to -----------------------------------------------------------------------------------------------------


def _broadcast_pull(b, index, loads, in_specs, out_spec, *, shape):
    own = in_specs[0].shape
    return loads[0]([b.index(0) if n == 1 else i for i, n in zip(index[len(index) - len(own) :], own, strict=True)])


broadcast_p = Primitive(
    "broadcast_to",
    lambda x, *, shape: np.broadcast_to(x, shape),
    lambda x, *, shape: Spec(shape, x.dtype),
    kind="pull",
    pull=_broadcast_pull,
    flops=0,
    samples=lambda rng: [((rng.normal(size=(3, 1)),), {"shape": (2, 3, 4)})],
)
broadcast_p.defvjp(lambda ct, out, x, *, shape: sum_to(ct, np.shape(x)))
broadcast_p.defjvp("same")
broadcast_p.defview()  # read-only


@broadcast_p.defbatch
def _(args, axes, size, *, shape):
    x = np.moveaxis(args[0], axes[0], 0)
    x = np.reshape(x, (size, *(1,) * (len(shape) - np.ndim(x) + 1), *np.shape(x)[1:]))
    return bind(broadcast_p, x, shape=(size, *shape)), 0


@implements(np.broadcast_to, view=True)
def broadcast_to(x, shape, subok=False):
    """``numpy.broadcast_to``."""
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    own = np.shape(x)
    if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], shape[::-1], strict=False)):
        raise ValueError(
            f"operands could not be broadcast together with remapped shapes [original->remapped]: {own}  and requested "
            f"shape {shape}"
        )
    return view(broadcast_p, as_value(x), shape=shape)


def sum_to(x, shape):
    """Undo broadcasting: sum `x` over the axes along which `shape` was stretched."""
    own = np.shape(x)
    if own == shape:
        return x
    extra = len(own) - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, n in enumerate(shape) if n == 1 and own[extra + i] != 1)
    x = np.sum(x, axis=axes) if axes else x
    return np.reshape(x, shape) if np.shape(x) != shape else x


implements(method="transpose", view=True)(
    lambda x, *axes: np.transpose(x, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None)
)
implements(method="reshape", view=True)(
    lambda x, *shape, order="C", copy=None: np.reshape(
        x, shape[0] if len(shape) == 1 else shape, order=order, copy=copy
    )
)
implements(prop="T")(lambda x: np.transpose(x))


def _listed(axes):
    return [axes] if np.ndim(axes) == 0 else axes


@implements(np.moveaxis, view=True)
def moveaxis(x, source, destination):
    """``numpy.moveaxis``."""
    rank = np.ndim(x)
    source = [normal_axis(a, rank) for a in _listed(source)]
    destination = [normal_axis(a, rank) for a in _listed(destination)]
    if len(source) != len(destination):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    if len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise ValueError("repeated axis in `source` or `destination` argument")
    order = [a for a in range(rank) if a not in source]
    for d, s in sorted(zip(destination, source, strict=True)):
        order.insert(d, s)
    return np.transpose(x, order)


@implements(np.swapaxes, method="swapaxes", view=True)
def swapaxes(a, axis1, axis2):
    """``numpy.swapaxes``."""
    order = list(range(np.ndim(a)))
    i, j = normal_axis(axis1, len(order)), normal_axis(axis2, len(order))
    order[i], order[j] = j, i
    return np.transpose(a, order)


@implements(np.rollaxis, view=True)
def rollaxis(a, axis, start=0):
    """``numpy.rollaxis``."""
    rank = np.ndim(a)
    axis = normal_axis(axis, rank)
    if not -rank <= start <= rank:
        raise np.exceptions.AxisError(start, rank + 1, "start")
    start += rank if start < 0 else 0
    return np.moveaxis(a, axis, start - (axis < start))


@implements(np.matrix_transpose, np.linalg.matrix_transpose, prop="mT", view=True)
def matrix_transpose(x, /):
    """``numpy.matrix_transpose``: of the last two axes."""
    if np.ndim(x) < 2:
        raise ValueError(f"matrix_transpose: expected an array of at least 2 dimensions, got shape {np.shape(x)}")
    return np.swapaxes(x, -1, -2)


@implements(np.ravel, method="ravel", view=True)
def ravel(a, order="C"):
    """``numpy.ravel``."""
    if order not in ("C", "A", "F", "K"):
        raise ValueError(f"order must be one of 'C', 'F', 'A', or 'K' (got {order!r})")
    a = as_value(a)
    if order in "AK" and np.ndim(a) > 1:
        twin = _memory(a, "ravel")
        if order == "K":
            a = np.transpose(a, sorted(range(np.ndim(a)), key=lambda i: -abs(twin.strides[i])))
        elif twin.flags.fnc:
            a = np.transpose(a)
    elif order == "F":
        a = np.transpose(a)
    return view(reshape_p, a, gapless=True, shape=(math.prod(np.shape(a)),))


implements(method="flatten")(ravel)


@implements(np.squeeze, method="squeeze", view=True)
def squeeze(a, axis=None):
    """``numpy.squeeze``."""
    shape = np.shape(a)
    axes = (
        [i for i, n in enumerate(shape) if n == 1]
        if axis is None
        else [normal_axis(i, len(shape)) for i in _listed(axis)]
    )
    if any(shape[i] != 1 for i in axes):
        raise ValueError(
            f"cannot select an axis to squeeze out which has size not equal to one, got axis {axis} of shape {shape}"
        )
    if is_scalar(a):  # of which reshape makes an array
        return a
    return np.reshape(a, tuple(n for i, n in enumerate(shape) if i not in axes))


@implements(np.expand_dims, view=True)
def expand_dims(a, axis):
    """``numpy.expand_dims``."""
    shape = list(np.shape(a))
    new = _listed(axis)
    rank = len(shape) + len(new)
    new = sorted(normal_axis(i, rank) for i in new)
    if len(set(new)) != len(new):
        raise ValueError("repeated axis")
    for i in new:
        shape.insert(i, 1)
    return np.reshape(a, tuple(shape))


def _atleast(name, rank, place):
    def function(*arys):
        out = []
        for a in map(as_value, arys):
            shape = np.shape(a)
            out.append(a if len(shape) >= rank else np.reshape(a, place(shape)))
        return out[0] if len(out) == 1 else tuple(out)

    return implements(getattr(np, name), view=True)(named(function, name))


atleast_1d = _atleast("atleast_1d", 1, lambda s: (1,))
atleast_2d = _atleast("atleast_2d", 2, lambda s: (1,) * (2 - len(s)) + s)
atleast_3d = _atleast("atleast_3d", 3, lambda s: {0: (1, 1, 1), 1: (1, *s, 1), 2: (*s, 1)}[len(s)])


@implements(np.broadcast_arrays, view=True)
def broadcast_arrays(*args, subok=False):
    """``numpy.broadcast_arrays``."""
    arrays = [as_value(a) for a in args]
    shape = np.broadcast_shapes(*map(np.shape, arrays))
    return tuple(a if np.shape(a) == shape else np.broadcast_to(a, shape) for a in arrays)


@implements(np.meshgrid, view=True)
def meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    """``numpy.meshgrid``."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Valid values for `indexing` are 'xy' and 'ij', got {indexing!r}")
    rank = len(xi)
    out = [np.reshape(x, (1,) * i + (-1,) + (1,) * (rank - 1 - i)) for i, x in enumerate(xi)]
    if indexing == "xy" and rank > 1:
        out = [np.swapaxes(x, 0, 1) for x in out]
    out = out if sparse else np.broadcast_arrays(*out)
    return tuple(np.copy(x) for x in out) if copy else tuple(out)
