"""Write `plumed.npz`: a run of alanine dipeptide, and what PLUMED's methods say of its states.

``python make_reference.py`` with the Python package `plumed`, and its library in PLUMED_KERNEL.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import plumed

from triskele import sponge
from triskele.sponge import cv

STATES, FRAMES, NODES = 400, 60, 8  # of phi and psi; of positions, for paths; structures of the path
FORCES = "DUMPFORCES ARG=phi,psi"  # in place of records
OPES = "TEMP=300 ARG=phi,psi"
METHODS = {  # action, records
    "metad": ("b: METAD ARG=phi,psi SIGMA=0.35,0.3 HEIGHT=1.2 PACE=4 FILE=h1", "b.bias"),
    "tempered": ("b: METAD ARG=phi,psi SIGMA=0.35,0.3 HEIGHT=1.2 PACE=4 BIASFACTOR=8 TEMP=300 FILE=h2", "b.bias"),
    "restraint": ("b: RESTRAINT ARG=phi,psi AT=-1.2,3.0 KAPPA=100,40", "b.bias"),
    "steered": ("b: MOVINGRESTRAINT ARG=phi STEP0=0 AT0=-2.5 KAPPA0=80 STEP1=300 AT1=0.5 KAPPA1=80", "b.bias,b.work"),
    "opes": (f"b: OPES_METAD {OPES} BARRIER=35 PACE=3 SIGMA=0.3,0.25", "b.bias,b.rct,b.zed,b.neff,b.nker"),
    "opes-measured": (f"b: OPES_METAD {OPES} BARRIER=35 PACE=5", "b.bias,b.rct,b.zed,b.neff,b.nker"),
    "explore": (f"b: OPES_METAD_EXPLORE {OPES} BARRIER=35 PACE=3 SIGMA=0.3,0.25", "b.bias,b.rct,b.zed,b.neff,b.nker"),
    "expanded": (
        "e: ECV_MULTITHERMAL ARG=energy TEMP=300 TEMP_SET_ALL=280,300,340,400,480,600\nb: OPES_EXPANDED ARG=e.* PACE=1",
        "b.bias",
    ),
    "abf": (
        "b: DRR ARG=phi,psi EXTERNAL_FORCE=fphi,fpsi GRID_MIN=-pi,-pi GRID_MAX=pi,pi GRID_BIN=12,12 FULLSAMPLES=1 "
        "TEMP=300 OUTPUTFREQ=100000",
        FORCES,
    ),
}
PATHS = {
    "path": ("p: PATHMSD REFERENCE=path.pdb LAMBDA=2000", "p.sss,p.zzz"),
    "variable-path": (
        "phi: TORSION ATOMS=5,7,9,15\npsi: TORSION ATOMS=7,9,15,17\n"
        "p: PATH REFERENCE=nodes.pdb TYPE=EUCLIDEAN LAMBDA=1.5",
        "p.spath,p.zpath",
    ),
}
STOP = np.zeros(1, np.intc)  # READ sets it at the end of its file
HEAD = {"phi": True, "psi": True, "energy": False, "fphi": False, "fpsi": False}  # periodic


def trajectory():
    """Phi, psi and energy [STATES, 3] of a hot run, and its positions."""
    system = sponge.load(*sponge.example_files("alanine-dipeptide"), method="none", constraints="h-bonds")
    sim = sponge.Simulation(system, sponge.LangevinMiddle(700, 2.0, 0.002), seed=3)
    sim.run(2000)
    rows, positions = [], []
    for _ in range(STATES):
        sim.run(50)
        x = sim.positions
        rows.append(
            [float(cv.torsion(4, 6, 8, 14)(x)), float(cv.torsion(6, 8, 14, 16)(x)), sim.energies()["potential"]]
        )
        positions.append(x)
    return np.array(rows), np.round(np.array(positions), 5)


def engine(natoms):
    p = plumed.Plumed()
    if natoms:
        p.cmd("setNatoms", natoms)
    p.cmd("setTimestep", 1.0)
    p.cmd("setLogFile", os.devnull)
    p.cmd("init")
    p.cmd("setStopFlag", STOP)
    return p


def records(p, text, names, steps):
    """Records [m, k] of PLUMED at each of the steps, which `steps` makes."""
    action = names if names == FORCES else f"PRINT ARG={names}"
    for line in [*text.split("\n"), f"{action} FILE=out FMT=%.17g STRIDE=1"]:
        p.cmd("readInputLine", line)
    for step in steps:
        p.cmd("setStep", step)
        yield p
        p.cmd("calc")
    p.finalize()


def of_values(values, text, names):
    """Return the results of a method for states whose variables are given."""
    fields = list(HEAD)
    lines = ["#! FIELDS time " + " ".join(fields)]
    lines += [f"#! SET {end}_{v} {sign}pi" for v in fields if HEAD[v] for end, sign in (("min", "-"), ("max", ""))]
    lines += [" ".join([str(k), *(f"{v:.17g}" for v in row)]) for k, row in enumerate(values)]
    Path("in").write_text("\n".join(lines) + "\n")
    reads = "\n".join(f"{v}: READ FILE=in VALUES={v} IGNORE_FORCES" for v in fields)
    for _ in records(engine(0), f"{reads}\n{text}", names, range(len(values))):
        pass
    return np.loadtxt("out")[:, 1:]


def of_positions(positions, text, names):
    """Return the results of a method for positions [m, n, 3]."""
    n = positions.shape[1]
    masses, box, virial = np.ones(n), np.zeros((3, 3)), np.zeros((3, 3))
    forces = np.zeros((n, 3))
    for k, p in enumerate(records(engine(n), text, names, range(len(positions)))):
        for key, array in (
            ("Positions", positions[k].copy()),
            ("Masses", masses),
            ("Charges", masses),
            ("Box", box),
            ("Forces", forces),
            ("Virial", virial),
        ):
            p.cmd(f"set{key}", array)
    return np.loadtxt("out")[:, 1:]


def pdb(structures):
    rows = []
    for x in structures:
        rows += [
            f"ATOM  {k + 1:5d}  C   ALA A   1    {10 * a:8.3f}{10 * b:8.3f}{10 * c:8.3f}  1.00  1.00"
            for k, (a, b, c) in enumerate(x)
        ]
        rows.append("END")
    return "\n".join(rows) + "\n"


def main():
    values, positions = trajectory()
    springs = 30.0 * np.random.default_rng(1).normal(size=(STATES, 2))  # forces on fictitious particles
    order = np.argsort(values[:FRAMES, 1])
    structures = np.round(positions[order[:: FRAMES // NODES][:NODES]], 4)  # the digits of a PDB file
    nodes = np.array([[-2.6, 2.6], [-1.4, 2.2], [-1.3, 1.0], [-1.3, -0.5], [-0.2, -1.5], [1.0, -1.0]])
    kept = {
        "values": values,
        "springs": springs,
        "positions": positions[:FRAMES],
        "structures": structures,
        "nodes": nodes,
    }
    here = Path(__file__).resolve().parent
    for name, (text, names) in METHODS.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            kept[name] = of_values(np.hstack([values, springs]), text, names)
    for name, (text, names) in PATHS.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            Path("path.pdb").write_text(pdb(structures))
            Path("nodes.pdb").write_text("".join(f"REMARK ARG=phi,psi phi={a} psi={b}\nEND\n" for a, b in nodes))
            kept[name] = of_positions(positions[:FRAMES], text, names)
    os.chdir(here)
    np.savez_compressed(here / "plumed.npz", **kept)


if __name__ == "__main__":
    main()
