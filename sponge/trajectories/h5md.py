"""H5MD files of `sponge.H5MD`, MDAnalysis, GROMACS and other programs, read frame by frame (nongnu.org/h5md)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from triskele.core.extend import check, optional

from ..errors import FileFormatError
from ..load.door import documented
from .reader import Reader, box_of_vectors

__all__ = ["H5MDReader"]

_LENGTHS = {"nm": 1.0, "angstrom": 0.1, "a": 0.1, "pm": 1e-3, "um": 1e3}  # nm
_TIMES = {"ps": 1.0, "fs": 1e-3, "ns": 1e3, "us": 1e6, "s": 1e12}  # ps


class H5MDReader(Reader):
    """Frames of a file with one group of particles that have positions; numbers without a unit are nm and ps."""

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        h5py = optional.need("h5py", "load_trajectory of H5MD files", "md")
        with self._damage("the file"):
            self._file = h5py.File(self.path)
            particles = self._file["particles"] if "h5md" in self._file else {}
            groups = [name for name, group in particles.items() if "position" in group]
            if len(groups) != 1:
                raise self._error(f"must be an H5MD file with one group of particles with positions, got {groups}")
            group = particles[groups[0]]
            self._position, self._edges = group["position"], group["box"].get("edges") if "box" in group else None
            self._x = check.shape(self._position["value"], ("frames", "n", 3), "position", error=ValueError)
            self.frames, self.n = self._x.shape[:2]
            self._nm = self._unit(self._x, _LENGTHS)
            if self._edges is not None and not _periodic(group["box"].attrs.get("boundary", ["periodic"])):
                self._edges = None

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        with self._damage(f"frame {k}"):
            x = np.asarray(self._x[k], np.float64) * self._nm
            return x, self._box(k), self._time(k)

    def _box(self, k):
        """The box of a frame: fixed, or the last one that was written up to then."""
        if self._edges is None:
            return None
        if not hasattr(self._edges, "keys"):
            return self._vectors(self._edges, self._edges[()])
        values = self._edges["value"]
        if len(values) != self.frames:
            k = int(np.searchsorted(self._edges["step"][:], self._position["step"][k], side="right")) - 1
        return self._vectors(values, values[max(k, 0)])

    def _vectors(self, dataset, edges):
        edges = np.asarray(edges, np.float64) * self._unit(dataset, _LENGTHS, self._nm)
        return box_of_vectors(np.diag(edges) if edges.ndim == 1 else edges)

    def _time(self, k):
        """The time of a frame, of a list, or of equal intervals."""
        if "time" not in self._position:
            return None
        times = self._position["time"]
        ps = self._unit(times, _TIMES)
        return ps * float(times[k] if times.ndim else times.attrs.get("offset", 0.0) + k * times[()])

    def _unit(self, dataset, known, default=1.0):
        unit = dataset.attrs.get("unit")
        if unit is None:
            return default
        text = unit.decode() if isinstance(unit, bytes) else str(unit)
        return known[check.choice(text.lower(), known, f"the unit of {dataset.name}")]

    @contextmanager
    def _damage(self, where: str) -> Iterator[None]:
        """Turn what h5py makes of a damaged file into a FileFormatError."""
        try:
            with documented(self.path):
                yield
        except (FileNotFoundError, FileFormatError):
            raise
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise self._error(f"{where} cannot be read: {error}") from error

    def _error(self, text):
        return FileFormatError(f"{self.path}: {text}")


def _periodic(boundary):
    return any(b in ("periodic", b"periodic") for b in np.ravel(boundary).tolist())
