"""The mesh of PME once in several steps: `python -m tests.benchmarks.sponge.respa`.

RESPA and the Langevin middle scheme with its inner step take turns on one thread; a row is the median of the rounds, in
processor time.
"""

import time
from statistics import median

from tests.sponge.reference import load_reference

ROUNDS, STEPS = 5, 100
CASES = {"dhfr_pme": (0.002, (2,)), "water_tip3p_flexible": (0.001, (2, 4))}  # inner step in ps, inner steps


def main():
    from triskele import core, sponge

    core.set_threads(1)
    print("| system | scheme | ns/day | ratio |\n| --- | --- | --- | --- |")
    for name, (step, inner) in CASES.items():
        reference = load_reference(name)
        system = sponge.load(reference.xml)
        system.positions = reference.positions
        fast = [p.name for p in system.potentials if p.name != "nonbonded"] + ["nonbonded/direct"]
        schemes = {f"{step:g} ps": sponge.LangevinMiddle(300, 1.0, step)}
        schemes |= {f"{k * step:g} / {step:g} ps": sponge.RESPA(k * step, k, fast, 300, 1.0) for k in inner}
        runs = {label: sponge.Simulation(system, scheme, seed=1) for label, scheme in schemes.items()}
        times = {label: [] for label in runs}
        for turn in range(ROUNDS + 1):
            for label, sim in runs.items():
                steps = round(STEPS * step / sim.timestep)
                start = time.process_time()
                sim.run(steps)
                if turn:
                    times[label].append((time.process_time() - start) / (steps * sim.timestep))
        first = median(next(iter(times.values())))
        for label, seconds in times.items():
            print(f"| {name} | {label} | {86.4 / median(seconds):.1f} | {first / median(seconds):.2f} |", flush=True)


if __name__ == "__main__":
    main()
