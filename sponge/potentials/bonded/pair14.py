"""Interactions of atoms three bonds apart, which have charges and Lennard-Jones parameters of their own."""

from __future__ import annotations

import numpy as np

from ...units import COULOMB
from ..pairs.formulas import twelve_six
from .terms import bond_potential

__all__ = ["pair14"]


@bond_potential(name="pair14")
def pair14(r, charge_product, sigma, epsilon):
    """Coulomb and Lennard-Jones energy of given pairs, u = C qq/r + 4 epsilon ((sigma/r)^12 - (sigma/r)^6), without
    cut-off.

    The pairs must also be among the system's exclusions, or Nonbonded counts them a second time.

    Parameters
    ----------
    atoms : (m, 2) int
    charge_product : float or (m,) array, e^2
        Scaling is included.
    sigma : float or (m,) array, nm
        Diameter.
    epsilon : float or (m,) array, kJ/mol
        Scaling is included.
    name : str, optional

    Examples
    --------
    >>> from triskele import sponge
    >>> sponge.pair14([[0, 3]], charge_product=0.01, sigma=0.3, epsilon=0.2).name
    'pair14'
    """
    return COULOMB * charge_product / r + twelve_six((sigma / r) ** 6, 4 * epsilon, 4 * epsilon)


pair14.enhanced = True


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    pairs = [[i, i + 3] for i in range(9)]
    charges, sigma = np.linspace(-0.2, 0.2, 9), np.linspace(0.2, 0.3, 9)
    return [([pair14(pairs, charge_product=charges, sigma=sigma, epsilon=0.4)], {})]
