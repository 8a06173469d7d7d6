"""The way back: how the final expectation value depends on the coefficients of every operation.

The cotangent l[P] of a vector r goes through the transposed operations; a coefficient that multiplies r_j into entry i
has the derivative sum of l_i r_j over all letters elsewhere. Operations are not undone, since noise cannot be: a block
of r is taken from the vector kept at the beginning of its stage, goes forward once more, and is copied before every
operation that depends on parameters.
"""

import math

import numpy as np
from numba import carray

from triskele.core.extend import device, kernel, simd, threads

from ..context import context_type, read_context
from .vector_kernels import (
    GROUP,
    ONE,
    ROW,
    STAGE,
    UNITAL,
    _copy,
    _deposit,
    _evaluate,
    apply,
    block_base,
)

__all__ = ["slopes", "transpose", "unwind", "unwind_chunk"]

_UNWIND_CONTEXT = context_type(
    "before",
    "after",
    "m",
    "blocks",
    "chunks",
    "stage",
    "rows",
    "num_rows",
    "ints",
    "both",
    "count",
    "out",
    "work_size",
    "work",
    "scratch",
)
_parallel_for = threads.for_numba()


@device
def _moments_one(l, r, n, shift, out):
    """out[4 i + j] += sum of l_i r_j of the 4 x 4 matrix at one position."""
    s = 1 << shift
    for i in range(4):
        t0, t1, t2, t3 = simd.splat(0.0, 8), simd.splat(0.0, 8), simd.splat(0.0, 8), simd.splat(0.0, 8)
        for high in range(0, n, 4 * s):
            for j in range(high, high + s, 8):
                v = simd.load(l, j + i * s, 8)
                t0, t1 = simd.fma(v, simd.load(r, j, 8), t0), simd.fma(v, simd.load(r, j + s, 8), t1)
                t2, t3 = simd.fma(v, simd.load(r, j + 2 * s, 8), t2), simd.fma(v, simd.load(r, j + 3 * s, 8), t3)
        out[4 * i] += simd.sum(t0)
        out[4 * i + 1] += simd.sum(t1)
        out[4 * i + 2] += simd.sum(t2)
        out[4 * i + 3] += simd.sum(t3)


@device
def _moments_group(l, r, n, ints, places, count, entries, size, out):
    """out[size i + j] += sum of l_i r_j of the strings of a GROUP."""
    length = 1 << ints[places]
    runs = n >> (2 * count + ints[places])
    for i in range(size):
        for k in range(size):
            total = simd.splat(0.0, 8)
            for run in range(runs):
                start = _deposit(run * length, ints, places, count)
                for j in range(start, start + length, 8):
                    total = simd.fma(
                        simd.load(l, j + ints[entries + i], 8), simd.load(r, j + ints[entries + k], 8), total
                    )
            out[i * size + k] += simd.sum(total)


@kernel(nogil=True)
def transpose(rows, coefficients, out):
    """Coefficients of the transposed operations."""
    for row in range(len(rows)):
        kind = rows[row, 0]
        if kind in (ONE, UNITAL, GROUP):
            at, size = (rows[row, 5], rows[row, 4]) if kind == GROUP else (rows[row, 2], 4)
            for i in range(size):
                for j in range(size):
                    out[at + i * size + j] = coefficients[at + j * size + i]


