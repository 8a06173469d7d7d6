"""Sorting and searching: sort, argsort, lexsort, partition, top_k, searchsorted, digitize, isin, bincount."""

from __future__ import annotations

import math
import operator
from typing import Literal

import numpy as np

from ..graph.graph import Spec, spec_of
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..tensor import Tensor, implements
from ..views import in_c_order
from .define import as_value, batch_first
from .gather import scatter_p
from .shape import normal_axis, open_grid, part
from .take import gather_along

__all__ = ["top_k"]

# -- sort: (keys sorted, permutation) along the last axis, stable
# -------------------------------------------------------------


def _sort(*keys):
    order = np.argsort(keys[0], axis=-1, kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1], axis=-1)
    return (*[k[order] if order.ndim == 1 else np.take_along_axis(k, order, -1) for k in keys], order)


sort_p = Primitive(
    "sort",
    _sort,
    lambda *keys: (*[Spec(k.shape, k.dtype) for k in keys], Spec(keys[0].shape, np.dtype(np.intp))),
    multiple=True,
    kind="sort",
    flops=lambda in_specs, out_specs: in_specs[0].size * max(1, math.log2(in_specs[0].shape[-1] or 1)),
    samples=lambda rng: [
        ((rng.normal(size=(3, 5)),), {}),
        ((np.sort(rng.normal(size=(3, 5)), 0)[[0, 0, 2]], rng.normal(size=(3, 5))), {}),
    ],
)
sort_p.__doc__ = (
    """All `keys` ordered by the first, ties by the second and so on, and the permutation, along the last axis."""
)


@sort_p.defjvp_all
def _(tangents, out, args):
    order = out[-1]
    return (*[None if t is None else gather_along(t, np.ndim(order) - 1, order) for t in tangents], None)


@sort_p.defvjp_all
def _(cts, out, args, needed):
    order = out[-1]
    shape = np.shape(order)
    grid = open_grid(shape)[:-1]
    return [
        None
        if ct is None or not wanted
        else bind(
            scatter_p,
            np.zeros(shape, spec_of(ct).dtype),
            ct,
            *grid,
            order,
            mode="set",
            unique=True,
            in_range=(True,) * len(shape),
        )
        for ct, wanted in zip(cts, needed, strict=False)
    ]


@sort_p.defbatch
def _(args, axes, size):
    return bind(sort_p, *batch_first(args, axes, size)), (0,) * (len(args) + 1)


def _sorted(keys, axis):
    """(sorted keys ..., permutation) along any axis, row by row in memory if the keys are."""
    axis = normal_axis(axis, np.ndim(keys[0]))
    order: Literal["C", "K"] = "C" if all(map(in_c_order, keys)) else "K"
    found = [np.moveaxis(y, -1, axis) for y in bind(sort_p, *[np.moveaxis(k, axis, -1) for k in keys])]
    return [*[np.copy(y, order) for y in found[:-1]], np.copy(found[-1], "C")]


def _start(a, axis):
    a = as_value(a)
    return (np.ravel(a), 0) if axis is None else (a, axis)


@implements(np.sort)
def sort(a, axis=-1, kind=None, order=None, *, stable=None):
    """``numpy.sort``, always stable."""
    a, axis = _start(a, axis)
    return _sorted([a], axis)[0]


@implements(np.argsort, method="argsort")
def argsort(a, axis=-1, kind=None, order=None, *, stable=None):
    """``numpy.argsort``, always stable."""
    a, axis = _start(a, axis)
    return _sorted([a if np.ndim(a) else np.reshape(a, (1,))], axis)[1]


@implements(np.sort_complex)
def sort_complex(a):
    """``numpy.sort_complex``."""
    found = np.sort(a)
    return found if np.result_type(found).kind == "c" else found.astype(np.result_type(found, np.complex64))


@implements(np.lexsort)
def lexsort(keys, axis=-1):
    """``numpy.lexsort``: the last key counts first."""
    keys = np.broadcast_arrays(*keys)
    return _sorted(list(keys[::-1]), axis)[-1]


def _check_kth(kth, n):
    for k in np.ravel(kth):
        if not -n <= k < n:
            raise ValueError(f"kth(={k}) out of bounds ({n})")


@implements(np.partition)
def partition(a, kth, axis=-1, kind="introselect", order=None):
    """``numpy.partition``, by sorting."""
    a, axis = _start(a, axis)
    _check_kth(kth, np.shape(a)[axis])
    return sort(a, axis)


@implements(np.argpartition, method="argpartition")
def argpartition(a, kth, axis=-1, kind="introselect", order=None):
    """``numpy.argpartition``, by sorting."""
    a, axis = _start(a, axis)
    _check_kth(kth, np.shape(a)[axis])
    return argsort(a, axis)


@implements(method="sort")
def _sort_in_place(x, axis=-1, kind=None, order=None, *, stable=None):
    x._become(sort(x, axis))


@implements(method="partition")
def _partition_in_place(x, kth, axis=-1, kind=None, order=None):
    x._become(partition(x, kth, axis))


def top_k(x, k, axis=-1):
    """Return the `k` largest elements along an axis, largest first, and their indices."""
    x = as_value(x)
    axis = normal_axis(axis, np.ndim(x))
    n, k = np.shape(x)[axis], operator.index(k)
    if not 0 <= k <= n:
        raise ValueError(f"top_k: k must lie in 0 ... {n}, the size of axis {axis} of shape {np.shape(x)}, got {k}")
    # sorted from the end, so that the first of equal elements comes first
    values, order = _sorted([np.flip(x, axis)], axis)
    return np.flip(part(values, axis, n - k, n), axis), n - 1 - np.flip(part(order, axis, n - k, n), axis)


# -- searching ---------------------------------------------------------------------------------------------------------


