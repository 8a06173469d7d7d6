"""Parameters of a SMIRNOFF force field for one molecule, as a force field in OpenMM's XML format."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import optional

from ..errors import FileFormatError, MissingParameterError
from .smirnoff import Smirnoff
from .smirnoff_units import plain_number
from .topology_terms import bonded_angles, bonded_propers, neighbor_lists

__all__ = ["perceive", "residue_xml"]

_RMIN_HALF = 2 ** (5 / 6)  # sigma of half the distance of the minimum


def perceive(molecule: Any) -> Any:
    """Return a copy of a molecule of RDKit with the aromaticity that SMIRNOFF patterns expect, that of MDL."""
    chem = optional.need("rdkit.Chem", "Smirnoff", "ligand")
    copy = chem.Mol(molecule)
    chem.Kekulize(copy, clearAromaticFlags=True)
    chem.SetAromaticity(copy, chem.AromaticityModel.AROMATICITY_MDL)
    chem.AssignStereochemistry(copy, cleanIt=True, force=True)
    return copy


def residue_xml(
    field: Smirnoff, molecule: Any, name: str, names: Sequence[str], charges: np.ndarray
) -> ElementTree.Element:
    """Return a force field of one residue, whose atoms each have a type of their own.

    `molecule` comes from `perceive`, `names` and `charges` are those of its atoms.
    """
    root = ElementTree.Element("ForceField")
    kinds = [f"{name}-{atom}" for atom in names]
    types, residues = ElementTree.SubElement(root, "AtomTypes"), ElementTree.SubElement(root, "Residues")
    residue = ElementTree.SubElement(residues, "Residue", name=name)
    for atom, kind, own, q in zip(molecule.GetAtoms(), kinds, names, charges):
        ElementTree.SubElement(
            types, "Type", {"name": kind, "class": kind, "element": atom.GetSymbol(), "mass": repr(atom.GetMass())}
        )
        ElementTree.SubElement(residue, "Atom", name=own, type=kind, charge=repr(float(q)))
    terms = _Terms(field, molecule, names)
    for i, j in terms.bonds.tolist():
        ElementTree.SubElement(residue, "Bond", atomName1=names[i], atomName2=names[j])
    stretches = terms.find("Bonds", terms.bonds)
    for (i, j), distance in _constraints(field, molecule, stretches, names).items():
        ElementTree.SubElement(residue, "Constraint", atomName1=names[i], atomName2=names[j], distance=repr(distance))

    def add(section, tag, atoms, **values):
        """Append a term of atoms by their types."""
        of = {f"type{k + 1}": kinds[i] for k, i in enumerate(atoms)}
        ElementTree.SubElement(section, tag, of, **{key: repr(value) for key, value in values.items()})

    section = ElementTree.SubElement(root, "HarmonicBondForce")
    for atoms, p in stretches.items():
        add(section, "Bond", atoms, length=p.values["length"], k=p.values["k"])
    section = ElementTree.SubElement(root, "HarmonicAngleForce")
    for atoms, p in terms.find("Angles", terms.angles).items():
        add(section, "Angle", atoms, angle=p.values["angle"], k=p.values["k"])
    section = ElementTree.SubElement(root, "PeriodicTorsionForce", ordering="smirnoff")
    for atoms, p in terms.find("ProperTorsions", terms.propers).items():
        add(section, "Proper", atoms, **_series(field, "ProperTorsions", p))
    around = lambda t: (t[1], *sorted((t[0], t[2], t[3])))
    for atoms, p in field.match("ImproperTorsions", molecule, around).items():
        add(section, "Improper", atoms, **_series(field, "ImproperTorsions", p))
    scales = {"coulomb14scale": field.scale14("Electrostatics", 5 / 6), "lj14scale": field.scale14("vdW", 0.5)}
    section = ElementTree.SubElement(root, "NonbondedForce", {key: repr(value) for key, value in scales.items()})
    ElementTree.SubElement(section, "UseAttributeFromResidue", name="charge")
    for (k,), p in terms.find("vdW", np.arange(len(names))[:, None], needed=True).items():
        sigma = p.values["sigma"] if "sigma" in p.values else _RMIN_HALF * p.values["rmin_half"]
        ElementTree.SubElement(section, "Atom", type=kinds[k], sigma=repr(sigma), epsilon=repr(p.values["epsilon"]))
    return root


class _Terms:
    """Bonds, angles and torsions of a molecule, and their parameters."""

    def __init__(self, field, molecule, names):
        self.field, self.molecule, self.names = field, molecule, names
        pairs = [sorted((b.GetBeginAtomIdx(), b.GetEndAtomIdx())) for b in molecule.GetBonds()]
        self.bonds = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        starts, near = neighbor_lists(self.bonds, molecule.GetNumAtoms())
        self.angles, self.propers = bonded_angles(starts, near), bonded_propers(self.bonds, starts, near)

    def find(self, section, atoms, needed=False):
        """Parameter of each term; one without is an error if the force field has the section, or it is `needed`."""
        found = self.field.match(section, self.molecule, lambda t: min(t, t[::-1]))
        if not needed and section not in self.field.sections:
            return {}
        rows = [min(row, row[::-1]) for row in map(tuple, atoms.tolist())]
        missing = [row for row in rows if row not in found]
        if missing:
            raise MissingParameterError(
                f"{self.field.name}: <{section}> must have parameters for every group of atoms, got none for "
                f"{' - '.join(self.names[i] for i in missing[0])}, and {len(missing) - 1} more "
                "(add a parameter to a file of your own)"
            )
        return {row: found[row] for row in rows}


def _constraints(field, molecule, stretches, names):
    """Distances of the constraints, by pair of atoms: those of bonds have the length of the bond by default."""
    distances = {}
    for pair, p in field.match("Constraints", molecule, lambda t: min(t, t[::-1])).items():
        if "distance" not in p.values and pair not in stretches:
            raise MissingParameterError(
                f"{field.name}: <Constraints>, {p.smirks!r}: a distance must be given for atoms without bond "
                f"parameters, got none for {' - '.join(names[i] for i in pair)}"
            )
        distances[pair] = p.values["distance"] if "distance" in p.values else stretches[pair].values["length"]
    return distances


def _series(field, section, p):
    """Terms of a torsion; those of an improper are a third by default, as there are three of them."""
    default = field.headers[section].get("default_idivf", "auto")
    divisor = 3.0 if section == "ImproperTorsions" else None
    if default != "auto":
        divisor = plain_number(default, f"default_idivf of <{section}>")
    out: dict[str, float] = {}
    for n, (periodicity, phase, k) in enumerate(zip(*(p.series(name) for name in ("periodicity", "phase", "k"))), 1):
        by = p.values.get(f"idivf{n}", divisor)
        if not by:
            raise FileFormatError(
                f"{field.name}: <{section}>, {p.smirks!r}: idivf{n} must be given and not be 0 (the default of "
                "'auto' is not supported there)"
            )
        out |= {f"periodicity{n}": int(periodicity), f"phase{n}": phase, f"k{n}": k / by}
    return out
