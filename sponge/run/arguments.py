"""Arguments of `Simulation` and its methods, brought into form or refused."""

from __future__ import annotations

from typing import Any

from triskele.core.extend import check

from .. import units
from ..system import System
from .sampling_method import Sampling

__all__ = ["number_of_steps", "sampling_methods"]


def sampling_methods(sampling: Any, system: System) -> list[Sampling]:
    """Return the sampling methods as a list; raise if one is none, or names collide."""
    methods: list[Any] = [sampling] if isinstance(sampling, (Sampling, type)) else list(sampling)
    names = [p.name for p in system.potentials]
    for method in methods:
        check.kind(method, Sampling, "Simulation: sampling", "a list of sampling methods")
        if method.name in names:
            raise ValueError(
                f"Simulation: names of sampling methods must differ from each other and from the system's "
                f"potentials, got {method.name!r} twice"
            )
        names.append(method.name)
    return methods


def number_of_steps(steps: int | None, time: str | float | None, timestep: float) -> int:
    """Return the number of steps of a run that is given as a number of steps or as a time."""
    if (steps is None) == (time is None):
        raise ValueError("run: give either a number of steps or a time")
    if time is not None:
        span = units.parse_time(time)
        check.number(span, "run: time", 0)
        if 0 < span < 0.5 * timestep:
            raise ValueError(f"run: time is less than half of a time step of {timestep} ps, got {time!r}")
        return round(span / timestep)
    return check.integer(steps, "run: steps", 0, hint="a time is given as time='1 ns'")
