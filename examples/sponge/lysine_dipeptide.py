"""Lysine dipeptide by three ways of sampling: tempering, replica exchange and plain dynamics, in implicit solvent.

N-acetyl-lysine-N'-methylamide (Amber ff14SB, GBn2) has two backbone and four side-chain torsions. At 300 K it goes from
phi < 0 to phi > 0 (the left-handed helix) and back within some nanoseconds: phi is its slowest torsion. Integrated
tempering (SITS) of the whole molecule from 300 to 600 K and replica exchange over the same temperatures must agree
on all populations; each method gets the same number of force evaluations, so that effective samples can be compared.
The default run is short: errors of 0.1 in populations are usual. With ``--ns 20``, tempering finds 0.023 ± 0.012 of the
molecules at phi > 0, and replica exchange 0.018 ± 0.006; plain dynamics never stays there.

    python examples/sponge/lysine_dipeptide.py [--ns 1] [--output lysine_dipeptide.png]
"""

import argparse
from pathlib import Path

import numpy as np

from triskele import sponge
from triskele.sponge import analysis, cv, units

T0, HIGHEST, REPLICAS = 300.0, 600.0, 6
EVERY = 100  # steps between records
PDB = Path(__file__).parent / "data" / "lysine_dipeptide.pdb"
TORSIONS = {
    "phi": "C N CA C",
    "psi": "N CA C N",
    "chi1": "N CA CB CG",
    "chi2": "CA CB CG CD",
    "chi3": "CB CG CD CE",
    "chi4": "CG CD CE NZ",
}
REGIONS = {
    "beta": analysis.Rectangle(np.radians((120, 0)), np.radians((50, -120))),
    "alpha R": analysis.Rectangle(np.radians((120, 0)), np.radians((-120, 50))),
    "phi > 0": analysis.Rectangle(np.radians((0, 120))),
}


def dipeptide():
    structure = sponge.build.add_hydrogens(sponge.read_pdb(PDB))
    return sponge.create_system(
        structure, "amber14/protein.ff14SB", method="none", implicit_solvent="gbn2", constraints="h-bonds"
    )


def torsions(system):
    """Collective variables by name; phi begins in the residue before, psi ends in the one after."""
    names, residues = system.topology.names.tolist(), system.topology.residue_index.tolist()
    where = {(residue, name): k for k, (residue, name) in enumerate(zip(residues, names, strict=True))}
    places = {name: [1] * 4 for name in TORSIONS} | {"phi": [0, 1, 1, 1], "psi": [1, 1, 1, 2]}
    return {
        name: cv.torsion(*(where[key] for key in zip(places[name], atoms.split(), strict=True)), name=name)
        for name, atoms in TORSIONS.items()
    }


def thermostat():
    return sponge.LangevinMiddle(temperature=T0, friction=1.0, timestep=0.002)


def tempered(system, variables, steps):
    """Angles [states, 6] and their weights at 300 K."""
    sits = sponge.SITS(temperatures=units.ladder(T0, HIGHEST, 40), every=10)
    sim = sponge.Simulation(system, thermostat(), sampling=[sits], seed=1)
    sim.run(steps // 5)  # n_k is learned
    sits.produce()
    record = sponge.Variables(variables, EVERY)
    sim.run(steps - steps // 5, report=record)
    return np.stack([record[name] for name in variables], 1), sits.weights(record.steps)


def exchanged(system, variables, steps):
    """Angles [states, 6] of all replicas and their weights at 300 K by MBAR, as series of the replicas [., 6, R]."""
    rex = sponge.ReplicaExchange(system, thermostat(), units.ladder(T0, HIGHEST, REPLICAS), every=EVERY, seed=2)
    rex.run(steps // REPLICAS // 5)
    discard = len(rex.steps)
    records = {k: sponge.Variables(variables, EVERY) for k in rex.own}
    rex.run(steps // REPLICAS * 4 // 5, replica_report=lambda k: records[k])
    angles = np.stack([np.stack([records[k][name] for name in variables], 1) for k in range(REPLICAS)], 2)
    return angles, rex.mbar(discard).weights().reshape(REPLICAS, -1).T


def plain(system, variables, steps):
    """Angles [states, 6] of plain dynamics."""
    sim = sponge.Simulation(system, thermostat(), seed=3)
    sim.run(steps // 5)
    record = sponge.Variables(variables, EVERY)
    sim.run(steps - steps // 5, report=record)
    return np.stack([record[name] for name in variables], 1), None


def main(ns, output):
    steps = round(ns * 500_000)
    system = dipeptide()
    print(system)
    sim = sponge.Simulation(system, thermostat(), seed=0)
    sim.minimize()
    system.positions = sim.positions
    variables = torsions(system)
    found = {}
    for name, run in (("SITS", tempered), ("replica exchange", exchanged), ("plain", plain)):
        angles, weights = found[name] = run(system, variables, steps)
        fractions = analysis.populations(angles[:, 0], angles[:, 1], REGIONS, weights)
        inside = (angles[:, 0] > 0) & (angles[:, 0] < np.radians(120))
        worth = [analysis.effective_samples(x, weights, period=2 * np.pi) for x in np.moveaxis(angles, 1, 0)]
        # a handful of frames at the edge of the region says nothing of how often it is visited
        side = analysis.effective_samples(inside, weights) if inside.sum() >= 20 else 0.0
        print(
            f"{name}, {steps / 1e6:.1f} million force evaluations\n  {fractions}\n  effective samples per million: "
            + ", ".join(f"{t} {n / steps * 1e6:.0f}" for t, n in zip(variables, worth, strict=True))
            + f"; of phi > 0: {side / steps * 1e6:.1f}"
        )
    picture(found, variables, output)


def picture(found, variables, output):
    """Distributions of all torsions at 300 K."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from triskele.core.show import plots

    with plots.style():
        figure, axes = plt.subplots(2, 3, figsize=(7.0, 4.2), sharex=True, layout="constrained")
        for k, (ax, name) in enumerate(zip(axes.flat, variables, strict=True)):
            for method, (angles, weights) in found.items():
                values = np.degrees(angles[:, k])
                height, edges = np.histogram(
                    values.ravel(), 60, (-180, 180), density=True, weights=None if weights is None else weights.ravel()
                )
                ax.stairs(height, edges, label=method)
            ax.set(title=name, xticks=(-180, -90, 0, 90, 180), yticks=())
        axes[0, 0].legend(frameon=False)
        figure.supxlabel("torsion [degrees]")
        figure.supylabel("probability density at 300 K")
        figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ns", type=float, default=1.0, help="nanoseconds of each method, over all of its replicas")
    parser.add_argument("--output", default="lysine_dipeptide.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
