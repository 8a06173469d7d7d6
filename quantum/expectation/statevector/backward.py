"""The backward sweep of a program: from lambda to the cotangents of all coefficients."""

import numpy as np

from triskele.core.extend import device, simd, template, threads

from ...compile.bits import top
from ...compile.ops import RECIPE_COLUMNS
from ...compile.schedule import CODE_COLUMNS, PASS_COLUMNS
from ...simulators.statevector.coefficients import expand
from ...simulators.statevector.engine import align
from .backward_passes import UNWIND_CONTEXT

__all__ = ["backward"]

_parallel_for = threads.for_numba()
_PARALLEL_WORK = 1 << 16  # a pass of fewer amplitudes times ops is not worth waking a thread for
_CHUNKS = 16  # of a pass: fixed, so that sums do not depend on threads


@template
def backward(
    words,
    coefficients,  # those of an `engine.Packed`; (C,) float64, those of the program, filled
    psi,
    lam,
    count,
    stride,  # aligned pointers to the final state and to lambdas, which are `stride` numbers apart
    wanted,  # (K,) uint8, mask of the ops whose moments are needed
    chunk,  # address of the chunk function of `backward_passes`
    from_zero,  # True if psi came from |0...0>; then lambda is not undone where psi vanishes
    g,  # (count, C) float64, gains the cotangents of the coefficients
):
    """Undo all passes on psi and on `count` lambdas, in place."""
    w = simd.lanes_of(psi)
    n, angles, recipes, terms, ops, passes = words[0], words[1], words[2], words[4], words[5], words[6]
    code_start = 9 + angles + terms + recipes * RECIPE_COLUMNS
    pass_start = code_start + ops * CODE_COLUMNS
    code = words[code_start:pass_start].reshape((ops, CODE_COLUMNS))
    plan = words[pass_start:].reshape((passes, PASS_COLUMNS))
    inverse = np.empty_like(coefficients)
    for i in range(ops):
        invert(code[i], coefficients, inverse)
    most = 1
    for i in range(passes):
        begin, end = span(code, plan[i], words[7])
        most = max(most, (end - begin) * chunks_of(plan[i], n))
    memory = np.empty((words[7] + most * count + 1) * 8)  # vectors of 64 bytes
    vectors = simd.pointer_like(simd.address_of(simd.address(memory, align(memory))), psi)
    gathered = simd.address(vectors, words[7] * w)
    for i in range(ops):
        expand(code[i], inverse, vectors)
    contexts = np.empty(1, UNWIND_CONTEXT)
    context = contexts[0]
    context.psi, context.lambdas = simd.address_of(psi), simd.address_of(lam)
    context.stride, context.count = stride, count
    context.bits, context.code = n, simd.address_of(simd.address(words, code_start))
    context.vectors, context.moments = simd.address_of(vectors), simd.address_of(gathered)
    context.wanted = simd.address_of(wanted)
    for i in range(passes - 1, -1, -1):
        chunks = chunks_of(plan[i], n)
        begin, end = span(code, plan[i], words[7])
        for k in range((end - begin) * chunks * count):
            simd.store_line(gathered, k * w, simd.splat_line(gathered, 0))
        blocks = 1 << (n - plan[i, 2])
        context.row = simd.address_of(simd.address(words, pass_start + i * PASS_COLUMNS))
        context.per_chunk, context.blocks = blocks // chunks, blocks
        context.zero = plan[i, 5] if from_zero else 0
        context.length, context.before = end - begin, begin
        _parallel_for(chunk, simd.address_of(contexts), chunks)
        for op in range(plan[i, 0], plan[i, 1]):
            if wanted[code[op, 1]]:
                for k in range(count):
                    for part in range(chunks):
                        at = ((part * count + k) * (end - begin) + code[op, 3] - begin) * w
                        reduce(code[op], simd.address(gathered, at), w, g[k])
    return memory[0] + contexts[0].bits  # both must live till here


@template
def chunks_of(row, n):
    """Number of parts in which the blocks of a pass are shared out."""
    return min(1 << (n - row[2]), _CHUNKS) if ((row[1] - row[0]) << n) >= _PARALLEL_WORK else 1


