"""Density and radial distribution functions of 1,3-dimethylimidazolium chloride by LAMMPS: ``python make_density.py``.

64 pairs of ions at 425 K and 1 bar, from where `compressed` of the example leaves them, as `make_liquid.py` writes them
for LAMMPS: fixed charges for 150 ps in steps of 2 fs, with the thermostat and barostat of Nose and Hoover, and
oscillators for 25 ps in steps of 1 fs, which have a thermostat of their own (fix tgnpt/drude). Bonds to hydrogen are
rigid (fix shake). The first fifth of each run does not count. Takes an hour.
"""

import json
import tempfile
from pathlib import Path

import make_liquid
import numpy as np

from triskele import sponge

# at this accuracy, PPPM raises the pressure by some 30 atm, which is 0.1 % of the density
PAIRS, TEMPERATURE, CUTOFF, ACCURACY = 64, 425, 0.9, 1e-4
EVERY = 0.25  # ps between frames
LENGTHS, STEPS = {"fixed": 150, "drude": 25}, {"fixed": 0.002, "drude": 0.001}  # ps
FIXES = {
    "fixed": f"fix 2 all npt temp {TEMPERATURE} {TEMPERATURE} 200 iso 1 1 2000",
    "drude": f"comm_modify vel yes\nfix 2 all tgnpt/drude temp {TEMPERATURE} {TEMPERATURE} 100 1 20 iso 1 1 1000",
}


def frames(kind, system):
    """Positions (nm) and edges of the box every 0.25 ps."""
    (*_, role, mass), steps = make_liquid.kinds(system)[0].T, STEPS[kind]
    real, light = (" ".join(map(str, np.flatnonzero(of) + 1)) for of in (role < 2, (role < 2) & (mass < 1.1)))
    with tempfile.TemporaryDirectory() as folder:
        program = make_liquid.start(
            system,
            system.positions,
            Path(folder),
            CUTOFF,
            ACCURACY,
            kspace="pppm",
            tail="yes",
            arguments=("-sf", "opt"),
        )
        program.commands_string(f"""
group real type {real}
neighbor 2.0 bin
neigh_modify every 1 delay 0 check yes
timestep {1000 * steps}
velocity all create {TEMPERATURE} 4321
fix 1 real shake 1e-5 100 0 t {light}
{FIXES[kind]}""")
        for _ in range(round(LENGTHS[kind] / EVERY)):
            program.command(f"run {round(EVERY / steps)} post no")
            order = np.argsort(np.array(program.numpy.extract_atom("id"))[: system.n])
            low, high = map(np.array, program.extract_box()[:2])
            yield 0.1 * np.array(program.numpy.extract_atom("x"))[: system.n][order], 0.1 * (high - low)


def summary(system, positions, edges, blocks=5):
    """Density (g/cm^3) and g(r), each with its error from blocks of the frames after the first fifth."""
    names, elements = system.topology.names, system.topology.elements
    sites = {"cation": np.flatnonzero(names == "C1"), "chloride": np.flatnonzero(elements == 17)}
    rest = len(edges) // 5 + len(edges) * 4 // 5 % blocks
    density = system.masses.sum() / np.prod(edges[rest:], axis=1) * sponge.units.DENSITY
    found = {"density": mean(density.reshape(blocks, -1).mean(axis=1))}
    parts = zip(np.split(positions[rest:], blocks), np.split(edges[rest:], blocks), strict=True)
    parts = [(x, np.eye(3) * box[:, None]) for x, box in parts]
    for one, other in (("cation", "chloride"), ("cation", "cation"), ("chloride", "chloride")):
        curves = [sponge.analysis.rdf(x, box, sites[one], sites[other], r_max=1.1, bins=55).g for x, box in parts]
        found[f"{one} - {other}"] = mean(np.array(curves))
    return found


def mean(blocks):
    """The mean of blocks and its error."""
    return [
        np.mean(blocks, axis=0).round(5).tolist(),
        (np.std(blocks, axis=0, ddof=1) / np.sqrt(len(blocks))).round(5).tolist(),
    ]


def main():
    start = make_liquid.ionic_liquid.compressed(PAIRS, TEMPERATURE)
    found = {}
    for kind in LENGTHS:
        system = make_liquid.ionic_liquid.liquid(PAIRS, constraints=None, cutoff=CUTOFF)
        system.positions, system.box = start.positions, start.box
        if kind == "drude":
            system = make_liquid.ionic_liquid.polarizable(system)
            bath = sponge.DrudeLangevin(TEMPERATURE, friction=1.0, timestep=0.0005, drude_friction=5.0)
            simulation = sponge.Simulation(system, bath)
            simulation.minimize(tolerance=100, max_steps=200)  # oscillators begin at their atoms
            system.positions = simulation.positions
        positions, edges = map(np.array, zip(*frames(kind, system), strict=True))
        found[kind] = summary(system, positions, edges)
        print(kind, found[kind]["density"])
    Path(__file__).with_name("density.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
