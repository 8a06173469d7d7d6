"""Pointers at addresses, and vectors that fill a cache line of 64 bytes.

The number of lanes follows from the type of the pointer: 8 float64 or 16 float32. One source thus serves both
precisions.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from .vector import I32, I64, Vec, alignment, dtype_of, element_of, pointer, splat_value, start

__all__ = [
    "address_of",
    "iota_line",
    "lanes_of",
    "load_line",
    "load_line_unaligned",
    "pointer_like",
    "pointer_to",
    "prefetch",
    "splat_line",
    "stack",
    "store_line",
    "store_scalar",
]


def _line(array, where):
    element = element_of(array, where)
    return Vec(element, 512 // element.bitwidth)


def _place(context, builder, sig, args, vec):
    """Pointer to the vector at ``args[0][args[1]]``."""
    return builder.bitcast(pointer(context, builder, sig.args[0], args[0], args[1], vec.n), vec.llvm.as_pointer())


@intrinsic
def pointer_to(typingctx, address, dtype):
    """Pointer to numbers of `dtype` at an address (int64)."""
    result = types.CPointer(dtype_of(dtype, "pointer_to"))
    return result(types.int64, dtype), lambda context, builder, sig, args: builder.inttoptr(
        args[0], context.get_value_type(result)
    )


@intrinsic
def pointer_like(typingctx, address, like):
    """Pointer to numbers of the type that the pointer `like` has, at an address (int64)."""
    result = types.CPointer(like.dtype)
    return result(types.int64, like), lambda context, builder, sig, args: builder.inttoptr(
        args[0], context.get_value_type(result)
    )


@intrinsic
def address_of(typingctx, array):
    """Address (int64) of a pointer, or of the first element of an array. The array must live as long as it is used."""
    return types.int64(array), lambda context, builder, sig, args: builder.ptrtoint(
        start(context, builder, array, args[0]), I64
    )


@intrinsic(prefer_literal=True)
def stack(typingctx, like, lines):
    """Pointer to `lines` cache lines on this thread's stack, with numbers of the type that the pointer `like` has."""
    result = types.CPointer(like.dtype)
    count = lines.literal_value * 512 // like.dtype.bitwidth

    def codegen(context, builder, sig, args):
        kind = context.get_value_type(result)
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(kind.pointee, count))
        memory.align = 64
        return builder.bitcast(memory, kind)

    return result(like, lines), codegen


@intrinsic
def lanes_of(typingctx, array):
    """Number of lanes (int64) of a cache line of `array`: 8 or 16."""
    n = _line(array, "lanes_of").n
    return types.int64(array), lambda context, builder, sig, args: I64(n)


def _load(name, align, doc):
    def load(typingctx, array, index):
        vec = _line(array, name)

        def codegen(context, builder, sig, args):
            v = builder.load(_place(context, builder, sig, args, vec))
            v.align = align or alignment(vec)
            return v

        return vec(array, types.intp), codegen

    load.__name__, load.__doc__ = name, doc
    return intrinsic(load)


load_line = _load("load_line", 64, "Load the 64 bytes at `array[index]`, which must be aligned to 64 bytes.")
load_line_unaligned = _load("load_line_unaligned", None, "Load the 64 bytes at `array[index]`, aligned as one number.")


@intrinsic
def store_line(typingctx, array, index, v):
    """Store the vector `v` at `array[index]`, which must be aligned to 64 bytes."""
    vec = _line(array, "store_line")

    def codegen(context, builder, sig, args):
        builder.store(args[2], _place(context, builder, sig, args, vec), align=64)
        return context.get_dummy_value()

    return types.void(array, types.intp, vec), codegen


@intrinsic
def store_scalar(typingctx, array, index, x):
    """Store the number `x` at `array[index]`."""
    element = element_of(array, "store_scalar")

    def codegen(context, builder, sig, args):
        builder.store(args[2], pointer(context, builder, sig.args[0], args[0], args[1]))
        return context.get_dummy_value()

    return types.void(array, types.intp, element), codegen


@intrinsic
def splat_line(typingctx, array, x):
    """The number `x` in every lane of a cache line of `array`."""
    vec = _line(array, "splat_line")
    return vec(array, vec.scalar), lambda context, builder, sig, args: splat_value(builder, args[1], vec.n)


@intrinsic
def iota_line(typingctx, array):
    """0, 1, 2, ... as int32, one for each lane of a cache line of `array`."""
    vec = Vec(types.int32, _line(array, "iota_line").n)
    return vec(array), lambda context, builder, sig, args: ir.Constant(vec.llvm, list(range(vec.n)))


@intrinsic
def prefetch(typingctx, array, index):
    """Start loading the cache line of `array[index]` into the second-level cache."""

    def codegen(context, builder, sig, args):
        place = builder.bitcast(
            builder.gep(start(context, builder, array, args[0]), [args[1]]), ir.IntType(8).as_pointer()
        )
        name, kinds = "llvm.prefetch.p0", [place.type, I32, I32, I32]
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        builder.call(function, [place, I32(0), I32(2), I32(1)])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen
