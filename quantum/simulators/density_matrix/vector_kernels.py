"""Loops over vectors of Pauli expectation values.

The vector has 4**m entries, base-4 digit p of an index being the letter at position p. Positions 0 and 1 lie inside
SIMD vectors: no operation acts there, but they can be exchanged with other positions. So every loop is over contiguous
runs of at least 16 numbers. An operation is a row of integers:

    kind, shift, coefficient      ONE, UNITAL: 4 x 4 matrix at the position whose stride is 1 << shift
    kind, shift                   EXCHANGE_0, EXCHANGE_1: position 0 or 1 with that of this stride
    kind, places, count, entries, size, coefficient
                                  GROUP: `size` strings at the offsets ints[entries:] are mixed by a size x size matrix,
                                  for all letters elsewhere; the `count` strides (as shifts, ascending) are at
                                  ints[places:]

The last integer of every row says how many of its coefficients depend on parameters.
"""

import math

import numpy as np
from numba import carray

from triskele.core.extend import device, kernel, simd, template, threads

from ..context import context_type, read_context

ONE, UNITAL, EXCHANGE_0, EXCHANGE_1, GROUP = range(5)
ROW = 7  # integers in the row of an operation
# in the row of a stage: positions of a block, place of its runs' offsets in ints, how many, place of the shifts of the
# other positions, positions in a run, first operation, last + 1
STAGE = 7
RUN_CONTEXT = context_type(
    "vector", "m", "blocks", "chunks", "stage", "rows", "num_rows", "ints", "coefficients", "work_size", "work"
)
PARALLEL_WORK = 1 << 17  # a stage of fewer numbers times operations is not worth waking a thread for

_parallel_for = threads.for_numba()


@template
def _splats(c, at):
    """Vectors full of c[at], c[at + 1], c[at + 2] and c[at + 3]."""
    return (
        simd.load_splat(c, at, 8),
        simd.load_splat(c, at + 1, 8),
        simd.load_splat(c, at + 2, 8),
        simd.load_splat(c, at + 3, 8),
    )


@template
def _letters(p, j, s):
    """Vectors at the four letters of a position of stride s."""
    return simd.load(p, j, 8), simd.load(p, j + s, 8), simd.load(p, j + 2 * s, 8), simd.load(p, j + 3 * s, 8)


@device
def _one(p, n, shift, c):
    """All 16 coefficients at c[0:16], row by row."""
    s = 1 << shift
    c00, c01, c02, c03 = _splats(c, 0)
    c10, c11, c12, c13 = _splats(c, 4)
    c20, c21, c22, c23 = _splats(c, 8)
    c30, c31, c32, c33 = _splats(c, 12)
    for high in range(0, n, 4 * s):
        for j in range(high, high + s, 8):
            v0, v1, v2, v3 = _letters(p, j, s)
            simd.store(p, j, simd.fma(c00, v0, simd.fma(c01, v1, simd.fma(c02, v2, c03 * v3))))
            simd.store(p, j + s, simd.fma(c10, v0, simd.fma(c11, v1, simd.fma(c12, v2, c13 * v3))))
            simd.store(p, j + 2 * s, simd.fma(c20, v0, simd.fma(c21, v1, simd.fma(c22, v2, c23 * v3))))
            simd.store(p, j + 3 * s, simd.fma(c30, v0, simd.fma(c31, v1, simd.fma(c32, v2, c33 * v3))))


@device
def _unital(p, n, shift, c):
    """The same where row and column 0 are those of the identity."""
    s = 1 << shift
    _, c11, c12, c13 = _splats(c, 4)
    _, c21, c22, c23 = _splats(c, 8)
    _, c31, c32, c33 = _splats(c, 12)
    for high in range(0, n, 4 * s):
        for j in range(high + s, high + 2 * s, 8):
            v1, v2, v3 = simd.load(p, j, 8), simd.load(p, j + s, 8), simd.load(p, j + 2 * s, 8)
            simd.store(p, j, simd.fma(c11, v1, simd.fma(c12, v2, c13 * v3)))
            simd.store(p, j + s, simd.fma(c21, v1, simd.fma(c22, v2, c23 * v3)))
            simd.store(p, j + 2 * s, simd.fma(c31, v1, simd.fma(c32, v2, c33 * v3)))


