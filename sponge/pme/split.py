"""`SplitPME`: particle mesh Ewald with the parts of a solute apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task

from ..engine.flags import ENERGY
from ..engine.plan import ROW
from ..engine.program import Phase
from ..units import COULOMB
from . import split_kernels as kernels
from .mesh import PME

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["SplitPME"]


class SplitPME(PME):
    """`PME` of all charges, with a second mesh for the charges of the solute only, for an engine with an `EnergySplit`.

    The energy is bilinear in the charges: with phi and phi_p the potentials of all charges and of the solute's, the
    solute has U_pp = q_p phi_p / 2, and U_pw = q_p phi - 2 U_pp. The virial of U_pw takes a third mesh, which is solved
    only when energies are asked for. `classes`, `enhanced` and `after` are those of `Plan`; `stages`, `reduce`,
    `before` and `rows` those of all charges and of the parts.
    """

    def __init__(
        self,
        engine: Engine,
        charges: Any,
        alpha: float,
        grid: tuple[int, int, int],
        order: int,
        *,
        dispersion: bool = False,
        builds: np.ndarray | None = None,
    ):
        split = engine.split
        assert split is not None
        charges, inside = np.array(charges, float), split.solute
        own, rest = np.where(inside, charges, 0.0), np.where(inside, 0.0, charges)
        self._own = np.zeros(2)
        options: Any = {"dispersion": dispersion, "builds": builds}
        self._solute = PME(split.always, own, alpha, grid, order, felt=charges, **options)
        self._solvent = PME(engine, rest, alpha, grid, order, **options)
        super().__init__(engine, charges, alpha, grid, order, **options)
        row, solute, solvent = np.zeros((1, ROW)), self._solute, self._solvent
        energy = Task(
            kernels.cross_energy, np.flatnonzero(inside), charges, self._own, self._slots, self._field, solute.rows, row
        )
        virial = Task(kernels.cross_virial, self.rows, solute.rows, solvent.rows, row)
        self.before = [*self.before, *solute.before, *solvent.before]
        self.stages = [*([*a, *b] for a, b in zip(self.stages, solute.stages, strict=True)), [energy]]
        self.after = [
            *(Phase(tasks, flag=ENERGY, name="mesh of the solvent") for tasks in solvent.stages[:3]),
            Phase([virial], flag=ENERGY, name="virial of the solvent"),
        ]
        self.classes, self.enhanced = [2, 1, 0], [(2, solute.rows), (1, row)]
        self.reduce = [
            Task(
                kernels.add_part,
                engine.atom_starts,
                k,
                inside.astype(np.int8),
                self._slots,
                self._field,
                solute._slots,
                solute._field,
                engine.forces,
                chunks=engine.atom_chunks,
            )
            for k in self.classes
        ]

    def update_box(self) -> None:
        """Take the engine's box, for all meshes."""
        super().update_box()
        self._solute.update_box()
        self._solvent.update_box()
        if self.dispersion:
            self._own[:] = self.alpha**6 / 6, 0.0
        else:
            volume = np.linalg.det(self.engine.box)
            self._own[:] = (
                -2 * COULOMB * self.alpha / np.sqrt(np.pi),
                -COULOMB * np.pi / self.alpha**2 * self._exact.sum() / volume,
            )
