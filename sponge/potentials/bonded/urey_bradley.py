"""Urey-Bradley terms: springs between the outer atoms of angles."""

from __future__ import annotations

from .terms import bond_potential

__all__ = ["urey_bradley"]


@bond_potential(name="urey_bradley")
def urey_bradley(r, k, r0):
    """Urey-Bradley term, u = k/2 (r - r0)^2 of the distance between the first and the third atom of an angle.

    Parameters
    ----------
    atoms : (m, 2) int
        The outer atoms.
    k : float or (m,) array, kJ/mol/nm^2
        CHARMM writes k (r - r0)^2: take twice its constant.
    r0 : float or (m,) array, nm
        Equilibrium length.
    name : str, optional

    Examples
    --------
    >>> from triskele import sponge
    >>> sponge.urey_bradley([[0, 2]], k=20_000.0, r0=0.22).name
    'urey_bradley'
    """
    return 0.5 * k * (r - r0) ** 2


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    return [([urey_bradley([[0, 2], [3, 1], [2, 4]], k=[5e3, 1e4, 2e4], r0=0.25)], {})]
