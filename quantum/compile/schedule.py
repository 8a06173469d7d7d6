"""Schedules: ops in passes over blocks of a state, with the bits of each op sorted into bits inside and outside a
block.

In a pass, `size` bits of an amplitude's index are *local*: the lowest `low` ones and some chosen ones, so that a block
of 2**size amplitudes goes through all ops of the pass while it is in cache. What an op mixes must be local; conditions
and signs may depend on other bits, the *outer* ones, which make the block's number (lowest outer bit first). An op is
taken into a pass before earlier ones that are left out if it commutes with them, bit by bit: on a bit on which both
act, both must be diagonal.

Inside a block, the lowest local bits (3 or 4) number the lanes of a vector, the others its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from triskele.core.extend import device, kernel, simd

from .bits import top
from .ops import MAX_DENSE
from .program import Program

__all__ = ["CodeColumn", "Kernel", "PassColumn", "Schedule", "schedule"]


class Kernel(IntEnum):
    """Loops of `simulators.statevector.rows`; the real and imaginary ones follow the general one."""

    PAIR = 0  # of rows
    PAIR_REAL = 1
    PAIR_IMAGINARY = 2
    SWAP = 3
    MIXED = 4  # rows with lanes exchanged, or signs that depend on the row
    MIXED_REAL = 5
    MIXED_IMAGINARY = 6
    LANES = 7  # inside rows
    LANES_REAL = 8
    LANES_IMAGINARY = 9
    DIAGONAL = 10
    DENSE = 11


class CodeColumn(IntEnum):
    """Columns of `Schedule.code` (int64), a row for each op in the order in which they run."""

    KERNEL = 0
    OP = 1  # row of `Program.ops`
    COEFFICIENT = 2  # where its coefficients are, in floats
    VECTORS = 3  # where its expanded coefficients are, in vectors
    OUTER_MASK = 4  # only in blocks whose number has these bits ...
    OUTER_VALUE = 5  # ... of this value
    OUTER_SIGN = 6  # odd number of ones here: the opposite sign
    X = 7  # the same of row numbers
    FIXED = 8  # conditions, and bits that are mixed of which only the 0 is walked
    VALUE = 9
    SIGN = 10
    LANE_X = 11  # and of lanes
    LANE_MASK = 12
    LANE_VALUE = 13
    LANE_SIGN = 14
    WIDTH = 15  # DENSE: number of bits
    BITS = 16  # DENSE: local bits, in the order of the matrix's index


CODE_COLUMNS = CodeColumn.BITS + MAX_DENSE


class PassColumn(IntEnum):
    """Columns of `Schedule.passes` (int64)."""

    FIRST = 0  # ops: rows FIRST ... LAST - 1 of the code
    LAST = 1
    SIZE = 2  # number of local bits
    LOW = 3  # number of local bits that are the lowest ones; == SIZE: the block lies in one piece
    LOCAL = 4  # mask of local bits
    ZERO = 5  # starting from |0...0>, blocks whose number has any of these bits are still zero
    ACTIVE = 6  # mask of bits on which the state may be other than 0 after the pass, starting from |0...0>
    IN_PLACE = 7  # 1: masks of rows in the code are those of rows of the whole state, so that blocks need not be copied


PASS_COLUMNS = 8


@dataclass(frozen=True, eq=False)
class Schedule:
    """The passes of a program."""

    code: np.ndarray  # (K, CODE_COLUMNS) int64, with the columns of `CodeColumn`
    passes: np.ndarray  # (P, PASS_COLUMNS) int64, with the columns of `PassColumn`
    vectors: int  # length of the expanded coefficients, in vectors


def schedule(program: Program, lane_bits: int, size: int, low: int, in_place: bool = False) -> Schedule:
    """Sort the ops of a program into passes over blocks of `size` local bits, of which `low` are the lowest ones.

    `lane_bits` is 3 in double precision and 4 in single. `low` is at least `lane_bits`, and `size` is raised where a
    DENSE needs more. With `in_place`, blocks are worked on where they lie.
    """
    n = program.num_qubits
    low = max(low, lane_bits)
    widest = int(np.bitwise_count(program.ops[:, 2] >> low).max(initial=0))
    size = min(max(size, low + widest), max(n, lane_bits))
    low = min(low, size)
    code = np.zeros((len(program.ops), CODE_COLUMNS), np.int64)
    passes = np.zeros((max(1, len(program.ops)), PASS_COLUMNS), np.int64)
    count, vectors = _schedule(program.ops, max(n, lane_bits), lane_bits, size, low, in_place, code, passes)
    return Schedule(code, np.ascontiguousarray(passes[:count]), vectors)


@kernel
def _schedule(ops, n, lane_bits, size, low, in_place, code, passes):
    k = len(ops)
    waiting = np.arange(k)
    done = count = vectors = active = np.int64(0)  # no literals: they are types of their own
    while done < k or count == 0:
        local, left_x, left_z, kept, first = (1 << low) - 1, 0, 0, 0, done
        room = size - low
        for i in range(k - first):
            op = waiting[i]
            x = ops[op, 2]
            z = (ops[op, 3] | ops[op, 5]) & ~x
            take = x & (left_x | left_z) == 0 and z & left_x == 0
            if take:
                more = simd.popcount(x & ~local)
                take = more <= room
                if take:
                    room -= more
                    local |= x
                    code[done, 1] = op
                    done += 1
            if not take:
                left_x |= x
                left_z |= z
                waiting[kept] = op
                kept += 1
        bit = low
        # copied blocks: what is read and written overlaps better if they are small
        if not in_place and local & (local + 1):
            room = min(room, max(0, lane_bits + 5 - simd.popcount(local)))
        while room > 0:
            if (local >> bit) & 1 == 0:
                local |= 1 << bit
                room -= 1
            bit += 1
        contiguous = 0
        while (local >> contiguous) & 1:
            contiguous += 1
        row = passes[count]
        row[0], row[1], row[2], row[3], row[4] = first, done, simd.popcount(local), contiguous, local
        row[5] = _compress(~active & ((1 << n) - 1), ~local & ((1 << n) - 1), n)
        for i in range(first, done):
            vectors = _encode(
                ops[code[i, 1]], code[i], local, (1 << n) - 1 if in_place else local, n, lane_bits, vectors
            )
            active |= ops[code[i, 1], 2]
        row[6] = active
        row[7] = in_place
        count += 1
    return count, vectors


@device
def _encode(op, row, local, numbered, n, lane_bits, vectors):
    """Fill one row of code, rows being numbered by the bits `numbered`; returns where the next op's vectors begin."""
    kind, form, width = op[0], op[1], op[7]
    outer, lanes = ~local & ((1 << n) - 1), (1 << lane_bits) - 1
    x, m = _compress(op[2] & local, numbered, n), _compress(op[3] & local, numbered, n)
    v, z = _compress(op[4] & local, numbered, n), _compress(op[5] & local, numbered, n)
    row[2], row[3] = op[6], vectors
    row[4], row[5], row[6] = _compress(op[3], outer, n), _compress(op[4], outer, n), _compress(op[5], outer, n)
    row[7], row[8], row[9], row[10] = x >> lane_bits, m >> lane_bits, v >> lane_bits, z >> lane_bits
    row[11], row[12], row[13], row[14] = x & lanes, m & lanes, v & lanes, z & lanes
    row[15] = width
    if kind == 1:
        row[0] = 10
        return vectors + 4
    if kind == 2:
        row[0] = 11
        row[8] |= row[7]
        for i in range(width):
            row[16 + i] = simd.popcount(numbered & ((1 << op[8 + i]) - 1))
        return vectors + ((2 << (2 * width)) >> simd.popcount(row[11]))
    if row[7] == 0:
        row[0] = 8 if form == 3 else 7 + form
        return vectors + 12
    pivot = top(row[7])
    row[8] |= pivot
    if row[11] or row[10]:
        row[0] = 5 if form == 3 else 4 + form
    elif form == 3 and (row[12] or op[5]):
        row[0] = 1
    else:
        row[0] = form
    return vectors + 12


@device
def _compress(x, mask, n):
    """Bits of x at the ones of `mask`, moved together."""
    result, place = 0, 0
    for bit in range(n):
        if (mask >> bit) & 1:
            result |= ((x >> bit) & 1) << place
            place += 1
    return result
