"""Trajectories that MDTraj and MDAnalysis hold, and files that MDAnalysis reads."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from triskele.core.extend import optional

from ..elements import NUMBERS
from ..errors import FileFormatError
from ..topology import Topology
from .reader import Reader, box_of_vectors

__all__ = ["MDAnalysisReader", "MDTrajReader", "open_with_mdanalysis"]


class MDTrajReader(Reader):
    """Frames of an `mdtraj.Trajectory`."""

    def __init__(self, trajectory: Any):
        self._source = trajectory
        self.frames, self.n = trajectory.n_frames, trajectory.n_atoms
        t = trajectory.topology
        if t is not None:
            self.topology = _topology(
                [a.name for a in t.atoms],
                [a.element.atomic_number for a in t.atoms],
                [a.residue.index for a in t.atoms],
                [(r.name, r.resSeq, r.chain.index) for r in t.residues],
                [c.chain_id or str(c.index) for c in t.chains],
                [(a.index, b.index) for a, b in t.bonds],
            )

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        vectors = self._source.unitcell_vectors
        return (
            self._source.xyz[k].astype(np.float64),
            None if vectors is None else box_of_vectors(vectors[k]),
            float(self._source.time[k]),
        )


class MDAnalysisReader(Reader):
    """Frames of a Universe or AtomGroup of MDAnalysis (angstrom and ps), whose current frame is left as it was."""

    def __init__(self, source: Any):
        self._atoms = source.atoms
        self._universe = source.universe
        self.frames, self.n = len(self._universe.trajectory), len(self._atoms)
        self.topology = self._known()

    def _known(self):
        atoms = self._atoms
        names = getattr(atoms, "names", None)
        if names is None:
            return None
        elements = atoms.elements if hasattr(atoms, "elements") else getattr(atoms, "types", np.full(self.n, ""))
        residues = atoms.residues
        place = {index: k for k, index in enumerate(residues.resindices)}
        chains = sorted(set(residues.segindices))  # the order of residues.segments
        number = {index: k for k, index in enumerate(chains)}
        segments = getattr(residues.segments, "segids", np.arange(len(chains)).astype(str))
        rows = zip(
            getattr(residues, "resnames", np.full(len(residues), "UNK")),
            getattr(residues, "resids", np.arange(1, len(residues) + 1)),
            residues.segindices,
        )
        inside = {int(index): k for k, index in enumerate(atoms.indices)}
        every = self._universe.bonds.indices if hasattr(self._universe, "bonds") else ()
        bonds = [(inside[i], inside[j]) for i, j in every if i in inside and j in inside]
        return _topology(
            list(names),
            [NUMBERS.get(str(e).upper(), 0) for e in elements],
            [place[r] for r in atoms.resindices],
            [(name, i, number[s]) for name, i, s in rows],
            [str(s) for s in segments],
            bonds,
        )

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        trajectory = self._universe.trajectory
        before = trajectory.frame
        try:
            step = trajectory[k]
            box = None if step.dimensions is None else box_of_vectors(step.triclinic_dimensions * 0.1)
            return self._atoms.positions.astype(np.float64) * 0.1, box, _time(step)
        finally:
            if trajectory.frame != before:
                trajectory[before]


def _time(step):
    """The time of a frame; None where MDAnalysis would invent one, of 1 ps between frames."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Reader has no dt information")
        try:
            return float(step.time)
        except UserWarning:
            return None


def open_with_mdanalysis(path: str | os.PathLike, n: int | None) -> MDAnalysisReader:
    """Return the frames of a file of any format that MDAnalysis reads; some formats need the number of atoms `n`."""
    mda = optional.need("MDAnalysis", f"load_trajectory: {path}: its type", "md")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"load_trajectory: there must be a file {path}")
    try:
        mda.coordinates.core.get_reader_for(str(path))
    except (TypeError, ValueError):
        raise FileFormatError(
            f"{path}: a trajectory must be of a type that triskele.sponge or MDAnalysis reads, which the end of its "
            "name tells (see load_trajectory)"
        ) from None
    try:
        if n is None:
            return MDAnalysisReader(mda.Universe(str(path)))
        return MDAnalysisReader(mda.Universe.empty(n).load_new(str(path)))
    except Exception as error:  # whatever its readers make of a damaged file
        hint = " (is top= needed, which tells the number of atoms?)" if n is None else ""
        raise FileFormatError(f"{path}: MDAnalysis must be able to read the file: {error}{hint}") from error


def _topology(names, elements, residue_index, residues, chain_ids, bonds):
    return Topology(
        names=np.array(names, str),
        elements=np.array(elements, int),
        residue_index=np.array(residue_index, int),
        residue_names=np.array([str(name) for name, _, _ in residues], str),
        residue_ids=np.array([str(number) for _, number, _ in residues], str),
        chain_index=np.array([chain for _, _, chain in residues], int),
        chain_ids=np.array(chain_ids, str),
        bonds=np.array(bonds, int).reshape(-1, 2),
    )
