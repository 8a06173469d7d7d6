"""`Callback`: a Python function at chosen intervals."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from triskele.core.extend import check

from .reporter import Reporter

if TYPE_CHECKING:
    from ..run.simulation import Simulation

__all__ = ["Callback"]


class Callback(Reporter):
    """Calls ``function(sim)`` every `every` steps.

    The function may read everything, and may set ``sim.positions``, ``sim.velocities`` or ``sim.box``; what it returns
    is not looked at. Whatever it raises ends the run.

    Parameters
    ----------
    every : int
        Number of steps between two calls.
    function : callable

    Examples
    --------
    >>> from triskele import sponge
    >>> report = sponge.Callback(100, lambda sim: print(sim.step, sim.temperature))
    """

    def __init__(self, every: int, function: Callable[[Simulation], Any]):
        super().__init__(every)
        self.function = check.kind(function, Callable, "Callback: function")

    def report(self, sim: Simulation, step: int) -> None:
        """Call the function."""
        self.function(sim)
