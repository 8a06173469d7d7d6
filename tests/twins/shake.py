"""SHAKE and RATTLE: constraints one after the other, again and again (Ryckaert, Ciccotti, Berendsen 1977; Andersen
1983).
"""

import numpy as np


def shake(old, positions, pairs, lengths, inverse_masses, tolerance=1e-13):
    """Positions moved along the bonds of `old` until all constraints hold."""
    x = positions.copy()
    for _ in range(10_000):
        worst = 0.0
        for (i, j), d in zip(pairs, lengths):
            s, r = x[i] - x[j], old[i] - old[j]
            off = s @ s - d * d
            worst = max(worst, abs(off) / (d * d))
            g = off / (2 * (s @ r) * (inverse_masses[i] + inverse_masses[j]))
            x[i] -= g * inverse_masses[i] * r
            x[j] += g * inverse_masses[j] * r
        if worst < tolerance:
            return x
    raise RuntimeError("shake: no convergence")


def rattle(positions, velocities, pairs, inverse_masses, tolerance=1e-13):
    """Velocities without what would change the distances of `pairs`."""
    v = velocities.copy()
    for _ in range(10_000):
        worst = 0.0
        for i, j in pairs:
            r = positions[i] - positions[j]
            off = r @ (v[i] - v[j]) / (r @ r)
            worst = max(worst, abs(off))
            g = off / (inverse_masses[i] + inverse_masses[j])
            v[i] -= g * inverse_masses[i] * r
            v[j] += g * inverse_masses[j] * r
        if worst < tolerance * max(1.0, np.abs(v).max()):
            return v
    raise RuntimeError("rattle: no convergence")
