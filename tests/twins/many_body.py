"""Many-body potentials the slow and obvious way: loops over atoms, units of the files (eV, Angstrom)."""

import itertools
import math

import numpy as np


def neighbors(positions, box, cutoff):
    """For each atom, the list of (j, vector to j's image) closer than the cut-off."""
    turns = [(0, 0, 0)] if box is None else list(itertools.product((-1, 0, 1), repeat=3))
    found = []
    for i, x in enumerate(positions):
        near = []
        for j, y in enumerate(positions):
            for turn in turns:
                d = y - x if box is None else y - x + np.array(turn) @ box
                if (j != i or any(turn)) and math.dist(d, (0, 0, 0)) < cutoff:
                    near.append((j, d))
        found.append(near)
    return found


def spline(values, spacing, x):
    """Value at x of the table: a cubic polynomial with the given slopes at both ends, as SciPy makes it."""
    from scipy.interpolate import CubicHermiteSpline

    slopes = [values[1] - values[0], (values[2] - values[0]) / 2,
              *[(values[k - 2] - 8 * values[k - 1] + 8 * values[k + 1] - values[k + 2]) / 12
                for k in range(2, len(values) - 2)],
              (values[-1] - values[-3]) / 2, values[-1] - values[-2]]
    k = min(int(x / spacing), len(values) - 2)
    if x / spacing > k + 1:
        return values[-1] + slopes[-1] * (x / spacing - k - 1)
    return float(CubicHermiteSpline([0, 1], values[k : k + 2], slopes[k : k + 2])(x / spacing - k))


def eam(types, embedding, density, pair, drho, dr, cutoff, positions, box):
    """Energy of the embedded-atom method from its tables, with the shapes that `EAM` has."""
    energy = 0.0
    for i, near in enumerate(neighbors(positions, box, cutoff)):
        total = 0.0
        for j, d in near:
            r, a, b = math.dist(d, (0, 0, 0)), max(types[i], types[j]), min(types[i], types[j])
            table = density[types[j]] if density.ndim == 2 else density[types[j], types[i]]
            total += spline(table, dr, r)
            energy += 0.5 * spline(pair[a * (a + 1) // 2 + b], dr, r) / r
        energy += spline(embedding[types[i]], drho, total)
    return energy
