"""Base class of barostats."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core import random
from triskele.core.extend import check

from .. import units
from ..errors import BoxError
from ..quantities import number_in

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..engine.program import Phase
    from ..integrators.integrator import Integrator

__all__ = ["AXES", "Barostat"]

# Axes that are scaled together.
AXES = {"isotropic": ((0, 1, 2),), "semi-isotropic": ((0, 1), (2,)), "anisotropic": ((0,), (1,), (2,))}


class Barostat:
    """Keeps the pressure by scaling box and centers of mass of molecules. Subclasses are frozen dataclasses."""

    pressure: float | Sequence[float]
    temperature: float | None
    coupling: str
    every: int

    def __post_init__(self):
        name = type(self).__name__
        axes = AXES[check.choice(self.coupling, AXES, f"{name}: coupling")]
        for option, unit in (("pressure", "bar"), ("temperature", "K")):
            object.__setattr__(self, option, number_in(unit, getattr(self, option), f"{name}: {option}"))
        values = np.asarray(self.pressure)
        if values.dtype.kind not in "iuf" or values.shape not in ((), (len(axes),)) or not np.all(np.isfinite(values)):
            raise ValueError(f"{name}: pressure must be one number in bar, or {len(axes)}, got {self.pressure!r}")
        if values.shape:
            object.__setattr__(self, "pressure", tuple(values.tolist()))
        if self.temperature is not None:
            check.positive(self.temperature, f"{name}: temperature")
        check.integer(self.every, f"{name}: every", 1)

    def plan(self, engine: Engine, integrator: Integrator, step: list[Phase]) -> list[Phase]:
        """The phases of one step with the barostat's own put in."""
        raise NotImplementedError

    def _targets(self):
        """Pressure of each group of axes in kJ/mol/nm^3."""
        return np.broadcast_to(np.asarray(self.pressure, np.float64), len(AXES[self.coupling])) / units.BAR_PER_PRESSURE

    def _thermal(self, integrator: Any) -> float:
        """RT in kJ/mol."""
        temperature = self.temperature if self.temperature is not None else getattr(integrator, "temperature", None)
        if temperature is None:
            raise ValueError(
                f"{type(self).__name__}: temperature must be given, as {type(integrator).__name__} has none"
            )
        return units.GAS_CONSTANT * temperature


def check_engine(name: str, engine: Engine) -> None:
    """Raise BoxError if there is no box to scale."""
    if not engine.periodic:
        raise BoxError(f"{name}: the system must have a periodic box, got none")


def step_key(engine: Engine, kind: int, step: int) -> np.ndarray:
    """Key of the random numbers of a step."""
    return np.asarray(random.fold_in(_stream(engine.seed, kind), step))


@lru_cache(maxsize=16)
def _stream(seed, kind):
    return random.fold_in(random.key(seed), kind)


class Snapshot:
    """Positions, velocities, forces and box as they are now, to go back to."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self._arrays = [np.copy(a) for a in self._of(engine)]

    @staticmethod
    def _of(engine):
        return engine.positions, engine.velocities, engine.forces, engine.box

    def restore(self) -> None:
        """Go back."""
        for array, copy in zip(self._of(self._engine), self._arrays):
            array[:] = copy
        self._engine.box_changed(rebuild=False)
