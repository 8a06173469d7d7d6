"""Nosé-Hoover chains."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import Task, check, kernel

from ..engine.program import Phase
from .center_of_mass import com_phases
from .integrator import Integrator, fresh_forces, kept, with_forces
from .kernels import kinetic, scale
from .temperature import freedom_of
from .velocity_verlet import verlet_halves

__all__ = ["NoseHoover"]

# Weights of the fifth-order decomposition of Suzuki and Yoshida with five parts.
_P = 1 / (4 - 4 ** (1 / 3))
_WEIGHTS = np.array([_P, _P, 1 - 4 * _P, _P, _P])


@dataclass(frozen=True)
class NoseHoover(Integrator):
    """Constant temperature by a chain of Nosé-Hoover thermostats, deterministic and reversible in time [1]_.

    A step is half a step of the chain, one of velocity Verlet, and half a step of the chain; the chain's half steps are
    decomposed by Suzuki and Yoshida's scheme of five parts.

    Parameters
    ----------
    temperature : float, K
        Temperature of the heat bath.
    relaxation_time : float
        Period of the thermostat's own oscillation over 2 pi, in ps.
    timestep : float, ps
        Length of a time step.
    chain : int
        Number of thermostats.
    constraint_tolerance : float
        Largest relative error of constrained lengths.

    References
    ----------
    .. [1] Martyna, Tuckerman, Tobias, Klein, "Explicit reversible integrators for extended systems dynamics", Mol.
       Phys. 87 (1996) 1117, equations 21 to 29. doi:10.1080/00268979600100761

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> simulation = sponge.Simulation(system, sponge.NoseHoover(300, relaxation_time=0.5, timestep=0.002), seed=1)
    >>> simulation.run(10)
    >>> simulation.step
    10
    """

    temperature: float
    relaxation_time: float
    timestep: float
    chain: int = 3
    constraint_tolerance: float = 1e-6
    forces_at = "new"

    def __post_init__(self):
        super().__post_init__()
        check.integer(self.chain, "NoseHoover: chain", 1)

    def plan(self, engine: Any, forces: list[Phase]) -> list[Phase]:
        starts, chunks, v = engine.atom_starts, engine.atom_chunks, engine.velocities
        sums, factor = np.zeros(chunks), np.ones(1)
        masses, degrees = self._chain_masses(engine)
        thermostat = Phase(
            [
                Task(
                    _half_chain,
                    kept(engine, "chain_positions", np.zeros(self.chain)),
                    kept(engine, "chain_velocities", np.zeros(self.chain)),
                    masses,
                    float(degrees),
                    self._thermal(),
                    self.timestep / 2,
                    _WEIGHTS,
                    sums,
                    factor,
                )
            ],
            name="thermostat",
        )
        measure = Task(kinetic, starts, v, engine.masses, sums, chunks=chunks)
        first, second = verlet_halves(engine, self.timestep, self.constraint_tolerance, factor)
        return [
            *fresh_forces(engine, forces),
            *com_phases(engine),
            Phase([measure], name="thermostat"),
            thermostat,
            Phase(first, "sequence", name="integrator"),
            *with_forces(forces, [*second, measure]),
            thermostat,
            Phase([Task(scale, starts, v, factor, chunks=chunks)], name="thermostat"),
        ]

    def _chain_masses(self, engine):
        degrees = freedom_of(engine)
        masses = np.full(self.chain, self._thermal() * self.relaxation_time**2)
        masses[0] *= degrees
        return masses, degrees

    def heat(self, engine: Any) -> float:
        """Energy of the chain."""
        masses, degrees = self._chain_masses(engine)
        x, v = (kept(engine, f"chain_{name}", np.zeros(self.chain)) for name in ("positions", "velocities"))
        return float(0.5 * masses @ v**2 + self._thermal() * (degrees * x[0] + x[1:].sum()))


@kernel(nogil=True)
def _half_chain(chunk, positions, velocities, masses, degrees, thermal, time, weights, sums, factor):
    # factor [1]: what all velocities are to be multiplied with; sums: parts of twice the kinetic energy
    twice = 0.0
    for c in range(sums.size):
        twice += sums[c]
    last = positions.size - 1
    total = 1.0
    for w in weights:
        quarter, half = w * time / 4, w * time / 2
        for k in range(last, -1, -1):
            force = (twice - degrees * thermal) if k == 0 else masses[k - 1] * velocities[k - 1] ** 2 - thermal
            damping = math.exp(-velocities[k + 1] * quarter / 2) if k < last else 1.0
            velocities[k] = (velocities[k] * damping + force / masses[k] * quarter) * damping
        s = math.exp(-velocities[0] * half)
        total *= s
        twice *= s * s
        for k in range(last + 1):
            positions[k] += velocities[k] * half
        for k in range(last + 1):
            force = (twice - degrees * thermal) if k == 0 else masses[k - 1] * velocities[k - 1] ** 2 - thermal
            damping = math.exp(-velocities[k + 1] * quarter / 2) if k < last else 1.0
            velocities[k] = (velocities[k] * damping + force / masses[k] * quarter) * damping
    factor[0] = total
