"""Temperature: degrees of freedom, kinetic energy and thermal velocities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core import random
from triskele.core.extend import check
from triskele.core.random import Fold

from .. import units
from ..constraints.partition import partition
from ..constraints.solver import solver_of
from ..quantities import number_in
from .center_of_mass import acts_on, remove_com_motion, removes_com_motion

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..system import System

__all__ = [
    "degrees_of_freedom",
    "drude_kinetic_energy",
    "freedom_of",
    "kinetic_energy",
    "moving_drude_pairs",
    "set_thermal_velocities",
    "temperature",
]


def degrees_of_freedom(system: System, without_com: bool | None = None) -> int:
    """Return the degrees of freedom: 3 per atom with mass, less constraints, less 3 without center-of-mass motion.

    Whether that motion is removed defaults to what runs of the system do. An atom counts once with its Drude particle:
    the motion of one relative to the other has a temperature of its own.
    """
    massive = int(np.count_nonzero(system.masses)) - len(moving_drude_pairs(system))
    held = len(partition(system).pairs) if len(system.constraints) else 0
    without_com = removes_com_motion(system) if without_com is None else without_com
    return 3 * massive - held - (3 if without_com else 0)


def freedom_of(engine: Engine) -> int:
    """Return the degrees of freedom of an engine's system, under its sampling methods."""
    return degrees_of_freedom(engine.system, acts_on(engine))


def kinetic_energy(masses: np.ndarray, velocities: np.ndarray) -> float:
    """Kinetic energy in kJ/mol, from masses [n] in dalton and velocities [n, 3] in nm/ps."""
    return 0.5 * float(np.einsum("i,ia,ia->", masses, velocities, velocities))


def moving_drude_pairs(system: System) -> np.ndarray:
    """Drude particles that have mass, and their atoms, (m, 2) int."""
    pairs = system.drude_pairs
    return pairs[(system.masses[pairs] > 0).all(1)]


def drude_kinetic_energy(pairs: np.ndarray, masses: np.ndarray, velocities: np.ndarray) -> float:
    """Kinetic energy in kJ/mol of the motion of Drude particles relative to their atoms, `pairs` [m, 2]."""
    m = masses[pairs]
    return kinetic_energy(m.prod(1) / m.sum(1), velocities[pairs[:, 0]] - velocities[pairs[:, 1]])


def temperature(system: System, velocities: np.ndarray) -> float:
    """Temperature in K: twice the kinetic energy over R and the degrees of freedom.

    Of Drude particles and their atoms, it is the motion of their centers of mass that counts.
    """
    relative = drude_kinetic_energy(moving_drude_pairs(system), system.masses, velocities)
    energy = kinetic_energy(system.masses, velocities) - relative
    return 2 * energy / (units.GAS_CONSTANT * max(degrees_of_freedom(system), 1))


def set_thermal_velocities(engine: Engine, temperature: float, seed: int | None = None) -> None:
    """Draw ``engine.velocities`` from the Maxwell-Boltzmann distribution at `temperature` in K.

    What would change constrained lengths at the engine's positions is projected out, which leaves the distribution of
    the constrained system, and so is the motion of the center of mass if runs of the system remove it. Drude particles
    move with their atoms. `seed` defaults to ``engine.seed``.
    """
    temperature = number_in("K", temperature, "velocities: temperature")
    check.number(temperature, "velocities: temperature", 0)
    key = random.fold_in(random.key(engine.seed if seed is None else seed), Fold.VELOCITIES)
    speed = np.sqrt(units.GAS_CONSTANT * temperature * engine.inverse_masses)
    engine.velocities[:] = np.asarray(random.normal(key, (engine.n, 3))) * speed[:, None]
    pairs = moving_drude_pairs(engine.system)
    shares = engine.masses[pairs] / engine.masses[pairs].sum(1, keepdims=True)
    engine.velocities[pairs] = np.einsum("mp,mpa->ma", shares, engine.velocities[pairs])[:, None]
    for task in solver_of(engine).velocities():
        task.run()
    engine.velocities[pairs[:, 0]] = engine.velocities[pairs[:, 1]]
    if acts_on(engine):
        for phase in remove_com_motion(engine):
            for task in phase.tasks:
                task.run()


def thermal_speeds(engine: Engine, thermal: float) -> Any:
    """Standard deviation of each atom's velocity per axis (nm/ps) for RT in kJ/mol; 0 without mass."""
    return np.sqrt(thermal * engine.inverse_masses)
