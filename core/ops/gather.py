"""Positions that are data: gather and scatter, over the leading axes.

`gather` is ``x[i0, i1, ...]`` for integer arrays; `scatter` writes where it reads, with ``mode`` "set", "add",
"multiply", "min" or "max". `in_range[k]` says that the k-th index is known to lie in 0 ... n-1 (it was concrete when
traced, and checked); others may be negative, and are checked when the program runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import MissingRuleError
from ..graph.graph import Spec, spec_of
from ..graph.primitive import Primitive
from ..graph.trace import bind
from .constant import constant_like, zeros_of
from .define import move_batch_axis
from .shape import sum_to
from .sparse import Sparse

__all__ = ["check_bounds", "gather_p", "scatter_p"]

# -- gather -----------------------------------------------------------------------------------------------------------


def _index_shape(indices):
    return np.broadcast_shapes(*[i.shape for i in indices])


def _gather_spec(x, *indices, in_range):
    return Spec((*_index_shape(indices), *x.shape[len(indices) :]), x.dtype)


def _read_indices(b, place, loads, specs, in_range, sizes):
    """The positions that index arrays give for the element at `place`, checked where they may be out of range."""
    rank = max(len(s.shape) for s in specs)
    head = place[:rank]
    out = []
    for load, s, known, n in zip(loads, specs, in_range, sizes, strict=True):
        own = head[rank - len(s.shape) :]
        i = b.cast(load([b.index(0) if m == 1 else h for m, h in zip(s.shape, own, strict=True)]), np.dtype(np.int64))
        out.append(i if known else b.check_index(i, b.index(n)))
    return out, place[rank:]


def _gather_pull(b, place, loads, in_specs, out_spec, *, in_range):
    first, rest = _read_indices(b, place, loads[1:], in_specs[1:], in_range, in_specs[0].shape[: len(in_range)])
    return loads[0]([*first, *rest])


def _gather_samples(rng):
    x = rng.normal(size=(4, 5, 2))
    i, j = np.array([[0, 3, 3], [1, -1, 0]]), np.array([4, 0, 0])
    return [
        ((x, i), {"in_range": (False,)}),
        ((x, i, j), {"in_range": (False, True)}),
        ((x, 2, 1), {"in_range": (True, True)}),
        ((x[:, 0, 0], np.array(-2)), {"in_range": (False,)}),
    ]


gather_p = Primitive(
    "gather",
    lambda x, *indices, in_range: x[indices],
    _gather_spec,
    kind="pull",
    pull=_gather_pull,
    flops=0,
    samples=_gather_samples,
)


@gather_p.defvjp_all
def _(ct, out, args, needed, *, in_range):
    x, *indices = args
    params = {"mode": "add", "unique": _few(indices), "in_range": in_range}
    return [
        Sparse(
            np.shape(x),
            spec_of(x).dtype,
            (ct, *indices),
            lambda dense, ct, *indices: bind(scatter_p, dense, ct, *indices, **params),
            lambda array, ct, *indices: scatter_into(array, ct, indices, "add", in_range),
        ),
        *[None] * len(indices),
    ]


def _few(indices):
    """Return True if the positions are distinct because there is only one."""
    return all(math.prod(np.shape(i)) == 1 for i in indices)


@gather_p.defjvp_all
def _(tangents, out, args, *, in_range):
    return bind(gather_p, tangents[0], *args[1:], in_range=in_range)


def _batched_indices(indices, axes, size):
    """Indices with their batch axes in front, aligned behind it."""
    rank = max(np.ndim(i) - (a is not None) for i, a in zip(indices, axes, strict=True))
    out = []
    for i, a in zip(indices, axes, strict=True):
        if a is not None:
            i = np.moveaxis(i, a, 0)
            i = np.reshape(i, (size, *(1,) * (rank - np.ndim(i) + 1), *np.shape(i)[1:]))
        out.append(i)
    return out, rank


@gather_p.defbatch
def _(args, axes, size, *, in_range):
    x, *indices = args
    ax, *index_axes = axes
    if all(a is None for a in index_axes):
        rank = len(np.broadcast_shapes(*[np.shape(i) for i in indices]))
        return bind(gather_p, np.moveaxis(x, ax, len(indices)), *indices, in_range=in_range), rank
    indices, rank = _batched_indices(indices, index_axes, size)
    if ax is None:
        return bind(gather_p, x, *indices, in_range=in_range), 0
    each = np.arange(size).reshape(size, *(1,) * rank)
    return bind(gather_p, np.moveaxis(x, ax, 0), each, *indices, in_range=(True, *in_range)), 0


# -- scatter ----------------------------------------------------------------------------------------------------------

_AT = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}


def check_bounds(i, n, axis):
    """Raise NumPy's IndexError unless the integers `i` lie in -n ... n-1."""
    if i.size:
        low, high = int(i.min()), int(i.max())
        if low < -n or high >= n:
            raise IndexError(f"index {high if high >= n else low} is out of bounds for axis {axis} with size {n}")


