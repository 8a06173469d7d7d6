"""Correction for excluded pairs in the reciprocal sum: a smooth function of the distance, small and near.

-k_e alpha q_i q_j P(alpha^2 r^2) with P(y) = erf(sqrt y)/sqrt y, and for LJ-PME's dispersion lambda^6 c_i c_j
D(lambda^2 r^2) with D(y) = (1 - exp(-y) (1 + y + y^2/2)) / y^3. Up to y = 4 both are polynomials without cancellation,
beyond, their formulas.

A chunk has the pairs of a range of atoms that no pair leaves, so that it writes to those atoms alone.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from triskele.core.extend import device, kernel

from ...box import minimum_image
from ...engine.flags import ENERGY
from ...units import COULOMB

__all__ = ["by_first_atom", "excluded_pairs", "excluded_slopes", "field_of_excluded", "polynomials"]

_DEGREE = 12
_LARGEST = 4.0  # of y for the polynomials
_CHUNK = 1500  # pairs, some 20 us


@cache
def polynomials() -> np.ndarray:
    """Coefficients [4, 13] of P, P', D, D' from the highest power down, relative error below 6e-11 for 0 <= y <= 4."""
    # Taylor series of both with exact coefficients, cut at a degree where they are exact, then economised
    k = np.arange(40)
    factorial = np.array([math.factorial(n) for n in k], float)
    p = 2 / math.sqrt(math.pi) * (-1.0) ** k / (factorial * (2 * k + 1))
    # incomplete gamma function: 1 - exp(-y) (1 + y + y^2/2) = y^3/2 sum (-y)^k / (k! (k + 3))
    d = 0.5 * (-1.0) ** k / (factorial * (k + 3))
    found = []
    for series in (np.polynomial.Polynomial(p), np.polynomial.Polynomial(d)):
        for f in (series, series.deriv()):
            fit = np.polynomial.Chebyshev.interpolate(f, _DEGREE, domain=[0, _LARGEST])
            found.append(fit.convert(kind=np.polynomial.Polynomial).coef[::-1])
    return np.ascontiguousarray(found)


def by_first_atom(exclusions: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs sorted by their first atom, as starts [n + 1] and partners [m], and the chunks' ranges of atoms [chunks +
    1].
    """
    pairs = np.sort(exclusions, axis=1).astype(np.int64).reshape(-1, 2)
    pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    starts = np.searchsorted(pairs[:, 0], np.arange(n + 1))
    reach = np.arange(n)
    np.maximum.at(reach, pairs[:, 0], pairs[:, 1])
    free = np.flatnonzero(np.r_[True, np.maximum.accumulate(reach) < np.arange(1, n + 1)])  # no pair (< a, >= a)
    wanted = np.arange(0, len(pairs), _CHUNK)
    bounds = free[np.searchsorted(free, np.searchsorted(starts, wanted, side="right") - 1)]
    return starts.astype(np.int32), pairs[:, 1].astype(np.int32), np.unique(np.r_[0, bounds, n]).astype(np.int64)


@device(forceinline=True)
def _horner(c, k, y):
    total = c[k, 0]
    for m in range(1, _DEGREE + 1):
        total = total * y + c[k, m]
    return total


@device
def _coulomb_far(y):  # P and P'
    x = math.sqrt(y)
    p = math.erf(x) / x
    return p, 0.5 * (2 / math.sqrt(math.pi) * math.exp(-y) - p) / y


@device
def _dispersion_far(y):  # D and D'
    e = math.exp(-y)
    d = (1 - e * (1 + y + 0.5 * y * y)) / y**3
    return d, (0.5 * e - 3 * d) / y


