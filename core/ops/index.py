"""NumPy's indexing, ``x[...]`` and ``x[...] = v``, in terms of slice, gather and their updates.

An index expression is read once into a `Plan`: ints and slices first (one `slice`), then new axes (a reshape), then
integer arrays and traced ints (one `gather` over axes brought to the front). Assignment walks the same plan.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import TracerError
from ..graph.graph import spec_of
from ..graph.trace import bind, view
from ..tensor import Tensor, implements
from ..views import own_array
from .define import as_value
from .gather import check_bounds, gather_p, scatter_p
from .slices import slice_p, slice_update_p

__all__ = ["getitem", "index_add", "index_max", "index_min", "index_mul", "index_update", "is_mask", "setitem"]

_KINDS = (
    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are valid "
    "indices"
)
_FULL = slice(None)


class Plan(NamedTuple):
    """A parsed index expression; see `read`."""

    index: tuple | None  # of the slice primitive; None: everything
    shape: tuple[int, ...] | None  # then reshape to this (new axes); None: none
    axes: tuple[int, ...]  # then these axes ...
    arrays: tuple[Any, ...]  # ... are indexed by these
    in_range: tuple[bool, ...]
    place: int  # where the axes of the index arrays go in the result


# -- from an index expression to a plan
# ---------------------------------------------------------------------------------


def _entry(i: Any) -> Any:
    """One index in a simple form: int, slice, None, Ellipsis, or an array (ndarray or Tensor) of integers or
    booleans.
    """
    if i is None or i is Ellipsis or type(i) is int or type(i) is slice:
        return i
    if isinstance(i, Tensor):
        if i.dtype.kind not in "iub":
            raise IndexError(f"{_KINDS}, got {i!r}")
        return i
    if isinstance(i, (list, tuple)):
        i = as_value(i) if len(i) else np.zeros(0, int)
        if isinstance(i, Tensor):
            return _entry(i)
    if isinstance(i, (bool, np.bool_)):
        return np.asarray(i)
    if isinstance(i, np.ndarray):
        if i.dtype.kind == "b" or (i.dtype.kind in "iu" and i.ndim):
            return i
        if i.dtype.kind in "iu":
            return int(i)
    try:
        return operator.index(i)
    except TypeError:
        raise IndexError(_KINDS) from None


def is_mask(i: Any) -> bool:
    """Return True if an index is a boolean array."""
    return getattr(i, "dtype", None) is not None and i.dtype.kind == "b"


def _expand(shape, idx):
    """Entries for every axis of an array of `shape`: masks become integer arrays, the ellipsis full slices."""
    rank = len(shape)
    entries = [_entry(i) for i in (idx if isinstance(idx, tuple) else (idx,))]
    used = sum(i.ndim if is_mask(i) else i is not None and i is not Ellipsis for i in entries)
    dots = [k for k, i in enumerate(entries) if i is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > rank:
        raise IndexError(f"too many indices for array: array is {rank}-dimensional, but {used} were indexed")
    at = dots[0] if dots else len(entries)
    entries[at : at + bool(dots)] = [_FULL] * (rank - used)
    out = []
    axis = 0
    for i in entries:
        if is_mask(i):
            if isinstance(i, Tensor):
                raise TracerError(
                    f"x[mask]: the number of selected elements must be known, got a traced mask of shape {i.shape} "
                    "(use np.where(mask, x, other), sums of np.where(mask, x, 0), or x[mask] = value)"
                )
            for k, (n, m) in enumerate(zip(shape[axis:], i.shape, strict=False)):
                if n != m:
                    raise IndexError(
                        f"boolean index did not match indexed array along axis {axis + k}; size of axis is {n} but "
                        "size of "
                        f"corresponding boolean axis is {m}"
                    )
            if i.ndim == 0:  # a new axis of length 1 or 0
                out.append(("new", np.zeros(int(i), int)))
            else:
                out.extend(np.nonzero(i))
            axis += i.ndim
        else:
            out.append(i)
            axis += i is not None
    return out


def plan(shape: tuple[int, ...], idx: Any) -> Plan:
    """Read an index expression for an array of `shape`."""
    entries = _expand(shape, idx)
    index, new_shape = [], []
    axes, arrays, positions = [], [], []  # axes are those after slicing and reshaping
    adds_axes = False
    axis = 0
    for position, i in enumerate(entries):
        if i is None:
            new_shape.append(1)
            adds_axes = True
            continue
        if type(i) is tuple:
            axes.append(len(new_shape))
            arrays.append(i[1])
            positions.append(position)
            new_shape.append(1)
            adds_axes = True
            continue
        n = shape[axis]
        if type(i) is int:
            if not -n <= i < n:
                raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
            index.append(i % n)
            positions.append(-position - 1)  # counts for the place of the result only next to arrays
        elif type(i) is slice:
            start, stop, step = i.indices(n)
            size = len(range(start, stop, step))
            index.append((start if size else 0, step if size else 1, size))
            new_shape.append(size)
        else:
            if isinstance(i, np.ndarray):
                check_bounds(i, n, axis)
            index.append((0, 1, n))
            axes.append(len(new_shape))
            arrays.append(i)
            positions.append(position)
            new_shape.append(n)
        axis += 1
    trivial = all(type(e) is not int and e == (0, 1, n) for e, n in zip(index, shape, strict=True))
    in_range = tuple(isinstance(a, np.ndarray) for a in arrays)
    arrays = [
        np.where(a < 0, a + new_shape[ax], a) if known and a.dtype.kind == "i" else a
        for a, ax, known in zip(arrays, axes, in_range, strict=True)
    ]
    rank = 0
    if arrays:
        try:
            rank = len(np.broadcast_shapes(*[a.shape for a in arrays]))
        except ValueError:
            shapes = " ".join(str(a.shape) for a in arrays)
            raise IndexError(
                f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes}"
            ) from None
    places = sorted(p if p >= 0 else -p - 1 for p in positions)
    together = not places or places[-1] - places[0] == len(places) - 1
    # NumPy: the axes of index arrays that stand apart, ints among them, come first; together, they stay where they are
    place = sum(ax < axes[0] for ax in range(axes[0])) if rank and together else 0
    return Plan(
        None if trivial else tuple(index),
        tuple(new_shape) if adds_axes else None,
        tuple(axes),
        tuple(arrays),
        in_range,
        place,
    )


def _distinct(arrays):
    """Return True if the index arrays are known to be free of duplicates."""
    if any(isinstance(a, Tensor) for a in arrays):
        return all(np.size(a) == 1 for a in arrays)
    arrays = np.broadcast_arrays(*arrays)
    if arrays[0].size <= 1:
        return True
    flat = 0
    for a in arrays:  # one number for each position; they are in range and not negative
        flat = flat * (int(a.max()) + 1) + a.ravel()
    return np.unique(flat).size == flat.size


# -- reading and writing
# ------------------------------------------------------------------------------------------------


def _to_front(p: Plan, rank: int) -> tuple[int, ...] | None:
    order = (*p.axes, *[a for a in range(rank) if a not in p.axes])
    return None if order == tuple(range(rank)) else order


def _array_rank(p: Plan) -> int:
    return len(np.broadcast_shapes(*[np.shape(a) for a in p.arrays]))


def read(x: Any, p: Plan) -> Any:
    """The elements that a plan names."""
    if not p.arrays:
        if p.index is not None:
            x = view(slice_p, x, index=p.index)
        return np.reshape(x, p.shape) if p.shape is not None else x
    if p.index is not None:
        x = bind(slice_p, x, index=p.index)
    if p.shape is not None:
        x = np.reshape(x, p.shape)
    order = _to_front(p, np.ndim(x))
    if order is not None:
        x = np.transpose(x, order)
    x = bind(gather_p, x, *p.arrays, in_range=p.in_range)
    if p.place:
        rank = _array_rank(p)
        x = np.moveaxis(x, range(rank), range(p.place, p.place + rank))
    return x


_COMBINE: dict[str, Callable] = {
    "set": lambda x, v: v,
    "add": np.add,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def write(x: Any, p: Plan, v: Any, mode: str) -> Any:
    """`x` with `v` written (or combined by `mode`) where `read` reads."""
    if not np.ndim(x) and not p.arrays:
        v = (
            np.reshape(_stretch(v, p.shape or (), "could not broadcast input array from shape"), ())
            if np.shape(v)
            else v
        )
        return _COMBINE[mode](x, v)
    if not p.arrays and mode in ("set", "add"):
        index = p.index or tuple((0, 1, n) for n in np.shape(x))
        shape = tuple(e[2] for e in index if type(e) is not int)
        if np.shape(v):
            v = np.reshape(_stretch(v, p.shape or shape, "could not broadcast input array from shape"), shape)
        return bind(slice_update_p, x, v, index=index, mode=mode)
    inner = x if p.index is None else bind(slice_p, x, index=p.index)
    shape = np.shape(inner)
    if p.shape is not None:
        inner = np.reshape(inner, p.shape)
    if not p.arrays:  # multiply, min, max of a slice
        v = _stretch(v, np.shape(inner), "could not broadcast input array from shape") if np.shape(v) else v
        inner = {"multiply": np.multiply, "min": np.minimum, "max": np.maximum}[mode](inner, v)
    else:
        inner = _scatter(inner, p, v, mode)
    inner = np.reshape(inner, shape)
    return inner if p.index is None else bind(slice_update_p, x, inner, index=p.index, mode="set")


def _scatter(x, p, v, mode):
    order = _to_front(p, np.ndim(x))
    front = x if order is None else np.transpose(x, order)
    index_shape = np.broadcast_shapes(*[np.shape(a) for a in p.arrays])
    rest = np.shape(front)[len(p.arrays) :]
    if np.shape(v):
        v = _stretch(v, (*rest[: p.place], *index_shape, *rest[p.place :]), "shape mismatch: value array of shape")
        if p.place:
            v = np.moveaxis(v, range(p.place, p.place + len(index_shape)), range(len(index_shape)))
    out = bind(scatter_p, front, v, *p.arrays, mode=mode, unique=_distinct(p.arrays), in_range=p.in_range)
    return out if order is None else np.transpose(out, np.argsort(order).tolist())


def _stretch(v, shape, complaint):
    own = np.shape(v)
    while len(own) > len(shape) and own[0] == 1:
        own = own[1:]
    v = np.reshape(v, own) if own != np.shape(v) else v
    if own == shape:
        return v
    try:
        return np.broadcast_to(v, shape)
    except ValueError:
        tail = (
            f"into shape {shape}"
            if "input" in complaint
            else f"could not be broadcast to indexing result of shape {shape}"
        )
        raise ValueError(f"{complaint} {np.shape(v)} {tail}") from None


def getitem(x: Any, idx: Any) -> Any:
    """``x[idx]`` with NumPy's rules, for arrays and Tensors, by arrays and Tensors."""
    if type(idx) is int and (shape := x.shape) and -shape[0] <= idx < shape[0]:  # the commonest case needs no plan
        index = (idx % shape[0], *[(0, 1, n) for n in shape[1:]])
        if len(shape) == 1:
            return bind(slice_p, x, index=index)
        out = view(slice_p, x, index=index)
    else:
        p = plan(np.shape(x), idx)
        out = read(x, p)
        if p.arrays:
            return out
    if not isinstance(out, Tensor):
        return out
    # NumPy: a scalar, or an array made from one
    if not out.shape and not (_has_ellipsis(idx) and out._link is not None):
        return own_array(out._handle()) if _has_ellipsis(idx) else out._handle()
    if out is not x and out._link is not None:
        out._link.source = (x, idx)
    return out


