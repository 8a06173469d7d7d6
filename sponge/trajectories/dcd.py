"""DCD files of CHARMM, NAMD, OpenMM, MDTraj and `sponge.DCD`, read frame by frame.

Fortran records: a header, titles, the number of atoms; then per frame the unit cell, if there is one, and all x, y, z.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np

from .. import box as boxes
from ..errors import FileFormatError
from .reader import Reader

__all__ = ["DCDReader"]

_AKMA = 0.04888821  # ps: CHARMM's unit of time, sqrt(dalton A^2 / (kcal/mol))


class DCDReader(Reader):
    """Frames of a DCD file; fixed atoms and a fourth dimension are not supported."""

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            start = file.read(8)
            self._order = "<" if start == b"\x54\0\0\0CORD" else ">" if start == b"\0\0\0\x54CORD" else ""
            if not self._order:
                raise self._error("must begin with a header of 84 bytes and the word CORD")
            file.seek(0)
            header = self._record(file)
            control = np.frombuffer(header[4:], self._order + "i4")
            titles = self._record(file)
            count = self._record(file)
            if len(titles) < 4 or len(count) != 4:
                raise self._error("titles and number of atoms must follow the header")
            self.n = struct.unpack(self._order + "i", count)[0]
            self._begin = file.tell()
        if self.n < 1:
            raise self._error(f"the number of atoms must be positive, got {self.n}")
        if control[8]:
            raise self._error(f"files with fixed atoms are not supported, got {control[8]}")
        charmm = control[19] != 0
        if charmm and control[11]:
            raise self._error("files with a fourth dimension are not supported")
        self._cell = bool(charmm and control[10])
        self._size = 3 * (4 * self.n + 8) + 56 * self._cell
        self.frames = (size - self._begin) // self._size
        delta = np.frombuffer(header[40:44] if charmm else header[40:48], self._order + ("f4" if charmm else "f8"))[0]
        # a writer that knows no times leaves zeros, or 1 (MDTraj), which is 49 fs
        self._times = None
        if 0 < delta < 1 and control[2] > 0:
            self._times = (control[1] + np.arange(self.frames) * float(control[2])) * float(delta) * _AKMA

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        with self.path.open("rb") as file:
            file.seek(self._begin + k * self._size)
            data = file.read(self._size)
        if len(data) < self._size:
            raise self._error(f"frame {k} is truncated")
        time = None if self._times is None else float(self._times[k])
        cell = self._part(data, 0, 48, k).view(self._order + "f8") if self._cell else None
        first = 56 * self._cell
        xyz = [self._part(data, first + d * (4 * self.n + 8), 4 * self.n, k).view(self._order + "f4") for d in range(3)]
        return np.stack(xyz, axis=1).astype(np.float64) * 0.1, self._box(cell, k), time

    def _box(self, cell, k):
        if cell is None or not cell[[0, 2, 5]].any():
            return None
        a, gamma, b, beta, alpha, c = cell.astype(np.float64)
        angles = np.array([alpha, beta, gamma])
        # NAMD and older versions of CHARMM write cosines
        angles = np.arccos(angles) if (np.abs(angles) <= 1).all() else np.radians(angles)
        try:
            with np.errstate(all="ignore"):  # the box is checked
                return boxes.from_lengths_angles(np.array([a, b, c]) * 0.1, angles)
        except ValueError as error:
            raise self._error(f"frame {k}: {error}") from error

    def _part(self, data, start, size, k):
        """The bytes of a record of a frame, whose length stands before and after it."""
        for at in (start, start + 4 + size):
            found = struct.unpack_from(self._order + "i", data, at)[0]
            if found != size:
                raise self._error(f"frame {k}: a record must have {size} bytes, got {found} (is the file damaged?)")
        return np.frombuffer(data, np.uint8, size, start + 4)

    def _record(self, file):
        size = struct.unpack(self._order + "i", self._exactly(file, 4))[0]
        if not 0 <= size <= 1 << 20:
            raise self._error(f"a record of the header must have at most 1 MiB, got {size} bytes")
        data = self._exactly(file, size + 4)[:-4]
        return data

    def _exactly(self, file, size):
        data = file.read(size)
        if len(data) < size:
            raise self._error("the header is truncated")
        return data

    def _error(self, text):
        return FileFormatError(f"{self.path}: {text}")
