"""NumPy's functions that read or write by position: take, put, along an axis, choose, select, compress, repeat, roll,
flip …
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ..errors import TracerError
from ..graph.graph import spec_of
from ..graph.trace import bind, view
from ..tensor import Tensor, implements
from .define import as_value, refuse_out
from .gather import gather_p
from .index import getitem, is_mask, setitem
from .shape import normal_axis, open_grid, part
from .slices import slice_p

__all__ = ["gather_along", "take"]


@implements(np.take, method="take")
def take(a, indices, axis=None, out=None, mode="raise"):
    """``numpy.take``."""
    refuse_out("take", out)
    a, indices = as_value(a), as_value(indices)
    if axis is None or not np.ndim(a):
        a, axis = np.ravel(a), axis or 0
    axis = normal_axis(axis, np.ndim(a))
    n = np.shape(a)[axis]
    shape = (*np.shape(a)[:axis], *np.shape(indices), *np.shape(a)[axis + 1 :])
    if n == math.prod(shape) == 0:
        return np.reshape(a, shape)
    if spec_of(indices).dtype.kind not in "iub":
        raise TypeError(
            f"Cannot cast array data from {spec_of(indices).dtype!r} to dtype('int64') according to the rule 'safe'"
        )
    if is_mask(indices):
        indices = indices.astype(np.int64)
    if mode == "clip":
        indices = np.clip(indices, 0, n - 1)
    elif mode == "wrap":
        indices = np.remainder(indices, n)
    elif mode != "raise":
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    return getitem(a, (slice(None),) * axis + (indices,))


def _along_axis(arr, indices, axis):
    """The index expression that indexes `arr` along one axis with an array of the same rank."""
    shape = np.shape(arr)
    if np.ndim(indices) != len(shape):
        raise ValueError(
            f"`indices` and `arr` must have the same number of dimensions, got {np.shape(indices)} and {shape}"
        )
    if np.result_type(indices).kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    grid = open_grid(shape)
    grid[axis] = indices
    return tuple(grid)


@implements(np.take_along_axis)
def take_along_axis(arr, indices, axis=-1):
    """``numpy.take_along_axis``."""
    arr, indices = as_value(arr), as_value(indices)
    if axis is None:
        return getitem(np.ravel(arr), (np.ravel(indices),))
    axis = normal_axis(axis, np.ndim(arr))
    return getitem(arr, _along_axis(arr, indices, axis))


def _need_tensor(where, a):
    if not isinstance(a, Tensor):
        raise TracerError(
            f"{where}: the array must be a traced one here, got a plain ndarray (a traced value cannot be put into it)"
        )


@implements(np.put_along_axis)
def put_along_axis(arr, indices, values, axis):
    """``numpy.put_along_axis``, in place."""
    _need_tensor("put_along_axis", arr)
    if axis is None:
        arr._become(np.reshape(setitem(np.ravel(arr), (np.ravel(indices),), values), arr.shape))
    else:
        arr[_along_axis(arr, indices, normal_axis(axis, arr.ndim))] = values


@implements(np.put, method="put")
def put(a, ind, v, mode="raise"):
    """``numpy.put``, in place; values are repeated as needed."""
    _need_tensor("put", a)
    ind = np.ravel(as_value(ind))
    n = a.size
    ind = np.clip(ind, 0, n - 1) if mode == "clip" else np.remainder(ind, n) if mode == "wrap" else ind
    v = np.ravel(as_value(v))
    if not np.shape(v)[0]:
        return
    many = np.shape(ind)[0]
    v = np.take(v, np.arange(many) % np.shape(v)[0], axis=0) if np.shape(v)[0] != many else v
    a._become(np.reshape(setitem(np.ravel(a), (ind,), v), a.shape))


@implements(np.putmask)
def putmask(a, mask, values):
    """``numpy.putmask`` with a scalar or an array of `a`'s shape, in place."""
    _need_tensor("putmask", a)
    if np.ndim(values) and np.shape(values) != a.shape:
        raise ValueError(
            f"putmask: values must be a scalar or have the shape of the array, {a.shape}, got {np.shape(values)}"
        )
    _put_where(a, mask, values)


