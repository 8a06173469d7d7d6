"""Kernels of Hessian-vector products of `Nonbonded`, by positions and by parameters: one pass over explicit pairs.

With D = (1/r) d/dr, the Hessian of a pair energy U(r) takes displacements v_i - v_j = w of two atoms at distance d to
DU w + D^2 U (d.w) d on the first atom, and the negative of this on the second. Parameters that move too add the
derivative of DU along them, times d.
"""

from __future__ import annotations

import math
from typing import Final

from triskele.core.extend import device, kernel

from ...box import minimum_image

__all__ = ["ALPHA", "CUTOFF", "C_RF", "K_RF", "LJ_ALPHA", "N_NUMBERS", "SWITCH", "pair_product", "parameter_product"]

# words of `numbers` (float64)
ALPHA: Final = 0  # splitting parameter of Coulomb, or 0
K_RF: Final = 1  # constant of the reaction field
SWITCH: Final = 2  # distance from which Lennard-Jones is switched off, or 0
CUTOFF: Final = 3
LJ_ALPHA: Final = 4  # splitting parameter of dispersion, or 0
C_RF: Final = 5  # constant by which the reaction field shifts the energy
N_NUMBERS: Final = 6

# columns of an atom's parameters
CHARGE: Final = 0  # times the root of Coulomb's constant
SIZE: Final = 1  # sigma
DEPTH: Final = 2  # sqrt(epsilon)
ROOT: Final = 3  # of C6, for dispersion on a mesh


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
def _switched(u, first, second, r2, switch, cutoff):
    """U, DU and D^2 U times the switch."""
    if switch == 0.0 or r2 <= switch * switch:
        return u, first, second
    inverse2 = 1.0 / r2
    r, width = math.sqrt(r2), cutoff - switch
    x = (r - switch) / width
    s = 1 - x * x * x * (10 - x * (15 - 6 * x))
    d = -30 * x * x * (1 - x) * (1 - x) / (width * r)
    dd = (-60 * x * (1 - x) * (1 - 2 * x) / (width * width) - d) * inverse2
    return s * u, s * first + u * d, s * second + 2 * d * first + u * dd


@device
def _lennard_jones(r2, a, b, switch, cutoff):
    """U, DU and D^2 U of a/r^12 - b/r^6, with the switch."""
    inverse2 = 1.0 / r2
    inverse6 = inverse2 * inverse2 * inverse2
    u, first = (a * inverse6 - b) * inverse6, (6 * b - 12 * a * inverse6) * inverse6 * inverse2
    second = (168 * a * inverse6 - 48 * b) * inverse6 * inverse2 * inverse2
    return _switched(u, first, second, r2, switch, cutoff)


@device
def _add(out, i, j, x, y, z):
    out[i, 0] += x
    out[i, 1] += y
    out[i, 2] += z
    out[j, 0] -= x
    out[j, 1] -= y
    out[j, 2] -= z


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
            _, c1, c2 = _lennard_jones(r2, ca, cb, switch, cutoff)
            first, second = first + c1, second + c2
        if lj_alpha > 0.0:
            c1, c2 = _mesh_dispersion(r2, lj_alpha)
            c6 = roots[i] * roots[j]
            first, second = first + c6 * c1, second + c6 * c2
        wx, wy, wz = v[i, 0] - v[j, 0], v[i, 1] - v[j, 1], v[i, 2] - v[j, 2]
        along = second * (dx * wx + dy * wy + dz * wz)
        _add(out, i, j, first * wx + along * dx, first * wy + along * dy, first * wz + along * dz)


@device
def _product_of(value, first, second, m, qi, qj, ti, tj):
    """An energy q_i q_j U(r), whose distance moves by m = d.w and whose factors by t_i and t_j: its part of DU, the
    derivative of DU along the move, and of both atoms the derivative by the factor, and the move's derivative of it.
    """
    along = qi * qj * second * m + (ti * qj + qi * tj) * first
    return (qi * qj * first, along, qj * value, tj * value + qj * first * m, qi * value, ti * value + qi * first * m)


@device
def _powers(u, k):
    """u^k and u^(2k), with their first and second derivatives."""
    low = u
    for _ in range(k - 3):
        low *= u  # u^(k - 2)
    one, slope, curvature = low * u * u, k * low * u, k * (k - 1) * low
    return one, slope, curvature, one * one, 2 * one * slope, 2 * (slope * slope + one * curvature)


