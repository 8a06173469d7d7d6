"""Small runs of the usual simulations, whose kernels ``triskele warmup`` compiles ahead of time."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import triskele.sponge as sponge

__all__ = ["WORK"]


def _peptide(water: bool = False, **options) -> sponge.System:
    return sponge.load(*sponge.example_files("alanine-dipeptide" + "-water" * water), **options)


def _bath() -> sponge.LangevinMiddle:
    return sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002)


def water() -> None:
    """A peptide in water with PME, minimized and run at constant pressure, with reporters."""
    system = _peptide(True, method="pme", cutoff=0.9, constraints="h-bonds")
    sim = sponge.Simulation(system, _bath(), barostat=sponge.MonteCarloBarostat(pressure=1.0, every=5), seed=1)
    sim.minimize(max_steps=5)
    sim.energies(), system.forces()
    with tempfile.TemporaryDirectory() as folder:
        reporters = [
            sponge.DCD(Path(folder) / "a.dcd", every=10),
            sponge.CSV(Path(folder) / "a.csv", every=10),
            sponge.Checkpoint(Path(folder) / "a.chk", 20),
        ]
        sim.run(20, report=reporters)
    rescaling = sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0)
    sponge.Simulation(system, _bath(), barostat=rescaling, seed=1).run(20)


def integrators() -> None:
    """The usual integrators, in vacuum with constraints."""
    system = _peptide(constraints="h-bonds")
    for integrator in (
        _bath(),
        sponge.VelocityVerlet(0.001),
        sponge.Brownian(300, 1000.0, 1e-4),
        sponge.NoseHoover(300, 1.0, 0.001),
        sponge.Bussi(300, 1.0, 0.001),
    ):
        sponge.Simulation(system, integrator, seed=1).run(10)


def cutoffs() -> None:
    """Water with a reaction field, and neutral particles of Lennard-Jones."""
    system = _peptide(True, method="reaction_field", cutoff=0.9, constraints="h-bonds")
    sponge.Simulation(system, _bath(), seed=1).run(10)


def implicit_solvent() -> None:
    """Generalized Born."""
    system = _peptide(implicit_solvent="obc2", constraints="h-bonds")
    sponge.Simulation(system, _bath(), seed=1).run(10)


def tempering() -> None:
    """SITS and metadynamics of the torsions."""
    cv = sponge.cv
    phi, psi = cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)
    system = _peptide(constraints="h-bonds")
    sits = sponge.SITS(solute=None, temperatures=sponge.units.ladder(280, 600, 8))
    sponge.Simulation(system, _bath(), sampling=[sits], seed=1).run(100)
    bias = sponge.Metadynamics([phi, psi], sigma=0.35, height=1.2, every=10, bias_factor=8)
    sponge.Simulation(system, _bath(), sampling=[bias], seed=1).run(50)


def derivatives() -> None:
    """Slopes of the energy by the parameters."""
    from triskele import core

    system = _peptide()
    energy = system.energy_function()
    core.grad(energy)(system.params(), system.positions, system.box)
    np.asarray(system.forces())


WORK = (water, tempering, cutoffs, integrators, derivatives, implicit_solvent)
