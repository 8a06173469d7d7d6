"""`PDB`: structures that every viewer opens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..load.pdb import conect_lines, cryst1, pdb_model
from .reporter import FileReporter

if TYPE_CHECKING:
    from ..run.simulation import Simulation

__all__ = ["PDB"]


class PDB(FileReporter):
    """Writes every report as a model of one PDB file, with the box at that time; see `write_pdb` for a single
    structure.

    Positions are not wrapped into the box.

    Parameters
    ----------
    path : str or path
    every : int
        Number of steps between two records.

    Raises
    ------
    ValueError
        While running, if a coordinate does not fit its eight columns.
    """

    def header(self, sim: Simulation) -> bytes:
        """Nothing: every model carries all that belongs to it."""
        return b""

    def record(self, sim: Simulation, step: int) -> bytes:
        """One model."""
        box = "" if sim.box is None else cryst1(sim.box)
        body = pdb_model(sim.system.topology, sim.positions)
        return f"{box}MODEL {step // self.every % 100_000_000:8d}\n{body}ENDMDL\n".encode()

    def footer(self) -> bytes:
        """Bonds of residues that are not standard, and the end of the file."""
        return (conect_lines(self._sim.system.topology) + "END\n").encode()
