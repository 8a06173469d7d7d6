"""Random numbers inside Numba functions: the stream of `kernels.philox`, for uint32 numbers and vectors alike."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .. import philox_ir
from .link import link
from .vector import Vec, call

__all__ = ["philox4x32"]


@intrinsic
def philox4x32(typingctx, c0, c1, c2, c3, k0, k1):
    """The Philox4x32-10 block: four words from a counter of four and a key of two, all uint32 numbers or vectors."""
    vectors = [a for a in (c0, c1, c2, c3, k0, k1) if isinstance(a, Vec)]
    if any(v != vectors[0] or v.scalar != types.uint32 for v in vectors):
        raise TypingError(f"simd.philox4x32: words must be uint32 or vectors of it, got {', '.join(map(str, vectors))}")
    word = vectors[0] if vectors else types.uint32
    width = vectors[0].n if vectors else 1
    symbol = philox_ir.symbol(width)

    def codegen(context, builder, sig, args):
        link(context, symbol, philox_ir.definitions([symbol], linkage="external")[0][symbol])
        words = call(builder, symbol[1:], ir.LiteralStructType([args[0].type] * 4), args)
        return cgutils.pack_array(builder, cgutils.unpack_tuple(builder, words, 4))

    return types.UniTuple(word, 4)(*[word] * 6), codegen
