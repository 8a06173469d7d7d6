"""`prepare`: a structure from an experiment, made ready for a simulation, with a report of what was done to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..load.structure import Structure
from ..topology import Topology
from .gaps import gaps
from .hydrogens import add_hydrogens
from .modeller import from_openmm, openmm_app, to_openmm
from .solvate import solvate

__all__ = ["prepare"]

# Hydrogens that tell the protonation states of residues from the usual one, and AMBER's names of these states
_STATES = {
    "HIS": {frozenset({"HD1"}): "HID", frozenset({"HE2"}): "HIE", frozenset({"HD1", "HE2"}): "HIP"},
    "ASP": {frozenset({"HD2"}): "ASH"},
    "GLU": {frozenset({"HE2"}): "GLH"},
    "LYS": {frozenset(): "LYN"},
    "CYS": {frozenset(): "CYX"},
}
_MARKS = {
    name: frozenset(marks.split())
    for name, marks in {"HIS": "HD1 HE2", "ASP": "HD2", "GLU": "HE2", "LYS": "HZ3", "CYS": "HG"}.items()
}


def prepare(
    structure: Structure,
    forcefield: Any = ("amber14/protein.ff14SB", "amber14/tip3p"),
    *,
    ph: float = 7.0,
    remove: str | None = None,
    padding: float = 1.0,
    ionic_strength: float = 0.15,
    shape: str = "dodecahedron",
    seed: int = 0,
) -> tuple[Structure, list[str]]:
    """Add missing atoms, hydrogens, water and ions to a structure.

    Missing residues are not built: chains end at gaps, with charged ends.

    Parameters
    ----------
    structure : Structure
        From `read_pdb` or `read_mmcif`.
    forcefield : sequence of names or paths
        Covers solute, water and ions.
    ph : float
        See `add_hydrogens`.
    remove : str, optional
        Selection of atoms to leave out, such as ``"water or ligand"`` (see `Topology.select`).
    padding, ionic_strength, shape, seed
        See `solvate`.

    Returns
    -------
    structure : Structure
    report : list of str
        What was removed, replaced and added, one line each.

    Raises
    ------
    ImportError
        If OpenMM or PDBFixer is not installed.
    MissingTemplateError
        If the force field does not know a residue.

    Examples
    --------
    >>> from triskele import sponge
    >>> ready, report = sponge.build.prepare(sponge.read_pdb("1ubq.pdb"), remove="water")  # doctest: +SKIP
    >>> print(*report, sep="\\n")  # doctest: +SKIP
    """
    check.kind(structure, Structure, "prepare: structure", hint="read a file with sponge.read_pdb")
    report = []
    if remove is not None:
        out = structure.topology.select(remove, structure.positions, structure.box)
        keep = np.setdiff1d(np.arange(structure.topology.n), out)
        counts = Counter(structure.topology.residue_names[np.unique(structure.topology.residue_index[out])].tolist())
        report.append(f"removed {len(out):,} atoms of {_listed(counts)}")
        structure = Structure(structure.topology.take(keep), structure.positions[keep], structure.box)
    t = structure.topology
    report += [
        f"ended a chain at the gap between {_name(t, k)} and {_name(t, k + 1)}" for k in gaps(structure).tolist()
    ]
    full = add_hydrogens(structure, ph, missing_atoms=True, replace_nonstandard=True)
    renamed, positions = to_openmm(structure, openmm_app("prepare"))  # atoms under the names that `full` has
    report += _added(from_openmm(renamed, positions, None).topology, full.topology)
    ready = solvate(full, forcefield, padding=padding, ionic_strength=ionic_strength, shape=shape, seed=seed)
    new = Counter(ready.topology.residue_names[len(full.topology.residue_names) :].tolist())
    edge = np.linalg.norm(np.asarray(ready.box)[0])
    report.append(f"added {_listed(new)} in a {shape} of {edge:.2f} nm, {ready.topology.n:,} atoms in all")
    return ready, report


def _listed(counts):
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items())) or "nothing"


def _residues(topology: Topology) -> dict[tuple[str, str], int]:
    """Residues of a topology by chain and number."""
    chains = topology.chain_ids[topology.chain_index].tolist()
    return {key: k for k, key in enumerate(zip(chains, topology.residue_ids.tolist(), strict=True))}


def _name(topology, k):
    return (
        f"{topology.residue_names[k]} {topology.residue_ids[k]} (chain {topology.chain_ids[topology.chain_index[k]]})"
    )


def _added(old: Topology, new: Topology) -> list[str]:
    """Lines on residues that were replaced or completed, on hydrogens, and on states that are not the usual ones."""
    before, there, here = _residues(old), _names(old), _names(new)
    lines, states = [], []
    for key, k in _residues(new).items():
        name, found = str(new.residue_names[k]), here[k]
        if key in before:
            was = str(old.residue_names[before[key]])
            if was != name:
                lines.append(f"replaced {_name(old, before[key])} by {name}")
            elif missing := sorted(n for n, z in found.items() if z != 1 and n not in there[before[key]]):
                lines.append(f"added {', '.join(missing)} to {_name(new, k)}")
        if state := _STATES.get(name, {}).get(frozenset(found) & _MARKS.get(name, frozenset())):
            states.append(f"{_name(new, k)} is {state}")
    hydrogens = np.count_nonzero(new.elements == 1) - np.count_nonzero(old.elements == 1)
    return [*lines, f"added {hydrogens:,} hydrogens", *states]


def _names(topology):
    """Elements of the atoms of each residue, by their names."""
    found: list[dict[str, int]] = [{} for _ in topology.residue_names]
    for k, name, z in zip(topology.residue_index.tolist(), topology.names.tolist(), topology.elements.tolist()):
        found[k][name] = z
    return found