@kernel(nogil=True)
def parameter_product(chunk, pairs, x, v, box, periodic, params, moves, mixing, types, tables, table_moves, numbers,
                      outs, by_atom, by_type):
    """Add derivatives of the chunk's part of all pairs along a move of positions (v) and parameters.

    params, moves (n, 4): parameters of atoms and their moves; mixing 0: arithmetic, 1: geometric, 2: tables (2, t, t)
    of a and b, by types. outs[chunk] (n, 3): the gradient's derivative; by_atom[chunk] (n, 4, 2) and by_type[chunk] (2,
    t, t, 2): of each parameter the energy's derivative, and its derivative along the move.
    """
    alpha, k_rf, c_rf, switch, cutoff, lj_alpha = (numbers[ALPHA], numbers[K_RF], numbers[C_RF], numbers[SWITCH],
                                                   numbers[CUTOFF], numbers[LJ_ALPHA])
    out, slopes, chunks, m = outs[chunk], by_atom[chunk], len(outs), len(pairs)
    end12, end6, end_mesh = 0.0, 0.0, 0.0  # with dispersion on a mesh, energies are 0 at the cut-off
    if lj_alpha > 0.0:
        end6 = cutoff**-6
        end12, end_mesh = end6 * end6, end6 * _screened((lj_alpha * cutoff) ** 2)
    for k in range(chunk * m // chunks, (chunk + 1) * m // chunks):
        i, j = pairs[k, 0], pairs[k, 1]
        dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
        if periodic:
            dx, dy, dz = minimum_image(dx, dy, dz, box)
        r2 = dx * dx + dy * dy + dz * dz
        wx, wy, wz = v[i, 0] - v[j, 0], v[i, 1] - v[j, 1], v[i, 2] - v[j, 2]
        move = dx * wx + dy * wy + dz * wz
        first, along = 0.0, 0.0
        qi, qj, ti, tj = params[i, CHARGE], params[j, CHARGE], moves[i, CHARGE], moves[j, CHARGE]
        if qi != 0.0 or qj != 0.0 or ti != 0.0 or tj != 0.0:
            c1, c2 = _coulomb(r2, alpha, k_rf)
            r = math.sqrt(r2)
            c0 = math.erfc(alpha * r) / r if alpha > 0.0 else 1 / r + k_rf * r2 - c_rf
            f, s, gi, hi, gj, hj = _product_of(c0, c1, c2, move, qi, qj, ti, tj)
            first, along = f, s
            slopes[i, CHARGE, 0] += gi
            slopes[i, CHARGE, 1] += hi
            slopes[j, CHARGE, 0] += gj
            slopes[j, CHARGE, 1] += hj
        ei, ej = params[i, DEPTH], params[j, DEPTH]
        if mixing == 2 or ei * ej != 0.0:
            a0, a1, a2 = _lennard_jones(r2, 1.0, 0.0, switch, cutoff)
            b0, b1, b2 = _lennard_jones(r2, 0.0, 1.0, switch, cutoff)  # negative
            a0, b0 = a0 - end12, b0 + end6
            if mixing == 2:
                p, q = types[i], types[j]
                ca, cb = 0.5 * (tables[0, p, q] + tables[0, q, p]), 0.5 * (tables[1, p, q] + tables[1, q, p])
                ma = 0.5 * (table_moves[0, p, q] + table_moves[0, q, p])
                mb = 0.5 * (table_moves[1, p, q] + table_moves[1, q, p])
                for t, u0, u1 in ((0, a0, a1), (1, b0, b1)):
                    for p, q in ((types[i], types[j]), (types[j], types[i])):
                        by_type[chunk, t, p, q, 0] += 0.5 * u0
                        by_type[chunk, t, p, q, 1] += 0.5 * u1 * move
            else:
                oi, oj, zi, zj = params[i, SIZE], params[j, SIZE], moves[i, SIZE], moves[j, SIZE]
                u, mu, power = 0.5 * (oi + oj), 0.5 * (zi + zj), 6
                if mixing == 1:
                    u, mu, power = oi * oj, zi * oj + oi * zj, 3
                b, b_u, b_uu, a, a_u, a_uu = _powers(u, power)
                e, me = 4 * ei * ej, 4 * (moves[i, DEPTH] * ej + ei * moves[j, DEPTH])
                ca, cb, ma, mb = e * a, e * b, me * a + e * a_u * mu, me * b + e * b_u * mu
                by_u = a_u * a0 + b_u * b0  # for e = 1, like the next
                u_along = (a_uu * a0 + b_uu * b0) * mu + (a_u * a1 + b_u * b1) * move
                by_e, e_along = 4 * (a * a0 + b * b0), 4 * (by_u * mu + (a * a1 + b * b1) * move)
                by_u, u_along = e * by_u, e * u_along + me * by_u
                slopes[i, DEPTH, 0] += by_e * ej
                slopes[j, DEPTH, 0] += by_e * ei
                slopes[i, DEPTH, 1] += e_along * ej + by_e * moves[j, DEPTH]
                slopes[j, DEPTH, 1] += e_along * ei + by_e * moves[i, DEPTH]
                if mixing == 0:
                    slopes[i, SIZE, 0] += 0.5 * by_u
                    slopes[j, SIZE, 0] += 0.5 * by_u
                    slopes[i, SIZE, 1] += 0.5 * u_along
                    slopes[j, SIZE, 1] += 0.5 * u_along
                else:
                    slopes[i, SIZE, 0] += by_u * oj
                    slopes[j, SIZE, 0] += by_u * oi
                    slopes[i, SIZE, 1] += u_along * oj + by_u * zj
                    slopes[j, SIZE, 1] += u_along * oi + by_u * zi
            first += ca * a1 + cb * b1
            along += (ca * a2 + cb * b2) * move + ma * a1 + mb * b1
        if lj_alpha > 0.0:
            c1, c2 = _mesh_dispersion(r2, lj_alpha)
            c0 = _screened(lj_alpha * lj_alpha * r2) / (r2 * r2 * r2) - end_mesh
            f, s, gi, hi, gj, hj = _product_of(c0, c1, c2, move, params[i, ROOT], params[j, ROOT], moves[i, ROOT],
                                               moves[j, ROOT])
            first, along = first + f, along + s
            slopes[i, ROOT, 0] += gi
            slopes[i, ROOT, 1] += hi
            slopes[j, ROOT, 0] += gj
            slopes[j, ROOT, 1] += hj
        _add(out, i, j, first * wx + along * dx, first * wy + along * dy, first * wz + along * dz)
