"""`SITS`: integrated tempering of a solute, or of everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from triskele.core.extend import Task, check

from ..engine.energy_split import EnergySplit, check_oscillators, enhanced_terms, solute_mask
from ..engine.engine import Engine
from ..engine.flags import STEP
from ..engine.plan import ROW, Plan
from ..engine.program import Phase
from ..run.checkpoint_file import below, nested
from ..run.sampling_method import Sampling
from ..units import GAS_CONSTANT
from .history import ITERATE, OBSERVE, PRODUCE, History, find_states
from .ladder_weights import ESTIMATORS, from_mean_energies
from .reweighting import LadderReweighting, as_ladder, count_round_trips, mean_probabilities
from .sits_kernels import factor, record
from .sits_sharing import Sharing

if TYPE_CHECKING:
    from ..integrators.integrator import Integrator
    from ..run.simulation import Simulation
    from ..system import System

__all__ = ["SITS"]

_MODES = ("observe", "iterate", "produce")
_ALONE = -1e9  # ln n of temperatures that take no part


class SITS(Sampling):
    r"""Selective integrated tempering: one run that samples a range of temperatures of the solute.

    .. math:: U_\text{eff} = U - E - \frac{1}{\beta_0} \ln \sum_k n_k e^{-\beta_k E},
              \quad E = U_\text{pp} + \alpha U_\text{pw}

    E has large fluctuations when n_k makes all temperatures equally probable. It begins with plain dynamics, whose
    energies give a first guess of n_k; then n_k is improved after every block (mode "iterate"). For results, `produce`
    keeps it as it is, and `weights` takes what was sampled to the temperature of interest.

    Parameters
    ----------
    solute : sequence of int or (n,) bool, optional
        Its atoms; None for integrated tempering of everything.
    temperatures : (N,) array
        The ladder in K, such as ``units.ladder(280, 600, 60)``. Neighbors must overlap; more of them cost next to
        nothing.
    cross : float
        The alpha above, from 0 to 1.
    temperature : float, K, optional
        Temperature of the averages. Defaults to the integrator's temperature.
    terms : sequence of str, optional
        Names of potentials whose terms in the solute belong to E besides pairs; when left out, torsions, 1-4 pairs and
        CMAP, or everything if there is no solute. The default leaves bonds and angles cold: a barrier that atoms pass
        by bending angles needs "angle" too.
    reciprocal : bool
        Include the reciprocal sum of the solute in E.
    estimator : {"mbar", "iteration", "approximation", "opes"}
        Estimator of n_k; see `sponge.sampling.ladder_weights`. With "opes" the run is the multithermal one of OPES.
    every : int
        Steps between recorded energies. States that are to be reweighted must be among the recorded ones.
    block : int
        Recorded energies between improvements of n_k.
    name : str

    References
    ----------
    .. [1] Gao, "An integrate-over-temperature approach for enhanced sampling", J. Chem. Phys. 128, 064105 (2008).
       doi:10.1063/1.2825614
    .. [2] Yang, Gao, "Selective integrated tempering method", J. Chem. Phys. 131, 214109 (2009). doi:10.1063/1.3266563

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import cv, units
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> sits = sponge.SITS(solute=range(22), temperatures=units.ladder(280, 600, 60))
    >>> sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), sampling=[sits], seed=1)
    >>> sim.run(time="50 ps")
    >>> _ = sits.produce()
    >>> angles = sponge.Variables({"phi": cv.torsion(4, 6, 8, 14)}, every=50)
    >>> sim.run(time="200 ps", report=angles)
    >>> sits.weights(angles.steps).shape
    (2000,)
    """

    def __init__(
        self,
        solute: Any = None,
        temperatures: Any = (),
        cross: float = 0.5,
        temperature: float | None = None,
        terms: Sequence[str] | None = None,
        reciprocal: bool = False,
        estimator: Literal["mbar", "iteration", "approximation", "opes"] = "mbar",
        every: int = 10,
        block: int = 500,
        name: str = "sits",
    ):
        self.name = name
        self.solute = None if solute is None else np.array(solute)
        self.temperatures = np.sort(as_ladder("SITS", temperatures))
        self.cross, self.temperature, self.reciprocal = float(cross), temperature, bool(reciprocal)
        self.terms = None if terms is None else tuple(terms)
        self.estimator = estimator
        self.every, self.block = check.integer(every, "SITS: every", 1), check.integer(block, "SITS: block", 10)
        check.number(self.cross, "SITS: cross", 0, 1)
        if temperature is not None:
            check.positive(temperature, "SITS: temperature")
        check.choice(estimator, ESTIMATORS, "SITS: estimator")
        if isinstance(terms, str):
            raise TypeError(f"SITS: terms must be a sequence of names of potentials, got the string {terms!r}")
        self._mode = ITERATE
        self._log_n = np.zeros(len(self.temperatures))  # one array for good: kernels are bound to it
        self._initializing = False
        self._started = len(self._log_n) == 1  # whether there is an n_k
        self._biased, self._online = np.zeros(1, np.int64), np.zeros(1, np.int64)
        self._history = History(len(self._log_n), self.cross, self.block + 2)
        self._used = 0  # records that the estimator has seen, or will not see
        self._learner: Any = None  # a LadderWeights
        self._sharing: Sharing | None = None
        self._found: tuple[tuple[int, int], LadderReweighting] | None = None
        self._begin()

    def check(self, system: System, integrator: Integrator) -> None:
        """Take over atoms, terms and temperature."""
        super().check(system, integrator)
        temperature = self.temperature if self.temperature is not None else getattr(integrator, "temperature", None)
        if temperature is None:
            raise ValueError(f"SITS: temperature must be given, as {type(integrator).__name__} has none")
        low, high = self.temperatures[[0, -1]]
        if not low * (1 - 1e-12) <= temperature <= high * (1 + 1e-12):
            raise ValueError(f"SITS: the ladder must contain the temperature of {temperature} K, got {low} to {high} K")
        self._target = float(temperature)
        self._beta, self._betas = 1 / (GAS_CONSTANT * temperature), 1 / (GAS_CONSTANT * self.temperatures)
        self._mask = solute_mask(system, self.solute, "SITS: solute")
        check_oscillators(system, self._mask, "SITS: solute")
        everything = self.solute is None and self.terms is None
        self._terms: Any = "all" if everything else enhanced_terms(system, self.terms, "SITS: terms")
        self._learner = ESTIMATORS[self.estimator](self._betas, self._beta)
        self._learner.log_n = self._log_n

    def split(self, engine: Engine) -> EnergySplit:
        """The energy split that belongs to the solute."""
        return EnergySplit(engine, self._mask, self._terms, self.reciprocal)

    def plan(self, engine: Engine) -> Plan:
        """The bias, as a phase between energies and sum of forces."""
        rows, split = np.zeros((1, ROW)), engine.split
        assert split is not None
        task = Task(
            factor, self._biased, split.energies, self.cross, self._beta, self._betas, self._log_n, split.scales, rows
        )
        return Plan(rows=rows, after=[Phase([task], name=self.name)])

    def after_step(self, engine: Engine, integrator: Integrator) -> list[Phase]:
        """Records, and improvements of n_k."""
        assert engine.split is not None
        enhanced = np.zeros(1)
        ahead = int(integrator.forces_at == "new")
        task = Task(
            record,
            engine.flags,
            ahead,
            self.every,
            engine.split.energies,
            self.cross,
            enhanced,
            self._history.mark,
            self._history.buffer,
            self._history.count,
        )
        phases = [Phase([task], name=f"{self.name}: records")]
        if self._learner.online:
            task = self._learner.task(self._online, enhanced)
            phases.append(Phase([task], every=self.every, name=f"{self.name}: estimator"))
        # the step goes on from here when a later phase has failed: nothing is recorded or learned from twice
        return [*phases, Phase(call=self._learn, every=self.every * self.block, name=f"{self.name}: n_k", redo=True)]

    # -- modes ---------------------------------------------------------------------------------------------------------

    @property
    def mode(self) -> str:
        """The phase of the run: "observe", "iterate" or "produce"."""
        return _MODES[self._mode]

    def observe(self) -> SITS:
        """Run without bias: energies are recorded, forces are those of the system."""
        return self._set(OBSERVE)

    def iterate(self) -> SITS:
        """Run with a bias that is being improved."""
        return self._set(ITERATE)

    def produce(self) -> SITS:
        """Run with the bias as it is.

        Raises
        ------
        ValueError
            If n_k has neither been learned nor given.
        """
        if not self._started:
            raise ValueError(
                "SITS: n_k must have been learned or set before produce (run in mode iterate for at least "
                f"{self.every * self.block} steps, or set log_n)"
            )
        return self._set(PRODUCE)

    def _set(self, mode):
        self._mode = mode
        self._begin()
        self._bias_changed()
        return self

    def _begin(self):
        """Mode or n_k have changed: what comes is another epoch."""
        self._switch()
        if self._history.begin(self._mode, self._log_n if self._biased[0] else np.full(len(self._log_n), np.nan)):
            self._used = len(self._history.records)

    def _switch(self):
        biased = self._started and self._mode != OBSERVE
        self._biased[0], self._online[0] = biased, biased and self._mode == ITERATE and not self._initializing

    @property
    def log_n(self) -> np.ndarray:
        """ln n_k, an array [N] of its own; can be set."""
        return self._log_n.copy()

    @log_n.setter
    def log_n(self, values: Any) -> None:
        values = check.shape(
            check.finite(np.array(values, np.float64), "SITS: log_n"), self.temperatures.shape, "SITS: log_n"
        )
        self._log_n[:] = values - values.mean()
        self._started = True
        self._begin()
        self._bias_changed()

    # -- learning ------------------------------------------------------------------------------------------------------

    def _learn(self):
        recorded = len(self._history.records)  # which empties the buffer
        waiting = recorded - self._used < self.block
        if waiting or self._mode != ITERATE or self._initializing or self._sharing is not None:
            return
        energies = self._history.energies(slice(self._used, None))
        self._used = recorded
        self._learner.add(energies, self._log_n.copy() if self._started else None)
        self._learner.update()
        self._learned()

    def _learned(self):
        if not np.isfinite(self._log_n).all():
            raise FloatingPointError(f"SITS: n_k are no longer finite: ln n_k = {self._log_n}")
        self._started = True
        self._begin()

    def initialize(self, sim: Simulation, steps: int, temperatures: int = 5) -> None:
        """A first n_k from mean energies: a short run at each of a few temperatures of the ladder, from the lowest up.

        The simulation moves on by these runs. In between, <E> is taken as linear in the temperature.

        Parameters
        ----------
        sim : Simulation
            Simulation to which this method belongs.
        steps : int
            Number of steps of each run; the first half is discarded.
        temperatures : int
            Number of temperatures.
        """
        if self not in sim.sampling:
            raise ValueError("SITS: initialize must be given the simulation that this method belongs to")
        n = len(self.temperatures)
        chosen = np.unique(np.linspace(0, n - 1, min(temperatures, n)).round().astype(int))
        if temperatures < 2 or steps < 4 * self.every:
            raise ValueError(
                f"SITS: initialize needs at least 2 temperatures and {4 * self.every} steps, got "
                f"{temperatures} and {steps}"
            )
        mode, means = self._mode, []
        self._mode, self._initializing = ITERATE, True
        try:
            for k in chosen:
                self._log_n[:] = _ALONE
                self._log_n[k] = 0.0  # one temperature alone: f_b = beta_k / beta
                self._started = True
                self._begin()
                self._bias_changed()
                sim.run(steps)
                energies = self._history.energies(slice(self._history.first, None))
                means.append(energies[len(energies) // 2 :].mean())
        finally:
            self._mode, self._initializing = mode, False
        self.log_n = from_mean_energies(self._betas, np.interp(self.temperatures, self.temperatures[chosen], means))

    # -- what was recorded ---------------------------------------------------------------------------------------------

    @property
    def _records(self) -> np.ndarray:
        return self._history.records.values

    @property
    def steps(self) -> np.ndarray:
        """Numbers of the recorded states, int64 [m]."""
        return self._records[:, 0].astype(np.int64)

    @property
    def energies(self) -> np.ndarray:
        """Enhanced energy E of the recorded states in kJ/mol [m]."""
        return self._records[:, 1] + self.cross * self._records[:, 2]

    @property
    def parts(self) -> np.ndarray:
        """U_pp and U_pw of the recorded states in kJ/mol [m, 2]."""
        return self._records[:, 1:].copy()

    @property
    def produced(self) -> np.ndarray:
        """Mask (m,) of the states recorded in mode "produce", with fixed n_k."""
        return self._history.modes[self._history.epoch_of(np.arange(len(self._records)))] == PRODUCE

    def shares(self) -> np.ndarray:
        """P_k [N] of the latest n_k that states were drawn with; NaN when there are none."""
        drawn = self._history.latest()
        if drawn is None:
            return np.full(len(self._log_n), np.nan)
        log_n, energies = drawn
        return mean_probabilities(energies, self._betas, log_n)

    def flatness(self) -> float:
        """max |N P_k - 1| of the latest n_k that states were drawn with: 0 when all temperatures are equally
        probable.
        """
        return float(np.abs(len(self._log_n) * self.shares() - 1).max())

    @property
    def round_trips(self) -> int:
        """Number of round trips of E between its means at the lowest and the highest temperature."""
        energies = self.energies
        if len(energies) < 2 or len(self.temperatures) < 2:
            return 0
        low, high = self._reweighting().mean_energy(self.temperatures[[0, -1]], errors=False)[0]
        return count_round_trips(energies, low, high)

    def report(self) -> str:
        """Mode, number of records, flatness and round trips, in one line."""
        return (
            f"{self.name}: {self.mode}, {len(self._records)} energies, flatness {self.flatness():.3f}, "
            f"{self.round_trips} round trips"
        )

    # -- other temperatures --------------------------------------------------------------------------------------------

    def weights(self, steps: Any = None, temperature: float | None = None) -> np.ndarray:
        """Weights of states, of sum 1, that turn what was sampled into averages at a temperature.

        Parameters
        ----------
        steps : (m,) int, optional
            Numbers of the states, such as those of a reporter; all recorded ones (`steps`) when left out. Those from
            mode "iterate" have weight 0 once there are others, and also where n_k moved at every step (stochastic
            approximation in its beginning).
        temperature : float, K, optional
            Defaults to the temperature of the simulation. Other values only if E is all of the potential energy.

        Returns
        -------
        (m,) array

        Raises
        ------
        ValueError
            If a state was not recorded, or the temperature is outside of the ladder.

        Warns
        -----
        PoorOverlapWarning
            If the weights are worth fewer than 20 independent samples.
        """
        temperature = self._temperature_of(temperature)
        if steps is None:
            numbers, reweighting = np.arange(len(self._records)), self._reweighting()
        else:
            numbers, reweighting = self._numbers(steps)
        place = np.cumsum(self._usable()) - 1  # of a record among those that can be used
        usable = np.append(self._usable(), True)[numbers]
        place = np.append(place, len(reweighting.energies) - 1)
        weights = np.zeros(len(numbers))
        weights[usable] = reweighting.weights(temperature, place[numbers[usable]], "SITS.weights")
        return weights

    def visits(self, inside: Any, steps: Any = None) -> int:
        """Return how often the run came into a region: what a population is known by, not the number of its samples.

        Parameters
        ----------
        inside : (m,) bool
            True for the states in the region. States that `weights` leaves out do not count.
        steps : (m,) int, optional
            Numbers of the states, as for `weights`.
        """
        numbers = np.arange(len(self._records)) if steps is None else self._numbers(steps)[0]
        inside = check.shape(
            np.asarray(inside, bool),
            numbers.shape,
            "SITS.visits: inside",
            hint=f"one bool for each of {len(numbers)} states",
        )
        inside = inside[np.append(self._usable(), True)[numbers]]
        return int(np.count_nonzero(inside[1:] & ~inside[:-1]) + np.count_nonzero(inside[:1]))

    def free_energies(self, temperatures: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Reduced free energies -ln Z(T) / Z(T0) of the enhanced energy, and their standard errors.

        With E all of the potential energy this is A(T) / RT - A(T0) / RT0, without the momenta.

        Parameters
        ----------
        temperatures : (m,) array, K, optional
            Must lie within the ladder. Defaults to the ladder.

        Returns
        -------
        value, error : (m,) array
            Pure numbers.
        """
        value, error = self._reweighting().log_partition(self._ladder(temperatures))
        return -value, error

    def heat_capacity(self, temperatures: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Heat capacity (<E^2> - <E>^2) / (R T^2) in kJ/mol/K (without the momenta), and its standard errors.

        Parameters
        ----------
        temperatures : (m,) array, K, optional
            Must lie within the ladder. Defaults to the ladder.
        """
        return self._reweighting().heat_capacity(self._ladder(temperatures))

    def _temperature_of(self, temperature):
        if self._learner is None:
            raise ValueError(
                "SITS: must belong to a simulation that has run, got one that belongs to none "
                "(Simulation(..., sampling=[sits]))"
            )
        if temperature is None:
            return self._target
        self._ladder(temperature)
        if self._terms != "all" and not np.isclose(temperature, self._target, rtol=1e-9):
            raise ValueError(
                f"SITS: states can be taken to {temperature} K only if the enhanced energy is all of the "
                f"potential energy; here it is a part, and what was sampled belongs to {self._target} K"
            )
        return float(temperature)

    def _ladder(self, temperatures):
        low, high = self.temperatures[[0, -1]]
        wanted = self.temperatures if temperatures is None else np.atleast_1d(np.asarray(temperatures, np.float64))
        inside = (wanted >= low * (1 - 1e-9)) & (wanted <= high * (1 + 1e-9))
        if not inside.all():
            raise ValueError(
                f"SITS: temperature must be within the ladder, {low:g} to {high:g} K, got {wanted[~inside][0]:g}"
            )
        return wanted

    def _usable(self):
        moving = self._learner is not None and self._learner.online
        return self._history.usable(self._log_n if moving else None)

    def _reweighting(self, extra=()):
        """All records that can be used, and energies `extra` drawn as the last of them."""
        history, usable = self._history, self._usable()
        size = len(history.records), len(history.epochs)
        if self._found is not None and self._found[0] == size and not extra:
            return self._found[1]
        if not usable.any():
            raise ValueError(
                "SITS: no state was recorded that can be reweighted (run on; with "
                "estimator='approximation', until n_k settles, or call produce())"
            )
        epochs = history.epoch_of(np.flatnonzero(usable))
        energies = history.energies(usable)
        found = LadderReweighting(
            np.append(energies, extra),
            history.log_n,
            self.temperatures,
            self._target,
            np.append(epochs, [epochs[-1]] * len(extra)).astype(np.int64),
        )
        if not extra:
            self._found = size, found
        return found

    def _numbers(self, steps):
        """Numbers of the records of states; the present one, which is recorded in the next step, counts as one more."""
        here = -1 if self._engine is None else int(self._engine.flags[STEP])
        numbers = find_states("SITS.weights", self.steps, steps, self.every, here)
        present = bool(np.any(numbers == len(self._records)))
        return numbers, self._reweighting((self._present_energy(),) if present else ())

    def _present_energy(self):
        assert self._engine is not None
        here, engine = self._engine, Engine(self._engine.system, self._engine.precision, sampling=[self])
        engine.compute(here.positions, here.box if here.periodic else None)
        assert engine.split is not None
        return float(engine.split.energies[0] + self.cross * engine.split.energies[1])

    # -- restarts and walkers ------------------------------------------------------------------------------------------

    def state(self) -> dict[str, np.ndarray]:
        """Return everything learned and recorded; records are not copied, because they only grow."""
        shared = {} if self._sharing is None else self._sharing.state()
        return {
            "mode": np.array([self._mode, self._started, self._used]),
            "records": self._history.records.values,
            "epochs": self._history.epochs.values,
            **nested("estimator/", self._learner.state()),
            **nested("sharing/", shared),
        }

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go back to such a state."""
        self._mode, self._started, self._used = int(state["mode"][0]), bool(state["mode"][1]), int(state["mode"][2])
        self._history.records.become(state["records"])  # what waited in the buffer is gone with the old ones
        self._history.epochs.become(state["epochs"])
        self._learner.restore(below("estimator/", state))
        shared = below("sharing/", state)
        self._sharing = Sharing(self._learner, shared) if shared else None
        self._switch()
        self._found = None

    def news(self) -> dict[str, np.ndarray]:
        """Energies recorded since the last `receive`, and the n_k they were drawn with.

        From now on n_k changes in `receive`.
        """
        if self._sharing is None:
            self._sharing = Sharing(self._learner)
        history, first = self._history, self._used if self._mode == ITERATE else len(self._history.records)
        rows, epochs = np.unique(history.epoch_of(np.arange(first, len(history.records))), return_inverse=True)
        return {
            "energies": history.energies(slice(first, None)),
            "epochs": epochs,
            "log_n": history.log_n[rows],
            "started": np.array(self._started),
            **nested("estimator/", self._learner.state()),
        }

    def receive(self, news: Sequence[dict[str, np.ndarray]]) -> None:
        """Learn from the news of all walkers."""
        assert self._sharing is not None
        self._used = len(self._records)
        if self._mode == ITERATE and self._sharing.learn(news, self.block):
            self._learned()