def _has_ellipsis(idx):
    return idx is Ellipsis or (type(idx) is tuple and any(i is Ellipsis for i in idx))


def _to_dtype(v, x):
    """`v` in the dtype of `x`, as an assignment converts."""
    v = as_value(v)
    dtype, own = spec_of(x).dtype, spec_of(v)
    if own.dtype == dtype:
        return v
    if own.dtype.kind == "c" and dtype.kind != "c":
        raise TypeError(f"x[...] = v: a complex value cannot be assigned into {dtype} (take np.real of it first)")
    if not hasattr(v, "astype"):
        return dtype.type(v) if isinstance(v, int) else np.asarray(v).astype(dtype)[()]
    return v.astype(dtype)


def setitem(x: Any, idx: Any, v: Any, mode: str = "set") -> Any:
    """`x` with `v` at ``x[idx]``, or combined with what is there ("add", "multiply", "min", "max")."""
    v = _to_dtype(v, x)
    if isinstance(idx, Tensor) and is_mask(idx):
        return _set_masked(x, idx, v, mode)
    return write(x, plan(np.shape(x), idx), v, mode)


def _set_masked(x, mask, v, mode):
    shape, rank = np.shape(x), np.ndim(mask)
    if shape[:rank] != np.shape(mask):
        raise IndexError(f"boolean index did not match indexed array: shape {shape} but mask of shape {np.shape(mask)}")
    if np.ndim(v) > len(shape) - rank:
        raise TracerError(
            "x[mask] = v: with a traced mask, v must be a scalar or have the shape of one element x[i], "
            f"{shape[rank:]}, got {np.shape(v)} "
            "(use np.where(mask, values, x) with values of x's shape)"
        )
    mask = np.reshape(mask, (*np.shape(mask), *(1,) * (len(shape) - rank)))
    return np.where(mask, _COMBINE[mode](x, np.broadcast_to(v, shape[rank:])), x)


