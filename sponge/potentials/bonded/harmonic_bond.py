"""Harmonic bonds."""

from __future__ import annotations

import numpy as np

from .terms import bond_potential

__all__ = ["harmonic_bond"]


@bond_potential(name="bond")
def harmonic_bond(r, k, r0):
    """Harmonic bond, u = k/2 (r - r0)^2.

    Parameters
    ----------
    atoms : (m, 2) int
    k : float or (m,) array, kJ/mol/nm^2
        AMBER and CHARMM write k (r - r0)^2: take twice their constant.
    r0 : float or (m,) array, nm
        Equilibrium length.
    name : str, optional

    Examples
    --------
    >>> from triskele.sponge import harmonic_bond
    >>> harmonic_bond([[0, 1]], k=1000.0, r0=0.15)
    <harmonic_bond 'bond': k (1,), r0 (1,)>
    """
    return 0.5 * k * (r - r0) ** 2


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    k, r0 = np.linspace(1e4, 3e5, 11), np.linspace(0.1, 0.16, 11)
    bonds = np.stack([np.arange(11), np.arange(1, 12)], axis=1)
    boxes = None, [[0.9, 0, 0], [0.2, 0.8, 0], [-0.1, 0.3, 0.9]]
    return [([harmonic_bond(bonds, k=k, r0=r0)], {"box": box}) for box in boxes]
