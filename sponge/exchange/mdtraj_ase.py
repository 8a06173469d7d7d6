"""Systems as MDTraj trajectories, universes of MDAnalysis and ASE atoms."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import optional

from .. import box as boxes_
from .. import units
from ..elements import SYMBOLS
from ..protocols import SystemLike

__all__ = ["to_ase", "to_mdanalysis", "to_mdtraj"]


def to_mdtraj(system: SystemLike, positions: Any = None) -> Any:
    """The topology with positions as an MDTraj ``Trajectory``.

    Parameters
    ----------
    system : System
    positions : (n, 3) or (frames, n, 3) array, nm, optional
        Defaults to the system's own.

    Returns
    -------
    mdtraj.Trajectory
        In nm and float32, as MDTraj has it; every frame has the system's box.

    Raises
    ------
    ImportError
        If MDTraj is not installed.
    ValueError
        If positions are missing, or have another number of atoms.
    """
    mdtraj = optional.need("mdtraj", "to_mdtraj", "md")
    element = optional.need("mdtraj.core.element", "to_mdtraj", "md")
    t = system.topology
    positions = _positions(system, positions, "to_mdtraj")
    topology = mdtraj.Topology()
    chains = [topology.add_chain() for _ in t.chain_ids]
    residues = []
    for r, name in enumerate(t.residue_names):
        number = "".join(c for c in str(t.residue_ids[r]) if c in "-0123456789")
        residues.append(topology.add_residue(str(name), chains[t.chain_index[r]], resSeq=int(number or r + 1)))
    for name, z, r in zip(t.names, t.elements, t.residue_index):
        kind = element.Element.getByAtomicNumber(int(z)) if z else element.virtual
        topology.add_atom(str(name), kind, residues[r])
    atoms = list(topology.atoms)
    for i, j in t.bonds:
        topology.add_bond(atoms[i], atoms[j])
    trajectory = mdtraj.Trajectory(positions.astype(np.float32), topology)
    if system.box is not None:
        trajectory.unitcell_vectors = np.repeat(system.box[None].astype(np.float32), len(positions), axis=0)
    return trajectory


def to_mdanalysis(system: SystemLike, positions: Any = None) -> Any:
    """The topology with positions as a ``Universe`` of MDAnalysis, in memory.

    Parameters
    ----------
    system : System
    positions : (n, 3) or (frames, n, 3) array, nm, optional
        Defaults to the system's own.

    Returns
    -------
    MDAnalysis.Universe
        In angstrom and float32, as MDAnalysis has it, with names, elements, masses, residues, chains as
        segments, and bonds; every frame has the system's box.

    Raises
    ------
    ImportError
        If MDAnalysis is not installed.
    ValueError
        If positions are missing, or have another number of atoms.
    """
    mda = optional.need("MDAnalysis", "to_mdanalysis", "md")
    t = system.topology
    positions = _positions(system, positions, "to_mdanalysis")
    universe = mda.Universe.empty(
        system.n,
        len(t.residue_names),
        len(t.chain_ids),
        atom_resindex=t.residue_index,
        residue_segindex=t.chain_index,
        trajectory=True,
    )
    symbols = [SYMBOLS[z] if z else "" for z in t.elements]
    numbers = [int("".join(c for c in str(r) if c in "-0123456789") or k) for k, r in enumerate(t.residue_ids, 1)]
    for name, values in (
        ("names", list(t.names)),
        ("types", symbols),
        ("elements", symbols),
        ("masses", system.masses),
        ("resnames", list(t.residue_names)),
        ("resids", numbers),
        ("segids", list(t.chain_ids)),
        ("bonds", [tuple(b) for b in t.bonds.tolist()]),
    ):
        universe.add_TopologyAttr(name, values)
    cell = None
    if system.box is not None:
        lengths, angles = boxes_.angles_and_lengths(system.box)
        cell = np.concatenate([lengths / units.angstrom, np.degrees(angles)]).astype(np.float32)
    universe.load_new((positions / units.angstrom).astype(np.float32), order="fac", dimensions=cell)
    return universe


def to_ase(system: SystemLike, positions: Any = None) -> Any:
    """The atoms as ASE ``Atoms``; with ``atoms.calc = sponge.Calculator(system)`` they have our energies.

    Parameters
    ----------
    system : System
    positions : (n, 3) array, nm, optional
        Defaults to the system's own.

    Returns
    -------
    ase.Atoms
        In ASE's units; with masses, cell and velocities where the system has them. Virtual sites are atoms of number 0.

    Raises
    ------
    ImportError
        If ASE is not installed.
    ValueError
        If positions are missing, or have another number of atoms.
    """
    ase = optional.need("ase", "to_ase", "md")
    optional.need("ase.units", "to_ase", "md")
    (positions,) = _positions(system, positions, "to_ase", frames=False)
    atoms = ase.Atoms(numbers=system.topology.elements, positions=positions / units.angstrom, masses=system.masses)
    if system.box is not None:
        atoms.set_cell(system.box / units.angstrom)
        atoms.set_pbc(True)
    if system.velocities is not None:
        atoms.set_velocities(system.velocities / units.angstrom * (units.fs / ase.units.fs))
    return atoms


def _positions(system: SystemLike, positions: Any, where: str, frames: bool = True) -> np.ndarray:
    """Positions [frames, n, 3], of one frame unless several `frames` are allowed."""
    positions = system.positions if positions is None else positions
    if positions is None:
        raise ValueError(f"{where}: positions are needed; give them, or set system.positions")
    positions = np.asarray(positions, np.float64)
    found = positions if positions.ndim == 3 and frames else positions[None]
    if found.shape[1:] != (system.n, 3):
        several = f" or [frames, {system.n}, 3]" if frames else ""
        raise ValueError(f"{where}: positions must have shape {(system.n, 3)}{several}, got {positions.shape}")
    return found
