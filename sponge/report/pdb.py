"""`PDB`: structures that every viewer opens."""

from __future__ import annotations

from ..errors import ReporterError
from ..load.pdb import conect_lines, cryst1, pdb_model
from ..protocols import SimulationLike
from .reporter import TrajectoryFile

__all__ = ["PDB"]


class PDB(TrajectoryFile):
    """Writes every report as a model of one PDB file, with the box at that time; see `write_pdb` for a single
    structure.

    Positions are not wrapped into the box.

    Parameters
    ----------
    path : str or path
    every : int
        Number of steps between two records.
    atoms : list, mask or str, optional
        Atoms to write: indices, or a selection such as ``"protein or ligand"`` by the system's own positions (see
        `Topology.select`). All by default.

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

    def go_on(self, sim: SimulationLike, *_: object) -> None:
        """Compare the atoms of the first model of the file with those of this run."""
        here = self.record(sim, 0)
        there = self._file.read(len(here))
        lines = zip(here.splitlines(), there.splitlines())
        if there and any(a[:27] != b[:27] for a, b in lines if a.startswith((b"ATOM", b"HETATM"))):
            raise ReporterError(f"{self._name}: was begun with other atoms than this run writes (choose another path)")

    def record(self, sim: SimulationLike, step: int) -> bytes:
        """One model."""
        box = "" if sim.box is None else cryst1(sim.box)
        body = pdb_model(self._topology, sim.positions[self._chosen])
        return f"{box}MODEL {step // self.every % 100_000_000:8d}\n{body}ENDMDL\n".encode()

    def footer(self) -> bytes:
        """Bonds of residues that are not standard, and the end of the file."""
        return (conect_lines(self._topology) + "END\n").encode()
