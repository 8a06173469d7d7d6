"""`Legs`: systems that are each sampled in all states of a schedule; the base class of workflows."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np

from triskele.core.extend import check

from ..analysis.mbar import LEAST_SAMPLES
from ..barostats.monte_carlo import MonteCarloBarostat
from ..integrators.langevin_middle import LangevinMiddle
from ..load import load
from ..run.arguments import number_of_steps
from ..run.simulation import Simulation
from ..system import System
from .decouple import check_schedule, set_lambdas
from .difference import Convergence, FreeEnergyDifference, convergence, free_energy_difference
from .exchange import LambdaExchange
from .schedule import Schedule

__all__ = ["Legs", "solute"]

_NEVER = 2**62  # steps between exchanges of replicas that make none
_LEAST = 20  # samples of a part in tests of convergence
Result = TypeVar("Result")


def solute(given: Any, where: str) -> System:
    """Return a molecule in vacuum, from a `System` or from files; raise ValueError if it is in a box.

    The box of files with a single molecule is dropped.
    """
    system = (
        given
        if isinstance(given, System)
        else load(*((given,) if isinstance(given, (str, os.PathLike)) else given), method="none", constraints="h-bonds")
    )
    if system is not given and len(np.unique(system.topology.molecules)) == 1:  # a .gro file always has a box
        system.box = None
    if system.box is not None:
        raise ValueError(
            f"{where}: a molecule must have no box, got {system.n} atoms in a box (give the files of the "
            "molecule alone, or call nonbonded.update(method='none') and set its box to None)"
        )
    return system


class Legs(ABC, Generic[Result]):
    """Systems with lambdas, by the names of their environments; each is sampled in all states of one schedule.

    Parameters
    ----------
    systems : dict of str to System
        Those with a box run at constant pressure.
    schedule : Schedule
    needed : iterable of str
        Lambdas that the energies depend on.
    softly : iterable of dict of str to float
        Lambdas at which the energy is minimized before the run, one after the other.
    temperature : float, K
    pressure : float, bar
    timestep : float, ps
    seed : int

    Attributes
    ----------
    systems, schedule, temperature, seed
        As given.
    replicas : dict of str to LambdaExchange
        The simulations of the last run.

    Raises
    ------
    ValueError
        If the schedule has a lambda that the systems do not have, or does not take each needed one from 0 to 1.
    """

    def __init__(
        self,
        systems: dict[str, System],
        schedule: Schedule,
        needed: Iterable[str],
        softly: Iterable[dict[str, float]],
        *,
        temperature: float,
        pressure: float,
        timestep: float,
        seed: int,
    ):
        where = f"{type(self).__name__}: lambdas"
        for system in systems.values():
            check_schedule(system, schedule.names, where)
        for name in needed:
            first, last = schedule.column(name)[[0, -1]]
            if (first, last) != (0, 1):
                how = f"{first:g} to {last:g}" if name in schedule.names else "none, which counts as 1 in all states"
                raise ValueError(f"{where} must take {name} from 0 in the first state to 1 in the last, got {how}")
        self.temperature = check.positive(temperature, f"{type(self).__name__}: temperature", "K")
        self.systems, self.schedule, self.seed, self._softly = systems, schedule, int(seed), tuple(softly)
        self._bath = LangevinMiddle(temperature=self.temperature, friction=1.0, timestep=timestep)
        self._barostat = MonteCarloBarostat(pressure=pressure, every=50)  # in small boxes attempts cost some ten steps
        self.replicas: dict[str, LambdaExchange] = {}

    def __repr__(self):
        legs = ", ".join(f"{name} ({system.n} atoms)" for name, system in self.systems.items())
        return f"<{type(self).__name__}: {legs}, {len(self.schedule)} states at {self.temperature:g} K>"

    def run(
        self,
        steps: int | None = None,
        *,
        time: str | float | None = None,
        exchange: bool = True,
        equilibration: str | float = "50 ps",
        every: int = 500,
        record: int = 100,
        checkpoint: str | os.PathLike | None = None,
        progress: bool | None = None,
        report: Any = None,
    ) -> Result:
        """Sample all states and estimate the free energy.

        Parameters
        ----------
        steps : int, optional
            Steps of every state that count.
        time : str or float, optional
            Time of every state that counts, in place of steps: "1 ns", or a number of ps.
        exchange : bool
            Let neighboring states exchange configurations.
        equilibration : str or float
            Time that each state runs before its records count; it includes the relaxation of the box.
        every, record : int
            Steps between attempts to exchange, and between records.
        checkpoint : path-like, optional
            File of the state of all simulations; with several legs, the name of each follows that of the file. If it
            exists, the run resumes from it; the same run that was cut off ends bit for bit as if it had not been.
        progress, report : optional
            See `Replicas.run`.

        Returns
        -------
        FreeEnergyDifference or RelativeFreeEnergy

        Raises
        ------
        ValueError
            If the run is too short for an estimate, before it begins.
        """
        where, step = f"{type(self).__name__}.run", self._bath.timestep
        every, record = (check.integer(n, f"{where}: {name}", 1) for name, n in (("every", every), ("record", record)))
        counted = number_of_steps(steps, time, step)
        before = -(-number_of_steps(None, equilibration, step) // record) * record
        if counted // record < LEAST_SAMPLES:
            raise ValueError(
                f"{where}: {counted} steps of each state, recorded every {record}, give "
                f"{counted // record} samples, and an estimate needs at least {LEAST_SAMPLES} (a longer "
                f"run, or a smaller record)"
            )
        for name, system in self.systems.items():
            path = None if checkpoint is None else Path(checkpoint)
            if path is not None and len(self.systems) > 1:
                path = path.with_name(f"{path.stem}-{name}{path.suffix}")
            for lambdas in self._softly:
                set_lambdas(system, **lambdas)
                if path is None or not path.exists():
                    relaxed = Simulation(system, self._bath, seed=self.seed)
                    relaxed.minimize(max_steps=200, progress=False)
                    system.positions = relaxed.positions
            rex = LambdaExchange(
                system,
                self.schedule,
                self._bath,
                every=every if exchange else _NEVER,
                record=record,
                seed=self.seed,
                barostat=None if system.box is None else self._barostat,
            )
            self.replicas[name] = rex
            rex.run(before + counted, checkpoint=path, progress=progress, report=report)
        return self.estimate(before // record)

    @abstractmethod
    def estimate(self, discard: int = 0) -> Result:
        """Estimate the free energy from the records of the last run.

        Parameters
        ----------
        discard : int
            The first records of each state, to be left out.
        """

    def _differences(self, discard: int) -> dict[str, FreeEnergyDifference]:
        """Free energy of the last state less that of the first, of each leg."""
        if self.replicas.keys() != self.systems.keys():
            raise ValueError(f"{type(self).__name__}.estimate: there must be a run first")
        found = {}
        for name, rex in self.replicas.items():
            slopes = [{key: values[discard:] for key, values in state.items()} for state in rex.derivatives]
            found[name] = free_energy_difference(
                [u[discard:] for u in rex.samples], self.temperature, schedule=self.schedule, slopes=slopes
            )
        return found

    def _mean_box(self, name: str) -> np.ndarray:
        """Mean of the boxes in which the simulations of a leg have ended."""
        return np.mean(self.replicas[name].each(lambda sim: sim.box), axis=0)

    def _convergence(self, discard: int) -> dict[str, Convergence]:
        """Free energies of parts of the samples of each leg; none of legs with too few samples."""
        found = {}
        for name, rex in self.replicas.items():
            samples = [u[discard:] for u in rex.samples]
            parts = min(10, min(len(u) for u in samples) // _LEAST)
            if parts > 1:
                found[name] = convergence(samples, self.temperature, fractions=parts)
        return found
