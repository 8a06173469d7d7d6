"""The registry of simulators: functions that run a circuit, by name. `run` takes the one that its caller names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from triskele.core.extend import discover

from ..errors import SimulatorError

__all__ = ["Simulate", "find", "names", "register"]

# simulate(circuit, theta, data, *, dtype, initial, shots, seed) -> Result, with the arguments of `quantum.run`
Simulate = Callable[..., Any]

_registry: dict[str, Simulate] = {}


def register(name: str, simulate: Simulate) -> Simulate:
    """Register a simulator under a name that is free. Built-in simulators need not be registered: each is the function
    `simulate` of a package `quantum.simulators.NAME`.
    """
    if name in names():
        raise SimulatorError(f"register: there is a simulator {name!r} already")
    _registry[name] = simulate
    return simulate


def find(name: str) -> Simulate:
    """Return the simulator of that name."""
    if name not in _registry:
        if name not in names():
            raise SimulatorError(f"run: simulator must be one of {', '.join(names())}, got {name!r}")
        _registry[name] = importlib.import_module(f"triskele.quantum.simulators.{name}").simulate
    return _registry[name]


def names() -> list[str]:
    """Return the names of all simulators."""
    found = set(discover.names("triskele.quantum.simulators")) - {"context", "registry", "result", "run"}
    return sorted(found | set(_registry))
