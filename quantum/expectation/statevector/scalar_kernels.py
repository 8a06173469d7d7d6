"""Ops amplitude by amplitude, for sweeps with tangents: slow and simple. They want a program that is not fused."""

import math

import numpy as np

from triskele.core.extend import device, kernel, simd

from ...compile.bits import top
from ...simulators.statevector.engine import align
from .observable_kernels import TILE, apply_tile

__all__ = ["apply", "apply_observable", "coefficients_of", "collect", "place", "top"]


@kernel(nogil=True)
def coefficients_of(starts, indices, factors, constants, recipes, values, angles, coefficients):
    """Angles from values, then coefficients from angles."""
    for i in range(angles.size):
        t = constants[i]
        for k in range(starts[i], starts[i + 1]):
            t += factors[k] * values[indices[k]]
        angles[i] = t
    c = coefficients.view(np.complex128)
    for r in range(recipes.shape[0]):
        kind, out, t, sign = recipes[r, 0], recipes[r, 1] // 2, angles[recipes[r, 2]], recipes[r, 3]
        co, si = math.cos(0.5 * t), sign * math.sin(0.5 * t)
        if kind == 0:
            c[out], c[out + 1], c[out + 2], c[out + 3] = co, -si, si, co
        elif kind == 1:
            c[out], c[out + 1], c[out + 2], c[out + 3] = co, -1j * si, -1j * si, co
        elif kind == 2:
            c[out], c[out + 1] = co - 1j * si, co + 1j * si
        else:
            c[out] = math.cos(t) + 1j * sign * math.sin(t)
            c[out + 1] = c[out]


@device
def apply(op, c, psi, work, undo):
    kind, x, m, v, z, at = op[0], op[2], op[3], op[4], op[5], op[6] // 2
    n = psi.size
    if kind == 0:
        pivot = top(x)
        a, b, cc, d = c[at], c[at + 1], c[at + 2], c[at + 3]
        if undo:
            a, b, cc, d = a.conjugate(), cc.conjugate(), b.conjugate(), d.conjugate()
        free = (n - 1) & ~(m | pivot)
        s = np.int64(0)
        for _ in range(1 << simd.popcount(free)):
            j = s | v
            k = j ^ x
            sign = 1.0 - 2.0 * simd.parity(j & z)
            p, q = psi[j], psi[k]
            psi[j] = a * p + sign * b * q
            psi[k] = sign * cc * p + d * q
            s = (s - free) & free
    elif kind == 1:
        d0, d1 = c[at], c[at + 1]
        if undo:
            d0, d1 = d0.conjugate(), d1.conjugate()
        free = (n - 1) & ~m
        s = np.int64(0)
        for _ in range(1 << simd.popcount(free)):
            j = s | v
            psi[j] *= d1 if simd.parity(j & z) else d0
            s = (s - free) & free
    else:
        size = 1 << op[7]
        free = (n - 1) & ~(m | x)
        s = np.int64(0)
        for _ in range(1 << simd.popcount(free)):
            for i in range(size):
                work[i] = psi[s | v | place(op, i)]
            for i in range(size):
                total = 0j
                for j in range(size):
                    total += (c[at + j * size + i].conjugate() if undo else c[at + i * size + j]) * work[j]
                psi[s | v | place(op, i)] = total
            s = (s - free) & free


@device
def place(op, i):
    """The index i of a DENSE's matrix as bits of amplitudes' indices."""
    j = np.int64(0)
    for b in range(op[7]):
        j |= ((i >> b) & 1) << op[8 + b]
    return j


@device
def collect(op, at, lam, psi, g, scale):
    """Add the cotangents of an op's coefficients: lam after it, psi before it; dE = scale Re <lam|dU psi>."""
    kind, x, m, v, z = op[0], op[2], op[3], op[4], op[5]
    n = psi.size
    if kind == 0:
        free = (n - 1) & ~(m | top(x))
        ga, gb, gc, gd = 0j, 0j, 0j, 0j
        s = np.int64(0)
        for _ in range(1 << simd.popcount(free)):
            j = s | v
            k = j ^ x
            sign = 1.0 - 2.0 * simd.parity(j & z)
            lj, lk, pj, pk = lam[j].conjugate(), lam[k].conjugate(), psi[j], psi[k]
            ga += lj * pj
            gb += sign * lj * pk
            gc += sign * lk * pj
            gd += lk * pk
            s = (s - free) & free
        g[at] += scale * ga
        g[at + 1] += scale * gb
        g[at + 2] += scale * gc
        g[at + 3] += scale * gd
    elif kind == 1:
        free = (n - 1) & ~m
        s = np.int64(0)
        for _ in range(1 << simd.popcount(free)):
            j = s | v
            g[at + simd.parity(j & z)] += scale * lam[j].conjugate() * psi[j]
            s = (s - free) & free
    else:
        size = 1 << op[7]
        free = (n - 1) & ~(m | x)
        s = np.int64(0)
        for _ in range(1 << simd.popcount(free)):
            for i in range(size):
                for j in range(size):
                    g[at + i * size + j] += scale * lam[s | v | place(op, i)].conjugate() * psi[s | v | place(op, j)]
            s = (s - free) & free


@kernel(nogil=True)
def apply_observable(rows, masks, weights, tables, psi, out):
    """out = H psi for complex arrays; returns <psi|H|psi>."""
    lanes = weights.shape[2]
    blocks = max(1, psi.size // lanes)
    whole = np.zeros(4 * blocks * lanes + 8, weights.dtype)
    start = align(whole)
    a, b = whole[start : start + 2 * blocks * lanes], whole[start + 2 * blocks * lanes :]
    for j in range(psi.size):
        at = j // lanes * 2 * lanes + j % lanes
        a[at], a[at + lanes] = psi[j].real, psi[j].imag
    size = min(blocks, TILE)
    total = 0.0
    for base in range(0, blocks, size):
        total += apply_tile(
            base,
            size,
            simd.address(rows, 0),
            0,
            len(rows),
            simd.address(masks, 0),
            simd.address(weights, 0),
            simd.address(tables, 0),
            simd.address(a, 0),
            simd.address(b, 2 * base * lanes),
        )
    for j in range(psi.size):
        at = j // lanes * 2 * lanes + j % lanes
        out[j] = b[at] + 1j * b[at + lanes]
    return total + 0.0 * whole[0]  # it must live till here
