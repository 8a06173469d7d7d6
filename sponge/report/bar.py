"""The progress bar of a run, with its speed."""

from __future__ import annotations

import time

from triskele.core.extend import PATIENCE, is_watched, progress_bar, say

from ..protocols import SimulationLike
from .reporter import Reporter

__all__ = ["Bar", "Clock", "speed"]


class Bar(Reporter):
    """Shows a progress bar; in logs it says once, after two seconds, how far the run is.

    `progress` None shows the bar on terminals and in notebooks, True shows it always, and False neither shows nor says
    anything.
    """

    def __init__(self, progress: bool | None):
        super().__init__(1 << 62)  # it moves a few times a second, and reports nothing
        self.progress = progress

    def open(self, sim: SimulationLike) -> None:
        """Show the bar."""
        self._clock, self._shown, self._opened = Clock(sim), sim.step, time.perf_counter()
        self._silent = self.progress is None and not is_watched()
        self._bar = progress_bar("run", "step", sim.target, done=sim.step, show=self.progress)

    def report(self, *_: object) -> None:
        """Do nothing."""

    def tick(self, sim: SimulationLike) -> None:
        """Move the bar."""
        self._clock.tick(sim)
        rate = self._clock.ns_per_day(sim)
        if self._silent and rate is not None and time.perf_counter() - self._opened > PATIENCE:
            self._silent = False
            say(f"run: step {sim.step:,} of {sim.target:,}, {speed(rate)} ns/day, {self._clock.left(sim)} left")
        if rate is not None:
            self._bar.set_postfix_str(f"{speed(rate)} ns/day", refresh=False)
        self._bar.update(sim.step - self._shown)
        self._shown = sim.step

    def close(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()


def speed(ns_per_day: float) -> str:
    """A speed in few digits."""
    return f"{ns_per_day:.0f}" if ns_per_day >= 1000 else f"{ns_per_day:.3g}"


class Clock:
    """Speed of the run since its first block, which is left out because it compiles."""

    def __init__(self, sim: SimulationLike):
        self.began: tuple[int, float] | None = None
        self.timestep, self.target = sim.timestep, sim.target

    def tick(self, sim: SimulationLike) -> None:
        """Note the end of the first block."""
        if self.began is None:
            self.began = sim.step, time.perf_counter()

    def _per_second(self, sim):
        if self.began is None or sim.step == self.began[0]:
            return None
        return (sim.step - self.began[0]) / max(time.perf_counter() - self.began[1], 1e-9)

    def ns_per_day(self, sim: SimulationLike) -> float | None:
        """Simulated nanoseconds in a day; None before the second block."""
        rate = self._per_second(sim)
        return None if rate is None else rate * self.timestep * 86400e-3

    def left(self, sim: SimulationLike) -> str | None:
        """The time left, as text."""
        rate = self._per_second(sim)
        if rate is None:
            return None
        seconds = round((self.target - sim.step) / rate)
        days, hours = divmod(seconds // 3600, 24)
        return (f"{days}d " if days else "") + f"{hours}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
