"""`GRO`: a trajectory in GROMACS's text format."""

from __future__ import annotations

import os
from typing import Any

from ..errors import ReporterError
from ..load.gro import gro_frame
from ..protocols import SimulationLike
from .reporter import TrajectoryFile

__all__ = ["GRO"]


class GRO(TrajectoryFile):
    """Writes names, positions with three decimals (and velocities with four), step, time and box.

    See `write_gro` for a single structure.

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

    Raises
    ------
    ValueError
        While running, if a number does not fit its eight columns.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.gro")
    >>> simulation.run(20, report=sponge.GRO(path, every=10))
    >>> len(sponge.load_trajectory(path))
    2
    """

    def __init__(self, path: str | os.PathLike, every: int, *, velocities: bool = False, atoms: Any = None):
        super().__init__(path, every, atoms=atoms)
        self.velocities = bool(velocities)

    def go_on(self, sim: SimulationLike, *_: object) -> None:
        """Compare the atoms of the first frame of the file with those of this run."""
        here = self.record(sim, 0).split(b"\n")
        there = self._file.read(sum(map(len, here)) + len(here) + 100).split(b"\n")  # titles differ
        rows = slice(1, self._topology.n + 2)
        layout = [[(row[:20], len(row)) for row in lines[rows]] for lines in (here, there)]
        if there != [b""] and layout[0] != layout[1]:
            raise ReporterError(
                f"{self._name}: was begun with other atoms, or with or without velocities, unlike this run (choose "
                "another path)"
            )

    def record(self, sim: SimulationLike, step: int) -> bytes:
        """One frame."""
        title = f"written by triskele.sponge, t= {sim.time:.5f} step= {step}"
        velocities = sim.velocities[self._chosen] if self.velocities else None
        return gro_frame(title, self._topology, sim.positions[self._chosen], sim.box, velocities).encode()
