"""A pair potential of your own, at the speed of the built-in ones: liquid argon with Buckingham's potential.

The function below is all there is to write. The core differentiates it, and the pair loop is generated from it. The
run is compared with Lennard-Jones argon, once in the built-in kernel and once written by hand in the same way.

    python examples/sponge/your_own_potential.py [--output your_own_potential.png]
"""

import argparse
import math
import time

import numpy as np

from triskele import sponge

SIGMA, EPSILON, MASS = 0.34, 0.99607, 39.948  # Rahman 1964: nm, kJ/mol, dalton
DENSITY, TEMPERATURE = 1.374, 94.4  # g/cm^3, K
CELLS = 10


@sponge.pair_potential
def buckingham(r, a, b, c):
    return a * math.exp(-b * r) - c / r**6


@sponge.pair_potential
def my_lennard_jones(r, sigma, epsilon):
    x = (sigma / r) ** 6
    return 4 * epsilon * (x * x - x)


def argon(potential):
    """4,000 atoms on a face-centered cubic lattice at the density of the liquid."""
    n = 4 * CELLS**3
    edge = (n * MASS / DENSITY * sponge.units.DENSITY) ** (1 / 3)
    basis = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    cells = np.stack(np.meshgrid(*[np.arange(CELLS)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    system = sponge.System(
        sponge.Topology.of_particles(n, "AR", 18),
        np.full(n, MASS),
        box=edge,
        positions=(cells + basis).reshape(-1, 3) * edge / CELLS,
    )
    system.add(potential(n))
    return system


def main(output):
    cutoff = 2.5 * SIGMA
    # exp-6 with the depth and place of the Lennard-Jones minimum
    alpha, rm = 14.0, 2 ** (1 / 6) * SIGMA  # 14 is the usual steepness for rare gases
    b = alpha / rm
    a, c = EPSILON * 6 / (alpha - 6) * math.exp(alpha), EPSILON * alpha / (alpha - 6) * rm**6
    print(f"exp-6: A {a:.4g} kJ/mol, B {b:.4g} /nm, C {c:.4g} kJ/mol nm^6")

    potentials = {
        "Lennard-Jones, built in": lambda n: sponge.Nonbonded(
            np.zeros(n),
            np.full(n, SIGMA),
            np.full(n, EPSILON),
            method="cutoff",
            cutoff=cutoff,
            dispersion_correction=False,
        ),
        "Lennard-Jones, by hand": lambda n: my_lennard_jones(sigma=SIGMA, epsilon=EPSILON, cutoff=cutoff),
        "exp-6, by hand": lambda n: buckingham(a=a, b=b, c=c, cutoff=cutoff),
    }
    found = {}
    for name, potential in potentials.items():
        system = argon(potential)
        sim = sponge.Simulation(
            system, sponge.LangevinMiddle(temperature=TEMPERATURE, friction=1.0, timestep=0.01), seed=1
        )
        sim.run(2000)
        start, frames = time.perf_counter(), []
        sim.run(2000, report=[sponge.Callback(100, lambda sim, frames=frames: frames.append(sim.positions))])
        rate = 2000 / (time.perf_counter() - start)
        found[name] = sponge.analysis.rdf(np.array(frames), boxes=sim.box, r_max=1.6)
        peak = found[name].r[np.argmax(found[name].g)]
        print(
            f"{name:<24} {rate:6.0f} steps/s   potential {sim.energies()['potential'] / system.n:.3f} kJ/mol per "
            f"atom   "
            f"first peak of g(r) at {peak:.3f} nm"
        )
    print("published: first peak of liquid argon at 0.37 nm (Yarnell et al. 1973)")

    import matplotlib

    matplotlib.use("Agg")
    from triskele.core.show import plots

    with plots.style(legend_fontsize=6, axes_titlesize=8):
        figure, (left, middle, right) = plots.figure(1, 3, width="page", height=5.5)
        r = np.linspace(0.31, 0.85, 300)
        left.plot(r, my_lennard_jones.function(r, SIGMA, EPSILON), label="Lennard-Jones")
        left.plot(r, [buckingham.function(x, a, b, c) for x in r], label="exp-6")
        left.set(xlabel="r [nm]", ylabel="energy [kJ/mol]", ylim=(-1.2, 1.5))
        left.legend(frameon=False)
        built_in, by_hand, other = found.values()
        middle.plot(built_in.r, built_in.g, label="Lennard-Jones")
        middle.plot(other.r, other.g, label="exp-6")
        middle.set(xlabel="r [nm]", ylabel="g(r)", title="liquid argon, 94.4 K")
        right.plot(built_in.r, by_hand.g - built_in.g, label="Lennard-Jones, by hand", color="C2")
        right.plot(built_in.r, other.g - built_in.g, label="exp-6", color="C1")
        right.set(xlabel="r [nm]", ylabel="difference in g(r)", title="from the built-in potential")
        right.legend(frameon=False)
        figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="your_own_potential.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
