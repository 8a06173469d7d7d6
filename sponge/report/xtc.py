"""`XTC`: a compressed trajectory in GROMACS's format."""

from __future__ import annotations

import struct

import numpy as np

from ..errors import ReporterError
from ..protocols import SimulationLike
from ..xtc_codec import encode_frame
from .reporter import TrajectoryFile

__all__ = ["XTC"]


class XTC(TrajectoryFile):
    """Writes positions rounded to 0.001 nm, step, time and box.

    Each frame is compressed by itself, so that the file is whole up to the last frame at any time.

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
    ValueError
        While running, if a position is not finite, or farther from the origin than 2,147,483 nm.

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
        return encode_frame(sim.positions[self._chosen], box, step % 2**31, sim.time)