def _searchsorted_spec(a, v, *, side):
    return Spec(v.shape, np.dtype(np.intp))


def _searchsorted_pull(b, index, loads, in_specs, out_spec, *, side):
    """Search in the same number of steps for every value; each step tests a block of elements of the table."""
    n = in_specs[0].shape[0]
    dtype = np.result_type(in_specs[0].dtype, in_specs[1].dtype)
    v = b.ordered(b.cast(loads[1](index), dtype))
    place, step = b.index(0), 1 << (n.bit_length() - 1)
    while step:
        ahead = b.add(place, b.index(step))
        x = b.ordered(b.cast(loads[0]([b.min(b.sub(ahead, b.index(1)), b.index(n - 1))]), dtype))
        before = b.and_(b.cmp("<" if side == "left" else "<=", x, v), b.cmp("<=", ahead, b.index(n)))
        place = b.select(before, ahead, place)
        step >>= 1
    return b.min(place, b.index(n))


searchsorted_p = Primitive(
    "searchsorted",
    lambda a, v, *, side: np.searchsorted(a, v, side),
    _searchsorted_spec,
    differentiable=False,
    kind="pull",
    pull=_searchsorted_pull,
    flops=40,
    samples=lambda rng: [
        ((np.sort(rng.normal(size=6)), rng.normal(size=(2, 3))), {"side": s}) for s in ("left", "right")
    ],
)
searchsorted_p.__doc__ = "Positions of `v` in the sorted 1-d array `a`."


@searchsorted_p.defbatch
def _(args, axes, size, *, side):
    a, v = args
    if axes[0] is None:
        return bind(searchsorted_p, a, v, side=side), axes[1]
    # each example has its own table: count what lies before
    a, v = batch_first(args, axes, size)
    table = np.reshape(a, (size, *(1,) * (np.ndim(v) - 1), -1))
    before = np.less(table, v[..., None]) if side == "left" else np.less_equal(table, v[..., None])
    return np.sum(before, axis=-1), 0


@implements(np.searchsorted)
def searchsorted(a, v, side="left", sorter=None):
    """``numpy.searchsorted``."""
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    a, v = as_value(a), as_value(v)
    if np.ndim(a) != 1:
        raise ValueError(
            "object too deep for desired array" if np.ndim(a) else "object of too small depth for desired array"
        )
    if sorter is not None:
        a = np.take(a, sorter)
    return bind(searchsorted_p, a, v, side=side)


implements(method="searchsorted")(lambda x, v, side="left", sorter=None: searchsorted(x, v, side, sorter))


@implements(np.digitize)
def digitize(x, bins, right=False):
    """``numpy.digitize``; traced bins must increase."""
    steps = np.diff(bins) if not isinstance(bins, Tensor) else np.zeros(0)
    if np.any(steps < 0):
        if np.any(steps > 0):
            raise ValueError("bins must be monotonically increasing or decreasing")
        return np.size(bins) - np.searchsorted(np.flip(bins), x, side="left" if right else "right")
    return np.searchsorted(bins, x, side="left" if right else "right")


@implements(np.isin, array=True)
def isin(element, test_elements, assume_unique=False, invert=False, *, kind=None):
    """``numpy.isin``, by comparing all pairs."""
    element, tests = as_value(element), np.ravel(as_value(test_elements))
    found = np.any(np.equal(np.reshape(element, (*np.shape(element), 1)), tests), axis=-1)
    return np.logical_not(found) if invert else found


@implements(np.bincount)
def bincount(x, /, weights=None, minlength=0):
    """``numpy.bincount``, differentiable in the weights; positions must be concrete, or below `minlength`."""
    x = as_value(x)
    if isinstance(x, Tensor):
        if not minlength:
            raise TypeError(f"bincount: the number of bins must be known, got traced positions {x!r} (give minlength)")
        n = minlength
        x = np.where(np.less(x, 0), n, x)  # beyond the end, where it is an error, rather than counted from there
    else:
        x = np.asarray(x)
        if np.any(x < 0):
            raise ValueError("'list' argument must have no negative elements")
        n = max(int(x.max(initial=-1)) + 1, minlength)
    if weights is None:
        start, weights = np.zeros(n, np.intp), 1
    else:
        weights = as_value(weights)
        if np.shape(weights) != np.shape(x):
            raise ValueError("The weights and list don't have the same length.")
        start = np.zeros(n, float)
        weights = weights.astype(float)
    known = not isinstance(x, Tensor)
    return bind(scatter_p, start, weights, x, mode="add", unique=False, in_range=(known,))


@implements(np.histogram)
def histogram(a, bins=10, range=None, density=None, weights=None):
    """``numpy.histogram``, differentiable in the weights."""
    a = np.ravel(a)
    if np.ndim(bins) == 0:
        if range is None:
            low, high = np.min(a), np.max(a)
        else:
            low, high = range
        single = np.equal(low, high)
        low, high = np.where(single, low - 0.5, low), np.where(single, high + 0.5, high)
        bins = np.linspace(low, high, operator.index(bins) + 1)
    n = np.shape(bins)[0] - 1
    place = np.searchsorted(bins, a, side="right") - 1
    place = np.where(np.equal(a, bins[-1]), n - 1, place)
    inside = np.greater_equal(place, 0) & np.less(place, n)
    kind = np.dtype(np.intp) if weights is None else np.dtype(float)
    w = np.where(inside, kind.type(1) if weights is None else np.ravel(weights), kind.type(0)).astype(kind)
    known = not isinstance(place, Tensor)
    counts = bind(
        scatter_p, np.zeros(n, kind), w, np.clip(place, 0, n - 1), mode="add", unique=False, in_range=(known,)
    )
    if density:
        counts = counts / np.diff(bins) / np.sum(counts)
    return counts, bins
