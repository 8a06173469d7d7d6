"""GRO files as trajectories."""

from __future__ import annotations

import os
import re

import numpy as np

from ..errors import FileFormatError
from ..load.amber_files import read_bytes
from ..load.door import documented
from ..load.gro import number_of_atoms, read_gro_lines
from ..load.pdb import element_of
from ..load.structure import standard_bonds
from ..topology import Topology
from .reader import Reader

__all__ = ["GROReader"]


class GROReader(Reader):
    """Frames of a GRO file, plain or gzipped; a last one that is cut off is left out.

    The text is held, frames are read on demand. Elements follow from names, bonds from standard residues. Times stand
    in titles, as ``t= 1.0``, where a program writes them.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = str(path)
        with documented(self.path):
            data = read_bytes(self.path)
            self._data = data.rstrip() + (b"\n" if data.endswith(b"\n") else b"")
            ends = np.flatnonzero(np.frombuffer(self._data, np.uint8) == ord("\n"))
            self._begins = np.unique(np.r_[0, ends + 1, len(self._data)])  # of lines
            lines, self._first, self.n = len(self._begins) - 1, [0], 0
            while self._first[-1] < lines:
                first = self._first[-1]
                if first and first + self.n + 3 > lines:
                    break
                n = number_of_atoms(self._lines(first, first + 2), self.path, first)
                self.n = self.n or n
                if n != self.n:
                    raise FileFormatError(
                        f"{self.path}: frame {len(self._first) - 1} must have the {self.n} atoms of the first, got {n}"
                    )
                self._first.append(first + n + 3)
            self.frames = len(self._first) - 1
            if self.frames > 1 and len(self._box(self.frames - 1)) < len(self._box(0)):
                self.frames -= 1
            self.topology = self._topology()

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        first = self._first[k]
        lines = self._lines(first, first + self.n + 3)
        with documented(self.path):
            found = read_gro_lines(lines, self.path, first, velocities=False)
        time = re.search(r"\bt=\s*([-+.\deE]+)", lines[0])
        try:
            return found["positions"], found["box"], None if time is None else float(time[1])
        except ValueError:
            return found["positions"], found["box"], None

    def _lines(self, first, last):
        begin, end = self._begins[[first, min(last, len(self._begins) - 1)]]
        return self._data[begin:end].decode("latin-1").split("\n")

    def _box(self, k):
        last = self._first[k + 1]
        return self._lines(last - 1, last)[0].rstrip()

    def _topology(self):
        """Names of the first frame; a residue ends where its number or name changes."""
        positions, box, _ = self.read(0)
        rows = [row.ljust(15) for row in self._lines(2, self.n + 2)[: self.n]]
        residues = np.array([row[:10] for row in rows])
        first = np.flatnonzero(np.r_[True, residues[1:] != residues[:-1]])
        index = np.cumsum(np.r_[0, residues[1:] != residues[:-1]])
        names = np.array([row[10:15].strip() for row in rows])
        kinds = np.array([row[5:].strip() for row in residues[first]])
        pairs = list(zip(names.tolist(), kinds[index].tolist()))
        elements = {pair: _element(*pair) for pair in set(pairs)}
        fields = {
            "names": names,
            "elements": np.array([elements[pair] for pair in pairs]),
            "residue_index": index,
            "residue_names": kinds,
            "residue_ids": np.array([row[:5].strip() for row in residues[first]]),
            "chain_index": np.zeros(len(first), int),
            "chain_ids": np.array(["A"]),
        }
        bonds = standard_bonds(Topology(**fields), positions, box)
        return Topology(**fields, bonds=np.unique(np.sort(bonds, axis=1), axis=0))


def _element(name, residue):
    """Atomic number by the name of an atom; 0 where none is meant."""
    column = name if name[:2].upper() in ("CL", "BR") else f" {name}"  # as PDB files align names
    return (element_of("", column, residue) or 0) if name else 0
