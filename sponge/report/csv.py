"""`CSV`: energies and other numbers as a table of comma-separated values."""

from __future__ import annotations

import os
from collections.abc import Iterable

from ..protocols import SimulationLike
from .reporter import FileReporter

__all__ = ["CSV"]

_UNITS = {"temperature": "K", "pressure": "bar", "volume": "nm^3", "density": "g/cm^3"}


class CSV(FileReporter):
    """Writes step, time and everything in `Simulation.energies`, one line a report, with all digits.

    The first line names the columns, with units in brackets: ``step,time [ps],bond [kJ/mol],...,temperature [K],...``
    Numbers that the run changes stand in columns such as ``set temperature``.

    Parameters
    ----------
    path : str or path
    every : int, default 1
        Number of steps between two records.

    Examples
    --------
    >>> import pandas, io  # doctest: +SKIP
    >>> pandas.read_csv("energies.csv").plot("time [ps]", "potential [kJ/mol]")  # doctest: +SKIP
    """

    def __init__(self, path: str | os.PathLike, every: int = 1):
        super().__init__(path, every)

    def header(self, sim: SimulationLike) -> bytes:
        """Names of the columns."""
        names = [f"{name} [{_UNITS.get(name, 'kJ/mol')}]" for name in sim.energies()]
        return heading([*names, *(f"set {name}" for name in sim.changing)])

    def record(self, sim: SimulationLike, step: int) -> bytes:
        """One line."""
        return line(sim, step, [*sim.energies().values(), *sim.changing.values()])


def heading(names: Iterable[str]) -> bytes:
    """The first line of a table: step, time and other columns."""
    return (",".join(["step", "time [ps]", *(f'"{name}"' if "," in name else name for name in names)]) + "\n").encode()


def line(sim: SimulationLike, step: int, values: Iterable[float]) -> bytes:
    """A line of a table, with all digits."""
    return (",".join([str(step), *map(repr, (sim.time, *values))]) + "\n").encode()
