"""Base class of integrators: options, phases of one step, and the arrays that a restart needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from triskele.core.extend import Task, check, kernel

from .. import units
from ..engine.flags import FORCES_STALE
from ..engine.program import Phase
from ..quantities import number_in

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["Integrator"]

_UNITS = {
    "timestep": "ps",
    "temperature": "K",
    "friction": "1/ps",
    "relaxation_time": "ps",
    "drude_temperature": "K",
    "drude_friction": "1/ps",
    "hard_wall": "nm",
}
_POSITIVE = (*_UNITS, "constraint_tolerance")
_LOOSEST = 0.01  # tolerance at which constraints still are some


class Integrator:
    """A scheme that moves the atoms. Subclasses are frozen dataclasses, one to a file.

    Velocities are those at the end of the step, from which kinetic energies and temperatures are computed, unless the
    subclass says otherwise. Random numbers are a function of ``engine.seed``, the number of the step and of the atom.

    Attributes
    ----------
    timestep : float, ps
        Length of a time step.
    forces_at : {"old", "new"} or None
        Which positions ``engine.forces`` belong to at the end of a step: those that the constraint solver keeps as old,
        the present ones, or, if None, none, so that whoever needs forces has to compute them.
    two_baths : bool
        Drude particles have a bath of their own.
    """

    timestep: float
    forces_at: ClassVar[str | None] = None
    two_baths: ClassVar[bool] = False

    def __post_init__(self):
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name not in _POSITIVE or (value is None and "None" in str(f.type)):
                continue
            if f.name in _UNITS:
                value = number_in(_UNITS[f.name], value, f"{type(self).__name__}: {f.name}")
                object.__setattr__(self, f.name, value)
            check.positive(value, f"{type(self).__name__}: {f.name}")
            if f.name == "constraint_tolerance" and value > _LOOSEST:
                raise ValueError(
                    f"{type(self).__name__}: constraint_tolerance must be at most {_LOOSEST}, a part of "
                    f"the length, got {value!r}"
                )

    def plan(self, engine: Engine, forces: list[Phase]) -> list[Phase]:
        """The phases of one step.

        Parameters
        ----------
        engine : Engine
        forces : list of Phase
            Set ``engine.forces``; the scheme puts them where it needs forces.
        """
        raise NotImplementedError

    def pair_interval(self, potentials: Sequence[Any]) -> float:
        """Time in ps between two evaluations of the pair forces of `potentials`."""
        return self.timestep

    def prepare(self, engine: Engine) -> None:
        """Prepare a run; also called whenever positions, box or potentials have been changed from outside."""
        engine.flags[FORCES_STALE] = 1

    def heat(self, engine: Engine) -> float:
        """Return the term that makes kinetic plus potential energy a conserved quantity, in kJ/mol.

        NaN where the scheme keeps no such account.
        """
        return 0.0

    def _thermal(self) -> float:
        """RT in kJ/mol."""
        return units.GAS_CONSTANT * self.temperature  # type: ignore[attr-defined]


def with_forces(forces: list[Phase], tasks: list[Task]) -> list[Phase]:
    """Force phases, then `tasks` in sequence: in one phase with the sum of forces, when that is the last."""
    if forces and forces[-1].mode == "sequence" and forces[-1].tasks:
        return [*forces[:-1], replace(forces[-1], tasks=[*forces[-1].tasks, *tasks], name="sum of forces, integrator")]
    return [*forces, Phase(tasks, "sequence", name="integrator")]


def fresh_forces(engine: Engine, forces: list[Phase]) -> list[Phase]:
    """For schemes whose steps begin with the forces of the positions: these are computed when someone has moved
    atoms.
    """
    guarded = [replace(p, flag=FORCES_STALE) if p.flag is None else p for p in forces]
    return [*guarded, Phase([Task(_mark_fresh, engine.flags)], flag=FORCES_STALE, name="forces at the start")]


@kernel(nogil=True)
def _mark_fresh(chunk, flags):
    flags[FORCES_STALE] = 0


def kept(engine: Any, name: str, initial: Any) -> np.ndarray:
    """The array `name` of ``engine.store``, made from `initial` when there is none: it outlives a new plan."""
    if name not in engine.store:
        engine.store[name] = np.array(initial, np.float64)
    return engine.store[name]
