"""GROMACS, when `gmx` is on the path (`GMX` names another one): topology written from the OpenMM System, mdrun's own
timing.
"""

import os
import re
import shutil
import subprocess

import numpy as np

PROGRAM = os.environ.get("GMX", "gmx")


def available():
    return shutil.which(PROGRAM) is not None


def prepare(bench, threads, folder, more_settings=None):
    system, positions = bench.system()
    write_topology(system, folder / "system.top")
    write_positions(system, positions, folder / "system.gro")
    lines = settings(bench, system) | (more_settings or {})
    (folder / "run.mdp").write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
    gmx(folder, "grompp", "-f", "run.mdp", "-c", "system.gro", "-p", "system.top", "-o", "run.tpr", "-maxwarn", "9")

    def run(steps):
        gmx(
            folder,
            "mdrun",
            "-s",
            "run.tpr",
            "-nsteps",
            str(steps),
            "-ntmpi",
            "1",
            "-ntomp",
            str(threads),
            "-pin",
            "off",
            "-noconfout",
            "-notunepme",
            "-nb",
            "cpu",
            "-g",
            "run.log",
        )
        log = (folder / "run.log").read_text()
        wall = re.findall(r"^\s+Time:\s+[\d.]+\s+([\d.]+)", log, re.MULTILINE)
        return float(wall[-1])

    return run


