"""log and what is made of it: log2, log10, log1p, logaddexp, asinh, acosh, atanh."""

from __future__ import annotations

from .builder import Builder, Value
from .exponential import EXP_RANGE, LN2, exp_of_sum
from .registry import function

__all__ = ["split_exponent", "split_exponent_subnormal"]

# (log(1+f) - f + f^2/2)/f^3 for sqrt(1/2) <= 1+f < sqrt(2). Remez exchange, relative error of log(1+f) 5.9e-9.
_LOG_F32 = (
    0.3333333134651184,
    -0.250008225440979,
    0.2000124305486679,
    -0.16623321175575256,
    0.14201487600803375,
    -0.13160283863544464,
    0.12763138115406036,
    -0.07635921984910965,
)
# log(1+f) = 2s + s R(s^2), s = f/(2+f): coefficients of fdlibm's e_log.c, error below 2^-58.45.
_LOG_F64 = (
    6.666666666666735130e-01,
    3.999999999940941908e-01,
    2.857142874366239149e-01,
    2.222219843214978396e-01,
    1.818357216161805012e-01,
    1.531383769920937332e-01,
    1.479819860511658591e-01,
)
_SQRT_HALF_BITS = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}


def split_exponent(b: Builder, x) -> tuple[Value, Value]:
    """x = 2^k m with sqrt(1/2) <= m < sqrt(2), for normal positive x.

    k is a float: AVX2 converts no 64-bit integers.
    """
    offset = _SQRT_HALF_BITS[b.dtype]
    t = b.bits_of(x) + (b.int_constant(1.0) - offset)
    unit = 2.0**b.mantissa
    k = b.float_of((t >> b.mantissa) | b.int_constant(unit)) - (unit + b.bias)
    m = b.float_of((t & ((1 << b.mantissa) - 1)) + offset)
    return k, m


def split_exponent_subnormal(b: Builder, x) -> tuple[Value, Value]:
    """`split_exponent` for every positive x."""
    tiny = x < 2.0 ** (1 - b.bias)
    k, m = split_exponent(b, b.select(tiny, x * 2.0 ** (b.mantissa + 2), x))
    return b.select(tiny, k - (b.mantissa + 2.0), k), m


def log1p_tail(b: Builder, f) -> Value:
    """log(1+f) - f for sqrt(1/2) <= 1+f < sqrt(2)."""
    if not b.is64:
        return f * f * b.mad(f, b.horner(f, _LOG_F32), -0.5)
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    return b.mad(s, b.mad(z, b.horner(z, _LOG_F64), half_square), -half_square)


def _poles(b: Builder, x, y) -> Value:
    """The logarithm y of x, with log(0) = -inf, log(negative) = NaN, log(inf) = inf, log(NaN) = NaN."""
    y = b.select(x < float("inf"), y, x)
    return b.select(x > 0.0, y, b.select(x.eq(0.0), -float("inf"), b.select(x < 0.0, float("nan"), x)))


def _sum(b: Builder, k, f, tail) -> Value:
    hi, lo = LN2[b.dtype]
    return b.mad(k, hi, f + b.mad(k, lo, tail))


@function("log", f32=1.0, f64=1.0)
def log(b: Builder, x):
    k, m = split_exponent_subnormal(b, x)
    f = m - 1.0
    return _poles(b, x, _sum(b, k, f, log1p_tail(b, f)))


def _log_base(b: Builder, x, scale, unit) -> Value:
    """log(x)*scale, k*unit being log(2^k); scale and unit are given in two parts."""
    k, m = split_exponent_subnormal(b, x)
    f = m - 1.0
    tail = b.mad(log1p_tail(b, f), scale[0], b.mad(f, scale[1], k * unit[1] if unit[1] else 0.0))
    y = b.mad(k, unit[0], 0.0) if unit[0] != 1.0 else k
    # f*scale is split so that its rounding does not count: x near 1 has nothing else in the sum.
    hi, lo = b.two_prod(f, scale[0])
    y, rest = b.two_sum(y, hi)
    return _poles(b, x, y + (rest + (lo + tail)))


