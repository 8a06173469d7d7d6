"""Charges of molecules as a SMIRNOFF force field asks for them, or as a file has them."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from triskele.core.extend import check, optional

from ..errors import FileFormatError, MissingParameterError
from ..forcefield.smirnoff import Smirnoff
from . import ambertools

__all__ = ["charges_of", "stored_charges"]

_TOLERANCE = 0.01  # e, of the sum; files of AM1-BCC charges are off by some 0.001
# Names in the files, and of antechamber
_METHODS = {"am1bcc": "bcc", "am1-mulliken": "mul", "gasteiger": "gas"}


def charges_of(field: Smirnoff, m: Any, perceived: Any, given: Any) -> np.ndarray:
    """Return the charges (n,) of a molecule of RDKit in e, whose sum is that of the formal charges.

    `given` may be charges, "stored" for those of the file, or None for those of the force field: library charges if
    they cover all atoms, else those of a network (NAGL), of charge increments, or AM1-BCC.
    """
    chem = optional.need("rdkit.Chem", "ligand", "ligand")
    total, n = chem.GetFormalCharge(m), m.GetNumAtoms()
    if given is None:
        found, what = _of_field(field, m, perceived)
    elif isinstance(given, str):
        check.choice(given, ("stored",), "ligand: charges", hint="or an array, or None")
        found, what = stored_charges(m), "the stored charges"
    else:
        found, what = np.array(given, np.float64), "the charges"
    if found.shape != (n,) or not np.all(np.isfinite(found)):
        raise ValueError(f"ligand: {what} must be {n} finite numbers, got an array of shape {found.shape}: {found}")
    if abs(found.sum() - total) > _TOLERANCE:
        raise ValueError(
            f"ligand: the sum of {what} must be the formal charge of the molecule, {total}, got {found.sum():.4f} e"
        )
    return found


def stored_charges(m: Any) -> np.ndarray:
    """Return the charges (n,) that the atoms of a molecule of RDKit have as a property."""
    for name in ("PartialCharge", "_TriposPartialCharge"):
        if all(a.HasProp(name) for a in m.GetAtoms()):
            return np.array([float(a.GetPropsAsDict(True)[name]) for a in m.GetAtoms()])
    raise ValueError(
        "ligand: the file or the molecule must have charges for charges='stored', got none (in an SDF file, the "
        "property atom.dprop.PartialCharge; in a mol2 file, the last column)"
    )


def _of_field(field, m, perceived):
    for section, find in (
        ("LibraryCharges", lambda: _library(field, m, perceived)),
        ("NAGLCharges", lambda: _network(field, m)),
        ("ChargeIncrementModel", lambda: _increments(field, m, perceived)),
        ("ToolkitAM1BCC", lambda: _of_ambertools(m, "am1bcc")),
    ):
        if section in field.headers:
            found = find()
            if found is not None:
                return found, f"the charges of <{section}> in {field.name}"
    raise MissingParameterError(
        f"ligand: {field.name} must have charges for the molecule, got none (give charges=..., or a force field with "
        "<ToolkitAM1BCC>)"
    )


def _slots(field, section, perceived):
    """Atoms and parameter of each match; of several for the same atoms, the last, at the place of the first."""
    return {tuple(sorted(t)): (t, p) for t, p in field.match(section, perceived).items()}.values()


def _library(field, m, perceived):
    charges = np.full(m.GetNumAtoms(), np.nan)
    for atoms, p in _slots(field, "LibraryCharges", perceived):
        charges[list(atoms)] = p.series("charge")
    return None if np.isnan(charges).any() else charges


def _increments(field, m, perceived):
    method = field.headers["ChargeIncrementModel"].get("partial_charge_method", "AM1-Mulliken").lower()
    if method in ("formal_charge", "zeros"):
        charges = np.array([float(a.GetFormalCharge()) * (method != "zeros") for a in m.GetAtoms()])
    else:
        where = f"{field.name}: partial_charge_method of <ChargeIncrementModel>"
        check.choice(method, (*_METHODS, "formal_charge", "zeros"), where, error=FileFormatError)
        charges = _of_ambertools(m, method)
    for atoms, p in _slots(field, "ChargeIncrementModel", perceived):
        steps = p.series("charge_increment")
        for atom, step in zip(atoms, [*steps, -sum(steps)]):  # the last atom may be left to balance the others
            charges[atom] += step
    return charges


def _network(field, m):
    """Charges of the network that the force field names, through OpenFF's packages."""
    try:
        toolkit = import_module("openff.toolkit")
        nagl = toolkit.utils.toolkits.NAGLToolkitWrapper()
    except ImportError as error:
        raise ImportError(
            f"ligand: the charges of <NAGLCharges> in {field.name} need openff-toolkit and openff-nagl (conda install "
            "-c conda-forge openff-toolkit openff-nagl), or give charges=..."
        ) from error
    header, molecule = field.headers["NAGLCharges"], toolkit.Molecule.from_rdkit(m, allow_undefined_stereo=True)
    nagl.assign_partial_charges(
        molecule,
        header.get("model_file", ""),
        doi=header.get("digital_object_identifier"),
        file_hash=header.get("model_file_hash"),
    )
    return np.array(molecule.partial_charges.m_as("elementary_charge"), np.float64)


def _of_ambertools(m, method):
    """Charges of antechamber for one conformer that only the molecule decides, as OpenFF's toolkit has them."""
    antechamber = ambertools.program("antechamber", "ligand: AM1-BCC charges (or give charges=...)")
    chem = optional.need("rdkit.Chem.AllChem", "ligand", "ligand")
    copy = chem.Mol(m)
    if not list(chem.EmbedMultipleConfs(copy, numConfs=1, randomSeed=1)) and not list(
        chem.EmbedMultipleConfs(copy, numConfs=1, randomSeed=1, useRandomCoords=True)
    ):
        raise ValueError("ligand: RDKit finds no positions for the molecule's charges (give charges=...)")
    acid = chem.MolFromSmarts("[O]=[C][O][H]")
    for atoms in copy.GetSubstructMatches(acid):  # without a hydrogen bond to another group
        optional.need("rdkit.Chem.rdMolTransforms", "ligand", "ligand").SetDihedralDeg(copy.GetConformer(), *atoms, 0.0)
    total = chem.GetFormalCharge(m)
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        (work / "in.sdf").write_text(chem.MolToMolBlock(copy) + "$$$$\n")
        asked = ["-i", "in.sdf", "-fi", "sdf", "-o", "out.mol2", "-fo", "mol2", "-pf", "yes", "-dr", "n"]
        ambertools.run("ligand", work, antechamber, *asked, "-c", _METHODS[method], "-nc", str(total))
        asked = ["-i", "out.mol2", "-fi", "mol2", "-o", "again.mol2", "-fo", "mol2", "-pf", "yes", "-dr", "n"]
        ambertools.run("ligand", work, antechamber, *asked, "-c", "wc", "-cf", "charges.txt", makes="charges.txt")
        charges = np.array((work / "charges.txt").read_text().split(), np.float64)
    return charges + (total - charges.sum()) / len(charges)