implements(method="__getitem__")(getitem)


@implements(method="__setitem__")
def _assign(x, idx, v):
    link = v._link if isinstance(v, Tensor) else None
    if link is not None and link.source is not None and link.source[0] is x and link.source[1] is idx:
        return  # x[idx] += v: the sum is there already
    if v is x and idx is Ellipsis:
        return  # NumPy writes nothing then, even if x is read-only
    x._become(setitem(x, idx, v))


# -- the functional forms
# -------------------------------------------------------------------------------------------------


def _updated(x, idx, v, mode):
    return setitem(x if isinstance(x, Tensor) else np.asarray(x), idx, v, mode)


def index_update(x: Any, idx: Any, v: Any) -> NDArray[Any]:
    """A copy of `x` with ``x[idx] = v``; where positions repeat, the last value stays.

    Parameters
    ----------
    x : array
    idx : anything ``x[idx]`` takes
    v : array or number
        Broadcast to the shape of ``x[idx]`` and converted to the dtype of `x`.

    Returns
    -------
    array, of the shape and dtype of `x`

    Raises
    ------
    IndexError
        If a position lies outside the array.
    ValueError
        If `v` does not broadcast.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import index_update
    >>> index_update(np.zeros(3), 1, 5.0)
    array([0., 5., 0.])
    """
    return _updated(x, idx, v, "set")


