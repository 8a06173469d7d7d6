"""Loops over eight state vectors at a time, one in each lane of a SIMD vector.

Amplitude j is two vectors: real parts at 16 j, imaginary parts at 16 j + 8. Coefficients are vectors too, since every
trajectory has its own: complex number i of an operation is at c[16 i], c[16 i + 8]. Masks x, m, v, z are those of
`compile.ops`.
"""

import numpy as np

from triskele.core.extend import device, simd, template

from ...compile.bits import top

LANES = 8


@template
def load(p, at):
    """Real and imaginary parts at `p[at]`."""
    return simd.load(p, at, 8), simd.load(p, at + 8, 8)


@template
def store(p, at, re, im):
    """Write real and imaginary parts to `p[at]`."""
    simd.store(p, at, re)
    simd.store(p, at + 8, im)


@device
def pair(p, size, x, m, v, z, c):
    """psi_j, psi_k = a psi_j + s b psi_k, s c psi_j + d psi_k."""
    pivot = top(x)
    free = (size - 1) & ~(m | pivot)
    ar, ai = load(c, 0)
    br, bi = load(c, 16)
    cr, ci = load(c, 32)
    dr, di = load(c, 48)
    rest = 0
    for _ in range(1 << simd.popcount(free)):
        j = rest | v
        k = j ^ x
        ur, ui = load(p, 16 * j)
        wr, wi = load(p, 16 * k)
        if z and simd.parity(j & z):
            store(p, 16 * j, ar * ur - ai * ui - br * wr + bi * wi, ar * ui + ai * ur - br * wi - bi * wr)
            store(p, 16 * k, ci * ui - cr * ur + dr * wr - di * wi, dr * wi + di * wr - cr * ui - ci * ur)
        else:
            store(p, 16 * j, ar * ur - ai * ui + br * wr - bi * wi, ar * ui + ai * ur + br * wi + bi * wr)
            store(p, 16 * k, cr * ur - ci * ui + dr * wr - di * wi, cr * ui + ci * ur + dr * wi + di * wr)
        rest = (rest - free) & free


@device
def swap(p, size, x, m, v):
    """psi_j, psi_k = psi_k, psi_j."""
    pivot = top(x)
    free = (size - 1) & ~(m | pivot)
    rest = 0
    for _ in range(1 << simd.popcount(free)):
        j = 16 * (rest | v)
        k = 16 * ((rest | v) ^ x)
        ur, ui = load(p, j)
        wr, wi = load(p, k)
        store(p, j, wr, wi)
        store(p, k, ur, ui)
        rest = (rest - free) & free


@device
def diagonal(p, size, m, v, z, c):
    """Amplitudes times d0, or d1 where j & z is odd."""
    free = (size - 1) & ~m
    rest = 0
    for _ in range(1 << simd.popcount(free)):
        j = rest | v
        o = 16 * simd.parity(j & z)
        dr, di = load(c, o)
        ur, ui = load(p, 16 * j)
        store(p, 16 * j, dr * ur - di * ui, dr * ui + di * ur)
        rest = (rest - free) & free


@device
def dense(p, size, places, k, m, v, c, work):
    """A matrix on the k bits at places[0:k]; `work` holds 16 * 2**k numbers."""
    x = 0
    for i in range(k):
        x |= 1 << places[i]
    free, count = (size - 1) & ~(m | x), 1 << k
    rest = 0
    for _ in range(1 << simd.popcount(free)):
        j = rest | v
        for i in range(count):
            at = 16 * _spread(j, i, places, k)
            store(work, 16 * i, *load(p, at))
        for row in range(count):
            re, im = simd.splat(0.0, 8), simd.splat(0.0, 8)
            for i in range(count):
                o = 16 * (row * count + i)
                ar, ai = load(c, o)
                ur, ui = load(work, 16 * i)
                re, im = re + ar * ur - ai * ui, im + ar * ui + ai * ur
            at = 16 * _spread(j, row, places, k)
            store(p, at, re, im)
        rest = (rest - free) & free


@device
def _spread(j, i, places, k):
    for b in range(k):
        j |= ((i >> b) & 1) << places[b]
    return j


@device
def reduced_one(p, size, bit, out):
    """Reduced density matrix of a qubit: out[0:8] is rho_00, [8:16] rho_11, [16:24] and [24:32] real and imaginary part
    of rho_10.
    """
    zero, one, re, im = simd.splat(0.0, 8), simd.splat(0.0, 8), simd.splat(0.0, 8), simd.splat(0.0, 8)
    step = 1 << bit
    for high in range(0, size, 2 * step):
        for j in range(high, high + step):
            k = j + step
            ur, ui = load(p, 16 * j)
            wr, wi = load(p, 16 * k)
            zero, one = zero + ur * ur + ui * ui, one + wr * wr + wi * wi
            re, im = re + wr * ur + wi * ui, im + wi * ur - wr * ui
    store(out, 0, zero, one)
    store(out, 16, re, im)


@device
def reduced(p, size, places, k, out):
    """Reduced density matrix of k qubits: rho[a, b] at out[16 (a 2**k + b)], for a >= b."""
    x = 0
    for i in range(k):
        x |= 1 << places[i]
    free, count = (size - 1) & ~x, 1 << k
    for a in range(count):
        for b in range(a + 1):
            re, im = simd.splat(0.0, 8), simd.splat(0.0, 8)
            rest = 0
            for _ in range(1 << simd.popcount(free)):
                j, i = 16 * _spread(rest, a, places, k), 16 * _spread(rest, b, places, k)
                ur, ui = load(p, j)
                wr, wi = load(p, i)
                re, im = re + ur * wr + ui * wi, im + ui * wr - ur * wi
                rest = (rest - free) & free
            store(out, 16 * (a * count + b), re, im)


@device
def draw(p, size, uniform, out):
    """Index of each lane where the sum of its probabilities passes uniform[lane] times their sum; out (8,) float64."""
    total = simd.splat(0.0, 8)
    for j in range(size):
        ur, ui = load(p, 16 * j)
        total = total + ur * ur + ui * ui
    wanted = simd.load(uniform, 0, 8) * total
    below, last = simd.splat(0.0, 8), simd.splat(0.0, 8)
    total = simd.splat(0.0, 8)
    for j in range(size):
        ur, ui = load(p, 16 * j)
        weight = ur * ur + ui * ui
        total = total + weight
        below = simd.select(total <= wanted, simd.splat(np.float64(j + 1), 8), below)
        last = simd.select(weight > 0.0, simd.splat(np.float64(j), 8), last)
    simd.store(out, 0, simd.minimum(below, last))


@device
def expectation(p, size, x, z, out):
    """out[lane] = the real expectation value of the Pauli string (x, z)."""
    total = simd.splat(0.0, 8)
    quarter = simd.popcount(x & z)
    for j in range(size):
        k = j ^ x
        ur, ui = load(p, 16 * j)
        wr, wi = load(p, 16 * k)
        # of conj(psi_k) psi_j: real part, minus imaginary part
        value = ur * wr + ui * wi if quarter & 1 == 0 else ur * wi - ui * wr
        total = total - value if simd.parity(j & z) else total + value
    simd.store(out, 0, -total if quarter & 2 else total)
