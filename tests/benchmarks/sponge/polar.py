"""What polarization costs: `python -m tests.benchmarks sponge polar [--threads 1]`.

Waters of SWM4-NDP, PME at 0.8 nm, rigid, 1 fs and two baths, next to the same number of TIP4P-Ew waters under
LangevinMiddle; and the same system under OpenMM's DrudeLangevinIntegrator, on the Reference platform and, where its
plugin is there, on the CPU platform. All take turns in one process, and each counts by its fastest slice.
"""

import argparse
import os
import time

import numpy as np

ROUNDS, WATERS = 5, (216, 1000)
OPTIONS = {"cutoff": 0.8, "tolerance": 5e-4}


def ours(model, field, integrator, n):
    from triskele import sponge
    from triskele.sponge import build

    system = sponge.create_system(build.water_box(model, n=n), field, **OPTIONS)
    simulation = sponge.Simulation(system, integrator, seed=1)
    simulation.minimize(tolerance=100)
    simulation.run(1000)
    return simulation


def openmm(simulation, platform, threads):
    """A function that makes a number of steps, or None."""
    try:
        import openmm as mm
    except ImportError:
        return None
    integrator = mm.DrudeLangevinIntegrator(300, 5, 1, 20, 0.001)
    integrator.setMaxDrudeDistance(0.02)
    options = {"Threads": str(threads)} if platform == "CPU" else {}
    try:
        context = mm.Context(simulation.system.to_openmm(), integrator, mm.Platform.getPlatformByName(platform),
                             options)
    except mm.OpenMMException:
        return None
    context.setPositions(simulation.positions)
    context.setVelocities(simulation.velocities)
    return lambda steps: context.getIntegrator().step(steps)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks sponge polar", description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args(arguments).threads
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    from triskele import core, sponge

    core.set_threads(threads)
    print(f"| waters, {threads} thread(s) | ms a step | as many steps a second as polarizable |\n|---|---|---|")
    for n in WATERS:
        polar = ours("swm4ndp", "drude/swm4ndp", sponge.DrudeLangevin(300, 5.0, 0.001), n)
        fixed = ours("tip4pew", "amber14/tip4pew", sponge.LangevinMiddle(300, 5.0, 0.001), n)
        runs = {"SWM4-NDP": (polar.run, 300), "TIP4P-Ew": (fixed.run, 300),
                "OpenMM Reference, SWM4-NDP": (openmm(polar, "Reference", threads), 5),
                "OpenMM CPU, SWM4-NDP": (openmm(polar, "CPU", threads), 20)}
        best = {name: np.inf for name, (run, _) in runs.items() if run is not None}
        for _ in range(ROUNDS):
            for name in best:
                run, steps = runs[name]
                began = time.perf_counter()
                run(steps)
                best[name] = min(best[name], (time.perf_counter() - began) / steps)
        for name, seconds in best.items():
            print(f"| {n}, {name} | {1e3 * seconds:.2f} | {best['SWM4-NDP'] / seconds:.3f}x |", flush=True)


if __name__ == "__main__":
    main()
