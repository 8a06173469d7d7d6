"""Bonded terms of GROMACS that other force fields do not have (its reference manual, "Bonded interactions")."""

from __future__ import annotations

import math

import numpy as np

from ..pairs.formulas import twelve_six
from .terms import angle_potential, bond_potential, torsion_potential

__all__ = [
    "cubic_bond",
    "fene_bond",
    "g96_angle",
    "g96_bond",
    "lennard_jones_pair",
    "morse_bond",
    "quartic_angle",
    "restraint_bond",
    "restricted_angle",
    "restricted_torsion",
]


@bond_potential
def g96_bond(r, k, r0):
    """Bond of GROMOS-96, u = k/4 (r^2 - r0^2)^2; k in kJ/mol/nm^4, r0 in nm."""
    return 0.25 * k * (r * r - r0 * r0) ** 2


@bond_potential
def morse_bond(r, depth, beta, r0):
    """Morse bond, u = depth (1 - exp(-beta (r - r0)))^2; depth in kJ/mol, beta in 1/nm, r0 in nm."""
    return depth * (1 - math.exp(-beta * (r - r0))) ** 2


@bond_potential
def cubic_bond(r, k, cubic, r0):
    """Cubic bond, u = k (r - r0)^2 + k cubic (r - r0)^3; k in kJ/mol/nm^2, cubic in 1/nm, r0 in nm."""
    return k * (r - r0) ** 2 * (1 + cubic * (r - r0))


@bond_potential
def fene_bond(r, k, longest):
    """Bond of finite extensibility, u = -k/2 b^2 log(1 - r^2/b^2) with b = longest; k in kJ/mol/nm^2, b in nm."""
    return -0.5 * k * longest * longest * math.log(1 - (r / longest) ** 2)


@bond_potential
def restraint_bond(r, k, lower, upper, linear):
    """Spring below `lower` and above `upper`, linear above `linear`; k in kJ/mol/nm^2, distances in nm."""
    below, above = max(lower - r, 0.0), min(max(r - upper, 0.0), linear - upper)
    return 0.5 * k * (below * below + above * above) + k * (linear - upper) * max(r - linear, 0.0)


@bond_potential
def lennard_jones_pair(r, c6, c12):
    """Lennard-Jones energy of given pairs, u = c12/r^12 - c6/r^6, where one of both may be zero."""
    return twelve_six(1 / r**6, c12, c6)


@angle_potential
def g96_angle(theta, k, theta0):
    """Angle of GROMOS-96, u = k/2 (cos(theta) - cos(theta0))^2; k in kJ/mol."""
    return 0.5 * k * (math.cos(theta) - math.cos(theta0)) ** 2


@angle_potential
def restricted_angle(theta, k, theta0):
    """Restricted bending, u = k/2 (cos(theta) - cos(theta0))^2 / sin(theta)^2; k in kJ/mol.

    M. Bulacu et al., J. Chem. Theory Comput. 9, 3282 (2013).
    """
    return 0.5 * k * ((math.cos(theta) - math.cos(theta0)) / math.sin(theta)) ** 2


@angle_potential
def quartic_angle(theta, theta0, c0, c1, c2, c3, c4):
    """Quartic angle, u = sum of c_n (theta - theta0)^n, n = 0 to 4; c_n in kJ/mol/rad^n."""
    x = theta - theta0
    return c0 + x * (c1 + x * (c2 + x * (c3 + x * c4)))


@torsion_potential
def restricted_torsion(phi, k, phi0):
    """Restricted torsion, u = k/2 (cos(phi) - cos(phi0))^2 / sin(phi)^2; k in kJ/mol."""
    return 0.5 * k * ((math.cos(phi) - math.cos(phi0)) / math.sin(phi)) ** 2


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    bonds = np.stack([np.arange(11), np.arange(1, 12)], axis=1)
    angles, chains = ([[*range(i, i + k)] for i in range(9)] for k in (3, 4))
    return [
        ([potential], {})
        for potential in (
            g96_bond(bonds, k=1e5, r0=0.14),
            morse_bond(bonds, depth=400.0, beta=20.0, r0=0.14),
            cubic_bond(bonds, k=1e4, cubic=-2.0, r0=0.14),
            fene_bond(bonds, k=1e4, longest=2.0),
            restraint_bond(bonds, k=1e3, lower=0.1, upper=0.2, linear=0.25),
            lennard_jones_pair(bonds, c6=1e-4, c12=1e-7),
            g96_angle(angles, k=400.0, theta0=1.9),
            restricted_angle(angles, k=10.0, theta0=1.9),
            quartic_angle(angles, theta0=1.9, c0=1.0, c1=2.0, c2=200.0, c3=-30.0, c4=10.0),
            restricted_torsion(chains, k=1.0, phi0=2.0),
        )
    ]
