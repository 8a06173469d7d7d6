"""How steps, memory and the parts of a step grow with the number of atoms: `python -m tests.benchmarks.sponge.scaling
[--largest 1000000]`.

Boxes of TIP3P water, tiled from the stored one, with PME at 0.9 nm; one process for each size.
"""

import argparse
import subprocess
import sys
import time

import numpy as np

TILES = [(1, 1, 1), (2, 2, 2), (4, 4, 4), (6, 6, 6), (9, 9, 8)]


def resident():
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return [int(fields[k].split()[0]) * 1024 for k in ("VmRSS", "VmHWM")]


def tiled(tiles):
    from tests.sponge.reference import load_reference
    from triskele import sponge

    reference = load_reference("water_tip3p")
    source = sponge.load(reference.xml)
    edge, whole = reference.box[0, 0], reference.positions.reshape(-1, 3, 3)
    cells = np.stack(np.meshgrid(*map(np.arange, tiles), indexing="ij"), -1).reshape(-1, 1, 1, 3) * edge
    positions = (whole[None] + cells).reshape(-1, 3)
    copies, n = len(cells), source.n
    shift = np.repeat(np.arange(copies) * n, len(source.exclusions))[:, None]
    pairs = source.constraints.pairs
    topology = sponge.Topology.of_particles(copies * n)
    constraints = sponge.Constraints(
        np.tile(pairs, (copies, 1)) + np.repeat(np.arange(copies) * n, len(pairs))[:, None],
        np.tile(source.constraints.distances, copies),
    )
    system = sponge.System(
        topology,
        np.tile(source.masses, copies),
        box=edge * np.array(tiles),
        positions=positions,
        constraints=constraints,
        exclusions=np.tile(source.exclusions, (copies, 1)) + shift,
    )
    params = source.nonbonded.params
    system.add(sponge.Nonbonded(*(np.tile(params[k], copies) for k in ("charges", "sigmas", "epsilons")), cutoff=0.9))
    return system


def measure(tiles, threads):
    from triskele import core, sponge

    core.set_threads(threads)
    system = tiled(tiles)
    before = resident()[0]
    sim = sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), seed=1)
    sim.run(20)
    rates, steps = [], max(20, int(4e6 / system.n))
    for _ in range(3):
        start = time.perf_counter()
        sim.run(steps)
        rates.append(steps / (time.perf_counter() - start))
    rate = max(rates)
    memory = (resident()[1] - before) / system.n
    split: dict[str, float] = {}
    for name, seconds in sim._runner.program.time_phases(steps).items():
        part = (
            "list" if "list" in name or "sort" in name else "pairs and mesh" if name.startswith("forces") else "update"
        )
        split[part] = split.get(part, 0.0) + seconds
    parts = " | ".join(f"{1e9 * split[k] / system.n:.0f}" for k in ("list", "pairs and mesh", "update"))
    print(f"| {system.n} | {rate:.2f} | {rate * system.n / 1e6:.2f} | {parts} | {memory:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_100_000, help="atoms")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", help="tiles along the edges: measure this alone")
    options = parser.parse_args()
    if options.one:
        return measure(tuple(map(int, options.one.split(","))), options.threads)
    print(
        "| atoms | steps/s | million atom steps/s | list | pairs and mesh | update, ns/step/atom | bytes/atom |\n| "
        "--- | --- | --- | --- | --- | --- | --- |",
        flush=True,
    )
    for tiles in TILES:
        if 1500 * np.prod(tiles) <= options.largest:
            subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "tests.benchmarks.sponge.scaling",
                    "--one",
                    ",".join(map(str, tiles)),
                    "--threads",
                    str(options.threads),
                ],
                check=True,
            )


if __name__ == "__main__":
    main()
