"""Roots and powers: rsqrt, cbrt, hypot, pow, fmod."""

from __future__ import annotations

from .builder import Builder, Value
from .exponential import LN2, exp_of_sum
from .logarithm import split_exponent, split_exponent_subnormal
from .registry import function

__all__: list[str] = []

_INF = float("inf")

# Bits of 1/sqrt(x) from those of x (C. Lomont, "Fast inverse square root", 2003): off by 3.5 % at most.
_RSQRT_MAGIC = {"f32": 0x5F375A86, "f64": 0x5FE6EB50C7B537A9}
# m^(-1/3) for sqrt(1/2) <= m < sqrt(2). Remez exchange, relative error 6e-6.
_RCBRT = {
    "f32": (
        1.9991729259490967,
        -2.485931158065796,
        2.7922325134277344,
        -1.8981531858444214,
        0.7007485628128052,
        -0.10806594789028168,
    ),
    "f64": (
        1.9991729738315693,
        -2.4859311885098343,
        2.792232624089192,
        -1.8981531449512714,
        0.7007485363181181,
        -0.1080659494332244,
    ),
}
# log(m) = 2s + 2/3 s^3 + s^5 P(s^2), s = (m-1)/(m+1). Remez exchange, error relative to 2s 7.6e-23.
_LOG_S = (
    0.3999999999999998,
    0.2857142857144385,
    0.2222222221778529,
    0.18181818844686176,
    0.1538455837399231,
    0.13336266807815023,
    0.11675730504808386,
    0.11982194014167823,
)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# log2(1+f)/f for sqrt(1/2) <= 1+f < sqrt(2), relative error 1.6e-11; (2^r - 1)/r for |r| <= 1/2, error 2e-9. Remez.
_LOG2_F = (
    1.4426950408686325,
    -0.721347520868793,
    0.48089836141381104,
    -0.3606736748722709,
    0.28853729231093006,
    -0.24045316135249942,
    0.2061753874583419,
    -0.18030072977370412,
    0.15876956147142074,
    -0.14315486937516742,
    0.14474828670395723,
    -0.1428463116147686,
    0.07737825180525068,
)
_EXP2_R = (
    0.69314720767164,
    0.2402265072960045,
    0.055503251857203874,
    0.009618097256511384,
    0.0013401234345427762,
    0.00015445418336608666,
)


@function("rsqrt", f32=1.5, f64=1.5)
def rsqrt(b: Builder, x):
    tiny = x < 2.0 ** (1 - b.bias)
    shift = b.mantissa // 2 + 2
    v = b.select(tiny, x * 2.0 ** (2 * shift), x)
    y = b.float_of(_RSQRT_MAGIC[b.dtype] - (b.bits_of(v) >> 1))
    for _ in range(3 if b.is64 else 2):  # each step cubes the error
        e = b.mad(-(v * y), y, 1.0)
        y = b.mad(y * e, b.mad(e, 0.375, 0.5), y)
    y = b.select(tiny, y * 2.0**shift, y)
    y = b.select(x < _INF, y, 0.0)
    return b.select(x > 0.0, y, b.select(x.eq(0.0), b.copysign(_INF, x), float("nan")))


