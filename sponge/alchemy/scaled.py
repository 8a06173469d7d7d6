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
    """A potential times a lambda.

    Parameters
    ----------
    potential : Potential
    key : {"bonded", "restraints"}
        Name of the lambda.

    Attributes
    ----------
    params : dict
        Those of the potential, and under `key` the lambda, of shape ().

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.alchemy.scaled import Scaled
    >>> spring = Scaled(sponge.distance_restraint([[0, 1]], k=100.0, lower=0.3, upper=0.3), "restraints")
    >>> float(spring.params["restraints"])
    1.0
    """

    def __init__(self, potential: Potential, key: str):
        self.name, self.potential, self.key = potential.name, potential, key
        self.images, self.enhanced = potential.images, potential.enhanced
        self.params = {**potential.params, key: np.ones(())}

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        own = {name: values for name, values in params.items() if name != self.key}
        return params[self.key] * self.potential.energy(own, positions, box)

    def check(self, system):
        if not 0 <= self.params[self.key] <= 1:
            raise ValueError(f"{self.name}: lambda {self.key} must lie between 0 and 1, got {self.params[self.key]:g}")
        self.potential.params.update({name: values for name, values in self.params.items() if name != self.key})
        self.potential.check(system)

    @property
    def invariant(self) -> bool:
        """As of the potential."""
        return getattr(self.potential, "invariant", True)

    def plan(self, engine: Engine) -> Plan:
        return ScaledPlan(self, engine)


class ScaledPlan(Plan):
    """The plan of the potential with forces of its own, which are added times the lambda.

    Parameters
    ----------
    scaled : Scaled
    engine : Engine
    """

    def __init__(self, scaled: Scaled, engine: Engine):
        flags = np.zeros(N_FLAGS, np.int64)
        flags[ENERGY] = 1  # the energy is wanted in other states too, and the terms are few
        forces = np.zeros((engine.n, 3))
        self._inner = inner = scaled.potential.plan(EngineView(engine, flags=flags, forces=forces))
        self.scale = np.array([float(scaled.params[scaled.key])])
        zero = Task(zero_forces, engine.atom_starts, forces, chunks=engine.atom_chunks)
        add = Task(add_scaled, engine.atom_starts, self.scale, forces, engine.forces, chunks=engine.atom_chunks)
        super().__init__(stages=inner.stages, reduce=[zero, *inner.reduce, add], update_box=inner.update_box,
                         before=inner.before, call=inner.call, after=inner.after)

    @property
    def unscaled(self) -> float:
        """Energy at lambda 1, of the last evaluation (kJ/mol)."""
        return float(self._inner.totals()[0])

    def totals(self) -> np.ndarray:
        return self.scale[0] * self._inner.totals()