def scatter_into(array, u, indices, mode, in_range):
    """The scatter primitive on a C-contiguous ndarray, in place."""
    indices = tuple(indices)
    if mode == "set":
        array[indices] = u
        return array
    ufunc = _AT[mode]
    if all(np.ndim(i) == 0 for i in indices):
        array[indices] = ufunc(array[indices], u)
        return array
    # flat positions: NumPy's ufunc.at is fast for one index array only
    flat: Any = 0
    for axis, i in enumerate(indices):
        n = array.shape[axis]
        if not in_range[axis]:
            i = np.asarray(i)
            check_bounds(i, n, axis)
            i = np.where(i < 0, i + n, i)
        flat = flat * n + i if axis else i
    block = math.prod(array.shape[len(indices) :])
    if block != 1:
        flat = flat[..., None] * block + np.arange(block)
    ufunc.at(array.reshape(-1), flat.reshape(-1), np.reshape(u, -1) if np.shape(u) else u)
    return array


def _scatter_spec(x, u, *indices, mode, unique, in_range):
    shape = (*_index_shape(indices), *x.shape[len(indices) :])
    if u.shape not in ((), shape):
        raise ValueError(f"scatter: updates must have shape {shape} or (), got {u.shape}")
    return Spec(x.shape, x.dtype)


def _scatter_samples(rng):
    out = []
    for (x, *indices), params in _gather_samples(rng):
        u = rng.normal(size=np.shape(x[tuple(indices)]))
        unique = _few(indices)
        modes = ("set", "add", "min", "max", "multiply") if unique else ("set", "add", "min", "max")
        out += [((x, u, *indices), {"mode": mode, "unique": unique, **params}) for mode in modes]
    x, i = rng.normal(size=(5, 2)), np.array([3, 0, 1])
    return [*out, ((x, rng.normal(size=(3, 2)), i), {"mode": "multiply", "unique": True, "in_range": (True,)})]


def _scatter(x, u, *indices, mode, unique, in_range):
    out = scatter_into(np.array(x, order="C"), u, indices, mode, in_range)
    if x.flags.c_contiguous:
        return out
    same_order = np.empty_like(x)  # an assignment leaves elements in the order they are in
    same_order[...] = out
    return same_order


scatter_p = Primitive("scatter", _scatter, _scatter_spec, kind="update", samples=_scatter_samples)
scatter_p.__doc__ = """Write `u` into x at ``[i0, i1, ...]``, or combine both (`mode`), in order: the last value stays.

`u` has the shape of the corresponding gather, or is a scalar. `unique` says that no position occurs twice."""


def _read(x, indices, params):
    return bind(gather_p, x, *indices, in_range=params["in_range"])


def _last(x, u, indices, params):
    """1 for updates that stay, 0 for those overwritten by a later one at the same place; None when all stay."""
    if params["unique"]:
        return None
    shape = np.broadcast_shapes(*[np.shape(i) for i in indices])
    order = np.arange(math.prod(shape)).reshape(shape)
    owners = constant_like(indices[0], 0, np.shape(x)[: len(indices)], np.dtype(np.int64))
    owners = bind(scatter_p, owners, order, *indices, **params)
    stays = np.equal(_read(owners, indices, params), order)
    return np.reshape(stays, (*shape, *(1,) * (np.ndim(x) - len(indices))))


