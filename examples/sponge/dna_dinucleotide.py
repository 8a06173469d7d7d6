"""The DNA dinucleotide Na[CpG] in water: stacking and glycosidic torsions at 300 K, by tempering and replica exchange.

Cytidine and guanosine, joined by a phosphate (Amber OL15, TIP3P, one sodium ion), stack and unstack, and guanine turns
about its bond to the sugar between anti and syn. Selective integrated tempering (SITS) takes the molecule from
300 to 500 K, and with it half of its interaction with water and ion, which stay at 300 K. Replica exchange with solute
tempering (REST2) over the same temperatures must find the same populations; `--method plain` runs without either. The
bases count as stacked when their centers are within 0.5 nm and their planes within 45 degrees.

The base of guanine begins syn, and turns too seldom even at 500 K. All runs therefore have a fixed bias along its
torsion that makes it turn, and weights take the bias away.

A short run shows how it is done. The bases begin apart and take some nanoseconds to find each other, after which they
are stacked most of the time: learn for 4 ns (`--learn 4 --ns 12`). In runs of 12 and 15 ns, they are stacked in
0.95 +- 0.02 (SITS) and 0.86 +- 0.09 (exchange) of the states, and guanine is syn in 0.04 +- 0.04 and 0.11 +- 0.07;
cytosine stays anti. `--ns` counts force evaluations: those of all replicas together. A run writes checkpoints: the same
command resumes it, and a longer `--ns` makes it longer.

    python examples/sponge/dna_dinucleotide.py [--ns 0.1] [--method SITS] [--folder dna_dinucleotide]
"""

import argparse
from pathlib import Path

import numpy as np

from triskele import sponge
from triskele.sponge import analysis, cv, units

T0, HIGHEST, REPLICAS = 300.0, 500.0, 5
TIMESTEP, EVERY = 0.004, 50  # hydrogens of 3 dalton
METHODS = "SITS", "exchange", "plain"
PDB = Path(__file__).parent / "data" / "dcpg.pdb"
FIELD = ["amber14/DNA.OL15", "amber14/tip3p"]
RINGS = ["N1", "C2", "N3", "C4", "C5", "C6"]
SIDES = {"anti": np.radians((120, 0)), "syn": np.radians((0, 120))}  # the barriers between them are there
REGIONS = {f"{c}-{g}": analysis.Rectangle(SIDES[c], SIDES[g]) for c in SIDES for g in SIDES}  # of cytosine and guanine
NEAR, ALIGNED = 0.5, np.cos(np.pi / 4)
# Minus the free energy of the torsion of guanine at 300 K, in kJ/mol, as coefficients of cosines and sines of one to
# four times the angle: from two runs of 0.6 ns with sponge.OPES([chi G], barrier=30.0, every=250)
TURNING = np.array([[-1.8, -3.3, -3.4, -0.5], [-5.2, 4.7, 1.5, 0.3]])


def are_stacked(distance, alignment):
    return (distance < NEAR) & (np.abs(alignment) > ALIGNED)


def turning(chi, coefficients=TURNING):
    k = np.arange(1, 5)
    return np.sum(coefficients[0] * np.cos(k * chi) + coefficients[1] * np.sin(k * chi))


def thermostat():
    return sponge.LangevinMiddle(temperature=T0, friction=1.0, timestep=TIMESTEP)


def solvated(path, ps):
    """The system at 300 K and the density it has at 1 bar; equilibrated once for all runs in a folder."""
    structure = sponge.build.add_hydrogens(sponge.read_pdb(PDB))
    structure = sponge.build.solvate(structure, FIELD, padding=1.2, shape="dodecahedron", seed=1)
    system = sponge.create_system(structure, FIELD, constraints="h-bonds", hydrogen_mass=3.0, cutoff=0.9)
    if not path.exists():
        sim = sponge.Simulation(
            system, thermostat(), seed=1, barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0)
        )
        sim.minimize()
        sim.run(time=ps)
        np.savez(path, positions=sim.positions, velocities=sim.velocities, box=sim.box)
    saved = np.load(path)
    system.positions, system.velocities, system.box = saved["positions"], saved["velocities"], saved["box"]
    system.add(sponge.BiasPotential(turning, variables(system)["chi G"], {"coefficients": TURNING}, name="turning"))
    return system


def is_solute(system):
    return system.topology.residue_index < 2


def between_bases(x):
    """Distance of the centers of two rings of six atoms, and the cosine of the angle between their planes."""
    rings = [x[:6] - np.mean(x[:6], axis=0), x[6:] - np.mean(x[6:], axis=0)]
    normals = [np.cross(r[0] - r[2], r[1] - r[3]) for r in rings]
    one, other = (n / np.sqrt(np.sum(n * n)) for n in normals)
    apart = np.mean(x[6:], axis=0) - np.mean(x[:6], axis=0)
    return np.sqrt(np.sum(apart * apart)), np.sum(one * other)


def variables(system):
    """Glycosidic torsions, and distance and alignment of both bases."""
    where = {
        (r, n): k
        for k, (r, n) in enumerate(
            zip(system.topology.residue_index.tolist(), system.topology.names.tolist(), strict=True)
        )
    }
    chi = {0: ("O4'", "C1'", "N1", "C2"), 1: ("O4'", "C1'", "N9", "C4")}
    rings = [where[residue, name] for residue in (0, 1) for name in RINGS]
    return {
        "chi C": cv.torsion(*(where[0, name] for name in chi[0])),
        "chi G": cv.torsion(*(where[1, name] for name in chi[1])),
        "distance": cv.function(lambda x: between_bases(x)[0], rings, name="distance"),
        "alignment": cv.function(lambda x: between_bases(x)[1], rings, name="alignment"),
    }


