"""Function types of GROMACS topologies: how many parameters each has, and which of our terms it becomes.

Formulas and units are those of GROMACS's reference manual, "Topologies", table of interaction types.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import NamedTuple

__all__ = [
    "ANGLES",
    "ANGLE_RESTRAINTS",
    "BONDS",
    "CONSTRAINTS",
    "DIHEDRALS",
    "DIHEDRAL_RESTRAINTS",
    "NAMES",
    "Z_ANGLE_RESTRAINTS",
    "Function",
    "Term",
]

DEGREE = pi / 180
DISRE_FC = 1000.0  # kJ/mol/nm^2, of distance restraints: the default of the run's settings


class Term(NamedTuple):
    """One of our terms: its kind, which atoms of the line it joins (all by default), and its parameters."""

    kind: str
    values: tuple[float, ...]
    places: tuple[int, ...] | None = None


class Function(NamedTuple):
    """One function type of a section."""

    count: int  # of parameters
    convert: Callable[..., list[Term]]
    bond: bool = False  # joins the atoms chemically, so that near neighbors are excluded
    types: str = ""  # function type under which parameters are listed, if another


def _terms(kind: str, order: str, angles: str = "") -> Callable[..., list[Term]]:
    """A conversion that reorders the file's parameters: digits are places in the file, `angles` those in degrees."""
    return lambda *p: [Term(kind, tuple(p[int(k)] * (DEGREE if k in angles else 1.0) for k in order))]


def _urey_bradley(theta0: float, k: float, r0: float, k_ub: float) -> list[Term]:
    return [Term("angle", (k, theta0 * DEGREE)), Term("urey_bradley", (k_ub, r0), (0, 2))]


def _fourier(f1: float, f2: float, f3: float, f4: float) -> list[Term]:
    return [Term("ryckaert_bellemans", (f2 + (f1 + f3) / 2, (3 * f3 - f1) / 2, 4 * f4 - f2, -2 * f3, -4 * f4, 0.0))]


_BOND = _terms("bond", "10")
_TORSION = _terms("torsion", "120", "0")

BONDS = {
    "1": Function(2, _BOND, bond=True),
    "2": Function(2, _terms("g96_bond", "10"), bond=True),
    "3": Function(3, _terms("morse_bond", "120"), bond=True),
    "4": Function(3, _terms("cubic_bond", "120"), bond=True),
    "5": Function(0, lambda: [], bond=True),
    "6": Function(2, _terms("spring", "10")),
    "7": Function(2, _terms("fene_bond", "10"), bond=True),
    "8": Function(2, _terms("tabulated_bond", "01"), bond=True),
    "9": Function(2, _terms("tabulated_bond", "01")),
    "10": Function(4, _terms("restraint_bond", "3012")),
}
CONSTRAINTS = {
    "1": Function(1, _terms("constraint", "0"), bond=True),
    "2": Function(1, _terms("constraint", "0")),
}
ANGLES = {
    "1": Function(2, _terms("angle", "10", "0")),
    "2": Function(2, _terms("g96_angle", "10", "0")),
    "5": Function(4, _urey_bradley),
    "6": Function(6, _terms("quartic_angle", "012345", "0")),
    "8": Function(2, _terms("tabulated_angle", "01")),
    "10": Function(2, _terms("restricted_angle", "10", "0")),
}
DIHEDRALS = {
    "1": Function(3, _TORSION),
    "2": Function(2, _terms("improper", "10", "0")),
    "3": Function(6, _terms("ryckaert_bellemans", "012345")),
    "4": Function(3, _TORSION),
    "5": Function(4, _fourier),
    "8": Function(2, _terms("tabulated_torsion", "01")),
    "9": Function(3, _TORSION, types="1"),
    "10": Function(2, _terms("restricted_torsion", "10", "0")),
}

ANGLE_RESTRAINTS = {"1": Function(3, _terms("angle_restraint", "120", "0"))}
Z_ANGLE_RESTRAINTS = {"1": Function(3, _terms("z_angle_restraint", "120", "0"))}
DIHEDRAL_RESTRAINTS = {"1": Function(3, _terms("torsion_restraint", "201", "01"))}

# The manual's names of function types without a counterpart here
NAMES = {
    ("angles", "3"): "cross bond-bond",
    ("angles", "4"): "cross bond-angle",
    ("angles", "9"): "linear angle",
    ("dihedrals", "11"): "combined bending-torsion",
    ("position_restraints", "2"): "flat-bottomed position restraint",
    ("virtual_sites2", "2"): "2fd, at a fixed distance",
    ("virtual_sites4", "1"): "4fd, deprecated",
    ("pairtypes", "2"): "with charges",
}
