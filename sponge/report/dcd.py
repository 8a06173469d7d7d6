"""`DCD`: a trajectory in the format of CHARMM, NAMD and OpenMM."""

from __future__ import annotations

import struct
import zlib

import numpy as np

from .. import box as boxes
from ..errors import ReporterError
from ..protocols import SimulationLike
from .reporter import TrajectoryFile

__all__ = ["DCD"]

_AKMA = 0.04888821  # ps: CHARMM's unit of time, sqrt(dalton A^2 / (kcal/mol))
_LARGEST = 2**31 - 1  # number that the header can hold; steps may be more
_COUNT_AT = 8  # byte at which the number of frames stands


class DCD(TrajectoryFile):
    """Writes positions (float32, angstrom on disk) and, when periodic, the box.

    Fortran records: a header ("CORD", numbers of frames and steps, timestep), a title, the number of atoms; then per
    frame the unit cell (float64: A, gamma, B, beta, alpha, C; angles in degrees) and all x, all y, all z.

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
    >>> path = os.path.join(tempfile.mkdtemp(), "run.dcd")
    >>> simulation.run(20, report=sponge.DCD(path, every=10))
    >>> len(sponge.load_trajectory(path))
    2
    """

    def header(self, sim: SimulationLike) -> bytes:
        """The three records at the beginning, with no frames yet."""
        control = np.zeros(20, np.int32)
        control[1:3] = np.minimum([(sim.step // self.every + 1) * self.every, self.every], _LARGEST)
        control[9:10].view(np.float32)[0] = sim.timestep / _AKMA
        control[10], control[19] = sim.box is not None, 24  # 24: CHARMM's version that the layout is of
        title = "written by triskele.sponge"
        if self.atoms is not None:
            number = zlib.crc32(self._chosen.astype("<i4").tobytes())
            title += f", atoms: {len(self._chosen)} of {sim.system.n}, {number:08x}"
        titles = [title.encode().ljust(80), b"positions are not wrapped into the box".ljust(80)]
        return (
            _fortran(b"CORD" + control.tobytes())
            + _fortran(struct.pack("<i", len(titles)) + b"".join(titles))
            + _fortran(struct.pack("<i", len(self._chosen)))
        )

    def go_on(self, sim: SimulationLike, header: bytes) -> None:
        """Compare atoms, box and interval of the file with those of this run."""
        new = np.frombuffer(self.header(sim)[8:88], np.int32)
        old = np.frombuffer(header[8:88], np.int32)
        self._expect("steps between frames", old[2], new[2])
        self._expect("atoms", *(struct.unpack("<i", h[-8:-4])[0] for h in (header, self.header(sim))))
        self._expect("box (0: none)", old[10], new[10])
        if header[100:180] != self.header(sim)[100:180]:  # the first title
            raise ReporterError(f"{self._name}: was begun with other atoms than this run writes (choose another path)")

    def _expect(self, what, there, here):
        if there != here:
            raise ReporterError(f"{self._name}: {what}: the file has {there}, this run {here} (choose another path)")

    def record(self, sim: SimulationLike, step: int) -> bytes:
        """One frame."""
        cell = b"" if sim.box is None else _fortran(_unit_cell(sim.box).tobytes())
        xyz = np.ascontiguousarray(sim.positions[self._chosen].T * 10, "<f4")
        return cell + b"".join(_fortran(component.tobytes()) for component in xyz)

    def appended(self) -> None:
        """Set the number of frames in the header, and the step of the last one."""
        size = 3 * (4 * len(self._chosen) + 8) + (0 if self._sim.box is None else 56)
        frames = (self._end - self._begin) // size
        self._file.seek(_COUNT_AT + 4)
        first, every = struct.unpack("<ii", self._file.read(8))
        self.overwrite(_COUNT_AT, struct.pack("<i", frames))
        self.overwrite(_COUNT_AT + 12, struct.pack("<i", min(first + every * max(frames - 1, 0), _LARGEST)))


def _fortran(data: bytes) -> bytes:
    """A record of Fortran's unformatted files: its length before and after."""
    size = struct.pack("<i", len(data))
    return size + data + size


def _unit_cell(box: np.ndarray) -> np.ndarray:
    (a, b, c), angles = boxes.angles_and_lengths(box)
    alpha, beta, gamma = np.degrees(angles)
    return np.array([10 * a, gamma, 10 * b, beta, alpha, 10 * c], "<f8")
