"""`SITS`: integrated tempering of a solute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.sponge.engine.program import Phase
from triskele.sponge.engine.task import Task
from triskele.sponge.potential import ROW, Plan
from triskele.sponge.sampling.base import Sampling
from triskele.sponge.sampling.sits_kernels import factor
from triskele.sponge.sampling.split import EnergySplit, enhanced_terms, solute_mask
from triskele.sponge.units import GAS_CONSTANT

__all__ = ["SITS"]

_MODES = ("observe", "iterate", "produce")


class SITS(Sampling):
    r"""Selective integrated tempering: one run that samples a range of temperatures of the solute.

    .. math:: U_\text{eff} = U - E - \frac{1}{\beta_0} \ln \sum_k n_k e^{-\beta_k E}, \quad E = U_\text{pp} + \alpha U_\text{pw}

    Parameters
    ----------
    solute : sequence of int or bool array [n], optional
        Its atoms; None for integrated tempering of everything.
    temperatures : array [K]
        The ladder in K.
    cross : float
        The alpha above, from 0 to 1.
    temperature : float, optional
        In K, of which averages are wanted; the integrator's when left out.
    terms : sequence of str, optional
        Names of potentials whose terms in the solute belong to E besides pairs; torsions, 1-4 pairs and CMAP when left out.
    reciprocal : bool
        Whether E contains the reciprocal sum of the solute.
    name : str
    """

    def __init__(self, solute: Any = None, temperatures: Any = (), cross: float = 0.5, temperature: float | None = None,
                 terms: Sequence[str] | None = None, reciprocal: bool = False, name: str = "sits"):
        self.name = name
        self.solute = None if solute is None else np.array(solute)
        self.temperatures = np.sort(np.array(temperatures, np.float64).reshape(-1))
        self.cross, self.temperature, self.reciprocal = float(cross), temperature, bool(reciprocal)
        self.terms = None if terms is None else tuple(terms)
        if len(self.temperatures) == 0 or not np.all(np.isfinite(self.temperatures)) or self.temperatures[0] <= 0:
            raise ValueError(f"SITS: temperatures must be positive numbers, at least one, got {temperatures!r}")
        if not 0 <= self.cross <= 1:
            raise ValueError(f"SITS: cross must be from 0 to 1, got {cross}")
        if temperature is not None and not 0 < temperature < np.inf:
            raise ValueError(f"SITS: temperature must be a positive number, got {temperature!r}")
        self._betas = 1 / (GAS_CONSTANT * self.temperatures)
        self._log_n = np.zeros(len(self.temperatures))
        self._biased = np.ones(1, np.int64)
        self._mode = np.array([_MODES.index("iterate")])
        self._mask: np.ndarray | None = None
        self._beta = np.nan

    def check(self, system, integrator):
        temperature = self.temperature if self.temperature is not None else getattr(integrator, "temperature", None)
        if temperature is None:
            raise ValueError(f"SITS: temperature must be given, as {type(integrator).__name__} has none")
        low, high = self.temperatures[[0, -1]]
        if not low * (1 - 1e-12) <= temperature <= high * (1 + 1e-12):
            raise ValueError(f"SITS: the ladder must contain the temperature of {temperature} K, got {low} to {high} K")
        self._beta = 1 / (GAS_CONSTANT * temperature)
        self._mask = solute_mask(system, self.solute, "SITS: solute")
        self._terms = "all" if self.solute is None else enhanced_terms(system, self.terms, "SITS: terms")

    def split(self, engine):
        return EnergySplit(engine, self._mask, self._terms, self.reciprocal)

    def plan(self, engine):
        rows, values = np.zeros((1, ROW)), np.zeros(3)
        split = engine.split
        task = Task(factor, self._biased, split.energies, self.cross, self._beta, self._betas, self._log_n, split.scales, rows, values)
        return Plan(rows=rows, after=[Phase([task], name="SITS")])

    # -- modes ----------------------------------------------------------------------------------------------------------
    @property
    def mode(self) -> str:
        """ "observe", "iterate" or "produce"."""
        return _MODES[int(self._mode[0])]

    def observe(self) -> SITS:
        """Run without bias: energies are recorded, forces are those of the system."""
        return self._set("observe")

    def iterate(self) -> SITS:
        """Run with a bias that is being improved."""
        return self._set("iterate")

    def produce(self) -> SITS:
        """Run with the bias as it is."""
        return self._set("produce")

    def _set(self, mode):
        self._mode[0] = _MODES.index(mode)
        self._biased[0] = mode != "observe"
        return self

    @property
    def log_n(self) -> np.ndarray:
        """ln n_k, an array [K] of its own; can be set."""
        return self._log_n.copy()

    @log_n.setter
    def log_n(self, values):
        values = np.array(values, np.float64)
        if values.shape != self._log_n.shape or not np.all(np.isfinite(values)):
            raise ValueError(f"SITS: log_n must be {len(self._log_n)} finite numbers, got {values}")
        self._log_n[:] = values

    # -- restarts -------------------------------------------------------------------------------------------------------
    def state(self):
        return {"log_n": self._log_n.copy(), "mode": self._mode.copy(), "biased": self._biased.copy()}

    def restore(self, state):
        self._log_n[:], self._mode[:], self._biased[:] = state["log_n"], state["mode"], state["biased"]
