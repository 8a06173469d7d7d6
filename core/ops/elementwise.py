"""Elementwise arithmetic, comparisons and logic: one definition each, derivative and emission included."""

from __future__ import annotations

import operator

import numpy as np

from ..dtypes import kind_of
from ..graph.graph import Spec, spec_of
from ..graph.primitive import Primitive
from ..graph.trace import bind, is_spread
from ..tensor import implements
from ..views import is_scalar
from .define import (
    MINUS_ONE,
    ONE,
    as_value,
    batch_elementwise,
    broadcast_shapes,
    elementwise,
    promoted,
    ufunc_loop,
)
from .kinks import made_by, remember, squared

__all__ = ["CHOICE", "add", "convert", "converted", "select", "square"]

# -- arithmetic: the implementations are Python's operators, so that Python numbers stay Python numbers -------------

ANY = (-3.0, 3.0)
add = elementwise(
    "add",
    np.add,
    impl=operator.add,
    d=(ONE, ONE),
    emit="add",
    domain=(ANY, ANY),
    keeps_weak=True,
    operators=("__add__", "__radd__", "__iadd__"),
)
subtract = elementwise(
    "subtract",
    np.subtract,
    impl=operator.sub,
    d=(ONE, MINUS_ONE),
    emit="sub",
    domain=(ANY, ANY),
    keeps_weak=True,
    operators=("__sub__", "__rsub__", "__isub__"),
)
multiply = elementwise(
    "multiply",
    np.multiply,
    impl=operator.mul,
    d=(lambda out, x, y: y, lambda out, x, y: x),
    emit="mul",
    domain=(ANY, ANY),
    keeps_weak=True,
    operators=("__mul__", "__rmul__", "__imul__"),
    before=lambda x, y: squared(x) if x is y else None,
)
divide = elementwise(
    "divide",
    np.divide,
    impl=operator.truediv,
    d=(lambda out, x, y: np.divide(1, y), lambda out, x, y: np.divide(-out, y)),
    emit="div",
    domain=(ANY, (0.5, 3.0)),
    keeps_weak=True,
    operators=("__truediv__", "__rtruediv__", "__itruediv__"),
)
negative = elementwise(
    "negative",
    np.negative,
    impl=operator.neg,
    d=(MINUS_ONE,),
    emit="neg",
    domain=(ANY,),
    keeps_weak=True,
    operators=("__neg__",),
    after=remember,
)
floor_divide = elementwise(
    "floor_divide",
    np.floor_divide,
    impl=operator.floordiv,
    emit="floordiv",
    domain=(ANY, (0.5, 3.0)),
    keeps_weak=True,
    operators=("__floordiv__", "__rfloordiv__", "__ifloordiv__"),
)
remainder = elementwise(
    "remainder",
    np.remainder,
    impl=operator.mod,
    d=(ONE, lambda out, x, y: -np.floor_divide(x, y)),
    emit="mod",
    domain=(ANY, (0.5, 3.0)),
    keeps_weak=True,
    operators=("__mod__", "__rmod__", "__imod__"),
)


fmod = elementwise(
    "fmod", np.fmod, d=(ONE, lambda out, x, y: -np.trunc(np.divide(x, y))), emit="fmod", domain=(ANY, (0.5, 3.0))
)


@implements(np.divmod, operators=("__divmod__", "__rdivmod__"))
def divmod(x, y):
    """``numpy.divmod``: quotient rounded down, and remainder."""
    return np.floor_divide(x, y), np.remainder(x, y)


def _power_dx(out, x, y):
    # at y == 0 the factor is 0 whatever x**(y - 1) is
    return np.where(np.equal(y, 0), 0.0, y * np.power(x, np.where(np.equal(y, 0), 1.0, y) - 1))


def _power_dy(out, x, y):
    # 0 ** y is constant for y > 0: its logarithm must not be seen
    return out * np.log(np.where(np.equal(x, 0) & np.greater_equal(np.real(y), 0), 1.0, x))


_power = elementwise(
    "power", np.power, impl=np.power, d=(_power_dx, _power_dy), emit="pow", domain=((0.3, 3.0), ANY), keeps_weak=True
)

float_power = elementwise(
    "float_power", np.float_power, d=(_power_dx, _power_dy), emit="float_power", domain=((0.3, 3.0), ANY)
)
integer_power = Primitive(
    "integer_power",
    lambda x, *, exponent: x**exponent,
    lambda x, *, exponent: Spec(x.shape, x.dtype, x.weak),
    kind="elementwise",
    emit=lambda b, x, *, exponent: b.integer_power(x, exponent),
    samples=lambda rng: [((rng.uniform(0.5, 2, (2, 3)),), {"exponent": n}) for n in (-2, 0, 2, 3)],
)
integer_power.loop = lambda x, **_: (x.dtype, x.dtype)
integer_power.defvjp(lambda ct, out, x, *, exponent: ct * _integer_power_d(x, exponent))
integer_power.defjvp(lambda t, out, x, *, exponent: t * _integer_power_d(x, exponent))
integer_power.defbatch(lambda args, axes, size, **params: batch_elementwise(integer_power, args, axes, params))


