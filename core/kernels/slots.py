"""Scratch memory for the chunks of a parallel loop: one slot for each chunk that may run at the same time.

Slots are the rows of a two-dimensional array. The last number of a row is its lock. A chunk takes the first free slot,
so a single thread finds its scratch in the cache, chunk after chunk. The content of a slot is undefined when it is
taken, and no result may depend on it.

Examples
--------
>>> import numpy as np
>>> from triskele.core.kernels.njit import kernel
>>> from triskele.core.kernels.slots import give_slot, take_slot
>>> @kernel(nogil=True, cache=False)
... def chunk_of_work(chunk, scratch, out):
...     slot = take_slot(scratch)
...     scratch[slot, 0] = chunk
...     out[chunk] = scratch[slot, 0] ** 2
...     give_slot(scratch, slot)
>>> scratch, out = np.zeros((4, 2)), np.zeros(4)
>>> for chunk in range(4):
...     chunk_of_work(chunk, scratch, out)
>>> out.tolist(), scratch[:, -1].any()
([0.0, 1.0, 4.0, 9.0], np.False_)
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .njit import template

__all__ = ["give_slot", "take_slot"]


def _lock(context, builder, array_type, array, slot):
    """Pointer to the 32-bit word that ends a row of a two-dimensional array."""
    made = context.make_array(array_type)(context, builder, array)
    width = builder.extract_value(made.shape, 1)
    at = builder.sub(builder.mul(builder.add(slot, slot.type(1)), width), slot.type(1))
    return builder.bitcast(builder.gep(made.data, [at]), ir.IntType(32).as_pointer())


def _check(scratch, where):
    if not isinstance(scratch, types.Array) or scratch.ndim != 2 or scratch.layout != "C":
        raise TypingError(f"{where}: scratch must be a C-contiguous array [slots, width], got {scratch}")


@intrinsic
def _try(typingctx, scratch, slot):
    """Take a slot; return False if it was taken already."""
    _check(scratch, "take_slot")

    def codegen(context, builder, sig, args):
        lock = _lock(context, builder, sig.args[0], *args)
        i32 = lock.type.pointee
        return builder.extract_value(builder.cmpxchg(lock, i32(0), i32(1), "acquire", "monotonic"), 1)

    return types.boolean(scratch, types.intp), codegen


@template
def take_slot(scratch):
    """Take a free slot and return its number.

    Parameters
    ----------
    scratch : (n, width) array
        The last number of each row must be zero before the first use. `n` must be at least the number of chunks that
        can run at the same time: if all slots are taken, the function waits until one is free.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.extend import give_slot, kernel, take_slot
    >>> @kernel(cache=False)
    ... def with_scratch(scratch):
    ...     slot = take_slot(scratch)
    ...     scratch[slot, 0] = 7.0
    ...     give_slot(scratch, slot)
    ...     return slot
    >>> with_scratch(np.zeros((2, 8)))
    0
    """
    slot = 0
    while not _try(scratch, slot):
        slot += 1
        if slot == scratch.shape[0]:
            slot = 0
    return slot


@intrinsic
def give_slot(typingctx, scratch, slot):
    """Free a slot that was taken.

    Parameters
    ----------
    scratch : (n, width) array
        As for `take_slot`.
    slot : int
        Number that `take_slot` returned.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.extend import give_slot, kernel, take_slot
    >>> @kernel(cache=False)
    ... def with_scratch(scratch):
    ...     slot = take_slot(scratch)
    ...     scratch[slot, 0] = 7.0
    ...     give_slot(scratch, slot)
    ...     return slot
    >>> with_scratch(np.zeros((2, 8)))
    0
    """
    _check(scratch, "give_slot")

    def codegen(context, builder, sig, args):
        lock = _lock(context, builder, sig.args[0], *args)
        builder.store_atomic(lock.type.pointee(0), lock, "release", 4)
        return context.get_dummy_value()

    return types.void(scratch, types.intp), codegen
