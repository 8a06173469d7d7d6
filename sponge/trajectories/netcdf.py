"""NetCDF trajectories of AMBER, OpenMM, MDTraj and MDAnalysis, read frame by frame: version 3 of the format."""

from __future__ import annotations

import os

import numpy as np

from .. import box as boxes
from ..errors import FileFormatError
from .reader import Reader

__all__ = ["NetCDFReader"]


class NetCDFReader(Reader):
    """Frames of a file with AMBER's conventions (ambermd.org/netcdf), in angstrom, degrees and ps."""

    def __init__(self, path: str | os.PathLike):
        from scipy.io import netcdf_file

        self.path = os.fspath(path)
        try:
            self._file = netcdf_file(self.path, "r", mmap=True)
            convention = bytes(getattr(self._file, "Conventions", b""))
            shape = self._file.variables["coordinates"].shape
            units = bytes(getattr(self._file.variables["coordinates"], "units", b"angstrom"))
        except FileNotFoundError:
            raise
        except Exception as error:  # scipy raises whatever a broken header leads to
            raise self._error(f"must be a NetCDF file of version 3 with coordinates, got {error!r}") from error
        known = b"AMBER" in convention and b"RESTART" not in convention
        if not known or len(shape) != 3 or shape[2] != 3 or not shape[1]:
            raise self._error(
                f"must be an AMBER trajectory with coordinates (frames, atoms, 3), got {shape} ({convention!r})"
            )
        if not units.lower().startswith(b"angstrom"):
            raise self._error(f"coordinates must be in angstrom, got {units!r}")
        self.frames, self.n = shape[:2]

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        x = self._value("coordinates", k, (self.n, 3))
        time = self._value("time", k, ())
        lengths, angles = (self._value(f"cell_{name}", k, (3,)) for name in ("lengths", "angles"))
        box = None
        if lengths is not None and angles is not None and lengths.any():
            try:
                with np.errstate(all="ignore"):  # the box is checked
                    box = boxes.from_lengths_angles(lengths * 0.1, np.radians(angles))
            except ValueError as error:
                raise self._error(f"frame {k}: {error}") from error
        return x * 0.1, box, None if time is None else float(time)

    def _value(self, name, k, shape):
        """A copy of the value of a variable in a frame; None if the file has no such variable."""
        if (
            name not in self._file.variables
        ):  # which may not be kept: the file closes when all that refers to it is gone
            return None
        try:
            scale = float(getattr(self._file.variables[name], "scale_factor", 1.0))
            return np.array(self._file.variables[name][k], np.float64).reshape(shape) * scale
        except (IndexError, ValueError, TypeError) as error:
            raise self._error(f"frame {k}: {name} must have the shape {shape}, got {error}") from error

    def _error(self, text):
        return FileFormatError(f"{self.path}: {text}")
