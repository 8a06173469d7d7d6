"""What state-vector kernels need below the level of Numba: addresses, 64-byte vectors, lanes moved at run time.

A *row* is what a state is made of in the engine: one 64-byte vector of real parts and then one of imaginary parts.
Everything takes a pointer (`simd.address`, `at_address`), whose type says how many lanes a vector has: 8 or 16.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from triskele.core.extend import simd

__all__ = ["ROW_BYTES", "address_of", "as_pointer", "at_address", "fill", "lane_numbers", "load", "ones", "parity",
           "permute", "prefetch", "put", "stack", "store",
           "unzip_lanes", "width", "zip_lanes"]

ROW_BYTES = 128
_I64 = ir.IntType(64)


def _vector(pointer):
    return simd.vector.Vec(pointer.dtype, 512 // pointer.dtype.bitwidth)


@intrinsic
def at_address(typingctx, address, dtype):
    """Pointer to numbers of `dtype` at an address (int64)."""
    result = types.CPointer(simd.lanes._dtype(dtype, "at_address"))
    return result(types.int64,
                  dtype), lambda context, builder, sig, args: builder.inttoptr(args[0], context.get_value_type(result))


@intrinsic
def as_pointer(typingctx, address, like):
    """Pointer of the type of `like` to an address (int64)."""
    result = types.CPointer(like.dtype)
    return result(types.int64,
                  like), lambda context, builder, sig, args: builder.inttoptr(args[0], context.get_value_type(result))


@intrinsic
def zip_lanes(typingctx, v, w):
    """Lanes v0 w0 v1 w1 ... as two vectors."""

    def codegen(context, builder, sig, args):
        pairs = [x for lane in range(v.n) for x in (lane, lane + v.n)]
        halves = [builder.shuffle_vector(*args, ir.Constant(ir.VectorType(ir.IntType(32), v.n), half))
                  for half in (pairs[: v.n], pairs[v.n :])]
        return cgutils.pack_array(builder, halves)

    return types.UniTuple(v, 2)(v, v), codegen


@intrinsic
def unzip_lanes(typingctx, v, w):
    """The lanes of even and those of odd number, of `v` followed by `w`, as two vectors."""

    def codegen(context, builder, sig, args):
        return cgutils.pack_array(builder, [
            builder.shuffle_vector(*args, ir.Constant(ir.VectorType(ir.IntType(32), v.n),
                                                      list(range(odd, 2 * v.n, 2)))) for odd in (0, 1)
        ])

    return types.UniTuple(v, 2)(v, v), codegen


@intrinsic
def address_of(typingctx, pointer):
    """Address (int64) of a pointer."""
    return types.int64(pointer), lambda context, builder, sig, args: builder.ptrtoint(
        simd.vector.start(context, builder, pointer, args[0]), _I64
    )


@intrinsic(prefer_literal=True)
def stack(typingctx, like, rows):
    """Pointer to `rows` rows on this thread's stack, numbers being those of the pointer `like`."""
    result = types.CPointer(like.dtype)
    count = rows.literal_value * ROW_BYTES * 8 // like.dtype.bitwidth

    def codegen(context, builder, sig, args):
        kind = context.get_value_type(result)
        with builder.goto_entry_block():
            memory = builder.alloca(ir.ArrayType(kind.pointee, count))
        memory.align = 64
        return builder.bitcast(memory, kind)

    return result(like, rows), codegen


@intrinsic
def load(typingctx, pointer, index):
    """The vector at `pointer[index]`, aligned to 64 bytes."""
    vec = _vector(pointer)

    def codegen(context, builder, sig, args):
        v = builder.load(builder.bitcast(simd.vector.pointer(context, builder, sig.args[0], args[0], args[1], vec.n),
                                         vec.llvm.as_pointer()))
        v.align = 64
        return v

    return vec(pointer, types.intp), codegen


