"""Moving lanes: broadcast, shuffles, choice, masks, conversions and reductions."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .link import has_avx512
from .vector import I32, I64, Vec, call, common, dtype_of, splat_value, vector_of, width_of

__all__ = [
    "all_",
    "any_",
    "bitcast",
    "bits",
    "concat",
    "convert",
    "extract",
    "from_bits",
    "high",
    "insert",
    "iota",
    "low",
    "max_",
    "min_",
    "parity",
    "popcount",
    "select",
    "shuffle",
    "shuffle2",
    "splat",
    "sum_",
    "unzip_lanes",
    "xor_lanes",
    "zip_lanes",
]


def _indices(indices, upper, where):
    items = list(indices) if isinstance(indices, types.BaseTuple) else []
    if not items or any(not isinstance(i, types.IntegerLiteral) or not 0 <= i.literal_value < upper for i in items):
        raise TypingError(f"simd.{where}: indices must be a literal tuple of integers in 0..{upper - 1}, got {indices}")
    return [i.literal_value for i in items]


def _pick(builder, v, w, indices):
    return builder.shuffle_vector(v, w, ir.Constant(ir.VectorType(I32, len(indices)), indices))


@intrinsic(prefer_literal=True)
def splat(typingctx, x, width):
    """`x` in every lane; the dtype is that of `x`."""
    scalar = types.unliteral(x)
    vec = Vec(scalar, width_of(width, "splat"))
    return vec(scalar, width), lambda context, builder, sig, args: splat_value(builder, args[0], vec.n)


@intrinsic(prefer_literal=True)
def iota(typingctx, width):
    """0, 1, 2, ... as int32."""
    vec = Vec(types.int32, width_of(width, "iota"))
    return vec(width), lambda context, builder, sig, args: ir.Constant(vec.llvm, list(range(vec.n)))


@intrinsic(prefer_literal=True)
def shuffle(typingctx, v, indices):
    """Lanes `indices` of `v`, a literal tuple of any length."""
    picked = _indices(indices, vector_of(v, "shuffle").n, "shuffle")
    sig = Vec(v.scalar, len(picked))(v, indices)
    return sig, lambda context, builder, sig, args: _pick(builder, args[0], ir.Constant(v.llvm, ir.Undefined), picked)


@intrinsic(prefer_literal=True)
def shuffle2(typingctx, v, w, indices):
    """Lanes `indices` of `v` followed by `w`."""
    picked = _indices(indices, 2 * common("shuffle2", v, w).n, "shuffle2")
    sig = Vec(v.scalar, len(picked))(v, w, indices)
    return sig, lambda context, builder, sig, args: _pick(builder, args[0], args[1], picked)


@intrinsic
def concat(typingctx, v, w):
    """Lanes of `v`, then lanes of `w`."""
    n = common("concat", v, w).n
    return Vec(v.scalar, 2 * n)(v, w), lambda context, builder, sig, args: _pick(
        builder, args[0], args[1], list(range(2 * n))
    )


def _half(start, name):
    def half(typingctx, v):
        n = vector_of(v, name).n
        if n % 2:
            raise TypingError(f"simd.{name}: width must be even, got {v}")
        picked = list(range(start * n // 2, (start + 1) * n // 2))
        return Vec(v.scalar, n // 2)(v), lambda context, builder, sig, args: _pick(
            builder, args[0], ir.Constant(v.llvm, ir.Undefined), picked
        )

    half.__name__, half.__doc__ = name, f"The {'upper' if start else 'lower'} half of the lanes."
    return intrinsic(half)


low, high = _half(0, "low"), _half(1, "high")


@intrinsic
def zip_lanes(typingctx, v, w):
    """Lanes v0, w0, v1, w1, ... as two vectors."""
    n = common("zip_lanes", v, w).n
    pairs = [x for lane in range(n) for x in (lane, lane + n)]
    return types.UniTuple(v, 2)(v, v), lambda context, builder, sig, args: cgutils.pack_array(
        builder, [_pick(builder, args[0], args[1], half) for half in (pairs[:n], pairs[n:])]
    )


@intrinsic
def unzip_lanes(typingctx, v, w):
    """The even and the odd lanes of `v` followed by `w`, as two vectors."""
    n = common("unzip_lanes", v, w).n
    return types.UniTuple(v, 2)(v, v), lambda context, builder, sig, args: cgutils.pack_array(
        builder, [_pick(builder, args[0], args[1], list(range(odd, 2 * n, 2))) for odd in (0, 1)]
    )


@intrinsic
def xor_lanes(typingctx, v, x):
    """Lane ``l ^ x`` of `v` in lane `l`, for an int64 `x` that may vary."""
    n, bits = vector_of(v, "xor_lanes").n, v.scalar.bitwidth

    def codegen(context, builder, sig, args):
        vector, x = args
        if v.is_float and has_avx512(context) and n * bits == 512:
            numbers = ir.Constant(ir.VectorType(ir.IntType(bits), n), list(range(n)))
            index = builder.xor(numbers, splat_value(builder, x if bits == 64 else builder.trunc(x, I32), n))
            return call(builder, f"llvm.x86.avx512.permvar.{'sf' if bits == 32 else 'df'}.512", v.llvm, [vector, index])
        # exchange neighbors at distance 1, 2, 4, ... where x has that bit
        for step in (1 << b for b in range(n.bit_length() - 1)):
            swapped = _pick(builder, vector, ir.Constant(v.llvm, ir.Undefined), [lane ^ step for lane in range(n)])
            vector = builder.select(builder.icmp_unsigned("!=", builder.and_(x, I64(step)), I64(0)), swapped, vector)
        return vector

    return v(v, types.int64), codegen


@intrinsic
def extract(typingctx, v, lane):
    """One lane as a number; `lane` may vary."""
    vector_of(v, "extract")
    return v.scalar(v, types.int32), lambda context, builder, sig, args: builder.extract_element(*args)


@intrinsic
def insert(typingctx, v, lane, x):
    """`v` with one lane replaced."""
    vector_of(v, "insert")
    return v(v, types.int32, v.scalar), lambda context, builder, sig, args: builder.insert_element(
        args[0], args[2], args[1]
    )


@intrinsic
def select(typingctx, mask, x, y):
    """`x` where `mask`, else `y`; either may be a number."""
    vec = common("select", x, y)
    if vector_of(mask, "select", "mask").n != vec.n:
        raise TypingError(f"simd.select: mask must have the width of {vec}, got {mask}")
    return vec(mask, vec, vec), lambda context, builder, sig, args: builder.select(*args)


# -------------------------------------------------------------------------------------------------------------- masks
@intrinsic
def bits(typingctx, mask):
    """A mask as an integer, lane 0 in the lowest bit; up to 64 lanes."""
    n = vector_of(mask, "bits", "mask").n
    if n > 64:
        raise TypingError(f"simd.bits: mask must have at most 64 lanes, got {mask}")

    def codegen(context, builder, sig, args):
        x = builder.bitcast(args[0], ir.IntType(n))
        return x if n == 64 else builder.zext(x, ir.IntType(64))

    return types.uint64(mask), codegen


@intrinsic(prefer_literal=True)
def from_bits(typingctx, x, width):
    """A mask from the low bits of an integer."""
    vec = Vec(types.boolean, width_of(width, "from_bits"))

    def codegen(context, builder, sig, args):
        n = ir.IntType(vec.n)
        x = builder.trunc(args[0], n) if vec.n < 64 else args[0]
        return builder.bitcast(x, vec.llvm)

    if vec.n > 64:
        raise TypingError(f"simd.from_bits: width must be at most 64, got {vec.n}")
    return vec(types.uint64, width), codegen


def _mask_reduction(name, doc):
    def reduction(typingctx, mask):
        n = vector_of(mask, name, "mask").n
        op = "or" if name == "any" else "and"
        return types.boolean(mask), lambda context, builder, sig, args: call(
            builder, f"llvm.vector.reduce.{op}.v{n}i1", ir.IntType(1), args
        )

    reduction.__name__, reduction.__doc__ = name, doc
    return intrinsic(reduction)


any_ = _mask_reduction("any", "Whether any lane of a mask is true.")
all_ = _mask_reduction("all", "Whether all lanes of a mask are true.")


# -------------------------------------------------------------------------------------------------------- conversions
@intrinsic
def convert(typingctx, v, dtype):
    """`v` in another dtype, by value; floats go to integers by cutting off the fraction."""
    vec = Vec(dtype_of(dtype, "convert"), vector_of(v, "convert").n)

    def codegen(context, builder, sig, args):
        x, to = args[0], vec.llvm
        signed = getattr(v.scalar, "signed", False)
        if v.is_float and vec.is_float:
            wider = vec.scalar.bitwidth - v.scalar.bitwidth
            return x if not wider else builder.fpext(x, to) if wider > 0 else builder.fptrunc(x, to)
        if v.is_float:
            return builder.fptosi(x, to) if vec.scalar.signed else builder.fptoui(x, to)
        if vec.is_float:
            return builder.sitofp(x, to) if signed else builder.uitofp(x, to)
        wider = to.element.width - x.type.element.width
        if wider == 0:
            return x
        return builder.trunc(x, to) if wider < 0 else builder.sext(x, to) if signed else builder.zext(x, to)

    return vec(v, dtype), codegen


@intrinsic
def bitcast(typingctx, v, dtype):
    """The bits of `v` read as another dtype; the width changes with the size."""
    scalar = dtype_of(dtype, "bitcast")
    total = vector_of(v, "bitcast").n * v.scalar.bitwidth
    vec = Vec(scalar, total // scalar.bitwidth)
    return vec(v, dtype), lambda context, builder, sig, args: builder.bitcast(args[0], vec.llvm)


# --------------------------------------------------------------------------------------------------------- reductions
def _reduction(name, float_op, signed_op, unsigned_op, doc):
    def reduction(typingctx, v):
        vector_of(v, name)

        def codegen(context, builder, sig, args):
            op = float_op if v.is_float else signed_op if v.scalar.signed else unsigned_op
            e = v.llvm.element
            if op == "fadd":  # pairwise in log2(n) steps
                return call(
                    builder,
                    f"llvm.vector.reduce.fadd.{v.suffix}",
                    e,
                    [ir.Constant(e, -0.0), args[0]],
                    fastmath=("reassoc",),
                )
            return call(builder, f"llvm.vector.reduce.{op}.{v.suffix}", e, args)

        return v.scalar(v), codegen

    reduction.__name__, reduction.__doc__ = name, doc
    return intrinsic(reduction)


sum_ = _reduction("sum", "fadd", "add", "add", "Sum of the lanes, in pairs.")
min_ = _reduction("min", "fmin", "smin", "umin", "Smallest lane; a NaN is passed over.")
max_ = _reduction("max", "fmax", "smax", "umax", "Largest lane; a NaN is passed over.")


# ---------------------------------------------------------------------------------------------------------------- bits
@intrinsic
def popcount(typingctx, x):
    """Number of ones in the binary form of an int64."""
    return types.int64(types.int64), lambda context, builder, sig, args: call(builder, "llvm.ctpop.i64", I64, args)


@intrinsic
def parity(typingctx, x):
    """1 if the binary form of an int64 has an odd number of ones, else 0."""
    return types.int64(types.int64), lambda context, builder, sig, args: builder.and_(
        call(builder, "llvm.ctpop.i64", I64, args), I64(1)
    )
