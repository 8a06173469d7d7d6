"""The attraction between ions and the dipoles that they induce, as in 12-6-4 models of ions."""

from __future__ import annotations

from .terms import pair_potential

__all__ = ["ion_dipole"]


@pair_potential
def ion_dipole(r, c):
    """Attraction of an ion and the dipole that it induces, u = -c / r^4, which makes 12-6 a 12-6-4 potential [1]_.

    Parameters
    ----------
    c : (t, t) array, kJ/mol nm^4
        Table by `types` of both atoms, 0 for pairs without ions. `load` reads it from the section
        LENNARD_JONES_CCOEF of AMBER's topologies.
    cutoff : float, nm
        That of `Nonbonded`.
    switch, shift, mixing, types, name
        As for `PairPotential`.

    References
    ----------
    .. [1] Li and Merz, "Taking into account the ion-induced dipole interaction in the nonbonded model of ions", J.
       Chem. Theory Comput. 10 (2014) 289. doi:10.1021/ct400751u

    Examples
    --------
    >>> from triskele.sponge import ion_dipole
    >>> ion_dipole(c=[[0.0, 0.05], [0.05, 0.0]], types=[0, 1, 1], cutoff=0.9)  # magnesium and two oxygens
    <ion_dipole 'ion_dipole': c (2, 2)>
    """
    return -c / (r * r * r * r)


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    types = [0, 1, 1, 2] * 3
    return [
        (
            [ion_dipole(c=[[0, 0.05, 0.01], [0.05, 0, 0], [0.01, 0, 0]], types=types, cutoff=0.5)],
            {"box": [1.2, 1.3, 1.4]},
        )
    ]
