"""Lysozyme in water from a PDB file of its heavy atoms: hydrogens, water, salt, and the first steps.

T4 lysozyme (mutant L99A: 162 residues, charge +8 at pH 7) becomes a system of some 22,000 atoms (Amber ff14SB, TIP3P,
0.1 mol/l of NaCl, particle-mesh Ewald). It is minimized, heated with the protein held by springs, and then set free at
300 K and 1 bar. The protein stays near its crystal structure: the root mean square deviation of the C-alpha atoms is
below 0.1 nm in the first picoseconds. Its coordinates come from
openmmtools (MIT license, data/LICENSE-openmmtools.txt).

    python examples/sponge/lysozyme.py [--time "4 ps"] [--output lysozyme.png]
"""

import argparse
import time as clock
from pathlib import Path

import numpy as np

from triskele import sponge
from triskele.sponge import cv

FIELD = ["amber14/protein.ff14SB", "amber14/tip3p"]
PDB = Path(__file__).parent / "data" / "t4_lysozyme.pdb"


def solvated():
    protein = sponge.build.add_hydrogens(sponge.read_pdb(PDB), ph=7.0, missing_atoms=True)
    full = sponge.build.solvate(protein, FIELD, padding=0.9, shape="dodecahedron", ionic_strength=0.1)
    return sponge.create_system(full, FIELD, constraints="h-bonds", cutoff=0.9), protein.topology.n


def main(time, output):
    began = clock.perf_counter()
    system, size = solvated()
    print(f"{system}\n{size} atoms of the protein; built in {clock.perf_counter() - began:.0f} s")

    heavy = np.flatnonzero(system.topology.elements[:size] > 1)
    held = system.copy()
    held.add(sponge.PositionRestraint(heavy, k=1000.0, reference=system.positions[heavy]))
    sim = sponge.Simulation(held, sponge.LangevinMiddle(temperature=300, friction=10.0, timestep=0.002), seed=1)
    sim.minimize(max_steps=200)
    sim.run(time="1 ps")

    free = sponge.Simulation(
        system,
        sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002),
        state=sim.state(),
        seed=2,
        barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0),
    )
    alpha = np.flatnonzero(system.topology.names[:size] == "CA")
    record = sponge.Variables(
        {
            "rmsd": cv.rmsd(alpha, system.positions[alpha]),
            "gyration": cv.radius_of_gyration(np.arange(size), system.masses[:size]),
        },
        every=10,
    )
    temperatures = []
    began = clock.perf_counter()
    free.run(time=time, report=[record, sponge.Callback(50, lambda sim: temperatures.append(sim.temperature))])
    speed = free.time / 1000 / (clock.perf_counter() - began) * 86400
    print(f"{free.time:.1f} ps at {speed:.1f} ns/day, {np.mean(temperatures[len(temperatures) // 2 :]):.0f} K")
    print(
        f"C-alpha deviation from the crystal {record['rmsd'][-1]:.3f} nm, "
        f"radius of gyration {record['gyration'][-1]:.3f} nm"
    )

    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from triskele.core.show import plots

    with plots.style():
        figure, axes = plt.subplots(1, 2, figsize=(7.0, 2.6), layout="constrained")
        for ax, name, label in zip(
            axes, ("rmsd", "gyration"), ("C-alpha deviation [nm]", "radius of gyration [nm]"), strict=True
        ):
            ax.plot(record.steps * 0.002, record[name])
            ax.set(xlabel="t [ps]", ylabel=label)
        figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--time", default="4 ps", help="length of the free run")
    parser.add_argument("--output", default="lysozyme.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
