"""Overdamped Langevin dynamics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import random
from triskele.core.extend import Task

from ..constraints.solver import solver_of
from ..engine.program import Phase
from ..virtual_sites.sites import place_tasks
from .integrator import Integrator, with_forces
from .kernels import NOISE, brownian

__all__ = ["Brownian"]


@dataclass(frozen=True)
class Brownian(Integrator):
    """Positions that diffuse under forces, without inertia: x += dt f/(m g) + sqrt(2 RT dt/(m g)) R [1]_.

    First order. Velocities are displacements divided by the time step, so kinetic energies are meaningless.

    Parameters
    ----------
    temperature : float, K
        Temperature of the heat bath.
    friction : float
        The g above, in 1/ps.
    timestep : float, ps
        Length of a time step.
    constraint_tolerance : float
        Largest relative error of constrained lengths.

    References
    ----------
    .. [1] Ermak, McCammon, J. Chem. Phys. 69 (1978) 1352. doi:10.1063/1.436761

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> simulation = sponge.Simulation(system, sponge.Brownian(300, friction=100.0, timestep=0.0001), seed=1)
    >>> simulation.run(10)
    >>> simulation.step
    10
    """

    temperature: float
    friction: float
    timestep: float
    constraint_tolerance: float = 1e-6
    forces_at = "old"

    def plan(self, engine: Any, forces: list[Phase]) -> list[Phase]:
        solver, dt, chunks = solver_of(engine), self.timestep, engine.atom_chunks
        mobility = dt / self.friction * engine.inverse_masses
        noise = np.sqrt(2 * self._thermal() * mobility)
        per_time = np.array([1 / dt])
        step = [
            Task(
                brownian,
                engine.atom_starts,
                engine.positions,
                solver.old,
                engine.velocities,
                engine.forces,
                mobility,
                noise,
                per_time,
                np.asarray(random.key(engine.seed)),
                NOISE,
                engine.flags,
                chunks=chunks,
            ),
            *solver.positions(per_time, self.constraint_tolerance),
            *place_tasks(engine),
        ]
        return with_forces(forces, step)

    def heat(self, engine: Any) -> float:
        return np.nan
