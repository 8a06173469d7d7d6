"""`ListSchedule`: for which box and temperature the neighbor lists of a run are scheduled."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..box import volume
from ..engine.engine import Engine, Runner
from ..engine.flags import REBUILD
from ..neighbors.state import AGE

__all__ = ["ListSchedule"]

_HOTTER, _DENSER = 1.1, 1.1  # more than that, and the buffers are too narrow


class ListSchedule:
    """Schedules the neighbor lists of an engine once, when a run begins.

    Lists must not change when a run is divided into parts, or when it resumes from a checkpoint: both keep the box and
    the temperature of its beginning, and a checkpoint has the positions from which the present lists were made.
    """

    def __init__(
        self,
        engine: Engine,
        interval: Callable[[], float],  # returns the time between two evaluations of pair forces, ps
        expected: Callable[[], float],  # returns the temperature to expect of a run that begins now, K
    ):
        self._engine, self._interval, self._expected = engine, interval, expected
        self._box: np.ndarray | None = None
        self._temperature = 0.0

    def begin(self) -> None:
        """Schedule the lists for a run that begins now, unless they are scheduled."""
        if self._box is None:
            self._choose(self._engine.box, self._expected())

    def state_changed(self) -> None:
        """Let the next run schedule the lists again if it is hotter or denser than what they are for."""
        if self._box is None:
            return
        hotter = self._expected() > _HOTTER * self._temperature
        if hotter or self._engine.periodic and volume(self._box) > _DENSER * volume(self._engine.box):
            self._box = None

    def strict(self) -> None:
        """Never miss a pair until the next run begins."""
        self._box = None
        for neighbors in self._engine.neighbor_lists.values():
            neighbors.strict()

    def _choose(self, box, temperature):
        engine = self._engine
        now, self._box, self._temperature = engine.box.copy(), box.copy(), temperature
        engine.box[:] = box
        for neighbors in engine.neighbor_lists.values():
            neighbors.strict()
            neighbors.schedule(temperature, self._interval())
        engine.box[:] = now

    @property
    def repeatable(self) -> bool:
        """True if steps depend on nothing that `state` does not have, as former solutions of a plan would be."""
        return all(plan.undo is None for plan in self._engine.plans.values())

    def state(self) -> dict[str, np.ndarray]:
        """Arrays of a checkpoint."""
        engine, found = self._engine, {}
        if self._box is not None:
            found = {"scheduled box": self._box.copy(), "scheduled temperature": np.array(self._temperature)}
        for k, neighbors in enumerate(engine.neighbor_lists.values()):
            for name, moment in neighbors.moments.items():
                found |= {f"list {k}/{name}": moment.positions.copy(), f"list {k}/{name} in": moment.box.copy()}
            found[f"list {k}/age"] = neighbors.state[AGE].copy()
        return found | {"flags": engine.flags.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Schedule the lists as those of the checkpoint were; one of version 0.12 does not have the temperature."""
        if "scheduled box" in arrays:
            self._choose(arrays["scheduled box"], float(arrays.get("scheduled temperature", self._expected())))
        else:
            self.strict()

    def rebuild(self, arrays: Mapping[str, np.ndarray]) -> bool:
        """Build and prune the lists where the atoms were when those of the checkpoint were built and pruned.

        Return True if the next steps are those that followed the checkpoint, bit for bit; or else lists must be built
        anew, as for checkpoints of version 0.12.
        """
        engine, lists = self._engine, list(self._engine.neighbor_lists.values())
        if "flags" not in arrays or not self.repeatable:
            return False
        if lists and not arrays["flags"][REBUILD]:
            here, version = (engine.positions.copy(), engine.box.copy()), -1
            while version != engine.version:  # arrays that grow make all lists anew
                version = engine.version
                for name in ("built", "pruned"):
                    for k, neighbors in enumerate(lists):
                        if name in neighbors.moments:
                            moment = arrays[f"list {k}/{name}"], arrays[f"list {k}/{name} in"]
                            self._make(neighbors, name, *moment)
            self._place(*here)
            for k, neighbors in enumerate(lists):
                neighbors.state[AGE] = arrays[f"list {k}/age"]
        engine.flags[:] = arrays["flags"]
        return bool(engine.flags[REBUILD]) or all(
            np.array_equal(moment.positions, arrays[f"list {k}/{name}"])
            for k, neighbors in enumerate(lists)
            for name, moment in neighbors.moments.items()
        )

    def _make(self, neighbors, name, positions, box):
        """Build or prune one list, with atoms at `positions`, and leave the others alone."""
        self._place(positions, box)
        for other in self._engine.neighbor_lists.values():
            other.ask(name if other is neighbors else "")
        self._engine.flags[REBUILD] = 0
        Runner(self._engine, lambda: self._engine.list_phases(neighbors)).run(1)

    def _place(self, positions, box):
        engine = self._engine
        engine.positions[:], engine.box[:] = positions, box
        if engine.periodic:
            engine.box_changed(rebuild=False)