def _chosen(out, x, u, indices, params):
    """Return which old elements and updates became the minimum or maximum, and how many share each place."""
    one, zero = spec_of(out).dtype.type(1), spec_of(out).dtype.type(0)
    chosen_x, chosen_u = np.equal(x, out), np.equal(u, _read(out, indices, params))
    many = bind(
        scatter_p, np.where(chosen_x, one, zero), np.where(chosen_u, one, zero), *indices, **{**params, "mode": "add"}
    )
    return chosen_x, chosen_u, many


def _check_product(params):
    if not params["unique"]:
        raise MissingRuleError(
            "scatter with mode='multiply': no derivative with respect to factors whose positions may repeat "
            "(give positions that are concrete and distinct, or multiply by np.exp of a sum)"
        )


@scatter_p.defvjp_all
def _(ct, out, args, needed, **params):
    x, u, *indices = args
    mode = params["mode"]
    ct_x = ct_u = None
    if mode in ("min", "max"):
        chosen_x, chosen_u, many = _chosen(out, x, u, indices, params)
        share = ct / many
        ct_x, ct_u = np.where(chosen_x, share, 0), np.where(chosen_u, _read(share, indices, params), 0)
    else:
        if needed[0]:
            ct_x = {
                "add": lambda: ct,
                "set": lambda: bind(scatter_p, ct, 0.0, *indices, **params),
                "multiply": lambda: bind(scatter_p, ct, u, *indices, **params),
            }[mode]()
        if needed[1]:
            ct_u = _read(ct, indices, params)
            if mode == "multiply":
                _check_product(params)
                ct_u = ct_u * _read(x, indices, params)
            elif mode == "set" and (stays := _last(x, u, indices, params)) is not None:
                ct_u = np.where(stays, ct_u, 0)
    return [ct_x, None if ct_u is None else sum_to(ct_u, np.shape(u)), *[None] * len(indices)]


@scatter_p.defjvp_all
def _(tangents, out, args, **params):
    x, u, *indices = args
    tx, tu = tangents[:2]
    mode = params["mode"]
    if mode in ("add", "set"):
        if mode == "add" and tu is None:
            return tx
        return bind(scatter_p, zeros_of(out) if tx is None else tx, 0.0 if tu is None else tu, *indices, **params)
    add = {**params, "mode": "add"}
    if mode == "multiply":
        t = zeros_of(out) if tx is None else bind(scatter_p, tx, u, *indices, **params)
        if tu is not None:
            _check_product(params)
            t = bind(scatter_p, t, tu * _read(x, indices, params), *indices, **add)
        return t
    chosen_x, chosen_u, many = _chosen(out, x, u, indices, params)
    t = zeros_of(out) if tx is None else np.where(chosen_x, tx, 0)
    if tu is not None:
        t = bind(scatter_p, t, np.where(chosen_u, tu, 0), *indices, **add)
    return t / many


@scatter_p.defbatch
def _(args, axes, size, **params):
    x, u, *indices = args
    ax, au, *index_axes = axes
    x = move_batch_axis(x, ax, size)
    indices, rank = _batched_indices(indices, index_axes, size)
    each = np.arange(size).reshape(size, *(1,) * rank)
    places = np.broadcast_shapes(*[np.shape(i) for i in indices], (1,) * rank)[-rank:] if rank else ()
    shape = (size, *places, *np.shape(x)[len(indices) + 1 :])
    if au is not None:
        u = np.moveaxis(u, au, 0)
        if np.shape(u) != shape:  # a scalar each
            u = np.broadcast_to(np.reshape(u, (size, *(1,) * (len(shape) - 1))), shape)
    elif np.shape(u):
        u = np.broadcast_to(u, shape)
    return bind(scatter_p, x, u, each, *indices, **{**params, "in_range": (True, *params["in_range"])}), 0
