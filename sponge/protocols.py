"""Protocols of the system and the simulation, for annotations in modules below them.

`System` and `Simulation` fulfill these protocols. Modules below them name these, so that imports point down only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from .topology import Topology

__all__ = ["PotentialLike", "SamplingLike", "SimulationLike", "SystemLike"]


class PotentialLike(Protocol):
    """A potential as an engine sees it."""

    name: str

    def plan(self, engine: Any) -> Any:
        """Return the compiled form for an engine."""


class SamplingLike(PotentialLike, Protocol):
    """A sampling method as an engine sees it."""

    def split(self, engine: Any) -> Any:
        """Return the parts of the energy that the method scales, or None."""


class SystemLike(Protocol):
    """A system as engines, virtual sites and potentials see it; the attributes are those of `System`."""

    topology: Topology
    masses: np.ndarray
    box: np.ndarray | None
    positions: np.ndarray | None
    velocities: np.ndarray | None
    constraints: Any
    virtual_sites: list[Any]
    exclusions: np.ndarray
    remove_com_motion: bool | None
    potentials: list[Any]

    @property
    def drude_pairs(self) -> np.ndarray:
        """Drude particles and their atoms, (m, 2)."""
        ...

    @property
    def n(self) -> int:
        """Number of atoms."""

    def __getitem__(self, name: str) -> Any: ...

    def check(self) -> None:
        """Raise if the parts do not fit together."""

    def params(self) -> dict[str, dict[str, np.ndarray]]:
        """Return the parameters of all potentials by name."""

    def clusters(self) -> np.ndarray:
        """Return the number of each atom's cluster; atoms of a cluster move together."""

    def site_tasks(self, engine: Any) -> Any:
        """Return the tasks that place virtual sites and spread their forces, and the virial rows that these fill."""


class SimulationLike(Protocol):
    """A simulation as reporters, the run loop, the guard and checkpoints see it."""

    system: Any
    integrator: Any
    barostat: Any
    sampling: Sequence[Any]
    seed: int
    precision: Any
    files: dict[str, int]
    resumed_from: str | None
    target: int
    stopped: str | None
    _engine: Any
    _guard: Any
    _rate: float
    _running: bool

    @property
    def step(self) -> int:
        """Number of steps made."""

    @property
    def timestep(self) -> float:
        """Time step in ps."""

    @property
    def time(self) -> float:
        """Time in ps."""

    @property
    def positions(self) -> np.ndarray:
        """Positions, (n, 3) float64, nm."""

    @property
    def velocities(self) -> np.ndarray:
        """Velocities, (n, 3) float64, nm/ps."""

    @property
    def box(self) -> np.ndarray | None:
        """Box, (3, 3) float64, nm, or None."""

    @property
    def changing(self) -> dict[str, float]:
        """Present values of the settings that the present run changes."""

    @property
    def temperature(self) -> float:
        """Instantaneous temperature in K."""

    def energies(self) -> dict[str, float]:
        """Return energies by name."""

    def check_unchanged(self) -> None:
        """Raise StaleSimulationError if the system or a setting was changed."""

    def save(self, path: Any) -> None:
        """Write a checkpoint."""

    def _advance(self, steps: int) -> None: ...

    def _snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]: ...

    def _restore(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None: ...

    def _touched(self) -> None: ...
