"""Arguments of `Simulation` and its methods, brought into form or refused."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from .. import units
from ..integrators.integrator import Integrator
from ..integrators.temperature import moving_drude_pairs
from ..system import System
from .sampling_method import Sampling

__all__ = ["drude_pairs", "number_of_steps", "sampling_methods"]


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


def drude_pairs(system: System, integrator: Integrator) -> np.ndarray:
    """Return the Drude particles and their atoms; raise if one has no mass, or if the integrator heats them alike."""
    pairs = moving_drude_pairs(system)
    if len(pairs) < len(system.drude_pairs):
        massless = system.drude_pairs[(system.masses[system.drude_pairs] == 0).any(1)][0]
        raise ValueError(
            f"Simulation: Drude particles and their atoms must have mass, got none for "
            f"{system.topology.describe(int(massless[np.argmin(system.masses[massless])]))}"
        )
    if len(pairs) and getattr(integrator, "temperature", None) is not None and not integrator.two_baths:
        raise ValueError(
            f"Simulation: Drude particles need a bath of their own, got {type(integrator).__name__}, "
            "which heats them like atoms (DrudeLangevin has two baths)"
        )
    return pairs


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
