"""An ionic liquid with fixed, induced and learned charges: 1,3-dimethylimidazolium chloride at 425 K and 1 bar.

Ions are packed into a box half as dense as the liquid, which a barostat then compresses with the fixed charges of CL&P.
From there three models run side by side: CL&P itself; CL&Pol, with a Drude oscillator on each heavy atom; and CL&P's
Lennard-Jones and bonded terms with charges that a network gives from the positions, trained on GFN2-xTB by
`ionic_liquid_charges.py`.

    python examples/sponge/ionic_liquid.py [--pairs 48] [--time 30] [--temperature 425] [--output ionic_liquid.png]
    python examples/sponge/ionic_liquid.py --pairs 256 --time 2000 --models fixed network    # hours

The defaults show how to set up such runs, and structure: densities need about a nanosecond, and diffusion tens of
nanoseconds, as ions still rattle in cages of their neighbors after 30 ps.
"""

import argparse
import copy
import time as clock
from pathlib import Path

import numpy as np

from triskele import sponge
from triskele.sponge import analysis, learn

DATA = Path(__file__).parent / "data"
MODELS = "fixed", "Drude", "network"
DEBYE = 0.0208194346  # e nm

# CL&Pol: polarizabilities in nm^3 by element and, of carbon, by whether it is in the ring (alpha.ff of
# github.com/paduagroup/clandpol; Schroder et al., Phys. Chem. Chem. Phys. 20 (2018) 10992, and for chloride J. Chem.
# Phys. 149 (2018) 044302). Those of hydrogens go to the atoms that they are bound to.
POLARIZABILITY = {"ring": 1.122e-3, "methyl": 1.016e-3, 7: 1.208e-3, 1: 0.323e-3, 17: 4.40e-3}
SPRING, DRUDE_MASS, THOLE = 4184e2, 0.4, 2.6  # kJ/mol/nm^2, dalton
# Well depths between cations and anions, which in CL&P hold induction: factor from charges, dipole moment (0.9 D),
# polarizabilities and distance (0.38 nm) of the ions, Goloviznina et al., J. Chem. Theory Comput. 15 (2019) 5858
CATION_ANION = 0.46


def liquid(pairs, **options):
    """Ions in a box of half the liquid's density, in CL&P."""
    cation = sponge.read_pdb(DATA / "dimethylimidazolium.pdb")
    chloride = sponge.Structure(sponge.Topology.of_particles(1, "CL", 17), np.zeros((1, 3)))
    box = sponge.build.pack([(cation, pairs), (chloride, pairs)], density=0.5)
    return sponge.create_system(box, "clp/il", **{"constraints": "h-bonds", "cutoff": 0.9, **options})


def polarizable(system):
    """The same ions in CL&Pol: Drude particles, numbered after all atoms, and weaker wells between unlike ions."""
    t, n = system.topology, system.n
    atoms = np.flatnonzero(t.elements != 1)
    drude, m = n + np.arange(len(atoms)), len(atoms)
    alpha = np.array([POLARIZABILITY.get(int(z), 0.0) for z in t.elements])
    for i, j in t.bonds:
        h, other = (i, j) if t.elements[i] == 1 else (j, i)
        if t.elements[h] == 1:
            alpha[other] += alpha[h]
    carbons, ring = np.flatnonzero(t.elements == 6), {"C1", "C2", "C3"}
    alpha[carbons] += [POLARIZABILITY["ring" if t.names[k] in ring else "methyl"] for k in carbons]
    alpha = alpha[atoms]
    q = -np.sqrt(SPRING * alpha / sponge.units.COULOMB)

    residues = int(t.residue_index.max()) + 1
    topology = sponge.Topology(
        np.concatenate([t.names, np.full(m, "D")]), np.concatenate([t.elements, np.zeros(m, int)]),
        np.concatenate([t.residue_index, residues + np.arange(m)]), [*t.residue_names, *["DRU"] * m],
        [*t.residue_ids, *map(str, range(m))], np.concatenate([t.chain_index, np.full(m, t.chain_index[-1])]),
        t.chain_ids, t.bonds)
    masses = np.concatenate([system.masses, np.full(m, DRUDE_MASS)])
    masses[atoms] -= DRUDE_MASS
    particle = np.full(n, -1)
    particle[atoms] = np.arange(m)

    def spread(pairs):
        """All pairs of the particles of two atoms."""
        both = [[(i, j), (i, d(j)), (d(i), j), (d(i), d(j))] for i, j in pairs]
        return np.array([p for four in both for p in four if min(p) >= 0]).reshape(-1, 2)

    def d(i):
        return n + particle[i] if particle[i] >= 0 else -1

    made = sponge.System(
        topology, masses, system.box, np.concatenate([system.positions, system.positions[atoms]]),
        constraints=system.constraints, exclusions=np.concatenate([spread(system.exclusions), np.c_[atoms, drude]]))
    old, pairs14 = system.nonbonded, system["pair14"]
    for p in system.potentials:
        if p not in (old, pairs14):
            made.add(copy.deepcopy(p))

    charges = np.concatenate([old.params["charges"], q])
    charges[atoms] -= q
    dipole = np.zeros(n + m)
    dipole[atoms], dipole[drude] = -q, q
    types = np.concatenate([old.types, np.full(m, len(old.params["a"]))])  # Drude particles: no Lennard-Jones
    anion = np.isin(np.arange(len(old.params["a"]) + 1), old.types[t.elements == 17])
    scale = np.where(anion != anion[:, None], CATION_ANION, 1.0)
    table = sponge.LJTable(types, *(scale * np.pad(old.params[key], (0, 1)) for key in "ab"))
    made.add(sponge.Nonbonded(charges, mixing=table, method=old.method, cutoff=old.cutoff, tolerance=old.tolerance))

    # dipoles interact by Thole's form at any distance, be their atoms bound to each other or not
    three = pairs14.atoms
    rows = np.column_stack([drude, atoms, np.full((m, 3), -1)])
    screened = particle[system.exclusions]
    screened = screened[(screened >= 0).all(1)]
    for p in sponge.drude_oscillators(rows, q, alpha, screened=screened, thole=np.full(len(screened), THOLE)):
        made.add(p)
    screening = np.zeros(n + m)
    screening[atoms] = screening[drude] = np.sqrt(THOLE) / alpha ** (1 / 6)
    made.add(sponge.thole_damping(dipole=dipole, screening=screening, mixing="product", cutoff=min(0.9, old.cutoff)))
    p = pairs14.params
    made.add(sponge.pair14(three, charge_product=0.0, sigma=p["sigma"], epsilon=p["epsilon"], name="pair14"))
    i, j = spread(three).T
    made.add(sponge.pair14(np.c_[i, j], charge_product=0.5 * (charges[i] * charges[j] - dipole[i] * dipole[j]),
                           sigma=0.1, epsilon=0.0, name="coulomb14"))
    return made


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
