"""`XTC`: a compressed trajectory in GROMACS's format."""

from __future__ import annotations

import errno
import os
import struct
import tempfile
from typing import Any

import numpy as np

from triskele.core.extend import optional

from ..errors import ReporterError
from ..protocols import SimulationLike
from .reporter import FileReporter, OfAtoms

__all__ = ["XTC"]


class XTC(OfAtoms, FileReporter):
    """Writes positions rounded to 0.001 nm, step, time and box; needs MDTraj.

    Frames of the format know nothing of each other: MDTraj compresses each one by itself, and it is appended here, so
    that a file can be continued, and is whole up to the last frame at any time.

    Parameters
    ----------
    path : str or path
    every : int
        Number of steps between two records.
    atoms : list, mask or str, optional
        Atoms to write: indices, or a selection such as ``"protein or ligand"`` by the system's own positions (see
        `Topology.select`). All by default.

    Raises
    ------
    ImportError
        If MDTraj is not installed.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.xtc")
    >>> simulation.run(20, report=sponge.XTC(path, every=10))
    >>> os.path.getsize(path) > 0
    True
    """

    def __init__(self, path: str | os.PathLike, every: int, *, atoms: Any = None):
        super().__init__(path, every)
        self.atoms = atoms
        self._format = optional.need("mdtraj.formats", "XTC", "md").XTCTrajectoryFile

    def header(self, sim: SimulationLike) -> bytes:
        """Nothing: every frame carries all that belongs to it."""
        return b""

    def go_on(self, *_: object) -> None:
        """Compare the number of atoms in the first frame of the file with that of this run."""
        there = self._file.read(8)
        if there and there[4:] != struct.pack(">i", len(self._chosen)):
            found = int.from_bytes(there[4:], "big")
            raise ReporterError(
                f"{self._name}: atoms: the file has {found}, this run {len(self._chosen)} (choose another path)"
            )

    def record(self, sim: SimulationLike, step: int) -> bytes:
        """One frame."""
        box = np.zeros((3, 3)) if sim.box is None else sim.box
        handle, name = tempfile.mkstemp(suffix=".xtc")
        os.close(handle)
        try:
            with self._format(name, "w") as file:
                file.write(
                    sim.positions[None, self._chosen].astype(np.float32),
                    time=np.array([sim.time], np.float32),
                    step=np.array([step % 2**31], np.int32),
                    box=box[None].astype(np.float32),
                )
        except RuntimeError as error:  # MDTraj's, whatever went wrong with its file
            raise OSError(
                errno.EIO, f"the frame could not be compressed in {tempfile.gettempdir()!r}: {error}"
            ) from error
        else:
            with open(name, "rb") as file:
                frame = file.read()
        finally:
            os.unlink(name)
        if len(frame) != _length(frame, len(self._chosen)):  # MDTraj says nothing if there is no room
            raise OSError(errno.ENOSPC, f"the compressed frame did not fit into {tempfile.gettempdir()!r}")
        return frame


def _length(frame: bytes, n: int) -> int:
    """Bytes that a frame of `n` atoms must have by its header; -1 if it has none."""
    if n <= 9:
        return 56 + 12 * n
    if len(frame) < 92:
        return -1
    (magic,) = struct.unpack(">i", frame[:4])
    begin, form = (92, ">i") if magic == 1995 else (96, ">q")  # the length of large frames has 64 bits
    (size,) = struct.unpack(form, frame[88:begin])
    return begin + (size + 3) // 4 * 4
