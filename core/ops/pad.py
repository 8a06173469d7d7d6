"""``numpy.pad``, all modes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.trace import bind
from ..tensor import Tensor, implements
from .define import as_value
from .shape import part
from .slices import pad_p, slice_update_p

__all__: list[str] = []


def _pairs(value, rank, what):
    """One (before, after) per axis, as NumPy broadcasts them."""
    if isinstance(value, dict):
        table = [(0, 0)] * rank
        for axis, pair in value.items():
            table[axis] = pair if np.ndim(pair) else (pair, pair)
        value = table
    try:
        return [tuple(p) for p in np.broadcast_to(np.asarray(value), (rank, 2)).tolist()]
    except ValueError:
        raise ValueError(
            f"pad: {what} must be a number, a pair, or one pair per axis, got {value!r} for {rank} axes"
        ) from None


def _positions(n, before, after, mode):
    """For the modes that repeat elements: where each element of the padded axis comes from."""
    i = np.arange(-before, n + after)
    if mode == "edge":
        return np.clip(i, 0, n - 1)
    if mode == "wrap":
        return i % n
    if mode == "symmetric":
        i = i % (2 * n)
        return np.where(i < n, i, 2 * n - 1 - i)
    i = i % max(1, 2 * n - 2)
    return np.where(i < n, i, 2 * n - 2 - i)


@implements(np.pad)
def pad(array, pad_width, mode="constant", **kwargs):
    """``numpy.pad``."""
    x = as_value(array)
    rank = np.ndim(x)
    widths = _pairs(pad_width, rank, "pad_width")
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError("index can't contain negative values")
    known = {
        "constant": {"constant_values"},
        "linear_ramp": {"end_values"},
        "maximum": {"stat_length"},
        "mean": {"stat_length"},
        "median": {"stat_length"},
        "minimum": {"stat_length"},
        "reflect": {"reflect_type"},
        "symmetric": {"reflect_type"},
        "edge": set(),
        "wrap": set(),
        "empty": set(),
    }
    if callable(mode):
        raise TypeError("pad: a function as mode is not supported for traced values")
    if mode not in known:
        raise ValueError(f"mode '{mode}' is not supported")
    if set(kwargs) - known[mode]:
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {set(kwargs) - known[mode]}")
    if mode in ("constant", "empty"):
        return _constant(x, widths, kwargs.get("constant_values", 0))
    if kwargs.get("reflect_type", "even") != "even":
        return _odd_reflection(x, widths, mode)
    if mode in ("edge", "wrap", "symmetric", "reflect"):
        for axis, (before, after) in enumerate(widths):
            n = np.shape(x)[axis]
            if before or after:
                if n == 0:
                    raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
                x = np.take(x, _positions(n, before, after, mode), axis=axis)
        return x
    if mode == "linear_ramp":
        ends = _pairs(kwargs.get("end_values", 0), rank, "end_values")
        for axis, ((before, after), (first, last)) in enumerate(zip(widths, ends, strict=True)):
            x = _join(_ramp(x, axis, 0, before, first), x, np.flip(_ramp(x, axis, -1, after, last), axis), axis)
        return x
    lengths = kwargs.get("stat_length")
    lengths = [(None, None)] * rank if lengths is None else _pairs(lengths, rank, "stat_length")
    for axis, ((before, after), (first, last)) in enumerate(zip(widths, lengths, strict=True)):
        n = np.shape(x)[axis]
        head, tail = min(n, first or n), min(n, last or n)
        low = _statistic(mode, part(x, axis, 0, head), axis)
        high = _statistic(mode, part(x, axis, n - tail, n), axis)
        x = _join(_repeated(low, axis, before), x, _repeated(high, axis, after), axis)
    return x


def _constant(x, widths, values):
    low, high = zip(*widths, strict=True) if widths else ((), ())
    values = as_value(values) if not isinstance(values, dict) else values
    padded = bind(pad_p, x, low=low, high=high, interior=(0,) * len(widths))
    if isinstance(values, Tensor):
        values = values.astype(np.result_type(x))
        return bind(
            slice_update_p,
            np.broadcast_to(values, np.shape(padded)),
            x,
            mode="set",
            index=tuple((lo, 1, n) for lo, n in zip(low, np.shape(x), strict=True)),
        )
    values = _pairs(values, len(widths), "constant_values")
    if not any(v for pair in values for v in pair):
        return padded
    # later axes fill the corners, as NumPy's
    for axis, ((before, after), pair) in enumerate(zip(widths, values, strict=True)):
        shape = list(np.shape(x))
        dtype = np.result_type(x)
        parts = []
        for width, v in zip((before, after), pair, strict=True):
            shape[axis] = width
            parts.append(np.broadcast_to(np.asarray(v).astype(dtype), tuple(shape)))
        x = np.concatenate([parts[0], x, parts[1]], axis=axis)
    return x


def _join(before, x, after, axis):
    return np.concatenate([before, x, after], axis=axis)


def _repeated(edge, axis, width):
    shape = list(np.shape(edge))
    shape[axis] = width
    return np.broadcast_to(edge, tuple(shape))


def _statistic(mode, x, axis):
    dtype = np.result_type(x)
    statistics: dict[str, Any] = {"maximum": np.max, "minimum": np.min, "mean": np.mean, "median": np.median}
    found = statistics[mode](x, axis=axis, keepdims=True)
    if np.result_type(found) == dtype:
        return found
    return (np.rint(found) if dtype.kind in "iu" else found).astype(dtype)


def _ramp(x, axis, side, width, end):
    edge = part(x, axis, 0, 1) if side == 0 else part(x, axis, np.shape(x)[axis] - 1, np.shape(x)[axis])
    steps = np.reshape(np.arange(width) / max(width, 1), (-1,) + (1,) * (np.ndim(x) - axis - 1))
    ramp = end + (edge - end) * steps
    dtype = np.result_type(x)
    return (np.floor(ramp) if dtype.kind in "iu" else ramp).astype(dtype)


def _odd_reflection(x, widths, mode):
    """Reflection about the point at the edge; one period at a time, as wide paddings go over several."""
    skip = 1 if mode == "reflect" else 0
    for axis, (before, after) in enumerate(widths):
        while before or after:
            n = np.shape(x)[axis]
            if n - skip <= 0:
                x = _join(
                    _repeated(part(x, axis, 0, 1), axis, before),
                    x,
                    _repeated(part(x, axis, n - 1, n), axis, after),
                    axis,
                )
                break
            b, a = min(before, n - skip), min(after, n - skip)
            head = 2 * part(x, axis, 0, 1) - np.flip(part(x, axis, skip, skip + b), axis)
            tail = 2 * part(x, axis, n - 1, n) - np.flip(part(x, axis, n - skip - a, n - skip), axis)
            x = _join(head, x, tail, axis)
            before, after = before - b, after - a
    return x
