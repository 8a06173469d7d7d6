"""Arrays made from others: zeros_like and relatives, copies, triangles, linspace with traced ends."""

from __future__ import annotations

import functools
import operator

import numpy as np

from ..errors import TracerError
from ..graph.graph import spec_of
from ..graph.trace import GraphTensor, is_spread, view
from ..tensor import CREATION, FUNCTIONS, Tensor, implements
from ..views import in_c_order, is_scalar, own_array
from .complex import real_dtype
from .constant import constant_like
from .define import as_value, has_tensor, named
from .elementwise import converted
from .shape import reshape_p

__all__ = ["as_contiguous", "as_fortran", "collect", "full_of", "over_lists"]


def _shape(shape, default):
    if shape is None:
        return default
    return tuple(map(operator.index, shape)) if isinstance(shape, (tuple, list)) else (operator.index(shape),)


def _ordered(out, like, order):
    """`out` as an array of its own, whose elements are in the order of `like` or as `order` says."""
    if not isinstance(out, Tensor):
        return out
    if order == "K" and isinstance(out, GraphTensor) and isinstance(like, GraphTensor):
        if not in_c_order(like) or is_spread(like):
            out._trace.unordered.add(out.value)
    elif order == "F" or (order in "AK" and isinstance(like, Tensor) and not in_c_order(like)):
        return own_array(out, False)
    return own_array(out)


def _like(name, value):
    """A Tensor filled with a constant, so that it can be assigned into."""

    def function(a, dtype=None, order="K", subok=True, shape=None, *, device=None):
        shape, dtype = _shape(shape, np.shape(a)), np.dtype(dtype or np.result_type(a))
        if (
            len(shape) > 1
            and order in "KA"
            and isinstance(a, Tensor)
            and not isinstance(a, GraphTensor)
            and not in_c_order(a)
        ):
            return own_array(np.transpose(constant_like(a, value, shape[::-1], dtype))._handle(), False)
        return _ordered(constant_like(a, value, shape, dtype), a, order)

    def created(like, shape, dtype=float, order="C", *, device=None):
        return _ordered(constant_like(like, value, _shape(shape, ()), np.dtype(dtype or float)), None, order)

    CREATION[getattr(np, name)] = created
    doc = f"``numpy.{name}_like``: a traced array of its own, for assignments to elements."
    return implements(getattr(np, f"{name}_like"))(named(function, f"{name}_like", doc))


zeros_like = _like("zeros", 0)
ones_like = _like("ones", 1)
empty_like = _like("empty", 0)


@implements(np.full_like)
def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    """``numpy.full_like``; the value may be traced."""
    return _ordered(_full(a, _shape(shape, np.shape(a)), fill_value, np.dtype(dtype or np.result_type(a))), a, order)


def _full(like, shape, value, dtype):
    out = constant_like(like, 0, shape, dtype)
    if isinstance(value, Tensor) or np.ndim(value):
        value = as_value(value)
        lead = np.ndim(value) - len(shape)
        value = (
            np.reshape(value, np.shape(value)[lead:]) if lead > 0 and np.shape(value)[:lead] == (1,) * lead else value
        )
        filled = np.broadcast_to(value.astype(dtype) if np.result_type(value) != dtype else value, shape)
        return filled._handle() if isinstance(filled, Tensor) else like._trace.lift(filled)
    return constant_like(like, value, shape, dtype) if value != 0 else out


def _full_created(like, shape, fill_value, dtype=None, order="C", *, device=None):
    return _ordered(
        _full(like, _shape(shape, ()), fill_value, np.dtype(dtype or np.result_type(fill_value))), None, order
    )


def _lifted(f):
    return lambda like, *args, **kwargs: like._trace.lift(f(*args, **kwargs))


CREATION[np.full] = _full_created
for _f in (np.eye, np.identity, np.arange, np.tri):
    CREATION[_f] = _lifted(_f)
CREATION[np.array] = lambda like, obj, dtype=None, *, copy=True, **kwargs: _traced_like(like, collect(obj, dtype, copy))
for _f in (np.asarray, np.asanyarray, np.ascontiguousarray):
    CREATION[_f] = lambda like, obj, dtype=None, *args, **kwargs: _traced_like(like, collect(obj, dtype))


def _traced_like(like, x):
    return x if isinstance(x, Tensor) else like._trace.lift(x)


def full_of(shape, value, dtype=None):
    """An array of `shape` filled with a traced value."""
    return _ordered(_full(value, _shape(shape, ()), value, np.dtype(dtype or value.dtype)), None, "C")


def collect(obj, dtype=None, copy=None):
    """Arrays, numbers, Tensors and nested sequences of them as one array or Tensor, with `copy` as in
    ``numpy.array``.
    """
    if isinstance(obj, Tensor):
        if (dtype is None or np.dtype(dtype) == obj.dtype) and not copy:
            return own_array(obj._handle()) if is_scalar(obj) else obj
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return own_array(np.copy(obj) if dtype is None else obj.astype(dtype))
    if has_tensor(obj):
        obj = as_value(obj)
        return obj.astype(dtype) if dtype is not None else obj
    return np.asarray(obj, dtype)


def as_contiguous(a, dtype=None):
    """``numpy.ascontiguousarray``: the array itself where it is contiguous, else a copy."""
    a = collect(a, dtype)
    return view(reshape_p, a, gapless=True, shape=np.shape(a) or (1,))