@kernel(nogil=True)
def excluded_pairs(
    chunk, atoms, starts, partners, positions, charges, roots, box, alpha, lj_alpha, coefficients, forces, rows, flags
):
    """`charges` in sqrt(kJ/mol nm); `roots` [n]: the c_i, only read with `lj_alpha`; `forces` [n, 3] are those of
    these pairs alone.
    """
    wanted = flags[ENERGY] != 0
    energy = wxx = wxy = wxz = wyx = wyy = wyz = wzx = wzy = wzz = 0.0
    first, last = atoms[chunk], atoms[chunk + 1]
    for i in range(first, last):
        for a in range(3):
            forces[i, a] = 0.0
    alpha2, lj2 = alpha * alpha, lj_alpha * lj_alpha
    half_x, half_y, half_z = 0.5 * box[0, 0], 0.5 * box[1, 1], 0.5 * box[2, 2]
    alpha3, lj6 = alpha2 * alpha, lj2 * lj2 * lj2
    for i in range(first, last):
        if starts[i] == starts[i + 1]:
            continue
        x, y, z = positions[i, 0], positions[i, 1], positions[i, 2]
        charge, root = charges[i], roots[i] if lj2 != 0.0 else 0.0
        fx = fy = fz = 0.0
        for k in range(starts[i], starts[i + 1]):
            j = partners[k]
            dx, dy, dz = x - positions[j, 0], y - positions[j, 1], z - positions[j, 2]
            if abs(dx) > half_x or abs(dy) > half_y or abs(dz) > half_z:
                dx, dy, dz = minimum_image(dx, dy, dz, box)
            r2 = dx * dx + dy * dy + dz * dz
            u = alpha2 * r2
            qq = charge * charges[j]
            slope = -qq * alpha3 * (_horner(coefficients, 1, u) if u < _LARGEST else _coulomb_far(u)[1])  # dE/d(r^2)
            if wanted:
                energy -= qq * alpha * (_horner(coefficients, 0, u) if u < _LARGEST else _coulomb_far(u)[0])
            if lj2 != 0.0:
                v = lj2 * r2
                cc = root * roots[j] * lj6
                slope += cc * lj2 * (_horner(coefficients, 3, v) if v < _LARGEST else _dispersion_far(v)[1])
                if wanted:
                    energy += cc * (_horner(coefficients, 2, v) if v < _LARGEST else _dispersion_far(v)[0])
            slope *= -2.0
            gx, gy, gz = slope * dx, slope * dy, slope * dz
            fx += gx
            fy += gy
            fz += gz
            forces[j, 0] -= gx
            forces[j, 1] -= gy
            forces[j, 2] -= gz
            if wanted:
                wxx += gx * dx
                wxy += gx * dy
                wxz += gx * dz
                wyx += gy * dx
                wyy += gy * dy
                wyz += gy * dz
                wzx += gz * dx
                wzy += gz * dy
                wzz += gz * dz
        forces[i, 0] += fx
        forces[i, 1] += fy
        forces[i, 2] += fz
    if wanted:
        for k, w in enumerate((energy, wxx, wxy, wxz, wyx, wyy, wyz, wzx, wzy, wzz)):
            rows[chunk, k] = w


@kernel(nogil=True)
def field_of_excluded(
    chunk, atoms, starts, partners, positions, charges, box, k_rf, c_rf, cutoff2, forces, rows, flags
):
    """As `excluded_pairs`, of q q (k_rf r^2 - c_rf) within the cut-off, and half of it of each atom with itself."""
    row = rows[chunk]
    row[:] = 0.0
    for i in range(atoms[chunk], atoms[chunk + 1]):
        forces[i] = 0.0
    for i in range(atoms[chunk], atoms[chunk + 1]):
        row[0] -= 0.5 * c_rf * charges[i] * charges[i]
        for k in range(starts[i], starts[i + 1]):
            j = partners[k]
            x, y, z = (
                positions[i, 0] - positions[j, 0],
                positions[i, 1] - positions[j, 1],
                positions[i, 2] - positions[j, 2],
            )
            dx, dy, dz = minimum_image(x, y, z, box)
            r2 = dx * dx + dy * dy + dz * dz
            if r2 >= cutoff2:
                continue
            qq = charges[i] * charges[j]
            row[0] += qq * (k_rf * r2 - c_rf)
            d = dx, dy, dz
            for a in range(3):
                f = -2.0 * qq * k_rf * d[a]
                forces[i, a] += f
                forces[j, a] -= f
                if flags[ENERGY]:
                    for b in range(3):
                        row[1 + 3 * a + b] += f * d[b]


@kernel(nogil=True)
def excluded_slopes(chunk, atoms, starts, partners, positions, charges, box, alpha, coefficients, slopes):
    """Add the derivatives of the Coulomb part by the `charges` (e) to `slopes` (kJ/mol/e)."""
    half_x, half_y, half_z = 0.5 * box[0, 0], 0.5 * box[1, 1], 0.5 * box[2, 2]
    for i in range(atoms[chunk], atoms[chunk + 1]):
        for k in range(starts[i], starts[i + 1]):
            j = partners[k]
            dx = positions[i, 0] - positions[j, 0]
            dy = positions[i, 1] - positions[j, 1]
            dz = positions[i, 2] - positions[j, 2]
            if abs(dx) > half_x or abs(dy) > half_y or abs(dz) > half_z:
                dx, dy, dz = minimum_image(dx, dy, dz, box)
            u = alpha * alpha * (dx * dx + dy * dy + dz * dz)
            p = COULOMB * alpha * (_horner(coefficients, 0, u) if u < _LARGEST else _coulomb_far(u)[0])
            slopes[i] -= p * charges[j]
            slopes[j] -= p * charges[i]
