"""Trajectories that MDTraj and MDAnalysis read or hold."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from triskele.core.extend import optional

from .. import box as boxes
from ..elements import NUMBERS
from ..errors import FileFormatError
from ..topology import Topology
from .reader import Reader

__all__ = ["MDAnalysisReader", "MDTrajReader", "XTCReader"]


class XTCReader(Reader):
    """Frames of an XTC file of GROMACS, through MDTraj, or MDAnalysis where MDTraj is not installed."""

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        try:
            formats = optional.need("mdtraj.formats", "load_trajectory of XTC", "md")
        except ImportError:
            self._file = self._guarded(
                optional.need("MDAnalysis.lib.formats.libmdaxdr", "load_trajectory of XTC", "md").XTCFile, self.path
            )
            self._mdtraj = False
        else:
            self._file, self._mdtraj = self._guarded(formats.XTCTrajectoryFile, self.path), True
        self.frames = self._guarded(len, self._file)
        self.n = len(self.read(0)[0]) if self.frames else 0

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        self._guarded(self._file.seek, k)
        if self._mdtraj:
            xyz, time, _, box = (None if x is None else x[0] for x in self._guarded(self._file.read, 1))
        else:
            frame = self._guarded(self._file.read)
            xyz, time, box = frame.x, frame.time, frame.box
        return np.array(xyz, np.float64), _box(box), float(time)

    def _guarded(self, f, *args):
        """Call into the other library, whose errors are of many classes."""
        try:
            return f(*args)
        except (OSError, RuntimeError, ValueError, EOFError, IndexError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise FileFormatError(f"{self.path}: cannot be read as an XTC file: {error}") from error


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
            None if vectors is None else _box(vectors[k]),
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
            box = None if step.dimensions is None else _box(step.triclinic_dimensions * 0.1)
            return self._atoms.positions.astype(np.float64) * 0.1, box, float(step.time)
        finally:
            if trajectory.frame != before:
                trajectory[before]


def _box(vectors):
    """A reduced box; none where the other library has zeros."""
    if vectors is None or not np.any(vectors):
        return None
    vectors = np.array(vectors, np.float64)
    vectors[np.abs(vectors) < 1e-6 * vectors.max()] = 0.0  # rounding of single precision
    return boxes.as_box(vectors)


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
