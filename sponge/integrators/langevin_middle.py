"""Langevin dynamics by the middle scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import random
from triskele.core.extend import Task

from ..constraints.solver import solver_of
from ..engine.program import Phase
from ..virtual_sites.sites import place_tasks
from .center_of_mass import com_phases
from .integrator import Integrator, with_forces
from .kernels import NOISE, kick, langevin
from .temperature import thermal_speeds

__all__ = ["LangevinMiddle"]


@dataclass(frozen=True)
class LangevinMiddle(Integrator):
    """Langevin dynamics with the thermostat in the middle of the drift [1]_, in its leapfrog form [2]_.

    A step is: kick v by a whole time step, drift half, v = a v + sqrt((1 - a^2) RT/m) R with a = exp(-friction
    timestep), drift half. Configurations are sampled to fourth order for harmonic forces and to second otherwise, with
    a small prefactor. Velocities stand at half steps, which in this scheme makes their distribution exact for harmonic
    forces; kinetic energies are taken from them as they are.

    Parameters
    ----------
    temperature : float, K
        Temperature of the heat bath.
    friction : float, 1/ps
        Friction coefficient.
    timestep : float, ps
        Length of a time step.
    constraint_tolerance : float
        Largest relative error of constrained lengths.

    References
    ----------
    .. [1] Leimkuhler, Matthews, "Efficient molecular dynamics using geodesic integration and solvent-solute splitting",
       Proc. R. Soc. A 472 (2016). doi:10.1098/rspa.2016.0138
    .. [2] Zhang, Liu, Yan, Tuckerman, Liu, "Unified efficient thermostat scheme for the canonical ensemble with
       holonomic or isokinetic constraints via molecular dynamics", J. Phys. Chem. A 123 (2019) 6056.
       doi:10.1021/acs.jpca.9b02771

    Examples
    --------
    >>> from triskele.sponge import LangevinMiddle
    >>> LangevinMiddle(temperature=300, friction=1.0, timestep=0.002)
    LangevinMiddle(temperature=300, friction=1.0, timestep=0.002, constraint_tolerance=1e-06)
    """

    temperature: float
    friction: float
    timestep: float
    constraint_tolerance: float = 1e-6
    forces_at = "old"

    def plan(self, engine: Any, forces: list[Phase]) -> list[Phase]:
        time = np.array([self.timestep])
        return [*com_phases(engine), *with_forces(forces, middle_step(engine, self, time, NOISE))]

    def heat(self, engine: Any) -> float:
        return np.nan


def middle_step(
    engine: Any, integrator: Any, kick_time: np.ndarray, kind: int, timestep: float | None = None
) -> list[Task]:
    """Kick by `kick_time` [1], then drift, thermostat and drift, with constraints and virtual sites."""
    solver, chunks, starts = solver_of(engine), engine.atom_chunks, engine.atom_starts
    dt = integrator.timestep if timestep is None else timestep
    decay = np.exp(-integrator.friction * dt)
    noise = thermal_speeds(engine, integrator._thermal()) * np.sqrt(-np.expm1(-2 * integrator.friction * dt))
    key = np.asarray(random.key(engine.seed))
    x, v = engine.positions, engine.velocities
    return [
        Task(kick, starts, v, engine.forces, engine.inverse_masses, kick_time, chunks=chunks),
        *solver.velocities(),
        Task(
            langevin,
            starts,
            x,
            solver.old,
            v,
            noise,
            np.array([decay]),
            np.array([dt / 2]),
            key,
            kind,
            engine.flags,
            chunks=chunks,
        ),
        *solver.positions(np.array([1 / dt]), integrator.constraint_tolerance),
        *place_tasks(engine),
    ]
