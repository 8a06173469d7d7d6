"""What marked atoms cost: `python -m tests.benchmarks sponge alchemy [--threads 1]`.

Alanine dipeptide (22 atoms, all marked) in 749 waters, PME at 0.9 nm, constraints and 2 fs: plain, with marked atoms,
with the energies in 16 states recorded every 100 steps, and walking through these states. All simulations take turns in
one process, and each counts by its fastest slice. Where openmmtools can be imported, its factory's system takes turns
too, on OpenMM's CPU platform, with the energies in 16 states every 100 steps. Where GROMACS is there, its plain step
and its step with the same 16 states take turns in processes of their own, by mdrun's timing.
"""

import argparse
import importlib.util
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from tests.benchmarks.sponge.systems import Bench
from tests.benchmarks.sponge.tools import gromacs

ROUNDS, STEPS, STATES = 8, 500, 16
CHARGES = [*np.linspace(1, 0, 6), *[0.0] * 10]
STERICS = [*[1.0] * 6, *np.linspace(0.9, 0, 10)]
GROMACS_STEPS = 3000
FREE_ENERGY = {
    "free-energy": "yes",
    "couple-moltype": "SOLUTE",
    "couple-lambda0": "vdw-q",
    "couple-lambda1": "none",
    "couple-intramol": "no",
    "sc-alpha": 0.5,
    "sc-power": 1,
    "coul-lambdas": " ".join(f"{1 - x:.3f}" for x in CHARGES),
    "vdw-lambdas": " ".join(f"{1 - x:.3f}" for x in STERICS),
    "init-lambda-state": 8,
    "calc-lambda-neighbors": -1,
    "nstdhdl": 100,
}


def simulations(threads):
    """Functions that make a number of steps, by what the table calls them."""
    from triskele import core, sponge
    from triskele.sponge import alchemy

    core.set_threads(threads)
    system = sponge.load(
        *sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9, constraints="h-bonds"
    )
    schedule = alchemy.Schedule(CHARGES, STERICS)
    beutler = alchemy.decouple(system, range(22))
    gapsys = alchemy.decouple(system, range(22), soft_core=alchemy.Gapsys())
    made = {
        "plain": (system, []),
        "marked atoms": (beutler, []),
        "16 states recorded, Beutler": (beutler, [alchemy.States(schedule, 8, record=100)]),
        "16 states recorded, Gapsys": (gapsys, [alchemy.States(schedule, 8, record=100)]),
        "expanded ensemble": (beutler, [alchemy.ExpandedEnsemble(schedule, 8, every=100)]),
    }
    found = {}
    for name, (of, sampling) in made.items():
        sim = sponge.Simulation(of, sponge.LangevinMiddle(300, 1.0, 0.002), sampling=sampling, seed=1)
        found[name] = sim.run
    if importlib.util.find_spec("openmmtools"):
        found["openmmtools, OpenMM CPU"] = _openmmtools(system, threads)
    return found


def _openmmtools(system, threads):
    import openmm
    from openmmtools.alchemy import AbsoluteAlchemicalFactory, AlchemicalRegion

    soft = AbsoluteAlchemicalFactory().create_alchemical_system(
        system.to_openmm(), AlchemicalRegion(alchemical_atoms=range(22))
    )
    platform = openmm.Platform.getPlatformByName("CPU")
    integrator = openmm.LangevinMiddleIntegrator(300, 1.0, 0.002)
    context = openmm.Context(soft, integrator, platform, {"Threads": str(threads)})
    context.setPositions(system.positions)

    def go(k):
        context.setParameter("lambda_electrostatics", CHARGES[k])
        context.setParameter("lambda_sterics", STERICS[k])

    def run(steps):
        for _ in range(steps // 100):
            go(8)
            integrator.step(100)
            for k in range(STATES):
                go(k)
                context.getState(getEnergy=True)

    return run


def gromacs_runs(threads, folder):
    """Functions that return the seconds of a number of steps of GROMACS, by what the table calls them."""
    from triskele import sponge

    system = sponge.load(
        *sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9, constraints="h-bonds"
    )
    bench = Bench("alchemy", lambda: (system.to_openmm(), system.positions), 0.002)
    found = {}
    for name, more in (("GROMACS, plain", {}), ("GROMACS, 16 states recorded", FREE_ENERGY)):
        of = folder / name.split(", ")[1].replace(" ", "-")
        of.mkdir()
        found[name] = gromacs.prepare(bench, threads, of, more)
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks sponge alchemy", description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args(arguments).threads
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    runs = simulations(threads)
    best = dict.fromkeys(runs, np.inf)
    for _ in range(ROUNDS + 1):  # the first compiles
        for name, run in runs.items():
            began = time.perf_counter()
            run(STEPS)
            best[name] = min(best[name], (time.perf_counter() - began) / STEPS)
    if gromacs.available():
        with tempfile.TemporaryDirectory() as folder:
            rivals = gromacs_runs(threads, Path(folder))
            for _ in range(3):
                for name, run in rivals.items():
                    best[name] = min(best.get(name, np.inf), run(GROMACS_STEPS) / GROMACS_STEPS)
    print(f"22 marked atoms in 749 waters, {threads} thread(s)")
    for name, seconds in best.items():
        print(f"  {name:30s} {1e6 * seconds:9.1f} us a step  {seconds / best['plain']:6.3f}x plain")


if __name__ == "__main__":
    main()
