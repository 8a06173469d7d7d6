"""XTC files of GROMACS, MDTraj, MDAnalysis and `sponge.XTC`, read frame by frame."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ..errors import FileFormatError
from ..xtc_codec import MOST_OF_HEAD, decode_frame, frame_length
from .reader import Reader, box_of_vectors

__all__ = ["XTCReader"]


class XTCReader(Reader):
    """Frames of an XTC file, found by their lengths; a last one that is cut off is left out."""

    frames = n = 0

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self._starts = [0]
        size = self.path.stat().st_size
        with self.path.open("rb") as file:
            while self._starts[-1] < size:
                file.seek(self._starts[-1])
                try:
                    length, n = frame_length(file.read(MOST_OF_HEAD))
                except EOFError:
                    break
                except ValueError as error:
                    raise self._error(self.frames, error) from None
                self.n = self.n or n
                if n != self.n:
                    raise self._error(self.frames, f"must have the {self.n} atoms of the first, got {n}")
                if self._starts[-1] + length > size:
                    break
                self._starts.append(self._starts[-1] + length)
                self.frames += 1

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        with self.path.open("rb") as file:
            file.seek(self._starts[k])
            frame = file.read(self._starts[k + 1] - self._starts[k])
        if len(frame) < self._starts[k + 1] - self._starts[k]:
            raise self._error(k, "is truncated")
        try:
            x, box, time = decode_frame(frame)
            return x.astype(np.float64), box_of_vectors(box), time
        except ValueError as error:
            raise self._error(k, error) from error

    def _error(self, k, text):
        return FileFormatError(f"{self.path}: XTC frame {k} {text}")
