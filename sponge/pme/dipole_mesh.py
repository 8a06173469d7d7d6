"""`DipolePME`: the compiled form of particle mesh Ewald for charges and point dipoles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task

from ..engine.plan import ROW, add_forces
from ..units import COULOMB
from . import dipole_kernels as kernels
from .mesh import PME
from .mesh_kernels import spread_dipoles

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["DipolePME"]


class DipolePME(PME):
    """`PME` of fixed charges, whose fields it gathers, and stages for dipoles. Order 5, in double precision.

    The stages of `PME` give the field of the charges. They come first at new positions: those of dipoles rely on the
    places of the atoms in the mesh. All stages use the same mesh.
    """

    def __init__(self, engine: Engine, charges: Any, alpha: float, grid: tuple[int, int, int]):
        super().__init__(engine, charges, alpha, grid, felt=np.ones(engine.n), precision="double")
        # forces on charges and dipoles, after `felt_by`; the part of the virial that is not in `rows`
        self.forces, self.sums = np.zeros((engine.n, 3)), np.zeros((self.stages[-1][0].chunks, ROW))
        self._own = COULOMB * 4 * alpha**3 / (3 * np.sqrt(np.pi))
        self.reduce = [Task(add_forces, engine.atom_starts, self.forces, engine.forces, chunks=engine.atom_chunks)]

    def of_dipoles(self, charges: np.ndarray, dipoles: np.ndarray) -> list[list[Task]]:
        """The stages that set the mesh of the potential of charges (e) and dipoles (e nm)."""
        chunks = self.stages[0][0].chunks
        return [[Task(spread_dipoles, charges, dipoles, self._mesh, chunks=chunks)], *self.stages[1:4]]

    def add_field(self, dipoles: np.ndarray, total: np.ndarray) -> Task:
        """A task that adds the gathered field, and that of each dipole at its own place, to `total` [n, 3]."""
        engine = self.engine
        return Task(
            kernels.add_field,
            engine.atom_starts,
            self._slots,
            self._field,
            dipoles,
            self._own,
            total,
            chunks=engine.atom_chunks,
        )

    def felt_by(self, charges: np.ndarray, dipoles: np.ndarray) -> Task:
        """A task that sets `forces` and `sums`, after the stages of both."""
        chunks = len(self.sums)
        return Task(
            kernels.dipole_forces,
            chunks,
            charges,
            dipoles,
            self._mesh,
            self.forces,
            self.sums,
            self.engine.flags,
            chunks=chunks,
        )
