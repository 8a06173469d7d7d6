"""A network that corrects a force field, trained in this process and sampled by integrated tempering (SITS).

Butane as a chain of four united atoms has a trans state and two gauche states. Its force field without the torsion is
taken as known, and an equivariant network (PaiNN) learns what is missing from configurations at 700 K. Simulations with
both, tempered from 280 to 700 K, give the free energy along the torsion at 300 K, which must be that of the whole force
field under the same tempering.

    python examples/hybrid/network_sits.py [--steps 1000000] [--epochs 40] [--output network_sits.png]
"""

import argparse

import numpy as np

from triskele import core, sponge
from triskele.sponge import analysis, cv, learn, units

KCAL = units.kcal_per_mol
T0 = 300.0
FRAMES = 1500


def butane(*torsion):
    """Four carbons with bonds and angles, and the potential of the torsion."""
    angle = np.radians(112.0)
    bond = 0.153 * np.array([np.sin(angle / 2), np.cos(angle / 2), 0.0])
    x = np.cumsum([np.zeros(3), bond, bond * [1, -1, 1], bond], axis=0)
    masses = [15.035, 14.027, 14.027, 15.035]
    system = sponge.System(sponge.Topology.of_particles(4, "C", element=6), masses, positions=x)
    system.add(sponge.harmonic_bond([[0, 1], [1, 2], [2, 3]], k=2 * 268 * KCAL * 100, r0=0.153))
    system.add(sponge.harmonic_angle([[0, 1, 2], [1, 2, 3]], k=2 * 63 * KCAL, theta0=angle))
    for potential in torsion:
        system.add(potential)
    return system


def opls_torsion():
    """Jorgensen et al., J. Am. Chem. Soc. 106 (1984) 6638."""
    return sponge.periodic_torsion(
        [[0, 1, 2, 3]] * 3,
        k=np.array([1.522, -0.315, 3.207]) / 2 * KCAL,
        periodicity=[1, 2, 3],
        phase=[0.0, np.pi, 0.0],
    )


def missing(simulation):
    """Configurations of a simulation, with the energies and forces of the torsion alone."""
    frames = learn.record(simulation, FRAMES, every=200)
    known = butane()
    energies = [e - known.energy(x) for e, x in zip(frames.energies, frames.positions, strict=True)]
    forces = [f - known.forces(x) for f, x in zip(frames.forces, frames.positions, strict=True)]
    return learn.Dataset(frames.elements, frames.positions, energies, forces)


def thermostat(temperature):
    return sponge.LangevinMiddle(temperature=temperature, friction=5.0, timestep=0.001)


def sample(system, steps):
    """Torsion angles of a tempered run at 300 K, with their weights."""
    sits = sponge.SITS(temperatures=units.ladder(280, 700, 20))
    torsion = sponge.Variables({"phi": cv.torsion(0, 1, 2, 3)}, every=50)
    simulation = sponge.Simulation(system, thermostat(T0), sampling=[sits], seed=2)
    simulation.thermalize()
    simulation.run(steps // 4)  # learns the weights of the temperatures
    sits.produce()
    simulation.run(steps, report=torsion)
    return np.asarray(torsion["phi"]), sits.weights(torsion.steps)


def main(steps, epochs, output):
    reference = butane(opls_torsion())
    simulation = sponge.Simulation(reference, thermostat(700.0), seed=1)
    simulation.thermalize()
    simulation.run(5000)
    train, validation, test = missing(simulation).split(FRAMES - 400, 200, 200, seed=1)
    net = learn.PaiNN.init(core.random.key(0), ["C"], cutoff=0.6, features=16, layers=2)
    found = learn.train(net, train, epochs, validation=validation, rate=5e-3)
    print(f"errors on {len(test)} other configurations: {learn.evaluate(found.network, test)}")

    profiles = {}
    for name, system in (("force field", reference), ("network", butane(sponge.NeuralPotential(found.network)))):
        phi, weights = sample(system, steps)
        profiles[name] = analysis.profile(phi, weights, temperature=T0, bins=36, period=(-np.pi, np.pi))
        print(f"{name:<12} fraction trans: {analysis.mean(np.abs(phi) > 2 * np.pi / 3, weights)}")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(5, 3.6), layout="constrained")
    for name, profile in profiles.items():
        profile.plot(axes, degrees=True, label=name)
    axes.legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--output", default="network_sits.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
