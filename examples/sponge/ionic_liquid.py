"""An ionic liquid from its ions: 1,3-dimethylimidazolium chloride in the CL&P force field at 425 K.

Ions are packed into a box half as dense as the liquid, which a barostat then compresses. The density, the radial
distribution functions of the ions and their mean square displacement come from the second half of the run. Charges are
fixed here, and the ions are slow: expect displacements of a few tenths of a nanometer, and give a nanosecond or more to
diffusion coefficients.

    python examples/sponge/ionic_liquid.py [--pairs 48] [--time 80] [--temperature 425] [--output ionic_liquid.png]
"""

import argparse
from pathlib import Path

import numpy as np

from triskele import sponge
from triskele.sponge import analysis

CATION = Path(__file__).parent / "data" / "dimethylimidazolium.pdb"


def liquid(pairs):
    cation = sponge.read_pdb(CATION)
    chloride = sponge.Structure(sponge.Topology.of_particles(1, "CL", 17), np.zeros((1, 3)))
    box = sponge.build.pack([(cation, pairs), (chloride, pairs)], density=0.5)
    return sponge.create_system(box, "clp/il", constraints="h-bonds", cutoff=0.9)


def main(pairs, time, temperature, output):
    system = liquid(pairs)
    print(system)
    simulation = sponge.Simulation(system, sponge.LangevinMiddle(temperature, friction=1.0, timestep=0.002), seed=1,
                                   barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0))
    simulation.minimize(tolerance=100)
    frames, boxes, density = [], [], []
    steps, every = round(time / 0.002), 50
    for step in range(0, steps, every):
        simulation.run(every)
        density.append(simulation.system.masses.sum() / np.linalg.det(simulation.box) * sponge.units.DENSITY)
        if step >= steps // 2:
            frames.append(simulation.positions)
            boxes.append(simulation.box)
    frames, boxes = np.array(frames), np.array(boxes)
    late = np.array(density[len(density) // 2:])
    blocks = late[: len(late) // 4 * 4].reshape(4, -1).mean(axis=1)
    print(f"density at {temperature:g} K: {late.mean():.3f} ± {blocks.std(ddof=1) / 2:.3f} g/cm^3")

    between = np.flatnonzero(system.topology.names == "C1")  # the carbon between both nitrogens
    chlorides = np.flatnonzero(system.topology.elements == 17)
    functions = {}
    for name, first, second in (("cation - chloride", between, chlorides), ("cation - cation", between, between),
                                ("chloride - chloride", chlorides, chlorides)):
        functions[name] = analysis.rdf(frames, boxes, first, second, bins=100)
        r, g = functions[name].r, functions[name].g
        print(f"{name:20s} first peak at {r[np.argmax(g)]:.3f} nm, g = {g.max():.2f}")
    moved = {name: analysis.msd(frames, 0.002 * every, atoms) for name, atoms in (("cation", between),
                                                                                  ("chloride", chlorides))}
    for name, found in moved.items():
        print(f"{name:20s} root of the mean square displacement after {found.time[-1] / 2:.0f} ps: "
              f"{np.sqrt(found.value[len(found.value) // 2]):.2f} nm")
    if output:
        picture(output, 0.002 * every * np.arange(1, len(density) + 1), density, functions, moved)
    return late.mean(), functions


def picture(output, times, density, functions, moved):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    left.plot(times, density)
    left.set(xlabel="time (ps)", ylabel="density (g/cm$^3$)")
    for name, found in functions.items():
        middle.plot(found.r, found.g, label=name)
    middle.axhline(1, color="gray", lw=0.8)
    middle.set(xlabel="distance (nm)", ylabel="g(r)")
    middle.legend()
    for name, found in moved.items():
        right.plot(found.time, found.value, label=name)
    right.set(xlabel="time (ps)", ylabel="mean square displacement (nm$^2$)")
    right.legend()
    figure.savefig(output, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=48)
    parser.add_argument("--time", type=float, default=80.0, help="ps")
    parser.add_argument("--temperature", type=float, default=425.0, help="K")
    parser.add_argument("--output", default="ionic_liquid.png", help="where the picture goes")
    options = parser.parse_args()
    main(options.pairs, options.time, options.temperature, options.output)
