"""Equation of state: change with temperature of sea water's dynamic enthalpy, a million cells (pyhpc-benchmarks'
first).

The 48-term expression of TEOS-10 (McDougall, Barker, Feistel, Jackett 2013; IOC, SCOR and IAPSO 2010, appendices A.30
and K): specific volume is (a0 + a1 p + a2 p^2 + a3 p^3) / (b0 + 2 b1 p + b2 p^2), polynomials in salinity and
temperature, and its integral over pressure is elementary. A dash in a name marks a derivative by temperature.
"""

import math

import numpy

from tests.benchmarks.case import Case

B0 = (
    (9.998420897506056e2, 2.839940833161907, -3.147759265588511e-2, 1.181805545074306e-3),
    (-6.698001071123802, -2.986498947203215e-2, 2.327859407479162e-4),
    (-3.988822378968490e-2, 5.095422573880500e-4, -1.426984671633621e-5, 1.645039373682922e-7),
)
B1 = (
    (-2.233269627352527e-2, -3.436090079851880e-4, 3.726050720345733e-6),
    (-1.806789763745328e-4, 6.876837219536232e-7),
)
B2 = ((-3.087032500374211e-7, -1.988366587925593e-8, -1.061519070296458e-11), (1.550932729220080e-10, 0.0))
A0 = (
    (1.0, 2.775927747785646e-3, -2.349607444135925e-5, 1.119513357486743e-6, 6.743689325042773e-10),
    (-7.521448093615448e-3, -2.764306979894411e-5, 1.262937315098546e-7, 9.527875081696435e-10, -1.811147201949891e-11),
    (-3.303308871386421e-5, 3.801564588876298e-7, -7.672876869259043e-9, -4.634182341116144e-11, 2.681097235569143e-12),
)
A0_SALT2 = 5.419326551148740e-6
A1 = (
    (-2.742185394906099e-5, -3.212746477974189e-7, 3.191413910561627e-9, -1.931012931541776e-12),
    (-1.105097577149576e-7, 6.211426728363857e-10),
)
A2 = ((-1.119011592875110e-10, -1.941660213148725e-11, -1.864826425365600e-14), (0.0, 1.119522344879478e-14))
A3 = (-1.200507748551599e-15, 6.057902487546866e-17)
PASCAL = 1e4  # per decibar


def cells(elements=2**20):
    """Shape of pyhpc-benchmarks' grids: twice as wide as a cube of that size, a quarter as deep."""
    side = elements ** (1 / 3)
    return math.ceil(2 * side), math.ceil(2 * side), math.ceil(0.25 * side)


def data():
    rng, shape = numpy.random.default_rng(9), cells()
    return rng.uniform(1e-2, 10, shape), rng.uniform(-12, 20, shape), rng.uniform(0, 1000, (1, 1, shape[-1]))


case = Case("equation_of_state", data, tolerance=1e-7, flops=2**20 * 300, bytes=8 * 3 * 2**20)


def polynomial(t, coefficients):
    """Value and derivative at t."""
    value = slope = 0.0
    for c in reversed(coefficients):
        slope = slope * t + value
        value = value * t + c
    return value, slope


def in_salt(s, t, coefficients):
    """Sum of polynomials in temperature times 1, s, ... and its derivative by temperature."""
    constant, linear = (polynomial(t, c) for c in coefficients)
    return constant[0] + s * linear[0], constant[1] + s * linear[1]


def with_root(s, root, t, coefficients):
    constant, linear, steep = (polynomial(t, c) for c in coefficients)
    return tuple(constant[k] + s * (linear[k] + root * steep[k]) for k in (0, 1))


@case.program("triskele", "jax", "torch", "numpy")
def enthalpy_by_temperature(tool):
    np = tool.np

    def slope(s, t, p):
        root = np.sqrt(s)
        a0, a0_ = with_root(s, root, t, A0)
        a0 = a0 + A0_SALT2 * s * s
        b0, b0_ = with_root(s, root, t, B0)
        (a1, a1_), (a2, a2_), (a3, a3_) = in_salt(s, t, A1), in_salt(s, t, A2), polynomial(t, A3)
        (b1, b1_), (b2, b2_) = in_salt(s, t, B1), in_salt(s, t, B2)
        b1, b1_ = 0.5 * b1, 0.5 * b1_

        q = 1 / b2
        q_ = -b2_ * q * q
        r, r_ = b1 * q, b1_ * q + b1 * q_
        u, u_ = b0 * q, b0_ * q + b0 * q_
        e, e_ = a2 - 2 * a3 * r, a2_ - 2 * (a3_ * r + a3 * r_)
        n, n_ = a0 - u * e, a0_ - u_ * e - u * e_
        m, m_ = a1 - a3 * u - 2 * r * e, a1_ - a3_ * u - a3 * u_ - 2 * (r_ * e + r * e_)
        disc = np.sqrt(b1 * b1 - b0 * b2)
        disc_ = (2 * b1 * b1_ - b0_ * b2 - b0 * b2_) / (2 * disc)
        part = (n - m * r) / (2 * disc)
        part_ = (n_ - m_ * r - m * r_ - 2 * part * disc_) / (2 * disc)

        x, x_ = p * (2 * b1 + b2 * p), p * (2 * b1_ + b2_ * p)
        log1, log1_ = np.log(1 + x / b0), (x_ - x * b0_ / b0) / (b0 + x)
        y, y_ = 2 * b2 * p * disc, 2 * p * (b2_ * disc + b2 * disc_)
        low, high = b1 - disc, b1 + disc + b2 * p
        z, z_ = low * high, (b1_ - disc_) * high + low * (b1_ + disc_ + b2_ * p)
        log2, log2_ = np.log(1 + y / z), (y_ - y * z_ / z) / (z + y)
        return PASCAL * (
            p * ((e_ + 0.5 * a3_ * p) * q + (e + 0.5 * a3 * p) * q_)
            + 0.5 * (m_ * q * log1 + m * q_ * log1 + m * q * log1_)
            + part_ * log2
            + part * log2_
        )

    return slope
