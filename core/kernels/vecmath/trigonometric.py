"""sin, cos, tan and their inverses."""

from __future__ import annotations

from .builder import Builder, Value
from .registry import function

__all__: list[str] = []

# pi/2 in three parts of a full mantissa each (mpmath); pi/4 and pi/2 in two.
_PI_2 = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33),
}
# Where `reduce` keeps all digits: n must stay below 2^50 (float64 arithmetic also for float32), with room to spare.
TRIG_RANGE = {"f32": 1.0e13, "f64": 3.0e13}
# (sin(r)/r - 1)/r^2 and (cos(r) - 1 + r^2/2)/r^4 in r^2 on |r| <= 0.80. Remez exchange, relative 4.4e-9 and 4.7e-18;
# absolute 1.3e-10 and 6.8e-20.
_SIN = {
    "f32": (-0.16666653752326965, 0.008332091383635998, -0.00019504687224980444),
    "f64": (
        -0.1666666666666662,
        0.008333333333319669,
        -0.00019841269827559262,
        2.7557312897898176e-06,
        -2.505063206378832e-08,
        1.5889410317465255e-10,
    ),
}
_COS = {
    "f32": (0.04166664555668831, -0.0013887285022065043, 2.442754339426756e-05),
    "f64": (
        0.04166666666666658,
        -0.0013888888888870744,
        2.480158728727978e-05,
        -2.7557313695308747e-07,
        2.087563171066686e-09,
        -1.1354813205363852e-11,
    ),
}
# (atan(t)/t - 1)/t^2 in t^2 on |t| <= tan(pi/8). Remez exchange, relative 6.7e-10, 1.3e-18.
_ATAN = {
    "f32": (-0.33333316445350647, 0.1999853253364563, -0.14244510233402252, 0.10600165277719498, -0.060927070677280426),
    "f64": (
        -0.333333333333332,
        0.19999999999953813,
        -0.1428571428022234,
        0.11111110784889056,
        -0.0909089780269181,
        0.07692061079148435,
        -0.06663114530794982,
        0.05847969742441142,
        -0.050396833017016036,
        0.038074531398870286,
        -0.017918457528300437,
    ),
}
# (asin(x)/x - 1)/x^2 in x^2 on |x| <= 1/2. Remez exchange, relative 3.1e-10, 1.6e-17.
_ASIN = {
    "f32": (
        0.16666659712791443,
        0.07500521093606949,
        0.04451363533735275,
        0.03183605521917343,
        0.01432931050658226,
        0.037672314792871475,
    ),
    "f64": (
        0.16666666666665375,
        0.07500000000345042,
        0.04464285682174011,
        0.030381959405986717,
        0.022371751678073912,
        0.017359799578553145,
        0.013884311881730494,
        0.012175191944789266,
        0.006502459674066989,
        0.01959718690247559,
        -0.016331067174693945,
        0.03198462617026312,
    ),
}


def reduce(b: Builder, x, low: bool = True) -> tuple[Value, Value | None, Value]:
    """x = n pi/2 + r + r_lo, |r| <= pi/4: returns r, r_lo and the integer n.

    In float32 r_lo may be had or not (None): it is half an ulp of r.

    Cody and Waite with exact products: x - n*P1 has no rounding error at all, that of x - n*P1 - n*P2 goes to r_lo.
    """
    if not b.is64:
        d = b.double()
        x = d.widen(x)
        n, i = d.round_magic(x, 0.6366197723675814)
        r = d.fma(n, -_PI_2["f64"][1], d.fma(n, -_PI_2["f64"][0], x))
        r32 = b.narrow(r)
        return r32, b.narrow(r - d.widen(r32)) if low else None, b.low_bits(i)
    p1, p2, p3 = _PI_2["f64"]
    n, i = b.round_magic(x, 0.6366197723675814)
    t = b.fma(n, -p1, x)
    hi, lo = b.two_prod(n, p2)
    r, error = b.fast_two_sum(t, -hi)  # exact although |t| may be below |hi|: t is a multiple of hi's last bit
    return r, b.mad(n, -p3, error - lo), i


def sin_parts(b: Builder, r, lo) -> tuple[Value, Value]:
    """sin(r + lo) as r + tail."""
    z = r * r
    p = b.horner(z, _SIN[b.dtype])
    return r, z * r * p if lo is None else b.mad(z * r, p, lo)


def cos_parts(b: Builder, r, lo) -> tuple[Value, Value]:
    """cos(r + lo) as 1 + tail."""
    z = r * r
    p = b.mad(z, b.horner(z, _COS[b.dtype]), -0.5)
    return b.value(1.0), z * p if lo is None else b.mad(z, p, -(r * lo))


def _quadrant(b: Builder, r, lo, i) -> Value:
    """sin(r + i pi/2)."""
    odd = (i & 1).eq(1)
    (s, s_tail), (c, c_tail) = sin_parts(b, r, lo), cos_parts(b, r, lo)
    y = b.select(odd, c, s) + b.select(odd, c_tail, s_tail)
    return b.float_of(b.bits_of(y) ^ ((i >> 1) << (b.bits - 1)))


@function("sin", f32=1.6, f64=1.4, far=TRIG_RANGE)
def sin(b: Builder, x):
    r, lo, i = reduce(b, x, low=b.is64)
    y = _quadrant(b, r, lo, i)
    return b.select(x.eq(0.0), x, y)  # -0


@function("cos", f32=1.6, f64=1.4, far=TRIG_RANGE)
def cos(b: Builder, x):
    r, lo, i = reduce(b, x, low=b.is64)
    return _quadrant(b, r, lo, i + 1)


