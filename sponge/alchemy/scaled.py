"""`Scaled`: a potential, or some of its terms, times a lambda."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, kernel

from ..engine.energy_split import EngineView
from ..engine.flags import ENERGY, N_FLAGS
from ..engine.plan import Plan, zero_forces
from ..potential import Potential

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["Scaled", "ScaledPlan"]


@kernel(nogil=True)
def add_scaled(chunk, starts, scale, source, forces):
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            forces[i, a] += scale[0] * source[i, a]


class Scaled(Potential):
    """A potential times the lambda `key`, which is an entry of `params` of shape ()."""

    def __init__(
        self,
        potential: Potential,
        key: str,  # lambda: "bonded", "restraints" or "mixing"
        falling: bool = False,
    ):  # multiply by 1 - lambda
        if potential.of_drude_particles:  # without their springs, they would be atoms that fly away
            raise ValueError(
                f"alchemy: springs of Drude particles must be the same in all states, got "
                f"{potential.name!r} to go with the lambda {key!r} (leave them out of `bonded` and "
                "`restraints`; for a hybrid, leave shared atoms whose springs differ, and their Drude "
                "particles, out of the mapping)"
            )
        self.name, self.potential, self.key, self.falling = potential.name, potential, key, falling
        self.images, self.enhanced = potential.images, potential.enhanced
        self.params = {**potential.params, key: np.ones(())}

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        own = {name: values for name, values in params.items() if name != self.key}
        return self.factor(params[self.key]) * self.potential.energy(own, positions, box)

    def factor(self, lam: Any) -> Any:
        """By how much the energy is multiplied at a lambda."""
        return 1 - lam if self.falling else lam

    def check(self, system):
        if not 0 <= self.params[self.key] <= 1:
            raise ValueError(f"{self.name}: lambda {self.key} must lie between 0 and 1, got {self.params[self.key]:g}")
        self.potential.params.update({name: values for name, values in self.params.items() if name != self.key})
        self.potential.check(system)

    @property
    def invariant(self) -> bool:
        """As of the potential."""
        return getattr(self.potential, "invariant", True)

    @property
    def conserves_momentum(self) -> bool | None:  # type: ignore[override]
        """As of the potential."""
        return self.potential.conserves_momentum

    def plan(self, engine: Engine) -> Plan:
        return ScaledPlan(self, engine)


class ScaledPlan(Plan):
    """The plan of the potential with forces of its own, which are added times the lambda."""

    def __init__(self, scaled: Scaled, engine: Engine):
        flags = np.zeros(N_FLAGS, np.int64)
        flags[ENERGY] = 1  # the energy is wanted in other states too, and the terms are few
        forces = np.zeros((engine.n, 3))
        self._inner = inner = scaled.potential.plan(EngineView(engine, flags=flags, forces=forces))
        self.scaled, self.scale = scaled, np.zeros(1)
        self.set(float(scaled.params[scaled.key]))
        zero = Task(zero_forces, engine.atom_starts, forces, chunks=engine.atom_chunks)
        add = Task(add_scaled, engine.atom_starts, self.scale, forces, engine.forces, chunks=engine.atom_chunks)
        super().__init__(
            stages=inner.stages,
            reduce=[zero, *inner.reduce, add],
            update_box=inner.update_box,
            before=inner.before,
            call=inner.call,
            after=inner.after,
            updates={scaled.key: lambda: self.set(float(scaled.params[scaled.key]))},
        )

    def set(self, lam: float) -> None:
        """Go to another lambda."""
        self.scale[0] = self.scaled.factor(lam)

    def in_states(self, lambdas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return energies less that at the present lambda, and derivatives, (k,) each, of the last evaluation."""
        unscaled = float(self._inner.totals()[0])
        sign = -1.0 if self.scaled.falling else 1.0
        return (self.scaled.factor(lambdas) - self.scale[0]) * unscaled, np.full(len(lambdas), sign * unscaled)

    def totals(self) -> np.ndarray:
        return self.scale[0] * self._inner.totals()