@template
def span(code, row, total):
    """Return the offsets at which the vectors of the ops of a pass begin and end."""
    begin = code[row[0], 3] if row[0] < len(code) else total
    return begin, code[row[1], 3] if row[1] < len(code) else total


@device
def invert(row, c, out):
    """The coefficients of the inverse of an op."""
    at = row[2]
    if row[0] <= 9:
        for k in range(4):
            t = (k >> 1) | ((k & 1) << 1)
            out[at + 2 * k], out[at + 2 * k + 1] = c[at + 2 * t], -c[at + 2 * t + 1]
    elif row[0] == 10:
        for k in range(2):
            out[at + 2 * k], out[at + 2 * k + 1] = c[at + 2 * k], -c[at + 2 * k + 1]
    else:
        size = 1 << row[15]
        for i in range(size):
            for j in range(size):
                to, source = at + 2 * (i * size + j), at + 2 * (j * size + i)
                out[to], out[to + 1] = c[source], -c[source + 1]


@device
def reduce(row, m, w, g):
    """Add what the moment vectors `m` of an op say to the cotangents of its coefficients: sums over lanes, with lanes'
    signs.
    """
    which, at = row[0], row[2]
    lx, lm, lv, lz = row[11], row[12], row[13], row[14]
    if which <= 6:
        for lane in range(w):
            if lane & lm == lv:
                sign = 2.0 - 4.0 * simd.parity(lane & lz)
                for k in range(2):
                    g[at + k] += 2.0 * m[k * w + lane]
                    g[at + 2 + k] += sign * m[(2 + k) * w + lane]
                    g[at + 4 + k] += sign * m[(4 + k) * w + lane]
                    g[at + 6 + k] += 2.0 * m[(6 + k) * w + lane]
    elif which <= 9:
        pivot = top(lx)
        for lane in range(w):
            second = lane & pivot != 0
            j = lane ^ lx if second else lane
            if j & lm == lv:
                sign = 2.0 - 4.0 * simd.parity(j & lz)
                own, other = (at + 6, at + 4) if second else (at, at + 2)
                for k in range(2):
                    g[own + k] += 2.0 * m[k * w + lane]
                    g[other + k] += sign * m[(2 + k) * w + lane]
    elif which == 10:
        for lane in range(w):
            if lane & lm == lv:
                sign = 1.0 - 2.0 * simd.parity(lane & lz)
                for k in range(2):
                    g[at + k] += m[k * w + lane] + sign * m[(2 + k) * w + lane]
                    g[at + 2 + k] += m[k * w + lane] - sign * m[(2 + k) * w + lane]
    else:
        reduce_dense(row, m, w, g)


@device
def reduce_dense(row, m, w, g):
    """`reduce` for a DENSE, in the order of `coefficients.expand`."""
    k, x, lx, lm, lv, where = row[15], row[7], row[11], row[12], row[13], row[2]
    lane_bits = 3 if w == 8 else 4
    dim = 1 << k
    at, to = 0, 0
    for _ in range(1 << simd.popcount(x)):
        source = 0
        for _ in range(1 << simd.popcount(x)):
            q = 0
            for _ in range(1 << simd.popcount(lx)):
                for lane in range(w):
                    if lane & lm == lv:
                        r, s = 0, 0
                        for i in range(k):
                            bit = row[16 + i]
                            if bit < lane_bits:
                                r |= ((lane >> bit) & 1) << i
                                s |= (((lane ^ q) >> bit) & 1) << i
                            else:
                                r |= ((to >> (bit - lane_bits)) & 1) << i
                                s |= ((source >> (bit - lane_bits)) & 1) << i
                        g[where + 2 * (r * dim + s)] += 2.0 * m[at + lane]
                        g[where + 2 * (r * dim + s) + 1] += 2.0 * m[at + w + lane]
                at += 2 * w
                q = ((q | ~lx) + 1) & lx
            source = ((source | ~x) + 1) & x
        to = ((to | ~x) + 1) & x
