"""Parameters and energies that OpenFF's own programs give a molecule, and ours in the same form."""

from __future__ import annotations

import gzip
import xml.etree.ElementTree as ElementTree
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from triskele import sponge

Parameters = dict[str, dict[tuple[int, ...], list[float]]]

_SECTIONS = {"bonds": "Bonds", "angles": "Angles", "propers": "ProperTorsions", "impropers": "ImproperTorsions"}
_VALUES = {
    "bonds": {"length": "nanometer", "k": "kilojoule / mole / nanometer ** 2"},
    "angles": {"angle": "radian", "k": "kilojoule / mole / radian ** 2"},
    "vdW": {"sigma": "nanometer", "epsilon": "kilojoule / mole"},
}


def one_way(atoms: tuple[int, ...]) -> tuple[int, ...]:
    """One of the two directions in which a term can be read."""
    return min(atoms, atoms[::-1])


def ours(ligand: sponge.build.Ligand) -> Parameters:
    """Parameters in the XML of a ligand, by indices of atoms; those of torsions are (n, phase, k) one after another."""
    root = ElementTree.fromstring(ligand.xml)
    place = {e.get("name"): k for k, e in enumerate(root.iterfind("AtomTypes/Type"))}
    named = {e.get("name"): k for k, e in enumerate(root.iterfind("Residues/Residue/Atom"))}

    def atoms(e):
        """Indices of the atoms of a term."""
        return tuple(place[e.get(f"type{k}")] for k in range(1, 5) if e.get(f"type{k}"))

    def series(e):
        """Terms of a torsion."""
        count = sum(name.startswith("k") for name in e.attrib)
        return [float(e.get(f"{name}{n + 1}")) for n in range(count) for name in ("periodicity", "phase", "k")]

    plain = lambda e, names: [float(e.get(name)) for name in names]
    return {
        "bonds": {one_way(atoms(e)): plain(e, ("length", "k")) for e in root.iterfind("HarmonicBondForce/Bond")},
        "angles": {one_way(atoms(e)): plain(e, ("angle", "k")) for e in root.iterfind("HarmonicAngleForce/Angle")},
        "propers": {one_way(atoms(e)): series(e) for e in root.iterfind("PeriodicTorsionForce/Proper")},
        "impropers": {
            (t[1], t[0], *t[2:]): series(e) for e in root.iterfind("PeriodicTorsionForce/Improper") for t in [atoms(e)]
        },
        "vdW": {(place[e.get("type")],): plain(e, ("sigma", "epsilon")) for e in root.iterfind("NonbondedForce/Atom")},
        "constraints": {
            one_way((named[e.get("atomName1")], named[e.get("atomName2")])): plain(e, ("distance",))
            for e in root.iterfind("Residues/Residue/Constraint")
        },
    }


def theirs(forcefield: Any, molecule: Any) -> Parameters:
    """The same of ``openff.toolkit``: a ForceField and a Molecule."""
    found = forcefield.label_molecules(molecule.to_topology())[0]
    out: Parameters = {}
    for name, values in _VALUES.items():
        labels = found[_SECTIONS.get(name, name)].items()
        out[name] = {atoms: [getattr(p, v).m_as(unit) for v, unit in values.items()] for atoms, p in labels}
    for name, third in (("propers", None), ("impropers", 3.0)):
        out[name] = {
            atoms: [
                value
                for n, phase, k, by in zip(p.periodicity, p.phase, p.k, p.idivf or [third] * len(p.k))
                for value in (float(n), phase.m_as("radian"), k.m_as("kilojoule / mole") / by)
            ]
            for atoms, p in found[_SECTIONS[name]].items()
        }
    out["constraints"] = {
        atoms: out["bonds"][atoms][:1] if p.distance is None else [p.distance.m_as("nanometer")]
        for atoms, p in found.get("Constraints", {}).items()
    }
    return out


def difference(one: Parameters, two: Parameters) -> float:
    """The largest relative difference of two sets; infinite if they are not for the same atoms."""
    worst = 0.0
    for name in one:
        if one[name].keys() != two[name].keys():
            return np.inf
        for atoms, values in one[name].items():
            a, b = np.array(values), np.array(two[name][atoms])
            if a.shape != b.shape:
                return np.inf
            worst = max(worst, float(np.max(np.abs(a - b) / np.maximum(np.abs(b), 1e-12))))
    return worst


def energy(forcefield: Any, molecule: Any, positions: np.ndarray) -> float:
    """Energy in kJ/mol that OpenMM has for the system of ``openff.interchange``, whose charges are the molecule's."""
    import openmm
    from openff.interchange import Interchange

    made = Interchange.from_smirnoff(forcefield, molecule.to_topology(), charge_from_molecules=[molecule])
    context = openmm.Context(
        made.to_openmm(), openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    context.setPositions(positions)
    return context.getState(getEnergy=True).getPotentialEnergy()._value


def unpacked(name: str, folder: Path) -> str:
    """Path of a shipped force field as a file for OpenFF's programs."""
    packed = files("triskele.sponge") / "data" / "openff" / f"{name}.offxml.gz"
    path = folder / f"{name}.offxml"
    path.write_bytes(gzip.decompress(packed.read_bytes()))
    return str(path)


def with_charges(smiles: str) -> tuple[Any, list[float]]:
    """A molecule of RDKit with positions, and Gasteiger charges, which need no other program."""
    from rdkit import Chem
    from rdkit.Chem import AllChem

    m = Chem.AddHs(Chem.MolFromSmiles(smiles))
    if AllChem.EmbedMolecule(m, randomSeed=1) and AllChem.EmbedMolecule(m, randomSeed=1, useRandomCoords=True):
        raise ValueError(smiles)
    AllChem.ComputeGasteigerCharges(m)
    charges = np.array([a.GetDoubleProp("_GasteigerCharge") for a in m.GetAtoms()])
    return m, (charges - (charges.sum() - Chem.GetFormalCharge(m)) / len(charges)).tolist()
