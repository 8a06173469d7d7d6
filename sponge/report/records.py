"""`Records`: functions of a dictionary of numbers as reporters of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from triskele.core.extend import Report, check

from ..protocols import SimulationLike
from .reporter import Reporter

__all__ = ["Records", "as_reporters"]

_PARTS = 100  # of a run, after each of which functions without an interval of their own are called


class Records(Reporter):
    """Calls a function with the step, the time in ps, and everything in `Simulation.energies`, by name.

    The function takes a dictionary: ``print``, the ``append`` of a list, or a `Report` such as `TensorBoard`.
    """

    def __init__(self, function: Callable[[dict[str, Any]], Any], every: int):
        super().__init__(every)
        self.function = function
        if hasattr(function, "path"):
            self.path = function.path

    def open(self, sim: SimulationLike) -> None:
        """Open a `Report`."""
        if isinstance(self.function, Report):
            self.function.open(sim.step)

    def report(self, sim: SimulationLike, step: int) -> None:
        """Call the function."""
        changing = {f"set {name}": value for name, value in sim.changing.items()}
        self.function({"step": step, "time": sim.time, **sim.energies(), **changing})

    def sync(self) -> None:
        """Bring what was reported to the disk."""
        if isinstance(self.function, Report):
            self.function.sync()

    def close(self) -> None:
        """Close a `Report`."""
        if isinstance(self.function, Report):
            self.function.close()


def as_reporters(report: Any, where: str, steps: int) -> list[Reporter]:
    """Return the reporters of a run of `steps` steps.

    `report` is None, or one or several of Reporter, Report and functions of a dictionary of numbers; anything else
    raises a TypeError that begins with `where`.
    """
    if report is None:
        return []
    several = isinstance(report, Iterable) and not isinstance(report, (Reporter, Report, str, type))
    made = []
    for r in report if several else [report]:
        if isinstance(r, type) and issubclass(r, (Reporter, Report)):
            raise TypeError(
                f"{where}: report must be a function of a dictionary of numbers, a reporter, or a list of "
                f"these, got the class {r.__name__} (make one: {r.__name__}(...))"
            )
        if not isinstance(r, Reporter):
            check.kind(
                r, Callable, f"{where}: report", "a function of a dictionary of numbers, a reporter, or a list of these"
            )
            r = Records(r, getattr(r, "every", None) or max(1, steps // _PARTS))
        made.append(r)
    return made
