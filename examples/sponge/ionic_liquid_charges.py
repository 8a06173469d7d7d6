"""Charges of an ionic liquid from GFN2-xTB: data, a network trained on them, and its errors on other clusters.

Clusters of one to four ion pairs of 1,3-dimethylimidazolium chloride are cut from the liquid at 425 K; some of them are
distorted. GFN2-xTB (Bannwarth, Ehlert, Grimme, J. Chem. Theory Comput. 15 (2019) 1652) gives their charges, dipole
moments, energies and forces. A continuum stands for the liquid around them: in vacuum, chlorides at the surface of a
cluster lose up to half of their charge to cations on its other side, which those inside of it do not, nor do any in the
continuum. A network of radial functions learns charges and dipole moments, and is judged on clusters from a later part
of the run. `ionic_liquid.py` runs the liquid with the network that this script writes.

    python examples/sponge/ionic_liquid_charges.py [--epochs 150] [--output ionic_liquid_charges.png]
    python examples/sponge/ionic_liquid_charges.py --network c1mim_chloride.safetensors   # write the network, too
    python examples/sponge/ionic_liquid_charges.py --data new.npz   # new data: needs tblite (pip install tblite)
"""

import argparse
import dataclasses
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from ionic_liquid import liquid

from triskele import core, sponge
from triskele.sponge import learn

DATA = Path(__file__).parent / "data" / "c1mim_chloride_gfn2.npz"
CATION = np.array([7, 6, 7, 6, 6, 6, 1, 6, 1, 1, 1, 1, 1, 1, 1, 1])  # elements, in the order of the liquid's topology
DEBYE = 0.0208194346  # e nm
BOHR, HARTREE = 0.0529177210903, 2625.4996394799  # nm and kJ/mol, CODATA 2018
PERMITTIVITY = 12.0  # of the liquid around a cluster; 9 to 15 have been measured of imidazolium salts
STEP = 1e-4  # nm: positions are stored as multiples of that, and computed at these


# -- data --------------------------------------------------------------------------------------------------------------


def configurations(pairs=48, frames=24, temperature=425.0):
    """Positions and edges of boxes of the liquid in CL&P, a picosecond apart."""
    system = liquid(pairs)
    simulation = sponge.Simulation(
        system,
        sponge.LangevinMiddle(temperature, friction=1.0, timestep=0.002),
        seed=1,
        barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0),
    )
    simulation.minimize(tolerance=100)
    simulation.run(15_000)
    found = []
    for _ in range(frames):
        simulation.run(500)
        found.append((simulation.positions, np.diag(simulation.box)))
    return found


def cut(positions, edges, cations, anions, rng):
    """The cations and anions that are nearest to one of them, drawn at random, as whole molecules."""
    pairs = len(positions) // (len(CATION) + 1)
    ions = [*positions[:-pairs].reshape(pairs, -1, 3), *positions[-pairs:, None]]
    middles = np.array([x.mean(axis=0) for x in ions])
    center = rng.integers(pairs) + (0 if anions == 0 or (cations and rng.random() < 0.5) else pairs)
    images = np.rint((middles - middles[center]) / edges) * edges
    far = np.linalg.norm(middles - images - middles[center], axis=1)
    chosen = [*np.argsort(far[:pairs])[:cations], *(pairs + np.argsort(far[pairs:])[:anions])]
    return [ions[k] - images[k] - middles[center] for k in chosen]


def distorted(ions, rng):
    """Ions moved apart or together by up to a tenth, and atoms moved by 4 pm in each direction."""
    stretch = rng.uniform(0.95, 1.1) - 1.0
    return [x + stretch * x.mean(axis=0) + rng.normal(scale=0.004, size=x.shape) for x in ions]


