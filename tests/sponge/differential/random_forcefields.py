"""Random force fields over random molecules: wildcards, types and classes, orders of definitions, exceptions from
mixing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.sponge.differential.compare import Refused, differences
from tests.sponge.differential.forcefields import random_positions
from triskele import sponge
from triskele.sponge.errors import FileFormatError, MissingParameterError, MissingTemplateError

__all__ = ["case"]

_ELEMENTS = {"C": 12.011, "N": 14.007, "O": 15.999, "S": 32.06, "P": 30.974, "Cl": 35.45}
# What we refuse, where it stands in a file, and the word that names it
_FOREIGN = [
    ("<Script>pass</Script>", "", "Script"), ("", "<AmoebaBondForce/>", "AmoebaBondForce"),
    ("", "<NonbondedForce coulomb14scale='0.5' lj14scale='0.5' charge14scale='1'/>", "charge14scale"),
    ("", "<HarmonicBondForce><Bond class1='' class2='' length='0.1' k='1' cubic='3'/></HarmonicBondForce>", "cubic"),
    ("", "<PeriodicTorsionForce><Proper class1='' class2='' class3='' class4='' periodicity1='1' phase1='0' k1='1' "
     "periodicity3='3' phase3='0' k3='1'/></PeriodicTorsionForce>", "periodicity3"),
    ("", "<HarmonicAngleForce><Bend/></HarmonicAngleForce>", "Bend"), ("<Patches><Drude/></Patches>", "", "Drude"),
]  # fmt: skip


def case(seed: int, folder: Path) -> list[str]:
    """A random force field and structure, read by both."""
    from openmm import app, unit

    rng = np.random.default_rng([13, seed])
    # each type has an element of its own, since OpenMM matches residues by elements alone; and more than one class,
    # since it takes a class of all types for a wildcard
    elements = rng.permutation(list(_ELEMENTS)).tolist()[: int(rng.integers(3, 7))]
    types = [(f"t{k}", f"c{k if k < 2 else rng.integers(4)}", element) for k, element in enumerate(elements)]
    molecules = [_molecule(rng, types, name) for name in ("MOA", "MOB")[: int(rng.integers(1, 3))]]
    foreign = _FOREIGN[rng.integers(len(_FOREIGN))] if rng.random() < 0.06 else ("", "", "")
    path = folder / "field.xml"
    path.write_text(_forcefield(rng, types, molecules, foreign))
    topology = app.Topology()
    chain = topology.addChain()
    for _ in range(int(rng.integers(1, 4))):
        name, atoms, bonds = molecules[rng.integers(len(molecules))]
        residue = topology.addResidue(name, chain)
        made = [topology.addAtom(f"A{k}", app.Element.getBySymbol(types[t][2]), residue) for k, t in enumerate(atoms)]
        for i, j in bonds:
            topology.addBond(made[i], made[j])
    positions = random_positions(rng, topology)
    structure = folder / "x.pdb"
    with structure.open("w") as file:
        app.PDBFile.writeFile(topology, positions * unit.nanometer, file, keepIds=True)
    options = {"None": None, "HBonds": None, "AllBonds": "all-bonds"}
    kind = str(rng.choice(["None", "AllBonds"]))
    try:
        ours: Any = sponge.load(structure, forcefield=[path], constraints=options[kind], method="none")
    except (FileFormatError, MissingParameterError, MissingTemplateError) as error:
        ours = error
    if foreign[2]:
        if isinstance(ours, FileFormatError) and foreign[2] in str(ours):
            raise Refused(str(ours))
        return [f"a force field with {foreign[2]} must be refused, got {ours}"]
    read = app.PDBFile(str(structure))
    try:
        field = app.ForceField(str(path))
        theirs = field.createSystem(
            read.topology, constraints=None if kind == "None" else app.AllBonds, removeCMMotion=False
        )
    except Exception as error:  # noqa: BLE001  compared with the other outcome
        if isinstance(ours, Exception):
            raise Refused(f"{ours} (OpenMM: {error})") from None
        raise Refused(f"OpenMM alone: {error}") from None
    if isinstance(ours, MissingParameterError) and "must have parameters for every" in str(ours):
        raise Refused(str(ours))  # OpenMM leaves out terms without parameters, we never do
    if isinstance(ours, Exception):
        return [f"OpenMM reads it, we refuse: {ours}"]
    groups = {"LennardJones": "pairs", "LennardJones14": "pairs"}
    return differences(ours, theirs, read.getPositions(asNumpy=True)._value, groups=groups)


def _molecule(rng: np.random.Generator, types: list, name: str) -> tuple[str, list[int], list[tuple[int, int]]]:
    n = int(rng.integers(3, 10))
    atoms = rng.integers(0, len(types), n).tolist()
    bonds = [(int(rng.integers(max(0, k - 3), k)), k) for k in range(1, n)]
    if n > 4 and rng.random() < 0.3 and (0, n - 1) not in bonds:
        bonds.append((0, n - 1))
    return name, atoms, bonds


def _keys(rng: np.random.Generator, types: list, n: int, wild: float) -> str:
    """Attributes that name `n` atoms, by type, by class or not at all."""
    out = []
    for k in range(n):
        name, cls, _ = types[rng.integers(len(types))]
        suffix = str(k + 1) if n > 1 else ""
        out.append(
            f'class{suffix}=""'
            if rng.random() < wild
            else f'type{suffix}="{name}"'
            if rng.random() < 0.4
            else f'class{suffix}="{cls}"'
        )
    return " ".join(out)


def _shuffled(rng: np.random.Generator, lines: list[str], last: str) -> str:
    """Lines in any order, and one for all atoms: most often at the end."""
    lines = [lines[k] for k in rng.permutation(len(lines))]
    lines.insert(len(lines) if rng.random() < 0.7 else int(rng.integers(0, len(lines) + 1)), last)
    return "\n".join(lines)


def _forcefield(rng: np.random.Generator, types: list, molecules: list, foreign: tuple[str, str, str]) -> str:
    number = lambda lo, hi: f"{rng.uniform(lo, hi):.6f}"
    series = lambda: " ".join(
        f'periodicity{k}="{rng.integers(1, 7)}" phase{k}="{number(-3, 3)}" k{k}="{number(-5, 9)}"'
        for k in range(1, int(rng.integers(2, 4)))
    )
    rb = lambda: " ".join(f'c{k}="{number(-3, 3)}"' for k in range(6))
    everything = lambda n: " ".join(f'class{k + 1}=""' for k in range(n))
    several = lambda n: range(int(rng.integers(0, n)))
    of_residue = rng.random() < 0.5
    out = ["<ForceField>", foreign[0], "<AtomTypes>"]
    out += [f'<Type name="{t}" class="{c}" element="{e}" mass="{_ELEMENTS[e]}"/>' for t, c, e in types]
    out += ["</AtomTypes>", "<Residues>"]
    for name, atoms, bonds in molecules:
        out.append(f'<Residue name="{name}">')
        charge = lambda: f' charge="{number(-0.5, 0.5)}"' if of_residue else ""
        out += [f'<Atom name="A{k}" type="{types[t][0]}"{charge()}/>' for k, t in enumerate(atoms)]
        out += [f'<Bond atomName1="A{i}" atomName2="A{j}"/>' for i, j in bonds] + ["</Residue>"]
    out.append("</Residues>")
    spring = lambda what, low, high: f'{what}="{number(low, high)}" k="{number(0, 900)}"/>'
    # OpenMM takes the first bond and proper of a Python set: with eight or fewer, that is the first in the file
    bonds = [f"<Bond {_keys(rng, types, 2, 0.2)} {spring('length', 0.1, 0.2)}" for _ in several(8)]
    out.append(
        "<HarmonicBondForce>"
        + _shuffled(rng, bonds, f'<Bond {everything(2)} length="0.15" k="500"/>')
        + "</HarmonicBondForce>"
    )
    angles = [f"<Angle {_keys(rng, types, 3, 0.2)} {spring('angle', 1, 3)}" for _ in several(9)]
    out.append(
        "<HarmonicAngleForce>"
        + _shuffled(rng, angles, f'<Angle {everything(3)} angle="2" k="50"/>')
        + "</HarmonicAngleForce>"
    )
    propers = [f"<Proper {_keys(rng, types, 4, 0.3)} {series()}/>" for _ in several(8)]
    impropers = [f"<Improper {_keys(rng, types, 4, 0.4)} {series()}/>" for _ in several(9)]
    ordering = str(
        rng.choice(["", ' ordering="amber"', ' ordering="charmm"', ' ordering="default"', ' ordering="smirnoff"'])
    )
    proper = f'<Proper {everything(4)} periodicity1="2" phase1="0.3" k1="2"/>'
    out.append(
        f"<PeriodicTorsionForce{ordering}>" + _shuffled(rng, [*propers, *impropers], proper) + "</PeriodicTorsionForce>"
    )
    if rng.random() < 0.3:
        lines = [f"<Proper {_keys(rng, types, 4, 0.4)} {rb()}/>" for _ in several(6)]
        lines += [f"<Improper {_keys(rng, types, 4, 0.4)} {rb()}/>" for _ in several(4)]
        out.append("<RBTorsionForce>" + "\n".join(lines) + "</RBTorsionForce>")
    nbfix = rng.random() < 0.3
    out.append('<NonbondedForce coulomb14scale="0.8" lj14scale="0.5">')
    if of_residue:
        out.append('<UseAttributeFromResidue name="charge"/>')
    atom = lambda keys: f"<Atom {keys}" + ("" if of_residue else f' charge="{number(-0.5, 0.5)}"')
    lj = lambda: f' sigma="{number(0.1, 0.3)}" epsilon="{number(0, 1)}"/>'
    zero = ' sigma="1" epsilon="0"/>'
    by_type = [f'type="{t}"' for t, _, _ in types]
    keys = [*by_type, *(_keys(rng, types, 1, 0.0) for _ in several(4))]
    keys = [keys[k] for k in rng.permutation(len(keys))]
    out += [atom(k) + (zero if nbfix else lj()) for k in keys] + ["</NonbondedForce>"]
    if nbfix:
        out.append('<LennardJonesForce lj14scale="0.5">')
        more = lambda: f' sigma14="{number(0.1, 0.3)}" epsilon14="{number(0, 1)}"' if rng.random() < 0.3 else ""
        out += [f"<Atom {k}{more()}{lj()}" for k in keys]
        pairs = {tuple(sorted(rng.choice(len(types), 2).tolist())) for _ in several(4)}
        out += [f'<NBFixPair type1="t{i}" type2="t{j}"{lj()}' for i, j in sorted(pairs)] + ["</LennardJonesForce>"]
    return "\n".join([*out, foreign[1], "</ForceField>"])
