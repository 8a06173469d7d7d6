"""Random numbers inside the user's own Numba code: element `i` of what the functions of `core.random` draw from a key.

Import it as ``from triskele.core.random import numba as draws``; every function takes the two words of a key (uint32)
and a position, and is pure: a loop draws independent numbers by counting `i` up.

Examples
--------
>>> import numba
>>> from triskele.core import random
>>> from triskele.core.random import numba as draws
>>> @numba.njit
... def mean(key, n):
...     total = 0.0
...     for i in range(n):
...         total += draws.uniform(key[0], key[1], i)
...     return total / n
>>> bool(np.isclose(mean(random.key(1), 100), random.uniform(random.key(1), 100).mean()))
True
"""

from __future__ import annotations

import math

import numpy as np

from ..kernels import simd
from ..kernels.njit import device, kernel
from .streams import Counter

__all__ = ["bits", "bits64", "block", "gamma", "loggamma", "normal", "poisson", "uniform"]

_GAMMA, _POISSON = int(Counter.GAMMA), int(Counter.POISSON)
_SCALE, _ANGLE = 2.0**-53, np.pi * 2.0**-52


@device
def block(k0, k1, c0, c1, c2, c3):
    """The four words (uint32) of Philox4x32-10 for a key and a counter."""
    return simd.philox4x32(np.uint32(c0), np.uint32(c1), np.uint32(c2), np.uint32(c3), np.uint32(k0), np.uint32(k1))


@device
def _stream(k0, k1, number):
    b = np.uint64(number)
    return block(k0, k1, b & np.uint64(0xFFFFFFFF), b >> np.uint64(32), 0, 0)


@device
def bits(k0, k1, i):
    """Number `i` of ``random.bits(key, n)``, uint32."""
    w = _stream(k0, k1, i >> 2)
    which = i & 3
    return w[0] if which == 0 else w[1] if which == 1 else w[2] if which == 2 else w[3]


@device
def _join(low, high):
    return np.uint64(low) | (np.uint64(high) << np.uint64(32))


@device
def bits64(k0, k1, i):
    """Number `i` of ``random.bits(key, n, np.uint64)``."""
    w = _stream(k0, k1, i >> 1)
    return _join(w[2], w[3]) if i & 1 else _join(w[0], w[1])


@device
def _unit(word):
    return np.float64(np.int64(word >> np.uint64(11))) * _SCALE


@device
def uniform(k0, k1, i):
    """Number `i` of ``random.uniform(key, n)``: in [0, 1)."""
    return _unit(bits64(k0, k1, i))


@device
def _pair(w):
    k = np.int64(_join(w[0], w[1]) >> np.uint64(11)) + 1
    v = np.int64(_join(w[2], w[3])) >> np.int64(11)
    return math.sqrt(simd.log(np.float64(k) * _SCALE) * -2.0), np.float64(v) * _ANGLE


@device
def normal(k0, k1, i):
    """Number `i` of ``random.normal(key, n)``."""
    radius, angle = _pair(_stream(k0, k1, i >> 1))
    return radius * simd.sin(angle) if i & 1 else radius * simd.cos(angle)


@device
def exponential(k0, k1, i):
    """Number `i` of ``random.exponential(key, n)``, to rounding."""
    return -math.log1p(-uniform(k0, k1, i))


@device
def loggamma(k0, k1, i, alpha):
    """Return the logarithm of number `i` of ``random.gamma(key, alpha, n)``, by Marsaglia and Tsang's method.

    An `alpha` below 1 is raised by one and the number multiplied by ``U**(1/alpha)``: ACM TOMS 26 (2000), sections 4
    and 6, doi:10.1145/358407.358414.
    """
    if not alpha > 0 or alpha == np.inf:
        return np.inf if alpha == np.inf else np.nan
    low, high = np.uint64(i) & np.uint64(0xFFFFFFFF), np.uint64(i) >> np.uint64(32)
    d = (alpha if alpha >= 1 else alpha + 1) - 1 / 3
    c = 1 / math.sqrt(9 * d)
    attempt = 0
    while True:
        radius, angle = _pair(block(k0, k1, low, high, 2 * attempt, _GAMMA))
        w = block(k0, k1, low, high, 2 * attempt + 1, _GAMMA)
        attempt += 1
        x = radius * simd.cos(angle)
        t = 1 + c * x
        if t <= 0:
            continue
        v = t * t * t
        u = _unit(_join(w[0], w[1])) + _SCALE
        if u < 1 - 0.0331 * (x * x) * (x * x) or simd.log(u) < 0.5 * x * x + d - d * v + d * 3 * simd.log(t):
            break
    out = simd.log(d) + 3 * simd.log(t)
    if alpha < 1:
        out += simd.log(_unit(_join(w[2], w[3])) + _SCALE) / alpha
    return out


@device
def gamma(k0, k1, i, alpha):
    """Number `i` of ``random.gamma(key, alpha, n)``."""
    return math.exp(loggamma(k0, k1, i, alpha))


@device
def poisson(k0, k1, i, rate):
    """Return number `i` of ``random.poisson(key, rate, n)``, int64; -1 for a rate that is negative, NaN or above 1e18.

    By inversion below a rate of 10, by transformed rejection (PTRS) above: Hörmann, Insurance: Mathematics and
    Economics 12 (1993) 39-45, doi:10.1016/0167-6687(93)90997-4.
    """
    if not (0 <= rate <= 1e18):
        return np.int64(-1)
    low, high = np.uint64(i) & np.uint64(0xFFFFFFFF), np.uint64(i) >> np.uint64(32)
    attempt = 0
    if rate < 10:
        w = block(k0, k1, low, high, 0, _POISSON)
        u, p, n = _unit(_join(w[0], w[1])), math.exp(-rate), np.int64(0)
        while u >= p and n < 1000:
            u -= p
            n += 1
            p *= rate / n
        return n
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    bound = 0.9277 - 3.6224 / (b - 2)
    while True:
        w = block(k0, k1, low, high, attempt, _POISSON)
        attempt += 1
        u, v = _unit(_join(w[0], w[1])) - 0.5, _unit(_join(w[2], w[3])) + _SCALE
        us = 0.5 - abs(u) + 0.5 * _SCALE
        k = math.floor((2 * a / us + b) * u + rate + 0.43)
        if us >= 0.07 and v <= bound:
            return np.int64(k)
        if k < 0 or (us < 0.013 and v > us):
            continue
        if math.log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b) <= k * log_rate - rate - math.lgamma(
            k + 1
        ):
            return np.int64(k)


@kernel(nogil=True)
def fill_loggamma(k0, k1, alpha, out):  # alpha [n] or [1], out [n], float64
    step = 1 if alpha.size > 1 else 0
    for i in range(out.size):
        out[i] = loggamma(k0, k1, i, alpha[i * step])


@kernel(nogil=True)
def fill_poisson(k0, k1, rate, out):  # rate [n] or [1], float64; out [n], int64
    step = 1 if rate.size > 1 else 0
    for i in range(out.size):
        out[i] = poisson(k0, k1, i, rate[i * step])
