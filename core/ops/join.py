"""Joining and splitting: concatenate, stack and their relatives, split, unstack."""

from __future__ import annotations

import operator

import numpy as np

from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind, view
from ..tensor import implements
from .define import as_value, batch_first, refuse_out
from .shape import normal_axis
from .slices import slice_p

__all__: list[str] = []


def _concatenate_spec(*specs, axis):
    shape = list(specs[0].shape)
    shape[axis] = sum(s.shape[axis] for s in specs)
    return Spec(tuple(shape), specs[0].dtype)


def _concatenate_pull(b, place, loads, in_specs, out_spec, *, axis):
    parts = [(load, s.shape[axis]) for load, s in zip(loads, in_specs, strict=True) if s.shape[axis]]
    if not parts:
        return b.const(0, out_spec.dtype)
    i = place[axis]
    starts = [sum(n for _, n in parts[:k]) for k in range(len(parts))]
    value = None
    for (load, n), start in zip(parts[::-1], starts[::-1], strict=True):
        k = b.sub(i, b.index(start)) if start else i
        if len(parts) > 1:  # each part is read at a valid place, also where it is not taken
            k = b.max(b.min(k, b.index(n - 1)), b.index(0))
        part = load([*place[:axis], k, *place[axis + 1 :]])
        value = part if value is None else b.select(b.cmp("<", i, b.index(start + n)), part, value)
    return value


concatenate_p = Primitive(
    "concatenate",
    lambda *xs, axis: np.concatenate(xs, axis),
    _concatenate_spec,
    kind="pull",
    pull=_concatenate_pull,
    flops=0,
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)), rng.normal(size=(2, 1)), rng.normal(size=(2, 2))), {"axis": 1}),
        ((rng.normal(size=4),), {"axis": 0}),
    ],
)


def _window(x, axis, start, size):
    """``x[start : start + size]`` along `axis`."""
    return view(
        slice_p, x, index=tuple((start, 1, size) if a == axis else (0, 1, n) for a, n in enumerate(np.shape(x)))
    )


@concatenate_p.defvjp_all
def _(ct, out, args, needed, *, axis):
    cts, start = [], 0
    for x, wanted in zip(args, needed, strict=True):
        n = np.shape(x)[axis]
        cts.append(_window(ct, axis, start, n) if wanted else None)
        start += n
    return cts


@concatenate_p.defjvp_all
def _(tangents, out, args, *, axis):
    zero = [
        np.broadcast_to(np.zeros((), np.result_type(x)), np.shape(x)) if t is None else t
        for t, x in zip(tangents, args, strict=True)
    ]
    return bind(concatenate_p, *zero, axis=axis)


@concatenate_p.defbatch
def _(args, axes, size, *, axis):
    return bind(concatenate_p, *batch_first(args, axes, size), axis=axis + 1), 0


def _joint(arrays, dtype, casting, where):
    """The parts in one dtype."""
    parts = [as_value(a) for a in arrays]
    if not parts:
        raise ValueError(f"{where}: need at least one array to {'stack' if where == 'stack' else 'concatenate'}")
    common = np.dtype(dtype) if dtype is not None else np.result_type(*parts)
    if casting != "same_kind" or dtype is not None:
        for p in parts:
            if not np.can_cast(np.result_type(p), common, casting):
                raise TypeError(
                    f"Cannot cast array data from {np.result_type(p)!r} to {common!r} according to the rule {casting!r}"
                )
    return [
        p if getattr(p, "dtype", None) == common else (p.astype(common) if hasattr(p, "astype") else common.type(p))
        for p in parts
    ]


@implements(np.concatenate)
def concatenate(arrays, /, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """``numpy.concatenate``."""
    refuse_out("concatenate", out)
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [np.ravel(a) for a in arrays], 0
    parts = _joint(arrays, dtype, casting, "concatenate")
    rank = np.ndim(parts[0])
    if rank == 0:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = normal_axis(axis, rank)
    first = np.shape(parts[0])
    for k, p in enumerate(parts[1:], 1):
        own = np.shape(p)
        if len(own) != rank or own[:axis] + own[axis + 1 :] != first[:axis] + first[axis + 1 :]:
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly, but along axis "
                f"{axis} "
                f"the array at index 0 has shape {first} and the array at index {k} has shape {own}"
            )
    return bind(concatenate_p, *parts, axis=axis)