@device
def _exchange_0(p, n, shift):
    """Transpose the 4 x 4 matrices of position 0 (in the lanes) and another position, two at once."""
    s = 1 << shift
    for high in range(0, n, 4 * s):
        for j in range(high, high + s, 8):
            v0, v1, v2, v3 = _letters(p, j, s)
            a = simd.shuffle2(v0, v1, (0, 8, 2, 10, 4, 12, 6, 14))
            b = simd.shuffle2(v0, v1, (1, 9, 3, 11, 5, 13, 7, 15))
            c = simd.shuffle2(v2, v3, (0, 8, 2, 10, 4, 12, 6, 14))
            d = simd.shuffle2(v2, v3, (1, 9, 3, 11, 5, 13, 7, 15))
            simd.store(p, j, simd.shuffle2(a, c, (0, 1, 8, 9, 4, 5, 12, 13)))
            simd.store(p, j + s, simd.shuffle2(b, d, (0, 1, 8, 9, 4, 5, 12, 13)))
            simd.store(p, j + 2 * s, simd.shuffle2(a, c, (2, 3, 10, 11, 6, 7, 14, 15)))
            simd.store(p, j + 3 * s, simd.shuffle2(b, d, (2, 3, 10, 11, 6, 7, 14, 15)))


@device
def _exchange_1(p, n, shift):
    """The same for position 1: units of four numbers move."""
    s = 1 << shift
    for high in range(0, n, 4 * s):
        for j in range(high, high + s, 16):
            for a in range(4):
                for b in range(a):
                    i, k = j + a * s + 4 * b, j + b * s + 4 * a
                    v = simd.load(p, i, 4)
                    simd.store(p, i, simd.load(p, k, 4))
                    simd.store(p, k, v)


@device
def _deposit(run, ints, places, count):
    """Start of a run: bits of `run` with two zeros put in at each of the shifts."""
    start = run
    for k in range(count):
        shift = ints[places + k]
        start = ((start >> shift) << (shift + 2)) | (start & ((1 << shift) - 1))
    return start


@device
def _group(p, n, ints, places, count, entries, size, c, work):
    """Strings at given offsets mixed by a dense matrix; `work` holds 8 * size numbers."""
    length = 1 << ints[places]
    runs = n >> (2 * count + ints[places])
    if size == 1:
        o, c00 = ints[entries], simd.load_splat(c, 0, 8)
        for run in range(runs):
            start = _deposit(run * length, ints, places, count) + o
            for j in range(start, start + length, 8):
                simd.store(p, j, c00 * simd.load(p, j, 8))
    elif size == 2:
        o, d = ints[entries], ints[entries + 1]
        c00, c01, c10, c11 = _splats(c, 0)
        for run in range(runs):
            start = _deposit(run * length, ints, places, count)
            for j in range(start, start + length, 8):
                v, w = simd.load(p, j + o, 8), simd.load(p, j + d, 8)
                simd.store(p, j + o, simd.fma(c00, v, c01 * w))
                simd.store(p, j + d, simd.fma(c10, v, c11 * w))
    else:
        for run in range(runs):
            start = _deposit(run * length, ints, places, count)
            for j in range(start, start + length, 8):
                for i in range(size):
                    simd.store(work, 8 * i, simd.load(p, j + ints[entries + i], 8))
                for i in range(size):
                    total = simd.load_splat(c, i * size, 8) * simd.load(work, 0, 8)
                    for k in range(1, size):
                        total = simd.fma(simd.load_splat(c, i * size + k, 8), simd.load(work, 8 * k, 8), total)
                    simd.store(p, j + ints[entries + i], total)


@device
def apply(p, n, rows, first, last, ints, coefficients, work):
    """Operations first to last - 1 on the 4**m = n numbers at p."""
    for row in range(first, last):
        kind, shift = rows[row, 0], rows[row, 1]
        if kind == ONE:
            _one(p, n, shift, simd.address(coefficients, rows[row, 2]))
        elif kind == UNITAL:
            _unital(p, n, shift, simd.address(coefficients, rows[row, 2]))
        elif kind == EXCHANGE_0:
            _exchange_0(p, n, shift)
        elif kind == EXCHANGE_1:
            _exchange_1(p, n, shift)
        else:
            _group(
                p,
                n,
                ints,
                shift,
                rows[row, 2],
                rows[row, 3],
                rows[row, 4],
                simd.address(coefficients, rows[row, 5]),
                work,
            )


