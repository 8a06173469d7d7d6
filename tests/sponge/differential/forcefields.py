"""Random peptides, nucleic acids, ions and water as PDB and mmCIF files, with the force fields that come with
OpenMM.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.sponge.differential.compare import Refused, differences, evaluate
from triskele import sponge
from triskele.sponge.errors import FileFormatError

__all__ = ["case", "random_positions"]

# Sets of files of OpenMM's, and what they hold: amino acids (p), DNA (d), RNA (r), water of 3, 4 or 5 sites, ions (i)
_FIELDS = [
    (("amber14/protein.ff14SB.xml", "amber14/tip3p.xml"), "pi3"), (("amber14-all.xml", "amber14/tip3pfb.xml"), "pdri3"),
    (("amber14-all.xml", "amber14/spce.xml"), "pdri3"), (("amber14-all.xml", "amber14/opc3.xml"), "pdri3"),
    (("amber14-all.xml", "amber14/tip4pew.xml"), "pdri4"), (("amber14-all.xml", "amber14/tip4pfb.xml"), "pdri4"),
    (("amber14/protein.ff14SB.xml", "amber14/opc.xml"), "pi4"), (("amber14/DNA.bsc1.xml", "amber14/tip3p.xml"), "di3"),
    (("amber14/DNA.OL15.xml",), "d"), (("amber14/RNA.OL3.xml",), "r"), (("amber14/protein.ff15ipq.xml",), "p"),
    (("amber19/protein.ff19SB.xml", "amber19/DNA.OL21.xml", "amber19/opc.xml"),
     "pdi4"), (("amber19/protein.ff19SB.xml", "amber19/opc3.xml"), "pi3"),
    (("amber19/DNA.OL21.xml",), "d"), (("amber99sb.xml", "tip3p.xml"),
                                       "pdr3"), (("amber99sbildn.xml", "spce.xml"), "pdr3"),
    (("amber99sbnmr.xml", "tip3pfb.xml"), "pdr3"), (("amber03.xml", "tip4pew.xml"), "pdr4"), (("amber96.xml",), "pdr"),
    (("amber10.xml", "tip5p.xml"), "pdr5"), (("amberfb15.xml", "tip3pfb.xml"),
                                             "p3"), (("amber10.xml", "opc.xml"), "p4"),
]  # fmt: skip
_REFUSED = {  # files that hold what we refuse, and the word that names it
    "charmm_polar_2013.xml": "Script",
    "amoeba2013_gk.xml": "Amoeba",
    "amoeba2018.xml": "Amoeba",
    "iamoeba.xml": "Amoeba",
}
_AMINO = (
    "ALA ARG ASH ASN ASP CYS CYM GLH GLN GLU GLY HID HIE HIP ILE LEU LYN LYS MET PHE PRO SER THR TRP TYR VAL".split()
)
_IONS = "NA CL K MG LI RB CS F BR ZN CA".split()
_IMPLICIT = ("hct", "obc1", "obc2", "gbn", "gbn2")


@cache
def _field(files: tuple[str, ...]) -> tuple[Any, Any]:
    from openmm import app

    data = Path(app.__file__).parent / "data"
    return app.ForceField(*files), sponge.forcefield.ForceField(*[data / f for f in files])


def case(seed: int, folder: Path) -> list[str]:
    """A random structure and force field, read by both."""
    from openmm import app, unit

    rng = np.random.default_rng([11, seed])
    if rng.random() < 0.03:
        return _refusal(rng)
    files, content = _FIELDS[rng.integers(len(_FIELDS))]
    implicit = str(rng.choice(_IMPLICIT)) if rng.random() < 0.2 and files[0][:7] in ("amber14", "amber99") else None
    theirs, ours = _field(files)
    if implicit:
        theirs = _with_implicit(files, implicit)
    topology = _topology(rng, theirs, content if implicit is None else content[0])
    positions = random_positions(rng, topology) + 0.5
    box = None
    if implicit is None and rng.random() < 0.6:
        box = np.diag(np.ptp(positions, axis=0) + rng.uniform(0.2, 1.0, 3)) + np.diag([1.2] * 3)
        topology.setPeriodicBoxVectors(box * unit.nanometer)
    suffix = str(rng.choice(["pdb", "pdb", "cif"]))
    path = folder / f"x.{suffix}"
    writer = app.PDBFile if suffix == "pdb" else app.PDBxFile
    with path.open("w") as file:
        writer.writeFile(topology, positions * unit.nanometer, file, keepIds=True)
    structure = writer(str(path))
    if suffix == "cif":  # OpenMM looks for disulfides by distance in PDB files only, we do in both
        structure.topology.createDisulfideBonds(structure.positions)
    positions = structure.getPositions(asNumpy=True)._value
    options, mine = _options(rng, box is not None, implicit)
    try:
        reference = theirs.createSystem(structure.topology, **options)
    except ValueError as error:
        raise Refused(f"OpenMM: {error}") from None
    if implicit:
        while _crowded(reference, positions):
            positions = 1.1 * positions
    if box is not None:
        mine["dispersion_correction"] = _dispersion(reference)
    system = sponge.load(path, forcefield=ours, **mine)
    return differences(system, reference, positions, rtol=1e-6)


def _crowded(reference: Any, positions: np.ndarray) -> bool:
    """Return True if a Born radius is not defined, or an atom lies within the sphere of another, which ours count as
    AMBER does.
    """
    force = next(f for f in reference.getForces() if hasattr(f, "getNumEnergyTerms"))
    rows = np.array([force.getParticleParameters(i) for i in range(len(positions))])
    inner, outer = rows[:, 1], rows[:, 2]
    distances = np.linalg.norm(positions[:, None] - positions, axis=-1) + 9 * np.eye(len(positions))
    return bool(np.any(outer > distances + inner[:, None])) or not np.isfinite(
        sum(evaluate(reference, positions).energies.values())
    )


@cache
def _with_implicit(files: tuple[str, ...], model: str) -> Any:
    from openmm import app

    return app.ForceField(*files, f"implicit/{model}.xml")


def _dispersion(reference: Any) -> bool:
    return next(
        f.getUseDispersionCorrection() for f in reference.getForces() if hasattr(f, "getUseDispersionCorrection")
    )


def _refusal(rng: np.random.Generator) -> list[str]:
    from openmm import app

    file = str(rng.choice(list(_REFUSED)))
    try:
        sponge.forcefield.ForceField(Path(app.__file__).parent / "data" / file)
    except FileFormatError as error:
        if _REFUSED[file] in str(error):
            raise Refused(str(error)) from None
        return [f"{file}: the error must name {_REFUSED[file]}, got {error}"]
    return [f"{file}: must be refused"]


def _options(rng: np.random.Generator, periodic: bool, implicit: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    from openmm import app, unit

    # OpenMM makes the hydrogens of flexible water heavier, we never do
    kind = str(rng.choice(["None", "HBonds", "AllBonds", "HAngles"]))
    water, heavy = bool(rng.random() < 0.7), float(rng.choice([0.0, 1.5, 3.0]))
    heavy = heavy if water else 0.0
    theirs: dict[str, Any] = {
        "constraints": None if kind == "None" else getattr(app, kind),
        "rigidWater": water,
        "removeCMMotion": bool(rng.random() < 0.5),
        "hydrogenMass": heavy * unit.dalton if heavy else None,
    }
    names = {"None": None, "HBonds": "h-bonds", "AllBonds": "all-bonds", "HAngles": "h-angles"}
    ours: dict[str, Any] = {"constraints": names[kind], "rigid_water": water, "hydrogen_mass": heavy or None}
    if periodic:
        method = str(rng.choice(["CutoffPeriodic", "PME", "Ewald", "NoCutoff"], p=[0.3, 0.4, 0.1, 0.2]))
    else:
        method = "NoCutoff" if implicit or rng.random() < 0.8 else "CutoffNonPeriodic"
    if implicit:
        ours["implicit_solvent"] = implicit
    theirs["nonbondedMethod"] = getattr(app, method)
    ours["method"] = {
        "CutoffPeriodic": "reaction_field",
        "CutoffNonPeriodic": "reaction_field",
        "PME": "pme",
        "Ewald": "ewald",
        "NoCutoff": "none",
    }[method]
    if method != "NoCutoff":
        cutoff = float(rng.uniform(0.5, 0.7))
        theirs["nonbondedCutoff"], ours["cutoff"] = cutoff * unit.nanometer, cutoff
        if rng.random() < 0.3:
            theirs["switchDistance"], ours["switch"] = 0.8 * cutoff * unit.nanometer, 0.8 * cutoff
        if method in ("PME", "Ewald"):
            theirs["ewaldErrorTolerance"] = ours["tolerance"] = 1e-4
    return theirs, ours


def random_positions(rng: np.random.Generator, topology: Any) -> np.ndarray:
    """Positions [n, 3] in nm with bonded atoms 0.12 to 0.17 nm apart and all others at least 0.1 nm."""
    n = topology.getNumAtoms()
    near: list[list[int]] = [[] for _ in range(n)]
    for a, b in topology.bonds():
        near[a.index].append(b.index)
        near[b.index].append(a.index)
    placed: dict[int, np.ndarray] = {}
    points = np.empty((0, 3))

    def put(atom: int, center: np.ndarray, low: float, high: float) -> None:
        nonlocal points
        for _ in range(2000):
            step = rng.normal(size=3)
            new = center + rng.uniform(low, high) * step / np.linalg.norm(step)
            if not len(points) or np.linalg.norm(points - new, axis=1).min() > 0.1:
                break
        placed[atom], points = new, np.vstack([points, new])

    for first in range(n):
        if first in placed:
            continue
        put(first, points[rng.integers(len(points))] if len(points) else np.zeros(3), 0.35, 1.0)
        queue = [first]
        while queue:
            atom = queue.pop(0)
            for other in near[atom]:
                if other not in placed:
                    put(other, placed[atom], 0.12, 0.17)
                    queue.append(other)
    return np.array([placed[k] for k in range(n)])


def _topology(rng: np.random.Generator, field: Any, content: str) -> Any:
    from openmm import app

    topology = app.Topology()
    kinds = [c for c in content if c in "pdr"]
    known = field._templates
    kinds = [k for k in kinds if k == "p" or ("DA5" if k == "d" else "A5") in known]
    kind = kinds[rng.integers(len(kinds))]
    length = int(rng.integers(2, 7))
    if kind == "p":
        rest = [a for a in _AMINO if a in known and f"N{a}" in known and f"C{a}" in known]
        names = rng.choice(rest, length).tolist()
        middle = rng.choice([a for a in [*_AMINO] if a in known], length).tolist()
        names = [names[0], *middle[1:-1], names[-1]]
        bridge = (
            rng.choice(np.arange(1, length - 1), 2, replace=False)
            if length > 4 and "CYX" in known and rng.random() < 0.5
            else ()
        )
        for k in bridge:
            names[k] = "CYX"
        capped = rng.random() < 0.3 and "ACE" in known
        templates = ["ACE", *names, "NME"] if capped else [f"N{names[0]}", *names[1:-1], f"C{names[-1]}"]
        residues = _chain(topology, field, templates, "C", "N", [_plain(t, capped) for t in templates])
        if len(bridge):
            topology.addBond(*(residues[k + capped]["SG"] for k in bridge))
    else:
        letters = ["DA", "DC", "DG", "DT"] if kind == "d" else ["A", "C", "G", "U"]
        names = rng.choice(letters, length).tolist()
        _chain(topology, field, [f"{names[0]}5", *names[1:-1], f"{names[-1]}3"], "O3'", "P", names)
    if "i" in content:
        chain = topology.addChain()
        for ion in rng.choice([i for i in _IONS if i in known], int(rng.integers(0, 3))).tolist():
            _residue(topology, chain, field, ion, ion)
    if content[-1] in "345" and rng.random() < 0.7:
        chain = topology.addChain()
        for _ in range(int(rng.integers(1, 4))):
            _residue(topology, chain, field, "HOH", "HOH")
    return topology


def _plain(template: str, capped: bool) -> str:
    """The name that a residue has in PDB files."""
    name = template if capped or len(template) == 3 else template[1:]
    return {
        "HID": "HIS",
        "HIE": "HIS",
        "HIP": "HIS",
        "ASH": "ASP",
        "GLH": "GLU",
        "LYN": "LYS",
        "CYM": "CYS",
        "CYX": "CYS",
    }.get(name, name)


def _chain(
    topology: Any, field: Any, templates: list[str], tail: str, head: str, names: list[str]
) -> list[dict[str, Any]]:
    chain = topology.addChain()
    residues = [_residue(topology, chain, field, template, name) for template, name in zip(templates, names)]
    for before, after in zip(residues, residues[1:]):
        topology.addBond(before[tail], after[head])
    return residues


def _residue(topology: Any, chain: Any, field: Any, template: str, name: str) -> dict[str, Any]:
    residue = topology.addResidue(name, chain)
    data = field._templates[template]
    atoms = [topology.addAtom(a.name, a.element, residue) for a in data.atoms]
    for i, j in data.bonds:
        topology.addBond(atoms[i], atoms[j])
    return {a.name: a for a in atoms}
