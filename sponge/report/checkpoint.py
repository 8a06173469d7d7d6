"""`Checkpoint`: saves the state of the run, from which it can be resumed bit for bit."""

from __future__ import annotations

import os

from triskele.core.extend import check

from ..protocols import SimulationLike
from .reporter import Reporter

__all__ = ["Checkpoint", "as_checkpoint"]


class Checkpoint(Reporter):
    """Writes a checkpoint every `every` steps, replacing the previous one (see `Simulation.save`).

    All files of other reporters are brought to the disk first, whatever the order in which they were given.

    Parameters
    ----------
    path : str or path
    every : int
        Number of steps between two calls.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.chk")
    >>> simulation.run(20, report=sponge.Checkpoint(path, every=10))
    >>> os.path.getsize(path) > 0
    True
    """

    def __init__(self, path: str | os.PathLike, every: int):
        super().__init__(every)
        self.path = os.fspath(path)

    def report(self, sim: SimulationLike, step: int) -> None:
        """Write the checkpoint."""
        sim.save(self.path)


def as_checkpoint(checkpoint: str | os.PathLike | Checkpoint, steps: int, multiple: int = 1) -> Checkpoint:
    """Return the `Checkpoint` of a run of `steps` steps.

    For a path, the interval is a twentieth of the run, made a multiple of `multiple`.
    """
    if isinstance(checkpoint, Checkpoint):
        return checkpoint
    check.kind(checkpoint, (str, os.PathLike), "run: checkpoint", "a path or a Checkpoint")
    return Checkpoint(checkpoint, max(1, steps // (20 * multiple)) * multiple)
