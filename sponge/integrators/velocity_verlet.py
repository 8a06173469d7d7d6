"""Newton's equations by velocity Verlet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import Task

from ..constraints.solver import solver_of
from ..engine.program import Phase
from ..virtual_sites.sites import place_tasks
from .center_of_mass import com_phases
from .integrator import Integrator, fresh_forces, with_forces
from .kernels import kick, kick_drift

__all__ = ["VelocityVerlet"]


@dataclass(frozen=True)
class VelocityVerlet(Integrator):
    """Constant energy: half a kick, a drift, half a kick [1]_; constrained as RATTLE [2]_.

    Symplectic, reversible in time, of second order. Positions and velocities are those of the same time.

    Parameters
    ----------
    timestep : float, ps
        Length of a time step.
    constraint_tolerance : float
        Largest relative error of constrained lengths.

    References
    ----------
    .. [1] Swope, Andersen, Berens, Wilson, J. Chem. Phys. 76 (1982) 637. doi:10.1063/1.442716
    .. [2] Andersen, J. Comput. Phys. 52 (1983) 24. doi:10.1016/0021-9991(83)90014-1

    Examples
    --------
    >>> from triskele.sponge import VelocityVerlet
    >>> VelocityVerlet(timestep=0.001)
    VelocityVerlet(timestep=0.001, constraint_tolerance=1e-06)
    """

    timestep: float
    constraint_tolerance: float = 1e-6
    forces_at = "new"

    def plan(self, engine: Any, forces: list[Phase]) -> list[Phase]:
        first, second = verlet_halves(engine, self.timestep, self.constraint_tolerance)
        return [
            *fresh_forces(engine, forces),
            *com_phases(engine),
            Phase(first, "sequence", name="integrator"),
            *with_forces(forces, second),
        ]


def verlet_halves(
    engine: Any, timestep: float, tolerance: float, factor: np.ndarray | None = None
) -> tuple[list[Task], list[Task]]:
    """Tasks up to the new positions, and those after the forces there; `factor` [1] multiplies the first velocities."""
    solver, chunks, starts = solver_of(engine), engine.atom_chunks, engine.atom_starts
    x, v, f, w = engine.positions, engine.velocities, engine.forces, engine.inverse_masses
    half, whole = np.array([timestep / 2]), np.array([timestep])
    factor = np.ones(1) if factor is None else factor
    first = [
        Task(kick_drift, starts, x, solver.old, v, f, w, half, whole, factor, chunks=chunks),
        *solver.positions(np.array([1 / timestep]), tolerance),
        *place_tasks(engine),
    ]
    return first, [Task(kick, starts, v, f, w, half, chunks=chunks), *solver.velocities()]
