"""The vector type, its conversions from numbers, and its operators."""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, lower_cast, models, register_model

from ..native import checked

__all__ = [
    "FLAGS",
    "I32",
    "I64",
    "LLVM",
    "Vec",
    "alignment",
    "call",
    "check_lanes",
    "common",
    "dtype_of",
    "element_of",
    "pointer",
    "splat_value",
    "start",
    "vector_of",
    "width_of",
]

I32, I64 = ir.IntType(32), ir.IntType(64)
LLVM: dict[Any, Any] = {
    types.float32: ir.FloatType(),
    types.float64: ir.DoubleType(),
    types.boolean: ir.IntType(1),
    **{getattr(types, f"{sign}int{bits}"): ir.IntType(bits) for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
# As in njit.FASTMATH, less what lets LLVM replace a division by an estimate.
FLAGS = ("contract", "nsz")


class Vec(types.Type):
    """The Numba type of `n` lanes of `scalar`."""

    def __init__(self, scalar, n):
        if scalar not in LLVM:
            raise TypingError(f"simd: lanes must be booleans, integers, float32 or float64, got {scalar}")
        self.scalar, self.n = scalar, n
        super().__init__(f"vec{n}<{scalar}>")

    @property
    def llvm(self):
        return ir.VectorType(LLVM[self.scalar], self.n)

    @property
    def mask(self):
        return Vec(types.boolean, self.n)

    @property
    def is_float(self):
        return isinstance(self.scalar, types.Float)

    @property
    def suffix(self):
        """As in intrinsics' names: v16f32."""
        t = "f" if self.is_float else "i"
        return f"v{self.n}{t}{getattr(self.scalar, 'bitwidth', 1)}"


@register_model(Vec)
class _VecModel(models.PrimitiveModel):
    def __init__(self, dmm, fe_type):
        super().__init__(dmm, fe_type, fe_type.llvm)


# ------------------------------------------------------------------------------------------------ checks and helpers
def width_of(n, where):
    """Return the value of a literal width, or raise TypingError."""
    if not isinstance(n, types.IntegerLiteral) or n.literal_value < 1:
        raise TypingError(f"simd.{where}: width must be a literal integer >= 1, got {n}")
    return n.literal_value


def vector_of(v, where, dtype="vector"):
    """Return `v` if it is a vector type of the wanted kind, or raise TypingError."""
    if (
        not isinstance(v, Vec)
        or (dtype == "float" and not v.is_float)
        or (dtype == "mask" and v.scalar != types.boolean)
    ):
        raise TypingError(f"simd.{where}: argument must be a {dtype}{' vector' if dtype != 'vector' else ''}, got {v}")
    return v


def dtype_of(dtype, where):
    """Return the Numba type of a dtype argument, or raise TypingError."""
    if isinstance(dtype, types.DTypeSpec | types.NumberClass):
        return dtype.dtype
    raise TypingError(f"simd.{where}: dtype must be a NumPy scalar type such as np.float32, got {dtype}")


def common(where, *vs):
    """Return the vector type of arguments, some of which may be scalars."""
    found = [v for v in vs if isinstance(v, Vec)]
    if not found or any(v != found[0] for v in found):
        raise TypingError(f"simd.{where}: vectors must have one dtype and width, got {', '.join(map(str, vs))}")
    if any(not isinstance(v, Vec | types.Number | types.Boolean) for v in vs):
        raise TypingError(f"simd.{where}: arguments must be vectors or numbers, got {', '.join(map(str, vs))}")
    return found[0]


def element_of(a, where):
    """Return the element type of an array or pointer that vectors can be loaded from, or raise TypingError."""
    if isinstance(a, types.CPointer):
        return a.dtype
    if not isinstance(a, types.Array) or a.layout not in "CF" or (a.layout == "F" and a.ndim > 1):
        raise TypingError(f"simd.{where}: array must be C-contiguous, got {a}")
    if a.dtype not in LLVM or a.dtype == types.boolean:
        raise TypingError(f"simd.{where}: array must hold integers or floats, got {a} (view a bool array as uint8)")
    return a.dtype


def pointer(context, builder, array_type, array, index, lanes=1, mask=None):
    """Pointer to `array[index]`, of which `lanes` elements are used, or those at which `mask` is set."""
    if isinstance(array_type, types.CPointer):
        return builder.gep(array, [index])
    made = context.make_array(array_type)(context, builder, array)
    if checked():
        for lane in (0, lanes - 1) if mask is None else range(lanes):
            inside = None if mask is None else builder.extract_element(mask, I32(lane))
            _check(context, builder, made, builder.add(index, index.type(lane)), inside)
    return builder.gep(made.data, [index])


def start(context, builder, array_type, array):
    """Pointer to the first element of an array, or the pointer that takes its place."""
    return (
        array
        if isinstance(array_type, types.CPointer)
        else context.make_array(array_type)(context, builder, array).data
    )


def check_lanes(context, builder, array_type, array, indices, n, mask=None):
    """Raise IndexError, in checked code, unless all `n` indices (those at which `mask` is set) lie in the
    array.
    """
    if not checked() or isinstance(array_type, types.CPointer):
        return
    made = context.make_array(array_type)(context, builder, array)
    for lane in range(n):
        index = builder.extract_element(indices, I32(lane))
        if index.type.width < 64:
            index = builder.sext(index, I64)
        _check(context, builder, made, index, None if mask is None else builder.extract_element(mask, I32(lane)))


def _check(context, builder, array, index, wanted):
    outside = builder.icmp_unsigned(">=", index, array.nitems)
    with builder.if_then(outside if wanted is None else builder.and_(outside, wanted), likely=False):
        context.call_conv.return_user_exc(builder, IndexError, ("simd: index is out of bounds",))


def alignment(vec):
    """Return the alignment in bytes of one lane."""
    return max(1, getattr(vec.scalar, "bitwidth", 8) // 8)


def splat_value(builder, x, n):
    """Emit a vector with the value `x` in each of its `n` lanes."""
    t = ir.VectorType(x.type, n)
    v = builder.insert_element(ir.Constant(t, ir.Undefined), x, ir.Constant(I32, 0))
    return builder.shuffle_vector(v, ir.Constant(t, ir.Undefined), ir.Constant(ir.VectorType(I32, n), [0] * n))


def call(builder, name, result, args, **kwargs):
    """Emit a call of the function `name`, and declare it where necessary."""
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, [a.type for a in args]), name)
    return builder.call(function, args, **kwargs)


@lower_cast(types.Number, Vec)
@lower_cast(types.Boolean, Vec)
def _broadcast(context, builder, fromty, toty, x):
    return splat_value(builder, context.cast(builder, x, fromty, toty.scalar), toty.n)


# ---------------------------------------------------------------------------------------------------------- operators
def _is_allowed(vec, domain):
    kind = "float" if vec.is_float else "mask" if vec.scalar == types.boolean else "integer"
    return kind in domain


def _operator(op, domain, result, lower):
    """Register `op` for (vector, vector), (vector, number) and (number, vector) of the dtypes in `domain`."""

    @infer_global(op)
    class Template(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) == 2 and any(isinstance(a, Vec) for a in args) and not kws:
                v = common(op.__name__, *args)
                if not _is_allowed(v, domain):
                    raise TypingError(f"simd.{op.__name__}: vectors must be of {' or '.join(domain)} lanes, got {v}")
                return signature(result(v), v, v)

    def implement(context, builder, sig, args):
        return lower(builder, sig.args[0], *args)

    lower_builtin(op, Vec, Vec)(implement)


def _arithmetic(float_op, signed_op, unsigned_op=None):
    def lower(builder, v, x, y):
        if v.is_float:
            return getattr(builder, float_op)(x, y, flags=FLAGS)
        return getattr(builder, signed_op if getattr(v.scalar, "signed", False) else unsigned_op or signed_op)(x, y)

    return lower


def _compare(symbol):
    def lower(builder, v, x, y):
        if v.is_float:
            return (builder.fcmp_unordered if symbol == "!=" else builder.fcmp_ordered)(symbol, x, y)
        signed = getattr(v.scalar, "signed", False)
        return (builder.icmp_signed if signed else builder.icmp_unsigned)(symbol, x, y)

    return lower


_NUMBERS, _BITS = ("float", "integer"), ("integer", "mask")
for _op, _domain, *_names in (
    (operator.add, _NUMBERS, "fadd", "add"),
    (operator.sub, _NUMBERS, "fsub", "sub"),
    (operator.mul, _NUMBERS, "fmul", "mul"),
    (operator.truediv, ("float",), "fdiv", None),
    (operator.and_, _BITS, None, "and_"),
    (operator.or_, _BITS, None, "or_"),
    (operator.xor, _BITS, None, "xor"),
    (operator.lshift, ("integer",), None, "shl"),
    (operator.rshift, ("integer",), None, "ashr", "lshr"),
):
    for _form in (_op, getattr(operator, "i" + _op.__name__.strip("_"))):
        _operator(_form, _domain, lambda v: v, _arithmetic(*_names))
for _op, _symbol in (
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
):
    _operator(_op, ("float", "integer", "mask"), lambda v: v.mask, _compare(_symbol))


def _unary(op, domain, lower):
    @infer_global(op)
    class Template(AbstractTemplate):
        def generic(self, args, kws):
            if len(args) == 1 and isinstance(args[0], Vec) and _is_allowed(args[0], domain) and not kws:
                return signature(args[0], args[0])

    lower_builtin(op, Vec)(lambda context, builder, sig, args: lower(builder, sig.args[0], *args))


_unary(operator.neg, _NUMBERS, lambda builder, v, x: builder.fneg(x) if v.is_float else builder.neg(x))
_unary(operator.invert, _BITS, lambda builder, v, x: builder.not_(x))