def simulated(system, ns, learn, plain, folder):
    """States from a run, or from what is missing of it, with their variables and weights at 300 K."""
    sits = sponge.SITS(is_solute(system), units.ladder(T0, HIGHEST, 40), cross=0.5)
    sim = sponge.Simulation(system, thermostat(), sampling=[] if plain else [sits], seed=2)
    name = "plain" if plain else "SITS"
    checkpoint, table = folder / f"{name}.chk", folder / f"{name}.csv"
    first, last = round(1000 * learn / TIMESTEP), round(1000 * (learn + ns) / TIMESTEP)
    if checkpoint.exists():
        sim.load(checkpoint)
        print(f"resumes at {sim.time / 1000:.3f} ns")
    report = [sponge.Variables(variables(system), EVERY, table), sponge.Checkpoint(checkpoint, 5000)]
    sim.run(max(0, first - sim.step), report=report)
    if not plain and sits.mode == "iterate":
        sits.produce()
    sim.run(max(0, last - sim.step), report=report)
    sim.save(checkpoint)
    states, found = read(table, first)
    if not plain:
        print(sits.report())
    return states, found, None if plain else sits.weights(states)


def exchanged(system, ns, learn, folder):
    """States at 300 K of replicas whose solutes are as if at up to 500 K."""
    solute = is_solute(system)
    systems = [sponge.rest2(system, solute, t, T0) for t in units.ladder(T0, HIGHEST, REPLICAS)]
    rex = sponge.ReplicaExchange(systems, thermostat(), every=500, seed=2)
    first, last = (round(1000 * time / TIMESTEP / REPLICAS) for time in (learn, learn + ns))
    table = folder / "exchange.csv"
    rex.run(
        last,
        checkpoint=folder / "exchange.chk",
        replica_report=lambda k: [sponge.Variables(variables(system), EVERY, table)] if k == 0 else [],
    )
    print(f"accepted exchanges: {np.round(rex.acceptance, 2)}, round trips: {rex.round_trips}")
    return *read(table, first), None


def read(table, first):
    rows = np.loadtxt(table, delimiter=",", skiprows=1)
    rows = rows[rows[:, 0] > first]
    return rows[:, 0].astype(int), rows[:, 2:]


def main(ns, learn, method, equilibrate, folder, output):
    folder = Path(folder)
    folder.mkdir(exist_ok=True)
    system = solvated(folder / "equilibrated.npz", equilibrate)
    print(system)
    if method == "exchange":
        states, found, weights = exchanged(system, ns, learn, folder)
    else:
        states, found, weights = simulated(system, ns, learn, method == "plain", folder)
    chi_c, chi_g, distance, alignment = found.T
    unbiased = np.exp(np.array([turning(chi) for chi in chi_g]) / (units.GAS_CONSTANT * T0))
    weights = unbiased if weights is None else weights * unbiased
    print(f"{len(states)} states at, or reweighted to, {T0:.0f} K")
    print(f"bases: {analysis.populations(distance, alignment, {'stacked': are_stacked}, weights)}")
    print(f"glycosidic torsions of C and G: {analysis.populations(chi_c, chi_g, REGIONS, weights)}")
    evaluations = np.ptp(states) * (REPLICAS if method == "exchange" else 1)
    for name, values, period in (
        ("chi C", chi_c, 2 * np.pi),
        ("chi G", chi_g, 2 * np.pi),
        ("stacking", are_stacked(distance, alignment) * 1.0, None),
    ):
        effective = analysis.effective_samples(values, weights, period=period) if np.ptp(values) else 0.0
        print(f"effective samples of {name} per million force evaluations: {effective / evaluations * 1e6:.1f}")
    picture(found, weights, output or folder / f"{method}.png")


def picture(found, weights, output):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from triskele.core.show import plots

    chi_c, chi_g, distance, alignment = found.T
    with plots.style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(7.0, 3.0), layout="constrained")
        analysis.free_energy(chi_c, chi_g, weights, temperature=T0, bins=36).plot(left, highest=20.0)
        left.set(xlabel="glycosidic torsion of C [degrees]", ylabel="of G [degrees]", title="free energy at 300 K")
        height, x, y = np.histogram2d(distance, np.abs(alignment), 40, [(0.3, 1.3), (0, 1)], weights=weights)
        right.pcolormesh(x, y, np.sqrt(height.T), cmap="Blues", rasterized=True)
        right.plot([0.3, NEAR, NEAR], [ALIGNED, ALIGNED, 1.0], color="C1")
        right.set(
            xlabel="distance of the bases [nm]",
            ylabel="|cosine| between their planes",
            title="stacking (stacked: upper left)",
        )
        figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ns", type=float, default=0.1, help="nanoseconds of production, of all replicas together")
    parser.add_argument("--learn", type=float, default=0.04, help="nanoseconds in which weights are learned before")
    parser.add_argument("--method", choices=METHODS, default="SITS")
    parser.add_argument("--equilibrate", type=float, default=20.0, help="ps at 1 bar, before the first run in a folder")
    parser.add_argument("--folder", default="dna_dinucleotide", help="for checkpoints, tables and pictures")
    parser.add_argument("--output", help="where the picture goes; into the folder when left out")
    main(**vars(parser.parse_args()))
