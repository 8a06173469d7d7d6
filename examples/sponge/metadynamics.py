"""Free-energy surface of alanine dipeptide in vacuum by well-tempered metadynamics in phi and psi.

Hills of 1.2 kJ/mol and a bias factor of 8 carry the molecule over barriers that plain dynamics of this length crosses
once or never; the bias converges to -(1 - 1/8) F (Barducci, Bussi, Parrinello, Phys. Rev. Lett. 100, 020603 (2008)).
The minima C7eq (phi, psi near -80, 70 degrees), C5 (-150, 160) and C7ax (60, -50) are printed with error bars from
blocks of the run, each reweighted to the unbiased ensemble (Tiwary, Parrinello, J. Phys. Chem. B 119, 736 (2015)).

    python examples/sponge/metadynamics.py [--ns 10] [--output metadynamics.png]
"""

import argparse
import time

import numpy as np

from triskele import sponge
from triskele.sponge import cv

MINIMA = {"C7eq": (-80.0, 70.0), "C5": (-150.0, 160.0), "C7ax": (60.0, -50.0)}  # degrees: where to look for them


def main(ns, output):
    system = sponge.load(*sponge.example_files("alanine-dipeptide"), method="none", constraints="h-bonds")
    phi, psi = cv.torsion(4, 6, 8, 14, name="phi"), cv.torsion(6, 8, 14, 16, name="psi")
    bias = sponge.Metadynamics([phi, psi], sigma=0.35, height=1.2, every=500, bias_factor=8, record=100)
    sim = sponge.Simulation(
        system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), seed=1, sampling=[bias]
    )
    sim.minimize()
    began = time.perf_counter()
    sim.run(time=f"{ns} ns")
    took = time.perf_counter() - began
    print(
        f"{ns} ns in {took:.0f} s ({sim.step / took:,.0f} steps/s), {np.count_nonzero(bias.heights)} hills, "
        f"the last of {bias.heights[bias.heights > 0][-1]:.3f} kJ/mol"
    )

    surface = bias.free_energy(blocks=4)  # from the weights of states, and from the bias itself
    degrees = [np.degrees(axis) for axis in surface.axes]
    for name, place in MINIMA.items():
        near = [np.abs((axis - at + 180) % 360 - 180) < 40 for axis, at in zip(degrees, place)]
        local = np.where(near[0][:, None] & near[1], surface.value, np.inf)
        i, j = np.unravel_index(np.argmin(local), local.shape)
        print(
            f"{name:5s} phi {degrees[0][i]:7.1f}  psi {degrees[1][j]:7.1f}  F {surface.value[i, j]:6.2f} +- "
            f"{surface.error[i, j]:.2f} kJ/mol"
        )

    # populations of phi < 0 and phi > 0 from the weights of single states, which need no grid
    weights, late = bias.weights(), len(bias.steps) // 5
    right = (bias.values[late:, 0] > 0) & (bias.values[late:, 0] < 2.2)
    print(f"population of C7ax: {np.sum(weights[late:] * right) / weights[late:].sum():.4f}")

    import matplotlib

    matplotlib.use("Agg")
    from triskele.core.show import plots

    with plots.style():
        figure, (left, right) = plots.figure(1, 2, width="page", height=7.0)
        plots.heatmap(left, *degrees, surface.from_bias, "free energy [kJ/mol]", vmax=60)
        surface.plot_error(right, degrees=True, highest=3)
        for ax in (left, right):
            ax.set(xlabel="φ [°]", ylabel="ψ [°]", xticks=range(-180, 181, 90), yticks=range(-180, 181, 90))
        for name, place in MINIMA.items():
            left.annotate(name, place, color="white", ha="center", va="center")
        figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ns", type=float, default=10.0, help="length of the run")
    parser.add_argument("--output", default="metadynamics.png")
    args = parser.parse_args()
    main(args.ns, args.output)
