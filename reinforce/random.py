"""Random numbers inside searches, environments and matches: streams that cost a few cycles a number.

A stream is an array of uint64, of which the first is used: SplitMix64 [1]_ in counter mode, started at a place that
Philox draws from (seed, a, b). Streams of different games, trees and moves are therefore independent, and what one of
them draws depends on no other.

References
----------
.. [1] Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014, figure 14 (constants of
   mix64variant13). doi:10.1145/2660193.2660195

Examples
--------
>>> import numpy as np
>>> from triskele.core.extend import kernel
>>> from triskele.reinforce import random
>>> @kernel(cache=False)
... def dice(seed, game, n):
...     stream, total = np.empty(1, np.uint64), 0
...     random.start(stream, seed, game, 0)
...     for _ in range(n):
...         total += 1 + random.below(stream, 6)
...     return total / n
>>> bool(abs(dice(0, 5, 10_000) - 3.5) < 0.05)
True
"""

import math

import numpy as np

from triskele.core.extend import device, simd
from triskele.core.random import Counter
from triskele.core.random import numba as draws

__all__ = ["below", "bits", "gamma", "gumbel", "mix", "normal", "start", "uniform"]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio, odd
_MIX1, _MIX2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STREAMS = int(Counter.GAMES)
_LOW = np.uint64(0xFFFFFFFF)


@device
def start(stream, seed, a, b):
    """Start a stream that belongs to `seed` and two numbers (integers up to 64, 64 and 32 bits)."""
    s, u = np.uint64(seed), np.uint64(a)
    w = draws.block(s & _LOW, s >> np.uint64(32), u & _LOW, u >> np.uint64(32), np.uint64(b) & _LOW, _STREAMS)
    stream[0] = np.uint64(w[0]) | (np.uint64(w[1]) << np.uint64(32))


@device
def bits(stream):
    """64 random bits."""
    stream[0] += _GOLDEN
    return mix(stream[0])


@device
def mix(z):
    """A number (uint64) whose bits all depend on all of those of `z`, one to one."""
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@device
def below(stream, n):
    """An integer (int64) from 0 to n - 1, n < 2**32; of n equal chances none is off by more than 2**-32."""
    return np.int64(((bits(stream) >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@device
def uniform(stream):
    """In [0, 1)."""
    return np.float64(np.int64(bits(stream) >> np.uint64(11))) * 2.0**-53


@device
def normal(stream):
    """Standard normal, by Box and Muller's formula."""
    radius = math.sqrt(-2.0 * simd.log(1.0 - uniform(stream)))
    return radius * simd.cos(2.0 * math.pi * uniform(stream))


@device
def gumbel(stream):
    """Standard Gumbel: -log(-log(u))."""
    return -simd.log(-simd.log(uniform(stream) + 2.0**-54))


@device
def gamma(stream, alpha):
    """Draw from the gamma distribution of shape `alpha` > 0 and scale 1, by the method of Marsaglia and Tsang (ACM TOMS
    26 (2000), sections 4 and 6, doi:10.1145/358407.358414).
    """
    d = (alpha if alpha >= 1.0 else alpha + 1.0) - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(stream)
        v = (1.0 + c * x) ** 3
        if v > 0.0 and simd.log(1.0 - uniform(stream)) < 0.5 * x * x + d - d * v + d * simd.log(v):
            break
    return d * v if alpha >= 1.0 else d * v * math.exp(simd.log(1.0 - uniform(stream)) / alpha)