def clusters(frames, seed=0):
    """Numbers of cations and anions, whether a cluster is held out, and positions in steps."""
    rng, found = np.random.default_rng(seed), []
    plan = [(1, 0)] * 16 + [(0, 1)] + [(1, 1)] * 60 + [(2, 2)] * 60 + [(3, 3)] * 70 + [(4, 4)] * 110 + [(6, 6)] * 24
    for k, (cations, anions) in enumerate(plan):
        held = k % 6 == 5  # from the last third of the run
        first, last = (2 * len(frames) // 3, len(frames)) if held else (0, 2 * len(frames) // 3)
        ions = cut(*frames[rng.integers(first, last)], cations, anions, rng)
        ions = distorted(ions, rng) if rng.random() < 0.4 else ions
        found.append((cations, anions, held, np.rint(np.concatenate(ions) / STEP).astype(np.int16)))
    return found


def elements(cations, anions):
    return np.concatenate([np.tile(CATION, cations), np.full(anions, 17)])


def gfn2(cations, anions, positions):
    """Energy (kJ/mol), forces (kJ/mol/nm), charges (e) and dipole moment about the origin (e nm); None if the
    self-consistent cycle does not converge.
    """
    from tblite.exceptions import TBLiteRuntimeError
    from tblite.interface import Calculator

    calculator = Calculator("GFN2-xTB", elements(cations, anions), positions / BOHR, charge=float(cations - anions))
    calculator.set("verbosity", 0)
    calculator.add("gbe-solvation", PERMITTIVITY, "p16")
    try:
        found = calculator.singlepoint()
    except TBLiteRuntimeError:
        return None
    return (
        found.get("energy") * HARTREE,
        -found.get("gradient") * HARTREE / BOHR,
        found.get("charges"),
        found.get("dipole") * BOHR,
    )


def make(path):
    """Compute new data; 300 clusters take some five minutes."""
    made = clusters(configurations())
    numbers = [gfn2(cations, anions, STEP * x) for cations, anions, _, x in made]
    made = [cluster for cluster, found in zip(made, numbers, strict=True) if found is not None]
    energies, forces, charges, dipoles = zip(*(found for found in numbers if found is not None), strict=True)
    np.savez_compressed(
        path,
        cations=np.array([c[0] for c in made], np.int8),
        anions=np.array([c[1] for c in made], np.int8),
        held_out=np.array([c[2] for c in made]),
        positions=np.concatenate([c[3] for c in made]),
        energies=np.array(energies),
        forces=np.concatenate(forces).astype(np.float16),
        charges=np.concatenate(charges).astype(np.float32),
        dipoles=np.array(dipoles, np.float32),
    )


def read(path=DATA):
    """The clusters as a `Dataset`, with masks of those that are neutral and of those that are held out."""
    with np.load(path) as file:
        stored = dict(file)
    z = [elements(c, a) for c, a in zip(stored["cations"], stored["anions"], strict=True)]
    ends = np.cumsum([len(numbers) for numbers in z])[:-1]
    x, forces, charges = (np.split(stored[name], ends) for name in ("positions", "forces", "charges"))
    data = learn.Dataset(
        z, [STEP * p for p in x], stored["energies"], forces, charges=charges, dipoles=stored["dipoles"]
    )
    return data, stored["cations"] == stored["anions"], stored["held_out"]


# -- network -----------------------------------------------------------------------------------------------------------


def train(data, epochs):
    """A network that runs in compiled kernels: radial functions, two layers of sixteen for each element."""
    network = learn.ChargeNetwork.init(
        core.random.key(0),
        ["H", "C", "N", "Cl"],
        cutoff=0.4,
        features=16,
        layers=2,
        radial=8,
        angular=0,
        architecture=learn.BehlerParrinello,
    )
    return learn.train_charges(network, data, epochs, validation=0.1, batch=8, rate=5e-3, dipole_weight=50.0)


def bare(network, data, neutral):
    """Mean absolute error of the charges of single ions, with the network's total set to their charge."""
    alone = data[~neutral]
    errors = []
    for z, x, q in zip(alone.elements, alone.positions, alone.charges, strict=True):
        one = learn.Dataset([z], [x], charges=[q])
        ion = dataclasses.replace(network, total=float(np.rint(q.sum())))
        errors.append(np.abs(learn.evaluate_charges(ion, one).charges[0] - q))
    return float(np.mean(np.concatenate(errors)))


def picture(output, test, errors, history):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    z, q, found = (np.concatenate(values) for values in (test.elements, test.charges, errors.charges))
    for number, name in ((17, "Cl"), (7, "N"), (6, "C"), (1, "H")):
        left.plot(q[z == number], found[z == number], ".", ms=3, label=name)
    left.plot([-1.05, 0.3], [-1.05, 0.3], "k", lw=0.6)
    left.set(xlabel="charge, GFN2-xTB / e", ylabel="charge, network / e", title="atoms of held-out clusters")
    left.legend(frameon=False)
    middle.plot(test.dipoles.ravel() / DEBYE, errors.dipoles.ravel() / DEBYE, ".", ms=3)
    ends = np.array([-1.0, 1.0]) * np.abs(test.dipoles).max() / DEBYE
    middle.plot(ends, ends, "k", lw=0.6)
    middle.set(xlabel="dipole moment, GFN2-xTB / D", ylabel="dipole moment, network / D", title="components")
    right.semilogy(history["validation/charge_rmse"], label="charges / e")
    right.semilogy(history["validation/dipole_rmse"], label="dipole moments / e nm")
    right.set(xlabel="epoch", ylabel="error, validation")
    right.legend(frameon=False)
    figure.savefig(output, dpi=150)


def main(output, epochs, network, data):
    start = time.perf_counter()
    if data is not None:
        make(data)
    known, neutral, held_out = read(DATA if data is None else data)
    training, test = known[neutral & ~held_out], known[neutral & held_out]
    print(f"{len(training)} neutral clusters to learn from, {len(test)} from a later part of the run to judge by")
    trained = train(training, epochs)
    errors = learn.evaluate_charges(trained.network, test)
    print(
        f"on these, after {time.perf_counter() - start:.0f} s: charges {errors.charge_rmse:.4f} e rms and "
        f"{errors.charge_mae:.4f} e on average, dipole moments {100 * errors.relative:.1f} % of their rms"
    )
    point = np.array([q @ x for q, x in zip(test.charges, test.positions, strict=True)])
    left = np.linalg.norm(point - test.dipoles) / np.linalg.norm(test.dipoles)
    print(f"charges of GFN2-xTB alone, without the dipoles that its atoms have, miss these by {100 * left:.1f} %")
    print(f"ions alone, which it has not seen: {bare(trained.network, known, neutral):.3f} e on average")
    chlorides = np.concatenate([q[z == 17] for q, z in zip(test.charges, test.elements, strict=True)])
    print(f"chloride: {chlorides.mean():.3f} ± {chlorides.std():.3f} e in these clusters")
    if network is not None:
        learn.save(network, trained.network)
    picture(output, test, errors, trained.history)
    print(f"{output}, after {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="ionic_liquid_charges.png", help="where the picture goes")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--network", help="file to write the network to, as c1mim_chloride.safetensors")
    parser.add_argument("--data", help="compute new data and write them to this file")
    main(**vars(parser.parse_args()))
