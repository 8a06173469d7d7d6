"""Pooling: largest element and mean of windows.

Sums over windows are linear; spreading over windows is their transpose. The largest element of a window is picked by
its position, which has no derivative: the first position in row order where there are ties (as in most libraries), so
that each window sends its cotangent to one element.
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

__all__ = ["avg_pool", "max_pool"]


def _outs(shape, window, stride, padding):
    return tuple(out_length(n, k, s, p, 1) for n, k, s, p in zip(shape[1:-1], window, stride, padding, strict=True))


def _taps(window, stride, outs):
    return taps(window, stride, (1,) * len(window), outs)


def _pooled_spec(x, *, window, stride, padding):
    return Spec((x.shape[0], *_outs(x.shape, window, stride, padding), x.shape[-1]), x.dtype)


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
    index = np.zeros((x.shape[0], *outs, x.shape[-1]), np.int64)
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


def _params():
    return [{"window": (2, 2), "stride": (2, 2), "padding": ((0, 0), (0, 0))},
            {"window": (3, 2), "stride": (1, 2), "padding": ((1, 1), (0, 1))}]


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
    return math.prod(window) * min(in_specs[0].size, out_specs[0].size)


_spread_spec = lambda y, *rest, shape, **params: Spec(shape, y.dtype)
window_max_p = Primitive("window_max", _window_max, _pooled_spec, flops=_taps_count, samples=_data_samples)
window_argmax_p = Primitive("window_argmax", _window_argmax,
                            lambda x, **p: Spec(_pooled_spec(x, **p).shape, np.dtype(np.int64)),
                            flops=_taps_count, differentiable=False, samples=_data_samples)
window_pick_p = Primitive("window_pick", _window_pick, lambda x, index, **p: Spec(index.shape, x.dtype), flops=0,
                          samples=_picked_samples)
window_place_p = Primitive("window_place", _window_place, _spread_spec, flops=_taps_count, samples=_placed_samples)
window_sum_p = Primitive("window_sum", _window_sum, _pooled_spec, flops=_taps_count, samples=_data_samples)
window_spread_p = Primitive("window_spread", _window_spread, _spread_spec, flops=_taps_count,
                            samples=lambda rng: [((y,), p) for (y, _), p in _placed_samples(rng)])

window_max_p.defvjp(lambda ct, out, x, **p: bind(window_place_p, ct, bind(window_argmax_p, x, **p), shape=np.shape(x),
                                                 **p))
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
    x : array, (..., *axes, channels)
    window : int or tuple of int
        A number stands for all axes between the first and the last one.
    stride : int or tuple of int, optional
        The window itself by default.
    padding : "valid", "same", int, or (low, high) for each axis
        Padded elements are never chosen.

    Returns
    -------
    array, (..., *positions, channels)
        Among equal elements the first one receives the derivative.

    Examples
    --------
    >>> max_pool(np.array([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2)[0, :, 0]
    array([3., 2.])
    """
    images, head, params = _prepare("max_pool", x, window, stride, padding)
    return _finish(bind(window_max_p, images, **params), head)


def avg_pool(x: Any, window: Any, stride: Any = None, padding: Any = "valid") -> Any:
    """Mean of every window; padded elements do not count. Arguments as for `max_pool`.

    Examples
    --------
    >>> avg_pool(np.array([1.0, 3.0, 2.0, 0.0]).reshape(1, 4, 1), 2)[0, :, 0]
    array([2., 1.])
    """
    images, head, params = _prepare("avg_pool", x, window, stride, padding)
    y = bind(window_sum_p, images, **params)
    counts = _window_sum(np.ones((1, *np.shape(images)[1:-1], 1), np.result_type(y)), **params)
    return _finish(y / counts, head)
