"""Arithmetic beyond the operators, estimates, and the functions of `vecmath` on vectors."""

from __future__ import annotations

from llvmlite import ir
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .. import vecmath
from .link import has_avx512, link_vecmath
from .vector import FLAGS, Vec, call, common, vector_of

__all__ = [
    "abs_",
    "ceil",
    "copysign",
    "floor",
    "fma",
    "maximum",
    "minimum",
    "rcp_fast",
    "rint",
    "rsqrt_fast",
    "sqrt",
    "trunc",
    *vecmath.names(),
]


@intrinsic
def fma(typingctx, x, y, z):
    """x*y + z in one rounding where the processor can, in two where it cannot; numbers are broadcast."""
    vec = vector_of(common("fma", x, y, z), "fma", "float")
    return vec(vec, vec, vec), lambda context, builder, sig, args: call(
        builder, f"llvm.fmuladd.{vec.suffix}", vec.llvm, args
    )


def _choose(name, symbol):
    def choose(typingctx, x, y):
        vec = common(name, x, y)

        def codegen(context, builder, sig, args):
            if vec.is_float:
                condition = builder.fcmp_ordered(symbol, *args)
            elif vec.scalar.signed:
                condition = builder.icmp_signed(symbol, *args)
            else:
                condition = builder.icmp_unsigned(symbol, *args)
            return builder.select(condition, *args)

        return vec(vec, vec), codegen

    choose.__name__ = name
    choose.__doc__ = f"x where x {symbol} y, else y (so y where either is NaN: one instruction)."
    return intrinsic(choose)


minimum, maximum = _choose("minimum", "<"), _choose("maximum", ">")


def _unary(name, llvm_name, doc):
    def unary(typingctx, x):
        vec = vector_of(x, name, "float")
        return vec(vec), lambda context, builder, sig, args: call(
            builder, f"llvm.{llvm_name}.{vec.suffix}", vec.llvm, args
        )

    unary.__name__, unary.__doc__ = name, doc
    return intrinsic(unary)


floor = _unary("floor", "floor", "Round down.")
ceil = _unary("ceil", "ceil", "Round up.")
trunc = _unary("trunc", "trunc", "Round towards zero.")
rint = _unary("rint", "rint", "Round to the nearest integer, halves to even.")
sqrt = _unary("sqrt", "sqrt", "Square root, correctly rounded.")


@intrinsic
def abs_(typingctx, x):
    """Magnitude of floats or signed integers."""
    vec = vector_of(x, "abs")

    def codegen(context, builder, sig, args):
        if vec.is_float:
            return call(builder, f"llvm.fabs.{vec.suffix}", vec.llvm, args)
        return call(builder, f"llvm.abs.{vec.suffix}", vec.llvm, [args[0], ir.Constant(ir.IntType(1), 0)])

    return vec(vec), codegen


@intrinsic
def copysign(typingctx, magnitude, sign):
    """`magnitude` with the signs of `sign`."""
    vec = vector_of(common("copysign", magnitude, sign), "copysign", "float")
    return vec(vec, vec), lambda context, builder, sig, args: call(
        builder, f"llvm.copysign.{vec.suffix}", vec.llvm, args
    )


def _literal_steps(steps, where):
    if not isinstance(steps, types.IntegerLiteral) or not 0 <= steps.literal_value <= 3:
        raise TypingError(f"simd.{where}: steps must be a literal integer in 0..3, got {steps}")
    return steps.literal_value


def _estimate(context, builder, vec, name, x):
    """The processor's 14-bit estimate, or None where it has none."""
    size = vec.n * vec.scalar.bitwidth
    if not has_avx512(context) or size != 512:
        return None
    p, lanes = ("s", 16) if vec.scalar == types.float32 else ("d", 8)
    mask = ir.Constant(ir.IntType(lanes), -1)
    return call(builder, f"llvm.x86.avx512.{name}14.p{p}.512", vec.llvm, [x, ir.Constant(vec.llvm, ir.Undefined), mask])


def _constant(vec, x):
    return ir.Constant(vec.llvm, [x] * vec.n)


@intrinsic(prefer_literal=True)
def rcp_fast(typingctx, x, steps):
    """1/x by an estimate of 14 bits and `steps` Newton steps, each of which doubles the bits.

    Exact division where the processor has no such estimate for this width. Not for 0, infinities or subnormals.
    """
    vec, n = vector_of(x, "rcp_fast", "float"), _literal_steps(steps, "rcp_fast")

    def codegen(context, builder, sig, args):
        x = args[0]
        y = _estimate(context, builder, vec, "rcp", x)
        if y is None:
            return builder.fdiv(_constant(vec, 1.0), x, flags=FLAGS)
        for _ in range(n):
            e = call(builder, f"llvm.fma.{vec.suffix}", vec.llvm, [builder.fneg(x), y, _constant(vec, 1.0)])
            y = call(builder, f"llvm.fma.{vec.suffix}", vec.llvm, [y, e, y])
        return y

    return vec(vec, steps), codegen


@intrinsic(prefer_literal=True)
def rsqrt_fast(typingctx, x, steps):
    """1/sqrt(x) by an estimate of 14 bits and `steps` Newton steps, each of which doubles the bits.

    `vecmath`'s rsqrt (1 ulp) where the processor has no such estimate for this width. Not for 0, infinities or
    subnormals.
    """
    vec, n = vector_of(x, "rsqrt_fast", "float"), _literal_steps(steps, "rsqrt_fast")

    def codegen(context, builder, sig, args):
        x = args[0]
        y = _estimate(context, builder, vec, "rsqrt", x)
        if y is None:
            return call(builder, link_vecmath(context, "rsqrt", f"f{vec.scalar.bitwidth}", vec.n), vec.llvm, args)
        for _ in range(n):
            xy = builder.fneg(builder.fmul(x, y))
            e = call(builder, f"llvm.fma.{vec.suffix}", vec.llvm, [xy, y, _constant(vec, 1.0)])
            half = builder.fmul(y, _constant(vec, 0.5))
            y = call(builder, f"llvm.fma.{vec.suffix}", vec.llvm, [half, e, y])
        return y

    return vec(vec, steps), codegen


def _vecmath(name, arity):
    """Over vectors, and over float32 and float64 numbers: then LLVM's loop vectorizer makes vectors of them."""

    def signature(*args):
        if any(isinstance(a, Vec) for a in args):
            return vector_of(common(name, *args), name, "float")
        numbers = [types.unliteral(a) for a in args]
        if not all(n in (types.float32, types.float64) and n == numbers[0] for n in numbers):
            raise TypingError(
                f"simd.{name}: arguments must be float vectors or floats, got {', '.join(map(str, args))}"
            )
        return numbers[0]

    def lower(context, builder, sig, args):
        t = sig.return_type
        scalar, width = (t.scalar, t.n) if isinstance(t, Vec) else (t, 1)
        return call(builder, link_vecmath(context, name, f"f{scalar.bitwidth}", width), args[0].type, args)

    def unary(typingctx, x):
        t = signature(x)
        return t(t), lower

    def binary(typingctx, x, y):
        t = signature(x, y)
        return t(t, t), lower

    function = unary if arity == 1 else binary
    function.__name__, function.__doc__ = name, f"{name} of numbers or of each lane; errors in `vecmath.names()`."
    return intrinsic(function)


for _name, _row in vecmath.names().items():
    globals()[_name] = _vecmath(_name, _row.arity)
