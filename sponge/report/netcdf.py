"""`NetCDF`: a trajectory in AMBER's format."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np

from .. import box as boxes
from ..protocols import SimulationLike
from .reporter import TrajectoryFile

__all__ = ["NetCDF"]

_COUNT_AT = 4  # byte at which the number of frames stands, as a big-endian integer


class NetCDF(TrajectoryFile):
    """Writes positions (float32, angstrom on disk), time and, when periodic, the box.

    The file has AMBER's conventions 1.0 (ambermd.org/netcdf) and 64-bit offsets.

    Parameters
    ----------
    path : str or path
    every : int
        Number of steps between two records.
    atoms : list, mask or str, optional
        Atoms to write: indices, or a selection such as ``"protein or ligand"`` by the system's own positions (see
        `Topology.select`). All by default.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.nc")
    >>> simulation.run(20, report=sponge.NetCDF(path, every=10))
    >>> len(sponge.load_trajectory(path))
    2
    """

    def header(self, sim: SimulationLike) -> bytes:
        """A file without frames."""
        from scipy.io import netcdf_file

        buffer = io.BytesIO()
        file = netcdf_file(buffer, "w", version=2)
        file.Conventions, file.ConventionVersion = "AMBER", "1.0"
        file.program, file.programVersion, file.application = "triskele.sponge", "1", "triskele"
        file.title = (
            f"{len(self._chosen)} of {sim.system.n} atoms, {zlib.crc32(self._chosen.astype('<i4').tobytes()):08x}"
        )
        sizes: dict[str, int | None] = {"frame": None, "spatial": 3, "atom": len(self._chosen)}
        names = {"spatial": "xyz"}
        series: dict[str, tuple[str, ...]] = {
            "time": ("f4", "picosecond"),
            "coordinates": ("f4", "angstrom", "atom", "spatial"),
        }
        if sim.box is not None:
            sizes |= {"cell_spatial": 3, "cell_angular": 3, "label": 5}
            names |= {"cell_spatial": "abc", "cell_angular": "alphabeta gamma"}
            series["cell_lengths"] = ("f8", "angstrom", "cell_spatial")
            series["cell_angles"] = ("f8", "degree", "cell_angular")
        for name, size in sizes.items():
            file.createDimension(name, size)
        for name, text in names.items():
            letters = np.array(list(text), "S1").reshape((3, -1) if len(text) > 3 else 3)
            file.createVariable(name, "c", (name, "label")[: letters.ndim])[:] = letters
        for name, (kind, unit, *axes) in series.items():
            variable = file.createVariable(name, kind, ("frame", *axes))
            variable.units = unit
            variable[0] = 0.0  # SciPy finds the sizes of variables by their first frame, which is cut off again
        file.flush()
        data = buffer.getvalue()
        return data[:_COUNT_AT] + bytes(4) + data[_COUNT_AT + 4 : -self._size(sim)]

    def go_on(self, sim: SimulationLike, header: bytes) -> None:
        """Compare all of the header but the number of frames."""
        super().go_on(sim, header[:_COUNT_AT] + bytes(4) + header[_COUNT_AT + 4 :])

    def record(self, sim: SimulationLike, step: int) -> bytes:
        """One frame: the values of all variables, in their order in the header."""
        data = struct.pack(">f", sim.time) + (sim.positions[self._chosen] * 10).astype(">f4").tobytes()
        if sim.box is None:
            return data
        lengths, angles = boxes.angles_and_lengths(sim.box)
        return data + np.concatenate([10 * lengths, np.degrees(angles)]).astype(">f8").tobytes()

    def appended(self) -> None:
        """Count the frames in the header."""
        self.overwrite(_COUNT_AT, struct.pack(">i", (self._end - self._begin) // self._size(self._sim)))

    def _size(self, sim):
        """Bytes of a frame."""
        return 4 + 12 * len(self._chosen) + (0 if sim.box is None else 48)
