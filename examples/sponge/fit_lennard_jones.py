"""Argon's epsilon and sigma from its structure and pressure, by three kinds of gradients.

A run at known parameters makes the data: g(r) and the pressure. From parameters that are 5 % and 1.5 % off, a fit
brings them back: by reweighting frames of ordinary runs, by integrating short trajectories backwards together with
their adjoint, and by reverse mode through the same trajectories with checkpoints.

    python examples/sponge/fit_lennard_jones.py [--output fit_lennard_jones.png]
"""

import argparse
import time

import numpy as np

from triskele import sponge
from triskele.sponge import differentiate, fitting, targets

SIGMA, EPSILON, MASS = 0.34, 0.99607, 39.948  # Rahman 1964: nm, kJ/mol, dalton
TEMPERATURE, DENSITY = 120.0, 1.25  # K, g/cm^3
R = np.linspace(0.3, 0.66, 25)
BATH = sponge.LangevinMiddle(temperature=TEMPERATURE, friction=2.0, timestep=0.01)


def argon(cells, sigma=SIGMA, epsilon=EPSILON):
    """Argon on a simple cubic lattice at the density of the liquid; it melts within a picosecond."""
    n = cells**3
    edge = (n * MASS / DENSITY * sponge.units.DENSITY) ** (1 / 3)
    x = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(-1, 3) * edge / cells
    system = sponge.System(sponge.Topology.of_particles(n, "AR", 18), np.full(n, MASS), edge, x)
    system.add(
        sponge.Nonbonded(np.zeros(n), np.full(n, sigma), np.full(n, epsilon), method="cutoff", cutoff=0.72, switch=0.6)
    )
    return system


def data(cells, steps):
    """g(r), pressure and their errors from a long run at the true parameters."""
    system = argon(cells)
    frames = fitting.sample(system, BATH, steps, every=100, equilibrate=2000, seed=99)
    g, p = differentiate.observables.rdf(R), differentiate.observables.pressure(system, TEMPERATURE)
    ensemble = differentiate.Ensemble(differentiate.explicit_energy(system), TEMPERATURE).add(
        system.params(), frames.positions, frames.boxes
    )
    return [ensemble.values(o, system.params()).mean(axis=0) for o in (g, p)]


def main(output, rounds, steps):
    wanted = ["nonbonded/epsilons", "nonbonded/sigmas"]
    ways = {
        "reweighting": (5, fitting.Reweighting(BATH, steps=steps // 2, every=100, equilibrate=1000)),
        "reversible adjoint": (
            4,
            fitting.Trajectories(BATH, steps=200, every=10, relax=80, replicas=8, equilibrate=500, method="reversible"),
        ),
        "reverse mode": (
            4,
            fitting.Trajectories(BATH, steps=200, every=10, relax=80, replicas=8, equilibrate=500, method="checkpoint"),
        ),
    }
    print(f"true parameters: epsilon {EPSILON:.4f} kJ/mol, sigma {SIGMA:.4f} nm")
    known, found = {}, {}
    for name, (cells, way) in ways.items():
        if cells not in known:
            known[cells] = data(cells, steps)
        g, p = known[cells]
        start = time.perf_counter()
        found[name] = fit = sponge.fit(
            argon(cells, 0.985 * SIGMA, 1.05 * EPSILON),
            [targets.rdf(R, g, error=0.03), targets.pressure(p, error=30.0)],
            wanted,
            by=way,
            rounds=rounds,
        )
        (epsilon, sigma), (e1, e2) = ([d[k] for k in wanted] for d in (fit.parameters, fit.errors))
        print(
            f"{name:<19} {cells**3:>4} atoms   epsilon {epsilon:.4f} ± {e1:.4f}   sigma {sigma:.5f} ± {e2:.5f}   "
            f"pressure {float(fit.reached['pressure']):6.0f} "
            f"of {float(p):.0f} bar   {len(fit.history)} rounds, {time.perf_counter() - start:.0f} s"
        )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for size, (name, fit) in zip((5, 9, 4), found.items()):  # both adjoints give the same, one on top of the other
        rounds = np.arange(len(fit.history) + 1)
        for ax, key, start in zip(axes, wanted, (1.05 * EPSILON, 0.985 * SIGMA)):
            ax.plot(
                rounds, [start, *[r.parameters[key] for r in fit.history]], "o-", ms=size, lw=0.4 * size, label=name
            )
    for ax, true, label in zip(axes, (EPSILON, SIGMA), ("epsilon (kJ/mol)", "sigma (nm)")):
        ax.axhline(true, color="0.5", ls=":")
        ax.set(xlabel="round", ylabel=label)
        ax.xaxis.get_major_locator().set_params(integer=True)
    axes[1].legend(frameon=False)
    axes[2].plot(R, known[5][0], color="0.7", lw=5, label="data")
    axes[2].plot(R, found["reweighting"].reached["rdf"], "k-", lw=1, label="fit")
    axes[2].set(xlabel="r (nm)", ylabel="g(r)")
    axes[2].legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="fit_lennard_jones.png", help="where the picture goes")
    parser.add_argument("--rounds", type=int, default=6, help="of each fit, at most")
    parser.add_argument("--steps", type=int, default=40_000, help="of the runs that make the data")
    main(**vars(parser.parse_args()))
