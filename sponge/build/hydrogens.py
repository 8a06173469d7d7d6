"""Missing hydrogens, with OpenMM's Modeller, and missing heavy atoms, with PDBFixer."""

from __future__ import annotations

import io
import os
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from triskele.core.extend import check, optional, said

from ..forcefield.sources import Source
from ..load.structure import Structure
from ..system import System
from .gaps import end_chains_at_gaps
from .modeller import from_openmm, openmm_app, openmm_field, seeded, to_openmm

__all__ = ["add_hydrogens"]

_STATES = {
    "HID": "HID",
    "HIE": "HIE",
    "HIP": "HIP",
    "HSD": "HID",
    "HSE": "HIE",
    "HSP": "HIP",
    "ASH": "ASH",
    "ASPP": "ASH",
    "GLH": "GLH",
    "GLUP": "GLH",
    "LYN": "LYN",
    "LSN": "LYN",
    "CYX": "CYX",
}


# pH up to which OpenMM's Modeller gives a residue the hydrogen of a side chain, and its state with the charge
_LIMITS = {"ASP": (4.4, "ASP"), "GLU": (4.4, "GLU"), "LYS": (10.0, "LYS")}


def add_hydrogens(
    structure: Structure,
    ph: float = 7.0,
    missing_atoms: bool = False,
    forcefield: Any = None,
    *,
    replace_nonstandard: bool = False,
) -> Structure:
    """Add missing hydrogens, in the protonation states of a pH or of the residues' names.

    HID, HIE, HIP, ASH, GLH, LYN and CYX (and CHARMM's names for these) keep their state; HIS is decided by hydrogen
    bonds, the others by model pKa values. Hydrogens that are there stay.

    Parameters
    ----------
    structure : Structure
    ph : float
    missing_atoms : bool
        Add missing heavy atoms first, terminal oxygens included (needs PDBFixer).
    forcefield : sequence of names, paths or ligands, optional
        Force field that relaxes the hydrogens; needed for residues that are not standard. Also adds its virtual sites.
    replace_nonstandard : bool
        Replace residues such as selenomethionine (MSE) by the standard ones that they stand for first (needs PDBFixer).

    Returns
    -------
    Structure

    Raises
    ------
    TypeError
        If structure, pH or force field is something else.
    ValueError
        If the pH is not a finite number.
    ImportError
        If OpenMM, or PDBFixer for missing atoms, is not installed.

    Examples
    --------
    >>> from triskele import sponge
    >>> structure = sponge.build.add_hydrogens(sponge.read_pdb("1ubq.pdb"), missing_atoms=True)  # doctest: +SKIP
    """
    where = "add_hydrogens"
    check.kind(structure, (Structure, System), f"{where}: structure", hint="read a file with sponge.read_pdb")
    check.kind(ph, (int, float, np.number), f"{where}: ph", "a number", hint="a force field is named by forcefield=...")
    check.number(ph, f"{where}: ph")
    check.kind(missing_atoms, bool, f"{where}: missing_atoms")
    check.kind(replace_nonstandard, bool, f"{where}: replace_nonstandard")
    for source in forcefield if isinstance(forcefield, (list, tuple)) else [forcefield]:
        check.kind(source, (str, os.PathLike, Source, None), f"{where}: forcefield", "names or paths")
    app = openmm_app(where)
    states = [_STATES.get(str(name)) for name in structure.topology.residue_names]
    topology, positions = to_openmm(end_chains_at_gaps(structure), app)
    if missing_atoms or replace_nonstandard:
        topology, positions = _complete(topology, positions, app, missing_atoms, replace_nonstandard)
    if forcefield is None:
        _keep_charged(topology, states, ph)
    modeller = app.Modeller(topology, positions)
    field = None if forcefield is None else openmm_field(forcefield, app)
    with said(f"add_hydrogens: placing hydrogens on {structure.topology.n:,} atoms"), seeded(0):
        modeller.addHydrogens(field, pH=ph, variants=states)
        if field is not None:
            modeller.addExtraParticles(field)
    return replace(from_openmm(modeller.topology, modeller.positions, structure.box), space_group=structure.space_group)


def _keep_charged(topology, states, ph):
    """Choose the charged state of residues at the ends of chains, of which force fields have no other one."""
    kept = []
    for chain in topology.chains():
        residues = list(chain.residues())
        for residue in {residues[0], residues[-1]}:
            limit, charged = _LIMITS.get(residue.name, (np.nan, ""))
            if residue is residues[-1] and not any(atom.name == "OXT" for atom in residue.atoms()):
                continue
            if states[residue.index] is None and (ph > limit if charged == "LYS" else ph <= limit):
                states[residue.index] = charged
                kept.append(f"{residue.id} {residue.name} (chain {chain.id})")
    if kept:
        warnings.warn(
            f"add_hydrogens: AMBER's force fields have no neutral side chain for residues at the ends of "
            f"chains, and {', '.join(kept)} kept the charge at pH {ph:g} (ASH, GLH or LYN as the residue's "
            "name make it neutral)",
            stacklevel=3,
        )


def _complete(topology, positions, app, missing_atoms, replace_nonstandard):
    text = io.StringIO()
    app.PDBFile.writeFile(topology, positions, text, keepIds=True)
    text.seek(0)
    fixer = optional.need("pdbfixer", "add_hydrogens of missing atoms", "md").PDBFixer(pdbfile=text)
    fixer.missingResidues = {}
    replaced = set()
    if replace_nonstandard:
        fixer.findNonstandardResidues()
        replaced = {residue.index for residue, _ in fixer.nonstandardResidues}
        fixer.replaceNonstandardResidues()
    fixer.findMissingAtoms()
    if not missing_atoms:
        fixer.missingAtoms = {r: atoms for r, atoms in fixer.missingAtoms.items() if r.index in replaced}
        fixer.missingTerminals = {}
    with said("add_hydrogens: building missing atoms"):
        fixer.addMissingAtoms(seed=1)
    return fixer.topology, fixer.positions
