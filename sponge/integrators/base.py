"""What an integrator is: its options, the phases of one step, and the arrays that a restart needs."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.sponge import units

if TYPE_CHECKING:
    from triskele.sponge.engine.engine import Engine
    from triskele.sponge.engine.program import Phase

__all__ = ["Integrator"]

_POSITIVE = ("timestep", "temperature", "friction", "relaxation_time", "constraint_tolerance")


@dataclass(frozen=True)
class Integrator:
    """A scheme that moves the atoms. Subclasses are frozen dataclasses, one to a file.

    Velocities are those at the end of the step, from which kinetic energies and temperatures are computed, unless the
    subclass says otherwise. Random numbers are a function of ``engine.seed``, the number of the step and of the atom.

    Attributes
    ----------
    needs_forces : bool
        Whether a step begins with the forces of its positions in ``engine.forces``: the caller then calls `prepare`
        before a run, and whenever positions, box or potentials have been changed from outside.
    """

    timestep: float

    needs_forces = False

    def __post_init__(self):
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in _POSITIVE and not (np.isscalar(value) and np.isreal(value) and 0 < value < np.inf):
                raise ValueError(f"{type(self).__name__}: {f.name} must be a positive number, got {value!r}")

    def plan(self, engine: Engine, forces: list[Phase]) -> list[Phase]:
        """The phases of one step.

        Parameters
        ----------
        engine : Engine
        forces : list of Phase
            Set ``engine.forces``; the scheme puts them where it needs forces.
        """
        raise NotImplementedError

    def prepare(self, engine: Engine) -> None:
        """Make everything valid that the first step takes for granted."""
        if self.needs_forces:
            engine.compute(energy=False)

    def state(self, engine: Engine) -> dict[str, np.ndarray]:
        """Arrays besides positions, velocities and box that a restart must put back in place, by name."""
        return {}

    def heat(self, engine: Engine) -> float:
        """What must be added to kinetic and potential energy to get a conserved quantity, in kJ/mol.

        NaN where the scheme keeps no such account.
        """
        return 0.0

    def _thermal(self) -> float:
        """RT in kJ/mol."""
        return units.GAS_CONSTANT * self.temperature  # type: ignore[attr-defined]


def kept(engine: Any, name: str, initial: Any) -> np.ndarray:
    """The array `name` of ``engine.store``, made from `initial` when there is none: it outlives a new plan."""
    if name not in engine.store:
        engine.store[name] = np.array(initial, np.float64)
    return engine.store[name]
