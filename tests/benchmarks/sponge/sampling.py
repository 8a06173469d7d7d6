"""What SITS costs over plain dynamics: `python -m tests.benchmarks.sponge.sampling [--threads 1] [--rounds 12]`.

Alanine dipeptide in TIP3P (2,269 atoms) and dihydrofolate reductase in water (23,558 atoms), the solute each time the
protein, 60 temperatures, 2 fs, PME. Both runs are in one process and take turns; the shortest turn of each counts. On
one thread processor time is measured, which other processes disturb least.
"""

import argparse
import time

import numpy as np

from tests.sponge.reference import load_reference
from triskele import core, sponge
from triskele.sponge import units
from triskele.sponge.load.openmm_xml import load_openmm

# solute atoms; steps of a turn, which hold whole lists
CASES = {"ala2_explicit_pme": (22, 240), "dhfr_pme": (2489, 60)}


def simulation(system, solute, **options):
    sampling = []
    if solute:
        sampling = [sponge.SITS(range(solute), units.ladder(280, 600, 60), **options)]
        sampling[0].log_n = np.zeros(60)  # a bias from the beginning
        sampling[0].produce()
    sim = sponge.Simulation(
        system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), seed=1, sampling=sampling
    )
    sim.run(20)
    return sim


def measure(name, rounds, clock):
    solute, steps = CASES[name]
    reference = load_reference(name)
    system = load_openmm(reference.xml, positions=reference.positions, box=reference.box)
    runs = {
        "plain": simulation(system, 0),
        "SITS": simulation(system, solute),
        "with reciprocal": simulation(system, solute, reciprocal=True),
    }
    times = {label: [] for label in runs}
    for _ in range(rounds):
        for label, sim in runs.items():
            start = clock()
            sim.run(steps)
            times[label].append((clock() - start) / steps)
    best = {label: min(t) for label, t in times.items()}
    print(
        f"| {name} | {system.n} | {solute} | "
        + " | ".join(f"{1e3 * t:.3f} ({t / best['plain']:.2f}x)" for t in best.values())
        + " |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--case", nargs="*", default=list(CASES))
    options = parser.parse_args()
    core.set_threads(options.threads)
    print(
        "| system | atoms | solute | plain, ms/step | SITS | SITS with reciprocal part |\n| --- | --- | --- | --- | "
        "--- | --- |",
        flush=True,
    )
    for name in options.case:
        measure(name, options.rounds, time.process_time if options.threads == 1 else time.perf_counter)


if __name__ == "__main__":
    main()
