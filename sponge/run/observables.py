"""What a simulation measures at its present positions: energies, temperature, pressure."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from .. import box as boxes
from .. import units
from ..barostats.molecules import Molecules
from ..engine.engine import Engine
from ..engine.flags import FORCES_STALE
from ..engine.plausibility import check_energies
from ..integrators.temperature import drude_kinetic_energy, kinetic_energy
from ..sealed import Fixed
from ..system import System
from .changes import Changes
from .origin import MadeFrom
from .sampling_method import Sampling

__all__ = ["Observables"]


class Observables(Fixed):
    """Base of `Simulation`: its energies and temperatures."""

    system: System
    sampling: Sequence[Sampling]
    precision: Literal["mixed", "double"]
    _engine: Engine
    _made_from: MadeFrom
    _freedom: int
    _running: bool
    _measured: dict[str, float] | None
    _changes: Changes
    _drude: np.ndarray
    _first_box: np.ndarray | None

    def check_unchanged(self) -> None:
        """Raise StaleSimulationError if the system or a setting is not what the simulation was made from."""
        self._made_from.check()

    @property
    def degrees_of_freedom(self) -> int:
        """Three for each atom with mass, less one for each constraint, less three without motion of the center of mass
        (see `System`). An atom and its Drude particle count as one.
        """
        return self._freedom

    @property
    def kinetic_energy(self) -> float:
        """Kinetic energy in kJ/mol."""
        return kinetic_energy(self._engine.masses, self._engine.velocities)

    @property
    def temperature(self) -> float:
        """Instantaneous temperature in K; of atoms with Drude particles, that of the motion of both together."""
        relative = drude_kinetic_energy(self._drude, self._engine.masses, self._engine.velocities)
        return 2 * (self.kinetic_energy - relative) / max(self._freedom, 1) / units.GAS_CONSTANT

    @property
    def drude_temperature(self) -> float:
        """Instantaneous temperature in K of the motion of Drude particles relative to their atoms; NaN without any."""
        if not len(self._drude):
            return np.nan
        relative = drude_kinetic_energy(self._drude, self._engine.masses, self._engine.velocities)
        return 2 * relative / (3 * len(self._drude)) / units.GAS_CONSTANT

    @property
    def changing(self) -> dict[str, float]:
        """Present values of the settings that the present run changes, by name, where these are single numbers."""
        return self._changes.numbers()

    def energies(self) -> dict[str, float]:
        """Return energies, temperature, pressure and density at the present positions.

        The computation has no side effects: a run continues bit for bit as without it. In a run, pairs come from its
        neighbor lists, with their tolerance.

        Returns
        -------
        dict of str to float
            Every term by its name, biases of sampling methods among them, "potential" (their sum: what the atoms move
            in), "kinetic" and "total" (kJ/mol), "temperature" (K), with Drude particles "drude_temperature" (K), and
            for periodic systems
            "pressure" (bar), "volume" (nm^3) and "density" (g/cm^3). The pressure is that of the molecules (bonded
            atoms) as wholes, whose mean equals that of the atoms, and which fluctuates less.

        Raises
        ------
        StaleSimulationError
            If the system or a setting was changed after the simulation was made.
        BrokenSimulationError
            If an energy is not finite, for example because atoms overlap.
        """
        if not self._running:  # a run looks for itself
            self.check_unchanged()
        # a sampling method may have changed what forces are computed from
        if self._measured is None or self._engine.flags[FORCES_STALE]:
            self._measured = self._engine.measure(self._measure)
        return dict(self._measured)

    def _measure(self):
        engine = self._engine
        result = engine.energies()
        check_energies(engine, result, "Simulation")
        result["potential"] = sum(result.values())
        result["kinetic"] = self.kinetic_energy
        result["total"] = result["potential"] + result["kinetic"]
        result["temperature"] = self.temperature
        if len(self._drude):
            result["drude_temperature"] = self.drude_temperature
        if engine.periodic:
            volume = float(boxes.volume(engine.box))
            result["pressure"] = float(self._molecules.pressure().mean() * units.BAR_PER_PRESSURE)
            result["volume"] = volume
            result["density"] = float(engine.masses.sum() / volume * units.DENSITY)
        return result

    @cached_property
    def _observer(self):
        """An engine of its own, for energies at other positions."""
        system = copy.copy(self.system)
        system.box = self._first_box  # from which meshes are planned
        return Engine(system, self.precision, sampling=self.sampling)

    @cached_property
    def _molecules(self):
        return Molecules(self._engine)
