"""Elementwise functions that look at how a number is written: rounding, signs, bits, NaN and infinity."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import kind_of
from ..tensor import Tensor, implements
from .complex import join_parts
from .define import ONE, as_value, elementwise, refuse_out, ufunc_loop
from .elementwise import CHOICE
from .kinks import remember

__all__: list[str] = []

ANY = (-3.0, 3.0)

# -- rounding: constant between its steps, hence without derivative
# ---------------------------------------------------------

floor = elementwise("floor", np.floor, emit="floor", domain=(ANY,))
ceil = elementwise("ceil", np.ceil, emit="ceil", domain=(ANY,))
trunc = elementwise("trunc", np.trunc, emit="trunc", domain=(ANY,))
rint = elementwise("rint", np.rint, emit="rint", domain=(ANY,))
implements(np.fix)(trunc)


@implements(np.round, np.around, method="round")
def round(a, decimals=0, out=None):
    """``numpy.round``: halves to even; its derivative is zero."""
    refuse_out("round", out)
    a = as_value(a)
    dtype = np.result_type(a)
    if dtype.kind == "b":
        return a.astype(np.float16)
    if dtype.kind in "iu":
        if decimals >= 0:
            return +a
        unit = 10**-decimals
        return (np.rint(a / unit) * unit).astype(dtype)
    if decimals == 0:
        return np.rint(a)
    return (
        np.rint(a * 10.0**decimals) / 10.0**decimals if decimals > 0 else np.rint(a / 10.0**-decimals) * 10.0**-decimals
    )


# -- signs -------------------------------------------------------------------------------------------------------------


def _direction(out, x):
    """The sign; for complex x, conj(x)/|x|: the gradient of the modulus. Zero at zero."""
    if np.result_type(x).kind != "c":
        return np.sign(x)
    return np.conjugate(x) / np.where(np.equal(out, 0), 1, out)


absolute = elementwise(
    "absolute", np.absolute, d=(_direction,), emit="abs", domain=(ANY,), operators=("__abs__",), after=remember
)
fabs = elementwise("fabs", np.fabs, d=(lambda out, x: np.sign(x),), emit="fabs", domain=(ANY,), after=remember)
_real_sign = elementwise("sign", impl=np.sign, loop=ufunc_loop(np.sign), emit="sign", domain=(ANY,))


@implements(np.sign)
def sign(x):
    """``numpy.sign``; for complex numbers x/|x|, NaN where both parts are infinite."""
    x = as_value(x)
    if np.result_type(x).kind != "c":
        return _real_sign(x)
    size, parts = np.abs(x), (np.real(x), np.imag(x))
    none, infinite = np.equal(size, 0), [np.isinf(p) for p in parts]
    below = np.where(infinite[0] & infinite[1], np.nan, np.where(none | infinite[0] | infinite[1], 1, size))
    above = [
        np.where(i, np.copysign(1, p), np.where(j | none, 0, p))
        for p, i, j in zip(parts, infinite, infinite[::-1], strict=True)
    ]
    return join_parts(*[(a / below).astype(p.dtype) for a, p in zip(above, parts, strict=True)])


copysign = elementwise(
    "copysign",
    np.copysign,
    d=(lambda out, x, y: np.copysign(1.0, x) * np.copysign(1.0, y), None),
    emit="copysign",
    domain=(ANY, ANY),
)
heaviside = elementwise(
    "heaviside",
    np.heaviside,
    d=(None, lambda out, x, y: np.where(np.equal(x, 0), 1.0, 0.0)),
    domain=(ANY, ANY),
    emit=lambda b, x, y: b.select(
        b.cmp(">", x, b.const_like(0, x)),
        b.const_like(1, x),
        b.select(
            b.cmp("==", x, b.const_like(0, x)), y, b.select(b.cmp("<", x, b.const_like(0, x)), b.const_like(0, x), x)
        ),
    ),
)
signbit = elementwise("signbit", np.signbit, emit="signbit", domain=(ANY,))

# -- NaN and infinity --------------------------------------------------------------------------------------------------

isnan = elementwise("isnan", np.isnan, emit="isnan", domain=(ANY,))
isinf = elementwise("isinf", np.isinf, emit="isinf", domain=(ANY,))
isfinite = elementwise("isfinite", np.isfinite, emit="isfinite", domain=(ANY,))
fmax = elementwise("fmax", np.fmax, d=CHOICE, emit="fmax", domain=(ANY, ANY))
fmin = elementwise("fmin", np.fmin, d=CHOICE, emit="fmin", domain=(ANY, ANY))


@implements(np.isposinf)
def isposinf(x, out=None):
    """``numpy.isposinf``."""
    return np.isinf(x) & ~np.signbit(x)


@implements(np.isneginf)
def isneginf(x, out=None):
    """``numpy.isneginf``."""
    return np.isinf(x) & np.signbit(x)


@implements(np.nan_to_num, view=True)
def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    """``numpy.nan_to_num``; what was replaced has derivative zero."""
    x = as_value(x)
    if not copy and isinstance(x, Tensor):
        x[...] = nan_to_num(x, True, nan, posinf, neginf)
        return x
    dtype = np.result_type(x)
    if dtype.kind == "c":
        parts = [nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in (np.real(x), np.imag(x))]
        return join_parts(*parts)
    if dtype.kind != "f":
        return np.copy(x)
    info = np.finfo(dtype)
    big, small = info.max if posinf is None else posinf, info.min if neginf is None else neginf
    found = np.where(np.isnan(x), nan, np.where(np.equal(x, math.inf), big, np.where(np.equal(x, -math.inf), small, x)))
    return found.astype(dtype)


# -- the number line as it is stored
# ------------------------------------------------------------------------------------------

nextafter = elementwise("nextafter", np.nextafter, d=(ONE, None), emit="nextafter", domain=(ANY, ANY))
spacing = elementwise("spacing", np.spacing, emit="spacing", domain=(ANY,))
ldexp = elementwise("ldexp", np.ldexp, d=(lambda out, x, n: np.ldexp(1.0, n), None), emit="ldexp")
_exponent = elementwise(
    "frexp_exponent",
    impl=lambda x: np.frexp(x)[1],
    loop=lambda x: (ufunc_loop(np.spacing)(x)[0], np.dtype(np.int32)),
    emit="frexp_exponent",
    domain=((0.3, 9.0),),
)


@implements(np.frexp)
def frexp(x):
    """``numpy.frexp``: mantissa and exponent."""
    x = as_value(x)
    exponent = _exponent(x)
    return np.ldexp(x, -exponent), exponent


@implements(np.modf)
def modf(x):
    """``numpy.modf``: fractional and whole part, both with the sign of `x`."""
    x = as_value(x)
    if kind_of(np.result_type(x)) != "f":
        x = x.astype(np.modf(np.empty(0, np.result_type(x)))[0].dtype)
    whole = np.trunc(x)
    return np.copysign(np.where(np.isinf(x), 0, x - np.where(np.isinf(x), 0, whole)), x), whole


# -- integers ----------------------------------------------------------------------------------------------------------

left_shift = elementwise(
    "left_shift", np.left_shift, emit="shift_left", operators=("__lshift__", "__rlshift__", "__ilshift__")
)
right_shift = elementwise(
    "right_shift", np.right_shift, emit="shift_right", operators=("__rshift__", "__rrshift__", "__irshift__")
)
gcd = elementwise("gcd", np.gcd, emit="gcd", flops=40)
lcm = elementwise("lcm", np.lcm, emit="lcm", flops=40)
bitwise_count = elementwise("bitwise_count", np.bitwise_count, emit="bitwise_count")

ldexp.primitive.samples = lambda rng: [((rng.normal(size=(2, 3)), rng.integers(-3, 4, 3)), {})]
for _f in (left_shift, right_shift, gcd, lcm):
    _f.primitive.samples = lambda rng: [((rng.integers(0, 9, (2, 3)), rng.integers(0, 9, 3)), {})]
bitwise_count.primitive.samples = lambda rng: [((rng.integers(-9, 9, (2, 3)),), {})]