@function("cbrt", f32=1.0, f64=1.0)
def cbrt(b: Builder, x):
    a = b.abs(x)
    tiny = a < 2.0 ** (1 - b.bias)
    step = 3 * (b.mantissa // 3 + 1)
    k, m = split_exponent(b, b.select(tiny, a * 2.0**step, a))
    q, iq = b.round_magic(k, 1 / 3)
    rest = b.mad(q, -3.0, k)  # -1, 0, 1
    r = b.horner(m, _RCBRT[b.dtype])
    r = r * b.select(rest > 0.0, 0.7937005259840998, b.select(rest < 0.0, 1.2599210498948732, 1.0))
    m = m * b.select(rest > 0.0, 2.0, b.select(rest < 0.0, 0.5, 1.0))
    if b.is64:
        e = b.mad(-(m * r), r * r, 1.0)
        r = b.mad(r * e, b.mad(e, 2 / 9, 1 / 3), r)
    # y = m r^2, then one Newton step with the residual m - y^3 taken exactly
    r2 = r * r
    y = m * r2
    hi, lo = b.two_prod(y, y)
    residual = b.mad(-lo, y, b.fma(-hi, y, m))
    y = b.mad(residual, r2 * (1 / 3), y)
    iq = iq + b.bias
    y = y * b.float_of(b.select(tiny, iq - step // 3, iq) << b.mantissa)
    y = b.select(a.eq(0.0), a, b.select(a < _INF, y, a))
    return b.copysign(y, x)


@function("hypot", f32=1.5, f64=1.5, arity=2)
def hypot(b: Builder, x, y):
    ax, ay = b.abs(x), b.abs(y)
    large, small = b.select(ax < ay, ay, ax), b.select(ax < ay, ax, ay)
    big = 2.0 ** (b.bias // 2)
    down, up = large > big, large < 1 / big
    scale = b.select(down, 2.0 ** -(b.bias // 2 + b.mantissa), b.select(up, 2.0 ** (b.bias // 2 + b.mantissa), 1.0))
    back = b.select(down, 2.0 ** (b.bias // 2 + b.mantissa), b.select(up, 2.0 ** -(b.bias // 2 + b.mantissa), 1.0))
    u, v = large * scale, small * scale
    r = b.sqrt(b.mad(u, u, v * v)) * back
    r = b.select(b.is_nan(x), x, b.select(b.is_nan(y), y, r))
    return b.select(ax.eq(_INF) | ay.eq(_INF), _INF, r)


def _log_two_parts(b: Builder, x) -> tuple[Value, Value]:
    """log(x) of positive finite float64 x as an unevaluated sum, to about 2^-68."""
    k, m = split_exponent_subnormal(b, x)
    f = m - 1.0
    d, d_lo = b.fast_two_sum(b.value(1.0), m)  # exact although m may exceed 1: both are multiples of 2^-53
    s, s_lo = b.quotient(f, b.value(0.0), d, d_lo)
    z, z_lo = b.two_prod(s, s)
    z_lo = b.mad(s + s, s_lo, z_lo)
    # 2/3 + z P(z), then times s z
    t, t_lo = b.fast_two_sum(b.value(_TWO_THIRDS[0]), z * b.horner(z, _LOG_S))
    t_lo = t_lo + _TWO_THIRDS[1]
    w, w_lo = b.two_prod(s, z)
    w_lo = w_lo + b.mad(s, z_lo, s_lo * z)
    v, v_lo = b.two_prod(w, t)
    v_lo = v_lo + b.mad(w, t_lo, w_lo * t)
    hi, e1 = b.fast_two_sum(k * LN2["f64"][0], s + s)
    hi, e2 = b.fast_two_sum(hi, v)
    return hi, e1 + (e2 + (v_lo + b.mad(s_lo, 2.0, k * LN2["f64"][1])))


def _power_f64(b: Builder, a, y) -> Value:
    """a^y for 0 < a < inf."""
    hi, lo = _log_two_parts(b, a)
    p, p_lo = b.two_prod(y, hi)
    p_lo = b.mad(y, lo, p_lo)
    limit = 800.0
    p_lo = b.select(b.abs(p) < limit, p_lo, 0.0)
    return exp_of_sum(b, b.clamp(p, -limit, limit), p_lo)


def _power_f32(b: Builder, a, y) -> Value:
    """a^y for 0 < a < inf, by way of float64, where subnormal numbers are normal."""
    d = b.double()
    k, m = split_exponent(d, d.widen(a))
    f = m - 1.0
    log2 = d.mad(f, d.horner(f, _LOG2_F), k)
    p = d.clamp(d.widen(y) * log2, -200.0, 200.0)
    n, i = d.round_magic(p, 1.0)
    r = p - n
    return b.narrow(d.mad(r, d.horner(r, _EXP2_R), 1.0) * d.float_of((i + d.bias) << d.mantissa))


@function("pow", f32=1.0, f64=1.5, arity=2)
def pow(b: Builder, x, y):
    a, ay = b.abs(x), b.abs(y)
    r = _power_f64(b, a, y) if b.is64 else _power_f32(b, a, y)
    # 0^y and inf^y: 0 where one of a > 1 and y > 0 holds, else inf
    r = b.select(a.eq(0.0) | a.eq(_INF), b.select((a > 1.0) ^ (y > 0.0), 0.0, _INF), r)
    r = b.select(b.is_nan(x, y), x + y, b.select(a.eq(1.0), 1.0, r))
    # Whole numbers by adding and taking away 2^52 (2^23): every y beyond is whole, every y beyond twice that even.
    unit = 2.0**b.mantissa
    half = ay * 0.5
    whole = ((ay + unit) - unit).eq(ay) | (ay >= unit)
    odd = whole & (ay < 2.0 * unit) & ~((half + unit) - unit).eq(half)
    r = b.select(odd, b.copysign(r, x), r)
    r = b.select((x < 0.0) & (x > -_INF) & ~whole, float("nan"), r)
    return b.select(y.eq(0.0) | x.eq(1.0), 1.0, r)
