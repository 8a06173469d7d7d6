"""H|psi> and <psi|H|psi> over the rows of `observable`, tile by tile of the result."""

from __future__ import annotations

import numpy as np

from triskele.core.kernels import simd
from triskele.core.kernels.njit import device, kernel
from triskele.quantum.gradients.lanes import fetch, flip, parity, zeros

__all__ = ["TILE", "apply_tile", "fill_tables"]

TILE = 64  # blocks: 8 KB, which stay in the L1 cache while all rows are added


@device
def apply_tile(base, size, rows, masks, weights, tables, lanes, psi, out):
    """Blocks base ... base + size - 1 of H|psi>, of which `size` is a power of 2; returns their part of <psi|H|psi>.

    psi, out are pointers; blocks lie 2 * lanes apart.
    """
    nothing = zeros(out)
    for b in range(base, base + size):
        simd.store(out, b * 2 * lanes, nothing)
        simd.store(out, b * 2 * lanes + lanes, nothing)
    w = simd.address(weights, 0)
    t = simd.address(tables, 0)
    for r in range(rows.shape[0]):
        x, lane, fixed, pattern = rows[r, 0], rows[r, 1], rows[r, 2], rows[r, 3]
        if (base ^ pattern) & fixed & ~(size - 1):
            continue
        free = ~fixed & (size - 1)
        start = base | (pattern & (size - 1))
        first, count, table = rows[r, 5], rows[r, 6], rows[r, 7]
        real, imaginary = (lanes, np.int64(0)) if rows[r, 4] else (np.int64(0), lanes)
        sign = (simd.extract(nothing, np.int32(0)) + 1) * (-1 if rows[r, 4] else 1)
        s = np.int64(0)
        if table >= 0:
            place = t_index(start, fixed) * lanes + table
            while True:
                b = start | s
                c = fetch(t, place)
                place += lanes
                add_block(psi, out, (b ^ x) * 2 * lanes, b * 2 * lanes, lanes, lane, real, imaginary, sign, c)
                s = (s - free) & free
                if s == 0:
                    break
        elif count == 1:
            mask = masks[first]
            while True:
                b = start | s
                c = fetch(w, (2 * first + parity(b & mask)) * lanes)
                add_block(psi, out, (b ^ x) * 2 * lanes, b * 2 * lanes, lanes, lane, real, imaginary, sign, c)
                s = (s - free) & free
                if s == 0:
                    break
        else:
            while True:
                b = start | s
                c = weight(w, masks, first, count, b, lanes)
                add_block(psi, out, (b ^ x) * 2 * lanes, b * 2 * lanes, lanes, lane, real, imaginary, sign, c)
                s = (s - free) & free
                if s == 0:
                    break
    total = nothing
    for b in range(base, base + size):
        total = simd.fma(fetch(psi, b * 2 * lanes), fetch(out, b * 2 * lanes), total)
        total = simd.fma(fetch(psi, b * 2 * lanes + lanes), fetch(out, b * 2 * lanes + lanes), total)
    return np.float64(simd.sum(total))


@device
def add_block(psi, out, source, place, lanes, lane, real, imaginary, sign, c):
    re = flip(fetch(psi, source + real), lane)
    im = flip(fetch(psi, source + imaginary), lane)
    simd.store(out, place, simd.fma(c * sign, re, fetch(out, place)))
    simd.store(out, place + lanes, simd.fma(c, im, fetch(out, place + lanes)))


@device
def weight(w, masks, first, count, b, lanes):
    c = zeros(w)
    for k in range(first, first + count):
        c = c + fetch(w, (2 * k + parity(b & masks[k])) * lanes)
    return c


@device
def t_index(b, fixed):
    """Bits of `b` where `fixed` has none, moved together."""
    out, place = np.int64(0), 0
    while b:
        if not fixed & 1:
            out |= (b & 1) << place
            place += 1
        b >>= 1
        fixed >>= 1
    return out


@kernel(nogil=True)
def fill_tables(rows, masks, weights, tables, blocks):
    """The weights of rows that have a table, for every block in order."""
    lanes = weights.shape[2]
    w = simd.address(weights, 0)
    t = simd.address(tables, 0)
    for r in range(rows.shape[0]):
        place = rows[r, 7]
        if place < 0:
            continue
        free = ~rows[r, 2] & (blocks - 1)
        s = np.int64(0)
        while True:
            simd.store(t, place, weight(w, masks, rows[r, 5], rows[r, 6], s, lanes))
            place += lanes
            s = (s - free) & free
            if s == 0:
                break