def gmx(folder, *arguments):
    done = subprocess.run([PROGRAM, "-quiet", "-nobackup", *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"gmx {arguments[0]}: {done.stderr.strip().splitlines()[-12:]}")


def settings(bench, system):
    import openmm
    import openmm.unit as u

    force = next(f for f in system.getForces() if isinstance(f, openmm.NonbondedForce))
    cutoff = force.getCutoffDistance().value_in_unit(u.nanometer)
    edges = [v[k].value_in_unit(u.nanometer) for k, v in enumerate(system.getDefaultPeriodicBoxVectors())]
    # the grid that OpenMM's rule gives, which triskele follows
    tolerance = force.getEwaldErrorTolerance()
    alpha = np.sqrt(-np.log(2 * tolerance)) / cutoff
    grid = [good_size(int(np.ceil(2 * alpha * edge / (3 * tolerance**0.2)))) for edge in edges]
    lines = {
        "integrator": "md", "dt": bench.timestep, "nsteps": -1, "cutoff-scheme": "Verlet", "rlist": cutoff,
        "rvdw": cutoff, "rcoulomb": cutoff, "vdw-modifier": "None", "constraint-algorithm": "lincs",
        "constraints": "none", "nstlist": 20, "nstcalcenergy": 100, "nstenergy": 0, "nstlog": 0, "gen-vel": "yes",
        "gen-temp": 300, "gen-seed": 1, "comm-mode": "Linear", "nstcomm": 100,
    }  # fmt: skip
    if bench.melt:
        lines |= {"coulombtype": "Cut-off", "gen-temp": 1.44 * 119.8}
    else:
        lines |= {
            "coulombtype": "PME",
            "pme-order": 4,
            "ewald-rtol": tolerance,
            "DispCorr": "EnerPres",
            "tcoupl": "V-rescale",
            "tc-grps": "System",
            "tau-t": 1.0,
            "ref-t": 300,
            "fourier-nx": grid[0],
            "fourier-ny": grid[1],
            "fourier-nz": grid[2],
        }
    return lines


def good_size(n):
    while True:
        rest = n
        for factor in (2, 3, 5, 7):
            while rest % factor == 0:
                rest //= factor
        if rest == 1:
            return n
        n += 1


def write_positions(system, positions, path):
    import openmm.unit as u

    vectors = [v.value_in_unit(u.nanometer) for v in system.getDefaultPeriodicBoxVectors()]
    rows = [
        f"{(k + 1) % 100000:5d}X    {'A':>5s}{(k + 1) % 100000:5d}" + "".join(f"{x:12.7f}" for x in p)
        for k, p in enumerate(positions)
    ]
    path.write_text(
        "\n".join(["system", f"{len(positions):5d}", *rows, " ".join(f"{vectors[k][k]:.7f}" for k in range(3))]) + "\n"
    )


def water_blocks(system):
    """First atoms of the molecules that are three atoms tied by three constraints."""
    ties = {tuple(sorted(system.getConstraintParameters(k)[:2])) for k in range(system.getNumConstraints())}
    return [i for i in range(system.getNumParticles() - 2) if {(i, i + 1), (i, i + 2), (i + 1, i + 2)} <= ties]


def write_topology(system, path):
    import openmm.unit as u

    n = system.getNumParticles()
    mass = [system.getParticleMass(i).value_in_unit(u.dalton) for i in range(n)]
    force = {type(f).__name__: f for f in system.getForces()}
    nonbonded = force["NonbondedForce"]
    plain = [
        [
            x.value_in_unit(unit)
            for x, unit in zip(
                nonbonded.getParticleParameters(i), (u.elementary_charge, u.nanometer, u.kilojoule_per_mole)
            )
        ]
        for i in range(n)
    ]
    types = {t: f"T{k}" for k, t in enumerate(dict.fromkeys((s, e) for _, s, e in plain))}
    waters = water_blocks(system)
    rest = min(waters, default=n)
    single = rest == n and not force.keys() & {"HarmonicBondForce", "HarmonicAngleForce"}
    if waters and waters != list(range(rest, n, 3)):
        raise ValueError("write_topology: waters must come last")
    out = ["[ defaults ]", "1 2 no 1.0 1.0", "[ atomtypes ]"]
    out += [f"{name} 1.0 0.0 A {s:.10g} {e:.10g}" for (s, e), name in types.items()]

    def atoms(which):
        return [
            "[ atoms ]",
            *[
                f"{k + 1} {types[tuple(plain[i][1:])]} 1 X A{k % 1000} {k + 1} {plain[i][0]:.10g} {mass[i]:.6g}"
                for k, i in enumerate(which)
            ],
        ]

    if single:
        out += ["[ moleculetype ]", "ATOM 0", *atoms([0])]
    elif rest:
        out += ["[ moleculetype ]", "SOLUTE 0", *atoms(range(rest))]
        out += bonded(system, force, nonbonded, rest)
    if waters:
        w = waters[0]
        distance = {
            tuple(sorted((i, j))): d.value_in_unit(u.nanometer)
            for i, j, d in map(system.getConstraintParameters, range(system.getNumConstraints()))
        }
        out += [
            "[ moleculetype ]",
            "WATER 0",
            *atoms(range(w, w + 3)),
            "[ settles ]",
            f"1 1 {distance[w, w + 1]:.8f} {distance[w + 1, w + 2]:.8f}",
            "[ exclusions ]",
            "1 2 3",
            "2 1 3",
            "3 1 2",
        ]
    out += ["[ system ]", "benchmark", "[ molecules ]"]
    out += [f"ATOM {n}"] if single else ["SOLUTE 1"] if rest else []
    out += [f"WATER {len(waters)}"] if waters else []
    path.write_text("\n".join(out) + "\n")


def bonded(system, force, nonbonded, rest):
    import openmm.unit as u

    out = ["[ bonds ]"]
    bond = force.get("HarmonicBondForce")
    for k in range(bond.getNumBonds() if bond else 0):
        i, j, r, c = bond.getBondParameters(k)
        out.append(
            f"{i + 1} {j + 1} 1 {r.value_in_unit(u.nanometer):.8f} "
            f"{c.value_in_unit(u.kilojoule_per_mole / u.nanometer**2):.6f}"
        )
    out.append("[ constraints ]")
    for k in range(system.getNumConstraints()):
        i, j, d = system.getConstraintParameters(k)
        if max(i, j) < rest:
            out.append(f"{i + 1} {j + 1} 2 {d.value_in_unit(u.nanometer):.8f}")
    out.append("[ angles ]")
    angle = force.get("HarmonicAngleForce")
    for k in range(angle.getNumAngles() if angle else 0):
        i, j, m, t, c = angle.getAngleParameters(k)
        out.append(
            f"{i + 1} {j + 1} {m + 1} 1 {t.value_in_unit(u.degree):.6f} "
            f"{c.value_in_unit(u.kilojoule_per_mole / u.radian**2):.6f}"
        )
    out.append("[ dihedrals ]")
    torsion = force.get("PeriodicTorsionForce")
    for k in range(torsion.getNumTorsions() if torsion else 0):
        *atoms, times, phase, c = torsion.getTorsionParameters(k)
        out.append(
            " ".join(str(a + 1) for a in atoms)
            + f" 9 {phase.value_in_unit(u.degree):.6f} {c.value_in_unit(u.kilojoule_per_mole):.8f} {times}"
        )
    pairs, exclusions = ["[ pairs ]"], ["[ exclusions ]"]
    for k in range(nonbonded.getNumExceptions()):
        i, j, q, s, e = nonbonded.getExceptionParameters(k)
        if max(i, j) >= rest:
            continue
        q, s, e = (
            q.value_in_unit(u.elementary_charge**2),
            s.value_in_unit(u.nanometer),
            e.value_in_unit(u.kilojoule_per_mole),
        )
        exclusions.append(f"{i + 1} {j + 1}")
        if q or e:
            pairs.append(f"{i + 1} {j + 1} 2 1.0 {q:.10g} 1.0 {s:.10g} {e:.10g}")
    return out + pairs + exclusions