def index_add(x: Any, idx: Any, v: Any) -> NDArray[Any]:
    """A copy of `x` with `v` added at ``x[idx]`` (see `index_update`); positions that repeat add up.

    Parameters
    ----------
    x : array
    idx : index
        Anything that NumPy takes in ``x[idx]``.
    v : array or number
        Broadcast to the shape of ``x[idx]``.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import index_add
    >>> index_add(np.zeros(3), np.array([0, 0, 2]), 1.0)
    array([2., 0., 1.])
    """
    return _updated(x, idx, v, "add")


def index_mul(x: Any, idx: Any, v: Any) -> NDArray[Any]:
    """A copy of `x` with ``x[idx]`` multiplied by `v` (see `index_update`); positions that repeat multiply up.

    When positions may repeat, a derivative with respect to `v` is not available and raises an error.

    Parameters
    ----------
    x : array
    idx : index
        Anything that NumPy takes in ``x[idx]``.
    v : array or number
        Broadcast to the shape of ``x[idx]``.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import index_mul
    >>> index_mul(np.ones(3), np.array([0, 0, 2]), 3.0)
    array([9., 1., 3.])
    """
    return _updated(x, idx, v, "multiply")


def index_min(x: Any, idx: Any, v: Any) -> NDArray[Any]:
    """A copy of `x` with the smaller of ``x[idx]`` and `v` (see `index_update`); equal ones share the derivative.

    Parameters
    ----------
    x : array
    idx : index
        Anything that NumPy takes in ``x[idx]``.
    v : array or number
        Broadcast to the shape of ``x[idx]``.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import index_min
    >>> index_min(np.ones(3), 0, -1.0)
    array([-1.,  1.,  1.])
    """
    return _updated(x, idx, v, "min")


def index_max(x: Any, idx: Any, v: Any) -> NDArray[Any]:
    """A copy of `x` with the larger of ``x[idx]`` and `v` (see `index_update`); equal ones share the derivative.

    Parameters
    ----------
    x : array
    idx : index
        Anything that NumPy takes in ``x[idx]``.
    v : array or number
        Broadcast to the shape of ``x[idx]``.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import index_max
    >>> index_max(np.ones(3), 0, 4.0)
    array([4., 1., 1.])
    """
    return _updated(x, idx, v, "max")
