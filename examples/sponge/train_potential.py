"""A neural potential for N-methylacetamide: data from a force field, PaiNN trained on them, and dynamics with it.

Configurations at 500 K are drawn with ff14SB and written as extended XYZ. The network learns their energies and forces,
is judged on configurations that it has never seen, and then moves the molecule at constant energy: the total energy
must stay, which it does only if forces are exact derivatives of a smooth energy.

    python examples/sponge/train_potential.py [--output train_potential.png] [--epochs 50]
"""

import argparse
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from triskele import core, sponge
from triskele.sponge import learn, units

DATA = Path(__file__).parent / "data"
TRAINING, VALIDATION, TEST = 900, 100, 200
EVERY = 100  # steps between configurations: 50 fs
NVE = 20_000  # steps of 0.5 fs


def generate(path):
    """Configurations at 500 K, every 50 fs, with energies and forces of ff14SB."""
    system = sponge.load(DATA / "methylacetamide.pdb", forcefield=["amber14/protein.ff14SB.xml"], method="none")
    sim = sponge.Simulation(system, sponge.LangevinMiddle(temperature=500, friction=2.0, timestep=0.0005), seed=1)
    sim.minimize()
    sim.thermalize()
    sim.run(4000)
    learn.record(sim, TRAINING + VALIDATION + TEST, EVERY).write(path)
    return system


def main(output, epochs):
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "methylacetamide.xyz"
        system = generate(path)
        data = learn.read_dataset(path)
    training, validation, test = data.split(TRAINING, VALIDATION, TEST, seed=1)
    print(
        f"{len(data)} configurations, forces of {data.force_rms:.0f} kJ/mol/nm rms, after "
        f"{time.perf_counter() - start:.0f} s"
    )

    net = learn.PaiNN.init(core.random.key(0), data.known_elements(), cutoff=0.6, features=64, layers=2)
    found = learn.train(net, training, epochs, validation=validation, batch=5, rate=3e-3)
    errors = learn.evaluate(found.network, test)
    print(f"on {TEST} other configurations, after {time.perf_counter() - start:.0f} s: {errors}")

    molecule = sponge.System(system.topology, system.masses, positions=test.positions[0])
    molecule.add(sponge.NeuralPotential(found.network))
    sim = sponge.Simulation(molecule, sponge.VelocityVerlet(timestep=0.0005), seed=2)
    sim.thermalize(300)
    log = {"time": [], "total": [], "kinetic": []}
    for _ in range(200):
        sim.run(NVE // 200)
        energies = sim.energies()
        for name, values in log.items():
            values.append(sim.time if name == "time" else energies[name])
    t, total = np.array(log["time"]), np.array(log["total"])
    thermal = units.GAS_CONSTANT * 300
    drift = np.polyfit(t, total, 1)[0] * 1000 / thermal / (3 * molecule.n - 3)
    print(
        f"{t[-1]:.0f} ps at constant energy: drift {drift:.2g} kT/ns per degree of freedom, fluctuation "
        f"{np.std(total):.3f} kJ/mol "
        f"where the kinetic energy fluctuates by {np.std(log['kinetic']):.1f} kJ/mol"
    )

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
    reference, predicted = (np.concatenate([f.ravel() for f in forces]) for forces in (test.forces, errors.forces))
    left.plot(reference, predicted, ".", ms=1.5)
    ends = np.array([reference.min(), reference.max()])
    left.plot(ends, ends, "k", lw=0.6)
    left.locator_params(nbins=5)
    left.set(
        xlabel="force, ff14SB / kJ mol$^{-1}$ nm$^{-1}$",
        ylabel="force, network",
        title=f"error {100 * errors.relative:.1f} % of rms",
    )
    middle.semilogy(100 * found.history["validation/force_rmse"] / data.force_rms)
    middle.set_yticks([3, 5, 10, 20, 30], labels=["3", "5", "10", "20", "30"])
    middle.set_yticks([], minor=True)
    middle.set(xlabel="epoch", ylabel="force error, validation / % of rms")
    right.plot(t, total - total[0], label="total")
    right.plot(t, np.array(log["kinetic"]) - log["kinetic"][0], lw=0.6, label="kinetic")
    right.set(xlabel="time / ps", ylabel="energy / kJ mol$^{-1}$", title="constant energy")
    right.legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"{output}, after {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="train_potential.png")
    parser.add_argument("--epochs", type=int, default=50)
    main(**vars(parser.parse_args()))
