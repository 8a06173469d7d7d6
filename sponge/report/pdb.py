"""`PDB`: structures that every viewer opens."""

from __future__ import annotations

from ..load.pdb import conect_lines, cryst1, pdb_model
from ..protocols import SimulationLike
from .reporter import FileReporter

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

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> path = os.path.join(tempfile.mkdtemp(), "run.pdb")
    >>> simulation.run(20, report=sponge.PDB(path, every=10))
    >>> os.path.getsize(path) > 0
    True
    """

    def header(self, sim: SimulationLike) -> bytes:
        """Nothing: every model carries all that belongs to it."""
        return b""

    def record(self, sim: SimulationLike, step: int) -> bytes:
        """One model."""
        box = "" if sim.box is None else cryst1(sim.box)
        body = pdb_model(sim.system.topology, sim.positions)
        return f"{box}MODEL {step // self.every % 100_000_000:8d}\n{body}ENDMDL\n".encode()

    def footer(self) -> bytes:
        """Bonds of residues that are not standard, and the end of the file."""
        return (conect_lines(self._sim.system.topology) + "END\n").encode()
