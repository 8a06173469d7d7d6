"""An ionic liquid with fixed, induced and learned charges: 1,3-dimethylimidazolium chloride at 425 K and 1 bar.

Ions are packed into a box half as dense as the liquid, which a barostat then compresses with the fixed charges of CL&P.
From there three models run side by side: CL&P itself; CL&Pol, with a Drude oscillator on each heavy atom; and CL&P's
Lennard-Jones and bonded terms with charges that a network gives from the positions, trained on GFN2-xTB by
`ionic_liquid_charges.py`.

    python examples/sponge/ionic_liquid.py [--pairs 48] [--time 30] [--temperature 425] [--output ionic_liquid.png]
    python examples/sponge/ionic_liquid.py --pairs 256 --time 2000 --models fixed network    # hours

The defaults show how to set up such runs, and structure: densities need about a nanosecond, and diffusion tens of
nanoseconds, as ions still rattle in cages of their neighbors after 30 ps. In such a run, the liquid is 5 % denser with
charges of the network than with those of CL&P, whose Lennard-Jones parameters were fitted to its own charges, and 7 %
with oscillators. The network warns that chlorides have more hydrogens around them than in the clusters of its data, and
charges of single ions, which only their sum keeps, vary by 0.05 e.
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
        np.concatenate([t.names, np.full(m, "D")]),
        np.concatenate([t.elements, np.zeros(m, int)]),
        np.concatenate([t.residue_index, residues + np.arange(m)]),
        [*t.residue_names, *["DRU"] * m],
        [*t.residue_ids, *map(str, range(m))],
        np.concatenate([t.chain_index, np.full(m, t.chain_index[-1])]),
        t.chain_ids,
        t.bonds,
    )
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
        topology,
        masses,
        system.box,
        np.concatenate([system.positions, system.positions[atoms]]),
        constraints=system.constraints,
        exclusions=np.concatenate([spread(system.exclusions), np.c_[atoms, drude]]),
    )
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
    made.add(
        sponge.pair14(
            np.c_[i, j],
            charge_product=0.5 * (charges[i] * charges[j] - dipole[i] * dipole[j]),
            sigma=0.1,
            epsilon=0.0,
            name="coulomb14",
        )
    )
    return made


def compressed(pairs, temperature):
    """The liquid with fixed charges after 30 ps, in which its density nearly comes to rest."""
    system = liquid(pairs)
    simulation = sponge.Simulation(
        system,
        sponge.LangevinMiddle(temperature, friction=1.0, timestep=0.002),
        seed=1,
        barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0),
    )
    simulation.minimize(tolerance=100)
    simulation.run(15_000)
    system.box, system.positions = simulation.box, simulation.positions
    return system


def model(name, system, network):
    if name == "Drude":
        return polarizable(system)
    system = system.copy()
    if name == "network":
        system.add(sponge.NetworkCharges(learn.load(network)))
    return system


class Record:
    """Frames, densities and dipole moments of the cations in a run."""

    def __init__(self, name, system, atoms):
        self.name, self.system, self.atoms = name, system, atoms
        self.frames, self.boxes, self.density, self.dipoles, self.cations = [], [], [], [], []
        elements = system.topology.elements[:atoms]
        self.cation = np.flatnonzero(elements != 17).reshape(-1, 16)
        self.particles = self.cation
        if name == "Drude":
            drude, atom = system["drude"].atoms.T
            mine = drude[np.isin(atom, self.cation)].reshape(len(self.cation), -1)
            self.particles = np.concatenate([self.cation, mine], axis=1)

    def add(self, simulation):
        x, box, system = simulation.positions, simulation.box, self.system
        nonbonded = system["nonbonded"]
        q = nonbonded.charges(x, box) if self.name == "network" else nonbonded.params["charges"]
        own, masses = self.particles, system.masses[self.particles]
        center = np.sum(masses[..., None] * x[own], axis=1) / masses.sum(axis=1)[:, None]
        self.dipoles.append(np.linalg.norm(np.sum(q[own][..., None] * (x[own] - center[:, None]), axis=1), axis=1))
        self.cations.append(q[own].sum(axis=1))
        self.frames.append(x[: self.atoms])
        self.boxes.append(box)

    def note_density(self, simulation):
        volume = np.linalg.det(simulation.box)
        self.density.append(self.system.masses.sum() / volume * sponge.units.DENSITY)


def run(name, system, duration, temperature, atoms):
    """Constant pressure for `duration` ps; frames, four a picosecond, are those of the second half."""
    step = 0.001 if name == "Drude" else 0.002
    integrator = (
        sponge.DrudeLangevin(temperature, friction=1.0, timestep=step, drude_friction=5.0)
        if name == "Drude"
        else sponge.LangevinMiddle(temperature, friction=1.0, timestep=step)
    )
    simulation = sponge.Simulation(
        system, integrator, seed=2, barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0)
    )
    simulation.minimize(tolerance=100)
    simulation.thermalize(temperature)
    record, blocks = Record(name, system, atoms), round(4 * duration)
    began = clock.perf_counter()
    for block in range(blocks):
        simulation.run(round(0.25 / step))
        record.note_density(simulation)
        if block >= blocks // 2:
            record.add(simulation)
    record.cost = 1e3 * (clock.perf_counter() - began) / simulation.step
    return record


def analyzed(record):
    """Density with the error from four blocks, radial distribution functions and mean square displacements."""
    topology = record.system.topology
    between = np.flatnonzero(topology.names == "C1")  # the carbon between both nitrogens
    chlorides = np.flatnonzero(topology.elements == 17)
    frames, boxes = np.array(record.frames), np.array(record.boxes)
    late = np.array(record.density[len(record.density) // 2 :])
    blocks = late[: len(late) // 4 * 4].reshape(4, -1).mean(axis=1)
    record.rdf = {
        name: analysis.rdf(frames, boxes, first, second, bins=100)
        for name, first, second in (
            ("cation - chloride", between, chlorides),
            ("cation - cation", between, between),
            ("chloride - chloride", chlorides, chlorides),
        )
    }
    record.msd = {
        name: analysis.msd(frames, 0.25, atoms) for name, atoms in (("cation", between), ("chloride", chlorides))
    }
    dipoles, cations = np.array(record.dipoles) / DEBYE, np.array(record.cations)
    print(f"\n{record.name}: {record.cost:.2f} ms a step")
    print(f"  density {late.mean():.3f} ± {blocks.std(ddof=1) / 2:.3f} g/cm^3")
    for name, found in record.rdf.items():
        print(f"  {name:20s} first peak at {found.r[np.argmax(found.g)]:.3f} nm, g = {found.g.max():.2f}")
    print(
        f"  cations: dipole moment {dipoles.mean():.2f} ± {dipoles.std():.2f} D about the center of mass, charge "
        f"{cations.mean():.3f} ± {cations.std():.3f} e"
    )
    for name, found in record.msd.items():
        half = len(found.value) // 2
        print(
            f"  {name:8s} root of the mean square displacement after {found.time[half]:.0f} ps: "
            f"{np.sqrt(found.value[half]):.2f} nm"
        )
    return record


def main(pairs, time, temperature, models, network, output):
    start = clock.perf_counter()
    system = compressed(pairs, temperature)
    print(f"{system}\ncompressed after {clock.perf_counter() - start:.0f} s", flush=True)
    records = [analyzed(run(name, model(name, system, network), time, temperature, system.n)) for name in models]
    if time < 2000:
        print(
            f"\nWithin {time / 2:g} ps, ions move in the cages of their neighbors: these displacements are not yet "
            "diffusion,\nand errors of densities, from so few correlation times, are too small."
        )
    picture(output, records)
    print(f"{output}, after {clock.perf_counter() - start:.0f} s")


def picture(output, records):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), layout="constrained")
    (density, dipole, moved), functions = axes
    for record in records:
        t = 0.25 * np.arange(1, len(record.density) + 1)
        (line,) = density.plot(t, record.density, label=record.name)
        dipole.hist(np.ravel(record.dipoles) / DEBYE, bins=60, density=True, histtype="step", label=record.name)
        for name, style in (("cation", "-"), ("chloride", "--")):
            found = record.msd[name]
            moved.plot(found.time, found.value, style, color=line.get_color(), label=f"{name}, {record.name}")
        for axis, (name, found) in zip(functions, record.rdf.items(), strict=True):
            axis.plot(found.r, found.g, label=record.name)
            axis.set(xlabel="distance / nm", ylabel="g(r)", title=name)
    density.set(xlabel="time / ps", ylabel="density / g cm$^{-3}$")
    dipole.set(xlabel="dipole moment of a cation / D", ylabel="probability density / D$^{-1}$")
    moved.set(xlabel="time / ps", ylabel="mean square displacement / nm$^2$")
    for axis in functions:
        axis.axhline(1, color="gray", lw=0.8)
    for axis in (density, dipole, moved, functions[0]):
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(output, dpi=120)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=48)
    parser.add_argument("--time", type=float, default=30.0, help="ps of each model; the second half counts")
    parser.add_argument("--temperature", type=float, default=425.0, help="K")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--network", default=DATA / "c1mim_chloride.safetensors", help="file of a ChargeNetwork")
    parser.add_argument("--output", default="ionic_liquid.png", help="where the picture goes")
    main(**vars(parser.parse_args()))
