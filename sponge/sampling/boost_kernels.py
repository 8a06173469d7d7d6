"""Kernels of accelerated dynamics: boosts and factors of forces, records, parameters of GaMD."""

from __future__ import annotations

import math

from triskele.core.extend import device, kernel

from ..engine.flags import STEP

__all__ = ["adapt", "boost", "gaussian_parameters", "record"]

# A factor of forces that is 0 in the energy split, which divides by it.
_NEARLY_ZERO = 1e-100


@device
def _energy(c, energies):
    """All of the energy (0), or that of the torsions (1), from those of all other terms and of the torsions."""
    return energies[0] + energies[1] if c == 0 else energies[1]


@kernel(nogil=True)
def boost(_chunk, harmonic, energies, numbers, scales, boosts, row):
    """Boosts [2] of all of the energy and of the torsions, their sum, and the factors of both parts of the forces.

    numbers [2, 2] are the threshold and k of a `harmonic` boost, or the threshold and alpha.
    """
    factor, row[0, 0] = 1.0, 0.0
    for c in range(2):
        below, strength = numbers[c, 0] - _energy(c, energies), numbers[c, 1]
        boosts[c] = 0.0
        if below > 0.0:
            if harmonic:
                boosts[c] = 0.5 * strength * below * below
                factor -= strength * below
            else:
                boosts[c] = below * below / (strength + below)
                factor += (strength / (strength + below)) ** 2 - 1.0
        scales[c] = factor
        row[0, 0] += boosts[c]
    if scales[1] == 0.0:
        scales[1] = _NEARLY_ZERO


@kernel(nogil=True)
def record(_chunk, flags, ahead, every, energies, boosts, mark, buffer, count):
    """Keep number, energies and boosts of every n-th state; `mark` [1] is the last one that was looked at."""
    state = flags[STEP] + ahead
    if state % every or state == mark[0]:  # again, since a later phase of the step had failed
        return
    mark[0] = state
    row = buffer[count[0]]
    row[0] = state
    for c in range(2):
        row[1 + c], row[3 + c] = _energy(c, energies), boosts[c]
    count[0] += 1


@kernel
def gaussian_parameters(upper, sigma0, highest, lowest, mean, deviation):
    """Threshold and k of GaMD from the statistics of an energy; no boost while it has not varied."""
    span = highest - lowest
    if not (span > 0.0 and deviation > 0.0):
        return -math.inf, 0.0
    if upper:
        k0 = (1.0 - sigma0 / deviation) * span / (mean - lowest)
        if not 0.0 < k0 <= 1.0:
            k0 = 1.0
        return lowest + span / k0, k0 / span
    return highest, min(1.0, sigma0 / deviation * span / (highest - mean)) / span


@kernel(nogil=True)
def adapt(_chunk, flags, ahead, stages, upper, sigma0, energies, seen, statistics, numbers):
    """Take the state into the statistics, and set thresholds and k.

    stages [3] are the states of each stage that are left out, those without and those with an adaptive boost; seen [2]
    counts the states and marks the last one; statistics [2, 5] are number, highest, lowest, mean and the sum of squared
    deviations (Welford, Technometrics 4 (1962) 419).
    """
    state = flags[STEP] + ahead
    if state == seen[1]:
        return
    n, seen[1] = seen[0], state
    seen[0] += 1
    if n >= stages[1] + stages[2]:
        return
    if (n if n < stages[1] else n - stages[1]) >= stages[0]:
        for c in range(2):
            v, s = _energy(c, energies), statistics[c]
            s[0] += 1.0
            s[1], s[2] = max(s[1], v), min(s[2], v)
            away = v - s[3]
            s[3] += away / s[0]
            s[4] += away * (v - s[3])
    if n + 1 >= stages[1]:
        for c in range(2):
            if sigma0[c] > 0.0:
                s = statistics[c]
                numbers[c, 0], numbers[c, 1] = gaussian_parameters(
                    upper, sigma0[c], s[1], s[2], s[3], math.sqrt(s[4] / s[0])
                )
