"""`Solvation`: the free energy of hydration of a molecule, from its files to the number."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..barostats.monte_carlo import MonteCarloBarostat
from ..build.immerse import immerse
from ..integrators.langevin_middle import LangevinMiddle
from ..load import load
from ..run.arguments import number_of_steps
from ..run.simulation import Simulation
from ..system import System
from .decouple import decouple
from .difference import FreeEnergyDifference, free_energy_difference
from .exchange import LambdaExchange
from .schedule import Schedule

__all__ = ["Solvation"]

# of the vanishing molecule in FreeSolv's protocol (Duarte Ramos Matos et al. 2017): closer where it is nearly gone
_STERICS = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
_NEVER = 2**62  # steps between exchanges of replicas that make none


class Solvation:
    """Free energy of hydration of a molecule, from states in which its interactions with water appear one by one.

    The molecule is decoupled: its own interactions stay in all states, so that the first state is the molecule in
    vacuum, beside the water, and no second leg is needed. States run at constant pressure. The result is the free
    energy of transfer from gas to water at equal concentrations, as in FreeSolv.

    Parameters
    ----------
    *molecule : path-like or System
        Files for `load`, such as a prmtop and its inpcrd, or a `System` without a box.
    lambdas : int or Schedule
        Number of states, of which a third switches the charges, or the states themselves: from the decoupled one to
        the full one.
    water : str
        Model of the water, see `build.immerse`.
    temperature : float, K
    pressure : float, bar
    padding : float, nm
        Least distance of the molecule to the faces of the box.
    cutoff : float, nm
        Cut-off radius of the direct interactions.
    timestep : float, ps
    seed : int

    Attributes
    ----------
    system : System
        The molecule in water, with lambdas.
    schedule : Schedule
    replicas : LambdaExchange or None
        The simulations of the last run.

    Raises
    ------
    ValueError
        If the charges of the molecule do not sum to an integer, or sum to another one than 0.

    References
    ----------
    Mobley, Guthrie, "FreeSolv: a database of experimental and calculated hydration free energies, with input files",
    J. Comput. Aided Mol. Des. 28 (2014) 711. doi:10.1007/s10822-014-9747-x

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> peptide = alchemy.Solvation(*sponge.example_files("alanine-dipeptide"), lambdas=16)
    >>> len(peptide.schedule), peptide.schedule[0]
    (16, {'electrostatics': 0.0, 'sterics': 0.0})
    >>> result = peptide.run(time="1 ns", checkpoint="peptide.chk")  # doctest: +SKIP
    >>> print(result, result.overlap)  # doctest: +SKIP
    """

    def __init__(self, *molecule: Any, lambdas: int | Schedule = 16, water: str = "tip3p", temperature: float = 298.15,
                 pressure: float = 1.01325, padding: float = 1.0, cutoff: float = 0.9, timestep: float = 0.002,
                 seed: int = 0):
        where = "Solvation"
        if len(molecule) == 1 and isinstance(molecule[0], System):
            solute = molecule[0]
        else:
            solute = load(*molecule, method="none", constraints="h-bonds")
        charge = float(solute.nonbonded.params["charges"].sum())
        if abs(charge - round(charge)) > 1e-3:
            raise ValueError(f"{where}: the charges of the molecule must sum to an integer, got {charge:.5f} e")
        if round(charge):
            raise ValueError(f"{where}: the molecule must be neutral, got {charge:+.0f} e (a net charge in a "
                             f"periodic box needs corrections for its size)")
        self.temperature, self.seed = check.positive(temperature, f"{where}: temperature", "K"), int(seed)
        self.schedule = lambdas if isinstance(lambdas, Schedule) else hydration_schedule(lambdas)
        full = immerse(solute, water, padding=padding, seed=seed, cutoff=cutoff)
        self.system = decouple(full, range(solute.n), annihilate=())
        self._bath = LangevinMiddle(temperature=self.temperature, friction=1.0, timestep=timestep)
        self._barostat = MonteCarloBarostat(pressure=pressure)
        self.replicas: LambdaExchange | None = None

    def __repr__(self):
        return f"<Solvation: {self.system.n} atoms, {len(self.schedule)} states at {self.temperature:g} K>"

    def run(self, steps: int | None = None, *, time: str | float | None = None, exchange: bool = True,
            equilibration: str | float = "50 ps", every: int = 500, record: int = 100,
            checkpoint: str | os.PathLike | None = None, progress: bool | None = None,
            report: Any = None) -> FreeEnergyDifference:
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
            File of the state of all simulations. If it exists, the run resumes from it; the same run that was cut off
            ends bit for bit as if it had not been.
        progress, report : optional
            See `Replicas.run`.

        Returns
        -------
        FreeEnergyDifference
            Free energy of the molecule in water less that in vacuum.
        """
        step = self._bath.timestep
        counted = number_of_steps(steps, time, step)
        before = number_of_steps(None, equilibration, step)
        before = -(-before // record) * record
        if checkpoint is None or not os.path.exists(checkpoint):
            relaxed = Simulation(self.system, self._bath, seed=self.seed)
            relaxed.minimize(max_steps=200, progress=False)
            self.system.positions = relaxed.positions
        rex = LambdaExchange(self.system, self.schedule, self._bath, every=every if exchange else _NEVER, record=record,
                             seed=self.seed, barostat=self._barostat)
        self.replicas = rex
        rex.run(before + counted, checkpoint=checkpoint, progress=progress, report=report)
        return self.estimate(before // record)

    def estimate(self, discard: int = 0) -> FreeEnergyDifference:
        """Estimate the free energy from the records of the last run.

        Parameters
        ----------
        discard : int
            The first records of each state, to be left out.
        """
        if self.replicas is None:
            raise ValueError("Solvation.estimate: there must be a run first")
        samples = [u[discard:] for u in self.replicas.samples]
        slopes = [{name: values[discard:] for name, values in state.items()} for state in self.replicas.derivatives]
        return free_energy_difference(samples, self.temperature, schedule=self.schedule, slopes=slopes)


def hydration_schedule(states: int) -> Schedule:
    """Lambdas of so many states from the decoupled molecule to the full one: sterics first, then charges."""
    check.integer(states, "Solvation: lambdas", 4, 256)
    charged = round(states / 3) + 1  # the first of them is the last of the others
    spread = np.linspace(0, len(_STERICS) - 1, states - charged + 1)
    sterics = np.interp(spread, np.arange(len(_STERICS)), _STERICS)
    return Schedule(electrostatics=np.concatenate([np.zeros(len(sterics) - 1), np.linspace(0, 1, charged)]),
                    sterics=np.concatenate([sterics, np.ones(charged - 1)]))
