"""Options of the three methods by which `sponge.fit` computes averages and gradients, and the runs they start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from triskele.core.extend import check

from ..run.simulation import Simulation

__all__ = ["Reweighting", "Samples", "Trajectories", "sample"]


@dataclass(frozen=True)
class Reweighting:
    """Averages over frames of ordinary runs, carried to other parameters by reweighting; see `Ensemble`.

    A new run is made whenever the effective number of frames would fall below the fraction `least`; earlier frames are
    kept, by MBAR, as long as they overlap.

    Parameters
    ----------
    integrator : Integrator
        Must have a temperature.
    steps : int
        Number of steps of each run, after equilibration.
    every : int
        Steps between frames: some relaxation times of the slowest target.
    equilibrate : int
        Steps at the beginning of each run that are not used.
    barostat : Barostat, optional
        Keeps the pressure constant.
    least : float
    seed : int

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import fitting
    >>> by = fitting.Reweighting(sponge.LangevinMiddle(120, 2.0, 0.01), steps=20_000, every=100)
    >>> by.least
    0.1
    """

    integrator: Any
    steps: int
    every: int
    equilibrate: int = 0
    barostat: Any = None
    least: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class Trajectories:
    """Averages along short trajectories that are differentiated; see `trajectory`.

    The starting points come from ordinary runs at the parameters of the round. Constant volume, no constraints, small
    systems.

    Parameters
    ----------
    integrator : LangevinMiddle
    steps : int
        Number of steps of each trajectory.
    every : int
        Steps between records.
    relax : int
        Steps at the beginning that are not averaged over, in which what is observed follows the parameters.
    replicas : int
        Trajectories, each from its own start and with its own noise.
    equilibrate : int
        Steps of ordinary dynamics before the first starting point, and between any two.
    method : {"reversible", "checkpoint"}
    seed : int

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import fitting
    >>> by = fitting.Trajectories(sponge.LangevinMiddle(300, 1.0, 0.001), steps=200, every=10, relax=100)
    >>> by.replicas
    8
    """

    integrator: Any
    steps: int
    every: int
    relax: int
    replicas: int = 8
    equilibrate: int = 1000
    method: Literal["reversible", "checkpoint"] = "reversible"
    seed: int = 0


class Samples(NamedTuple):
    """Frames of a run: positions and velocities [frames, n, 3], boxes [frames, 3, 3] or None."""

    positions: np.ndarray
    velocities: np.ndarray
    boxes: np.ndarray | None


def sample(
    system: Any, integrator: Any, steps: int, every: int, equilibrate: int = 0, barostat: Any = None, seed: int = 0
) -> Samples:
    """Run `system` from its positions, and keep a frame every `every` steps.

    Parameters
    ----------
    system : System
    integrator : Integrator
    steps, every, equilibrate : int
    barostat : Barostat, optional
    seed : int

    Raises
    ------
    ValueError
        If not a single frame would be kept.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> from triskele.sponge import fitting
    >>> samples = fitting.sample(system, sponge.LangevinMiddle(300, 1.0, 0.002), steps=100, every=50, seed=1)
    >>> len(samples.positions)
    2
    """
    check.integer(every, "sample: steps between frames", 1, steps)
    sim = Simulation(system, integrator, barostat=barostat, seed=seed)
    sim.run(equilibrate)
    states = []
    for _ in range(steps // every):
        sim.run(every)
        states.append(sim.state())
    boxes = None if sim.box is None else np.array([s.box for s in states])
    return Samples(np.array([s.positions for s in states]), np.array([s.velocities for s in states]), boxes)
