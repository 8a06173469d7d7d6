"""`MultipleWalkers`: simulations that share what their sampling methods learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..run.checkpoint_file import _fields, differences
from ..run.sampling_method import Sampling
from ..run.simulation import Simulation
from .replicas import Replicas

__all__ = ["MultipleWalkers"]


class MultipleWalkers(Replicas):
    """Walkers with a common bias. Every `every` steps each adopts what all have learned since the last time.

    Parameters
    ----------
    make : callable
        ``make(k)`` returns the Simulation of walker k, with sampling methods of its own (created in each call, with
        the same options) and a seed of its own.
    n : int
        Number of walkers.
    every : int
        Steps between exchanges of news.
    comm : mpi4py communicator, optional
        See `Replicas`.

    Raises
    ------
    ValueError
        If there are no sampling methods, they differ from walker to walker, or one cannot be shared.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import cv
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> def walker(k):
    ...     bias = sponge.Metadynamics([cv.torsion(4, 6, 8, 14)], sigma=0.35, height=1.2, every=50, bias_factor=8)
    ...     return sponge.Simulation(system, bath, seed=k, sampling=[bias])
    >>> walkers = sponge.MultipleWalkers(walker, 4, every=100)
    >>> walkers.run(200)
    """

    def __init__(self, make: Callable[[int], Simulation], n: int, *, every: int = 1000, comm: Any = None):
        super().__init__(make, n, every=every, comm=comm)
        first = self._described[0]["methods"]
        if not first:
            raise ValueError("MultipleWalkers: the simulations must have sampling methods, got none")
        for k, described in enumerate(self._described):
            if found := differences(described["methods"], first):
                raise ValueError(
                    "MultipleWalkers: all walkers must have the same sampling methods, but those of "
                    f"walker {k} differ from those of walker 0: "
                    f"{', '.join(found).replace('in the checkpoint', f'in {k}').replace('here', 'in 0')}"
                )
        if len({m for sim in self._simulations.values() for m in sim.sampling}) < len(self.own) * len(first):
            raise ValueError("MultipleWalkers: make must make new sampling methods for each walker")

    def _describe(self, k, sim):
        for method in sim.sampling:
            if type(method).news is Sampling.news or type(method).receive is Sampling.receive:
                raise ValueError(f"MultipleWalkers: {type(method).__name__} cannot be shared by several walkers")
        return {**super()._describe(k, sim), "methods": {method.name: _fields(method) for method in sim.sampling}}

    def _news(self, k, sim):
        return [method.news() for method in sim.sampling]

    def _meet(self, news):
        for sim in self._simulations.values():
            for i, method in enumerate(sim.sampling):
                method.receive([walker[i] for walker in news])
            sim._touched()
