"""Charges of an ionic liquid from GFN2-xTB: data, a network trained on them, and its errors on other clusters.

Clusters of one to four ion pairs of 1,3-dimethylimidazolium chloride are cut from the liquid at 425 K; some of them are
distorted. GFN2-xTB (Bannwarth, Ehlert, Grimme, J. Chem. Theory Comput. 15 (2019) 1652) gives their charges, dipole
moments, energies and forces. A network of radial functions learns charges and dipole moments, and is judged on clusters
from a later part of the run. `ionic_liquid.py` runs the liquid with the network that this script writes.

    python examples/sponge/ionic_liquid_charges.py [--epochs 60] [--output c1mim_chloride.safetensors]
    python examples/sponge/ionic_liquid_charges.py --data new.npz   # new data: needs tblite (pip install tblite)
"""

import argparse
import time
from pathlib import Path

import numpy as np
from ionic_liquid import liquid

from triskele import core, sponge
from triskele.sponge import learn, units

DATA = Path(__file__).parent / "data" / "c1mim_chloride_gfn2.npz"
CATION = np.array([7, 6, 7, 6, 6, 6, 1, 6, 1, 1, 1, 1, 1, 1, 1, 1])  # elements, in the order of the liquid's topology
BOHR, HARTREE = 0.0529177210903, 2625.4996394799  # nm and kJ/mol, CODATA 2018
PERMITTIVITY = 12.0  # of the liquid around a cluster; 9 to 15 have been measured of imidazolium salts
STEP = 1e-4  # nm: positions are stored as multiples of that, and computed at these


# -- data ----------------------------------------------------------------------------------------------------------------


def configurations(pairs=48, frames=24, temperature=425.0):
    """Positions and edges of boxes of the liquid in CL&P, a picosecond apart."""
    system = liquid(pairs)
    simulation = sponge.Simulation(system, sponge.LangevinMiddle(temperature, friction=1.0, timestep=0.002), seed=1,
                                   barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0))
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
    plan = [(1, 0)] * 16 + [(0, 1)] + [(1, 1)] * 60 + [(2, 2)] * 60 + [(3, 3)] * 70 + [(4, 4)] * 110
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
    return (found.get("energy") * HARTREE, -found.get("gradient") * HARTREE / BOHR, found.get("charges"),
            found.get("dipole") * BOHR)


def make(path):
    """Compute new data; 300 clusters take some five minutes."""
    made = clusters(configurations())
    numbers = [gfn2(cations, anions, STEP * x) for cations, anions, _, x in made]
    made = [cluster for cluster, found in zip(made, numbers, strict=True) if found is not None]
    energies, forces, charges, dipoles = zip(*(found for found in numbers if found is not None), strict=True)
    np.savez_compressed(
        path, cations=np.array([c[0] for c in made], np.int8), anions=np.array([c[1] for c in made], np.int8),
        held_out=np.array([c[2] for c in made]), positions=np.concatenate([c[3] for c in made]),
        energies=np.array(energies), forces=np.concatenate(forces).astype(np.float16),
        charges=np.concatenate(charges).astype(np.float32), dipoles=np.array(dipoles, np.float32))


def read(path=DATA):
    """The clusters as a `Dataset`, with masks of those that are neutral and of those that are held out."""
    with np.load(path) as file:
        stored = dict(file)
    z = [elements(c, a) for c, a in zip(stored["cations"], stored["anions"], strict=True)]
    ends = np.cumsum([len(numbers) for numbers in z])[:-1]
    x, forces, charges = (np.split(stored[name], ends) for name in ("positions", "forces", "charges"))
    data = learn.Dataset(z, [STEP * p for p in x], stored["energies"], forces, charges=charges,
                         dipoles=stored["dipoles"])
    return data, stored["cations"] == stored["anions"], stored["held_out"]


# -- network -------------------------------------------------------------------------------------------------------------


def train(data, epochs):
    """A network that runs in compiled kernels: radial functions, two layers of sixteen for each element."""
    network = learn.ChargeNetwork.init(core.random.key(0), ["H", "C", "N", "Cl"], cutoff=0.4, features=16, layers=2,
                                       radial=8, angular=0, architecture=learn.BehlerParrinello)
    return learn.train_charges(network, data, epochs, validation=0.1, batch=8, rate=5e-3, dipole_weight=50.0)


def main(output, epochs, network, data):
    start = time.perf_counter()
    if data:
        make(data)
    clusters_, neutral, held_out = read(data or DATA)
    training, test = clusters_[neutral & ~held_out], clusters_[neutral & held_out]
    print(f"{len(training)} neutral clusters to learn from, {len(test)} from a later part of the run")
    found = train(training, epochs)
    errors = learn.evaluate_charges(found.network, test)
    print(f"on those, after {time.perf_counter() - start:.0f} s: charges {errors.charge_rmse:.4f} e rms and "
          f"{errors.charge_mae:.4f} e on average, dipole moments {100 * errors.relative:.1f} % of their rms")
    point = np.array([q @ x for q, x in zip(test.charges, test.positions, strict=True)])
    left = np.linalg.norm(point - test.dipoles) / np.linalg.norm(test.dipoles)
    print(f"GFN2-xTB's own charges give its dipole moments within {100 * left:.1f} %: atoms have dipoles there, too")
    for name, total, which in (("cations", 1.0, clusters_.cations), ("chloride", -1.0, clusters_.anions)):
        pass
    learn.save(network, found.network)
