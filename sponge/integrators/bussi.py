"""Stochastic velocity rescaling."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import random
from triskele.core.extend import Task, kernel
from triskele.core.random import Fold
from triskele.core.random import numba as draws

from ..engine.flags import STEP
from ..engine.program import Phase
from .center_of_mass import com_phases
from .integrator import Integrator, fresh_forces, kept, with_forces
from .kernels import kinetic, scale
from .temperature import freedom_of
from .velocity_verlet import verlet_halves

__all__ = ["Bussi"]


@dataclass(frozen=True)
class Bussi(Integrator):
    """Thermostat that scales all velocities so that the kinetic energy follows its canonical distribution [1]_.

    Velocity Verlet, after which the kinetic energy K makes an exact step of
    dK = (K0 - K) dt/tau + 2 sqrt(K K0/(nu tau)) dW, with K0 = nu RT/2 for nu degrees of freedom. Dynamics are hardly
    disturbed: diffusion and spectra are nearly those of constant energy.

    Parameters
    ----------
    temperature : float, K
        Temperature of the heat bath.
    relaxation_time : float
        The tau above, in ps.
    timestep : float, ps
        Length of a time step.
    constraint_tolerance : float
        Largest relative error of constrained lengths.

    References
    ----------
    .. [1] Bussi, Donadio, Parrinello, "Canonical sampling through velocity rescaling", J. Chem. Phys. 126 (2007)
       014101, equation A7. doi:10.1063/1.2408420

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> simulation = sponge.Simulation(system, sponge.Bussi(300, relaxation_time=1.0, timestep=0.002), seed=1)
    >>> simulation.run(10)
    >>> simulation.step
    10
    """

    temperature: float
    relaxation_time: float
    timestep: float
    constraint_tolerance: float = 1e-6
    forces_at = "new"

    def plan(self, engine: Any, forces: list[Phase]) -> list[Phase]:
        starts, chunks, v = engine.atom_starts, engine.atom_chunks, engine.velocities
        sums, factor = np.zeros(chunks), np.ones(1)
        degrees = freedom_of(engine)
        key = np.asarray(random.fold_in(random.key(engine.seed), Fold.BUSSI))
        decay = math.exp(-self.timestep / self.relaxation_time)
        thermostat = Task(
            _rescale,
            sums,
            factor,
            float(degrees),
            self._thermal(),
            decay,
            key,
            kept(engine, "heat", np.zeros(1)),
            engine.flags,
        )
        first, second = verlet_halves(engine, self.timestep, self.constraint_tolerance)
        measure = Task(kinetic, starts, v, engine.masses, sums, chunks=chunks)
        return [
            *fresh_forces(engine, forces),
            *com_phases(engine),
            Phase(first, "sequence", name="integrator"),
            *with_forces(forces, [*second, measure]),
            Phase([thermostat], name="thermostat"),
            Phase([Task(scale, starts, v, factor, chunks=chunks)], name="thermostat"),
        ]

    def heat(self, engine: Any) -> float:
        """Energy that the thermostat has taken out."""
        return float(kept(engine, "heat", np.zeros(1))[0])


@kernel(nogil=True)
def _rescale(chunk, sums, factor, degrees, thermal, decay, key, heat, flags):
    twice = 0.0
    for c in range(sums.size):
        twice += sums[c]
    factor[0] = 1.0
    if twice <= 0.0 or degrees <= 0.0:
        return
    # The sum of the squares of nu - 1 normal numbers is twice a gamma number; each step has a key of its own.
    step = np.uint64(flags[STEP])
    k0, k1 = key[0], key[1]
    normal = draws.normal(k0, k1, 2 * step)
    rest = 2.0 * draws.gamma(k0, k1, step, 0.5 * (degrees - 1.0)) if degrees > 1.5 else 0.0
    ratio = thermal / twice  # of K0/nu to K
    square = (
        decay
        + ratio * (1.0 - decay) * (rest + normal * normal)
        + 2.0 * normal * math.sqrt(ratio * decay * (1.0 - decay))
    )
    square = max(square, 0.0)
    # the sign of the factor is that of normal + sqrt(decay / (1 - decay) / ratio) [1, A8]
    sign = -1.0 if normal + math.sqrt(decay / ((1.0 - decay) * ratio)) < 0.0 else 1.0
    factor[0] = sign * math.sqrt(square)
    heat[0] += 0.5 * twice * (1.0 - square)
