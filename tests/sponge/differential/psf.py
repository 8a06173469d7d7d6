"""Random CHARMM systems: a psf and its parameter file, against OpenMM's own reader."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.sponge.differential.compare import differences, spread
from triskele.sponge.load.charmm import load_charmm


def _rows(values: list[tuple[int, ...]], per_line: int) -> str:
    """Atoms of terms as a psf lists them, several terms on a line."""
    flat = [i + 1 for row in values for i in row]
    width = per_line * (len(values[0]) if values else 1)
    return "\n".join("".join(f"{i:8d}" for i in flat[k : k + width]) for k in range(0, len(flat), width)) + "\n\n"


def case(seed: int, folder: Path) -> list[str]:
    """A random molecule with random parameters for each combination of types."""
    import openmm.app as app
    from openmm import unit

    rng = np.random.default_rng([seed, 72])
    n = int(rng.integers(4, 14))
    positions = spread(rng, n)
    types = rng.integers(0, int(rng.integers(1, 5)), n)
    names = [f"T{t}" for t in types]
    pairs = {(int(np.argmin(np.linalg.norm(positions[:i] - positions[i], axis=1))), i) for i in range(1, n)}
    if rng.random() < 0.4:
        pairs.add((0, n - 1))
    near: list[set[int]] = [set() for _ in range(n)]
    for i, j in pairs:
        near[i].add(j)
        near[j].add(i)
    bonds = sorted(pairs)
    angles = [(i, j, k) for j in range(n) for i in near[j] for k in near[j] if i < k]
    torsions = [(i, j, k, m) for j, k in bonds for i in near[j] - {k} for m in near[k] - {j, i}]
    torsions = [t for t in torsions if rng.random() < 0.8]  # 1-4 pairs stay without a torsion
    impropers = [(j, *sorted(near[j])[:3]) for j in range(n) if len(near[j]) >= 3 and rng.random() < 0.5]
    masses = {t: rng.choice([12.011, 1.008, 15.9994, 72.0]) for t in set(names)}
    psf = "PSF CMAP\n\n       1 !NTITLE\n* random\n\n" + f"{n:8d} !NATOM\n"
    for i, name in enumerate(names):
        psf += (
            f"{i + 1:8d} SEG  1    MOL  A{i:<3d} {name:<4s} {rng.normal(0, 0.3):10.6f}    {masses[name]:10.4f}        "
            f"   0\n"
        )
    psf += f"\n{len(bonds):8d} !NBOND: bonds\n{_rows(bonds, 4)}{len(angles):8d} !NTHETA: angles\n{_rows(angles, 3)}"
    psf += (
        f"{len(torsions):8d} !NPHI: dihedrals\n{_rows(torsions, 2)}{len(impropers):8d} !NIMPHI: impropers\n"
        f"{_rows(impropers, 2)}"
    )
    psf += "       0 !NDON: donors\n\n\n       0 !NACC: acceptors\n\n\n       0 !NNB\n\n" + _rows([(-1,)] * n, 8)
    psf += "       1       0 !NGRP NST2\n       0       0       0\n\n       0 !NCRTERM: cross-terms\n\n"
    (folder / "x.psf").write_text(psf)
    (folder / "x.prm").write_text(_parameters(rng, names, bonds, angles, torsions, impropers, masses))
    ours = load_charmm(folder / "x.psf", [folder / "x.prm"], rigid_water=False)
    parameters = app.CharmmParameterSet(str(folder / "x.prm"))
    theirs = app.CharmmPsfFile(str(folder / "x.psf")).createSystem(
        parameters,
        nonbondedMethod=app.NoCutoff,
        rigidWater=False,
        removeCMMotion=False,
        nonbondedCutoff=9 * unit.nanometer,
    )
    return differences(ours, theirs, positions, atol=5e-4)  # ParmEd rounds what it converts


def _parameters(rng, names, bonds, angles, torsions, impropers, masses) -> str:
    def each(terms):
        keys = {tuple(names[i] for i in term) for term in terms}
        return sorted({min(key, key[::-1]) for key in keys})

    text = "* random\n*\n\nATOMS\n" + "".join(f"MASS  -1 {t} {m:9.5f}\n" for t, m in masses.items())
    text += "\nBONDS\n" + "".join(
        f"{' '.join(k)} {rng.uniform(100, 500):.4f} {rng.uniform(1.2, 1.6):.4f}\n" for k in each(bonds)
    )
    text += "\nANGLES\n"
    for key in each(angles):
        text += f"{' '.join(key)} {rng.uniform(20, 80):.4f} {rng.uniform(95, 125):.4f}"
        text += f" {rng.uniform(5, 40):.4f} {rng.uniform(2.0, 2.6):.4f}\n" if rng.random() < 0.5 else "\n"
    text += "\nDIHEDRALS\n"
    for key in each(torsions):
        for n in range(1, 2 + int(rng.integers(0, 3))):
            text += f"{' '.join(key)} {rng.normal():.4f} {n} {rng.choice([0.0, 180.0, 35.0]):.2f}\n"
    text += "\nIMPROPERS\n" + "".join(
        f"{' '.join(k)} {rng.uniform(1, 60):.4f} 0 {rng.choice([0.0, 20.0, 180.0]):.2f}\n" for k in each(impropers)
    )
    scale = rng.choice([1.0, 0.5])
    text += (
        f"\nNONBONDED nbxmod  5 atom cdiel shift vatom vdistance vswitch -\ncutnb 14.0 ctofnb 12.0 ctonnb 10.0 eps "
        f"1.0 e14fac {scale} wmin 1.5\n"
    )
    for t in masses:
        text += f"{t} 0.0 {-rng.uniform(0.01, 0.2):.6f} {rng.uniform(0.4, 0.9):.6f}"
        text += f" 0.0 {-rng.uniform(0.01, 0.2):.6f} {rng.uniform(0.4, 0.9):.6f}\n" if rng.random() < 0.5 else "\n"
    listed = list(masses)
    if len(listed) > 1 and rng.random() < 0.4:
        text += f"\nNBFIX\n{listed[0]} {listed[1]} {-rng.uniform(0.01, 0.3):.5f} {rng.uniform(1.0, 1.8):.5f}\n"
    return text + "\nEND\n"
