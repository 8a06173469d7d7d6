"""Pooling: largest element and mean of windows.

Sums over windows are linear; spreading over windows is their transpose. The largest element of a window is picked by
its position, which has no derivative: the first position in row order where there are ties (as in most libraries), so
that each window sends its cotangent to one element.

In compiled programs an element of a result is a formula of the elements that it reads, so pooling fuses with what comes
before and after it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind
from .convolve_nd import out_length, pad_widths, padded, spread, taps, unpadded
from .define import as_value, batch_first
from .windows import elements, row_number, seeing

__all__ = ["max_pool", "mean_pool"]


def _outs(shape, window, stride, padding):
    return tuple(out_length(n, k, s, p, 1) for n, k, s, p in zip(shape[1:-1], window, stride, padding, strict=True))


def _taps(window, stride, outs):
    return taps(window, stride, (1,) * len(window), outs)


def _pooled_spec(x, *, window, stride, padding):
    return Spec((x.shape[0], *_outs(x.shape, window, stride, padding), x.shape[-1]), x.dtype)


def _index_dtype(window):
    """Type of positions in a window: small, since positions are kept for the derivative."""
    return np.dtype(np.uint8 if math.prod(window) <= 256 else np.int32)


def _lowest(dtype):
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _window_max(x, *, window, stride, padding):
    outs = _outs(x.shape, window, stride, padding)
    x = padded(x, padding, _lowest(x.dtype))
    parts = (x[where] for _, where in _taps(window, stride, outs))
    out = np.array(next(parts))
    for part in parts:
        np.maximum(out, part, out=out)
    return out


def _window_argmax(x, *, window, stride, padding):
    outs = _outs(x.shape, window, stride, padding)
    x = padded(x, padding, _lowest(x.dtype))
    index = np.zeros((x.shape[0], *outs, x.shape[-1]), _index_dtype(window))
    best = None
    for k, (_, where) in enumerate(_taps(window, stride, outs)):
        if best is None:
            best = np.array(x[where])
            continue
        part = x[where]
        more = (part > best) | (np.isnan(part) & ~np.isnan(best))
        np.copyto(best, part, where=more)
        np.copyto(index, k, where=more)
    return index


def _window_pick(x, index, *, window, stride, padding):
    x = padded(x, padding)
    out = np.zeros(index.shape, x.dtype)
    for k, (_, where) in enumerate(_taps(window, stride, index.shape[1:-1])):
        np.copyto(out, x[where], where=index == k)
    return out


def _empty_padded(shape, padding, dtype):
    return np.zeros((shape[0], *[n + a + b for n, (a, b) in zip(shape[1:-1], padding, strict=True)], shape[-1]), dtype)


def _window_place(y, index, *, shape, window, stride, padding):
    total = _empty_padded(shape, padding, y.dtype)
    for k, (_, where) in enumerate(_taps(window, stride, index.shape[1:-1])):
        total[where] += np.where(index == k, y, y.dtype.type(0))
    return np.ascontiguousarray(unpadded(total, padding, shape))


def _window_sum(x, *, window, stride, padding):
    outs = _outs(x.shape, window, stride, padding)
    x = padded(x, padding)
    out = np.zeros((x.shape[0], *outs, x.shape[-1]), x.dtype)
    for _, where in _taps(window, stride, outs):
        out += x[where]
    return out


def _window_spread(y, *, shape, window, stride, padding):
    total = _empty_padded(shape, padding, y.dtype)
    for _, where in _taps(window, stride, y.shape[1:-1]):
        total[where] += y
    return np.ascontiguousarray(unpadded(total, padding, shape))


# -- formulas of single elements ---------------------------------------------------------------------------------------


def _elements(b, place, load, shape, **params):
    """(number, value, inside) of each element of the window at `place`."""
    for tap, at, inside in elements(b, place, shape, **params):
        yield row_number(b, tap, params["window"]), load([place[0], *at, place[-1]]), inside


def _max_pull(b, place, loads, in_specs, *_, **params):
    total = None
    for _, value, _ in _elements(b, place, loads[0], in_specs[0].shape, **params):
        total = value if total is None else b.max(total, value)
    return total


def _argmax_pull(b, place, loads, in_specs, out_spec, **params):
    best = number = None
    for k, value, _ in _elements(b, place, loads[0], in_specs[0].shape, **params):
        k = b.cast(k, out_spec.dtype)
        if best is None:
            best, number = value, k
            continue
        more = b.cmp(">", value, best)
        if value.dtype.kind == "f":
            more = b.logical_or(more, b.logical_and(b.isnan(value), b.logical_not(b.isnan(best))))
        best, number = b.select(more, value, best), b.select(more, k, number)
    return number


def _pick_pull(b, place, loads, in_specs, out_spec, **params):
    index, zero = loads[1](place), b.const(0, out_spec.dtype)
    total = zero
    for k, value, _ in _elements(b, place, loads[0], in_specs[0].shape, **params):
        total = b.select(b.cmp("==", index, b.cast(k, index.dtype)), value, total)
    return total


def _sum_pull(b, place, loads, in_specs, out_spec, **params):
    total, zero = None, b.const(0, out_spec.dtype)
    for _, value, inside in _elements(b, place, loads[0], in_specs[0].shape, **params):
        value = value if inside is None else b.select(inside, value, zero)
        total = value if total is None else b.add(total, value)
    return total


def _spread_pull(b, place, loads, in_specs, out_spec, **params):
    """Serves `window_place`, too, which has the position of what each window chose as another input."""
    total, zero = None, b.const(0, out_spec.dtype)
    del params["shape"]
    for tap, at, inside in seeing(b, place, in_specs[0].shape[1:-1], **params):
        at = [place[0], *at, place[-1]]
        value = loads[0](at)
        if len(loads) > 1:
            index = loads[1](at)
            number = b.cast(row_number(b, tap, params["window"]), index.dtype)
            inside = b.logical_and(inside, b.cmp("==", index, number))
        value = b.select(inside, value, zero)
        total = value if total is None else b.add(total, value)
    return total


# -- primitives --------------------------------------------------------------------------------------------------------


def _params():
    return [
        {"window": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))},
        {"window": (3, 2), "stride": (1, 2), "padding": ((1, 1), (0, 1))},
    ]


def _data(rng):
    # well apart, so that differences do not change which one is largest
    return rng.permutation(2 * 4 * 5 * 2).reshape(2, 4, 5, 2) * 0.1


def _data_samples(rng):
    return [((_data(rng),), p) for p in _params()]


def _picked_samples(rng):
    return [((_data(rng), _window_argmax(_data(rng), **p)), p) for p in _params()]


def _placed_samples(rng):
    out = []
    for (x, index), p in _picked_samples(rng):
        out.append(((rng.normal(size=index.shape), index), {**p, "shape": x.shape}))
    return out


def _taps_count(in_specs, out_specs, *, window, **params):
    return 2 * math.prod(window) * min(in_specs[0].size, out_specs[0].size)


_spread_spec = lambda y, *rest, shape, **params: Spec(shape, y.dtype)
window_max_p = Primitive(
    "window_max", _window_max, _pooled_spec, kind="pull", pull=_max_pull, flops=_taps_count, samples=_data_samples
)
window_argmax_p = Primitive(
    "window_argmax",
    _window_argmax,
    lambda x, **p: Spec(_pooled_spec(x, **p).shape, _index_dtype(p["window"])),
    kind="pull",
    pull=_argmax_pull,
    flops=_taps_count,
    differentiable=False,
    samples=_data_samples,
)
window_pick_p = Primitive(
    "window_pick",
    _window_pick,
    lambda x, index, **p: Spec(index.shape, x.dtype),
    kind="pull",
    pull=_pick_pull,
    flops=_taps_count,
    samples=_picked_samples,
)
window_place_p = Primitive(
    "window_place",
    _window_place,
    _spread_spec,
    kind="pull",
    pull=_spread_pull,
    flops=_taps_count,
    samples=_placed_samples,
)
window_sum_p = Primitive(
    "window_sum", _window_sum, _pooled_spec, kind="pull", pull=_sum_pull, flops=_taps_count, samples=_data_samples
)
window_spread_p = Primitive(
    "window_spread",
    _window_spread,
    _spread_spec,
    kind="pull",
    pull=_spread_pull,
    flops=_taps_count,
    samples=lambda rng: [((y,), p) for (y, _), p in _placed_samples(rng)],
)

window_max_p.defvjp(
    lambda ct, out, x, **p: bind(window_place_p, ct, bind(window_argmax_p, x, **p), shape=np.shape(x), **p)
)
window_max_p.defjvp(lambda t, out, x, **p: bind(window_pick_p, t, bind(window_argmax_p, x, **p), **p))
window_pick_p.defvjp(lambda ct, out, x, index, **p: bind(window_place_p, ct, index, shape=np.shape(x), **p), None)
window_pick_p.defjvp("same", None)
window_place_p.defvjp(lambda ct, out, y, index, *, shape, **p: bind(window_pick_p, ct, index, **p), None)
window_place_p.defjvp("same", None)
window_sum_p.defvjp(lambda ct, out, x, **p: bind(window_spread_p, ct, shape=np.shape(x), **p))
window_sum_p.defjvp("same")
window_spread_p.defvjp(lambda ct, out, y, *, shape, **p: bind(window_sum_p, ct, **p))
window_spread_p.defjvp("same")


def _batched(p):
    """More images."""

    def rule(args, axes, size, **params):
        moved = [np.reshape(x, (size * np.shape(x)[1], *np.shape(x)[2:])) for x in batch_first(args, axes, size)]
        if "shape" in params:
            params["shape"] = (size * params["shape"][0], *params["shape"][1:])
        y = bind(p, *moved, **params)
        return np.reshape(y, (size, np.shape(y)[0] // size, *np.shape(y)[1:])), 0

    p.defbatch(rule)


for _p in (window_max_p, window_argmax_p, window_pick_p, window_place_p, window_sum_p, window_spread_p):
    _batched(_p)


def _prepare(where, x, window, stride, padding):
    x = as_value(x)
    rank = len(window) if isinstance(window, (tuple, list)) else np.ndim(x) - 2
    if rank < 1 or np.ndim(x) < rank + 1:
        raise ValueError(f"{where}: x must be (..., *axes, channels), got shape {np.shape(x)} for the window {window}")
    window = spread(where, "window", window, rank)
    stride = window if stride is None else spread(where, "stride", stride, rank)
    axes = np.shape(x)[-rank - 1 : -1]
    widths = pad_widths(where, padding, axes, window, stride, (1,) * rank)
    if any(max(pair) >= k for pair, k in zip(widths, window, strict=True)):
        raise ValueError(f"{where}: padding must be smaller than the window, got {widths} for {window}")
    head = np.shape(x)[: -rank - 1]
    images = x if len(head) == 1 else np.reshape(x, (math.prod(head), *np.shape(x)[-rank - 1 :]))
    return images, head, {"window": window, "stride": stride, "padding": widths}


def _finish(y, head):
    return y if len(head) == 1 else np.reshape(y, (*head, *np.shape(y)[1:]))


def max_pool(x: Any, window: Any, stride: Any = None, padding: Any = "valid") -> Any:
    """Largest element of every window.

    Parameters
    ----------
    x : (..., *axes, channels) array
    window : int or tuple of int
        Extent of the window along each axis. A number stands for all axes between the first and the last one.
    stride : int or tuple of int, optional
        Step between windows; the window itself by default.
    padding : "valid", "same", int, or (low, high) for each axis
        Positions added around `x`. They are never chosen.

    Returns
    -------
    (..., *positions, channels) array
        Among equal elements the first one receives the derivative.

    Raises
    ------
    ValueError
        If `x` has too few axes, or if a padding is not smaller than the window.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.max_pool(np.array([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2)[0, :, 0]
    array([3., 2.])
    """
    images, head, params = _prepare("max_pool", x, window, stride, padding)
    return _finish(bind(window_max_p, images, **params), head)


def mean_pool(x: Any, window: Any, stride: Any = None, padding: Any = "valid") -> Any:
    """Mean of every window; padded positions do not count.

    Parameters
    ----------
    x : (..., *axes, channels) array
    window : int or tuple of int
        Extent of the window along each axis. A number stands for all axes between the first and the last one.
    stride : int or tuple of int, optional
        Step between windows; the window itself by default.
    padding : "valid", "same", int, or (low, high) for each axis

    Returns
    -------
    (..., *positions, channels) array

    Raises
    ------
    ValueError
        If `x` has too few axes, or if a padding is not smaller than the window.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.mean_pool(np.array([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2)[0, :, 0]
    array([2., 1.])
    """
    images, head, params = _prepare("mean_pool", x, window, stride, padding)
    y = bind(window_sum_p, images, **params)
    if not any(map(any, params["padding"])):
        return _finish(y / np.result_type(y).type(math.prod(params["window"])), head)
    counts = _window_sum(np.ones((1, *np.shape(images)[1:-1], 1), np.result_type(y)), **params)
    return _finish(y / counts, head)
