"""Sizes of blocks, in which passes go over a state: how many amplitudes are worked on while they lie in the cache."""

from typing import NamedTuple

import numpy as np

from ...compile.ops import OpColumn
from ...compile.program import Program

__all__ = ["Block", "default_block"]


class Block(NamedTuple):
    """Local bits of a pass: `size` in all, `low` of them the lowest; `in_place`: blocks are not copied together."""

    size: int
    low: int
    in_place: bool = False


def default_block(program: Program, single: bool, states: int = 1) -> Block:
    """Return the fastest block layout on a processor with 48 KiB of first-level and 2 MiB of second-level cache, for
    passes over that many states together.

    Blocks in place save the copies, but lie in pieces that must not fall on the same places of the cache, which sorts
    lines by bits 6 to 11 of their address: few large pieces, and so more passes. States of more than 32 MiB are read
    from so far away that fewer passes are better, and so are blocks for ops that mix many bits.
    """
    if states > 1:  # the sweep of gradients, bound by arithmetic: sizes from 9 to 12 make little difference
        return Block(12, 5) if single else Block(11, 4)
    low = 8 if single else 7
    if program.num_qubits <= low + 14 and np.bitwise_count(program.ops[:, OpColumn.X] >> low).max(initial=0) <= 3:
        return Block(low + 3, low, True)
    return Block(12, 6) if single else Block(10, 4)
