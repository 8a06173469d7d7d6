"""`XDRReader`, what readers of GROMACS's binary trajectories have in common: frames that begin with their length."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType

import numpy as np

from ..errors import FileFormatError
from .reader import Reader, box_of_vectors

__all__ = ["XDRReader"]


class XDRReader(Reader):
    """Frames of a file, found by their lengths; a last one that is cut off, and frames without atoms, are left out."""

    frames = n = 0
    codec: ModuleType  # with MOST_OF_HEAD, frame_length and decode_frame
    kind: str  # name of the format

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self._places: list[tuple[int, int]] = []
        at, number, size = 0, 0, self.path.stat().st_size
        with self.path.open("rb") as file:
            while at < size:
                file.seek(at)
                try:
                    length, n = self.codec.frame_length(file.read(self.codec.MOST_OF_HEAD))
                except EOFError:
                    break
                except ValueError as error:
                    raise self._error(number, error) from None
                self.n = self.n or n
                if n not in (0, self.n):
                    raise self._error(number, f"must have the {self.n} atoms of the first, got {n}")
                if at + length > size:
                    break
                if n:
                    self._places.append((at, length))
                at, number = at + length, number + 1
        self.frames = len(self._places)

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        at, length = self._places[k]
        with self.path.open("rb") as file:
            file.seek(at)
            frame = file.read(length)
        if len(frame) < length:
            raise self._error(k, "is truncated")
        try:
            x, box, time = self.codec.decode_frame(frame)
            return x.astype(np.float64), box_of_vectors(box), time
        except ValueError as error:
            raise self._error(k, error) from error

    def _error(self, k, text):
        return FileFormatError(f"{self.path}: {self.kind} frame {k} {text}")