@implements(np.place)
def place(arr, mask, vals):
    """``numpy.place`` with one value or a concrete mask, in place: the selected elements take the values in turn."""
    _need_tensor("place", arr)
    vals = np.ravel(as_value(vals))
    if np.shape(vals) == (1,):
        _put_where(arr, mask, vals[0])
        return
    chosen = np.flatnonzero(_concrete("place", mask, "use np.where"))
    if np.shape(vals)[0] == 0 and chosen.size:
        raise ValueError("Cannot insert from an empty array!")
    if chosen.size:
        put(arr, chosen, vals)


def _put_where(a, mask, values):
    if np.shape(mask) != a.shape:
        raise ValueError(f"place: mask and data must have the same shape, got {np.shape(mask)} and {a.shape}")
    values = values.astype(a.dtype) if isinstance(values, Tensor) else np.asarray(values, a.dtype)
    a._become(np.where(mask, values, a))


@implements("ufunc.at")
def at(ufunc, a, indices, b=None):
    """``ufunc.at`` for add, subtract, multiply, maximum, minimum: in place, positions that repeat count each time."""
    _need_tensor(f"{ufunc.__name__}.at", a)
    modes = {
        np.add: "add",
        np.subtract: "add",
        np.multiply: "multiply",
        np.divide: "multiply",
        np.maximum: "max",
        np.minimum: "min",
    }
    if ufunc not in modes:
        raise TypeError(f"np.{ufunc.__name__}.at: not supported for traced values")
    b = np.negative(b) if ufunc is np.subtract else 1 / b if ufunc is np.divide else b
    a._become(setitem(a, indices, b, modes[ufunc]))


@implements("ufunc.outer")
def outer(ufunc, a, b, **kwargs):
    """``ufunc.outer``."""
    a, b = as_value(a), as_value(b)
    return ufunc(np.reshape(a, (*np.shape(a), *(1,) * np.ndim(b))), b, **kwargs)


# -- choosing ----------------------------------------------------------------------------------------------------------


@implements(np.choose, method="choose")
def choose(a, choices, out=None, mode="raise"):
    """``numpy.choose``."""
    choices = np.stack(np.broadcast_arrays(*choices)) if isinstance(choices, (list, tuple)) else choices
    n = np.shape(choices)[0]
    a = np.clip(a, 0, n - 1) if mode == "clip" else np.remainder(a, n) if mode == "wrap" else as_value(a)
    shape = np.broadcast_shapes(np.shape(a), np.shape(choices)[1:])
    ones = (1,) * (len(shape) - np.ndim(choices) + 1)
    choices = np.broadcast_to(np.reshape(choices, (n, *ones, *np.shape(choices)[1:])), (n, *shape))
    return np.take_along_axis(choices, np.broadcast_to(a, shape)[None], axis=0)[0]


