"""Normal numbers for the thermostats: a function of key, step, kind and atom, sixteen atoms at a time.

Box and Muller's transform in float32. Every word of the generator is uniform, so that the transform needs no reduction
of arguments: thirty bits place an angle within a quarter of the circle, two choose the quarter.

References
----------
.. [1] Moshier, "Cephes mathematical library" (1992): minimax polynomials of logf, sinf and cosf.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, philox, simd

__all__ = ["normals"]

_f = np.float32
_LOG = tuple(
    map(
        _f,
        (
            7.0376836292e-2,
            -1.1514610310e-1,
            1.1676998740e-1,
            -1.2420140846e-1,
            1.4249322787e-1,
            -1.6668057665e-1,
            2.0000714765e-1,
            -2.4999993993e-1,
            3.3333331174e-1,
        ),
    )
)
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = _LOG
_S0, _S1, _S2 = map(_f, (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1))
_C0, _C1, _C2 = map(_f, (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2))
_UNIT, _HALF_UNIT = _f(2.0**-32), _f(2.0**-33)
_EIGHTH = _f(np.pi / 4 * 2.0**-31)  # of the circle, over the range of an int32
_ROOT_HALF, _LN2 = _f(np.sqrt(0.5)), _f(np.log(2.0))
_MANTISSA, _ONE_BITS, _SIGN = np.uint32(0x007FFFFF), np.uint32(0x3F000000), np.uint32(0x80000000)
_M0, _M1 = (np.uint64(m) for m in philox.MULTIPLIERS)
_W0, _W1 = (np.uint64(w) for w in philox.WEYL)
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
# sixteen x, then sixteen y, then sixteen z, as x y z x y z ...
_T0, _T1, _T2 = (tuple(16 * (k % 3) + k // 3 for k in range(16 * part, 16 * part + 16)) for part in range(3))


@device(forceinline=True)
def _radius(word):
    """sqrt(-2 ln u), u uniform in (0, 1]."""
    u = simd.fma(simd.convert(word, np.float32), _UNIT, _HALF_UNIT)
    bits = simd.bitcast(u, np.uint32)
    exponent = simd.convert(simd.bitcast(bits >> np.uint32(23), np.int32) - np.int32(126), np.float32)
    m = simd.bitcast((bits & _MANTISSA) | _ONE_BITS, np.float32)  # in [1/2, 1)
    small = m < _ROOT_HALF
    exponent = simd.select(small, exponent - _f(1.0), exponent)
    x = simd.select(small, m + m, m) - _f(1.0)
    z = x * x
    p = simd.fma(simd.fma(simd.fma(simd.fma(x, _L0, _L1), x, _L2), x, _L3), x, _L4)
    p = simd.fma(simd.fma(simd.fma(simd.fma(p, x, _L5), x, _L6), x, _L7), x, _L8)
    log = simd.fma(exponent, _LN2, simd.fma(p * x, z, simd.fma(z, _f(-0.5), x)))
    return simd.sqrt(simd.maximum(log * _f(-2.0), _f(0.0)))


@device(forceinline=True)
def _direction(word):
    """Cosine and sine of a uniform angle."""
    a = simd.convert(simd.bitcast(word << np.uint32(2), np.int32), np.float32) * _EIGHTH
    z = a * a
    s = simd.fma(simd.fma(simd.fma(z, _S0, _S1), z, _S2) * z, a, a)
    c = simd.fma(simd.fma(simd.fma(z, _C0, _C1), z, _C2), z * z, simd.fma(z, _f(-0.5), _f(1.0)))
    swap = (word & np.uint32(0x40000000)) != np.uint32(0)
    sign = word & _SIGN
    x, y = simd.select(swap, s, c), simd.select(swap, c, s)
    return (
        simd.bitcast(simd.bitcast(x, np.uint32) ^ sign, np.float32),
        simd.bitcast(simd.bitcast(y, np.uint32) ^ sign, np.float32),
    )


@device(forceinline=True)
def _round(c0, c1, c2, c3, k0, k1, r):
    """A round of Philox on 64-bit lanes of which the lower halves count; one product gives both halves of a word."""
    p0, p1 = (c0 & _LOW) * _M0, (c2 & _LOW) * _M1
    k0, k1 = (k0 + r * _W0) & _LOW, (k1 + r * _W1) & _LOW
    return (p1 >> _32) ^ c1 ^ k0, p1, (p0 >> _32) ^ c3 ^ k1, p0


@device(forceinline=True)
def _block(first, k0, k1, step, kind):
    """The four words of Philox4x32-10 for eight counters (atom, step, step's upper half, kind), in 64-bit lanes."""
    zero = simd.splat(np.uint64(0), 8)
    c0 = simd.convert(simd.iota(8), np.uint64) + np.uint64(first)
    c1, c2, c3 = zero + step, zero + (step >> _32), zero + np.uint64(kind)
    k0, k1 = np.uint64(k0), np.uint64(k1)
    for r in range(philox.ROUNDS):
        c0, c1, c2, c3 = _round(c0, c1, c2, c3, k0, k1, np.uint64(r))
    return c0, c1, c2, c3


@device(forceinline=True)
def _word(a, b):
    return simd.concat(simd.convert(a, np.uint32), simd.convert(b, np.uint32))


@device(forceinline=True)
def normals(first, k0, k1, step, kind):
    """Three normal numbers for each of sixteen atoms from `first` on: six vectors of float64, as coordinates lie.

    The number for axis a of an atom is a function of the key (k0, k1), step, kind, atom and a. The four words of a
    block give two pairs; three of these numbers are used. None is beyond 6.7 standard deviations.
    """
    a, b = _block(first, k0, k1, step, kind), _block(first + 8, k0, k1, step, kind)
    r, q = _radius(_word(a[0], b[0])), _radius(_word(a[2], b[2]))
    x, y = _direction(_word(a[1], b[1]))
    z, _ = _direction(_word(a[3], b[3]))
    xyz = simd.concat(simd.concat(r * x, r * y), simd.concat(q * z, q * z))
    u, v, w = simd.shuffle(xyz, _T0), simd.shuffle(xyz, _T1), simd.shuffle(xyz, _T2)
    return (
        (
            simd.convert(simd.low(u), np.float64),
            simd.convert(simd.high(u), np.float64),
            simd.convert(simd.low(v), np.float64),
        ),
        (
            simd.convert(simd.high(v), np.float64),
            simd.convert(simd.low(w), np.float64),
            simd.convert(simd.high(w), np.float64),
        ),
    )
