"""Ryckaert-Bellemans torsions."""

from __future__ import annotations

import math

from .terms import torsion_potential

__all__ = ["ryckaert_bellemans"]


@torsion_potential(name="ryckaert_bellemans")
def ryckaert_bellemans(phi, c0, c1, c2, c3, c4, c5):
    """Ryckaert-Bellemans torsion, u = sum of c_n cos(psi)^n, n = 0 to 5, with psi = phi - pi (0 when trans).

    Parameters
    ----------
    atoms : (m, 4) int
    c0, c1, c2, c3, c4, c5 : float or (m,) array, kJ/mol
        Coefficients of the series.
    name : str, optional

    References
    ----------
    J.-P. Ryckaert and A. Bellemans, Chem. Phys. Lett. 30, 123 (1975).

    Examples
    --------
    >>> from triskele import sponge
    >>> sponge.ryckaert_bellemans([[0, 1, 2, 3]], c0=8.4, c1=16.8, c2=1.1, c3=-26.3, c4=0.0, c5=0.0).name
    'ryckaert_bellemans'
    """
    x = -math.cos(phi)
    return c0 + x * (c1 + x * (c2 + x * (c3 + x * (c4 + x * c5))))


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    chains = [[i, i + 1, i + 2, i + 3] for i in range(9)]
    return [([ryckaert_bellemans(chains, c0=9.3, c1=12.2, c2=-13.1, c3=-3.1, c4=26.2, c5=-31.5)], {})]