@kernel(nogil=True)
def unwind_chunk(context, index):
    """Some of the blocks of a stage; `context` points to an `_UNWIND_CONTEXT`."""
    w = read_context(context, _UNWIND_CONTEXT)
    m, blocks, chunks, work_size = w.m, w.blocks, w.chunks, w.work_size
    rows = carray(simd.pointer_to(w.rows, np.int64), (w.num_rows, ROW))
    ints = carray(simd.pointer_to(w.ints, np.int64), (1 << 62,))
    coefficients = simd.pointer_to(w.both, np.float64)
    transposed = simd.address(coefficients, w.count)
    out = carray(simd.pointer_to(w.out + 8 * w.count * index, np.float64), (w.count,))
    stage = simd.pointer_to(w.stage, np.int64)
    active, gathered, count, outside, run = stage[0], stage[1], stage[2], stage[3], stage[4]
    first, last = stage[5], stage[6]
    before, after = simd.pointer_to(w.before, np.float64), simd.pointer_to(w.after, np.float64)
    size, length = 1 << (2 * active), 1 << (2 * run)
    r = simd.pointer_to(w.work + 8 * work_size * index, np.float64)
    l, kept, scratch = simd.address(r, size), simd.address(r, 2 * size), simd.address(r, work_size - w.scratch)
    for b in range(blocks * index // chunks, blocks * (index + 1) // chunks):
        base = block_base(b, ints, outside, m - active)
        _copy(before, base, ints[gathered:], count, r, length, False)
        _copy(after, base, ints[gathered:], count, l, length, False)
        place = 0
        for row in range(first, last):
            if rows[row, ROW - 1]:
                copy = simd.address(kept, size * place)
                for j in range(0, size, 8):
                    simd.store(copy, j, simd.load(r, j, 8))
                place += 1
            apply(r, size, rows, row, row + 1, ints, coefficients, scratch)
        for row in range(last - 1, first - 1, -1):
            if rows[row, ROW - 1]:
                place -= 1
                copy = simd.address(kept, size * place)
                if rows[row, 0] == GROUP:
                    _moments_group(
                        l, copy, size, ints, rows[row, 1], rows[row, 2], rows[row, 3], rows[row, 4], out[rows[row, 5] :]
                    )
                else:
                    _moments_one(l, copy, size, rows[row, 1], out[rows[row, 2] :])
            apply(l, size, rows, row, row + 1, ints, transposed, scratch)
        _copy(after, base, ints[gathered:], count, l, length, True)


@kernel(nogil=True)
def unwind(before, after, m, stages, s, rows, ints, both, out, chunk, chunks, scratch):
    """Stage s backwards: the cotangents in `after` become those of its beginning, where the vector was `before`.

    `both` are the coefficients and then those of the transposed operations; derivatives with respect to the
    coefficients are added to `out` (chunks, C).
    """
    varying = 0
    for row in range(stages[s, 5], stages[s, 6]):
        varying += rows[row, ROW - 1] > 0
    size = 1 << (2 * stages[s, 0])
    work_size = size * (2 + varying) + scratch
    work = np.empty(work_size * chunks)
    contexts = np.empty(1, _UNWIND_CONTEXT)
    context = contexts[0]
    context.before, context.after, context.m = simd.address_of(before), simd.address_of(after), m
    context.blocks, context.chunks = 1 << (2 * (m - stages[s, 0])), chunks
    context.stage = simd.address_of(simd.address(stages, s * STAGE))
    context.rows, context.num_rows, context.ints = simd.address_of(rows), len(rows), simd.address_of(ints)
    context.both, context.count, context.out = simd.address_of(both), len(both) // 2, simd.address_of(out)
    context.work_size, context.work, context.scratch = work_size, simd.address_of(work), scratch
    _parallel_for(chunk, simd.address_of(contexts), chunks)
    return work[0] + contexts[0].m  # both must live till here


@device
def _slope(table, at, count, angle, cotangents, place):
    """Sum of cotangents[place:] times derivatives with respect to the angle of what `_evaluate` gives."""
    half_c, half_s, c, s = 0.5 * math.cos(0.5 * angle), 0.5 * math.sin(0.5 * angle), math.cos(angle), math.sin(angle)
    total = 0.0
    for i in range(count):
        total += cotangents[place + i] * (
            half_c * table[at + 2 * count + i]
            - half_s * table[at + count + i]
            + c * table[at + 4 * count + i]
            - s * table[at + 3 * count + i]
        )
    return total


@kernel(nogil=True)
def slopes(fills, table, angles, cotangents, out):
    """Derivatives with respect to the angles, added to `out`, from those with respect to the coefficients; see
    `kernels.fill`.
    """
    longest, length = 1, 1
    for row in range(1, len(fills)):
        length = length + 1 if fills[row, 0] else 1
        longest = max(longest, length)
    # places of 4 x 4 matrices: E_0 ..., E_k ... E_0, and three to compute with
    work = np.empty(16 * (2 * longest + 3))
    row = 0
    while row < len(fills):
        end = row + 1
        while end < len(fills) and fills[end, 0]:
            end += 1
        place, count = fills[row, 3], fills[row, 4]
        if end > row + 1:
            _chain(fills, row, end - row, table, angles, cotangents, place, work, 16 * longest, out)
        elif fills[row, 2] >= 0:
            out[fills[row, 2]] += _slope(table, fills[row, 1], count, angles[fills[row, 2]], cotangents, place)
        row = end


@device
def _chain(fills, first, length, table, angles, cotangents, place, work, products, out):
    """The same for a product of 4 x 4 matrices E_last ... E_0."""
    current, other = 2 * products, 2 * products + 16
    for k in range(length):
        at, angle = fills[first + k, 1], fills[first + k, 2]
        if angle < 0:
            for i in range(16):
                work[16 * k + i] = table[at + i]
        else:
            _evaluate(work[16 * k :], table, at, 16, angles[angle])
        if k:
            _multiply(work, 16 * k, products + 16 * (k - 1), products + 16 * k, 4, 1, 4, 1)
        else:
            for i in range(16):
                work[products + i] = work[i]
    for i in range(16):
        work[current + i] = cotangents[place + i]
    for k in range(length - 1, -1, -1):
        at, angle = fills[first + k, 1], fills[first + k, 2]
        g = current
        if k:
            _multiply(work, current, products + 16 * (k - 1), other, 4, 1, 1, 4)
            g = other
        if angle >= 0:
            out[angle] += _slope(table, at, 16, angles[angle], work, g)
        _multiply(work, 16 * k, current, other + 16, 1, 4, 4, 1)
        for i in range(16):
            work[current + i] = work[other + 16 + i]


@device
def _multiply(work, a, b, out, a_row, a_column, b_row, b_column):
    """4 x 4 product of matrices at places of `work`, with their strides, so that they may be transposed."""
    for i in range(4):
        for j in range(4):
            total = 0.0
            for k in range(4):
                total += work[a + a_row * i + a_column * k] * work[b + b_row * k + b_column * j]
            work[out + 4 * i + j] = total
