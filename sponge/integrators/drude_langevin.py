"""Langevin dynamics of polarizable systems: atoms in one heat bath, the springs of Drude particles in a cold one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from triskele.core import random
from triskele.core.extend import Task

from .. import units
from ..constraints.solver import solver_of
from ..engine.flags import STATUS_INFO, STEP
from ..engine.program import Phase
from ..errors import BrokenSimulationError
from ..virtual_sites.sites import place_tasks
from .center_of_mass import com_phases
from .integrator import Integrator, with_forces
from .kernels import DRUDE_RAN_AWAY, NOISE, drude_langevin, kick
from .temperature import moving_drude_pairs

__all__ = ["DrudeLangevin"]


@dataclass(frozen=True)
class DrudeLangevin(Integrator):
    """Langevin dynamics with the thermostat in the middle of the drift, and a bath of their own for Drude particles.

    A Drude particle and its atom are moved as their center of mass, which belongs to the bath of the atoms, and as the
    displacement between them, which belongs to the cold bath: polarization then follows the atoms nearly as if it were
    minimized in each step [1]_ [2]_. The scheme of a step is that of `LangevinMiddle`. Drude particles that go further
    than `hard_wall` are reflected there, which prevents the polarization catastrophe [3]_; the reflection leaves the
    center of mass and the energy of the pair's motion as they are.

    The motion by which dipoles follow the atoms has kinetic energy itself, in water that of some 0.5 K, which the cold
    bath takes away all the time: the temperature of Drude particles is above that of their bath by this much, and the
    atoms of water, cooled by 0.5 `drude_friction` K/ps, are colder than theirs by 0.25 `drude_friction` / `friction` K.
    Where a small `friction` is wanted, as for diffusion, `drude_friction` is to be small too.

    Parameters
    ----------
    temperature : float, K
        Temperature of the heat bath.
    friction : float, 1/ps
        Friction coefficient.
    timestep : float, ps
        Length of a time step; the springs allow for 0.001.
    drude_temperature : float, K
        Temperature of the bath of Drude particles.
    drude_friction : float, 1/ps
        Friction coefficient of their motion relative to their atoms.
    hard_wall : float or None, nm
        Largest distance of a Drude particle from its atom; None for no wall.
    constraint_tolerance : float
        Largest relative error of constrained lengths.

    References
    ----------
    .. [1] Lamoureux, Roux, "Modeling induced polarization with classical Drude oscillators: Theory and molecular
       dynamics simulation algorithm", J. Chem. Phys. 119 (2003) 3025. doi:10.1063/1.1589749
    .. [2] Jiang, Hardy, Phillips, MacKerell, Schulten, Roux, "High-performance scalable molecular dynamics simulations
       of a polarizable force field based on classical Drude oscillators in NAMD", J. Phys. Chem. Lett. 2 (2011) 87.
       doi:10.1021/jz101461d
    .. [3] Chowdhary, Harder, Lopes, Huang, MacKerell, Roux, "A polarizable force field of
       dipalmitoylphosphatidylcholine based on the classical Drude model for molecular dynamics simulations of lipids",
       J. Phys. Chem. B 117 (2013) 9142. doi:10.1021/jp402860e

    Examples
    --------
    >>> from triskele.sponge import DrudeLangevin
    >>> DrudeLangevin(temperature=300, friction=5.0, timestep=0.001)  # doctest: +ELLIPSIS
    DrudeLangevin(temperature=300, friction=5.0, timestep=0.001, drude_temperature=1.0, drude_friction=20.0, ...)
    """

    temperature: float
    friction: float
    timestep: float
    drude_temperature: float = 1.0
    drude_friction: float = 20.0
    hard_wall: float | None = 0.02
    constraint_tolerance: float = 1e-6
    forces_at = "old"
    two_baths: ClassVar[bool] = True

    def plan(self, engine: Any, forces: list[Phase]) -> list[Phase]:
        solver, chunks, starts, dt = solver_of(engine), engine.atom_chunks, engine.atom_starts, self.timestep
        x, v, key = engine.positions, engine.velocities, np.asarray(random.key(engine.seed))
        partner, share, noise = self._baths(engine)
        decay = np.exp(-np.array([self.friction, self.drude_friction]) * dt)
        wall = np.inf if self.hard_wall is None else self.hard_wall
        engine.on_status(DRUDE_RAN_AWAY, self._ran_away)
        step = [
            Task(kick, starts, v, engine.forces, engine.inverse_masses, np.array([dt]), chunks=chunks),
            *solver.velocities(),
            Task(
                drude_langevin,
                starts,
                x,
                solver.old,
                v,
                partner,
                share,
                noise,
                decay,
                dt / 2,
                wall,
                np.empty((engine.n, 3)),
                key,
                NOISE,
                engine.flags,
                chunks=chunks,
            ),
            *solver.positions(np.array([1 / dt]), self.constraint_tolerance),
            *place_tasks(engine),
        ]
        return [*com_phases(engine), *with_forces(forces, step)]

    def _baths(self, engine: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each atom: its Drude particle's atom (-1: it is none, -2: it has one), its share of the mass of the pair,
        and the size of its noise, of which a Drude particle has that of the displacement and its atom that of the
        center of mass.
        """
        drude, atom = moving_drude_pairs(engine.system).T
        masses, total = engine.masses, engine.masses[drude] + engine.masses[atom]
        partner, share = np.full(engine.n, -1, np.int64), np.ones(engine.n)
        partner[drude], partner[atom] = atom, -2
        share[drude], share[atom] = masses[drude] / total, masses[atom] / total
        inverse, thermal = engine.inverse_masses.copy(), np.full(engine.n, self._thermal())
        inverse[drude], inverse[atom] = total / (masses[drude] * masses[atom]), 1 / total
        thermal[drude] = units.GAS_CONSTANT * self.drude_temperature
        friction = np.full(engine.n, self.friction)
        friction[drude] = self.drude_friction
        return partner, share, np.sqrt(thermal * inverse * -np.expm1(-2 * friction * self.timestep))

    def _ran_away(self, engine: Any) -> bool:
        atom = int(engine.flags[STATUS_INFO])
        raise BrokenSimulationError(
            f"{engine.system.topology.describe(atom)}: the Drude particle must stay near its atom, got beyond twice "
            f"hard_wall={self.hard_wall} nm at step {engine.flags[STEP]} (is the time step too large, should the "
            "positions be minimized, or are both in different images of the box?)"
        )

    def heat(self, engine: Any) -> float:
        return np.nan
