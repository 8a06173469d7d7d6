"""PDB files with models as trajectories."""

from __future__ import annotations

import os

import numpy as np

from ..errors import FileFormatError
from ..load.door import documented
from ..load.pdb import structure_of_lines
from ..load.structure import open_text
from ..topology import Topology
from .reader import Reader

__all__ = ["PDBReader"]


class PDBReader(Reader):
    """Models of a PDB file, plain or gzipped, each with the box that stands before it.

    The text is held, models are read on demand; one whose atoms are not those of the first then raises FileFormatError.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = str(path)
        lines = open_text(path).splitlines()
        starts = [k for k, line in enumerate(lines) if line.startswith("MODEL ")] or [0]
        ends = [*starts[1:], len(lines)]
        self._common = [line for line in lines if line.startswith("CONECT")]
        cell = next((line for line in lines[: starts[0] + 1] if line.startswith("CRYST1")), None)
        self._models = []
        for start, end in zip(starts, ends, strict=True):
            body = lines[start:end]
            self._models.append(([cell] if cell else [], body))
            cell = next((line for line in reversed(body) if line.startswith("CRYST1")), cell)  # that of the next model
        self.frames = len(self._models)
        first = self._structure(0)
        self.topology: Topology = first.topology
        self.n = first.topology.n

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`; there are no times."""
        found = self._structure(k)
        if found.topology.n != self.n or not np.array_equal(found.topology.names, self.topology.names):
            raise FileFormatError(
                f"{self.path}: model {k} of a trajectory must have the {self.n} atoms of the first, "
                f"got {found.topology.n}"
            )
        return found.positions, found.box, None

    def _structure(self, k):
        cell, body = self._models[k]
        with documented(self.path):
            atoms = [line for line in body if not line.startswith(("MODEL ", "ENDMDL", "CRYST1", "CONECT"))]
            return structure_of_lines([*cell, *atoms, *self._common], f"{self.path}, model {k}")
