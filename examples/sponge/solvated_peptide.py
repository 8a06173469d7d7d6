"""Alanine dipeptide in water, from AMBER files to a constant-pressure trajectory.

Loads a topology and coordinates as AMBER writes them, minimizes, lets the box find its density at 300 K and 1 bar, and
then runs it, and draws energies and backbone torsions. Published for comparison: TIP3P has 0.98 g/cm^3 at
298 K and 1 bar (Jorgensen & Jenson 1998 give 0.98 to 1.00, by cut-off); phi and psi of the dipeptide in water stay
mostly in the beta / PII (phi -150 to -60, psi 120 to 180) and alpha_R (phi -80, psi -40) basins.

    python examples/sponge/solvated_peptide.py [--output solvated_peptide.png] [--time "40 ps"]
"""

import argparse
from pathlib import Path

import numpy as np

from triskele import sponge


def main(output, time):
    files = sponge.example_files("alanine-dipeptide-water")
    system = sponge.load(*files, method="pme", cutoff=0.9, constraints="h-bonds")
    print(system)
    sim = sponge.Simulation(
        system,
        sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002),
        barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0),
        seed=1,
    )
    before = sim.energies()["potential"]
    sim.minimize()
    print(f"minimized: potential energy {before:.0f} -> {sim.energies()['potential']:.0f} kJ/mol")

    rows, frames = [], []

    def sample(sim):
        rows.append([sim.time, *(sim.energies()[name] for name in ("potential", "temperature", "density"))])
        frames.append(sim.positions)

    trajectory = Path(output).with_suffix(".dcd")
    sim.run(time=time, report=[sponge.Log(every=2500), sponge.DCD(trajectory, every=100), sponge.Callback(50, sample)])
    print(f"trajectory: {trajectory}")

    t, potential, temperature, density = np.array(rows).T
    settled = t > t[-1] / 3
    print(
        f"temperature {temperature[settled].mean():.1f} K, density {density[settled].mean():.3f} g/cm^3 (TIP3P: 0.98)"
    )
    angles = sponge.analysis.ramachandran(np.array(frames), system.topology)

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    for ax, values, label in [
        (axes[0, 0], potential, "potential energy [kJ/mol]"),
        (axes[0, 1], temperature, "temperature [K]"),
        (axes[1, 0], density, "density [g/cm$^3$]"),
    ]:
        ax.plot(t, values, lw=1)
        ax.set(xlabel="t [ps]", ylabel=label)
    angles.plot(axes[1, 1])
    figure.suptitle("Alanine dipeptide in TIP3P water, 300 K, 1 bar")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--output", default="solvated_peptide.png", help="path of the picture; the trajectory is written next to it"
    )
    parser.add_argument("--time", default="40 ps", help="length of the run")
    main(**vars(parser.parse_args()))
