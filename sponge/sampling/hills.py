"""`Hills`: a file of the hills of metadynamics that grows with the run."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import ReporterError
from ..report.reporter import FileReporter
from .hills_file import heading
from .metadynamics import Metadynamics

__all__ = ["Hills"]


class Hills(FileReporter):
    """Writes the hills that a run adds, in the format of PLUMED's METAD.

    ``plumed sum_hills --hills HILLS`` and ``Metadynamics(..., hills="HILLS")`` read the file. It has a line for each
    hill of this run, or of this walker; hills that the bias began with stay in their own files. Times are in ps and
    heights in kJ/mol. As in PLUMED's files, heights of well-tempered runs are multiplied by gamma / (gamma - 1).

    Parameters
    ----------
    path : str or path
    bias : Metadynamics
        One of the sampling methods of the simulation. A hill is written when the next one is due, or when the run ends.

    Raises
    ------
    ReporterError
        From a run, if the bias is not the simulation's, or the file is one that the bias began with.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> from triskele.sponge import cv
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> phi = cv.torsion(4, 6, 8, 14, name="phi")
    >>> bias = sponge.Metadynamics(phi, sigma=0.35, height=1.2, every=5)
    >>> simulation = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), seed=1, sampling=[bias])
    >>> path = os.path.join(tempfile.mkdtemp(), "HILLS")
    >>> simulation.run(22, report=sponge.Hills(path, bias))
    >>> lower = sponge.Metadynamics(phi, sigma=0.2, height=0.3, every=5, hills=path)
    >>> len(lower.hills)
    4
    """

    def __init__(self, path: str | os.PathLike, bias: Metadynamics):
        check.kind(bias, Metadynamics, "Hills: bias")
        super().__init__(path, bias.every)
        self.bias = bias

    def open(self, sim: Any) -> None:
        """Open a new file, or continue where the checkpoint was written."""
        if self.bias not in sim.sampling:
            raise ReporterError(f"{self._name}: bias must be one of the simulation's sampling methods, got another one")
        if self.bias.began_with(self.path):
            raise ReporterError(f"{self._name}: holds hills that the bias began with (choose another path)")
        self._row = 0
        super().open(sim)

    def header(self, *_: object) -> bytes:
        """Names of the fields, and the ends of periods."""
        return heading(self.bias.cvs)

    def go_on(self, sim: Any, header: bytes) -> None:
        """Find the first hill that is not in the file."""
        super().go_on(sim, header)
        written, hills = self._file.read().count(b"\n"), np.flatnonzero(self.bias.heights)
        if written > len(hills):
            raise ReporterError(f"{self._name}: must hold at most the {len(hills)} hills of the run, got {written}")
        self._row = int(hills[written - 1]) + 1 if written else 0

    def record(self, *_: object) -> bytes:
        """Lines of the hills since the last report."""
        lines = self.footer()
        self._row = self.bias.hills_from(self._row)[0]
        return lines

    def footer(self) -> bytes:
        """Lines of the hills since the last report, which a later run writes again."""
        gamma, (_, hills) = self.bias.bias_factor, self.bias.hills_from(self._row)
        factor, end = (1.0, -1.0) if gamma is None else (gamma / (gamma - 1), gamma)
        return "".join(
            " ".join(map(repr, (state * self._sim.timestep, *values, *self.bias.sigma, height * factor, end))) + "\n"
            for state, *values, height in hills.tolist()
        ).encode()
