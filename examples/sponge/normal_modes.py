"""Vibrations of a molecule, and how they answer to the force field, from derivatives of the energy.

The Hessian of the potential energy, `core.hessian(energy)`, gives the normal modes of alanine dipeptide in vacuum; one
more derivative gives the slope of every frequency with respect to the stiffness of the carbonyl bonds. The six rigid
motions must come out at zero; amide I (the C=O stretch) is seen near 1,700 per cm in experiments.

    python examples/sponge/normal_modes.py [--output normal_modes.png]
"""

import argparse

import numpy as np

from triskele import core, sponge

PER_CM = 33.35641  # 1 / ps in 1 / cm: 1e12 / c, with c in cm/s


def main(output):
    system = sponge.load(*sponge.example_files("alanine-dipeptide"), method="none")
    sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001), precision="double")
    sim.minimize(tolerance=1e-6, max_steps=20_000)
    x, params = sim.positions.copy(), system.params()
    energy = system.energy_function()
    print(f"minimum: {system.energy(x):.3f} kJ/mol, largest force {np.abs(system.forces(x)).max():.1e} kJ/mol/nm")

    n = system.n
    weight = np.repeat(system.masses**-0.5, 3)
    hessian = core.jit(core.hessian(lambda x: energy(params, x, None)))(x).reshape(3 * n, 3 * n)
    squares, modes = np.linalg.eigh(weight[:, None] * hessian * weight)
    frequency = np.sign(squares) * np.sqrt(np.abs(squares)) / (2 * np.pi) * PER_CM
    print("rigid motions (per cm):", " ".join(f"{f:.3f}" for f in np.sort(np.abs(frequency))[:6]))

    # C=O bonds: by how much does each frequency grow with their stiffness? d(w^2) = v' (dH/dk) v
    element = system.topology.elements
    pairs = system["bond"].atoms
    carbonyl = np.flatnonzero((np.sort(element[pairs], axis=1) == [6, 8]).all(axis=1))

    def curvature(k, mode):
        """Second derivative of the energy along a mode, as a function of the carbonyl bonds' stiffness."""
        changed = {**params, "bond": {**params["bond"], "k": core.index_update(params["bond"]["k"], carbonyl, k)}}
        gradient = core.grad(lambda x: energy(changed, x, None))
        direction = (weight * mode).reshape(n, 3)
        return np.sum(direction * core.jvp(gradient, (x,), (direction,))[1])

    slope = core.jit(core.grad(curvature))
    k0 = params["bond"]["k"][carbonyl]
    share = np.array([np.sum(slope(k0, v) * k0) for v in modes.T]) / np.maximum(squares, 1e-9)
    amide = 6 + np.argsort(share[6:])[-2:]
    for m in np.sort(amide):
        print(f"carbonyl stretch {frequency[m]:.0f} per cm: {100 * share[m]:.0f} % of its curvature is the C=O bonds'")

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
    lines = ax.vlines(frequency[6:], 0, 1, colors=plt.cm.viridis(np.clip(share[6:], 0, 1)))
    lines.set_linewidth(2)
    figure.colorbar(plt.cm.ScalarMappable(cmap="viridis"), ax=ax, label="share of the C=O bonds in the curvature")
    ax.set(
        xlabel="wave number (cm$^{-1}$)",
        yticks=[],
        title="Normal modes of alanine dipeptide (ff96, vacuum)",
        ylim=(0, 1.1),
    )
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="normal_modes.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
