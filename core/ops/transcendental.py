"""Elementwise functions of calculus: exponentials, logarithms, circles and hyperbolas, roots."""

from __future__ import annotations

import math

import numpy as np

from ..dtypes import kind_of
from ..graph.graph import spec_of
from ..tensor import implements
from .define import as_value, elementwise, promoted, scalar_or_array
from .kinks import remember

__all__: list[str] = []

ANY, POSITIVE, UNIT, BEYOND_ONE = (-2.0, 2.0), (0.3, 3.0), (-0.9, 0.9), (1.2, 3.0)

# rules divide by np.divide: a zero that is a Python float gives infinity there, not an exception
# -- exponentials and logarithms
# ------------------------------------------------------------------------------------------

exp = elementwise("exp", np.exp, d=(lambda out, x: out,), emit="exp", domain=(ANY,), flops=15)
exp2 = elementwise("exp2", np.exp2, d=(lambda out, x: out * math.log(2),), emit="exp2", domain=(ANY,), flops=15)
expm1 = elementwise("expm1", np.expm1, d=(lambda out, x: np.exp(x),), emit="expm1", domain=(ANY,), flops=20)
log = elementwise("log", np.log, d=(lambda out, x: np.divide(1, x),), emit="log", domain=(POSITIVE,), flops=20)
log2 = elementwise(
    "log2", np.log2, d=(lambda out, x: np.divide(1 / math.log(2), x),), emit="log2", domain=(POSITIVE,), flops=20
)
log10 = elementwise(
    "log10", np.log10, d=(lambda out, x: np.divide(1 / math.log(10), x),), emit="log10", domain=(POSITIVE,), flops=20
)
log1p = elementwise(
    "log1p", np.log1p, d=(lambda out, x: np.divide(1, 1 + x),), emit="log1p", domain=(POSITIVE,), flops=20
)


def _share(out, x, y):
    """``exp(x - out)``, the share of `x` in the sum. If both are infinite and equal: 0 at -inf, half at inf."""
    share = np.exp(np.where(np.equal(x, out), 0, x - np.where(np.equal(x, out), 0, out)))
    return np.where(np.equal(out, -math.inf), 0, np.where(np.equal(x, y) & np.isinf(out), 0.5, share))


logaddexp = elementwise(
    "logaddexp",
    np.logaddexp,
    d=(lambda out, x, y: _share(out, x, y), lambda out, x, y: _share(out, y, x)),
    emit="logaddexp",
    domain=(ANY, ANY),
    flops=40,
)
logaddexp2 = elementwise(
    "logaddexp2",
    np.logaddexp2,
    d=(
        lambda out, x, y: _share(*[a * math.log(2) for a in (out, x, y)]),
        lambda out, x, y: _share(*[a * math.log(2) for a in (out, y, x)]),
    ),
    emit="logaddexp2",
    domain=(ANY, ANY),
    flops=40,
)

# -- roots -------------------------------------------------------------------------------------------------------------

sqrt = elementwise("sqrt", np.sqrt, d=(lambda out, x: 0.5 / out,), emit="sqrt", domain=(POSITIVE,))
cbrt = elementwise("cbrt", np.cbrt, d=(lambda out, x: 1 / (3 * out * out),), emit="cbrt", domain=(POSITIVE,), flops=20)


def _nonzero(x):
    return np.where(np.equal(x, 0), 1, x)


# at the origin, where the slope depends on the direction, it is taken as 0: its mean
hypot = elementwise(
    "hypot",
    np.hypot,
    d=(lambda out, x, y: x / _nonzero(out), lambda out, x, y: y / _nonzero(out)),
    emit="hypot",
    domain=(POSITIVE, POSITIVE),
    flops=8,
    after=remember,
)

# -- circles -----------------------------------------------------------------------------------------------------------

