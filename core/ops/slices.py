"""Static positions: pad, slice, slice_update.

The `index` of a slice has one entry per axis: an int (the axis disappears) or a triple (start, step, size), all within
the array. `slice_update` writes where `slice` reads.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ..graph.graph import Spec, spec_of
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..tensor import Tensor
from .constant import constant_like, zeros_of
from .define import move_batch_axis
from .shape import sum_to
from .sparse import Sparse

__all__ = ["pad_p", "slice_p", "slice_update_p"]

# -- pad: zeros around and between the elements; negative widths crop
# ---------------------------------------------------


def _pad_shape(shape, low, high, interior):
    return tuple(
        max(0, lo + hi + n + max(0, n - 1) * gap) for n, lo, hi, gap in zip(shape, low, high, interior, strict=True)
    )


def _pad(x, *, low, high, interior):
    x = np.asarray(x)
    out = np.zeros(_pad_shape(x.shape, low, high, interior), x.dtype)
    source, target = [], []
    for n, m, lo, gap in zip(x.shape, out.shape, low, interior, strict=True):
        step = gap + 1
        first = -(lo // step) if lo < 0 else 0  # the first element that is not cropped
        last = min(n, (m - lo + step - 1) // step)
        source.append(slice(first, max(first, last)))
        target.append(slice(lo + first * step, lo + (last - 1) * step + 1 if last > first else lo + first * step, step))
    out[tuple(target)] = x[tuple(source)]
    return out


def _pad_pull(b, place, loads, in_specs, out_spec, *, low, high, interior):
    if 0 in in_specs[0].shape:
        return b.const(0, out_spec.dtype)
    inside, source = None, []
    for i, n, lo, hi, gap in zip(place, in_specs[0].shape, low, high, interior, strict=True):
        k = i if lo == 0 else b.sub(i, b.index(lo))
        tests = []
        if lo > 0:
            tests.append(b.cmp(">=", k, b.index(0)))
        if hi > 0:
            tests.append(b.cmp("<=", k, b.index((n - 1) * (gap + 1))))
        if lo > 0 or hi > 0:  # read within the array also where the value is dropped
            k = b.max(b.min(k, b.index(max(0, (n - 1) * (gap + 1)))), b.index(0))
        if gap:
            tests.append(b.cmp("==", b.mod(k, b.index(gap + 1)), b.index(0)))
            k = b.floordiv(k, b.index(gap + 1))
        source.append(k)
        for t in tests:
            inside = t if inside is None else b.logical_and(inside, t)
    value = loads[0](source)
    return value if inside is None else b.select(inside, value, b.const_like(0, value))


pad_p = Primitive(
    "pad",
    _pad,
    lambda x, **params: Spec(_pad_shape(x.shape, **params), x.dtype),
    kind="pull",
    pull=_pad_pull,
    flops=0,
    samples=lambda rng: [
        ((rng.normal(size=(3, 4)),), {"low": lo, "high": hi, "interior": gap})
        for lo, hi, gap in (
            ((1, 0), (2, 3), (0, 0)),
            ((0, 2), (0, 0), (1, 2)),
            ((-1, -2), (0, -1), (0, 0)),
            ((-2, 1), (1, -3), (1, 2)),
        )
    ],
)
pad_p.defjvp("same")


@pad_p.defvjp
def _(ct, out, x, *, low, high, interior):
    ct = bind(pad_p, ct, low=tuple(-lo for lo in low), high=tuple(-hi for hi in high), interior=(0,) * len(low))
    if not any(interior):
        return ct
    return bind(slice_p, ct, index=tuple((0, gap + 1, n) for gap, n in zip(interior, np.shape(x), strict=True)))


@pad_p.defbatch
def _(args, axes, size, **params):
    ax = axes[0]
    return bind(pad_p, args[0], **{k: (*v[:ax], 0, *v[ax:]) for k, v in params.items()}), ax


# -- slice ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=65536)
def as_slices(index):
    """NumPy's form of a slice primitive's `index`."""
    out = []
    for entry in index:
        if type(entry) is int:
            out.append(entry)
        else:
            start, step, size = entry
            stop = start + step * size
            out.append(slice(start, stop if stop >= 0 else None, step) if size else slice(0, 0))
    return tuple(out)


def _slice_shape(index):
    return tuple(e[2] for e in index if type(e) is not int)


def _source_index(b, place, index):
    """Return the position in the array of the element at `place` of a slice."""
    place = iter(place)
    out = []
    for e in index:
        if type(e) is int:
            out.append(b.index(e))
        else:
            i = next(place)
            i = i if e[1] == 1 else b.mul(i, b.index(e[1]))
            out.append(i if e[0] == 0 else b.add(i, b.index(e[0])))
    return out


def _slice_samples(rng):
    x = rng.normal(size=(4, 5))
    indices = ((2, (0, 1, 5)), ((1, 1, 2), (0, 2, 3)), ((3, -1, 4), (4, -2, 2)), (0, 3), ((0, 1, 0), (0, 1, 5)))
    return [((x,), {"index": index}) for index in indices]


slice_p = Primitive(
    "slice",
    lambda x, *, index: x[as_slices(index)],
    lambda x, *, index: Spec(_slice_shape(index), x.dtype),
    kind="pull",
    flops=0,
    samples=_slice_samples,
    pull=lambda b, place, loads, in_specs, out_spec, *, index: loads[0](_source_index(b, place, index)),
)
slice_p.defjvp("same")
slice_p.defview(lambda x, new, *, index: bind(slice_update_p, x, new, index=index, mode="set"))


def _slice_vjp(ct, out, x, *, index):
    shape = np.shape(x)
    if isinstance(ct, Tensor) and 4 * math.prod(np.shape(ct)) >= math.prod(shape):
        return _embed(ct, shape, index)  # large parts fuse better as padding
    return Sparse(
        shape,
        spec_of(x).dtype,
        (ct,),
        lambda dense, ct: bind(slice_update_p, dense, ct, index=index, mode="add"),
        lambda array, ct: _add_slice(array, ct, as_slices(index)),
    )


def _add_slice(array, ct, slices):
    array[slices] += ct


def _embed(ct, shape, index):
    """Zeros of `shape` with `ct` at `index`."""
    if 0 in np.shape(ct):
        return constant_like(ct, 0, shape, spec_of(ct).dtype)
    ct = np.reshape(ct, tuple(1 if type(e) is int else e[2] for e in index))
    entries = [(e, 1, 1) if type(e) is int else e for e in index]
    if any(step < 0 for _, step, _ in entries):
        ct = bind(
            slice_p, ct, index=tuple((size - 1, -1, size) if step < 0 else (0, 1, size) for _, step, size in entries)
        )
    low = tuple(start if step > 0 else start + step * (size - 1) for start, step, size in entries)
    high = tuple(
        n - 1 - lo - abs(step) * (size - 1) for n, lo, (_, step, size) in zip(shape, low, entries, strict=True)
    )
    return bind(pad_p, ct, low=low, high=high, interior=tuple(abs(step) - 1 for _, step, _ in entries))


slice_p.defvjp(_slice_vjp)


def _batched_index(index, axis, size):
    """The slice that takes all of a batch axis at `axis`, and where that axis ends up."""
    return (*index[:axis], (0, 1, size), *index[axis:]), sum(type(e) is not int for e in index[:axis])


@slice_p.defbatch
def _(args, axes, size, *, index):
    index, axis = _batched_index(index, axes[0], size)
    return bind(slice_p, args[0], index=index), axis


# -- slice_update -----------------------------------------------------------------------------------------------------


def _slice_update(x, u, *, index, mode):
    out = np.array(x, order="K")
    slices = as_slices(index)
    if mode == "set":
        out[slices] = u
    else:
        out[slices] += u
    return out


def _slice_update_pull(b, place, loads, in_specs, out_spec, *, index, mode):
    inside, source = None, []
    for i, e in zip(place, index, strict=True):
        start, step, size = (e, 1, 1) if type(e) is int else e
        if size == 0:
            return loads[0](place)
        low = start if step > 0 else start + step * (size - 1)
        high = low + abs(step) * (size - 1)
        tests = [b.cmp(">=", i, b.index(low)), b.cmp("<=", i, b.index(high))]
        if abs(step) > 1:
            tests.append(b.cmp("==", b.mod(b.sub(i, b.index(low)), b.index(abs(step))), b.index(0)))
        for t in tests:
            inside = t if inside is None else b.logical_and(inside, t)
        if type(e) is not int:
            i = b.max(b.min(i, b.index(high)), b.index(low))
            i = b.sub(i, b.index(start)) if step > 0 else b.sub(b.index(start), i)
            source.append(i if abs(step) == 1 else b.floordiv(i, b.index(abs(step))))
    old, new = loads[0](place), loads[1](source if in_specs[1].shape else [])
    return b.select(inside, new if mode == "set" else b.add(old, new), old)


def _slice_update_samples(rng):
    out = []
    for (x,), params in _slice_samples(rng):
        u = rng.normal(size=_slice_shape(params["index"]))
        out += [((x, u), {**params, "mode": mode}) for mode in ("set", "add")]
    return [*out, ((x, 2.5), {"index": (0, (0, 1, 3)), "mode": "set"})]


slice_update_p: Primitive = Primitive(
    "slice_update",
    _slice_update,
    lambda x, u, *, index, mode: Spec(x.shape, x.dtype),
    kind="update",
    pull=_slice_update_pull,
    flops=0,
    samples=_slice_update_samples,
)
slice_update_p.__doc__ = "x with `u` (of the slice's shape, or a scalar) written or added at `index`."
slice_update_p.defvjp(
    lambda ct, out, x, u, *, index, mode: (
        ct if mode == "add" else bind(slice_update_p, ct, 0.0, index=index, mode="set")
    ),
    lambda ct, out, x, u, *, index, mode: sum_to(bind(slice_p, ct, index=index), np.shape(u)),
)


@slice_update_p.defjvp_all
def _(tangents, out, args, *, index, mode):
    tx, tu = tangents
    if mode == "add" and tu is None:
        return tx
    return bind(slice_update_p, zeros_of(out) if tx is None else tx, 0.0 if tu is None else tu, index=index, mode=mode)


@slice_update_p.defbatch
def _(args, axes, size, *, index, mode):
    x = move_batch_axis(args[0], axes[0], size)
    u, shape = args[1], _slice_shape(index)
    if axes[1] is not None:
        u = np.moveaxis(u, axes[1], 0)
        if np.ndim(u) <= len(shape):  # a scalar each
            u = np.broadcast_to(np.reshape(u, (size, *(1,) * len(shape))), (size, *shape))
    elif np.shape(u):
        u = np.broadcast_to(u, (size, *shape))
    return bind(slice_update_p, x, u, index=((0, 1, size), *index), mode=mode), 0
