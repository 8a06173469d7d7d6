"""Energies and forces of GROMACS in double precision (``gmx_d``), where that is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["GMX", "compare_with_gromacs", "differences", "evaluate", "run", "write_gro"]

GMX = shutil.which("gmx_d")

_CUTOFF = 9.0  # nm, in a box of 20: every pair of a small molecule
_RUN = {
    "integrator": "md",
    "nsteps": 0,
    "nstenergy": 1,
    "nstfout": 1,
    "nstcalcenergy": 1,
    "coulombtype": "cut-off",
    "coulomb-modifier": "none",
    "epsilon-rf": 1,
    "vdw-modifier": "none",
    "rcoulomb": _CUTOFF,
    "rvdw": _CUTOFF,
    "verlet-buffer-tolerance": -1,
    "disre": "simple",
    "rlist": _CUTOFF,
    "continuation": "yes",
}
# GROMACS's names of energies, and our terms
GROUPS = {
    "Bond": "bonds", "G96Bond": "bonds", "Morse": "bonds", "Cubic Bonds": "bonds", "FENE Bonds": "bonds",
    "Harmonic Pot.": "bonds", "Restraint Pot.": "bonds", "U-B": "angles", "Angle": "angles", "G96Angle": "angles",
    "Quartic Angles": "angles", "Restr. Angles": "angles", "Proper Dih.": "torsions", "Ryckaert-Bell.": "torsions",
    "Per. Imp. Dih.": "torsions", "Improper Dih.": "torsions", "Imp. Dih.": "torsions", "Fourier Dih.": "torsions",
    "Restr. Dih.": "torsions", "CMAP Dih.": "torsions", "LJ-14": "pairs", "Coulomb-14": "pairs", "LJC-14 q": "pairs",
    "LJC Pairs NB": "pairs", "LJ (SR)": "pairs", "Coulomb (SR)": "pairs", "Position Rest.": "restraints",
    "Tab. Bonds": "bonds", "Tab. Bonds NC": "bonds", "Tab. Angles": "angles", "Tab. Dih.": "torsions",
    "Dih. Rest.": "restraints", "Angle Rest.": "restraints", "Angle Rest. Z": "restraints", "Dis. Rest.": "restraints",
    "Potential": "total",
}  # fmt: skip
OURS = {
    "bond": "bonds", "g96_bond": "bonds", "morse_bond": "bonds", "cubic_bond": "bonds", "fene_bond": "bonds",
    "restraint_bond": "bonds", "angle": "angles", "urey_bradley": "angles", "g96_angle": "angles",
    "quartic_angle": "angles", "restricted_angle": "angles", "torsion": "torsions", "improper": "torsions",
    "ryckaert_bellemans": "torsions", "restricted_torsion": "torsions", "cmap": "torsions", "nonbonded": "pairs",
    "pair14": "pairs", "lennard_jones_pair": "pairs", "position_restraint": "restraints",
    "torsion_restraint": "restraints", "distance_restraint": "restraints", "angle_restraint": "restraints",
    "z_angle_restraint": "restraints", "tabulated_bond": "bonds", "tabulated_angle": "angles",
    "tabulated_torsion": "torsions",
}  # fmt: skip


def write_gro(path: Path, positions: np.ndarray, box: float = 20.0) -> Path:
    """A .gro file with nine decimals."""
    rows = (
        f"{1:5d}{'MOL':<5s}{'X':>5s}{(i + 1) % 100000:5d}" + "".join(f"{v:14.9f}" for v in x)
        for i, x in enumerate(positions)
    )
    path.write_text("t\n" + f"{len(positions)}\n" + "\n".join(rows) + "\n" + f"{box:14.9f}" * 3 + "\n")
    return path


def run(folder: Path, *words: str, answer: str = "") -> str:
    done = subprocess.run(
        [str(GMX), "-nobackup", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        input=answer,
    )
    if done.returncode:
        message = re.split(r"-{20,}", done.stderr)
        raise RuntimeError(f"gmx {words[0]}: " + " ".join(message[-2 if len(message) > 2 else -1].split())[:600])
    return done.stdout + done.stderr


def _table(path: Path) -> tuple[list[str], list[float]]:
    """Legends and the first row of numbers of an .xvg file."""
    text = path.read_text()
    row = next(line for line in text.split("\n") if line.strip() and line[0] not in "#@")
    return re.findall(r'legend "(.*?)"', text), [float(v) for v in row.split()[1:]]


def evaluate(
    folder: Path,
    top: Path,
    positions: np.ndarray,
    box: float = 20.0,
    settings: dict[str, Any] | None = None,
    *options: str,
) -> tuple[dict[str, float], np.ndarray]:
    """Energies (kJ/mol) by GROMACS's names, by default as sums over all pairs without cut-off, and forces
    (kJ/mol/nm). `options` are those of mdrun.
    """
    (folder / "run.mdp").write_text("".join(f"{k} = {v}\n" for k, v in (_RUN | (settings or {})).items()))
    gro = write_gro(folder / "gmx.gro", positions, box)
    run(
        folder,
        "grompp",
        "-f",
        "run.mdp",
        "-c",
        gro.name,
        "-r",
        gro.name,
        "-p",
        str(top),
        "-o",
        "run.tpr",
        "-maxwarn",
        "20",
    )
    run(folder, "mdrun", "-s", "run.tpr", "-deffnm", "run", "-nt", "1", *options)
    run(folder, "energy", "-f", "run.edr", "-dp", "-o", "e.xvg", answer="\n".join(map(str, range(1, 30))) + "\n\n")
    energies = dict(zip(*_table(folder / "e.xvg")))
    run(folder, "traj", "-f", "run.trr", "-s", "run.tpr", "-of", "f.xvg", "-fp", answer="0\n")
    return energies, np.array(_table(folder / "f.xvg")[1]).reshape(-1, 3)


def compare_with_gromacs(
    ours: Any,
    folder: Path,
    top: Path,
    positions: np.ndarray,
    *,
    forces: bool = True,
    rtol: float = 1e-6,
    atol: float = 1e-4,
) -> list[str]:
    """Sentences that say where a system, read without a box, and GROMACS differ; see `compare.differences`."""
    energies, theirs = evaluate(folder, top, positions)
    return differences(ours, positions, energies, theirs if forces else None, rtol=rtol, atol=atol)


def differences(
    ours: Any, positions: np.ndarray, energies: dict[str, float], theirs: Any, *, rtol: float = 1e-6, atol: float = 1e-4
) -> list[str]:
    """Sentences that say where a system differs from energies by GROMACS's names and forces, which may be None."""
    sums: dict[str, list[float]] = {}
    terms = ours.energy_terms(positions)
    for name, energy in terms.items():
        sums.setdefault(OURS[re.sub(r" \d+$", "", name)], [0.0, 0.0])[0] += energy
    for name, energy in energies.items():
        if GROUPS.get(name, "total") != "total":
            sums.setdefault(GROUPS[name], [0.0, 0.0])[1] += energy
    sums["total"] = [sum(terms.values()), energies["Potential"]]
    found = [
        f"energy of {group}: {mine:.8g} kJ/mol here, {other:.8g} in GROMACS"
        for group, (mine, other) in sums.items()
        if not abs(mine - other) <= atol + rtol * abs(other)
    ]
    if theirs is None:
        return found
    heavy = ours.masses > 0
    size = np.sqrt(np.mean(theirs[heavy] ** 2))
    off = np.abs(ours.forces(positions) - theirs)[heavy].max()
    if not off <= 10 * (rtol * size + atol):
        found.append(f"forces differ by {off:.2g} kJ/mol/nm, their root mean square is {size:.3g}")
    return found
