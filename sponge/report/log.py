"""`Log`: a table on the screen, with speed and time left."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import print_line

from ..errors import ReporterError
from ..protocols import SimulationLike
from .bar import Clock, speed
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

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> simulation.run(20, report=sponge.Log(every=10))  # doctest: +SKIP
    """

    def open(self, sim: SimulationLike) -> None:
        """Print the heading."""
        energies = sim.energies()
        self._columns = [c for c in _COLUMNS if c[3](sim, energies) is not None]
        self._clock = Clock(sim)
        head, units = [], []
        for name, unit, form, _ in self._columns:
            width = int(form[3:].split(".")[0].rstrip("df}"))
            head.append(name.rjust(width))
            units.append(unit.rjust(width))
        if sim.box is not None:
            head.append("box".rjust(20))
            units.append("nm".rjust(20))
        print_line(" ".join([*head, "ns/day".rjust(9), "left".rjust(9)]))
        print_line(" ".join([*units, " " * 9, " " * 9]).rstrip())

    def report(self, sim: SimulationLike, step: int) -> None:
        """Print a line."""
        energies = sim.energies()
        cells = [form.format(value(sim, energies)) for _, _, form, value in self._columns]
        if sim.box is not None:
            cells.append(" x ".join(f"{x:.3f}" for x in np.diag(sim.box)).rjust(20))
        rate = self._clock.ns_per_day(sim)
        left = self._clock.left(sim)
        cells += [
            "-".rjust(9) if rate is None else speed(rate).rjust(9),
            "-".rjust(9) if left is None else left.rjust(9),
        ]
        try:
            print_line(" ".join(cells))
        except OSError as error:
            raise ReporterError(f"Log: step {step} could not be printed: {error.strerror or error}") from error

    def tick(self, sim: SimulationLike) -> None:
        """Measure the speed."""
        self._clock.tick(sim)
