"""`Variables`: collective variables along a run, in memory and if wanted in a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import check

from ..cv.variable import CollectiveVariable, VariableError
from ..errors import ReporterError
from ..protocols import SimulationLike
from .csv import heading, line
from .reporter import FileReporter, Reporter

__all__ = ["Variables"]


class Variables(Reporter):
    """Records collective variables in memory.

    When a run resumes from a checkpoint, what was recorded after it is dropped. A new process has only the records of
    the file, if there is one: give a `path` where a run may be interrupted.

    Parameters
    ----------
    variables : dict of str to CollectiveVariable
        The variables by the names of their columns.
    every : int
        Number of steps between two records.
    path : str or path, optional
        A table of comma-separated values to write as well: step, time and the variables, with all digits.

    Attributes
    ----------
    steps : (m,) int
        The numbers of the steps after which was recorded.

    Examples
    --------
    >>> from triskele.sponge import Variables
    >>> from triskele import sponge
    >>> from triskele.sponge import cv
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> _ = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> record = Variables({"r": cv.distance(0, 1)}, every=10)
    >>> sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001)).run(100, report=record)
    >>> record.steps[-1], record["r"].shape
    (np.int64(100), (10,))
    """

    def __init__(self, variables: Mapping[str, CollectiveVariable], every: int, path: str | os.PathLike | None = None):
        super().__init__(every)
        if (
            not isinstance(variables, Mapping)
            or not variables
            or not all(isinstance(v, CollectiveVariable) for v in variables.values())
        ):
            raise TypeError(
                f"Variables: variables must be a dict of names to collective variables of sponge.cv, got "
                f"{variables!r:.80}"
            )
        self.variables = dict(variables)
        self._steps: list[int] = []
        self._rows: list[np.ndarray] = []
        self._table: _Table | None = None
        if path is not None:
            self._table = _Table(path, self)
            self.path = self._table.path
        cvs = list(self.variables.values())
        atoms = np.unique(np.concatenate([v.atoms for v in cvs]))
        places = [np.searchsorted(atoms, v.atoms) for v in cvs]
        self._atoms = atoms
        self._compute = core.jit(lambda x, box=None: np.stack([v.local(x[p], box) for v, p in zip(cvs, places)]))

    @property
    def steps(self) -> np.ndarray:
        """Numbers of the steps."""
        return np.array(self._steps, np.int64)

    def __getitem__(self, name: str) -> np.ndarray:
        check.choice(name, self.variables, "Variables: a variable", error=KeyError)
        k = list(self.variables).index(name)
        return np.array([row[k] for row in self._rows], np.float64)

    def __len__(self) -> int:
        return len(self._steps)

    def open(self, sim: SimulationLike) -> None:
        """Drop what was recorded after the state of `sim`."""
        for name, variable in self.variables.items():
            variable.check(sim.system, f"Variables: {name}")
        if self._table is not None:
            self._table.open(sim)
        keep = int(np.searchsorted(self._steps, sim.step, side="right"))
        del self._steps[keep:], self._rows[keep:]

    def report(self, sim: SimulationLike, step: int) -> None:
        """Record the present values."""
        engine = sim._engine
        x = engine.positions[self._atoms]
        row = self._compute(x, engine.box) if engine.periodic else self._compute(x)
        if not np.isfinite(row).all():
            name, variable = list(self.variables.items())[int(np.argmin(np.isfinite(row)))]
            where = f", which it is not {variable.undefined}" if variable.undefined else ""
            atoms = ", ".join(sim.system.topology.describe(a) for a in variable.atoms[:4])
            raise VariableError(
                f"Variables: {name!r} must be defined{where}, got "
                f"{row[list(self.variables).index(name)]} at step {step} (atoms: {atoms})"
            )
        self._steps.append(step)
        self._rows.append(row)
        if self._table is not None:
            try:
                self._table.report(sim, step)
            except ReporterError:  # memory holds what the file holds
                del self._steps[-1], self._rows[-1]
                raise

    def sync(self) -> None:
        """Bring the file to the disk."""
        if self._table is not None:
            self._table.sync()

    def close(self) -> None:
        """Close the file."""
        if self._table is not None:
            self._table.close()


class _Table(FileReporter):
    """The file of `Variables`."""

    def __init__(self, path, owner):
        super().__init__(path, owner.every)
        self.owner = owner

    @property
    def _name(self):
        return f"Variables {self.path!r}"

    def open(self, sim):
        known = sim.files.get(self.path)
        super().open(sim)
        if known is not None and not self.owner._steps:  # a new process: what the file holds is taken back
            with open(self.path, "rb") as file:
                lines = file.read(known).decode().splitlines()[1:]
            try:
                table = np.array([[float(word) for word in line.split(",")] for line in lines]).reshape(
                    len(lines), 2 + len(self.owner.variables)
                )
            except ValueError as error:
                raise ReporterError(
                    f"{self._name}: must hold a table of numbers, got something else ({error})"
                ) from error
            self.owner._steps = [int(step) for step in table[:, 0]] if len(table) else []
            self.owner._rows = [row[2:] for row in table]

    def header(self, sim):
        return heading(self.owner.variables)

    def record(self, sim: Any, step: int) -> bytes:
        return line(sim, step, map(float, self.owner._rows[-1]))
