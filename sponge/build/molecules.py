"""Molecules of RDKit, from SMILES and files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from triskele.core.extend import check, optional

__all__ = ["place", "read_molecule", "unassigned_stereo"]

_SUFFIXES = (".sdf", ".mol", ".mol2")
_CHARGES = re.compile(r"^>.*<atom\.dprop\.PartialCharge>.*\n((?:.*\S.*\n)+)", re.MULTILINE)  # as RDKit and OpenFF write


def read_molecule(molecule: Any, where: str) -> Any:
    """Return a molecule of RDKit with all hydrogens; `where` begins errors.

    From a SMILES; the path of an SDF, MOL or mol2 file with one molecule and three-dimensional coordinates; or a
    molecule of RDKit. Charges that a file has become the property "PartialCharge" of the atoms.
    """
    if not hasattr(molecule, "GetAtoms"):
        check.kind(molecule, (str, os.PathLike), f"{where}: molecule", "a SMILES or a path")
    chem = optional.need("rdkit.Chem", where, "ligand")
    optional.need("rdkit.RDLogger", where, "ligand").DisableLog("rdApp.*")
    if hasattr(molecule, "GetAtoms"):
        m = chem.Mol(molecule)
        chem.SanitizeMol(m)
        _check_hydrogens(m, "the molecule of RDKit", where)
        return m
    given = os.fspath(molecule)
    if isinstance(molecule, os.PathLike) or given.lower().endswith(_SUFFIXES):
        return _read_file(given, chem, where)
    m = chem.MolFromSmiles(given)
    if m is None or not m.GetNumAtoms():
        raise ValueError(f"{where}: RDKit cannot read the SMILES {given!r}")
    return chem.AddHs(m)


def _read_file(given, chem, where):
    if not Path(given).is_file():
        raise FileNotFoundError(f"{where}: molecule must be a SMILES or a file, got {given!r}, which does not exist")
    text = Path(given).read_text()
    mol2 = given.lower().endswith(".mol2")
    several = text.split("@<TRIPOS>MOLECULE")[1:] if mol2 else [p for p in text.split("$$$$") if p.strip()]
    if len(several) != 1:
        raise ValueError(f"{where}: {given} must hold one molecule, got {len(several)}")
    if mol2:
        m = chem.MolFromMol2Block(text, removeHs=False)
    else:
        m = chem.MolFromMolBlock(several[0].lstrip("\r\n") if text.startswith("$$$$") else several[0], removeHs=False)
    if m is None:
        raise ValueError(f"{where}: RDKit cannot read {given} as {'a mol2' if mol2 else 'an SDF or MOL'} file")
    if not m.GetNumConformers() or not m.GetConformer().Is3D():
        raise ValueError(f"{where}: {given} must have three-dimensional coordinates")
    _check_hydrogens(m, given, where)
    found = _CHARGES.search(text)
    charges = [a.GetProp("_TriposPartialCharge") for a in m.GetAtoms()] if mol2 else found[1].split() if found else []
    for atom, charge in zip(m.GetAtoms(), charges if len(charges) == m.GetNumAtoms() else ()):
        atom.SetProp("PartialCharge", charge)
    return m


def _check_hydrogens(m, given, where):
    missing = sum(a.GetTotalNumHs() for a in m.GetAtoms())
    if missing:
        raise ValueError(f"{where}: {given} must have all hydrogens, {missing} are missing")


def place(m: Any, given: Any, where: str, seed: int) -> None:
    """Check that a molecule of RDKit is one, without unpaired electrons, and give it positions unless it has some."""
    chem = optional.need("rdkit.Chem.AllChem", where, "ligand")
    if len(chem.GetMolFrags(m)) != 1:
        raise ValueError(f"{where}: expected one molecule, got {len(chem.GetMolFrags(m))} in {given!r}")
    if any(a.GetNumRadicalElectrons() for a in m.GetAtoms()):
        raise ValueError(f"{where}: molecules with unpaired electrons are not supported, got {given!r}")
    if m.GetNumConformers():
        return
    if chem.EmbedMolecule(m, randomSeed=int(seed)) != 0:
        raise ValueError(f"{where}: RDKit finds no positions for {given!r} (give a file with coordinates)")
    chem.MMFFOptimizeMolecule(m)


def unassigned_stereo(m: Any) -> list[str]:
    """Return the stereo centers and double bonds of a molecule whose configuration is open, for an error."""
    chem = optional.need("rdkit.Chem", "ligand", "ligand")
    found = []
    for info in chem.FindPotentialStereo(m):
        if info.specified == chem.StereoSpecified.Unspecified:
            if info.type == chem.StereoType.Bond_Double:
                bond = m.GetBondWithIdx(info.centeredOn)
                ends = [f"{a.GetSymbol()}{a.GetIdx()}" for a in (bond.GetBeginAtom(), bond.GetEndAtom())]
                found.append(f"the double bond {' = '.join(ends)}")
            else:
                atom = m.GetAtomWithIdx(info.centeredOn)
                if not (atom.GetSymbol() == "N" and atom.GetDegree() == 3):  # inverts
                    found.append(f"atom {atom.GetSymbol()}{atom.GetIdx()}")
    return found
