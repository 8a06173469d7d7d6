"""Bilinear resizing with antialiasing, to the bit as Pillow does it for uint8.

A row or column of the result is a weighted mean of those of the image under a triangle, which is as wide as the scale
if the image shrinks. For uint8 the weights are integers of 22 bits after the point and both passes, first along the
rows, round to uint8.

References
----------
[1] Pillow, src/libImaging/Resample.c: precompute_coeffs, normalize_coeffs_8bpc, ImagingResampleInner.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ..kernels.njit import device, kernel

__all__ = ["resized"]

_BITS = 22
_HALF = 1 << (_BITS - 1)


@lru_cache(maxsize=256)
def _taps(n: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """First positions (size,) and weights (size, taps) float64 of a resize from `n` to `size`."""
    scale = n / size
    wide = max(scale, 1.0)
    centers = (np.arange(size) + 0.5) * scale
    first = np.maximum((centers - wide + 0.5).astype(np.int64), 0)
    last = np.minimum((centers + wide + 0.5).astype(np.int64), n)
    taps = min(math.ceil(wide) * 2 + 1, n, int((last - first).max()))
    first = np.minimum(first, n - taps)  # weights outside of the triangle are 0
    at = first[:, None] + np.arange(taps)
    begin = np.maximum((centers - wide + 0.5).astype(np.int64), 0)
    weights = np.maximum(1 - np.abs((at - centers[:, None] + 0.5) / wide), 0.0)
    weights[(at < begin[:, None]) | (at >= last[:, None])] = 0.0
    return first, weights / weights.sum(axis=1, keepdims=True)


@lru_cache(maxsize=256)
def _whole_taps(n, size):
    first, weights = _taps(n, size)
    return first, np.floor(0.5 + weights * (1 << _BITS)).astype(np.int32)


@lru_cache(maxsize=256)
def _matrix(n, size):
    first, weights = _taps(n, size)
    out = np.zeros((size, n))
    np.put_along_axis(out, first[:, None] + np.arange(weights.shape[1]), weights, axis=1)
    return out


def resized(x, height: int, width: int):
    """An image (h, w, c) in another size; of the dtype of `x`, which is uint8 or floating."""
    h, w, channels = np.shape(x)
    if np.dtype(x.dtype) == np.uint8:
        rows, columns = _whole_taps(h, height), _whole_taps(w, width)
        if type(x) is np.ndarray:
            out = np.empty((height, width, channels), np.uint8)
            _resize(np.ascontiguousarray(x), *rows, *columns, np.empty((h, width, channels), np.uint8), out)
            return out
        return _pass(_pass(x, columns, 1), rows, 0)
    middle = _matrix(w, width).astype(x.dtype) @ x
    return np.reshape(
        _matrix(h, height).astype(x.dtype) @ np.reshape(middle, (h, width * channels)), (height, width, channels)
    )


def _pass(x, taps, axis):
    """One pass on traced values."""
    first, weights = taps
    at = first[:, None] + np.arange(weights.shape[1])
    if axis == 1:
        total = np.sum(x[:, at].astype(np.int32) * weights[:, :, None], axis=2)
    else:
        total = np.sum(x[at].astype(np.int32) * weights[:, :, None, None], axis=1)
    return np.clip((total + np.int32(_HALF)) >> np.int32(_BITS), 0, 255).astype(np.uint8)


@kernel(nogil=True)
def _resize(x, row_first, row_weights, column_first, column_weights, middle, out):
    h, w, channels = x.shape
    height, width = out.shape[0], out.shape[1]
    flat, middle_rows = x.reshape(h, w * channels), middle.reshape(h, width * channels)
    for i in range(row_first[0], row_first[height - 1] + row_weights.shape[1]):
        _along(flat[i], column_first, column_weights, channels, middle_rows[i])
    result = out.reshape(height, width * channels)
    sums = np.empty(width * channels, np.int32)
    for i in range(height):
        sums[:] = np.int32(_HALF)
        for t in range(row_weights.shape[1]):
            weight, row = row_weights[i, t], middle_rows[row_first[i] + t]
            if weight != 0:
                for k in range(width * channels):
                    sums[k] += np.int32(row[k]) * weight
        for k in range(width * channels):
            result[i, k] = np.uint8(min(max(sums[k] >> _BITS, 0), 255))


@device
def _along(row, first, weights, channels, out):
    """One row, whose pixels stand one after the other. Unsigned positions need no check for negative ones."""
    for j in range(first.size):
        at, to = np.uint64(first[j] * channels), np.uint64(j * channels)
        if channels == 3:
            red = green = blue = np.int32(_HALF)
            for t in range(weights.shape[1]):
                weight = weights[j, t]
                red += np.int32(row[at]) * weight
                green += np.int32(row[at + np.uint64(1)]) * weight
                blue += np.int32(row[at + np.uint64(2)]) * weight
                at += np.uint64(3)
            out[to] = np.uint8(min(max(red >> _BITS, 0), 255))
            out[to + np.uint64(1)] = np.uint8(min(max(green >> _BITS, 0), 255))
            out[to + np.uint64(2)] = np.uint8(min(max(blue >> _BITS, 0), 255))
        else:
            for c in range(channels):
                total = np.int32(_HALF)
                for t in range(weights.shape[1]):
                    total += np.int32(row[at + np.uint64(t * channels + c)]) * weights[j, t]
                out[to + np.uint64(c)] = np.uint8(min(max(total >> _BITS, 0), 255))
