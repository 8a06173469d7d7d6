"""`Boost`: base class of accelerated dynamics, whose potential is raised where the energy is low."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, check

from .. import units
from ..engine.energy_split import TermSplit, enhanced_terms
from ..engine.engine import Engine
from ..engine.flags import STEP
from ..engine.plan import ROW, Plan
from ..engine.program import Phase
from ..run.sampling_method import Sampling
from . import boost_kernels as kernels
from .history import Records, find_states
from .reweighting import PoorOverlapWarning, kish

if TYPE_CHECKING:
    from ..integrators.integrator import Integrator
    from ..system import System

__all__ = ["Boost"]

_ROWS = 1024  # of the buffer that the kernel fills before Python takes them over
_FEWEST = 20  # effective samples below which a reweighted mean says little


class Boost(Sampling):
    """A boost of the potential energy where it is below a threshold: of all of it, of the torsions, or of both.

    Subclasses set the thresholds and strengths of the boosts.

    Attributes
    ----------
    terms : tuple of str, optional
        Names of the potentials that count as torsions.
    temperature : float, K, optional
    every : int
    """

    _harmonic = False  # the form of the boost

    def __init__(self, terms: Sequence[str] | None, temperature: float | None, every: int, name: str):
        where = type(self).__name__
        if isinstance(terms, str):
            raise TypeError(f"{where}: terms must be a sequence of names of potentials, got the string {terms!r}")
        if temperature is not None:
            check.positive(temperature, f"{where}: temperature", "K")
        self.terms = None if terms is None else tuple(terms)
        self.temperature, self.every, self.name = temperature, check.integer(every, f"{where}: every", 1), name
        self._numbers = np.array([[-np.inf, 0.0]] * 2)  # thresholds, and alpha or k, of the total and of the torsions
        self._kept = Records(5, _ROWS)
        self._torsions: tuple[str, ...] = ()
        self._thermal = np.nan

    def _boosted(self) -> tuple[bool, bool]:
        """Return True for each of the total energy and the torsions that has a boost."""
        raise NotImplementedError

    # -- in a simulation -----------------------------------------------------------------------------------------------

    def check(self, system: System, integrator: Integrator) -> None:
        """Take over terms and temperature."""
        super().check(system, integrator)
        where = type(self).__name__
        temperature = self.temperature or getattr(integrator, "temperature", None)
        if temperature is None:
            raise ValueError(f"{where}: temperature must be given, as {type(integrator).__name__} has none")
        if self._boosted()[1]:
            self._torsions = _torsions(system, self.terms, f"{where}: terms")
        self._thermal = units.GAS_CONSTANT * temperature

    def split(self, engine: Engine) -> TermSplit:
        """The torsions apart from all other terms, which are told apart only where the total energy is needed."""
        return TermSplit(engine, self._torsions, rest=self._boosted()[0])

    def plan(self, engine: Engine) -> Plan:
        """The boost, as a phase between energies and sum of forces."""
        rows, split, boosts = np.zeros((1, ROW)), engine.split, np.zeros(2)
        assert split is not None
        task = Task(kernels.boost, int(self._harmonic), split.energies, self._numbers, split.scales, boosts, rows)
        return _BoostPlan(rows=rows, after=[Phase([task], name=self.name)], boosts=boosts)

    def after_step(self, engine: Engine, integrator: Integrator) -> list[Phase]:
        """Records of the energies and boosts."""
        split, plan = engine.split, engine.plans[self.name]
        assert split is not None and isinstance(plan, _BoostPlan)
        ahead = int(integrator.forces_at == "new")
        task = Task(
            kernels.record,
            engine.flags,
            ahead,
            self.every,
            split.energies,
            plan.boosts,
            self._kept.mark,
            self._kept.buffer,
            self._kept.count,
        )
        return [
            Phase([task], name=f"{self.name}: records", redo=True),
            Phase(call=self._kept.take_over, every=self.every * (_ROWS - 1), name=f"{self.name}: put away"),
        ]

    # -- results -------------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> np.ndarray:
        """Numbers of the recorded states, int64 [m]."""
        return self._kept.values[:, 0].astype(np.int64)

    @property
    def energies(self) -> np.ndarray:
        """Potential energy and that of the torsions in the recorded states, without boosts, in kJ/mol [m, 2].

        The former is that of the torsions alone where only they have a boost, the latter 0 where they have none.
        """
        return self._kept.values[:, 1:3].copy()

    @property
    def boosts(self) -> np.ndarray:
        """Boosts of both in the recorded states, in kJ/mol [m, 2]."""
        return self._kept.values[:, 3:].copy()

    @property
    def produced(self) -> np.ndarray:
        """Mask (m,) of the recorded states that were drawn with a fixed boost."""
        return np.ones(len(self._kept.values), bool)

    def weights(self, steps: Any = None) -> np.ndarray:
        r"""Weights of states, of sum 1, that take them to the ensemble without a boost, :math:`w \propto e^{\Delta
        V/RT}`.

        Parameters
        ----------
        steps : (m,) int, optional
            Numbers of the states, such as those of a reporter; all recorded ones (`steps`) when left out. States from
            before the boost was fixed have weight 0.

        Returns
        -------
        (m,) array

        Raises
        ------
        ValueError
            If a state was not recorded, or none was drawn with a fixed boost.

        Warns
        -----
        PoorOverlapWarning
            If the weights are worth fewer than 20 independent samples.
        """
        boosts, fixed = self._of_states("weights", steps)
        log = np.where(fixed, boosts / self._thermal, -np.inf)
        weights = np.exp(log - log.max())
        effective = kish(weights[fixed])
        if effective < _FEWEST:
            warnings.warn(
                f"{type(self).__name__}.weights: {fixed.sum()} samples are worth {effective:.1f} independent "
                "ones (sample longer, or with a smaller boost; cumulant_weights is less noisy)",
                PoorOverlapWarning,
                stacklevel=2,
            )
        return weights / weights.sum()

    def cumulant_weights(self, bins: Any, steps: Any = None) -> np.ndarray:
        r"""Weights of states, of sum 1, in which the mean of a bin is a cumulant expansion to second order [1]_.

        .. math:: \ln \langle e^{\Delta V/RT} \rangle_j \approx \langle \Delta V \rangle_j / RT
                  + \sigma_j^2(\Delta V) / 2 (RT)^2

        in bin j, whose states share one weight. It is much less noisy than `weights`, and exact where the boost has a
        Gaussian distribution in each bin; elsewhere it shifts free energies, which their error bars do not show. Bins
        need many states each for a variance.

        Parameters
        ----------
        bins : (m,) or (m, d) int
            Bin of each state, as one number or several. Weights go with these bins: draw histograms over them, or over
            bins that are unions of them.
        steps : (m,) int, optional
            As of `weights`.

        Returns
        -------
        (m,) array

        References
        ----------
        .. [1] Miao, Sinko, Pierce, Bucher, Walker, McCammon, "Improved reweighting of accelerated molecular dynamics
           simulations for free energy calculation", J. Chem. Theory Comput. 10 (2014) 2677, equations 10 to 12.
           doi:10.1021/ct500090q
        """
        boosts, fixed = self._of_states("cumulant_weights", steps)
        bins = np.asarray(bins)
        if bins.dtype.kind not in "iu" or bins.ndim not in (1, 2) or len(bins) != len(boosts):
            raise ValueError(
                f"{type(self).__name__}.cumulant_weights: bins must be whole numbers [m] or [m, d] of "
                f"{len(boosts)} states, got {bins.dtype} of shape {bins.shape}"
            )
        of = np.unique(bins.reshape(len(bins), -1)[fixed], axis=0, return_inverse=True)[1].ravel()
        u, count = boosts[fixed] / self._thermal, np.bincount(of)
        mean = np.bincount(of, u) / count
        log = mean + 0.5 * np.bincount(of, (u - mean[of]) ** 2) / count
        weights = np.zeros(len(boosts))
        weights[fixed] = np.exp(log - log.max())[of]
        return weights / weights.sum()

    def _of_states(self, what, steps):
        """Boosts of states, and which of them were drawn with a fixed boost."""
        where = f"{type(self).__name__}.{what}"
        boosts, fixed = self._kept.values[:, 3:].sum(1), self.produced
        if steps is not None:
            here = -1 if self._engine is None else int(self._engine.flags[STEP])
            places = find_states(where, self.steps, steps, self.every, here)
            if np.any(places == len(boosts)):
                boosts, fixed = np.append(boosts, self._present_boost()), np.append(fixed, self._fixed())
            boosts, fixed = boosts[places], fixed[places]
        if not fixed.any():
            raise ValueError(
                f"{where}: at least one state must have been recorded with a fixed boost, got none (run on)"
            )
        return boosts, fixed

    def _fixed(self) -> bool:
        """Return True if the boost does not change any more."""
        return True

    def _present_boost(self):
        assert self._engine is not None
        here, engine = self._engine, Engine(self._engine.system, self._engine.precision, sampling=[self])
        engine.compute(here.positions, here.box if here.periodic else None)
        return engine.energies()[self.name]

    # -- restarts ------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return thresholds, strengths and records."""
        return {"numbers": self._numbers.copy(), "records": self._kept.values}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to such a state."""
        self._numbers[:] = state["numbers"]
        self._kept.become(state["records"])


class _BoostPlan(Plan):
    """The plan of a boost, with the array that it leaves both boosts in."""

    def __init__(self, boosts: np.ndarray, **parts: Any):
        super().__init__(**parts)
        self.boosts = boosts


def _torsions(system: System, terms: Sequence[str] | None, where: str) -> tuple[str, ...]:
    """Names of the potentials that count as torsions: those given, or all torsions and CMAP."""
    if terms is None:
        found = tuple(p.name for p in system.potentials if p.enhanced and np.shape(getattr(p, "atoms", ()))[-1] > 2)
    else:
        found = enhanced_terms(system, terms, where)
    if not found:
        raise ValueError(f"{where}: the system must have torsions, got none")
    if wrong := [name for name in found if system[name].pair_scope is not None]:
        raise ValueError(f"{where}: must not name potentials between all pairs of atoms, got {wrong[0]!r}")
    return found
