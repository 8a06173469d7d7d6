"""erf and erfc."""

from __future__ import annotations

from .builder import Builder, Value
from .exponential import expm1_polynomial, reduce_exp, two_powers
from .registry import function

__all__: list[str] = []

# Everything below by Remez exchange against mpmath, with t = (x-3)/(x+3), as in Shepherd and Laframboise, "Chebyshev
# approximation of (1+2x)exp(x^2)erfc(x)", Math. Comp. 36 (1981) 249.
# (x+3) exp(x^2) erfc(x) on 0 <= x <= 28 (f32: 11), relative error 7e-18, 3e-9; the first two terms have second parts.
_ERFC = {
    "f32": (
        1.0740069150924683,
        -0.8833944797515869,
        0.590228259563446,
        -0.3104657232761383,
        0.11952997744083405,
        -0.026841597631573677,
        -0.0012314778286963701,
        0.0030819482635706663,
        -0.0004740243311971426,
        -0.00032051021116785705,
    ),
    "f64": (
        1.0740069070883398,
        -0.8833944531698835,
        0.5902283571040994,
        -0.3104672619005751,
        0.11952776128744139,
        -0.026827234624272063,
        -0.001212416630722316,
        0.0030340619985021315,
        -0.0005483096502950759,
        -0.000276777824951612,
        0.0001075612044240317,
        3.03980456769703e-05,
        -1.746938340343363e-05,
        -4.7487548013388505e-06,
        2.7622506961249595e-06,
        9.975492923100118e-07,
        -4.0270108336438874e-07,
        -2.308970294538651e-07,
        4.0728057301451456e-08,
        4.729833310485564e-08,
        1.8549774629502908e-09,
        -5.952346353349887e-09,
        -1.3845860956253504e-09,
    ),
}
_ERFC_LOW = {
    "f32": (-6.666509122510433e-09, -1.7520047634889124e-08),
    "f64": (-8.179079599028521e-17, -2.377438301805955e-17),
}
# The same on 1 <= x <= 6 (4), error weighted by erfc(x) because erf = 1 - erfc: 2.2e-18, 4.2e-9.
_ERF_LARGE = {
    "f32": (1.0740737915039062, -0.8822358846664429, 0.5978897213935852, -0.2858232259750366, 0.15907597541809082),
    "f64": (
        1.0740069070883986,
        -0.8833944531671691,
        0.5902283571175416,
        -0.3104672627757813,
        0.11952774248374218,
        -0.026827416562981963,
        -0.0012134457148334635,
        0.0030304444492020586,
        -0.0005560149974703888,
        -0.00028492657926400315,
        0.00010938053759697457,
        4.66779322949503e-05,
    ),
}
# erf(x)/x - 1 in x^2 on 0 <= x <= 1, error relative to erf 1.4e-17, 1.4e-9.
_ERF_SMALL = {
    "f32": (
        0.12837916612625122,
        -0.3761262595653534,
        0.11283578723669052,
        -0.026853347197175026,
        0.005187162198126316,
        -0.0007997853099368513,
        7.806903158780187e-05,
    ),
    "f64": (
        0.12837916709551256,
        -0.37612638903183343,
        0.11283791670936962,
        -0.026866170641963047,
        0.005223977596786754,
        -0.0008548325488307482,
        0.00012055280619545953,
        -1.4924468421275307e-05,
        1.6444189565922264e-06,
        -1.6184322155499302e-07,
        1.3618257326803358e-08,
        -7.610933924514309e-10,
    ),
}


def _exp_minus_square(b: Builder, a) -> tuple[Value, Value]:
    """exp(-a^2) = (1 + q) 2^n: returns q and n; the rounding of a^2 is carried along."""
    s, s_lo = b.two_prod(a, a)
    r, n = reduce_exp(b, -s, -s_lo)
    return expm1_polynomial(b, r), n


@function("erf", f32=1.5, f64=1.5)
def erf(b: Builder, x):
    z = x * x
    small = b.mad(x, b.horner(z, _ERF_SMALL[b.dtype]), x)
    a = b.clamp(b.abs(x), None, 6.0 if b.is64 else 4.0)
    u = 1.0 / (a + 3.0)
    q, n = _exp_minus_square(b, a)
    w = b.horner((a - 3.0) * u, _ERF_LARGE[b.dtype]) * u
    large = 1.0 - b.mad(w, q, w) * b.float_of((n + b.bias) << b.mantissa)
    return b.select(a < 1.0, small, b.copysign(large, x))


@function("erfc", f32=2.0, f64=2.0)
def erfc(b: Builder, x):
    a = b.clamp(b.abs(x), None, 28.0 if b.is64 else 11.0)
    d, d_lo = b.two_sum(a, b.value(3.0))
    c, c_lo = b.two_sum(a, b.value(-3.0))
    u = 1.0 / d
    u_error = b.mad(-u, d_lo, b.fma(-u, d, 1.0))  # relative
    t = c * u
    t_lo = (b.fma(-t, d, c) + b.mad(-t, d_lo, c_lo)) * u
    # c0 + t (c1 + t R(t)) in two parts: it loses digits where t nears 1
    c0, c1, *rest = coefficients = _ERFC[b.dtype]
    c0_lo, c1_lo = _ERFC_LOW[b.dtype]
    s, s_lo = b.fast_two_sum(b.value(c1), t * b.horner(t, rest))
    p, p_lo = b.two_prod(t, s)
    h, h_lo = b.fast_two_sum(b.value(c0), p)
    slope = b.horner(t, [k * coefficients[k] for k in range(1, 5)])
    h_lo = b.mad(t_lo, slope, h_lo + b.mad(t, s_lo + c1_lo, p_lo + c0_lo))
    q, n = _exp_minus_square(b, a)
    w, w_lo = b.two_prod(h, u)
    y = w + b.mad(w, q + u_error, b.mad(h_lo, u, w_lo))
    s1, s2 = two_powers(b, n)
    y = y * s1 * s2
    return b.select(x < 0.0, 2.0 - y, y)
