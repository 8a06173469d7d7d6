"""`ReplicaExchange`: simulations at several temperatures, or with several Hamiltonians, that exchange
configurations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from triskele.core import random
from triskele.core.extend import check
from triskele.core.random import Fold

from .. import box as boxes
from .. import units
from ..analysis.mbar import Mbar, mbar
from ..integrators.integrator import Integrator
from ..run.checkpoint_file import nested
from ..run.sampling_method import Sampling
from ..run.simulation import Simulation
from ..system import System
from ..topology import check_indices
from .replicas import Replicas, replica_seed
from .reweighting import as_ladder

__all__ = ["ReplicaExchange"]


class ReplicaExchange(Replicas):
    r"""Replicas in states of different temperature [1]_ or Hamiltonian [2]_, whose neighbors exchange
    configurations.

    State k is a simulation with its own system, temperature and pressure, and with the reduced potential
    u_k(x) = (U_k(x) + P_k V(x)) / RT_k. Every `every` steps the configurations of states 0 and 1, 2 and 3, ..., and the
    next time those of 1 and 2, 3 and 4, ..., change places with probability

    .. math:: \min\left(1, \exp[u_i(x_i) + u_j(x_j) - u_i(x_j) - u_j(x_i)]\right)

    Positions, box and velocities (times the root of the ratio of temperatures) move; integrator, thermostat and
    barostat stay. So ``rex[k]``, and what it reports, is always state k, and `demux` puts together the path of a
    configuration, the *walker*, through the states.

    Parameters
    ----------
    system : System or sequence of System
        One for all, or one for each state (for example from `rest2`), which differ in their parameters only.
    integrator : Integrator
        One with a temperature.
    temperatures : (n,) array, K, optional
        Neighbors side by side, such as ``units.ladder(300, 600, 8)``. The integrator's when left out.
    every : int
        Steps between attempts to exchange.
    seed : int
    barostat : Barostat, optional
        The barostat of all states.
    sampling : callable, optional
        ``sampling(k)`` returns the sampling methods of state k; biases count in exchanges.
    precision : {"mixed", "double"}
    comm : mpi4py communicator, optional
        See `Replicas`.

    Attributes
    ----------
    temperatures : (n,) float, K
        Temperatures of the states.
    attempted, accepted : (n - 1,) int arrays
        Exchanges of states k and k + 1.

    References
    ----------
    .. [1] Sugita, Okamoto, "Replica-exchange molecular dynamics method for protein folding", Chem. Phys. Lett. 314
       (1999) 141. doi:10.1016/S0009-2614(99)01123-9
    .. [2] Fukunishi, Watanabe, Takada, "On the Hamiltonian replica exchange method for efficient sampling of
       biomolecular systems", J. Chem. Phys. 116 (2002) 9058. doi:10.1063/1.1472510

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    >>> bond = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    >>> integrator = sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.001)
    >>> rex = sponge.ReplicaExchange(system, integrator, sponge.units.ladder(300, 600, 3), every=50, seed=1)
    >>> rex.run(200)
    >>> rex.energies.shape, rex.attempted
    ((4, 3), array([2, 2]))
    """

    def __init__(
        self,
        system: System | Sequence[System],
        integrator: Integrator,
        temperatures: Any = None,
        *,
        every: int = 1000,
        seed: int = 0,
        barostat: Any = None,
        sampling: Callable[[int], Sequence[Sampling]] | None = None,
        precision: Literal["mixed", "double"] = "mixed",
        comm: Any = None,
    ):
        systems, integrators = _states(system, integrator, temperatures)
        self.temperatures = np.array([i.temperature for i in integrators])
        self.temperatures.flags.writeable = False  # integrators have them too
        self.seed = check.integer(seed, "ReplicaExchange: seed", 0)
        self._key = random.fold_in(random.key(self.seed), Fold.EXCHANGES)
        self._cross = any(s is not systems[0] for s in systems) or sampling is not None
        self._pressure = _pressure(barostat)  # kJ/mol/nm^3
        n = len(systems)
        self.attempted, self.accepted = np.zeros(n - 1, np.int64), np.zeros(n - 1, np.int64)
        self._order = np.arange(n)  # the walker in each state
        self._log: dict[str, list[np.ndarray]] = {
            name: [] for name in ("steps", "energies", "volumes", "walkers", "cross")
        }

        def make(k):
            return Simulation(
                systems[k],
                integrators[k],
                seed=replica_seed(self.seed, k),
                barostat=barostat,
                precision=precision,
                sampling=sampling(k) if sampling is not None else (),
            )

        super().__init__(make, n, every=every, comm=comm)

    # -- what has been recorded ----------------------------------------------------------------------------------------

    @property
    def steps(self) -> np.ndarray:
        """Steps of the attempts, int [m]; reports of these steps show the states before the exchange."""
        return np.array(self._log["steps"], np.int64)

    @property
    def energies(self) -> np.ndarray:
        """Potential energy (kJ/mol) of the configuration in each state, just before each attempt, [m, n]."""
        return np.array(self._log["energies"]).reshape(-1, self.n)

    @property
    def volumes(self) -> np.ndarray:
        """Volumes (nm^3) at the same moments, [m, n]; 0 without a box."""
        return np.array(self._log["volumes"]).reshape(-1, self.n)

    @property
    def cross_energies(self) -> np.ndarray:
        """Energy of state k at the configuration that was offered to it, [m, n]; NaN where none was, or there is one
        Hamiltonian.
        """
        return np.array(self._log["cross"]).reshape(-1, self.n)

    @property
    def walkers(self) -> np.ndarray:
        """Number of the walker in each state, just before each attempt, int [m, n]."""
        return np.array(self._log["walkers"], np.int64).reshape(-1, self.n)

    @property
    def acceptance(self) -> np.ndarray:
        """Fraction of the attempts to exchange k and k + 1 that were accepted, [n - 1]; NaN where none was made."""
        return np.divide(self.accepted, self.attempted, out=np.full(self.n - 1, np.nan), where=self.attempted > 0)

    @property
    def round_trips(self) -> np.ndarray:
        """Number of round trips of each walker from the first state to the last and back, (n,) int."""
        trips = np.zeros(self.n, np.int64)
        walkers = np.concatenate([self.walkers, self._order[None]])
        for w in range(self.n):
            ends = [x for x in np.nonzero(walkers == w)[1] if x in (0, self.n - 1)]
            began = ends.index(0) if 0 in ends else len(ends)
            turns = np.count_nonzero(np.diff(ends[began:]))
            trips[w] = turns // 2
        return trips

    def demux(self, frames: Any, steps: Any) -> np.ndarray:
        """Sort what was recorded by state into what each walker went through.

        Parameters
        ----------
        frames : (n, m, ...) array
            One value per frame for each state: positions, angles, energies, ...
        steps : (m,) int
            Steps at which they were recorded, in reports of these steps (or ``rex.steps``).

        Returns
        -------
        (n, m, ...) array
            Frames of each walker.
        """
        frames, steps = np.asarray(frames), np.asarray(steps)
        if frames.ndim < 2 or frames.shape[0] != self.n or frames.shape[1:2] != steps.shape:
            raise ValueError(f"demux: frames must have shape [{self.n}, {steps.size}, ...], got {frames.shape}")
        check_indices(steps, self.step + 1, "demux: steps")
        walkers = np.concatenate([self.walkers, self._order[None]])
        at = walkers[np.searchsorted(self.steps, steps)]  # [m, n]
        return frames[np.argsort(at, axis=1).T, np.arange(len(steps))]

    def mbar(self, discard: int = 0) -> Mbar:
        """Return all recorded configurations with their weights in every state, see `analysis.mbar`.

        An observable is given for the configurations in the states before the attempts, ``result.mean(phi[:,
        discard:])`` with phi [n, m]; another temperature T by the reduced potential ``rex.energies.T[:, discard:] /
        (units.GAS_CONSTANT * T)``.

        Parameters
        ----------
        discard : int
            The first attempts, to be left out.

        Raises
        ------
        ValueError
            If there are too few attempts, or states differ by more than their temperature: then the energy of each in
            all configurations has to be computed, and given to `analysis.mbar`.
        """
        if self._cross:
            raise ValueError(
                "ReplicaExchange.mbar: states must differ by their temperature only (give analysis.mbar "
                "the energies of all states in all configurations)"
            )
        h = (self.energies + self._pressure * self.volumes).T[:, discard:]
        return mbar(h / (units.GAS_CONSTANT * self.temperatures[:, None, None]))

    # -- exchanges -----------------------------------------------------------------------------------------------------

    def _prepare(self, k):
        super()._prepare(k)
        _ = self._simulations[k]._observer

    def _news(self, k, sim):
        box = sim.box
        return _potential(sim, sim._engine.positions, box), 0.0 if box is None else float(boxes.volume(box))

    def _meet(self, news):
        number = self._step // self.every
        energies, volumes = np.array([values[:2] for values in news]).T
        pairs = [(i, i + 1) for i in range((number + 1) % 2, self.n - 1, 2)]
        own = {k: self._pack(k) for pair in pairs for k in pair if k in self.own}
        there, cross = self._offer(pairs, own, news)
        beta = 1 / (units.GAS_CONSTANT * self.temperatures)
        draws = np.asarray(random.uniform(random.fold_in(self._key, number), (self.n,)))
        swapped = []
        for i, j in pairs:
            offered_i, offered_j = (cross[i], cross[j]) if self._cross else (energies[j], energies[i])
            cost = beta[i] * (offered_i - energies[i]) + beta[j] * (offered_j - energies[j])
            cost += (beta[i] - beta[j]) * self._pressure * (volumes[j] - volumes[i])
            self.attempted[i] += 1
            if draws[i] < np.exp(min(0.0, -cost)):  # never when an energy is NaN
                self.accepted[i] += 1
                swapped.append((i, j))
        if there is None:
            there = self._ranks.swap(swapped, {k: own[k] for pair in swapped for k in pair if k in self.own})
        self._record(energies, volumes, cross)
        for pair in swapped:
            for k, other in (pair, pair[::-1]):
                if k in self.own:
                    self._move_in(k, other, there[k])
            i, j = pair
            self._order[[i, j]] = self._order[[j, i]]

    def _offer(self, pairs, own, _news):
        """Return the offered configurations if they were sent, else None, and the energy of each state at its offer."""
        cross = np.full(self.n, np.nan)
        if not self._cross:
            return None, cross
        there = self._ranks.swap(pairs, own)
        with self._workers() as workers:
            cross[:] = self._all(lambda k: self._at(k, there[k]) if k in there else np.nan, workers)
        return there, cross

    def _record(self, energies, volumes, cross):
        for name, value in (
            ("steps", self._step),
            ("energies", energies),
            ("volumes", volumes),
            ("cross", cross),
            ("walkers", self._order.copy()),
        ):
            self._log[name].append(value)

    def _pack(self, k):
        engine = self._simulations[k]._engine
        return np.concatenate([engine.positions, engine.velocities, engine.box])

    def _at(self, k, configuration):
        """Energy of state `k` at a configuration."""
        sim = self._simulations[k]
        return _potential(sim, configuration[: sim.system.n], configuration[-3:] if sim._engine.periodic else None)

    def _move_in(self, k, other, configuration):
        sim = self._simulations[k]
        n, engine = sim.system.n, sim._engine
        sim.positions = configuration[:n]
        scale = np.sqrt(self.temperatures[k] / self.temperatures[other])
        sim.velocities = configuration[n : 2 * n] * scale
        if engine.periodic and not np.array_equal(engine.box, configuration[-3:]):
            sim.box = configuration[-3:]

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def _options(self):
        return {**super()._options(), "seed": self.seed, "temperatures": self.temperatures.tolist()}

    def _arrays(self):
        return {
            "attempted": self.attempted,
            "accepted": self.accepted,
            "order": self._order,
            **nested("log/", {name: np.array(values) for name, values in self._log.items()}),
        }

    def _take(self, arrays):
        for name, kept in (("attempted", self.attempted), ("accepted", self.accepted), ("order", self._order)):
            kept[:] = arrays[name]
        self._log = {name: list(arrays[f"log/{name}"]) for name in self._log}


def _potential(sim: Simulation, positions: np.ndarray, box: np.ndarray | None) -> float:
    observer = sim._observer
    observer.compute(positions, box)
    return sum(observer.energies().values())


def _states(system, integrator, temperatures):
    where = "ReplicaExchange"
    if not isinstance(integrator, Integrator) or getattr(integrator, "temperature", None) is None:
        raise TypeError(
            f"{where}: integrator must be one with a temperature, such as LangevinMiddle, got "
            f"{type(integrator).__name__}"
        )
    systems = None if isinstance(system, System) else list(system)
    if systems is not None and not all(isinstance(s, System) for s in systems):
        raise TypeError(f"{where}: system must be a System, or one for each state")
    if temperatures is None:
        if systems is None:
            raise ValueError(f"{where}: states must differ: give temperatures, or a system for each state")
        temperatures = np.full(len(systems), integrator.temperature)
    temperatures = as_ladder(where, temperatures)
    if systems is not None and len(systems) != len(temperatures):
        raise ValueError(
            f"{where}: there must be one system for each temperature, got {len(systems)} and {len(temperatures)}"
        )
    if len(temperatures) < 2:
        raise ValueError(f"{where}: there must be at least 2 states, got {len(temperatures)}")
    systems = [system] * len(temperatures) if systems is None else systems
    first = systems[0]
    for k, other in enumerate(systems):
        same = (
            other.n == first.n
            and np.array_equal(other.masses, first.masses)
            and (other.box is None) == (first.box is None)
            and np.array_equal(other.constraints.pairs, first.constraints.pairs)
            and np.array_equal(other.constraints.distances, first.constraints.distances)
        )
        if not same:
            raise ValueError(
                f"{where}: all states must have the same atoms, masses, constraints and periodicity, but "
                f"system {k} differs from the first"
            )
    copies = [
        dataclasses.replace(integrator, temperature=float(t))  # type: ignore[type-var]  # all are dataclasses
        for t in temperatures
    ]
    return systems, copies


def _pressure(barostat):
    if barostat is None:
        return 0.0
    values = np.unique(np.asarray(barostat.pressure, np.float64))
    if barostat.temperature is not None:
        raise ValueError(
            f"ReplicaExchange: the barostat takes each state's temperature from its integrator; its own "
            f"must be left out, got {barostat.temperature}"
        )
    if len(values) > 1:
        raise ValueError(f"ReplicaExchange: the pressure must be the same along all axes, got {barostat.pressure}")
    return float(values[0]) / units.BAR_PER_PRESSURE
