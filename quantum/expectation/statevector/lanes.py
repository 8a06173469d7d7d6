"""Vectors read from where nothing is aligned."""

from __future__ import annotations

from numba.core import types
from numba.extending import intrinsic

from triskele.core.extend import simd

__all__ = ["fetch"]


@intrinsic
def fetch(typingctx, pointer, index):
    """The 64 bytes from `pointer[index]` on, aligned as one number."""
    vec = simd.vector.Vec(pointer.dtype, 512 // pointer.dtype.bitwidth)

    def codegen(context, builder, sig, args):
        v = builder.load(builder.bitcast(simd.vector.pointer(context, builder, sig.args[0], args[0], args[1], vec.n),
                                         vec.llvm.as_pointer()))
        v.align = simd.vector.alignment(vec)
        return v

    return vec(pointer, types.intp), codegen
