"""Work space that a chunk borrows while it runs: as many rows are in use as threads, so that they stay in cache.

Which row a chunk gets is open; since it clears the row first and copies out what it needs, results do not depend on it.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from triskele.core.extend import template

__all__ = ["borrow", "give_back"]


def _lock(context, builder, array_type, array, row):
    """Pointer to the 32-bit word that ends a row of a two-dimensional array."""
    made = context.make_array(array_type)(context, builder, array)
    width = builder.extract_value(made.shape, 1)
    at = builder.sub(builder.mul(builder.add(row, row.type(1)), width), row.type(1))
    return builder.bitcast(builder.gep(made.data, [at]), ir.IntType(32).as_pointer())


@intrinsic
def _take(typingctx, array, row):
    """Whether the row was free; it is ours now."""

    def codegen(context, builder, sig, args):
        pointer = _lock(context, builder, sig.args[0], *args)
        i32 = pointer.type.pointee
        return builder.extract_value(builder.cmpxchg(pointer, i32(0), i32(1), "acquire", "monotonic"), 1)

    return types.boolean(array, types.intp), codegen


@intrinsic
def _free(typingctx, array, row):
    def codegen(context, builder, sig, args):
        pointer = _lock(context, builder, sig.args[0], *args)
        builder.store_atomic(pointer.type.pointee(0), pointer, "release", 4)
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


@template
def borrow(space):
    """Number of a free row of `space` [rows, width]; there must be as many rows as threads.

    Its last number is the lock.
    """
    row = 0
    while not _take(space, row):
        row += 1
        if row == space.shape[0]:
            row = 0
    return row


@template
def give_back(space, row):
    """Let others have the row."""
    _free(space, row)
