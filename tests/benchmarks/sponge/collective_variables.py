"""What collective variables and biases on them cost: `python -m tests.benchmarks.sponge.collective_variables [--threads
1]`.

Alanine dipeptide in vacuum and in 749 waters, with constraints and 2 fs; all simulations of a table take turns in one
process, and each counts by its fastest slice. The last column is the time of the bias's own tasks, run without the
rest.
"""

import argparse
import time

import numpy as np

SLICES, SECONDS = 300, 0.004


def cases(system):
    """Biases and sampling methods, by what the table calls them."""
    from triskele import sponge
    from triskele.sponge import cv

    phi, psi = cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)
    heavy = np.flatnonzero(system.topology.elements[:22] > 1)
    oxygens = np.flatnonzero(system.topology.elements == 8)
    shape = cv.rmsd(heavy, np.asarray(system.positions) + 0.03 * np.random.default_rng(0).normal(size=(system.n, 3)))
    found = {
        "plain": {},
        "umbrella on phi": {"bias": sponge.umbrella(phi, -1.2, 100.0)},
        "umbrella on phi, psi": {"bias": sponge.umbrella([phi, psi], -1.2, 100.0)},
        "umbrella on RMSD, 10 atoms": {"bias": sponge.umbrella(shape, 0.05, 100.0)},
        "umbrella on radius of gyration": {
            "bias": sponge.umbrella(cv.radius_of_gyration(range(22), system.masses), 0.2, 100.0)
        },
        "metadynamics in phi": {"sampling": [sponge.Metadynamics(phi, 0.35, 1.2, 500, 8)]},
        "metadynamics in phi, psi": {"sampling": [sponge.Metadynamics([phi, psi], 0.35, 1.2, 500, 8)]},
    }
    if len(oxygens) > 2:
        hydration = cv.coordination(oxygens[:1], oxygens[2:], r0=0.35)
        found["umbrella on hydration, 749 waters"] = {"bias": sponge.umbrella(hydration, 3.0, 1.0)}
    return found


def alone(sim, name):
    """Seconds that the tasks of one potential or sampling method take."""
    from triskele.sponge.engine.program import Phase, Program

    plan = sim._engine.plans[name]
    program = Program([*map(Phase, plan.stages), Phase(plan.reduce, "sequence")], sim._engine.flags)
    best = np.inf
    for _ in range(SLICES):
        began = time.thread_time()
        program.run(200)
        best = min(best, (time.thread_time() - began) / 200)
    return best


def table(load, threads):
    from triskele import core, sponge

    core.set_threads(threads)
    sims = {}
    for name in cases(load()):
        system = load()
        options = cases(system)[name]
        if "bias" in options:
            system.add(options.pop("bias"))
        sims[name] = sponge.Simulation(
            system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), seed=1, **options
        )
        sims[name].run(100)
    steps = max(4, int(SECONDS * sims["plain"]._rate))
    clock = time.thread_time if threads == 1 else time.perf_counter  # the former does not count other processes' turns
    best = dict.fromkeys(sims, np.inf)
    for _ in range(SLICES):
        for name, sim in sims.items():
            began = clock()
            sim._advance(steps)
            best[name] = min(best[name], (clock() - began) / steps)
    for name, seconds in best.items():
        more, bias = seconds / best["plain"] - 1, name.split()[0]
        own = f"{1e6 * alone(sims[name], bias):7.2f} us alone" if bias != "plain" else ""
        print(f"  {name:36s} {1e6 * seconds:9.2f} us a step  {100 * more:+6.1f} %  {own}")


def main():
    from triskele import sponge

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    print("22 atoms in vacuum")
    files = sponge.example_files("alanine-dipeptide")
    table(lambda: sponge.load(*files, method="none", constraints="h-bonds"), threads)
    print("2,269 atoms in water, PME at 0.9 nm")
    table(
        lambda: sponge.load(
            *sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9, constraints="h-bonds"
        ),
        threads,
    )


if __name__ == "__main__":
    main()