@function("tan", f32=1.5, f64=1.5, far=TRIG_RANGE)
def tan(b: Builder, x):
    r, lo, i = reduce(b, x)
    (s, s_lo), (c, c_lo) = (b.fast_two_sum(*parts) for parts in (sin_parts(b, r, lo), cos_parts(b, r, lo)))
    odd = (i & 1).eq(1)
    y, y_lo = b.quotient(
        b.select(odd, -c, s), b.select(odd, -c_lo, s_lo), b.select(odd, s, c), b.select(odd, s_lo, c_lo)
    )
    y = y + y_lo
    return b.select(x.eq(0.0), x, y)


def _atan_quotient(b: Builder, y, x) -> tuple[Value, Value, Value]:
    """atan2 of the first quadrant: y, x >= 0, not both zero, both finite, the larger not near the ends of the range.

    With t = y/x or its image in [-tan(pi/8), tan(pi/8)]: atan = j pi/4 + (+-) atan(t), and t is carried in two parts.
    """
    swap = x < y
    large, small = b.select(swap, y, x), b.select(swap, x, y)
    middle = large * 0.41421356237309503 < small
    den, den_lo = b.two_sum(large, b.select(middle, small, 0.0))
    num, num_lo = b.two_sum(small, b.select(middle, -large, 0.0))
    t, t_lo = b.quotient(num, num_lo, den, den_lo)
    z = t * t
    # angle = j pi/4 + sign*(t + tail)
    j = b.select(middle, 1.0, b.select(swap, 2.0, 0.0))
    sign = b.select(swap, -1.0, 1.0)
    tail = b.mad(z * t, b.horner(z, _ATAN[b.dtype]), t_lo)
    return j, t * sign, tail * sign


def _quarter_turns(b: Builder, j, t, tail) -> Value:
    """j pi/4 + t + tail."""
    hi, lo, _ = (p / 2 for p in _PI_2[b.dtype])
    base = j * hi
    error = b.fma(j, hi, -base)
    s, rest = b.two_sum(base, t)
    return s + (rest + (b.mad(j, lo, error) + tail))


@function("atan", f32=1.0, f64=1.0)
def atan(b: Builder, x):
    a = b.clamp(b.abs(x), None, 2.0 ** (2 * b.mantissa))
    y = _quarter_turns(b, *_atan_quotient(b, a, b.value(1.0)))
    return b.select(a < 2.0 ** -(b.mantissa // 2 + 2), x, b.copysign(y, x))


@function("atan2", f32=1.5, f64=1.5, arity=2)
def atan2(b: Builder, y, x):
    ay, ax = b.abs(y), b.abs(x)
    infinite_y, infinite_x = ay.eq(float("inf")), ax.eq(float("inf"))
    # Infinities become 1 against 0, or 1 against 1.
    any_infinite = infinite_y | infinite_x
    u = b.select(any_infinite, b.select(infinite_y, 1.0, ay * 0.0), ay)
    v = b.select(any_infinite, b.select(infinite_x, 1.0, ax * 0.0), ax)
    largest = b.select(u < v, v, u)
    big, half = 2.0 ** (b.bias - 3), 2.0 ** (b.bias // 2)
    scale = b.select(largest > big, 1 / 16, b.select(largest < 1.0, half, 1.0))
    scale = b.select(largest < 2.0 ** (2 - b.bias), half * 2.0**b.mantissa, scale)
    u, v = u * scale, v * scale
    v = b.select(largest.eq(0.0), 1.0, v)
    j, t, tail = _atan_quotient(b, u, v)
    left = b.float_of(b.bits_of(x) & (1 << (b.bits - 1)))  # the sign of x, of -0 too
    flip = b.copysign(1.0, left)
    j = b.select(flip < 0.0, 4.0 - j, j)
    r = b.copysign(_quarter_turns(b, j, t * flip, tail * flip), y)
    return b.select(b.is_nan(x), x, b.select(b.is_nan(y), y, r))


def _asin_tail(b: Builder, x, z) -> Value:
    """asin(x) - x for z = x^2 <= 1/4."""
    return x * z * b.horner(z, _ASIN[b.dtype])


def _half_angle(b: Builder, a) -> tuple[Value, Value, Value]:
    """z = (1-a)/2 and sqrt(z) in two parts."""
    z = (1.0 - a) * 0.5
    s = b.sqrt(z)
    lo = b.fma(-s, s, z) / b.select(s > 0.0, s + s, 1.0)
    return z, s, lo


@function("asin", f32=1.5, f64=1.5)
def asin(b: Builder, x):
    a = b.abs(x)
    small = a < 0.5
    z, s, s_lo = _half_angle(b, a)
    hi, lo, _ = _PI_2[b.dtype]
    u = b.select(small, a, s)
    tail = _asin_tail(b, u, b.select(small, a * a, z))
    # pi/2 - 2 asin(sqrt((1-a)/2))
    y = hi - s * 2.0
    rest = (hi - y) - s * 2.0
    y = b.select(small, a + tail, y + (rest + (lo - (s_lo + tail) * 2.0)))
    return b.select(a < 2.0 ** -(b.mantissa // 2 + 2), x, b.copysign(y, x))


@function("acos", f32=1.5, f64=1.5)
def acos(b: Builder, x):
    a = b.abs(x)
    small = a < 0.5
    z, s, s_lo = _half_angle(b, a)
    hi, lo, _ = _PI_2[b.dtype]
    tail = _asin_tail(b, b.select(small, x, s), b.select(small, a * a, z))
    near = (s + (s_lo + tail)) * 2.0
    y = hi - x
    middle = y + (((hi - y) - x) + (lo - tail))
    return b.select(small, middle, b.select(x < 0.0, hi * 2.0 - (near - lo * 2.0), near))
