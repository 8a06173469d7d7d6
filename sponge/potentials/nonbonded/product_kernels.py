"""Kernel of the Hessian-vector product of `Nonbonded` by positions: one pass over explicit pairs.

With D = (1/r) d/dr, the Hessian of a pair energy U(r) takes displacements v_i - v_j = w of two atoms at distance d to
DU w + D^2 U (d.w) d on the first atom, and the negative of this on the second.
"""

from __future__ import annotations

import math
from typing import Final

from triskele.core.extend import device, kernel

from ...box import minimum_image

__all__ = ["ALPHA", "CUTOFF", "K_RF", "LJ_ALPHA", "N_NUMBERS", "SWITCH", "pair_product"]

# words of `numbers` (float64)
ALPHA: Final = 0  # splitting parameter of Coulomb, or 0
K_RF: Final = 1  # constant of the reaction field
SWITCH: Final = 2  # distance from which Lennard-Jones is switched off, or 0
CUTOFF: Final = 3
LJ_ALPHA: Final = 4  # splitting parameter of dispersion, or 0
N_NUMBERS: Final = 5


@device
def _coulomb(r2, alpha, k_rf):
    """DU and D^2 U of unit charges."""
    inverse2 = 1.0 / r2
    inverse = math.sqrt(inverse2)
    if alpha == 0.0:
        cube = inverse * inverse2
        return 2.0 * k_rf - cube, 3.0 * cube * inverse2
    z = alpha * r2 * inverse
    gauss = 2.0 * alpha / math.sqrt(math.pi) * math.exp(-z * z)
    first = (math.erfc(z) * inverse + gauss) * inverse2
    return -first, (3.0 * first + 2.0 * alpha * alpha * gauss) * inverse2


@device
def _screened(x):
    """S = 1 - exp(-x) (1 + x + x^2/2)."""
    if x < 0.05:  # three terms cancel: x^3/6 (1 - 3x/4 + 3x^2/10 - ...)
        return x * x * x / 6 * (1 + x * (-3 / 4 + x * (3 / 10 + x * (-1 / 12 + x * (1 / 56 + x * (-1 / 320 + x * (
            1 / 2160 - x / 16800)))))))
    return 1 - math.exp(-x) * (1 + x + 0.5 * x * x)


@device
def _mesh_dispersion(r2, alpha):
    """DU and D^2 U of S(alpha^2 r^2) / r^6, the dispersion that a mesh sums."""
    a2 = alpha * alpha
    x, inverse2 = a2 * r2, 1.0 / r2
    inverse6 = inverse2 * inverse2 * inverse2
    gauss, s = math.exp(-x), _screened(x)
    slope, curvature = 2 * a2 * gauss * x * x / 2, 4 * a2 * a2 * gauss * (x - x * x / 2)
    return (inverse6 * (slope - 6 * inverse2 * s),
            inverse6 * (curvature - 12 * inverse2 * slope + 48 * inverse2 * inverse2 * s))


@device
def _lennard_jones(r2, a, b, switch, cutoff):
    """DU and D^2 U of a/r^12 - b/r^6, with the switch."""
    inverse2 = 1.0 / r2
    inverse6 = inverse2 * inverse2 * inverse2
    u, first = (a * inverse6 - b) * inverse6, (6 * b - 12 * a * inverse6) * inverse6 * inverse2
    second = (168 * a * inverse6 - 48 * b) * inverse6 * inverse2 * inverse2
    if switch > 0.0 and r2 > switch * switch:
        r, width = math.sqrt(r2), cutoff - switch
        x = (r - switch) / width
        s = 1 - x * x * x * (10 - x * (15 - 6 * x))
        d = -30 * x * x * (1 - x) * (1 - x) / (width * r)
        dd = (-60 * x * (1 - x) * (1 - 2 * x) / (width * width) - d) * inverse2
        second = s * second + 2 * d * first + u * dd
        first = s * first + u * d
    return first, second


@kernel(nogil=True)
def pair_product(chunk, pairs, x, v, box, periodic, charges, size, depth, roots, mixing, types, a, b, numbers, outs):
    """Add the product of the Hessian of the chunk's part of all pairs (m, 2) with `v` to outs[chunk] (n, 3).

    charges sqrt(kJ/mol nm); mixing 0 and 1: sigma and sqrt(epsilon) of atoms, arithmetic and geometric, 2: tables a, b
    by types; roots of C6 for dispersion on a mesh.
    """
    alpha, k_rf, switch, cutoff, lj_alpha = (numbers[ALPHA], numbers[K_RF], numbers[SWITCH], numbers[CUTOFF],
                                             numbers[LJ_ALPHA])
    out, chunks, m = outs[chunk], len(outs), len(pairs)
    for k in range(chunk * m // chunks, (chunk + 1) * m // chunks):
        i, j = pairs[k, 0], pairs[k, 1]
        dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
        if periodic:
            dx, dy, dz = minimum_image(dx, dy, dz, box)
        r2 = dx * dx + dy * dy + dz * dz
        first, second = 0.0, 0.0
        qq = charges[i] * charges[j]
        if qq != 0.0:
            c1, c2 = _coulomb(r2, alpha, k_rf)
            first, second = qq * c1, qq * c2
        if mixing == 2:
            ca = 0.5 * (a[types[i], types[j]] + a[types[j], types[i]])
            cb = 0.5 * (b[types[i], types[j]] + b[types[j], types[i]])
        else:
            sigma2 = (0.5 * (size[i] + size[j])) ** 2 if mixing == 0 else size[i] * size[j]
            cb = 4 * depth[i] * depth[j] * sigma2 * sigma2 * sigma2
            ca = cb * sigma2 * sigma2 * sigma2
        if ca != 0.0 or cb != 0.0:
            c1, c2 = _lennard_jones(r2, ca, cb, switch, cutoff)
            first, second = first + c1, second + c2
        if lj_alpha > 0.0:
            c1, c2 = _mesh_dispersion(r2, lj_alpha)
            c6 = roots[i] * roots[j]
            first, second = first + c6 * c1, second + c6 * c2
        wx, wy, wz = v[i, 0] - v[j, 0], v[i, 1] - v[j, 1], v[i, 2] - v[j, 2]
        along = second * (dx * wx + dy * wy + dz * wz)
        gx, gy, gz = first * wx + along * dx, first * wy + along * dy, first * wz + along * dz
        out[i, 0] += gx
        out[i, 1] += gy
        out[i, 2] += gz
        out[j, 0] -= gx
        out[j, 1] -= gy
        out[j, 2] -= gz
