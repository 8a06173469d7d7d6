"""Random AMBER topologies, against OpenMM's own reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.sponge.differential.compare import differences, spread
from triskele.sponge.load.amber import load_amber

WEIGHTS = {1: 1.008, 6: 12.01, 7: 14.01, 8: 16.0, 15: 30.97, 16: 32.06}
LETTERS = {1: "H", 6: "C", 7: "N", 8: "O", 15: "P", 16: "S"}
RESIDUES = ("ALA", "ARG", "DG5", "DC", "DA3", "U", "G5", "LIG")
POINTERS = (
    "NATOM NTYPES NBONH MBONA NTHETH MTHETA NPHIH MPHIA NHPARM NPARM NNB NRES NBONA NTHETA NPHIA NUMBND NUMANG "
    "NPTRA NATYP NPHB IFPERT NBPER NGPER NDPER MBPER MGPER MDPER IFBOX NMXRS IFCAP NUMEXTRA NCOPY"
).split()


def rows(values: Any, per_line: int, form: str) -> str:
    """Columns of a section."""
    lines = ["".join(form.format(v) for v in values[k : k + per_line]) for k in range(0, len(values), per_line)]
    return "\n".join(lines or [""]) + "\n"


def section(name: str, values: Any) -> str:
    """A section in the format of its values: integers, numbers or names."""
    kind = "a" if len(values) and isinstance(values[0], str) else "I" if np.asarray(values).dtype.kind in "iu" else "E"
    form, per_line, each = {"a": ("20a4", 20, "{:4s}"), "I": ("10I8", 10, "{:8d}"), "E": ("5E16.8", 5, "{:16.8E}")}[
        kind
    ]
    return f"%FLAG {name}\n%FORMAT({form})\n{rows(values, per_line, each)}"


class _Molecule:
    """Heavy atoms as a tree, hydrogens at their ends."""

    def __init__(self, rng: np.random.Generator):
        self.positions = spread(rng, int(rng.integers(4, 16)))
        n = self.n = len(self.positions)
        self.numbers = rng.choice([6, 7, 8, 15, 16], n)
        order = np.arange(n)
        pairs = [
            (int(np.argmin(np.linalg.norm(self.positions[:i] - self.positions[i], axis=1))), i) for i in range(1, n)
        ]
        degree = np.bincount(np.array(pairs).ravel(), minlength=n)
        self.numbers[(degree == 1) & (order > 0) & (rng.random(n) < 0.7)] = 1
        heavy = np.flatnonzero(self.numbers > 1)
        if len(heavy) > 3 and rng.random() < 0.3 and (heavy[0], heavy[-1]) not in pairs:
            pairs.append((int(heavy[0]), int(heavy[-1])))
        near: list[set[int]] = [set() for _ in range(n)]
        for i, j in pairs:
            near[i].add(j)
            near[j].add(i)
        self.bonds, self.near = pairs, near
        self.angles = [(i, j, k) for j in range(n) for i in near[j] for k in near[j] if i < k]
        self.torsions = [(i, j, k, m) for j, k in pairs for i in near[j] - {k} for m in near[k] - {j, i}]
        self.impropers = [(*sorted(near[j])[:2], j, sorted(near[j])[2]) for j in range(n) if len(near[j]) >= 3]
        self.residues = [(0, n // 2), (n // 2, n)] if rng.random() < 0.5 else [(0, n)]


def write(rng: np.random.Generator, path: Path) -> tuple[np.ndarray, dict[str, Any]]:
    """A random file; positions, and what was put in."""
    m = _Molecule(rng)
    n, h = m.n, m.numbers == 1
    known = rng.random() < 0.6
    types = rng.integers(0, int(rng.integers(1, 5)), n)
    nt = int(types.max()) + 1
    charges = rng.normal(0, 6, n)

    def pointer(atoms, at, signs=None):  # no first atom of a torsion with a sign may be 0, which has none
        return [3 * a * s for a, s in zip(atoms, signs or [1] * len(atoms))] + [at + 1]

    def split(terms):
        with_h = [t for t in terms if h[list(t)].any()]
        return with_h, [t for t in terms if not h[list(t)].any()]

    values: dict[str, Any] = {}
    counts = {"NATOM": n, "NTYPES": nt, "NRES": len(m.residues), "NATYP": nt, "NMXRS": n, "NCOPY": 0}
    for kind, terms, pointers, number in (
        ("BONDS", m.bonds, ("NBONH", "NBONA"), "NUMBND"),
        ("ANGLES", m.angles, ("NTHETH", "NTHETA"), "NUMANG"),
    ):
        count = counts[number] = int(rng.integers(1, 6))
        for part, name, key in zip(split(terms), ("INC", "WITHOUT"), pointers):
            values[f"{kind}_{name}_HYDROGEN"] = [x for t in part for x in pointer(t, int(rng.integers(count)))]
            counts[key] = len(part)
    counts |= {"MBONA": counts["NBONA"], "MTHETA": counts["NTHETA"]}
    count = counts["NPTRA"] = int(rng.integers(1, 8))
    listed: list[list[list[int]]] = [[], []]
    seen = set()
    for t in m.torsions:
        if t[2] == 0 or t[3] == 0:
            t = t[::-1]  # a mark cannot stand at atom 0
        for k in range(1 + int(rng.random() < 0.3)):
            # of several terms, and of rings, the pair counts once
            pair = tuple(sorted((t[0], t[3])))
            again = k > 0 or pair in seen or t[3] in m.near[t[0]] or m.near[t[0]] & m.near[t[3]]
            seen.add(pair)
            signs = [1, 1, -1 if again else 1, 1]
            listed[not h[list(t)].any()].append(pointer(t, int(rng.integers(count)), signs))
    for t in m.impropers:
        if rng.random() < 0.5 and t[3] != 0 and t[2] != 0:
            listed[not h[list(t)].any()].append(pointer(t, int(rng.integers(count)), [1, 1, -1, -1]))
    for part, name, key in zip(listed, ("INC", "WITHOUT"), ("NPHIH", "NPHIA")):
        values[f"DIHEDRALS_{name}_HYDROGEN"] = [x for row in part for x in row]
        counts[key] = len(part)
    counts["MPHIA"] = counts["NPHIA"]
    excluded: list[set[int]] = [set() for _ in range(n)]
    for group in (m.bonds, [(a[0], a[2]) for a in m.angles], [(t[0], t[3]) for t in m.torsions]):
        for i, j in group:
            excluded[min(i, j)].add(max(i, j))
    flat = [j for e in excluded for j in ([k + 1 for k in sorted(e)] or [0])]
    counts["NNB"] = len(flat)
    box = rng.random() < 0.3
    counts["IFBOX"] = int(box)
    sigma, epsilon = rng.uniform(0.8, 1.8, nt), rng.uniform(0.01, 0.2, nt) * (rng.random(nt) > 0.1)
    mixed, depth = (sigma[:, None] + sigma) / 2, np.sqrt(epsilon[:, None] * epsilon)
    if nt > 1 and rng.random() < 0.3:
        mixed[0, 1] = mixed[1, 0] = 1.1 * mixed[0, 1]
        depth[0, 1] = depth[1, 0] = depth[0, 1] + 0.05
    index = np.zeros((nt, nt), int)
    index[np.tril_indices(nt)] = np.arange(nt * (nt + 1) // 2) + 1
    index = np.maximum(index, index.T)
    lower = np.tril_indices(nt)
    masses = np.array([WEIGHTS[z] for z in m.numbers])
    if rng.random() < 0.3:  # repartitioned
        for i, j in m.bonds:
            for light, heavy in ((i, j), (j, i)):
                if h[light] and not h[heavy]:
                    masses[light] += 2.016
                    masses[heavy] -= 2.016
    names = [f"{LETTERS[z]}{i}" for i, z in enumerate(m.numbers)]
    text = "%VERSION  VERSION_STAMP = V0001.000  DATE = 01/01/01  00:00:00\n" + section("TITLE", ["x"])
    text += section("POINTERS", [counts.get(p, 0) for p in POINTERS]) + section("ATOM_NAME", names)
    text += section("CHARGE", charges)
    if known:
        lost = (rng.random(n) < 0.2) & ~h
        values["ATOMIC_NUMBER"] = np.where(lost, rng.choice([-1, 0], n), m.numbers)
    labels = [str(x) for x in rng.choice(RESIDUES, len(m.residues))]
    values |= {
        "MASS": masses,
        "ATOM_TYPE_INDEX": types + 1,
        "NUMBER_EXCLUDED_ATOMS": [max(len(e), 1) for e in excluded],
        "NONBONDED_PARM_INDEX": index.ravel(),
        "RESIDUE_LABEL": labels,
        "RESIDUE_POINTER": [a + 1 for a, _ in m.residues],
        "BOND_FORCE_CONSTANT": rng.uniform(100, 500, counts["NUMBND"]),
        "BOND_EQUIL_VALUE": rng.uniform(1.2, 1.7, counts["NUMBND"]),
        "ANGLE_FORCE_CONSTANT": rng.uniform(20, 90, counts["NUMANG"]),
        "ANGLE_EQUIL_VALUE": rng.uniform(1.7, 2.2, counts["NUMANG"]),
        "DIHEDRAL_FORCE_CONSTANT": rng.normal(0, 2, count),
        "DIHEDRAL_PERIODICITY": rng.integers(1, 6, count).astype(float),
        "DIHEDRAL_PHASE": rng.choice([0.0, np.pi, 0.7], count),
        "LENNARD_JONES_ACOEF": (4 * depth * mixed**12)[lower],
        "LENNARD_JONES_BCOEF": (4 * depth * mixed**6)[lower],
        "EXCLUDED_ATOMS_LIST": flat,
        "SOLTY": [0.0] * nt,
        "HBOND_ACOEF": [],
        "HBOND_BCOEF": [],
        "AMBER_ATOM_TYPE": [f"t{t}" for t in types],
        "RADIUS_SET": ["none"],
        "RADII": rng.uniform(1.1, 1.9, n),
        "SCREEN": rng.uniform(0.7, 0.9, n),
        "IPOL": [0],
    }
    if rng.random() < 0.7:
        values["SCEE_SCALE_FACTOR"], values["SCNB_SCALE_FACTOR"] = rng.uniform(1, 2, (2, count))
    if box:
        values["SOLVENT_POINTERS"], values["ATOMS_PER_MOLECULE"] = [1, 1, 1], [n]
        values["BOX_DIMENSIONS"] = [90.0, 31.0, 33.0, 35.0]
    path.write_text(text + "".join(section(name, v) for name, v in values.items()))
    lost = known and bool((values["ATOMIC_NUMBER"] <= 0).any())
    return m.positions, {"box": box, "lost": lost, "mixed": depth}


def _engulfed(system: Any, positions: np.ndarray) -> bool:
    """Return True if an atom lies within the sphere by which another one displaces solvent."""
    gb = system["gb"]
    rho = gb.params["radii"] - gb.constants.offset
    r = np.linalg.norm(positions[:, None] - positions, axis=-1) + 10 * np.eye(len(rho))
    return bool(np.any((gb.params["scales"] * rho)[None] - r > rho[:, None]))


def case(seed: int, folder: Path) -> list[str]:
    """One random file, with random options."""
    import openmm.app as app
    from openmm import unit

    rng = np.random.default_rng([seed, 73])
    path = folder / "x.prmtop"
    positions, facts = write(rng, path)
    # OpenMM takes atoms without an element for extra points, which it does not constrain
    constraints = "none" if facts["lost"] else str(rng.choice(["none", "h-bonds", "all-bonds"]))
    ours: dict[str, Any] = {"constraints": None if constraints == "none" else constraints}
    theirs: dict[str, Any] = {
        "constraints": {"none": None, "h-bonds": app.HBonds, "all-bonds": app.AllBonds}[constraints]
    }
    if rng.random() < 0.2 and not facts["lost"]:
        ours["hydrogen_mass"], theirs["hydrogenMass"] = 4.0, 4.0 * unit.dalton
    if rng.random() < 0.5 and not facts["lost"]:
        model = str(rng.choice(["HCT", "OBC1", "OBC2", "GBn", "GBn2"]))
        ours |= {"implicit_solvent": model.lower(), "kappa": 0.7}
        theirs |= {"implicitSolvent": getattr(app, model), "implicitSolventKappa": 0.7 / unit.nanometer}
        box = False
    else:
        box = facts["box"]
    if box:
        ours |= {"method": "pme", "cutoff": 1.0}
        theirs |= {"nonbondedMethod": app.PME, "nonbondedCutoff": 1.0 * unit.nanometer}
    else:
        ours["method"], theirs["nonbondedMethod"] = "none", app.NoCutoff
    system = load_amber(path, positions, **ours)
    if not box:
        system.box = None
    if "gb" in system and _engulfed(system, positions):  # which OpenMM's custom forces have no term for, unlike sander
        system.remove("gb")
        theirs = {key: value for key, value in theirs.items() if not key.startswith("implicit")}
    reference = app.AmberPrmtopFile(str(path)).createSystem(**theirs, removeCMMotion=False)
    return differences(system, reference, positions)
