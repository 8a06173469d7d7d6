"""`Calculator`: our energies, forces and stresses for ASE."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import optional

from .. import units
from ..box import as_box, volume
from ..engine.engine import Engine
from ..system import System

__all__ = ["Calculator"]

_ase = optional.need("ase.calculators.calculator", "Calculator", "md")
_Base: Any = _ase.Calculator


class Calculator(_Base):
    """ASE calculator for a `System`.

    Parameters
    ----------
    system : System
        Its potentials, as they are now; positions and cell come from the atoms.
    precision : {"double", "mixed"}
    **options
        Options of ASE's ``Calculator``.

    Examples
    --------
    >>> from triskele.sponge import Calculator
    >>> from triskele import sponge
    >>> oxygen = sponge.Topology.of_particles(2, "O", 8)
    >>> system = sponge.System(oxygen, [16.0, 16.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> _ = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> atoms = system.to_ase()
    >>> atoms.calc = Calculator(system)
    >>> round(float(atoms.get_potential_energy() / 0.010364), 2)  # eV, in kJ/mol
    0.05
    """

    implemented_properties = ["energy", "forces", "stress"]

    def __init__(self, system: System, precision: str = "double", **options: Any):
        super().__init__(**options)
        self.system = system.copy()
        self.precision = precision
        self._engine: Engine | None = None

    def __repr__(self) -> str:
        return f"<Calculator: {self.system.n} atoms, {self.precision} precision>"

    def calculate(
        self, atoms: Any = None, properties: Any = ("energy",), system_changes: Any = _ase.all_changes
    ) -> None:
        """Called by ASE. Stress is available for periodic systems."""
        super().calculate(atoms, properties, system_changes)
        if len(self.atoms) != self.system.n:
            raise ValueError(f"Calculator: the system has {self.system.n} atoms, got {len(self.atoms)}")
        periodic = self.system.box is not None
        if periodic != bool(np.any(self.atoms.pbc)) or (periodic and not np.all(self.atoms.pbc)):
            raise ValueError(
                f"Calculator: the atoms must be periodic in {'all' if periodic else 'no'} directions, as the system, "
                f"got pbc={self.atoms.pbc.tolist()}"
            )
        turn, box = np.eye(3), None
        if periodic:
            cell, turn = self.atoms.cell.standard_form()  # cell = lower triangular @ turn
            box = as_box(cell.array * units.angstrom, "Calculator")
        if self._engine is None:
            self._engine = Engine(self.system, self.precision)
        engine = self._engine
        engine.fit_meshes(box)
        engine.compute(self.atoms.positions @ turn.T * units.angstrom, box, True)
        per_eV = 1 / units.eV
        self.results = {
            "energy": sum(engine.energies().values()) * per_eV,
            "forces": engine.forces @ turn * (per_eV * units.angstrom),
        }
        if periodic:
            strain = -turn.T @ engine.virial() @ turn / volume(box) * (per_eV * units.angstrom**3)
            self.results["stress"] = (0.5 * (strain + strain.T)).ravel()[[0, 4, 8, 5, 2, 1]]
