"""Harmonic bonds."""

from __future__ import annotations

from triskele.sponge.potentials.terms import bond_potential

__all__ = ["harmonic_bond"]


@bond_potential(name="bond")
def harmonic_bond(r, k, r0):
    """Harmonic bond, u = k/2 (r - r0)^2.

    Parameters
    ----------
    atoms : int array [m, 2]
    k : float or array [m]
        In kJ/mol/nm^2. AMBER and CHARMM write k (r - r0)^2: take twice their constant.
    r0 : float or array [m]
        In nm.

    Examples
    --------
    >>> harmonic_bond([[0, 1]], k=1000.0, r0=0.15)
    <harmonic_bond 'bond': k (1,), r0 (1,)>
    """
    return 0.5 * k * (r - r0) ** 2
