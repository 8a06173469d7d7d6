"""Passes over a state: blocks are fetched, go through their ops, and are written back."""

import numpy as np

from triskele.core.extend import kernel, simd, template

from ...compile.schedule import CODE_COLUMNS
from ..context import context_type, read_context
from . import rows as loops
from .rows import load, store

__all__ = ["BUFFER_LINES", "BUFFER_ROWS", "PASS_CONTEXT", "apply", "chunk", "deposit", "interleave"]

code_at = simd.load_scalar  # one word of a row of code
CODE_BYTES = 8 * CODE_COLUMNS
BUFFER_ROWS = 1024  # of a block that is copied: it lies on the stack
BUFFER_LINES = 2 * BUFFER_ROWS  # of the cache: a row is a line of real parts and one of imaginary parts
SCRATCH_LINES = 512
PASS_CONTEXT = context_type(
    "state",  # address
    "bits",  # of an index
    "code",  # address
    "row",  # address of a row of `Schedule.passes`
    "vectors",  # address
    "per_chunk",  # blocks in a chunk
    "blocks",
    "zero",  # mask of the bits of a block's number that say that the block is zero
    "finish",  # 1: interleave in the end
)


@template
def apply(p, rows, code, vectors, block, scratch):
    """One op on a block of rows that lie together."""
    apply_in(p, rows, 0, 0, code, vectors, block, scratch)


@template
def apply_in(
    p,
    rows,
    outside,
    own,  # pointer to the first row; number of rows; masks
    code,  # pointer to the int64 of a row of `Schedule.code`
    vectors,  # pointer to all expanded coefficients
    block,  # number of the block
    scratch,  # pointer to room for as many rows as the widest DENSE has inputs
):
    """Apply one op to those rows whose number has the bits `own` at the ones of `outside`."""
    if block & code_at(code, 4) == code_at(code, 5):
        c = simd.address(vectors, code_at(code, 3) * simd.lanes_of(p))
        s = simd.parity(block & code_at(code, 6))
        which, x, fixed, value = code_at(code, 0), code_at(code, 7), code_at(code, 8) | outside, code_at(code, 9) | own
        z, lanes = code_at(code, 10), code_at(code, 11)
        if which == 0:
            loops.pair_general(p, rows, c, x, fixed, value, s)
        elif which <= 2:
            loops.pair_half(p, rows, c, x, fixed, value, s, which - 1)
        elif which == 3:
            loops.pair_swap(p, rows, x, fixed, value)
        elif which <= 6:
            loops.pair_mixed(p, rows, c, x, fixed, value, s, z, lanes, which - 4)
        elif which == 7:
            loops.lanes_general(p, rows, c, fixed, value, s, z, lanes)
        elif which <= 9:
            loops.lanes_half(p, rows, c, fixed, value, s, z, lanes, which - 8)
        elif which == 10:
            loops.diagonal(p, rows, c, fixed, value, s, z)
        elif simd.popcount(x) + simd.popcount(lanes) == 2:
            loops.dense2(p, rows, c, fixed, value, x, lanes)
        else:
            loops.dense(p, rows, c, fixed, value, x, lanes, scratch)


@template
def deposit(x, mask):
    """Bits of x, lowest first, at the ones of `mask`."""
    result = 0
    while mask:
        if x & 1:
            result |= mask & -mask
        x >>= 1
        mask &= mask - 1
    return result


@template
def interleave(p, rows, outside, own):
    """Rows (W real parts, W imaginary parts) to W complex numbers."""
    w = simd.lanes_of(p)
    i = 0
    for _ in range(rows >> simd.popcount(outside)):
        u = 2 * w * (i | own)
        i = (i + outside + 1) & ~outside
        re, im = load(p, u)
        low, high = simd.zip_lanes(re, im)
        store(p, u, low, high)


@template
def _move(to, source, to_high, source_high, segments, run):
    """Copy segments of `run` rows; on the side that has bits they lie apart, on the other one together."""
    w = simd.lanes_of(to)
    a = b = 0
    for segment in range(segments):
        t = simd.address(to, 2 * a if to_high else 2 * w * run * segment)
        s = simd.address(source, 2 * b if source_high else 2 * w * run * segment)
        for r in range(2 * run):
            simd.store_line(t, w * r, simd.load_line(s, w * r))
        a = ((a | ~to_high) + 1) & to_high
        b = ((b | ~source_high) + 1) & source_high


@kernel(nogil=True)
def chunk(like, index):
    """Some blocks of one pass; `like` is a pointer to a `PASS_CONTEXT`, typed as the state's numbers."""
    context, w = read_context(like, PASS_CONTEXT), simd.lanes_of(like)
    lane_bits = 3 if w == 8 else 4
    n, per_chunk, blocks, zero = context.bits, context.per_chunk, context.blocks, context.zero
    state, vectors = simd.pointer_like(context.state, like), simd.pointer_like(context.vectors, like)
    row = simd.pointer_to(context.row, np.int64)
    first, last, size, low, local, in_place = row[0], row[1], row[2], row[3], row[4], row[7]
    run = 1 << (low - lane_bits)
    high, outer = local >> low << low, ((1 << n) - 1) & ~local
    segments = 1 << (size - low)
    copied = low != size and not in_place
    rows, outside = 1 << (size - lane_bits), 0
    if in_place:
        rows, outside = 1 << (n - lane_bits), outer >> lane_bits
    buffer = simd.stack(like, BUFFER_LINES)
    scratch = simd.stack(like, SCRATCH_LINES)
    for block in range(index * per_chunk, min(blocks, (index + 1) * per_chunk)):
        if block & zero:
            continue
        place = deposit(block, outer)
        base, own = simd.address(state, 2 * place), 0
        p = base
        if in_place:
            p, own = state, place >> lane_bits
        elif copied:
            p = buffer
            _move(buffer, base, 0, high, segments, run)
        code = simd.pointer_to(context.code + first * CODE_BYTES, np.int64)
        following, ahead, fetched = simd.address(state, 2 * deposit(block + 1, outer)), 0, 0
        per_op = (segments + last - first - 1) // max(1, last - first)
        if low == size or block + 1 == blocks or (block + 1) & zero:
            per_op = 0
        for _ in range(first, last):
            for _ in range(min(per_op, segments - fetched)):  # the next block comes while this one is worked on
                for line in range(2 * run):
                    simd.prefetch(following, 2 * ahead + w * line)
                ahead = ((ahead | ~high) + 1) & high
                fetched += 1
            apply_in(p, rows, outside, own, code, vectors, block, scratch)
            code = simd.address(code, CODE_BYTES // 8)
        if context.finish:
            interleave(p, rows, outside, own)
        if copied:
            _move(base, buffer, high, 0, segments, run)
