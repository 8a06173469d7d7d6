"""Ligands and other small molecules with the parameters of a SMIRNOFF force field, for `create_system`."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check, short_repr

from ..forcefield.smirnoff import Smirnoff
from ..forcefield.smirnoff_xml import perceive, residue_xml
from ..forcefield.sources import Source
from ..load.structure import Structure
from ..topology import Topology
from .charges import charges_of
from .molecules import place, read_molecule, unassigned_stereo

__all__ = ["Ligand", "ligand"]


@short_repr
@dataclass(frozen=True, eq=False)
class Ligand(Source):
    """A molecule as a force field of one residue, from `ligand`.

    Attributes
    ----------
    name : str
        Name of the residue.
    xml : bytes
        Force field in OpenMM's XML format.
    structure : Structure
        Atoms, bonds and positions.
    charges : (n,) float64, e

    Examples
    --------
    >>> from triskele import sponge
    >>> methane = sponge.build.ligand("C", charges=[-0.4, 0.1, 0.1, 0.1, 0.1])  # doctest: +SKIP
    >>> methane.structure.topology.n  # doctest: +SKIP
    5
    """

    structure: Structure
    charges: np.ndarray


def ligand(
    molecule: Any,
    forcefield: str | os.PathLike = "openff-2.2.1",
    *,
    name: str = "LIG",
    charges: Any = None,
    seed: int = 0,
) -> Ligand:
    """Give a molecule the parameters of an OpenFF force field [1]_, to combine with those of proteins and water.

    Force fields of OpenFF combine with AMBER's. ``openff-...`` keeps the bonds of hydrogen rigid,
    ``openff_unconstrained-...`` leaves the choice to `create_system`.

    Parameters
    ----------
    molecule : str, path or RDKit molecule
        A SMILES; the path of an SDF, MOL or mol2 file with one molecule, all hydrogens and three-dimensional
        coordinates; or a molecule of RDKit with all hydrogens.
    forcefield : str or path
        An .offxml file, a name that comes with the package ("openff-2.2.1", "openff_unconstrained-2.2.1"), or one of
        an installed ``openforcefields``.
    name : str
        Name of the residue, one to three letters or digits.
    charges : (n,) float, e, or "stored", optional
        Charges of the atoms; "stored" takes those of the file or of the RDKit molecule. Defaults to those that the
        force field asks for: AM1-BCC needs AmberTools, NAGL needs ``openff-nagl`` and ``openff-toolkit``.
    seed : int
        Seed of the placement of a molecule without coordinates.

    Returns
    -------
    Ligand
        For `create_system`, `solvate` and `ForceField`; its `structure` has the positions.

    Raises
    ------
    ImportError
        If RDKit, or the program for the charges, is not installed.
    FileNotFoundError
        If the force field or the file does not exist.
    FileFormatError
        If the force field needs a feature that is not supported.
    MissingParameterError
        If the force field has no parameters for some atoms; the message names them and the section.
    ValueError
        If the molecule cannot be read, is not one whole molecule with all hydrogens, leaves its stereochemistry open,
        or if the charges do not sum to its formal charge within 0.01 e.
    RuntimeError
        If a program of AmberTools fails.

    References
    ----------
    .. [1] Boothroyd et al., J. Chem. Theory Comput. 19 (2023) 3251. doi:10.1021/acs.jctc.3c00039

    Examples
    --------
    >>> from triskele import sponge
    >>> methane = sponge.build.ligand("C", charges=[-0.4, 0.1, 0.1, 0.1, 0.1])  # doctest: +SKIP
    >>> system = sponge.create_system(methane.structure, methane)  # doctest: +SKIP
    >>> len(system.constraints)  # doctest: +SKIP
    4
    """
    check.integer(seed, "ligand: seed", 0)
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9]{1,3}", name):
        raise ValueError(f"ligand: name must have one to three letters or digits, got {name!r}")
    m = read_molecule(molecule, "ligand")
    field = Smirnoff(forcefield)
    if not m.GetNumConformers() and (open_stereo := unassigned_stereo(m)):
        raise ValueError(
            f"ligand: the stereochemistry must be given, got none for {', '.join(open_stereo)} (write @, /, \\ in the "
            "SMILES, or give a file with coordinates)"
        )
    place(m, molecule, "ligand", seed)
    perceived = perceive(m)
    names = _names(m)
    found = charges_of(field, m, perceived, charges)
    root = residue_xml(field, perceived, name, names, found)
    bonds = np.array(sorted(sorted((b.GetBeginAtomIdx(), b.GetEndAtomIdx())) for b in m.GetBonds()), int)
    elements, one = np.array([a.GetAtomicNum() for a in m.GetAtoms()]), np.zeros(len(names), int)
    topology = Topology(
        np.array(names), elements, one, np.array([name]), np.array(["1"]), np.zeros(1, int), np.array(["L"]), bonds
    )
    structure = Structure(topology, 0.1 * np.asarray(m.GetConformer().GetPositions(), np.float64))
    return Ligand(name, ElementTree.tostring(root), structure, found)


def _names(m):
    """Names of the atoms: those of the file if they differ and fit into a PDB file, else elements with numbers."""
    given = [
        (a.GetPDBResidueInfo().GetName() if a.GetPDBResidueInfo() else a.GetPropsAsDict().get("_TriposAtomName", ""))
        for a in m.GetAtoms()
    ]
    names = [str(text).strip() for text in given]
    if len(set(names)) == len(names) and all(re.fullmatch("[!-~]{1,4}", text) for text in names):
        return names
    count: dict[str, int] = {}
    out = []
    for a in m.GetAtoms():
        symbol = a.GetSymbol()
        count[symbol] = count.get(symbol, 0) + 1
        out.append(f"{symbol}{count[symbol]}")
    return out
