"""The mean Lennard-Jones energy of marked atoms beyond the cut-off, for soft cores."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ..potentials.pairs.formulas import fade

__all__ = ["jump", "tail"]

_POINTS = 32


@cache
def _rule(cutoff: float, switch: float | None) -> tuple[np.ndarray, np.ndarray]:
    """Distances and weights of the integral of u(r) r^2 beyond the cut-off, and of what the switch takes away."""
    x, w = np.polynomial.legendre.leggauss(_POINTS)
    t, w = 0.5 * (x + 1), 0.5 * w
    r, weight = cutoff / t, w * cutoff**3 / t**4  # r = cutoff / t maps to the unit interval
    if switch is not None:
        inner = switch + (cutoff - switch) * t
        lost = w * (cutoff - switch) * (1 - fade(t)) * inner**2
        r, weight = np.concatenate([r, inner]), np.concatenate([weight, lost])
    return r, weight


def tail(
    core: Any,
    cutoff: float,
    switch: float | None,
    n: int,
    sigma: Any,
    epsilon: Any,
    lam: Any,  # of each pair; lambda of sterics
    count: Any = 1.0,
) -> Any:  # number of such pairs
    """Return the energy beyond the cut-off, times the volume, of pairs of marked atoms with others.

    Each of the n (n + 1) / 2 pairs of the n atoms of the system counts as in `Nonbonded`, whose tail this completes.
    """
    r, weight = _rule(cutoff, switch)
    u = core.lennard_jones(r**2, sigma[..., None], epsilon[..., None], lam)
    return 4 * np.pi * n / (n + 1) * np.sum(np.sum(u * weight, axis=-1) * count)


def jump(
    core: Any, cutoff: float, switch: float | None, n: int, sigma: Any, epsilon: Any, lam: Any, count: Any = 1.0
) -> float:
    """Contribution of the step of these energies at the cut-off to the pressure, times the volume squared."""
    if switch is not None:
        return 0.0
    u = core.lennard_jones(np.float64(cutoff**2), sigma, epsilon, lam)
    return float(4 * np.pi / 3 * n / (n + 1) * cutoff**3 * np.sum(u * count))
