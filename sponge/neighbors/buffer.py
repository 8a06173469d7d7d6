"""Width of the buffers of a neighbor list, and the schedule of its builds and prunes.

Between two builds a pair of atoms may come within the cut-off unseen. Its missing energy, averaged over thermal
displacements, is a drift of the total energy; the buffer is chosen so that an upper estimate of the drift stays below a
tolerance: S. Pall and B. Hess, Comput. Phys. Commun. 184, 2641 (2013), eq. 4-7.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import erfc

from ..units import GAS_CONSTANT

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["SKIN", "STRICT", "TOLERANCE", "Schedule", "drift", "schedule"]

STRICT = 0.1  # nm: width for a list without a schedule, which is rebuilt when an atom has moved by half of it
TOLERANCE = 3e-6  # of a schedule: drift in kJ/mol/ps per atom
SKIN = 0.1  # nm: width for rows, which have no schedule

# Relative costs of work on one cluster pair, measured on water: pair forces, pruning, search; and of sorting one atom,
# which counts for more where pairs are few. Clusters are larger than points: effective radii of spheres are larger by
# about half their width.
_PAIR, _PRUNE, _SEARCH, _SORT, _CLUSTER = 25.0, 9.0, 44.0, 200.0, 0.17
_PER_ATOM = 4 * np.pi / 3 / 32  # cluster pairs of an atom: half of a sphere's, in sixteens
# Standard deviation along one axis of how far hydrogen turns about the atom that it is bound to: in TIP3P water at 300
# K it reaches 0.025 nm after 40 fs and 0.034 nm after 200 fs, measured here; librations do not depend on its mass.
_SWING, _SWING_TEMPERATURE = 0.035, 300.0  # nm, K
_AT_ONCE = 1 << 16  # atoms that are classified together, for the sake of memory


class Schedule(NamedTuple):
    """Radii of the two lists (nm), and force evaluations between builds and between prunings."""

    outer: float
    inner: float
    every: int
    prune_every: int


def drift(
    buffer,  # width, nm
    variance,  # (t, t), of the relative displacement along one axis, nm^2
    slope,  # (t, t), first derivative of the pair energies at the cut-off
    curvature,  # (t, t), second derivative
    cutoff,  # nm
    density,  # (t,), atoms of each type in 1/nm^3
):
    """Return the mean energy per atom, in kJ/mol, of pairs that cross a buffer unseen."""
    s = np.sqrt(variance)
    g = np.exp(-0.5 * (buffer / s) ** 2) / np.sqrt(2 * np.pi)
    e = 0.5 * erfc(buffer / s / np.sqrt(2))
    first = 0.5 * slope * (buffer * s * g - (buffer**2 + variance) * e)
    second = curvature / 6 * (s * (buffer**2 + 2 * variance) * g - buffer * (buffer**2 + 3 * variance) * e)
    per_pair = 4 * np.pi * (cutoff + buffer + s) ** 2 * (first + second)
    return abs(float(0.5 * density @ per_pair @ density / np.sum(density)))


def schedule(engine: Engine, cutoff: float, temperature: float, timestep: float, tolerance: float) -> Schedule:
    """The cheapest radii and intervals within the tolerance (kJ/mol/ps per atom)."""
    # charges of both signs cancel among themselves, but not against dispersion
    spread, density, *terms = _types(engine, cutoff)
    volume_terms = {}

    def radius(life):
        """Return the radius of a list that is used `life` times."""
        if life not in volume_terms:
            time = max(life - 1, 0) * timestep
            free, bound = spread
            v = GAS_CONSTANT * temperature * time**2 * free
            v = v + np.minimum(
                GAS_CONSTANT * temperature * time**2 * bound, _SWING**2 * temperature / _SWING_TEMPERATURE * (bound > 0)
            )
            variance = np.maximum(v[:, None] + v, 1e-12)
            low, high = 0.0, 1.0
            for _ in range(22):
                middle = 0.5 * (low + high)
                missed = sum(drift(middle, variance, slope, curvature, cutoff, density) for slope, curvature in terms)
                if missed > tolerance * max(time, timestep):
                    low = middle
                else:
                    high = middle
            volume_terms[life] = cutoff + high
        return volume_terms[life]

    largest = 0.95 * float(np.min(np.diag(engine.box))) if engine.periodic else np.inf
    sort = _SORT / (_PER_ATOM * float(np.sum(density)))
    best, least = Schedule(radius(2), radius(2), 2, 1), np.inf
    for prune_every in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 20):
        inner = radius(prune_every)
        for builds in (1, 2, 3, 4, 5, 6, 8, 10, 14, 20, 30):
            every = prune_every * builds
            if every > 200:
                break
            outer = max(radius(every), inner)
            if outer > largest:
                break
            cost = (
                _PAIR * (inner + _CLUSTER) ** 3
                + (outer + _CLUSTER) ** 3 * ((_PRUNE / prune_every if builds > 1 else 0.0) + (_SEARCH + _PRUNE) / every)
                + sort / every
            )
            if cost < least:
                best, least = Schedule(outer, inner, every, prune_every), cost
    return best


def _types(engine, cutoff):
    """Kinds of atoms: (1/mass of what moves freely, of what turns about it), density, (V', V'') of each term."""
    masses = engine.masses
    pair_potentials = [p for p in engine.potentials if getattr(p, "cutoff", None) == cutoff]
    nothing = np.zeros(engine.n)
    charges, sigmas, epsilons, slope_q, curvature_q = next(
        (p.at_cutoff() for p in pair_potentials if hasattr(p, "at_cutoff")), (nothing, nothing, nothing, 0.0, 0.0)
    )
    # A light atom bound to a heavier one flies with it, and swings about it.
    carrier = np.arange(engine.n, dtype=np.int32)
    system = engine.system
    for bonds in (system.constraints.pairs, system.topology.bonds, system.drude_pairs):
        for pair in (bonds, bonds[:, ::-1]):
            light = masses[pair[:, 0]] < 0.5 * masses[pair[:, 1]]
            carrier[pair[light, 0]] = pair[light, 1]
    found: dict[tuple, Any] = {}
    for start in range(0, engine.n, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        inverse, of_carrier = (
            np.where(m > 0, 1 / np.where(m > 0, m, 1), 1 / 16) for m in (masses[some], masses[carrier[some]])
        )
        bound = carrier[some] != np.arange(start, start + len(inverse))
        values = charges[some], sigmas[some], epsilons[some]
        rows = np.stack([of_carrier, np.where(bound, inverse, 0), *map(np.round, values, (1, 2, 1))], 1)
        kinds, which, number = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        sums = np.stack([number, *(np.bincount(which.ravel(), w) for w in values)], 1)
        for kind, more in zip(map(tuple, kinds), sums):
            found[kind] = found.get(kind, 0.0) + more
    kinds = np.array(sorted(found)).reshape(-1, 5)
    number, *sums = np.array([found[kind] for kind in map(tuple, kinds)]).reshape(-1, 4).T
    q, sigma, epsilon = (total / number for total in sums)
    if engine.periodic and np.all(np.diag(engine.box) > 0):
        volume = float(np.prod(np.diag(engine.box)))
    else:
        volume = engine.n / 100
    s, e = 0.5 * (sigma[:, None] + sigma), np.sqrt(epsilon[:, None] * epsilon)
    sr6 = (s / cutoff) ** 6
    dispersion = 24 * e * (sr6 - 2 * sr6**2) / cutoff, 24 * e * (26 * sr6**2 - 7 * sr6) / cutoff**2
    electric = q[:, None] * q * slope_q, q[:, None] * q * curvature_q
    others = [tuple(np.full(s.shape, x) for x in p.steepness()) for p in pair_potentials if hasattr(p, "steepness")]
    # turning leaves two of three directions
    return (kinds[:, 0], kinds[:, 1] * 2 / 3), number / volume, dispersion, electric, *others
