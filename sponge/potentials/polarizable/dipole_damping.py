"""Damping between induced dipoles and charges of different molecules: Thole's, and Tang and Toennies'.

Both take off what `Nonbonded` counts in full between the charges of Drude oscillators. They act between all pairs that
are not among the system's exclusions, and decay so fast that a short cut-off does.
"""

from __future__ import annotations

import math

from ...errors import BoxError
from ...units import COULOMB
from ..pairs.terms import PairPotential, pair_potential

__all__ = ["tang_toennies", "thole_damping"]


@pair_potential
def thole_damping(r, dipole, screening):
    """Thole's damping between all induced dipoles, u = -C dd'/r (1 + s r/2) exp(-s r) [1]_.

    With the Coulomb energy of `Nonbonded`, dipoles interact as in `thole_screening`.

    Parameters
    ----------
    dipole : (n,) array, e
        Charge that belongs to an induced dipole: that of a Drude particle, and its opposite for the particle's atom; 0
        for others. Combined by ``mixing="product"``.
    screening : (n,) array, nm^-1/2
        Square root of the Thole parameter over the sixth root of the polarizability; by "product" as well, so that s
        = t/(alpha alpha')^(1/6).
    cutoff : float, nm
        A periodic box needs one. At 0.7 nm, the energy of a pair with t = 2.6 and polarizabilities of 0.001 nm^3 is
        below 1e-4 kJ/mol.
    switch, shift, mixing, types, name
        As for `PairPotential`.

    References
    ----------
    .. [1] Thole, "Molecular polarizabilities calculated with a modified dipole interaction", Chem. Phys. 59 (1981) 341;
       between molecules: Goloviznina, Canongia Lopes, Costa Gomes, Padua, "Transferable, polarizable force field for
       ionic liquids", J. Chem. Theory Comput. 15 (2019) 5858, equation 5. doi:10.1021/acs.jctc.9b00689

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import thole_damping
    >>> alpha = np.array([0.001, 0.001, 0.0012, 0.0012])  # two atoms, each with its Drude particle
    >>> thole_damping(dipole=[1.7, -1.7, 1.8, -1.8], screening=np.sqrt(2.6) / alpha ** (1 / 6), mixing="product", cutoff=0.7)
    <thole_damping 'thole_damping': dipole (4,), screening (4,)>
    """  # noqa: E501
    x = screening * r
    return -COULOMB * dipole / r * (1 + 0.5 * x) * math.exp(-x)


@pair_potential
def tang_toennies(r, product, b, c):
    """Damping between charges and induced dipoles, u = -C qd/r c exp(-b r) (1 + b r + ... + (b r)^4/4!) [1]_.

    It keeps dipoles from following small charges, such as those of lithium and of hydrogen in hydrogen bonds.

    Parameters
    ----------
    product : (t, t) array, e^2
        By types: the charge of one atom times that of the other's induced dipole (of a Drude particle, or its opposite
        for its atom); 0 where nothing is damped.
    b : float or (t, t) array, 1/nm
        Inverse of the range; 45 in CL&Pol.
    c : float or (t, t) array
        1 for damping to nothing at contact.
    types : (n,) int
        Type of each atom.
    cutoff : float, nm
        A periodic box needs one.
    switch, shift, mixing, name
        As for `PairPotential`.

    References
    ----------
    .. [1] Tang, Toennies, "An improved simple model for the van der Waals potential based on universal damping
       functions for the dispersion coefficients", J. Chem. Phys. 80 (1984) 3726, equation 7; between charges and
       dipoles: Goloviznina, Gong, Costa Gomes, Padua, "Extension of the CL&Pol polarizable force field to electrolytes,
       protic ionic liquids, and deep eutectic solvents", J. Chem. Theory Comput. 17 (2021) 1606.
       doi:10.1021/acs.jctc.0c01002

    Examples
    --------
    >>> from triskele.sponge import tang_toennies
    >>> tang_toennies(product=[[0, 1.7, -1.7], [1.7, 0, 0], [-1.7, 0, 0]], b=45.0, c=1.0, types=[0, 1, 2], cutoff=0.8)
    <tang_toennies 'tang_toennies': product (3, 3), b (), c ()>
    """
    x = b * r
    series = 1 + x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4)))
    return -COULOMB * product / r * c * series * math.exp(-x)


def _check_damping(self, system):
    PairPotential.check(self, system)
    if system.box is not None and self.cutoff is None:
        raise BoxError(
            f"{type(self).__name__} {self.name!r}: cutoff must be given in a periodic box, as without one "
            "pairs have no images"
        )


thole_damping.check = tang_toennies.check = _check_damping


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    alpha = [0.001, 0.001, 0.0012, 0.0012] * 3
    damping = thole_damping(
        dipole=[1.7, -1.7, 1.8, -1.8] * 3,
        screening=[(2.6**3 / a) ** (1 / 6) for a in alpha],
        mixing="product",
        cutoff=0.5,
    )
    series = tang_toennies(
        product=[[0, 1.7, -1.7], [1.7, 0, 0], [-1.7, 0, 0]], b=45.0, c=0.9, types=[0, 1, 2, 0] * 3, cutoff=0.5
    )
    return [([damping, series], {"box": [1.2, 1.3, 1.4]})]
