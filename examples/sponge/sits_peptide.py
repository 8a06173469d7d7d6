"""Alanine dipeptide in water: the free-energy surface of phi and psi at 300 K, by selective integrated tempering.

The peptide (Amber ff96, 749 TIP3P waters, 2,269 atoms) is tempered from 280 to 600 K, and with it the share `cross` of
its interaction with water; the water stays at 300 K. Whatever the share, populations at 300 K must come out the same.
`--plain` runs the same without tempering, for comparison.

A run learns n_k first (`--learn`, a quarter of `--ns` by default), and keeps it for the rest. It writes a checkpoint
every few seconds: running the same command again resumes, and a longer `--ns` makes a run longer.

    python examples/sponge/sits_peptide.py [--ns 0.1] [--cross 0.5] [--plain] [--folder sits_peptide]
"""

import argparse
from pathlib import Path

import numpy as np

from triskele import core, sponge
from triskele.sponge import analysis, cv, units

T0 = 300.0
SOLUTE = range(22)
EVERY = 50  # steps between records of the angles
STEPS_PER_NS = 500_000
PHI, PSI = cv.torsion(4, 6, 8, 14), cv.torsion(6, 8, 14, 16)
REGIONS = {
    "beta": analysis.Rectangle(np.radians((120, 0)), np.radians((50, -120))),
    "alpha R": analysis.Rectangle(np.radians((120, 0)), np.radians((-120, 50))),
    "phi > 0": analysis.Rectangle(np.radians((0, 120))),
}


def thermostat():
    return sponge.LangevinMiddle(temperature=T0, friction=1.0, timestep=0.002)


def equilibrated(path, ps=50):
    """The system at the density it has at 1 bar, and at 300 K; made once, so that all runs begin with the same box."""
    files = sponge.example_files("alanine-dipeptide-water")
    system = sponge.load(*files, method="pme", cutoff=0.9, constraints="h-bonds")
    if not path.exists():
        sim = sponge.Simulation(
            system, thermostat(), barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0), seed=1
        )
        sim.minimize()
        sim.run(time=ps)
        np.savez(path, positions=sim.positions, velocities=sim.velocities, box=sim.box)
    saved = np.load(path)
    system.positions, system.velocities, system.box = saved["positions"], saved["velocities"], saved["box"]
    return system


def simulate(ns, learn, cross, plain, seed, highest, folder, equilibrate=50):
    """A run, or what is missing of it: SITS, and the recorded states with their angles."""
    name = ("plain" if plain else f"cross{cross:g}") + f"-{seed}"
    sits = sponge.SITS(SOLUTE, units.ladder(280, highest, 60), cross=cross)
    system = equilibrated(folder / "equilibrated.npz", equilibrate)
    sim = sponge.Simulation(system, thermostat(), sampling=[sits], seed=seed)
    checkpoint, table = folder / f"{name}.chk", folder / f"{name}.csv"
    if checkpoint.exists():
        sim.load(checkpoint)
        print(f"resumes at {sim.time / 1000:.3f} ns")
    elif plain:
        sits.observe()
    report = [
        sponge.Variables({"phi": PHI, "psi": PSI}, EVERY, table),
        sponge.Checkpoint(checkpoint, 5000),
        sponge.Log(every=25_000),
    ]
    first = round(learn * STEPS_PER_NS)
    half, last = first + round(ns / 2 * STEPS_PER_NS), first + round(ns * STEPS_PER_NS)
    sim.run(max(0, first - sim.step), report=report)
    if sits.mode == "iterate":
        sits.produce()
    sim.run(max(0, half - sim.step), report=report)
    if sim.step == half and not plain:  # n_k from all data so far: flatter than what the short time of learning gave
        sits.log_n = sits.free_energies(sits.temperatures)[0]
    sim.run(max(0, last - sim.step), report=report)
    sim.save(checkpoint)
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    rows = rows[rows[:, 0] > first]
    return sits, rows[:, 0].astype(int), rows[:, 2], rows[:, 3]


def describe(sits, states, phi, psi, weights, plain):
    """Print what was found."""
    force_evaluations = states[-1] - states[0]
    print(f"{force_evaluations * 0.002 / 1000:.3f} ns of production: {sits.report()}")
    print(f"populations at {T0:.0f} K: {analysis.populations(phi, psi, REGIONS, weights)}")
    effective = {
        name: analysis.effective_samples(x, weights, period=2 * np.pi) for name, x in (("phi", phi), ("psi", psi))
    }
    side = np.where((phi > 0.3) & (phi < 1.8), 1, np.where((phi < -0.5) & (phi > -2.6), -1, 0))
    visits = np.count_nonzero(np.diff(side[side != 0]))
    print(
        "effective samples per million force evaluations: "
        + ", ".join(f"{name} {value / force_evaluations * 1e6:.1f}" for name, value in effective.items())
        + f"; crossings of phi = 0: {visits} ({visits / force_evaluations * 1e6:.1f} per million)"
    )
    if not plain:
        value, error = sits.free_energies([280, 400, 600])
        print(
            "enhanced energy: -ln Z(T) / Z(300 K) = "
            + ", ".join(f"{v:.2f} ± {e:.2f} at {t} K" for v, e, t in zip(value, error, (280, 400, 600)))
        )


def main(ns, learn, equilibrate, cross, plain, seed, highest, folder, threads, output):
    core.set_threads(threads)
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    sits, states, phi, psi = simulate(
        ns, max(ns / 4, 0.03) if learn is None else learn, cross, plain, seed, highest, folder, equilibrate
    )
    weights = None if plain else sits.weights(states)
    describe(sits, states, phi, psi, weights, plain)

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    analysis.free_energy(phi, psi, weights, temperature=T0, bins=48).plot(left, highest=30.0)
    left.set(title=f"{T0:.0f} K, " + ("plain dynamics" if plain else f"cross = {cross:g}"))
    right.plot(sits.steps * 2e-6, sits.energies, ".", ms=1.0, color="C0", rasterized=True)
    right.set(xlabel="time [ns]", ylabel="enhanced energy [kJ/mol]")
    output = output or folder / (("plain" if plain else f"cross{cross:g}") + f"-{seed}.png")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ns", type=float, default=0.1, help="of production")
    parser.add_argument(
        "--learn",
        type=float,
        help="ns in which n_k is learned; when left out a quarter of --ns, or 0.03 if that is more",
    )
    parser.add_argument("--equilibrate", type=float, default=50.0, help="ps at 1 bar, before the first run in a folder")
    parser.add_argument("--cross", type=float, default=0.5, help="share of the peptide-water energy that is enhanced")
    parser.add_argument("--plain", action="store_true", help="plain dynamics, for comparison")
    parser.add_argument("--highest", type=float, default=600.0, help="end of the ladder in K")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", default="sits_peptide", help="for checkpoints, tables and pictures")
    parser.add_argument("--output", help="where the picture goes; into the folder when left out")
    main(**vars(parser.parse_args()))