@device
def _evaluate(out, table, at, count, angle):
    """out[i] = sum over the five functions f of f(angle) table[f, i]."""
    half_c, half_s, c, s = math.cos(0.5 * angle), math.sin(0.5 * angle), math.cos(angle), math.sin(angle)
    for i in range(count):
        out[i] = (
            table[at + i]
            + half_c * table[at + count + i]
            + half_s * table[at + 2 * count + i]
            + c * table[at + 3 * count + i]
            + s * table[at + 4 * count + i]
        )


@kernel(nogil=True)
def fill(fills, table, angles, coefficients):
    """Coefficients of all operations.

    A row of `fills` is: 1 if it multiplies what is there from the left (4 x 4), place in `table`, number of the angle
    or -1 (the table has one row), place in `coefficients`, how many.
    """
    one, product = np.empty(16), np.empty(16)
    for row in range(len(fills)):
        times, at, angle, place, count = fills[row]
        out = one if times else coefficients[place : place + count]
        if angle < 0:
            for i in range(count):
                out[i] = table[at + i]
        else:
            _evaluate(out, table, at, count, angles[angle])
        if times:
            for i in range(4):
                for j in range(4):
                    total = 0.0
                    for k in range(4):
                        total += one[4 * i + k] * coefficients[place + 4 * k + j]
                    product[4 * i + j] = total
            for i in range(16):
                coefficients[place + i] = product[i]


@device
def _copy(source, base, gathered, count, block, length, back):
    """Runs of `length` numbers at base + gathered[:] of `source` to a block, or back."""
    for g in range(count):
        start, at = base + gathered[g], g * length
        if back:
            for j in range(0, length, 8):
                simd.store(source, start + j, simd.load(block, at + j, 8))
        else:
            for j in range(0, length, 8):
                simd.store(block, at + j, simd.load(source, start + j, 8))


@device
def block_base(b, ints, outside, count):
    """Offset of block b: its digits at the shifts ints[outside : outside + count]."""
    base = 0
    for k in range(count):
        base |= ((b >> (2 * k)) & 3) << ints[outside + k]
    return base


@kernel(nogil=True)
def run_chunk(context, index):
    """Some of the blocks of a stage; `context` points to a `RUN_CONTEXT`."""
    w = read_context(context, RUN_CONTEXT)
    m, blocks, chunks, work_size = w.m, w.blocks, w.chunks, w.work_size
    rows = carray(simd.pointer_to(w.rows, np.int64), (w.num_rows, ROW))
    ints = carray(simd.pointer_to(w.ints, np.int64), (1 << 62,))
    coefficients, stage = simd.pointer_to(w.coefficients, np.float64), simd.pointer_to(w.stage, np.int64)
    active, gathered, count, outside, run = stage[0], stage[1], stage[2], stage[3], stage[4]
    first, last = stage[5], stage[6]
    source, size, length = simd.pointer_to(w.vector, np.float64), 1 << (2 * active), 1 << (2 * run)
    work = simd.address(simd.pointer_to(w.work, np.float64), index * work_size)
    if active == m:
        apply(source, size, rows, first, last, ints, coefficients, work)
        return
    block = simd.address(work, work_size - size)
    for b in range(blocks * index // chunks, blocks * (index + 1) // chunks):
        base = block_base(b, ints, outside, m - active)
        _copy(source, base, ints[gathered:], count, block, length, False)
        apply(block, size, rows, first, last, ints, coefficients, work)
        _copy(source, base, ints[gathered:], count, block, length, True)


@kernel(nogil=True)
def run(r, m, stages, rows, ints, coefficients, chunk, most, work_size):
    """All stages on the vector r, each one's blocks in at most `most` chunks that threads share.

    Each chunk needs `work_size` numbers of its own: 8 for each of the widest operation's strings, and the block.
    """
    work = np.empty(most * work_size)
    contexts = np.empty(1, RUN_CONTEXT)
    context = contexts[0]
    context.vector, context.m, context.work_size, context.work = simd.address_of(r), m, work_size, simd.address_of(work)
    context.rows, context.num_rows = simd.address_of(rows), len(rows)
    context.ints, context.coefficients = simd.address_of(ints), simd.address_of(coefficients)
    for s in range(len(stages)):
        blocks = 1 << (2 * (m - stages[s, 0]))
        chunks = min(blocks, most) if (stages[s, 6] - stages[s, 5]) << (2 * m) >= PARALLEL_WORK else 1
        context.blocks, context.chunks = blocks, chunks
        context.stage = simd.address_of(simd.address(stages, s * STAGE))
        _parallel_for(chunk, simd.address_of(contexts), chunks)
    return work[0] + contexts[0].m  # both must live till here
