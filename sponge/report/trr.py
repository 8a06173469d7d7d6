"""`TRR`: a trajectory in GROMACS's format of full precision."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ReporterError
from ..protocols import SimulationLike
from ..trr_codec import MOST_OF_HEAD, encode_frame, same_layout
from .reporter import TrajectoryFile

__all__ = ["TRR"]


class TRR(TrajectoryFile):
    """Writes positions (and velocities) as float32, step, time and box.

    The file is whole up to the last frame at any time.

    Parameters
    ----------
    path : str or path
    every : int
        Number of steps between two records.
    velocities : bool
        Write velocities too.
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
    >>> path = os.path.join(tempfile.mkdtemp(), "run.trr")
    >>> simulation.run(20, report=sponge.TRR(path, every=10, velocities=True))
    >>> len(sponge.load_trajectory(path))
    2
    """

    def __init__(self, path: str | os.PathLike, every: int, *, velocities: bool = False, atoms: Any = None):
        super().__init__(path, every, atoms=atoms)
        self.velocities = bool(velocities)

    def go_on(self, sim: SimulationLike, *_: object) -> None:
        """Compare what the first frame of the file has with what this run writes."""
        there = self._file.read(MOST_OF_HEAD)
        if there and not same_layout(there, self.record(sim, 0)):
            raise ReporterError(
                f"{self._name}: was begun with another number of atoms, or with or without velocities or a box, unlike "
                "this run (choose another path)"
            )

    def record(self, sim: SimulationLike, step: int) -> bytes:
        """One frame."""
        velocities = sim.velocities[self._chosen] if self.velocities else None
        return encode_frame(sim.positions[self._chosen], sim.box, step % 2**31, sim.time, velocities)
