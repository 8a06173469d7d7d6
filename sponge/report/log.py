"""`Log`: a table on the screen, with a progress bar, speed and time left."""

from __future__ import annotations

import sys
import time

import numpy as np

from triskele.core.extend import progress_bar

from ..errors import ReporterError
from ..protocols import SimulationLike
from .reporter import Reporter

__all__ = ["Log"]

# heading, unit, format, value (None: not there for this system)
_COLUMNS = [
    ("step", "", "{:>10d}", lambda sim, e: sim.step),
    ("time", "ps", "{:>11.3f}", lambda sim, e: sim.time),
    ("potential", "kJ/mol", "{:>14.2f}", lambda sim, e: e["potential"]),
    ("kinetic", "kJ/mol", "{:>13.2f}", lambda sim, e: e["kinetic"]),
    ("total", "kJ/mol", "{:>14.2f}", lambda sim, e: e["total"]),
    ("temp.", "K", "{:>8.2f}", lambda sim, e: e["temperature"]),
    ("pressure", "bar", "{:>10.1f}", lambda sim, e: e.get("pressure")),
    ("density", "g/cm3", "{:>8.4f}", lambda sim, e: e.get("density")),
]


class Log(Reporter):
    """Prints energies, temperature, pressure, density, box, speed and time left.

    Parameters
    ----------
    every : int
        Number of steps between two records.
    progress : bool, optional
        Show a progress bar. Defaults to True on a terminal only.
    """

    def __init__(self, every: int, *, progress: bool | None = None):
        super().__init__(every)
        self.progress = progress

    def open(self, sim: SimulationLike) -> None:
        """Print the heading."""
        energies = sim.energies()
        self._columns = [c for c in _COLUMNS if c[3](sim, energies) is not None]
        self._clock = _Clock(sim)
        show = sys.stderr.isatty() if self.progress is None else self.progress
        self._bar = progress_bar(None, "step", sim.target, done=sim.step) if show else None
        head, units = [], []
        for name, unit, form, _ in self._columns:
            width = int(form[3:].split(".")[0].rstrip("df}"))
            head.append(name.rjust(width))
            units.append(unit.rjust(width))
        if sim.box is not None:
            head.append("box".rjust(20))
            units.append("nm".rjust(20))
        self._print(" ".join([*head, "ns/day".rjust(9), "left".rjust(9)]))
        self._print(" ".join([*units, " " * 9, " " * 9]).rstrip())

    def report(self, sim: SimulationLike, step: int) -> None:
        """Print a line."""
        energies = sim.energies()
        cells = [form.format(value(sim, energies)) for _, _, form, value in self._columns]
        if sim.box is not None:
            cells.append(" x ".join(f"{x:.3f}" for x in np.diag(sim.box)).rjust(20))
        speed = self._clock.ns_per_day(sim)
        left = self._clock.left(sim)
        cells += ["-".rjust(9) if speed is None else _speed(speed).rjust(9),
                  "-".rjust(9) if left is None else left.rjust(9)]
        try:
            self._print(" ".join(cells))
        except OSError as error:
            raise ReporterError(f"Log: step {step} could not be printed: {error.strerror or error}") from error

    def tick(self, sim: SimulationLike) -> None:
        """Move the bar."""
        self._clock.tick(sim)
        if self._bar is not None:
            speed = self._clock.ns_per_day(sim)
            if speed is not None:
                self._bar.set_postfix_str(f"{_speed(speed)} ns/day", refresh=False)
            self._bar.update(sim.step - self._bar.n)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _print(self, line):
        if self._bar is None:
            print(line, flush=True)
        else:
            self._bar.write(line, file=sys.stdout)
            sys.stdout.flush()


def _speed(ns_per_day):
    return f"{ns_per_day:.0f}" if ns_per_day >= 1000 else f"{ns_per_day:.3g}"


class _Clock:
    """Speed of the run since its first block, which is left out because it compiles."""

    def __init__(self, sim):
        self.began = None
        self.timestep, self.target = sim.timestep, sim.target

    def tick(self, sim):
        if self.began is None:
            self.began = sim.step, time.perf_counter()

    def _per_second(self, sim):
        if self.began is None or sim.step == self.began[0]:
            return None
        return (sim.step - self.began[0]) / max(time.perf_counter() - self.began[1], 1e-9)

    def ns_per_day(self, sim):
        rate = self._per_second(sim)
        return None if rate is None else rate * self.timestep * 86400e-3

    def left(self, sim):
        rate = self._per_second(sim)
        if rate is None:
            return None
        seconds = round((self.target - sim.step) / rate)
        days, hours = divmod(seconds // 3600, 24)
        return (f"{days}d " if days else "") + f"{hours}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
