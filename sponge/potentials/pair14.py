"""Interactions of atoms three bonds apart, which have charges and Lennard-Jones parameters of their own."""

from __future__ import annotations

import numpy as np

from ..units import COULOMB
from .terms import bond_potential

__all__ = ["pair14"]


@bond_potential(name="pair14")
def pair14(r, charge_product, sigma, epsilon):
    """Coulomb and Lennard-Jones energy of given pairs, u = C qq/r + 4 epsilon ((sigma/r)^12 - (sigma/r)^6), without
    cut-off.

    The pairs must also be among the system's exclusions, or Nonbonded counts them a second time.

    Parameters
    ----------
    atoms : int array [m, 2]
    charge_product : float or array [m]
        In e^2, scaling included.
    sigma : float or array [m]
        In nm.
    epsilon : float or array [m]
        In kJ/mol, scaling included.
    name : str, optional
    """
    attraction = (sigma / r) ** 6
    return COULOMB * charge_product / r + 4 * epsilon * (attraction * attraction - attraction)


def example():
    """Systems for `testing`."""
    from ..testing.potential import example_system

    pairs = [[i, i + 3] for i in range(9)]
    return example_system(pair14(pairs, charge_product=np.linspace(-0.2, 0.2, 9), sigma=np.linspace(0.2, 0.3, 9),
                                 epsilon=0.4))
