"""`LambdaExchange`: simulations in all states of a schedule, which exchange configurations."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ..integrators.integrator import Integrator
from ..sampling.replica_exchange import ReplicaExchange
from ..system import System
from .kernels import FORCED, STATES
from .schedule import Schedule, check_type
from .states import States

__all__ = ["LambdaExchange"]


class LambdaExchange(ReplicaExchange):
    """Replicas in all states of a schedule, whose neighbors exchange configurations.

    State k is a simulation with the lambdas ``schedule[k]``. Everything else is as in `ReplicaExchange`; the energies
    that decide about exchanges come from one evaluation per replica.

    Parameters
    ----------
    system : System
        Made by `decouple` or `hybrid`.
    schedule : Schedule
    integrator : Integrator
        One with a temperature.
    every : int
        Steps between attempts to exchange.
    record : int
        Steps between records of the energies in all states.
    seed : int
    barostat : Barostat, optional
        The barostat of all states.
    precision : {"mixed", "double"}
    comm : mpi4py communicator, optional
        See `Replicas`.

    Attributes
    ----------
    schedule : Schedule
    attempted, accepted : (n - 1,) int arrays
        Exchanges of states k and k + 1.

    References
    ----------
    Fukunishi, Watanabe, Takada, "On the Hamiltonian replica exchange method for efficient sampling of biomolecular
    systems", J. Chem. Phys. 116 (2002) 9058. doi:10.1063/1.1472510

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> soft = alchemy.decouple(system, range(22), annihilate=["electrostatics"])
    >>> schedule = alchemy.Schedule(electrostatics=[1, 0.5, 0])
    >>> rex = alchemy.LambdaExchange(soft, schedule, sponge.LangevinMiddle(300, 1.0, 0.001), every=50, record=10)
    >>> rex.run(200)
    >>> rex.samples[0].shape, rex.attempted
    ((20, 3), array([2, 2]))
    """

    def __init__(
        self,
        system: System,
        schedule: Schedule,
        integrator: Integrator,
        *,
        every: int = 500,
        record: int = 100,
        seed: int = 0,
        barostat: Any = None,
        precision: Literal["mixed", "double"] = "mixed",
        comm: Any = None,
    ):
        check_type(schedule, "LambdaExchange")
        if not isinstance(system, System):
            raise TypeError(f"LambdaExchange: system must be a System, got {type(system).__name__}")
        self.schedule, self.record = schedule, record
        super().__init__(
            [system] * len(schedule),
            integrator,
            every=every,
            seed=seed,
            barostat=barostat,
            sampling=lambda k: [States(schedule, k, record)],
            precision=precision,
            comm=comm,
        )

    def _gathered(self, of):
        return self._all(lambda k: of(self._simulations[k].sampling[0]))

    @property
    def samples(self) -> list[np.ndarray]:
        """Energies of the records of each state: in all states less that in its own, (m, k) in kJ/mol."""
        return self._gathered(lambda states: states.energies)

    @property
    def derivatives(self) -> list[dict[str, np.ndarray]]:
        """dU/dlambda of the records of each state, (m,) in kJ/mol, by the schedule's names."""
        return self._gathered(lambda states: states.derivatives)

    def clear(self) -> None:
        """Forget the records of all states, such as those of an equilibration."""
        self._gathered(lambda states: states.clear())

    def _news(self, k, sim):
        observer = sim._observer
        observer.flags[STATES] = FORCED
        own = super()._news(k, sim)  # computes the energy, and those of all states with it
        observer.flags[STATES] = 0
        return (*own, *sim.sampling[0].differences(observer))

    def _offer(self, pairs, _own, news):
        energies, differences = np.array([values[0] for values in news]), [np.array(values[2:]) for values in news]
        cross = np.full(self.n, np.nan)
        for i, j in pairs:
            cross[i], cross[j] = energies[j] + differences[j][i], energies[i] + differences[i][j]
        return None, cross

    def _options(self):
        return {
            **super()._options(),
            "lambdas": self.schedule.lambdas.tolist(),
            "names": list(self.schedule.names),
            "record": self.record,
        }
