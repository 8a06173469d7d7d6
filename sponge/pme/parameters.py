"""Order of the splines of PME; splitting parameter, grid and number of wave vectors of Ewald sums from an error
tolerance, by OpenMM's rules.

Source: OpenMM user guide, section "Coulomb interaction with Ewald summation / particle mesh Ewald".
"""

from __future__ import annotations

import math

import numpy as np

__all__ = ["ORDER", "ORDERS", "splitting", "grid_size", "wave_vectors"]

ORDERS = (4, 5, 6)  # of the splines of PME
ORDER = 5  # the default


def splitting(cutoff: float, tolerance: float) -> float:
    """alpha = sqrt(-ln(2 tolerance)) / cutoff, in 1/nm: erfc(alpha cutoff) is near the tolerance."""
    return math.sqrt(-math.log(2 * tolerance)) / cutoff


def grid_size(box: np.ndarray, alpha: float, tolerance: float, dispersion: bool = False) -> tuple[int, int, int]:
    """Smallest PME grid for splines of order 5: 2 alpha L / (3 tolerance^(1/5)); half that density for dispersion."""
    factor = (1 if dispersion else 2) * alpha / (3 * tolerance**0.2)
    n = [max(6, math.ceil(factor * box[k, k])) for k in range(3)]
    return n[0], n[1], n[2]


def wave_vectors(box: np.ndarray, alpha: float, tolerance: float) -> tuple[int, int, int]:
    """Number of wave vectors on each side of zero in a plain Ewald sum, zero included (odd).

    The smallest k with k sqrt(L alpha) / 20 exp(-(pi k / (L alpha))^2) < tolerance, made odd; the sum runs over
    |n| < k.
    """
    found = []
    for d in range(3):
        width = box[d, d] * alpha
        error = lambda k, width=width: 0.05 * math.sqrt(width) * k * math.exp(-((math.pi * k / width) ** 2)) - tolerance
        k = 10
        if error(k) < 0:  # go down to the first that is too few, and one back
            while error(k) < 0 and k > 0:
                k -= 1
            k += 1
        else:
            while error(k) > 0:
                k += 1
        found.append(k + 1 if k % 2 == 0 else k)
    return found[0], found[1], found[2]
