"""`ListSchedule`: for which box and temperature the neighbor lists of a run are scheduled."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..box import volume
from ..engine.engine import Engine

__all__ = ["ListSchedule"]

_HOTTER, _DENSER = 1.1, 1.1  # more than that, and the buffers are too narrow


class ListSchedule:
    """Schedules the neighbor lists of an engine once, when a run begins.

    Lists must not change when a run is divided into parts, or when it resumes from a checkpoint: both keep the box and
    the temperature of its beginning.

    Parameters
    ----------
    engine : Engine
    interval, expected : functions
        Return the time between two evaluations of pair forces, in ps, and the temperature to expect of a run that
        begins now, in K.
    """

    def __init__(self, engine: Engine, interval: Callable[[], float], expected: Callable[[], float]):
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

    def state(self) -> dict[str, np.ndarray]:
        """Arrays of a checkpoint."""
        if self._box is None:
            return {}
        return {"scheduled box": self._box.copy(), "scheduled temperature": np.array(self._temperature)}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Schedule the lists as those of the checkpoint were; one of version 0.12 does not have the temperature."""
        if "scheduled box" in arrays:
            self._choose(arrays["scheduled box"], float(arrays.get("scheduled temperature", self._expected())))
        else:
            self.strict()
