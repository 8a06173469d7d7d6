"""H|psi> and <psi|H|psi> over the rows of `observable`, tile by tile of the result."""

import numpy as np

from triskele.core.extend import device, kernel, simd, template

from ...simulators.statevector.rows import exchanged, store

__all__ = ["TILE", "TILE_LINES", "apply_tile", "fill_tables"]

TILE = 64  # blocks: 8 KB, which stay in the L1 cache while all rows are added
TILE_LINES = 2 * TILE  # of the cache: a block is a line of real parts and one of imaginary parts


@template
def apply_tile(base, size, rows, first_row, last_row, masks, weights, tables, psi, out):
    """Blocks base ... base + size - 1 of H|psi>, `size` being a power of 2, to `out`; returns their part of
    <psi|H|psi>.

    `rows` and `masks` are pointers to int64, the others to floats. Block b of psi is at psi[2 * b * width], that of the
    result at out[2 * (b - base) * width].
    """
    w = simd.lanes_of(psi)
    nothing = simd.splat_line(psi, 0)
    for b in range(2 * size):
        simd.store_line(out, b * w, nothing)
    for r in range(first_row, last_row):
        row = simd.address(rows, 8 * r)
        x, lane, fixed, pattern = row[0], row[1], row[2], row[3]
        if (base ^ pattern) & fixed & ~(size - 1):
            continue
        free = ~fixed & (size - 1)
        start = pattern & (size - 1)
        first, count, table = row[5], row[6], row[7]
        real = w if row[4] else 0
        sign = simd.splat_line(psi, -1 if row[4] else 1)
        mask = masks[first]
        place = table + compressed(base | start, fixed) * w
        s = 0
        while True:
            b = start | s
            if table >= 0:
                c = simd.load_line_unaligned(tables, place)
                place += w
            else:
                c = simd.load_line_unaligned(weights, (2 * first + simd.parity((base | b) & mask)) * w)
                for k in range(first + 1, first + count):
                    c = c + simd.load_line_unaligned(weights, (2 * k + simd.parity((base | b) & masks[k])) * w)
            source, to = ((base | b) ^ x) * 2 * w, b * 2 * w
            re, im = exchanged(simd.load_line(psi, source + real), simd.load_line(psi, source + w - real), lane)
            store(out, to, simd.load_line(out, to) + c * sign * re, simd.load_line(out, to + w) + c * im)
            s = (s - free) & free
            if s == 0:
                break
    total = nothing
    for b in range(2 * size):
        total = total + simd.load_line(psi, (2 * base + b) * w) * simd.load_line(out, b * w)
    return np.float64(simd.sum(total))


@device
def compressed(b, fixed):
    """Bits of `b` where `fixed` has none, moved together."""
    out, place = 0, 0
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
    w = simd.address(weights, 0)
    lanes = simd.lanes_of(w)
    for r in range(rows.shape[0]):
        place = rows[r, 7]
        if place < 0:
            continue
        free = ~rows[r, 2] & (blocks - 1)
        s = 0
        for _ in range(1 << simd.popcount(free)):
            for lane in range(lanes):
                c = 0.0
                for k in range(rows[r, 5], rows[r, 5] + rows[r, 6]):
                    c += weights[k, simd.parity(s & masks[k]), lane]
                tables[place + lane] = c
            place += lanes
            s = (s - free) & free
