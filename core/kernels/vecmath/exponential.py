"""exp and what is made of it: exp2, expm1, sinh, cosh, tanh, sigmoid."""

from __future__ import annotations

from .builder import Builder, Value
from .registry import function

__all__ = ["EXP_RANGE", "LN2", "exp_of_sum", "expm1_polynomial", "reduce_exp", "two_powers"]

LOG2E = 1.4426950408889634
# ln 2 in two parts; the first has 33 (24: 12) significant bits, so that n*LN2_HI is exact with or without FMA (fdlibm).
LN2 = {
    "f64": (6.93147180369123816490e-01, 1.90821492927058770002e-10),
    "f32": (0.693359375, -2.12194440e-4),
}
# (exp(r) - 1 - r)/r^2 on |r| <= ln(2)/2. Remez exchange, error weighted by r^2: 4.3e-9 (f32), 8.5e-18 (f64).
_EXP = {
    "f32": (0.5, 0.166665181517601, 0.04166620597243309, 0.008368968963623047, 0.0013950535794720054),
    "f64": (
        0.5000000000000013,
        0.166666666666667,
        0.04166666666651403,
        0.008333333333306941,
        0.0013888888947416601,
        0.00019841269918007776,
        2.480148949496744e-05,
        2.755721572102378e-06,
        2.7631450059116333e-07,
        2.5118047920034606e-08,
    ),
}
# (sinh(x)/x - 1)/x^2 as a polynomial in x^2 on |x| <= 1. Remez exchange, relative error 2.6e-8 (f32: 2^-31), 2^-61
# (f64).
_SINH = {
    "f32": (0.1666666716337204, 0.008333311416208744, 0.00019842635083477944, 2.783925083349459e-06),
    "f64": (
        0.16666666666666669,
        0.008333333333332915,
        0.00019841269841589234,
        2.755731910845094e-06,
        2.5052130693120887e-08,
        1.6056684463131208e-10,
        7.775816246212471e-13,
    ),
}
# exp(x) is 0 below the first, inf above the second.
EXP_RANGE = {"f32": (-105.0, 90.0), "f64": (-750.0, 715.0)}


def expm1_polynomial(b: Builder, r) -> Value:
    """exp(r) - 1 for |r| <= ln(2)/2."""
    return b.mad(r * r, b.horner(r, _EXP[b.dtype]), r)


def reduce_exp(b: Builder, x, lo=None) -> tuple[Value, Value]:
    """x (+ lo) = n ln 2 + r: returns r and the integer n."""
    n, i = b.round_magic(x, LOG2E)
    ln2_hi, ln2_lo = LN2[b.dtype]
    r = b.mad(n, -ln2_hi, x)
    return (b.mad(n, -ln2_lo, r) if lo is None else r + b.mad(n, -ln2_lo, lo)), i


def expm1_parts(b: Builder, x) -> tuple[Value, Value, Value]:
    """r, tail and the integer n with exp(x) = 2^n (1 + r + tail)."""
    n, i = b.round_magic(x, LOG2E)
    ln2_hi, ln2_lo = LN2[b.dtype]
    t = b.mad(n, -ln2_hi, x)
    r = b.mad(n, -ln2_lo, t)
    return r, b.mad(r * r, b.horner(r, _EXP[b.dtype]), b.mad(n, -ln2_lo, t - r)), i


def two_powers(b: Builder, n) -> tuple[Value, Value]:
    """2^(n//2) and 2^(n - n//2): their product may be subnormal or infinite where 2^n alone has no bits."""
    biased = n + 2 * b.bias  # positive, so a logical shift halves it
    half = biased >> 1
    return b.float_of(half << b.mantissa), b.float_of((biased - half) << b.mantissa)


def exp_of_sum(b: Builder, x, lo=None) -> Value:
    """exp(x + lo) for x within EXP_RANGE; rounds once into the subnormals."""
    r, n = reduce_exp(b, x, lo)
    s1, s2 = two_powers(b, n)
    return (expm1_polynomial(b, r) + 1.0) * s1 * s2


@function("exp", f32=1.1, f64=1.1)
def exp(b: Builder, x):
    return exp_of_sum(b, b.clamp(x, *EXP_RANGE[b.dtype]))


@function("exp2", f32=1.2, f64=1.2)
def exp2(b: Builder, x):
    low, high = EXP_RANGE[b.dtype]
    x = b.clamp(x, low * LOG2E, high * LOG2E)
    n, i = b.round_magic(x, 1.0)
    s1, s2 = two_powers(b, i)
    return (expm1_polynomial(b, (x - n) * 0.6931471805599453) + 1.0) * s1 * s2


@function("expm1", f32=1.5, f64=1.5)
def expm1(b: Builder, x):
    # below, the result rounds to -1; above, n must stay at 128 or 1024
    r, tail, n = expm1_parts(b, b.clamp(x, -b.mantissa * 0.8, 709.9 if b.is64 else 88.9))
    half = b.float_of((n + (b.bias - 1)) << b.mantissa)  # 2^(n-1), finite where 2^n is not
    y = b.mad(half, tail, b.mad(half, r, half - 0.5)) * 2.0
    return b.select(b.abs(x) < 2.0 ** -(b.mantissa + 2), x, y)  # keeps -0 and subnormals


def _half_exp(b: Builder, x) -> Value:
    """exp(x)/2 for 0 <= x, infinite only where cosh(x) is."""
    r, n = reduce_exp(b, b.clamp(x, None, EXP_RANGE[b.dtype][1]))
    s1, s2 = two_powers(b, n - 1)
    return (expm1_polynomial(b, r) + 1.0) * s1 * s2


@function("cosh", f32=1.5, f64=1.5)
def cosh(b: Builder, x):
    e = _half_exp(b, b.abs(x))
    return e + 0.25 / e


@function("sinh", f32=2.0, f64=2.0)
def sinh(b: Builder, x):
    a = b.abs(x)
    e = _half_exp(b, a)
    z = x * x
    small = b.mad(x * z, b.horner(z, _SINH[b.dtype]), x)
    return b.select(a < 1.0, small, b.copysign(e - 0.25 / e, x))


@function("tanh", f32=2.0, f64=2.0)
def tanh(b: Builder, x):
    a = b.abs(x)
    r, tail, n = expm1_parts(b, b.clamp(a + a, None, 1.5 * b.mantissa))
    s = b.float_of((n + b.bias) << b.mantissa)
    u, s_tail = b.mad(s, r, s - 1.0), s * tail
    e = u + s_tail  # exp(2a) - 1
    # tanh = e/(e+2) = 1 - 2/(e+2), and near zero a - (a e - (e - 2a))/(e+2), where the quotient is a small correction
    small = a < 0.55
    correction = b.mad(a, e, (a + a - u) - s_tail)
    y = b.select(small, a, 1.0) - b.select(small, correction, 2.0) / (e + 2.0)
    return b.copysign(y, x)


@function("sigmoid", f32=2.5, f64=2.5)
def sigmoid(b: Builder, x):
    # exp(-|x|) never overflows and keeps full relative accuracy in the left tail.
    e = exp_of_sum(b, b.clamp(-b.abs(x), EXP_RANGE[b.dtype][0], None))
    return b.select(x < 0.0, e, 1.0) / (e + 1.0)