def as_fortran(a, dtype=None):
    """``numpy.asfortranarray``: the array itself where its transpose is contiguous, else a copy."""
    return np.transpose(as_contiguous(np.transpose(collect(a, dtype))))


def over_lists(f):
    """The NumPy function `f`, also for lists with traced values in them, and where NumPy looks at some arguments
    only.
    """

    @functools.wraps(f)
    def function(*args, **kwargs):
        args = [collect(a) if type(a) in (list, tuple) and has_tensor(a) else a for a in args]
        # the table in take(table, i) is looked at, the positions are not
        traced = FUNCTIONS.get(f) if any(isinstance(a, Tensor) for a in args) else None
        return (traced or f)(*args, **kwargs)

    return function


@implements(np.copy)
def copy(a, order="K", subok=False):
    """``numpy.copy``: later assignments to one leave the other as it is."""
    return _copied(a, order) if a.ndim else own_array(a._handle())


def _copied(x, order):
    out = converted(x, x.dtype, order) if order in "KA" and is_spread(x) else x._handle()
    if x.ndim > 1:
        return own_array(out, True if order == "C" else False if order == "F" else None)
    return own_array(out) if x.ndim or x._link is not None else out


implements(method="copy")(lambda x, order="C": _copied(x, order))
implements(method="__copy__")(lambda x: _copied(x, "C"))
implements(method="__deepcopy__")(lambda x, memo: _copied(x, "C"))


@implements(np.copyto)
def copyto(dst, src, casting="same_kind", where=True):
    """``numpy.copyto`` into a traced array."""
    if not isinstance(dst, Tensor):
        raise TracerError(
            "copyto: the destination must be a traced array here, got a plain ndarray (a traced value cannot be put "
            "into it)"
        )
    src = as_value(src)
    if not np.can_cast(spec_of(src).dtype, dst.dtype, casting) and not spec_of(src).weak:
        raise TypeError(
            f"Cannot cast array data from {spec_of(src).dtype!r} to {dst.dtype!r} according to the rule {casting!r}"
        )
    dst[...] = src if where is True else np.where(where, src, dst)


# -- triangles ---------------------------------------------------------------------------------------------------------


def _triangle(name, keep):
    def function(m, k=0):
        shape = np.shape(m)
        if not shape:
            raise ValueError(f"{name}: expected an array of at least one dimension, got shape ()")
        shape = shape if len(shape) > 1 else shape * 2  # a vector is every row, as NumPy has it
        below, strictly = (np.tri(shape[-2], shape[-1], k=d, dtype=bool) for d in (k, k - 1))
        return np.where(keep(below, strictly), m, np.result_type(m).type(0))

    return implements(getattr(np, name))(named(function, name))


tril = _triangle("tril", lambda upto, below: upto)
triu = _triangle("triu", lambda upto, below: ~below)


@implements(np.vander)
def vander(x, N=None, increasing=False):
    """``numpy.vander``: powers by repeated products."""
    x = as_value(x)
    if np.ndim(x) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    n = np.shape(x)[0] if N is None else operator.index(N)
    x = x.astype(np.promote_types(np.result_type(x), int))
    powers = [np.ones_like(x)]
    for _ in range(n - 1):
        powers.append(powers[-1] * x)
    if n == 0:
        return np.reshape(powers[0][:0], (0,)) + np.zeros((np.shape(x)[0], 0))
    return np.stack(powers if increasing else powers[::-1], axis=-1)


# -- ranges with traced ends
# ------------------------------------------------------------------------------------------------


@implements(np.linspace)
def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    """``numpy.linspace``, differentiable in `start` and `stop`."""
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    intervals = num - 1 if endpoint else num
    start, stop = start * 1.0, stop * 1.0
    start, stop = np.broadcast_arrays(start, stop)
    fraction = (np.arange(num) / max(intervals, 1)).astype(real_dtype(np.result_type(start, stop)))
    fraction = np.reshape(fraction, (-1,) + (1,) * np.ndim(start))
    y = start + fraction * (stop - start)
    if endpoint and num > 1:  # both ends exact, as NumPy's
        y = np.where(np.equal(fraction, 1), stop, y)
    step = (stop - start) / intervals if intervals > 0 else (stop - start) * np.nan
    y = np.moveaxis(y, 0, axis) if axis else y
    if dtype is not None:
        y = (np.floor(y) if np.dtype(dtype).kind in "iu" else y).astype(dtype)
    return (y, step) if retstep else y


@implements(np.logspace)
def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """``numpy.logspace``."""
    y = np.power(base, np.linspace(start, stop, num, endpoint, axis=axis))
    return y if dtype is None else y.astype(dtype)


@implements(np.geomspace)
def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """``numpy.geomspace``, for ends of one sign that are not zero."""
    if any(not isinstance(x, Tensor) and np.any(np.equal(x, 0)) for x in (start, stop)):
        raise ValueError("Geometric sequence cannot include zero")
    start, stop = (
        as_value(x).astype(np.result_type(x, float)) if np.ndim(x) or isinstance(x, Tensor) else x * 1.0
        for x in (start, stop)
    )
    ratio = np.log(stop / start)
    y = start * np.exp(np.linspace(0.0 * ratio, ratio, num, endpoint, axis=axis))
    return y if dtype is None else y.astype(dtype)
