"""`Checkpoint`: saves the state of the run, from which it can be resumed bit for bit."""

from __future__ import annotations

import os

from ..protocols import SimulationLike
from .reporter import Reporter

__all__ = ["Checkpoint"]


class Checkpoint(Reporter):
    """Writes a checkpoint every `every` steps, replacing the previous one (see `Simulation.save_checkpoint`).

    All files of other reporters are brought to the disk first, whatever the order in which they were given.

    Parameters
    ----------
    path : str or path
    every : int
        Number of steps between two calls.
    """

    def __init__(self, path: str | os.PathLike, every: int):
        super().__init__(every)
        self.path = os.fspath(path)

    def report(self, sim: SimulationLike, step: int) -> None:
        """Write the checkpoint."""
        sim.save_checkpoint(self.path)
