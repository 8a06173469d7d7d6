"""`States` and `ExpandedEnsemble`: a simulation in one state of a schedule, or walking through all of them."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from triskele.core import random
from triskele.core.extend import Task, check, kernel
from triskele.core.random import Fold

from .. import units
from ..engine.flags import FORCES_STALE, STEP
from ..engine.plan import Plan
from ..engine.program import Phase
from ..run.sampling_method import Sampling
from ..sampling.ladder_weights import Approximation
from .decouple import Lambdas, alchemical, check_schedule
from .kernels import FORCED, STATES
from .schedule import Schedule, check_type

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["ExpandedEnsemble", "States"]

_FLAT = 0.8  # the least share of a state, over its mean, at which a histogram counts as flat
_LEAST = 2e-3  # increment of Wang-Landau at which the weights are fixed


@kernel(nogil=True)
def mark_due(_chunk, flags, shift, every):
    """Set the flag STATES in steps whose number, plus `shift`, is a multiple of `every`."""
    if flags[STATES] != FORCED:
        flags[STATES] = (flags[STEP] + shift) % every == 0


class States(Sampling):
    """Keeps a simulation in one state of a schedule, and records the energies of its configurations in all states.

    Parameters
    ----------
    schedule : Schedule
        Lambdas that it leaves out are 1.
    state : int
        Number of the state at first.
    record : int, optional
        Steps between records; without it, nothing is recorded.

    Attributes
    ----------
    current : int
        Number of the state; can be set between runs, without recompiling.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> soft = alchemy.decouple(system, range(22), annihilate=["electrostatics"])
    >>> states = alchemy.States(alchemy.Schedule(electrostatics=[1, 0.5, 0]), state=1, record=10)
    >>> sim = sponge.Simulation(soft, sponge.LangevinMiddle(300, 1.0, 0.001), sampling=[states], seed=1)
    >>> sim.run(100)
    >>> states.energies.shape, states.derivatives["electrostatics"].shape
    ((10, 3), (10,))
    """

    def __init__(self, schedule: Schedule, state: int = 0, record: int | None = None):
        where = type(self).__name__
        check_type(schedule, where)
        if record is not None:
            check.integer(record, f"{where}: record", 1)
        self.name, self.schedule, self.record = "states", schedule, record
        self._state = 0
        self._lambdas: weakref.WeakKeyDictionary[Any, Lambdas] = weakref.WeakKeyDictionary()
        self._log: dict[str, list[Any]] = {name: [] for name in ("steps", "visited", "energies", "derivatives")}
        self._shift = 0
        self.current = state

    @property
    def current(self) -> int:
        """Number of the present state."""
        return self._state

    @current.setter
    def current(self, k: int) -> None:
        check.integer(k, f"{type(self).__name__}: state", 0, len(self.schedule) - 1)
        self._state = int(k)
        for engine, lambdas in self._lambdas.items():
            lambdas.set(self._state)
            engine.flags[FORCES_STALE] = 1

    # -- records -------------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> np.ndarray:
        """Steps of the records, (m,) int."""
        return np.array(self._log["steps"], np.int64)

    @property
    def visited(self) -> np.ndarray:
        """State that each record was sampled in, (m,) int."""
        return np.array(self._log["visited"], np.int64)

    @property
    def energies(self) -> np.ndarray:
        """Energy of each record in all states less that in the state in which it was sampled, (m, k) in kJ/mol.

        Differences are all that BAR and MBAR need.
        """
        return np.array(self._log["energies"], np.float64).reshape(-1, len(self.schedule))

    @property
    def derivatives(self) -> dict[str, np.ndarray]:
        """dU/dlambda of each record in the state in which it was sampled, (m,) in kJ/mol, by the schedule's names."""
        values = np.array(self._log["derivatives"], np.float64).reshape(-1, len(self.schedule.names))
        return dict(zip(self.schedule.names, values.T.copy()))

    def clear(self) -> None:
        """Forget all records, such as those of an equilibration."""
        for values in self._log.values():
            values.clear()

    def _keep(self, number, energies, slopes):
        row = [slopes[name][self._state] for name in self.schedule.names]
        for name, value in (("steps", number), ("visited", self._state), ("energies", energies), ("derivatives", row)):
            self._log[name].append(value)

    # -- what simulations ask of a sampling method ---------------------------------------------------------------------

    def differences(self, engine: Engine) -> np.ndarray:
        """Return the energies of all states less that of the present one, as last evaluated by `engine`."""
        return self._lambdas[engine].in_states()[0]

    def check(self, system, integrator):
        super().check(system, integrator)
        own = alchemical(system, type(self).__name__)
        check_schedule(system, self.schedule.names, type(self).__name__)
        bare = own.bare({name: self.schedule.column(name) for name in own.names})
        if bare.any():
            raise ValueError(
                f"{type(self).__name__}: state {np.argmax(bare)} has charges without Lennard-Jones, and "
                f"opposite charges fall onto each other (schedule electrostatics apart from sterics)"
            )
        if integrator.forces_at is None and self.record is not None:
            raise ValueError(
                f"{type(self).__name__}: to record, the integrator must keep the forces of its steps, as "
                f"LangevinMiddle does, got {type(integrator).__name__}"
            )
        self._shift = int(integrator.forces_at == "new")

    def plan(self, engine: Engine) -> Plan:
        self._lambdas[engine] = Lambdas(engine, self.schedule)
        self._lambdas[engine].set(self._state)
        if self.record is None:
            return Plan()
        return Plan(before=[Phase([Task(mark_due, engine.flags, self._shift, self.record)], name="states")])

    def after_step(self, engine, _integrator):
        if self.record is None:
            return []

        def keep():
            self._keep(int(engine.flags[STEP]) + self._shift, *self._lambdas[engine].in_states())

        return [Phase(call=keep, flag=STATES, name="record of states")]

    def state(self):
        return {
            "state": np.array(self._state),
            "steps": self.steps,
            "visited": self.visited,
            "energies": self.energies,
            "derivatives": np.array(self._log["derivatives"], np.float64),
        }

    def restore(self, state):
        for name in self._log:
            self._log[name] = list(state[name])
        self.current = int(state["state"])