# 1/ln 2 and 1/ln 10 in two parts; log10(2) with a first part short enough for exact multiples.
_LOG2E = {"f32": (1.4426950216293335, 1.9259629911266175e-08), "f64": (1.4426950408889634, 2.0355273740931033e-17)}
_LOG10E = {"f32": (0.4342944920063019, -1.0103050052231683e-08), "f64": (0.4342944819032518, 1.098319650216765e-17)}
_LOG10_2 = {
    "f32": (0.30102920532226562, 7.903417155702138e-07),
    "f64": (3.01029995663611771306e-01, 3.694239077158931e-13),
}


@function("log2", f32=1.5, f64=1.5)
def log2(b: Builder, x):
    return _log_base(b, x, _LOG2E[b.dtype], (1.0, 0.0))


@function("log10", f32=1.5, f64=1.5)
def log10(b: Builder, x):
    return _log_base(b, x, _LOG10E[b.dtype], _LOG10_2[b.dtype])


def _log1p(b: Builder, x) -> Value:
    """log(1 + x) for -1 < x < inf."""
    u, lo = b.two_sum(b.value(1.0), x)
    k, m = split_exponent(b, u)
    # 2^(1-k), zero at the far end, where lo no longer counts
    scale = b.float_of(b.int_constant(2.0) - (b.bits_of(u) - b.bits_of(m)))
    f = b.mad(lo * 0.5, scale, m - 1.0)
    return _sum(b, k, f, log1p_tail(b, f))


@function("log1p", f32=1.5, f64=1.5)
def log1p(b: Builder, x):
    y = b.select(x < float("inf"), _log1p(b, x), x)
    y = b.select(x > -1.0, y, b.select(x.eq(-1.0), -float("inf"), b.select(x < -1.0, float("nan"), x)))
    return b.select(b.abs(x) < 2.0 ** -(b.mantissa + 2), x, y)


@function("logaddexp", f32=2.5, f64=2.5, arity=2)
def logaddexp(b: Builder, x, y):
    larger, smaller = b.select(x < y, y, x), b.select(x < y, x, y)
    d = b.select(larger.eq(smaller), 0.0, smaller - larger)  # inf - inf
    e = exp_of_sum(b, b.clamp(d, EXP_RANGE[b.dtype][0], None))
    r = larger + _log1p(b, e)
    return b.select(b.is_nan(x), x, r)


@function("asinh", f32=3.0, f64=3.0)
def asinh(b: Builder, x):
    a = b.abs(x)
    limit = 2.0 ** (b.mantissa + 2)
    s = b.clamp(a, None, limit)
    z = s * s
    w = s + z / (b.sqrt(z + 1.0) + 1.0)
    large = a > limit
    y = _log1p(b, b.select(large, a, w))
    y = b.select(large, y + 0.6931471805599453, y)
    y = b.select(a < float("inf"), y, a)
    return b.copysign(b.select(a < 2.0 ** -(b.mantissa // 2 + 2), a, y), x)


@function("acosh", f32=3.0, f64=3.0)
def acosh(b: Builder, x):
    limit = 2.0 ** (b.mantissa + 2)
    t = b.clamp(x, None, limit) - 1.0
    w = t + b.sqrt(t * (t + 2.0))
    large = x > limit
    y = _log1p(b, b.select(large, x, w))
    y = b.select(large, y + 0.6931471805599453, y)
    y = b.select(x < float("inf"), y, x)
    return b.select(x < 1.0, float("nan"), y)


@function("atanh", f32=3.0, f64=3.0)
def atanh(b: Builder, x):
    a = b.abs(x)
    y = _log1p(b, (a + a) / (1.0 - a)) * 0.5
    y = b.select(a < 2.0 ** -(b.mantissa // 2 + 2), a, y)
    y = b.select(a < 1.0, y, b.select(a.eq(1.0), float("inf"), float("nan")))
    return b.copysign(y, x)
