"""Compiled fills of arrays with the stream of `philox`; apart from it, so that small draws do not import Numba.

`LANES` blocks at a time, one to a lane; `out` holds a whole number of such groups.
"""

from __future__ import annotations

import numpy as np

from . import simd
from .njit import device, kernel

__all__ = ["block", "fill_bits", "fill_normal32", "fill_normal64"]

LANES = 16
# Word w of lane i goes to place 4 i + w.
_INTERLEAVE_4 = tuple(16 * (i % 4) + i // 4 for i in range(64))
_INTERLEAVE_2 = tuple(16 * (i % 2) + i // 2 for i in range(32))
_SCALE32, _HALF32 = np.float32(2.0**-32), np.float32(2.0**-33)
_ANGLE32 = np.float32(np.pi * 2.0**-31)
_SCALE64, _ANGLE64 = 2.0**-53, np.pi * 2.0**-52


@device
def block(b, k0, k1):
    """The four words of block `b` (uint64) of the stream."""
    return simd.philox4x32(np.uint32(b), np.uint32(b >> np.uint64(32)), np.uint32(0), np.uint32(0), k0, k1)


@device
def blocks(b, k0, k1):
    """The four words of blocks b, b+1, ... b+15, each word a vector."""
    start = simd.splat(np.uint32(b), 16)
    low = start + simd.convert(simd.iota(16), np.uint32)
    high = simd.select(
        low < start, np.uint32((b >> np.uint64(32)) + np.uint64(1)), simd.splat(np.uint32(b >> np.uint64(32)), 16)
    )
    return simd.philox4x32(low, high, np.uint32(0), np.uint32(0), k0, k1)


@device
def normal_pair32(w0, w1):
    """Two vectors of float32 normals from two of words: radius from the first, angle from the second."""
    radius = simd.sqrt(simd.log(simd.convert(w0, np.float32) * _SCALE32 + _HALF32) * np.float32(-2))
    angle = simd.convert(simd.bitcast(w1, np.int32), np.float32) * _ANGLE32
    return radius * simd.cos(angle), radius * simd.sin(angle)


@device
def _join(low, high):
    return simd.convert(low, np.uint64) | simd.convert(high, np.uint64) << np.uint64(32)


@device
def normal_pair64(w0, w1, w2, w3):
    """Two vectors of float64 normals from four of words."""
    u = simd.bitcast(_join(w0, w1) >> np.uint64(11), np.int64) + 1
    v = simd.bitcast(_join(w2, w3), np.int64) >> np.int64(11)
    radius = simd.sqrt(simd.log(simd.convert(u, np.float64) * _SCALE64) * -2.0)
    angle = simd.convert(v, np.float64) * _ANGLE64
    return radius * simd.cos(angle), radius * simd.sin(angle)


@device
def _store_4(out, i, a, b, c, d):
    simd.store(out, i, simd.shuffle(simd.concat(simd.concat(a, b), simd.concat(c, d)), _INTERLEAVE_4))


@kernel(nogil=True)
def fill_bits(out, first, k0, k1):  # out [blocks, 4] uint32
    """Fill `out`, (blocks, 4) uint32, with the words of the blocks from `first` on."""
    for i in range(0, out.shape[0], LANES):
        w0, w1, w2, w3 = blocks(first + np.uint64(i), k0, k1)
        _store_4(out, 4 * i, w0, w1, w2, w3)


@kernel(nogil=True)
def fill_normal32(out, first, k0, k1):  # out [blocks, 4] float32
    """Fill `out`, (blocks, 4) float32, with standard normal numbers of the blocks from `first` on."""
    for i in range(0, out.shape[0], LANES):
        w0, w1, w2, w3 = blocks(first + np.uint64(i), k0, k1)
        a, b = normal_pair32(w0, w1)
        c, d = normal_pair32(w2, w3)
        _store_4(out, 4 * i, a, b, c, d)


@kernel(nogil=True)
def fill_normal64(out, first, k0, k1):  # out [blocks, 2] float64
    """Fill `out`, (blocks, 2) float64, with standard normal numbers of the blocks from `first` on."""
    for i in range(0, out.shape[0], LANES):
        w0, w1, w2, w3 = blocks(first + np.uint64(i), k0, k1)
        a, b = normal_pair64(w0, w1, w2, w3)
        simd.store(out, 2 * i, simd.shuffle(simd.concat(a, b), _INTERLEAVE_2))
