"""The sweeps with tangents (dual numbers): derivatives of values and of gradients along a direction, amplitude by
amplitude.
"""

import math

import numpy as np

from triskele.core.extend import device, kernel, simd

from ...compile.bits import top
from .scalar_kernels import apply, collect, place

__all__ = ["backward_dual", "forward_dual", "pull_recipes_dual", "push_recipes"]


@kernel(nogil=True)
def push_recipes(recipes, angles, d_angles, d_coefficients):
    """Tangents of coefficients from those of angles; those that no recipe makes stay as they are."""
    d = d_coefficients.view(np.complex128)
    for r in range(recipes.shape[0]):
        kind, out, sign = recipes[r, 0], recipes[r, 1] // 2, recipes[r, 3]
        t, dt = angles[recipes[r, 2]], d_angles[recipes[r, 2]]
        co, si = 0.5 * dt * math.cos(0.5 * t), 0.5 * dt * math.sin(0.5 * t)
        if kind == 0:
            d[out], d[out + 1], d[out + 2], d[out + 3] = -si, -sign * co, sign * co, -si
        elif kind == 1:
            d[out], d[out + 1], d[out + 2], d[out + 3] = -si, -1j * sign * co, -1j * sign * co, -si
        elif kind == 2:
            d[out], d[out + 1] = -si - 1j * sign * co, -si + 1j * sign * co
        else:
            d[out] = dt * (-math.sin(t) + 1j * sign * math.cos(t))
            d[out + 1] = d[out]


@kernel(nogil=True)
def pull_recipes_dual(recipes, angles, d_angles, g, d_g, out_angles):
    """Tangents of the angles' cotangents, added to `out_angles`."""
    gc, dc = g.view(np.complex128), d_g.view(np.complex128)
    for r in range(recipes.shape[0]):
        kind, out, source, sign = recipes[r, 0], recipes[r, 1] // 2, recipes[r, 2], recipes[r, 3]
        t, dt = angles[source], d_angles[source]
        co, si = math.cos(0.5 * t), math.sin(0.5 * t)
        if kind <= 1:
            even, d_even = gc[out].real + gc[out + 3].real, dc[out].real + dc[out + 3].real
            if kind == 0:
                odd, d_odd = gc[out + 2].real - gc[out + 1].real, dc[out + 2].real - dc[out + 1].real
            else:
                odd, d_odd = gc[out + 2].imag + gc[out + 1].imag, dc[out + 2].imag + dc[out + 1].imag
            out_angles[source] += 0.5 * (sign * co * d_odd - si * d_even) - 0.25 * dt * (sign * si * odd + co * even)
        elif kind == 2:  # Re(G exp(-i s t/2) (-i s/2)) and its derivative
            u = (co - 1j * sign * si) * (-0.5j * sign)
            w = u.conjugate()
            out_angles[source] += (dc[out] * u + dc[out + 1] * w).real
            out_angles[source] += dt * (gc[out] * u * (-0.5j * sign) + gc[out + 1] * w * (0.5j * sign)).real
        else:
            u = (math.cos(t) + 1j * sign * math.sin(t)) * 1j * sign
            out_angles[source] += ((dc[out] + dc[out + 1]) * u + dt * (gc[out] + gc[out + 1]) * u * 1j * sign).real


@device
def add(op, d, psi, out, factor, undo):
    """out += factor * dU psi, or dU^dagger; dU is zero where the op does nothing."""
    kind, x, m, v, z, at = op[0], op[2], op[3], op[4], op[5], op[6] // 2
    n = psi.size
    s = np.int64(0)
    if kind == 0:
        free = (n - 1) & ~(m | top(x))
        a, b, c, e = d[at], d[at + 1], d[at + 2], d[at + 3]
        if undo:
            a, b, c, e = a.conjugate(), c.conjugate(), b.conjugate(), e.conjugate()
        for _ in range(1 << simd.popcount(free)):
            j = s | v
            k = j ^ x
            sign = factor * (1.0 - 2.0 * simd.parity(j & z))
            out[j] += factor * a * psi[j] + sign * b * psi[k]
            out[k] += sign * c * psi[j] + factor * e * psi[k]
            s = (s - free) & free
    elif kind == 1:
        free = (n - 1) & ~m
        for _ in range(1 << simd.popcount(free)):
            j = s | v
            e = d[at + simd.parity(j & z)]
            out[j] += factor * (e.conjugate() if undo else e) * psi[j]
            s = (s - free) & free
    else:
        size = 1 << op[7]
        free = (n - 1) & ~(m | x)
        for _ in range(1 << simd.popcount(free)):
            for i in range(size):
                total = 0j
                for j in range(size):
                    e = d[at + j * size + i].conjugate() if undo else d[at + i * size + j]
                    total += e * psi[s | v | place(op, j)]
                out[s | v | place(op, i)] += factor * total
            s = (s - free) & free


@kernel(nogil=True)
def forward_dual(ops, wanted, coefficients, d_coefficients, psi, d_psi):
    """All ops on psi, and on its tangent."""
    c, d = coefficients.view(np.complex128), d_coefficients.view(np.complex128)
    work = np.empty(256, np.complex128)
    for k in range(ops.shape[0]):
        apply(ops[k], c, d_psi, work, False)
        if wanted[k]:
            add(ops[k], d, psi, d_psi, 1.0, False)
        apply(ops[k], c, psi, work, False)


@kernel(nogil=True)
def backward_dual(ops, wanted, coefficients, d_coefficients, psi, d_psi, lam, d_lam, g, d_g):
    """Undo all ops on psi, lambda and their tangents, in place; g and d_g gain the coefficients' cotangents and their
    tangents, dE = 2 Re <lam|d psi>.
    """
    c, d = coefficients.view(np.complex128), d_coefficients.view(np.complex128)
    gc, dgc = g.view(np.complex128), d_g.view(np.complex128)
    work = np.empty(256, np.complex128)
    for k in range(ops.shape[0] - 1, -1, -1):
        op = ops[k]
        apply(op, c, psi, work, True)
        if wanted[k]:
            add(op, d, psi, d_psi, -1.0, False)
        apply(op, c, d_psi, work, True)
        if wanted[k]:
            at = op[6] // 2
            collect(op, at, lam, psi, gc, 2.0)
            collect(op, at, d_lam, psi, dgc, 2.0)
            collect(op, at, lam, d_psi, dgc, 2.0)
        apply(op, c, d_lam, work, True)
        if wanted[k]:
            add(op, d, lam, d_lam, 1.0, True)
        apply(op, c, lam, work, True)
