"""Scratch memory for the chunks of a parallel loop: as many slots as chunks may run at once, each used by one at a
time.

A chunk takes the lowest free slot, so that a single thread finds its scratch in the cache, chunk after chunk. What a
slot holds when it is taken is open, and no result may depend on it.

Examples
--------
>>> import numpy as np
>>> from triskele.core.kernels.njit import kernel
>>> from triskele.core.kernels.slots import SPACING, give_slot, take_slot
>>> @kernel(nogil=True, cache=False)
... def chunk_of_work(chunk, slots, scratch, out):
...     slot = take_slot(slots)
...     scratch[slot, 0] = chunk
...     out[chunk] = scratch[slot, 0] ** 2
...     give_slot(slots, slot)
>>> slots, out = np.zeros(4 * SPACING, np.int64), np.zeros(4)
>>> for chunk in range(4):
...     chunk_of_work(chunk, slots, np.zeros((4, 1)), out)
>>> out.tolist(), slots.any()
([0.0, 1.0, 4.0, 9.0], np.False_)
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .simd.vector import pointer

__all__ = ["SPACING", "give_slot", "take_slot"]

SPACING = 8  # int64 words from one slot's flag to the next: a cache line
_I64 = ir.IntType(64)


def _check(slots, where):
    if not isinstance(slots, types.Array) or slots.dtype != types.int64:
        raise TypingError(f"{where}: slots must be an int64 array, got {slots}")


@intrinsic
def take_slot(typingctx, slots):
    """Number of a free slot, which is taken; `slots` is int64 [SPACING * n], zeros at first.

    Waits for ever if all n are taken: n must be at least the number of chunks that can run at once.
    """
    _check(slots, "take_slot")

    def codegen(context, builder, sig, args):
        n = builder.udiv(cgutils.unpack_tuple(builder,
                                              context.make_array(sig.args[0])(context, builder, args[0]).shape)[0],
                         _I64(SPACING))
        before = builder.block
        search, taken = builder.append_basic_block("search"), builder.append_basic_block("taken")
        builder.branch(search)
        builder.position_at_end(search)
        k = builder.phi(_I64)
        flag = pointer(context, builder, sig.args[0], args[0], builder.mul(k, _I64(SPACING)))
        old = builder.cmpxchg(flag, _I64(0), _I64(1), "acquire", "monotonic")
        following = builder.urem(builder.add(k, _I64(1)), n)
        k.add_incoming(_I64(0), before)
        k.add_incoming(following, builder.block)
        builder.cbranch(builder.extract_value(old, 1), taken, search)
        builder.position_at_end(taken)
        return k

    return types.int64(slots), codegen


@intrinsic
def give_slot(typingctx, slots, slot):
    """Free a slot that was taken."""
    _check(slots, "give_slot")

    def codegen(context, builder, sig, args):
        flag = pointer(context, builder, sig.args[0], args[0], builder.mul(args[1], _I64(SPACING)))
        builder.store_atomic(_I64(0), flag, "release", 8)
        return context.get_dummy_value()

    return types.void(slots, types.int64), codegen
