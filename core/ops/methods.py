"""Methods of ndarray on `Tensor`: item, tolist, fill, flat, in, round() …"""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import kind_of
from ..errors import TracerError
from ..tensor import Tensor, implements, separate
from ..views import connect
from .index import getitem, setitem

__all__: list[str] = []


def _number(x, what):
    """The value of an integer or boolean; floats would lose their derivative."""
    if kind_of(x.dtype) in "fc":
        raise TracerError(
            f"{what}: {x!r} is traced, a Python number would lose its derivative or has no value yet "
            "(keep the array; core.stop_gradient drops the derivative)"
        )
    return np.asarray(x._concrete(what))


@implements(method="item")
def _item(x, *args):
    if args:
        where = args[0] if isinstance(args[0], tuple) else args
        x = x[where] if len(where) > 1 else np.ravel(x)[where]
    if x.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    return _number(x, "item()").item()


implements(method="tolist")(lambda x: _number(x, "tolist()").tolist())
implements(method="__contains__")(lambda x, value: bool(np.any(np.equal(x, value))))
implements(method="__round__")(lambda x, ndigits=0: np.round(x, ndigits or 0))
implements(method="__floor__")(lambda x: np.floor(x))
implements(method="__ceil__")(lambda x: np.ceil(x))
implements(method="__trunc__")(lambda x: np.trunc(x))
implements(method="__array_namespace__")(lambda x, *, api_version=None: np)
implements(prop="device")(lambda x: "cpu")
implements(method="to_device")(lambda x, device, /, *, stream=None: x._handle())


@implements(method="fill")
def _fill(x, value):
    x[...] = value


class Flat:
    """``x.flat``: the elements in order, for reading, writing and iterating."""

    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x

    def __len__(self):
        return self.x.size

    def __iter__(self):
        return iter(np.ravel(self.x))

    def __getitem__(self, idx):
        return np.copy(getitem(np.ravel(self.x), idx))

    def __setitem__(self, idx, value):
        self.x._become(np.reshape(setitem(np.ravel(self.x), idx, value), self.x.shape))


Tensor.flat = property(Flat, lambda x, value: Flat(x).__setitem__(slice(None), np.resize(value, x.size)))  # type: ignore[attr-defined]


def _refused(name, hint):
    def refuse(x, *args, **kwargs):
        raise TracerError(f"{name}: {x!r} has no memory of its own to look into ({hint})")

    return refuse


for _name, _hint in (
    ("view", "use astype to convert values"),
    ("tobytes", "return the value from the function"),
    ("byteswap", "use astype"),
    ("resize", "use np.resize(x, shape)"),
    ("__delitem__", "use np.delete(x, i)"),
):
    implements(method=_name)(_refused(_name, _hint))


@implements(np.resize)
def resize(a, new_shape):
    """``numpy.resize``: repeats the elements as needed."""
    shape = (new_shape,) if np.ndim(new_shape) == 0 else tuple(new_shape)
    flat = np.ravel(a)
    if np.shape(flat)[0] == 0:
        return np.zeros(shape, np.result_type(a))
    return np.reshape(np.take(flat, np.arange(math.prod(shape)) % np.shape(flat)[0]), shape)


@implements(np.fill_diagonal)
def fill_diagonal(a, val, wrap=False):
    """``numpy.fill_diagonal``, in place."""
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    i = np.arange(min(a.shape))
    if wrap and a.ndim == 2 and a.shape[0] > a.shape[1]:
        flat = np.arange(0, a.size, a.shape[1] + 1)
        a[flat // a.shape[1], flat % a.shape[1]] = val if np.ndim(val) == 0 else np.resize(val, flat.shape)
        return
    a[(i,) * a.ndim] = val if np.ndim(val) == 0 else np.resize(val, i.shape)


@implements(np.lib.stride_tricks.sliding_window_view, view=True)
def sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    """``numpy.lib.stride_tricks.sliding_window_view``."""
    given = x
    windows = (window_shape,) if np.ndim(window_shape) == 0 else tuple(window_shape)
    axes = range(np.ndim(x)) if axis is None else [axis] if np.ndim(axis) == 0 else axis
    rank = np.ndim(x)
    for w, a in zip(windows, axes, strict=True):
        a = a % rank
        n = np.shape(x)[a]
        if not 0 <= w <= n:
            raise ValueError("window shape cannot be larger than input array shape")
        x = np.moveaxis(np.take(x, np.arange(n - w + 1)[:, None] + np.arange(w), axis=a), a + 1, -1)
    if isinstance(x, Tensor):
        x = separate(x)
        connect(x, given, None, {})
    return x


@implements(np.apply_along_axis)
def apply_along_axis(func1d, axis, arr, *args, **kwargs):
    """``numpy.apply_along_axis``, one call for each vector."""
    moved = np.moveaxis(arr, axis, -1)
    outer = np.shape(moved)[:-1]
    parts = [func1d(moved[i], *args, **kwargs) for i in np.ndindex(outer)]
    inner = np.shape(parts[0])
    out = np.reshape(np.stack(parts), (*outer, *inner))
    axis = axis % np.ndim(arr)
    return np.moveaxis(out, range(len(outer), np.ndim(out)), range(axis, axis + len(inner)))


def _by_shape(f, g):
    implements(f)(lambda arr, *args, **kwargs: g(np.shape(arr), *args, **kwargs))


_by_shape(np.tril_indices_from, lambda shape, k=0: np.tril_indices(shape[-2], k, shape[-1]))
_by_shape(np.triu_indices_from, lambda shape, k=0: np.triu_indices(shape[-2], k, shape[-1]))
_by_shape(np.diag_indices_from, lambda shape: np.diag_indices(shape[0], len(shape)))
implements(np.array_repr, np.array_str, np.array2string)(lambda x, *args, **kwargs: repr(x))
implements(np.may_share_memory, np.shares_memory)(lambda *args, **kwargs: False)
implements(np.common_type)(lambda *arrays: np.result_type(*arrays, np.float16).type)
implements(np.min_scalar_type)(lambda a: np.result_type(a))
