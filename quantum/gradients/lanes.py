"""Vectors of 64 bytes whose number of lanes follows the array's dtype, and lanes permuted by xor with a number."""

from __future__ import annotations

from llvmlite import ir
from numba.core.errors import TypingError
from numba.extending import intrinsic

from triskele.core.kernels.simd.link import has_avx512
from triskele.core.kernels.simd.vector import I32, Vec, alignment, call, element_of, pointer, splat_value, vector_of

__all__ = ["fetch", "flip", "parity", "zeros"]

_BYTES = 64


def _vector(array, where):
    scalar = element_of(array, where)
    return Vec(scalar, _BYTES * 8 // scalar.bitwidth)


@intrinsic
def fetch(typingctx, array, index):
    """64 bytes from `array[index]` on."""
    vec = _vector(array, "fetch")

    def codegen(context, builder, sig, args):
        v = builder.load(builder.bitcast(pointer(context, builder, sig.args[0], *args), vec.llvm.as_pointer()))
        v.align = alignment(vec)
        return v

    from numba.core import types

    return vec(array, types.intp), codegen


@intrinsic
def zeros(typingctx, array):
    """A vector of zeros, as `fetch` would read from `array`."""
    vec = _vector(array, "zeros")
    return vec(array), lambda context, builder, sig, args: ir.Constant(vec.llvm, [0.0] * vec.n)


@intrinsic
def flip(typingctx, v, k):
    """Lane i of the result is lane i ^ k of `v`."""
    from numba.core import types

    vec = vector_of(v, "flip", "float")
    if not isinstance(k, types.Integer):
        raise TypingError(f"flip: k must be an integer, got {k}")

    def codegen(context, builder, sig, args):
        v, k = args
        bits = vec.scalar.bitwidth
        if has_avx512(context):  # one instruction
            integer = ir.IntType(bits)
            k = context.cast(builder, k, sig.args[1], types.int64)
            k = builder.trunc(k, integer) if bits < 64 else k
            lanes = ir.Constant(ir.VectorType(integer, vec.n), list(range(vec.n)))
            index = builder.xor(lanes, splat_value(builder, k, vec.n))
            return call(builder, f"llvm.x86.avx512.permvar.{'df' if bits == 64 else 'sf'}.512", vec.llvm, [v, index])
        undefined, step = ir.Constant(vec.llvm, ir.Undefined), 1
        while step < vec.n:
            swapped = builder.shuffle_vector(v, undefined, ir.Constant(ir.VectorType(I32, vec.n), [i ^ step for i in range(vec.n)]))
            bit = builder.and_(k, ir.Constant(k.type, step))
            v = builder.select(builder.icmp_signed("!=", bit, ir.Constant(k.type, 0)), swapped, v)
            step *= 2
        return v

    return vec(v, k), codegen


@intrinsic
def parity(typingctx, k):
    """1 if an odd number of bits of an int64 are set, else 0."""
    from numba.core import types

    def codegen(context, builder, sig, args):
        integer = ir.IntType(64)
        return builder.and_(call(builder, "llvm.ctpop.i64", integer, [args[0]]), ir.Constant(integer, 1))

    return types.int64(types.int64), codegen
