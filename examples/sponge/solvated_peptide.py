"""Alanine dipeptide in water, from AMBER files to a constant-pressure trajectory.

Loads a topology and coordinates as AMBER writes them, minimises, lets the box find its density at 300 K and 1 bar, and
goes on to a run whose energies and backbone torsions it draws. Published for comparison: TIP3P has 0.98 g/cm^3 at
298 K and 1 bar (Jorgensen & Jenson 1998 give 0.98 to 1.00, by cut-off); phi and psi of the dipeptide in water stay
mostly in the beta / PII (phi -150 to -60, psi 120 to 180) and alpha_R (phi -80, psi -40) basins.

    python examples/sponge/solvated_peptide.py [--output solvated_peptide.png] [--time "40 ps"]
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np

from triskele import sponge

DATA = Path(__file__).parent / "data"


def main(output, time):
    system = sponge.load(DATA / "alanine-dipeptide.prmtop.gz", DATA / "alanine-dipeptide.crd.gz",
                         method="pme", cutoff=0.9, constraints="h-bonds")  # fmt: skip
    print(system)
    sim = sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002),
                            barostat=sponge.MonteCarloBarostat(pressure=1.0, temperature=300), seed=1)  # fmt: skip
    before = sim.energies()["potential"]
    sim.minimize()
    print(f"minimised: potential energy {before:.0f} -> {sim.energies()['potential']:.0f} kJ/mol")

    with tempfile.TemporaryDirectory() as folder:
        trajectory, table = Path(output).with_suffix(".dcd"), Path(folder) / "run.csv"
        sim.run(time=time, report=[sponge.Log(every=2500), sponge.CSV(table, every=100), sponge.DCD(trajectory, every=100)])
        columns = np.genfromtxt(table, delimiter=",", names=True)
        frames = sponge.analysis.read_dcd(trajectory)
    print(f"trajectory: {trajectory}, {len(frames.positions)} frames")

    settled = len(columns) // 3
    density = columns["density"][settled:]
    print(f"temperature {columns['temperature'][settled:].mean():.1f} K, density {density.mean():.3f} g/cm^3 (TIP3P: 0.98)")
    angles = sponge.analysis.ramachandran(system.topology, frames.positions)

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(9, 7), layout="constrained")
    t = columns["time"]
    for ax, name, label in zip(axes.flat, ["potential", "temperature", "density"],
                               ["potential energy (kJ/mol)", "temperature (K)", "density (g/cm$^3$)"]):  # fmt: skip
        ax.plot(t, columns[name], lw=1)
        ax.set(xlabel="time (ps)", ylabel=label)
    angles.plot(axes[1, 1])
    figure.suptitle("Alanine dipeptide in TIP3P water, 300 K, 1 bar")
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="solvated_peptide.png", help="where the picture goes; the trajectory goes beside it")
    parser.add_argument("--time", default="40 ps", help="length of the run")
    main(**vars(parser.parse_args()))
