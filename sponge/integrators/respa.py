"""Several time steps: dear, slow forces less often than cheap, fast ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import Task, check

from ..engine.program import Phase
from .center_of_mass import com_phases
from .integrator import Integrator, fresh_forces, kept, with_forces
from .kernels import NOISE, copy_forces, kick
from .langevin_middle import middle_step
from .velocity_verlet import verlet_halves

__all__ = ["RESPA"]


@dataclass(frozen=True)
class RESPA(Integrator):
    """The reversible reference system propagator algorithm with two levels [1]_.

    A step is half a kick by the slow forces, `inner` steps of velocity Verlet under the fast ones, and half a kick by
    the slow forces. With a friction, the inner steps are those of the Langevin middle scheme.

    Particle mesh Ewald has two parts, which may stand in `fast`: "nonbonded/direct", pairs within the cut-off, and
    "nonbonded/reciprocal", the mesh with its correction of excluded pairs [2]_.

    Parameters
    ----------
    timestep : float
        Time step of the slow forces, in ps.
    inner : int
        Steps of the fast forces in one of the slow ones.
    fast : sequence of str
        Names of the potentials, or of their parts, that are fast; all others are slow.
    temperature : float, K, optional
        Temperature of the bath, given together with `friction`.
    friction : float, 1/ps, optional
        Without it the energy is constant.
    constraint_tolerance : float
        Largest relative error of constrained lengths.

    References
    ----------
    .. [1] Tuckerman, Berne, Martyna, "Reversible multiple time scale molecular dynamics", J. Chem. Phys. 97 (1992)
       1990. doi:10.1063/1.463137
    .. [2] Procacci, Marchi, "Taming the Ewald sum in molecular dynamics simulations of solvated proteins via a multiple
       time step algorithm", J. Chem. Phys. 104 (1996) 3003. doi:10.1063/1.471067

    Examples
    --------
    >>> from triskele.sponge import RESPA
    >>> RESPA(timestep=0.004, inner=4, fast=["bond", "angle", "torsion"]).inner
    4
    >>> mesh_is_slow = RESPA(timestep=0.004, inner=2, fast=["bond", "angle", "torsion", "pair14", "nonbonded/direct"])
    """

    timestep: float
    inner: int
    fast: Sequence[str]
    temperature: float | None = None
    friction: float | None = None
    constraint_tolerance: float = 1e-6

    def __post_init__(self):
        if (self.temperature is None) != (self.friction is None):
            raise ValueError(f"RESPA: temperature and friction go together, got {self.temperature} and {self.friction}")
        super().__post_init__()
        check.integer(self.inner, "RESPA: inner", 1)
        if isinstance(self.fast, str):
            raise TypeError(f"RESPA: fast must be a sequence of names, got the string {self.fast!r}")
        object.__setattr__(self, "fast", tuple(self.fast))

    def plan(self, engine: Any, forces: list[Phase]) -> list[Phase]:
        del forces  # the two groups have phases of their own
        fast, slow = (engine.force_phases(names) for names in self._groups(engine.plans))
        small = self.timestep / self.inner
        if self.friction is not None:
            # half kicks at the end of a step and at the beginning of the next are one, as in the middle scheme itself
            phases = [*com_phases(engine), *with_forces(slow, [_kick(engine, engine.forces, self.timestep)])]
            for k in range(self.inner):
                phases += with_forces(fast, middle_step(engine, self, np.array([small]), NOISE + k, small))
            return phases
        kept_slow, starts = kept(engine, "slow_forces", np.zeros((engine.n, 3))), engine.atom_starts
        keep = Task(copy_forces, starts, engine.forces, kept_slow, chunks=engine.atom_chunks)
        both = [*with_forces(slow, [keep]), *fast]  # leaves the fast ones in engine.forces
        half = _kick(engine, kept_slow, self.timestep / 2)
        first, second = verlet_halves(engine, small, self.constraint_tolerance)
        phases = [
            *fresh_forces(engine, both),
            *com_phases(engine),
            Phase([half, *first], "sequence", name="integrator"),
        ]
        for _ in range(self.inner - 1):
            phases += [*with_forces(fast, second), Phase(first, "sequence", name="integrator")]
        return phases + with_forces(both, [half, *second])

    def _groups(self, plans):
        """Names of fast and of slow potentials and parts."""
        parts = {name: [f"{name}/{part}" for part in plan.split()] for name, plan in plans.items()}
        known = [*plans, *(part for names in parts.values() for part in names)]
        for name in self.fast:
            check.choice(name, known, "RESPA: names in fast")
        found: list[str] = []
        for name, own in parts.items():
            found += own if name not in self.fast and set(own) & set(self.fast) else [name]
        return [k for k in found if k in self.fast], [k for k in found if k not in self.fast]

    def pair_interval(self, potentials: Sequence[Any]) -> float:
        """The inner time step in ps when all pairs within a cut-off are fast, else that of the slow forces."""
        slow = [p for p in potentials if p.pair_scope == "listed" and not {p.name, f"{p.name}/direct"} & set(self.fast)]
        return self.timestep if slow else self.timestep / self.inner

    def heat(self, engine: Any) -> float:
        return 0.0 if self.friction is None else np.nan


def _kick(engine, forces, time):
    return Task(
        kick,
        engine.atom_starts,
        engine.velocities,
        forces,
        engine.inverse_masses,
        np.array([time]),
        chunks=engine.atom_chunks,
    )