@intrinsic
def store(typingctx, pointer, index, v):
    """Write the vector `v` to `pointer[index]`, aligned to 64 bytes."""
    vec = _vector(pointer)

    def codegen(context, builder, sig, args):
        builder.store(args[2],
                      builder.bitcast(simd.vector.pointer(context, builder, sig.args[0], args[0], args[1], vec.n),
                                      vec.llvm.as_pointer()), align=64)
        return context.get_dummy_value()

    return types.void(pointer, types.intp, vec), codegen


@intrinsic
def prefetch(typingctx, pointer, index):
    """Ask for the cache line of `pointer[index]`, to be in the second-level cache soon."""

    def codegen(context, builder, sig, args):
        place = builder.bitcast(builder.gep(simd.vector.start(context, builder, pointer, args[0]), [args[1]]),
                                ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        name, kinds = "llvm.prefetch.p0", [place.type, i32, i32, i32]
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), kinds), name)
        builder.call(function, [place, i32(0), i32(2), i32(1)])
        return context.get_dummy_value()

    return types.void(pointer, types.intp), codegen


@intrinsic
def put(typingctx, pointer, index, x):
    """Write the number `x` to `pointer[index]`."""

    def codegen(context, builder, sig, args):
        builder.store(args[2], simd.vector.pointer(context, builder, sig.args[0], args[0], args[1]))
        return context.get_dummy_value()

    return types.void(pointer, types.intp, pointer.dtype), codegen


@intrinsic
def fill(typingctx, pointer, x):
    """The number `x` in every lane of a vector for `pointer`."""
    vec = _vector(pointer)
    return vec(pointer,
               vec.scalar), lambda context, builder, sig, args: simd.vector.splat_value(builder, args[1], vec.n)


@intrinsic
def lane_numbers(typingctx, pointer):
    """0, 1, 2, ... as int32, as many as a vector for `pointer` has lanes."""
    vec = simd.vector.Vec(types.int32, _vector(pointer).n)
    return vec(pointer), lambda context, builder, sig, args: ir.Constant(vec.llvm, list(range(vec.n)))


@intrinsic
def width(typingctx, pointer):
    """Lanes of a vector for `pointer`: 8 or 16."""
    n = _vector(pointer).n
    return types.int64(pointer), lambda context, builder, sig, args: _I64(n)


@intrinsic
def permute(typingctx, v, x):
    """Lane l of the result is lane l ^ x of `v`."""
    width = v.n

    def codegen(context, builder, sig, args):
        i32 = ir.VectorType(ir.IntType(32), width)
        vector, x = args
        if simd.link.has_avx512(context) and width * v.scalar.bitwidth == 512:
            bits = v.scalar.bitwidth
            integers = ir.VectorType(ir.IntType(bits), width)
            numbers = ir.Constant(integers, list(range(width)))
            index = builder.xor(
                numbers, simd.vector.splat_value(builder, x if bits == 64 else builder.trunc(x, ir.IntType(32)), width)
            )
            name = f"llvm.x86.avx512.permvar.{'sf' if bits == 32 else 'df'}.512"
            return simd.vector.call(builder, name, v.llvm, [vector, index])
        # exchange neighbours at distance 1, 2, 4, ... where x says so
        for step in (1 << b for b in range(width.bit_length() - 1)):
            swapped = builder.shuffle_vector(vector, ir.Constant(v.llvm, ir.Undefined),
                                             ir.Constant(i32, [lane ^ step for lane in range(width)]))
            vector = builder.select(builder.icmp_unsigned("!=", builder.and_(x, _I64(step)), _I64(0)), swapped, vector)
        return vector

    return v(v, types.int64), codegen


@intrinsic
def ones(typingctx, x):
    """Number of ones in the binary form of an int64."""
    return types.int64(types.int64), lambda context, builder, sig, args: simd.vector.call(
        builder, "llvm.ctpop.i64", _I64, args
    )


@intrinsic
def parity(typingctx, x):
    """1 if an int64 has an odd number of ones, else 0."""
    return types.int64(types.int64), lambda context, builder, sig, args: builder.and_(
        simd.vector.call(builder, "llvm.ctpop.i64", _I64, args), _I64(1)
    )