class ExpandedEnsemble(States):
    r"""Walks through the states of a schedule, in one simulation.

    After every step whose number is a multiple of `every`, the walk draws a state, with probabilities

    .. math:: p_k \propto \exp(g_k - U_k(x)/RT)

    of which the weights g_k are to make all states equally probable: then they are the reduced free energies. The
    energies of the draw are those of the present configuration, which cost one more evaluation of the forces; each is a
    record.

    Parameters
    ----------
    schedule : Schedule
    state : int
        Number of the state at first.
    every : int
        Steps between two draws.
    weights : {"sams", "wang_landau"} or (k,) array
        How the weights are learned, or fixed weights. "sams": each draw lowers all weights in proportion to the
        probabilities of the states, with a gain that falls as 1/t [1]_. "wang_landau": each draw lowers the weight of
        its state by an increment [2]_, which is halved when the least visited state has 0.8 of the mean visits. Once
        it is below the number of states over the number of draws it follows that [3]_, and below 0.002 the weights are
        fixed.

    Attributes
    ----------
    weights : (k,) float64
        The present weights, 0 on average.
    fixed : bool
        True if they no longer change.

    References
    ----------
    .. [1] Tan, "Optimally adjusted mixture sampling and locally weighted histogram analysis", J. Comput. Graph. Stat.
       26 (2017) 54. doi:10.1080/10618600.2015.1113975
    .. [2] Wang, Landau, "Efficient, multiple-range random walk algorithm to calculate the density of states", Phys.
       Rev. Lett. 86 (2001) 2050. doi:10.1103/PhysRevLett.86.2050
    .. [3] Belardinelli, Pereyra, "Fast algorithm to calculate density of states", Phys. Rev. E 75 (2007) 046701.
       doi:10.1103/PhysRevE.75.046701

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> soft = alchemy.decouple(system, range(22), annihilate=["electrostatics"])
    >>> walk = alchemy.ExpandedEnsemble(alchemy.Schedule(electrostatics=[1, 0.5, 0]), every=10)
    >>> sim = sponge.Simulation(soft, sponge.LangevinMiddle(300, 1.0, 0.001), sampling=[walk], seed=1)
    >>> sim.run(200)
    >>> len(walk.visited), walk.fixed
    (20, False)
    """

    def __init__(
        self,
        schedule: Schedule,
        state: int = 0,
        *,
        every: int = 100,
        weights: Literal["sams", "wang_landau"] | Any = "sams",
    ):
        super().__init__(schedule, state)
        check.integer(every, "ExpandedEnsemble: every", 1)
        self.every, k = every, len(schedule)
        if isinstance(weights, str) and weights not in ("sams", "wang_landau"):
            raise ValueError(f"ExpandedEnsemble: weights must be 'sams', 'wang_landau' or numbers, got {weights!r}")
        self.learn = weights if isinstance(weights, str) else "no"
        given = np.zeros(k) if isinstance(weights, str) else np.array(weights, np.float64)
        if given.shape != (k,) or not np.isfinite(given).all():
            raise ValueError(f"ExpandedEnsemble: weights must be {k} finite numbers, got {weights!r:.60}")
        self.given = given - given.mean()
        self._reduced = np.zeros(k)
        self._sams = Approximation(self._reduced, 1.0)
        self._sams.betas = self._reduced  # of the draw; the energy that they multiply is 1
        self._sams.log_n[:] = self.given
        self._visits, self._increment = np.zeros(k), np.array([1.0, 0.0])  # and number of draws
        self._thermal = 0.0

    @property
    def weights(self) -> np.ndarray:
        """The present weights, (k,) float64: 0 on average."""
        return self._sams.log_n - self._sams.log_n.mean()

    @property
    def fixed(self) -> bool:
        """Return True if the weights no longer change."""
        return self.learn == "no" or self.learn == "wang_landau" and self._increment[0] == 0.0

    def check(self, system, integrator):
        super().check(system, integrator)
        if getattr(integrator, "temperature", None) is None:
            raise TypeError(
                f"ExpandedEnsemble: integrator must be one with a temperature, such as LangevinMiddle, got "
                f"{type(integrator).__name__}"
            )
        self._thermal = units.GAS_CONSTANT * integrator.temperature

    def after_step(self, engine, _integrator):
        def draw():
            number = int(engine.flags[STEP]) + 1
            engine.flags[STATES] = FORCED
            try:
                engine.compute(energy=False)
            finally:
                engine.flags[STATES] = 0
            energies, slopes = self._lambdas[engine].in_states()
            self._keep(number, energies, slopes)
            self._reduced[:] = energies / self._thermal
            log_p = self._sams.log_n - self._reduced
            p = np.cumsum(np.exp(log_p - log_p.max()))
            key = random.fold_in(random.fold_in(random.key(engine.seed), Fold.EXCHANGES), number)
            self.current = min(
                int(np.searchsorted(p, float(random.uniform(key, ())) * p[-1], side="right")), len(p) - 1
            )
            self._learn()

        return [
            Phase([Task(mark_due, engine.flags, 1, self.every)], name="draws that are due"),
            Phase(call=draw, flag=STATES, name="draw of the state"),
        ]

    def _learn(self):
        if self.learn == "sams":
            self._sams.learn(1.0)
        elif not self.fixed:
            self._sams.log_n[self._state] -= self._increment[0]
            self._visits[self._state] += 1
            self._increment[1] += 1
            slowest = len(self._visits) / self._increment[1]
            if self._increment[0] <= slowest:
                self._increment[0] = slowest if slowest > _LEAST else 0.0
            elif self._visits.min() > _FLAT * self._visits.mean():
                self._visits[:] = 0
                self._increment[0] *= 0.5

    def state(self):
        return {
            **super().state(),
            **{f"sams/{name}": values for name, values in self._sams.state().items()},
            "visits": self._visits.copy(),
            "increment": self._increment.copy(),
        }

    def restore(self, state):
        super().restore(state)
        self._sams.restore({name: state[f"sams/{name}"] for name in self._sams.state()})
        self._visits[:], self._increment[:] = state["visits"], state["increment"]
