"""Missing hydrogens, with OpenMM's Modeller, and missing heavy atoms, with PDBFixer."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np

from triskele.core.extend import check, optional

from ..load.structure import Structure
from .arguments import check_bool, check_forcefield, check_structure
from .modeller import from_openmm, openmm_app, openmm_field, seeded, to_openmm

__all__ = ["add_hydrogens"]

_STATES = {
    "HID": "HID", "HIE": "HIE", "HIP": "HIP", "HSD": "HID", "HSE": "HIE", "HSP": "HIP", "ASH": "ASH", "ASPP": "ASH",
    "GLH": "GLH", "GLUP": "GLH", "LYN": "LYN", "LSN": "LYN", "CYX": "CYX",
}


def add_hydrogens(structure: Structure, ph: float = 7.0, missing_atoms: bool = False,
                  forcefield: Any = None) -> Structure:
    """Add missing hydrogens, in the protonation states of a pH or of the residues' names.

    HID, HIE, HIP, ASH, GLH, LYN and CYX (and CHARMM's names for these) keep their state; HIS is decided by hydrogen
    bonds, the others by model pKa values. Hydrogens that are there stay.

    Parameters
    ----------
    structure : Structure
    ph : float
    missing_atoms : bool
        Add missing heavy atoms first, terminal oxygens included (needs PDBFixer).
    forcefield : sequence of names or paths, optional
        Force field that relaxes the hydrogens; needed for residues that are not standard. Also adds its virtual sites.

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
    check_structure(structure, f"{where}: structure")
    if not isinstance(ph, (int, float, np.number)) and forcefield is None:
        raise TypeError(f"{where}: ph must be a number, got {ph!r:.60} (a force field is named by forcefield=...)")
    check.number(ph, f"{where}: ph")
    check_bool(missing_atoms, f"{where}: missing_atoms")
    if forcefield is not None:
        check_forcefield(forcefield, f"{where}: forcefield")
    app = openmm_app(where)
    states = [_STATES.get(str(name)) for name in structure.topology.residue_names]
    topology, positions = to_openmm(structure, app)
    if missing_atoms:
        topology, positions = _complete(topology, positions, app)
    modeller = app.Modeller(topology, positions)
    field = None if forcefield is None else openmm_field(forcefield, app)
    with seeded(0):
        modeller.addHydrogens(field, pH=ph, variants=states)
        if field is not None:
            modeller.addExtraParticles(field)
    return replace(from_openmm(modeller.topology, modeller.positions, structure.box),
                   space_group=structure.space_group)


def _complete(topology, positions, app):
    text = io.StringIO()
    app.PDBFile.writeFile(topology, positions, text, keepIds=True)
    text.seek(0)
    fixer = optional.need("pdbfixer", "add_hydrogens of missing atoms", "md").PDBFixer(pdbfile=text)
    fixer.missingResidues = {}
    fixer.findMissingAtoms()
    fixer.addMissingAtoms(seed=1)
    return fixer.topology, fixer.positions