@implements(np.select, array=True)
def select(condlist, choicelist, default=0):
    """``numpy.select``: the first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    dtype = np.result_type(*choicelist, default)
    out = as_value(default)
    for c, x in zip(condlist[::-1], choicelist[::-1], strict=True):
        out = np.where(c, x, out)
    return out if np.result_type(out) == dtype else out.astype(dtype)


@implements(np.piecewise, array=True)
def piecewise(x, condlist, funclist, *args, **kw):
    """``numpy.piecewise``; each function sees the whole array, and is taken where its condition holds."""
    condlist = [condlist] if np.ndim(condlist[0]) == 0 and np.ndim(x) else list(condlist)
    values = [f(x, *args, **kw) if callable(f) else f for f in funclist]
    if len(values) not in (len(condlist), len(condlist) + 1):
        raise ValueError(
            f"with {len(condlist)} condition(s), either {len(condlist)} or {len(condlist) + 1} functions are expected"
        )
    out: Any = values.pop() if len(values) > len(condlist) else 0
    for c, v in zip(condlist, values, strict=True):  # NumPy: the last condition that holds
        out = np.where(c, v, out)
    return out.astype(np.result_type(x))


def _concrete(where, x, hint):
    if isinstance(x, Tensor):
        raise TracerError(f"{where}: the result's shape depends on values, got {x!r} ({hint})")
    return np.asarray(x)


@implements(np.compress, method="compress")
def compress(condition, a, axis=None, out=None):
    """``numpy.compress`` with a concrete condition."""
    chosen = np.flatnonzero(_concrete("compress", condition, "use np.where, which keeps the shape"))
    return np.take(a, chosen, axis=axis)


implements(method="compress")(lambda x, condition, axis=None: compress(condition, x, axis))


@implements(np.extract)
def extract(condition, arr):
    """``numpy.extract`` with a concrete condition."""
    return compress(np.ravel(_concrete("extract", condition, "use np.where, which keeps the shape")), np.ravel(arr))


# -- moving elements about
# ------------------------------------------------------------------------------------------------------


@implements(np.flip, view=True)
def flip(m, axis=None):
    """``numpy.flip``."""
    shape = np.shape(m)
    axes = (
        range(len(shape))
        if axis is None
        else [normal_axis(a, len(shape)) for a in ([axis] if np.ndim(axis) == 0 else axis)]
    )
    index = tuple((n - 1, -1, n) if a in axes and n else (0, 1, n) for a, n in enumerate(shape))
    return view(slice_p, as_value(m), index=index)


@implements(np.fliplr, view=True)
def fliplr(m):
    """``numpy.fliplr``."""
    if np.ndim(m) < 2:
        raise ValueError("Input must be >= 2-d.")
    return np.flip(m, 1)


@implements(np.flipud, view=True)
def flipud(m):
    """``numpy.flipud``."""
    if np.ndim(m) < 1:
        raise ValueError("Input must be >= 1-d.")
    return np.flip(m, 0)


@implements(np.rot90, view=True)
def rot90(m, k=1, axes=(0, 1)):
    """``numpy.rot90``."""
    rank = np.ndim(m)
    a, b = (normal_axis(x, rank) for x in axes)
    if a == b:
        raise ValueError("Axes must be different.")
    k %= 4
    if k == 0:
        return m[...]
    if k == 2:
        return np.flip(np.flip(m, a), b)
    return np.swapaxes(np.flip(m, b), a, b) if k == 1 else np.flip(np.swapaxes(m, a, b), b)


@implements(np.roll)
def roll(a, shift, axis=None):
    """``numpy.roll``; the shift may be traced."""
    if axis is None:
        return np.reshape(roll(np.ravel(a), shift, 0), np.shape(a)) if np.ndim(a) else np.copy(a)
    shifts = np.ravel(shift) if np.ndim(shift) else [shift]
    axes = [normal_axis(x, np.ndim(a)) for x in ([axis] if np.ndim(axis) == 0 else axis)]
    if len(shifts) != len(axes):
        shifts, axes = (list(shifts) * len(axes), axes) if len(shifts) == 1 else (shifts, axes * len(shifts))
    for s, x in zip(shifts, axes, strict=True):
        n = np.shape(a)[x]
        if n == 0:
            continue
        if isinstance(s, Tensor):
            a = np.take(a, np.remainder(np.arange(n) - s, n), axis=x)
        elif s := operator.index(s) % n:
            a = np.concatenate([part(a, x, n - s, n), part(a, x, 0, n - s)], axis=x)
    return np.copy(a)


@implements(np.tile)
def tile(A, reps):
    """``numpy.tile``."""
    A = as_value(A)
    reps = tuple(map(operator.index, reps)) if np.ndim(reps) else (operator.index(reps),)
    shape = (1,) * (len(reps) - np.ndim(A)) + np.shape(A)
    reps = (1,) * (len(shape) - len(reps)) + reps
    split = tuple(m for n in shape for m in (1, n))
    target = tuple(m for r, n in zip(reps, shape, strict=True) for m in (r, n))
    return np.reshape(
        np.broadcast_to(np.reshape(A, split), target), tuple(r * n for r, n in zip(reps, shape, strict=True))
    )


@implements(np.repeat)
def repeat(a, repeats, axis=None):
    """``numpy.repeat`` with static counts."""
    a = as_value(a)
    if axis is None or not np.ndim(a):
        a, axis = np.ravel(a), axis or 0
    axis = normal_axis(axis, np.ndim(a))
    counts = _concrete(
        "repeat", repeats, "the numbers of repeats must be static: np.take with traced positions may serve"
    )
    shape = np.shape(a)
    if counts.size == 1:
        r = operator.index(counts.reshape(())[()])
        wide = np.broadcast_to(np.expand_dims(a, axis + 1), (*shape[: axis + 1], r, *shape[axis + 1 :]))
        return np.reshape(wide, (*shape[:axis], shape[axis] * r, *shape[axis + 1 :]))
    if counts.shape != (shape[axis],):
        raise ValueError(f"operands could not be broadcast together with shape {(shape[axis],)} {counts.shape}")
    return np.take(a, np.repeat(np.arange(shape[axis]), counts), axis=axis)


implements(method="repeat")(lambda x, repeats, axis=None: np.repeat(x, repeats, axis))


# -- where concrete values are needed
# ----------------------------------------------------------------------------------------------


def _only_concrete(f, hint, method=None):
    """For functions whose result has a shape that depends on values: clear errors, or the plain value of a tape."""

    def function(a, *args, **kwargs):
        return f(_value(f.__name__, a, hint), *args, **kwargs)

    implements(f, method=method)(function)


def _value(name, a, hint):
    try:
        return a._concrete(name)
    except TracerError:
        raise TracerError(f"{name}: the result's shape depends on values, got {a!r} ({hint})") from None


_HINT = "use np.where, masks and sums, which keep the shape"
for _f in (np.nonzero, np.argwhere, np.flatnonzero):
    _only_concrete(_f, _HINT)
implements(method="nonzero")(lambda x: np.nonzero(x))


_NEIGHBORS = "sort, and compare neighbors"


@implements(np.unique)
def unique(
    ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, sorted=True
):
    """``numpy.unique``, sorted; of a value with a derivative, the first of equal ones has it."""
    found = np.unique(_value("unique", ar, _NEIGHBORS), True, return_inverse, return_counts, axis, equal_nan=equal_nan)
    values = np.take(np.ravel(ar) if axis is None else ar, found[1], axis=axis or 0)
    out = (values, *[found[1]] * bool(return_index), *found[2:])
    return out if len(out) > 1 else values


def _unique_array_api(f):
    def function(x, /):
        found = f(_value(f.__name__, x, _NEIGHBORS))
        return found._replace(values=unique(x, equal_nan=False))

    implements(f)(function)


for _f in (np.unique_all, np.unique_counts, np.unique_inverse):
    _unique_array_api(_f)


@implements(np.unique_values)
def unique_values(x, /):
    """``numpy.unique_values``, sorted."""
    return unique(x, equal_nan=False)


@implements(np.trim_zeros)
def trim_zeros(filt, trim="fb"):
    """``numpy.trim_zeros`` of a vector."""
    if np.ndim(filt) != 1:
        raise ValueError(f"trim_zeros: traced values must be a vector, got shape {np.shape(filt)}")
    if not trim or set(trim.lower()) - set("fb"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    kept = np.flatnonzero(_value("trim_zeros", filt, "a slice of fixed length keeps the shape"))
    if not kept.size:
        return filt[:0]
    return filt[kept[0] if "f" in trim.lower() else 0 : kept[-1] + 1 if "b" in trim.lower() else None]


@implements(np.ravel_multi_index)
def ravel_multi_index(multi_index, dims, mode="raise", order="C"):
    """``numpy.ravel_multi_index`` for indices within their bounds."""
    out = 0
    for i, n in (
        zip(multi_index, dims, strict=True) if order == "C" else zip(multi_index[::-1], dims[::-1], strict=True)
    ):
        out = out * n + (np.clip(i, 0, n - 1) if mode == "clip" else np.remainder(i, n) if mode == "wrap" else i)
    return out


@implements(np.unravel_index)
def unravel_index(indices, shape, order="C"):
    """``numpy.unravel_index`` for indices within their bounds."""
    out = []
    for n in shape[::-1] if order == "C" else shape:
        out.append(np.remainder(indices, n))
        indices = np.floor_divide(indices, n)
    return tuple(out[::-1] if order == "C" else out)


def gather_along(x, axis, index):
    """``take_along_axis`` for rules: indices known to be within bounds."""
    grid = _along_axis(x, index, axis)
    return bind(gather_p, x, *grid, in_range=(True,) * len(grid))