@implements(np.stack)
def stack(arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    """``numpy.stack``."""
    refuse_out("stack", out)
    parts = _joint(arrays, dtype, casting, "stack")
    shapes = {np.shape(p) for p in parts}
    if len(shapes) > 1:
        raise ValueError(f"all input arrays must have the same shape, got {sorted(shapes)}")
    (shape,) = shapes
    axis = normal_axis(axis, len(shape) + 1)
    parts = [np.reshape(p, (*shape[:axis], 1, *shape[axis:])) for p in parts]
    return bind(concatenate_p, *parts, axis=axis)


def _each(function, arrays):
    parts = function(*arrays)
    return list(parts) if isinstance(parts, (list, tuple)) else [parts]


@implements(np.hstack)
def hstack(tup, *, dtype=None, casting="same_kind"):
    """``numpy.hstack``."""
    parts = _each(np.atleast_1d, tup)
    return concatenate(parts, 0 if np.ndim(parts[0]) == 1 else 1, dtype=dtype, casting=casting)


@implements(np.vstack)
def vstack(tup, *, dtype=None, casting="same_kind"):
    """``numpy.vstack``."""
    return concatenate(_each(np.atleast_2d, tup), 0, dtype=dtype, casting=casting)


@implements(np.dstack)
def dstack(tup):
    """``numpy.dstack``."""
    return concatenate(_each(np.atleast_3d, tup), 2)


@implements(np.column_stack)
def column_stack(tup):
    """``numpy.column_stack``."""
    return concatenate([np.reshape(a, (-1, 1)) if np.ndim(a) < 2 else a for a in tup], 1)


@implements(np.append)
def append(arr, values, axis=None):
    """``numpy.append``."""
    if axis is None:
        arr, values, axis = np.ravel(arr), np.ravel(values), 0
    return concatenate((arr, values), axis)


@implements(np.block)
def block(arrays):
    """``numpy.block``."""

    def depth(a):
        return 1 + max(map(depth, a)) if isinstance(a, list) else 0

    def rank(a):
        return max(map(rank, a)) if isinstance(a, list) else np.ndim(a)

    levels = depth(arrays)
    full = max(levels, rank(arrays))

    def build(a, level):
        if isinstance(a, list):
            if not a:
                raise ValueError("block: lists cannot be empty")
            return concatenate([build(i, level + 1) for i in a], axis=full - levels + level)
        return np.reshape(a, (*(1,) * (full - np.ndim(a)), *np.shape(a)))

    return build(arrays, 0)


# -- splitting ---------------------------------------------------------------------------------------------------------


@implements(np.array_split, view=True)
def array_split(ary, indices_or_sections, axis=0):
    """``numpy.array_split``."""
    axis = normal_axis(axis, np.ndim(ary))
    n = np.shape(ary)[axis]
    if np.ndim(indices_or_sections) == 0:
        parts = operator.index(indices_or_sections)
        if parts <= 0:
            raise ValueError("number sections must be larger than 0.")
        small, more = divmod(n, parts)
        ends = [0, *np.cumsum([small + 1] * more + [small] * (parts - more)).tolist()]
        return [_window(ary, axis, a, b - a) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    ends = [0, *indices_or_sections, n]
    out = []
    for a, b in zip(ends[:-1], ends[1:], strict=True):
        start, stop, _ = slice(a, b).indices(n)
        out.append(_window(ary, axis, start, max(0, stop - start)))
    return out


@implements(np.split, view=True)
def split(ary, indices_or_sections, axis=0):
    """``numpy.split``."""
    n = np.shape(ary)[normal_axis(axis, np.ndim(ary))]
    if np.ndim(indices_or_sections) == 0 and n % operator.index(indices_or_sections):
        raise ValueError(
            f"array split does not result in an equal division: {n} elements in {indices_or_sections} parts"
        )
    return array_split(ary, indices_or_sections, axis)


@implements(np.hsplit, view=True)
def hsplit(ary, indices_or_sections):
    """``numpy.hsplit``."""
    if np.ndim(ary) == 0:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(ary, indices_or_sections, 1 if np.ndim(ary) > 1 else 0)


@implements(np.vsplit, view=True)
def vsplit(ary, indices_or_sections):
    """``numpy.vsplit``."""
    if np.ndim(ary) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@implements(np.dsplit, view=True)
def dsplit(ary, indices_or_sections):
    """``numpy.dsplit``."""
    if np.ndim(ary) < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


@implements(np.unstack, view=True)
def unstack(x, /, *, axis=0):
    """``numpy.unstack``."""
    axis = normal_axis(axis, np.ndim(x))
    shape = np.shape(x)
    take = [tuple(i if a == axis else (0, 1, n) for a, n in enumerate(shape)) for i in range(shape[axis])]
    return tuple((view if len(shape) > 1 else bind)(slice_p, x, index=index) for index in take)


@implements(np.insert)
def insert(arr, obj, values, axis=None):
    """``numpy.insert`` at static positions."""
    if axis is None:
        arr, axis = np.ravel(arr), 0
    axis = normal_axis(axis, np.ndim(arr))
    n = np.shape(arr)[axis]
    # NumPy's own answer for positions: entries -1 - k stand for the k-th value
    single = np.ndim(obj) == 0 and not isinstance(obj, slice)
    values = as_value(values)
    values = values.astype(np.result_type(arr)) if hasattr(values, "astype") else np.result_type(arr).type(values)
    shape = list(np.shape(arr))
    if single:
        values = np.moveaxis(np.reshape(values, (*(1,) * (np.ndim(arr) - np.ndim(values)), *np.shape(values))), 0, axis)
        many = np.shape(values)[axis]
        positions = np.insert(np.arange(n), [operator.index(obj)] * many, -1 - np.arange(many))
    else:
        chosen = np.arange(n + 1)[obj] if isinstance(obj, slice) else np.asarray(obj)
        many = np.count_nonzero(chosen) if chosen.dtype == bool else chosen.size
        positions = np.insert(np.arange(n), obj, -1 - np.arange(many))
    shape[axis] = many
    both = concatenate((arr, np.broadcast_to(values, tuple(shape))), axis)
    return np.take(both, np.where(positions < 0, n - 1 - positions, positions), axis=axis)


@implements(np.delete)
def delete(arr, obj, axis=None):
    """``numpy.delete`` at static positions."""
    if axis is None:
        arr, axis = np.ravel(arr), 0
    return np.take(arr, np.delete(np.arange(np.shape(arr)[normal_axis(axis, np.ndim(arr))]), obj), axis=axis)
