"""Melting point of copper by coexistence: half of a crystal is melted, and the interface moves one way or the other.

At each temperature, at constant pressure, the potential energy falls while the crystal grows, and rises while it melts.
The melting point is where neither happens. Without a file, tables are made from the potential of A. P. Sutton and J.
Chen, Philos. Mag. Lett. 61, 139 (1990), brought to zero at two lattice constants: it melts near 860 K, far below copper
(1358 K). Potentials that were fitted to more of copper, such as Cu01.eam.alloy of NIST's Interatomic Potentials
Repository (Y. Mishin et al., Phys. Rev. B 63, 224106 (2001)), come near it; give them temperatures around 1330 K.

    python examples/sponge/melting_copper.py [--file Cu01.eam.alloy] [--cells 6 6 16] [--time 12]
        [--temperatures 700 800 900 1000 1100] [--output melting_copper.png]
"""

import argparse

import numpy as np

from triskele import sponge
from triskele.sponge import units

CONSTANT = 0.3615  # nm, at rest


def sutton_chen(elements):
    """Copper: epsilon 1.2382e-2 eV, c 39.432, a 3.61 Angstrom, exponents 9 and 6; brought to zero at 2 a."""
    epsilon, c, a, points = 1.2382e-2 * units.eV, 39.432, 0.361, 2000
    cutoff = 2 * a
    r = np.linspace(0, cutoff, points)
    x = np.maximum(r, 0.3 * a)  # no pair comes closer

    def ending(n):  # with no step in value and slope at the cut-off
        return (a / x) ** n - 0.5**n + n * 0.5**n * (x / cutoff - 1)

    rho = np.linspace(0, 200, points)
    return sponge.EAM(
        ["Cu"],
        np.zeros(len(elements), int),
        embedding=-epsilon * c * np.sqrt(rho)[None],
        density=ending(6)[None],
        pair=(epsilon * r * ending(9))[None],
        drho=rho[1],
        dr=r[1],
        cutoff=cutoff,
    )


def copper(file, cells, constant):
    system = sponge.build.crystal("Cu", "fcc", constant, cells)
    elements = system.topology.elements
    system.add(sponge.EAM.read(file, elements) if file else sutton_chen(elements))
    return system


def run(system, temperature, time, coupling="anisotropic", record=0.05):
    """Run at constant pressure (or volume); returns the state, and times and potential energies per atom."""
    barostat = None
    if coupling:
        barostat = sponge.StochasticCellRescaling(pressure=1.0, coupling=coupling, compressibility=1e-6)
    bath = sponge.LangevinMiddle(temperature=temperature, friction=1.0, timestep=0.002)
    simulation = sponge.Simulation(system, bath, barostat=barostat, seed=1)
    rows = []
    for _ in range(round(time / record)):
        simulation.run(round(record / 0.002))
        rows.append((simulation.step * 0.002, simulation.energies()["potential"] / system.n))
    system.positions, system.box = simulation.positions, simulation.box
    system.velocities = simulation.velocities
    return simulation, np.array(rows)


def main(file, cells, time, temperatures, output):
    middle = float(np.mean(temperatures))
    small = copper(file, 5, CONSTANT)
    settle = min(4.0, time)  # ps
    run(small, middle, settle, "isotropic")
    constant = float(np.mean([run(small, middle, settle / 8, "isotropic")[0].box[0, 0] for _ in range(8)])) / 5
    print(f"lattice constant at {middle:.0f} K: {constant:.4f} nm")

    system = copper(file, cells, constant)
    lower = np.flatnonzero(system.positions[:, 2] < 0.5 * system.box[2, 2] - 0.01)
    hold = sponge.PositionRestraint(lower, k=1e4, reference=system.positions[lower])
    system.add(hold)
    run(system, 3 * middle, 1.25 * settle, None)
    run(system, middle, 0.5 * settle, None)
    half = system.positions, system.box

    slopes, curves = [], []
    for temperature in temperatures:
        system = copper(file, cells, constant)
        system.positions, system.box = half
        _, rows = run(system, temperature, time)
        late = rows[:, 0] > 0.25 * time
        slopes.append(np.polyfit(*rows[late].T, 1)[0])
        curves.append(rows)
        print(f"{temperature:6.0f} K: {'melts' if slopes[-1] > 0 else 'freezes':8s} {1000 * slopes[-1]:8.2f} J/mol/ps")
    point, fit = melting_point(np.array(temperatures, float), np.array(slopes))
    found = (
        f"{point:.0f} K"
        if fit is not None
        else (f"{'below' if slopes[0] > 0 else 'above'} all of these temperatures, choose others")
    )
    print(f"melting point: {found} ({system.n} atoms, {time:g} ps at each temperature)")
    if output:
        picture(output, temperatures, slopes, curves, point, fit, found)
    return point


def melting_point(temperatures, slopes):
    """Zero of the straight line through the slopes next to the change of sign: far from it, the law is not linear.

    Without a change of sign there is no such line.
    """
    if np.all(slopes > 0) or np.all(slopes < 0):
        return np.nan, None
    near = np.argsort(np.abs(slopes))[:4]
    fit = np.polyfit(temperatures[near], slopes[near], 1)
    return -fit[1] / fit[0], fit


def picture(output, temperatures, slopes, curves, point, fit, found):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for temperature, rows in zip(temperatures, curves):
        left.plot(rows[:, 0], rows[:, 1] - rows[0, 1], label=f"{temperature:.0f} K")
    left.set(xlabel="time (ps)", ylabel="potential energy (kJ/mol per atom)")
    left.legend()
    right.plot(temperatures, 1000 * np.array(slopes), "o")
    right.axhline(0, color="gray", lw=0.8)
    if fit is not None:
        right.plot(temperatures, 1000 * np.polyval(fit, temperatures), "-")
        right.axvline(point, color="gray", lw=0.8, ls="--")
    right.set(xlabel="temperature (K)", ylabel="slope (J/mol/ps)", title=f"melting point {found}")
    figure.savefig(output, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", help="a table of LAMMPS: funcfl, setfl or Finnis-Sinclair")
    parser.add_argument("--cells", type=int, nargs=3, default=[6, 6, 16])
    parser.add_argument("--time", type=float, default=12.0, help="ps at each temperature")
    parser.add_argument("--temperatures", type=float, nargs="+", default=[700, 800, 900, 1000, 1100])
    parser.add_argument("--output", default="melting_copper.png")
    options = parser.parse_args()
    main(options.file, options.cells, options.time, options.temperatures, options.output)