def _integer_power_d(x, n):
    if n == 2:
        return 2 * x
    return n * x ** (n - 1) if n else 0 * x


@implements(operators=("__pow__", "__rpow__", "__ipow__"))
def power_operator(x, y):
    """``x ** y``; a fixed integer exponent is repeated multiplication."""
    if type(y) in (int, float) and y > 0 and y % 2 == 0 and (square := squared(x)) is not None:
        return square if y == 2 else power_operator(square, int(y) // 2)
    if type(y) is int and spec_of(x).dtype.kind == "b":  # NumPy takes the integers for it, and a square of its own
        return np.square(x) if y == 2 and not is_scalar(x) else _power(x, y)
    if type(y) is int and -64 <= y <= 64 and (y >= 0 or kind_of(spec_of(x).dtype) in "fc"):
        return bind(integer_power, as_value(x), exponent=y) if y != 1 else +x
    return _power(x, y)


power = _power


_positive_loop = ufunc_loop(np.positive)


@implements(np.positive, operators=("__pos__",))
def positive(x):
    """Elementwise plus: the value itself."""
    _positive_loop(x.spec)  # refuses booleans, as NumPy
    return x._handle()


square = elementwise(
    "square", np.square, d=(lambda out, x: 2 * x,), emit=lambda b, x: b.mul(x, x), domain=(ANY,), before=squared
)
reciprocal = elementwise(
    "reciprocal",
    np.reciprocal,
    d=(lambda out, x: -out * out,),
    emit=lambda b, x: b.complex_reciprocal(x) if x.parts else b.div(b.const_like(1, x), x),
    domain=((0.5, 3.0),),
)

# -- order ------------------------------------------------------------------------------------------------------------


def _share(out, mine, other):
    """1 where `mine` was chosen, 1/2 at ties (as JAX)."""
    half, one, zero = map(np.result_type(out).type, (0.5, 1, 0))  # of the result's type: so is the product
    return np.where(mine == other, half, np.where(out == mine, one, zero))


CHOICE = (lambda out, x, y: _share(out, x, y), lambda out, x, y: _share(out, y, x))


def _modulus(x, y):
    """``abs(x)`` for ``maximum(x, -x)``."""
    made = made_by(y, "negative")
    return np.abs(x) if made is not None and made[0] is x else None


maximum = elementwise("maximum", np.maximum, d=CHOICE, emit="max", domain=(ANY, ANY), before=_modulus)
minimum = elementwise("minimum", np.minimum, d=CHOICE, emit="min", domain=(ANY, ANY))

equal = elementwise("equal", np.equal, emit=lambda b, x, y: b.cmp("==", x, y), domain=(ANY, ANY), operators=("__eq__",))
not_equal = elementwise(
    "not_equal", np.not_equal, emit=lambda b, x, y: b.cmp("!=", x, y), domain=(ANY, ANY), operators=("__ne__",)
)
less = elementwise("less", np.less, emit=lambda b, x, y: b.cmp("<", x, y), domain=(ANY, ANY), operators=("__lt__",))
less_equal = elementwise(
    "less_equal", np.less_equal, emit=lambda b, x, y: b.cmp("<=", x, y), domain=(ANY, ANY), operators=("__le__",)
)
greater = elementwise(
    "greater", np.greater, emit=lambda b, x, y: b.cmp(">", x, y), domain=(ANY, ANY), operators=("__gt__",)
)
greater_equal = elementwise(
    "greater_equal", np.greater_equal, emit=lambda b, x, y: b.cmp(">=", x, y), domain=(ANY, ANY), operators=("__ge__",)
)

# -- logic and bits ----------------------------------------------------------------------------------------------------

logical_and = elementwise("logical_and", np.logical_and, emit="logical_and", domain=(ANY, ANY))
logical_or = elementwise("logical_or", np.logical_or, emit="logical_or", domain=(ANY, ANY))
logical_xor = elementwise("logical_xor", np.logical_xor, emit="logical_xor", domain=(ANY, ANY))
logical_not = elementwise("logical_not", np.logical_not, emit="logical_not", domain=(ANY,))
bitwise_and = elementwise("bitwise_and", np.bitwise_and, emit="and_", operators=("__and__", "__rand__", "__iand__"))
bitwise_or = elementwise("bitwise_or", np.bitwise_or, emit="or_", operators=("__or__", "__ror__", "__ior__"))
bitwise_xor = elementwise("bitwise_xor", np.bitwise_xor, emit="xor", operators=("__xor__", "__rxor__", "__ixor__"))
invert = elementwise("invert", np.invert, emit="invert", operators=("__invert__",))
for _f in (bitwise_and, bitwise_or, bitwise_xor):
    _f.primitive.samples = lambda rng: [
        ((rng.integers(-9, 9, (2, 3)), rng.integers(-9, 9, 3)), {}),
        ((np.array([True, False]), np.array([True, True])), {}),
    ]
invert.primitive.samples = lambda rng: [((rng.integers(-9, 9, (2, 3)),), {}), ((np.array([True, False]),), {})]

# -- choice and conversion
# ------------------------------------------------------------------------------------------------


def _select_loop(c, x, y):
    dtype = promoted(x, y)
    return np.dtype(bool), dtype, dtype


def _select_spec(c, x, y):
    return Spec(broadcast_shapes("where", c.shape, x.shape, y.shape), _select_loop(c, x, y)[-1])


select = Primitive(
    "select",
    np.where,
    _select_spec,
    kind="elementwise",
    emit=lambda b, c, x, y: b.select(c, x, y),
    samples=lambda rng: [((rng.random((2, 3)) > 0.5, rng.normal(size=(2, 3)), rng.normal(size=3)), {})],
)
select.loop = _select_loop
select.defvjp(
    None, lambda ct, out, c, x, y: bind(select, c, ct, 0.0), lambda ct, out, c, x, y: bind(select, c, 0.0, ct)
)
select.defjvp(None, lambda t, out, c, x, y: bind(select, c, t, 0.0), lambda t, out, c, x, y: bind(select, c, 0.0, t))
select.defbatch(lambda args, axes, size, **params: batch_elementwise(select, args, axes, params))


@implements(np.where, array=True)
def where(condition, x=None, y=None, /):
    """``numpy.where``. The cotangent of the branch not taken is zero, never NaN."""
    if x is None or y is None:
        if x is not None or y is not None:
            raise ValueError("either both or neither of x and y should be given")
        return np.nonzero(condition)
    return bind(select, as_value(condition), as_value(x), as_value(y))


def _convert(x, *, dtype):
    return np.asarray(x).astype(dtype)[()]


convert = Primitive(
    "convert",
    _convert,
    lambda x, *, dtype: Spec(x.shape, dtype),
    kind="elementwise",
    flops=0,
    emit=lambda b, x, *, dtype: b.cast(x, dtype),
    samples=lambda rng: [((rng.normal(size=(2, 3)),), {"dtype": np.dtype(t)}) for t in ("float32", "float64")],
)
convert.loop = lambda x, *, dtype: (x.dtype, np.dtype(dtype))
convert.defvjp(lambda ct, out, x, *, dtype: ct)  # matched to x's dtype by the transform, as for all elementwise ones
convert.defjvp(lambda t, out, x, *, dtype: bind(convert, t, dtype=dtype))
convert.defbatch(lambda args, axes, size, **params: batch_elementwise(convert, args, axes, params))


@implements(np.clip, method="clip")
def clip(a, a_min=None, a_max=None, out=None, *, min=None, max=None, **kwargs):
    """``numpy.clip``; a bound may be None."""
    low, high = a_min if min is None else min, a_max if max is None else max
    dtype = np.result_type(a)
    if dtype.kind in "iu":  # as NumPy: a Python integer beyond the dtype does not bound anything
        low = None if type(low) is int and low < np.iinfo(dtype).min else low
        high = None if type(high) is int and high > np.iinfo(dtype).max else high
    if low is not None:
        a = np.maximum(a, low)
    if high is not None:
        a = np.minimum(a, high)
    if out is not None:
        return out._become(a)
    return a if low is not None or high is not None else np.positive(a)


@implements(np.isclose)
def isclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """``numpy.isclose``."""
    a, b = as_value(a), as_value(b) * 1.0  # floating point, as in NumPy: differences of integers would wrap
    near = np.less_equal(np.abs(a - b), atol + rtol * np.abs(b)) & np.isfinite(b) | np.equal(a, b)
    return near | (np.isnan(a) & np.isnan(b)) if equal_nan else near


@implements(np.allclose)
def allclose(a, b, rtol=1e-5, atol=1e-8, equal_nan=False):
    """``numpy.allclose``."""
    return np.all(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1, a2, equal_nan=False):
    """``numpy.array_equal``."""
    if np.shape(a1) != np.shape(a2):
        return False
    same = np.equal(a1, a2)
    return np.all(same | (np.isnan(a1) & np.isnan(a2)) if equal_nan else same)


@implements(np.array_equiv)
def array_equiv(a1, a2):
    """``numpy.array_equiv``: equal after broadcasting."""
    try:
        np.broadcast_shapes(np.shape(a1), np.shape(a2))
    except ValueError:
        return False
    return np.all(np.equal(a1, a2))


@implements(np.astype, method="astype", view=True)
def astype(x, dtype, order="K", casting="unsafe", subok=True, copy=True, device=None):
    """``ndarray.astype``. Complex to real drops the imaginary part, as NumPy does (with its warning in eager code)."""
    dtype = np.dtype(dtype)
    if not np.can_cast(x.dtype, dtype, casting):
        raise TypeError(f"Cannot cast array data from {x.dtype!r} to {dtype!r} according to the rule {casting!r}")
    if x.dtype == dtype and not x.spec.weak:
        return x._handle() if copy else x
    if x.dtype.kind == "c" and kind_of(dtype) in "fiu":
        x = np.real(x)
    return converted(x, dtype, order)


def converted(x, dtype, order):
    """A copy of an array in another dtype."""
    out = bind(convert, x, dtype=dtype)
    if order in "KA" and is_spread(x):
        out._trace.unordered.add(out.value)
    return out
