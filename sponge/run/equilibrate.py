"""Equilibration: minimize, heat with restrained solutes, release the restraints."""

from __future__ import annotations

import copy
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..potentials.restraints import PositionRestraint
from ..selection import chosen_atoms
from ..topology import Topology
from .changes import ramp

if TYPE_CHECKING:
    from .simulation import Simulation

__all__ = ["equilibrate"]

_NAME = "equilibration"  # of the restraint


def equilibrate(
    sim: Simulation, restrain: Any, k: float, start: float, heat: Any, release: Any, checkpoint: Any, **output: Any
) -> None:
    """See `Simulation.equilibrate`; `output` are report and progress of the runs."""
    bath: Any = sim.integrator
    begin: dict[str, Any]
    state, target = sim.state(), getattr(bath, "temperature", None)
    if target is None:
        raise ValueError(f"equilibrate: needs an integrator with a temperature, got {type(bath).__name__}")
    system = copy.copy(sim.system)
    system.potentials, system.box = list(system.potentials), state.box
    atoms = solute_atoms(system.topology) if restrain is None else chosen_atoms("equilibrate", sim.system, restrain)
    held = system.add(PositionRestraint(atoms, k, state.positions[atoms], name=_NAME))
    bath, begin = replace(bath, temperature=start), {"positions": state.positions}
    for name, time, barostat, change in (
        ("heat", heat, None, {"temperature": ramp(start, target)}),
        ("release", release, sim.barostat, {f"{held.name}/k": ramp(k, 0.0)}),
    ):
        part = type(sim)(system, bath, seed=sim.seed, barostat=barostat, precision=sim.precision, **begin)
        path = None if checkpoint is None else f"{os.fspath(checkpoint)}.{name}"
        if name == "heat" and not (path and os.path.exists(path)):
            part.minimize(progress=output["progress"])
        part.run(time=time, change=change, checkpoint=path, **output)
        state = part.state()
        bath, begin = sim.integrator, {"state": state}
    if state.box is not None:
        sim.box = state.box
    sim.positions, sim.velocities = state.positions, state.velocities


def solute_atoms(topology: Topology) -> np.ndarray:
    """Heavy atoms of molecules that have two or more of them, (m,) int: neither those of water nor of single ions."""
    heavy = topology.elements > 1
    of = topology.molecules
    return np.flatnonzero(heavy & (np.bincount(of, heavy)[of] > 1))
