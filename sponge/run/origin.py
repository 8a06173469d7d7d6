"""`MadeFrom`: what a simulation was made from, and whether it still is that."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..errors import StaleSimulationError
from ..fingerprint import fingerprint_of
from ..protocols import SimulationLike
from .checkpoint_file import differences, fingerprint

__all__ = ["ADVICE", "MadeFrom"]

ADVICE = "make a new Simulation, with state=sim.state()"


class MadeFrom:
    """The system and all settings of a simulation as they were when it was made.

    `given` are names among "positions", "velocities" and "box" that did not come from the system.
    """

    def __init__(self, sim: SimulationLike, given: Iterable[str]):
        self._sim = sim
        self.fingerprint = fingerprint(sim)  # slower to make than a hash, but by name: it can tell what has changed
        self._hash: bytes | None = self._present_hash()
        self._starts = {
            name: fingerprint_of(getattr(sim.system, name)) for name in {"positions", "velocities", "box"} - set(given)
        }

    def accept(self) -> None:
        """Take what the system and the settings are at the next look as right: a run has changed them."""
        self._hash = None

    def check(self) -> None:
        """Raise StaleSimulationError if the system or a setting has changed."""
        found = []
        if self._hash is None:
            self._hash = self._present_hash()
        if self._present_hash() != self._hash:
            here = fingerprint(self._sim) | {"first box": self.fingerprint["first box"]}
            found = differences(self.fingerprint, here, then="when it was made", now="now") or [
                "something of the system"
            ]
        found += [
            f"sampling {method.name} (which belongs to another simulation now)"
            for method in self._sim.sampling
            if method._engine is not self._sim._engine
        ]
        found += [
            f"system.{name} (set sim.{name} to move the simulation)"
            for name in sorted(self._starts)
            if self._moved(name)
        ]
        if found:
            raise StaleSimulationError(
                "Simulation: the system and all settings must stay what the simulation was made "
                f"from, but these differ: {', '.join(found)} ({ADVICE})"
            )

    def _moved(self, name):
        """Return True if a starting value is another one, and not the simulation's present one, which may be put into
        the system.
        """
        value = getattr(self._sim.system, name)
        state = fingerprint_of(value)
        if state == self._starts[name]:
            return False
        if value is None or not np.array_equal(value, getattr(self._sim._engine, name)):
            return True
        self._starts[name] = state
        return False

    def _present_hash(self):
        sim = self._sim
        parts = (sim.integrator, sim.barostat, *sim.sampling)
        return fingerprint_of(
            sim.system.fingerprint(),
            sim.system.remove_com_motion,
            *[{k: v for k, v in vars(part).items() if k[0] != "_"} for part in parts if part is not None],
        )
