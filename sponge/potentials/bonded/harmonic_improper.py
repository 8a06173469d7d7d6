"""Harmonic improper torsions."""

from __future__ import annotations

import math

import numpy as np

from .terms import torsion_potential

__all__ = ["harmonic_improper"]


@torsion_potential(name="improper")
def harmonic_improper(phi, k, phi0):
    """Harmonic improper torsion, u = k/2 (phi - phi0)^2, the difference taken into [-pi, pi].

    Parameters
    ----------
    atoms : (m, 4) int
        The torsion angle is that of the chain of the four.
    k : float or (m,) array, kJ/mol/rad^2
        CHARMM writes k (phi - phi0)^2: take twice its constant.
    phi0 : float or (m,) array, radians
        Equilibrium dihedral angle.
    name : str, optional

    Examples
    --------
    >>> from triskele import sponge
    >>> sponge.harmonic_improper([[0, 1, 2, 3]], k=40.0, phi0=0.0).name
    'improper'
    """
    d = phi - phi0
    return 0.5 * k * (d - 2 * math.pi * np.rint(d / (2 * math.pi))) ** 2


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    chains = [[i, i + 1, i + 2, i + 3] for i in range(9)]
    return [([harmonic_improper(chains, k=np.linspace(20.0, 90.0, 9), phi0=np.linspace(-3.0, 3.0, 9))], {})]