sin = elementwise("sin", np.sin, d=(lambda out, x: np.cos(x),), emit="sin", domain=(ANY,), flops=15)
cos = elementwise("cos", np.cos, d=(lambda out, x: -np.sin(x),), emit="cos", domain=(ANY,), flops=15)
tan = elementwise("tan", np.tan, d=(lambda out, x: 1 + out * out,), emit="tan", domain=((-1.2, 1.2),), flops=25)
arcsin = elementwise(
    "arcsin", np.arcsin, d=(lambda out, x: 1 / np.sqrt(1 - x * x),), emit="asin", domain=(UNIT,), flops=25
)
arccos = elementwise(
    "arccos", np.arccos, d=(lambda out, x: -1 / np.sqrt(1 - x * x),), emit="acos", domain=(UNIT,), flops=25
)
arctan = elementwise("arctan", np.arctan, d=(lambda out, x: 1 / (1 + x * x),), emit="atan", domain=(ANY,), flops=25)
arctan2 = elementwise(
    "arctan2",
    np.arctan2,
    d=(lambda out, y, x: x / _nonzero(x * x + y * y), lambda out, y, x: y / -_nonzero(x * x + y * y)),
    emit="atan2",
    domain=(ANY, POSITIVE),
    flops=30,
)
deg2rad = elementwise(
    "deg2rad",
    np.deg2rad,
    d=(lambda out, x: math.pi / 180,),
    emit=lambda b, x: b.mul(x, b.const_like(math.pi / 180, x)),
    domain=(ANY,),
    also=(np.radians,),
)
rad2deg = elementwise(
    "rad2deg",
    np.rad2deg,
    d=(lambda out, x: 180 / math.pi,),
    emit=lambda b, x: b.mul(x, b.const_like(180 / math.pi, x)),
    domain=(ANY,),
    also=(np.degrees,),
)

# -- hyperbolas --------------------------------------------------------------------------------------------------------

sinh = elementwise("sinh", np.sinh, d=(lambda out, x: np.cosh(x),), emit="sinh", domain=(ANY,), flops=20)
cosh = elementwise("cosh", np.cosh, d=(lambda out, x: np.sinh(x),), emit="cosh", domain=(ANY,), flops=20)
tanh = elementwise("tanh", np.tanh, d=(lambda out, x: 1 - out * out,), emit="tanh", domain=(ANY,), flops=20)
arcsinh = elementwise(
    "arcsinh", np.arcsinh, d=(lambda out, x: 1 / np.sqrt(x * x + 1),), emit="asinh", domain=(ANY,), flops=25
)
arccosh = elementwise(
    "arccosh",
    np.arccosh,
    d=(lambda out, x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)),),
    emit="acosh",
    domain=(BEYOND_ONE,),
    flops=25,
)
arctanh = elementwise(
    "arctanh", np.arctanh, d=(lambda out, x: np.divide(1, 1 - x * x),), emit="atanh", domain=(UNIT,), flops=25
)


@implements(np.sinc)
def sinc(x):
    """``numpy.sinc``, sin(pi x) / (pi x): near 0 by its series, so that derivatives of every order are right."""
    u = math.pi * as_value(x)
    if kind_of(np.result_type(u)) not in "fc":
        u = u.astype(float)
    near = np.less(np.abs(u), 0.5)
    v = np.where(near, u * u, 0)
    series = 1.0
    for k in range(9, 0, -1):  # 1 - v/(2 3) (1 - v/(4 5) (1 - ...)): the first term left out is below 1e-22
        series = 1 - v / ((2 * k) * (2 * k + 1)) * series
    far = np.where(near, 1, u)
    return scalar_or_array(np.where(near, series, np.sin(far) / far))


@implements(np.i0, array=True)
def i0(x):
    """``numpy.i0``: the modified Bessel function of order 0."""
    import scipy.special

    x = as_value(x)
    if np.result_type(x).kind == "c":
        raise TypeError("i0 not supported for complex values")
    dtype = np.result_type(x) if kind_of(np.result_type(x)) == "f" else np.dtype(float)
    return scipy.special.i0(x.astype(dtype)).astype(dtype)


@implements(np.unwrap)
def unwrap(p, discont=None, axis=-1, *, period=2 * math.pi):
    """``numpy.unwrap``; the whole periods added are constants to derivatives."""
    step = np.diff(p, axis=axis)
    discont = period / 2 if discont is None else discont
    dtype = promoted(spec_of(step), spec_of(period))
    whole = dtype.kind in "iu"
    high = period // 2 if whole else period / 2
    wrapped = np.mod(step + high, period) - high
    if not whole or period % 2 == 0:
        wrapped = np.where(np.equal(wrapped, -high) & np.greater(step, 0), high, wrapped)
    correction = wrapped - step if whole else np.round((wrapped - step) / period) * period
    correction = np.where(np.less(np.abs(step), discont), 0, correction)
    head = np.zeros_like(np.take(p, np.arange(1), axis=axis))
    out = p + np.concatenate([head, np.cumsum(correction, axis=axis)], axis=axis)
    return out.astype(dtype) if whole else out
