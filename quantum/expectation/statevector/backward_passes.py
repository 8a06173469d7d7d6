"""The backward sweep over passes: blocks of psi and lambda are fetched, ops undone on both, and written back."""

import numpy as np

from triskele.core.extend import kernel, simd, template

from ...simulators.context import context_type, read_context
from ...simulators.statevector.passes import (
    BUFFER_LINES,
    CODE_BYTES,
    SCRATCH_LINES,
    apply,
    code_at,
    deposit,
)
from . import moment_rows as moments

__all__ = ["UNWIND_CONTEXT", "undo_and_collect", "unwind_chunk"]

UNWIND_CONTEXT = context_type(
    "psi",  # address
    "bits",  # of an index
    "code",  # address
    "row",  # address of a row of `Schedule.passes`
    "vectors",  # address: those of the inverse ops
    "per_chunk",  # blocks in a chunk
    "blocks",
    "zero",  # mask of the bits of a block's number that say that psi is zero
    "lambdas",  # address
    "stride",  # numbers from one lambda to the next
    "count",  # lambdas (one where blocks are copied)
    "wanted",  # address: a byte for each op
    "moments",  # address
    "length",  # vectors of moments of one chunk and lambda
    "before",  # vectors of the ops before this pass
)


@template
def undo_and_collect(p, l, rows, code, vectors, block, scratch, g):
    """Undo one op on a block of lambda, with psi undone already, and add its moments to vectors `g`.

    Others as `passes.apply`.
    """
    if block & code_at(code, 4) == code_at(code, 5):
        at = code_at(code, 3) * simd.lanes_of(p)
        c = simd.address(vectors, at)
        s = simd.parity(block & code_at(code, 6))
        which, x, fixed, value = code_at(code, 0), code_at(code, 7), code_at(code, 8), code_at(code, 9)
        z, lanes = code_at(code, 10), code_at(code, 11)
        if which == 0:
            moments.pair_general(p, l, rows, c, x, fixed, value, s, g)
        elif which <= 2:
            moments.pair_half(p, l, rows, c, x, fixed, value, s, which - 1, g)
        elif which <= 6:
            moments.pair_mixed(p, l, rows, c, x, fixed, value, s, z, lanes, which - 4, g)
        elif which == 7:
            moments.lanes_general(p, l, rows, c, fixed, value, s, z, lanes, g)
        elif which <= 9:
            moments.lanes_half(p, l, rows, c, fixed, value, s, z, lanes, which - 8, g)
        elif which == 10:
            moments.diagonal(p, l, rows, c, fixed, value, s, z, g)
        else:
            moments.dense(p, l, rows, c, fixed, value, x, lanes, scratch, g)


@template
def copy(source, to, rows, run, high, scattered):
    """Runs of rows from where they lie apart to one piece, or with `scattered` back."""
    w = simd.lanes_of(source)
    offset = 0
    for segment in range(rows // run):
        a, b = simd.address(source, 0 if scattered else 2 * offset), simd.address(to, 2 * offset if scattered else 0)
        if scattered:
            a = simd.address(a, 2 * w * run * segment)
        else:
            b = simd.address(b, 2 * w * run * segment)
        for r in range(2 * run):
            simd.store_line(b, w * r, simd.load_line(a, w * r))
        offset = ((offset | ~high) + 1) & high


@kernel(nogil=True)
def unwind_chunk(like, index):
    """Some blocks of one pass, backwards; `like` is a pointer to an `UNWIND_CONTEXT`, typed as the state's numbers."""
    context, w = read_context(like, UNWIND_CONTEXT), simd.lanes_of(like)
    lane_bits = 3 if w == 8 else 4
    n, per_chunk, blocks, zero = context.bits, context.per_chunk, context.blocks, context.zero
    psi, lam = simd.pointer_like(context.psi, like), simd.pointer_like(context.lambdas, like)
    stride, count = context.stride, context.count
    vectors = simd.pointer_like(context.vectors, like)
    wanted = simd.pointer_to(context.wanted, np.uint8)
    row = simd.pointer_to(context.row, np.int64)
    first, last, size, low, local = row[0], row[1], row[2], row[3], row[4]
    rows, run = 1 << (size - lane_bits), 1 << (low - lane_bits)
    high = local >> low << low
    outer = ((1 << n) - 1) & ~local
    buffer = simd.stack(like, BUFFER_LINES)  # blocks of psi and of a lambda
    scratch = simd.stack(like, SCRATCH_LINES)
    length = context.length * w
    gathered = simd.address(simd.pointer_like(context.moments, like), index * count * length)
    for block in range(index * per_chunk, min(blocks, (index + 1) * per_chunk)):
        if block & zero:
            continue
        base = 2 * deposit(block, outer)
        if low == size:
            p, l = simd.address(psi, base), simd.address(lam, base)
        else:
            p, l = buffer, simd.address(buffer, 2 * w * rows)
            copy(simd.address(psi, base), p, rows, run, high, False)
            copy(simd.address(lam, base), l, rows, run, high, False)
        code = simd.pointer_to(context.code + last * CODE_BYTES, np.int64)
        for _ in range(first, last):
            code = simd.address(code, -(CODE_BYTES // 8))
            collect = wanted[code_at(code, 1)]
            here = simd.address(gathered, (code_at(code, 3) - context.before) * w)
            for k in range(-1, count):  # psi, then the lambdas
                q = p if k < 0 else simd.address(l, k * stride)
                if k >= 0 and collect:
                    undo_and_collect(p, q, rows, code, vectors, block, scratch, simd.address(here, k * length))
                else:
                    apply(q, rows, code, vectors, block, scratch)
        if low != size:
            copy(p, simd.address(psi, base), rows, run, high, True)
            copy(l, simd.address(lam, base), rows, run, high, True)
