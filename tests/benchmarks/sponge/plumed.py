"""Cost of PLUMED in a run, next to PLUMED alone and our own variables: `python -m tests.benchmarks.sponge.plumed`.

Alanine dipeptide in vacuum on one thread; PLUMED_KERNEL holds the path of PLUMED's library. Cases take turns, and each
counts by its fastest turn, in processor time.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

TURNS, STEPS = 12, 400


def alone(lines, system):
    """A function that makes PLUMED compute a number of steps, by its Python package as it is."""
    import plumed

    n = system.n
    positions, forces = np.array(system.positions), np.zeros((n, 3))
    masses, box, virial = np.array(system.masses), np.zeros((3, 3)), np.zeros((3, 3))
    p = plumed.Plumed()
    for key, value in (("setNatoms", n), ("setTimestep", 0.002), ("setLogFile", os.devnull), ("init", None)):
        p.cmd(key, value)
    for line in lines:
        p.cmd("readInputLine", line)
    number = iter(range(10**9))

    def run(steps):
        for _ in range(steps):
            p.cmd("setStep", next(number))
            for key, array in (
                ("Positions", positions),
                ("Masses", masses),
                ("Charges", masses),
                ("Box", box),
                ("Forces", forces),
                ("Virial", virial),
            ):
                p.cmd(f"set{key}", array)
            p.cmd("calc")

    return run


def main():
    from tests.data.sponge.plumed.make_reference import pdb
    from triskele import core, sponge
    from triskele.sponge import cv

    core.set_threads(1)
    os.chdir(tempfile.mkdtemp())

    def load():
        return sponge.load(*sponge.example_files("alanine-dipeptide"), method="none", constraints="h-bonds")

    start = np.asarray(load().positions)
    noise = np.random.default_rng(0).normal(size=start.shape)
    structures = np.round([start + 0.004 * i * noise for i in range(20)], 4)
    Path("path.pdb").write_text(pdb(structures))
    texts = {
        "torsion": ["phi: TORSION ATOMS=5,7,9,15", "RESTRAINT ARG=phi AT=-1.2 KAPPA=100"],
        "path": ["p: PATHMSD REFERENCE=path.pdb LAMBDA=500", "RESTRAINT ARG=p.sss,p.zzz AT=3,0 KAPPA=10,10"],
    }
    ours = {
        "torsion": sponge.umbrella(cv.torsion(4, 6, 8, 14), -1.2, 100.0),
        "path": sponge.umbrella(cv.path(range(22), structures, lambda_=500.0), [3.0, 0.0], [10.0, 10.0]),
    }
    runs = {}
    for name, bias in [("plain", None), *ours.items()]:
        system = load()
        if bias is not None:
            system.add(bias)
        runs[f"{name}, sponge"] = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), seed=1)._advance
    for name, lines in texts.items():
        runs[f"{name}, PLUMED alone"] = alone(lines, load())
        sim = sponge.Simulation(load(), sponge.LangevinMiddle(300, 1.0, 0.002), seed=1, sampling=[sponge.Plumed(lines)])
        runs[f"{name}, sponge.Plumed"] = sim._advance
    best = dict.fromkeys(runs, np.inf)
    for run in runs.values():
        run(20)
    for _ in range(TURNS):
        for name, run in runs.items():
            began = time.thread_time()
            run(STEPS)
            best[name] = min(best[name], (time.thread_time() - began) / STEPS)
    for name, seconds in best.items():
        more = 1e6 * (seconds - best["plain, sponge"])
        print(f"{name:26s}{1e6 * seconds:8.1f} us a step", "" if "alone" in name else f"{more:8.1f} more than plain")


if __name__ == "__main__":
    main()
