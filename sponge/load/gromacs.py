"""GROMACS topologies: a .top with the files it includes becomes a `System`.

Lengths are in nm, energies in kJ/mol, angles in degrees; force constants carry the factor 1/2 (manual of GROMACS,
"Topologies"). Molecules are read once and repeated as often as [ molecules ] says.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import check

from ..codegen.tabulated import Tabulated
from ..constraints.choose import Constraints, constrain
from ..errors import FileFormatError
from ..potentials.bonded import gromacs as potentials
from ..potentials.expressions.compound import ExpressionCompound
from ..potentials.pairs.mixing import LJTable
from ..potentials.restraints import PositionRestraint, torsion_restraint
from ..system import System
from ..topology import Topology
from ..virtual_sites import sites as virtual_sites
from .gromacs_functions import DEGREE
from .gromacs_molecules import Molecule
from .gromacs_text import read_lines
from .gromacs_types import Types, numbers
from .terms import Terms, guess_elements

__all__ = ["load_gromacs"]

# Where the parameters of a kind of term hold the length or angle that a constraint takes over, and their names
_LENGTHS = {"bond": 1, "g96_bond": 1, "morse_bond": 2, "cubic_bond": 2}
_ANGLES = {"angle": 1, "g96_angle": 1, "restricted_angle": 1, "quartic_angle": 0}
_OTHERS = {
    "g96_bond": "k r0",
    "morse_bond": "depth beta r0",
    "cubic_bond": "k cubic r0",
    "fene_bond": "k longest",
    "restraint_bond": "k lower upper linear",
    "g96_angle": "k theta0",
    "restricted_angle": "k theta0",
    "quartic_angle": "theta0 c0 c1 c2 c3 c4",
    "restricted_torsion": "k phi0",
    "lennard_jones_pair": "c6 c12",
}
# Of terms between molecules
_INTERMOLECULAR = (
    "bonds",
    "pairs",
    "pairs_nb",
    "angles",
    "dihedrals",
    "angle_restraints",
    "angle_restraints_z",
    "dihedral_restraints",
    "distance_restraints",
)
# The angle between two vectors or a vector and the z axis; vectors are taken between nearest images
_VECTOR_ANGLE = "k*(1 - cos(n*(pointangle(x2-x1, y2-y1, z2-z1, 0, 0, 0, {other}) - theta0)))"
_ANGLE_RESTRAINTS = {
    "angle_restraint": _VECTOR_ANGLE.format(other="x4-x3, y4-y3, z4-z3"),
    "z_angle_restraint": _VECTOR_ANGLE.format(other="0, 0, 0.001"),  # short, so that it is its own nearest image
}
# Tabulated terms: the letter of their files, the coordinate, its unit in the file, and where the file begins and ends
_TABLES = {
    "tabulated_bond": ("b", "distance(p1, p2)", 1.0, 0.0, None),
    "tabulated_angle": ("a", "angle(p1, p2, p3)", DEGREE, 0.0, 180.0),
    "tabulated_torsion": ("d", "dihedral(p1, p2, p3, p4)", DEGREE, -180.0, 180.0),
}
# Of several distances that count as one
_AMBIGUOUS = (
    "0.5*k*(max(lower - d, 0)^2 + min(max(d - upper, 0), linear - upper)^2) + k*(linear - upper)*max(d - linear, 0); "
    "d = ({sum})^(-1/6)"
)


def load_gromacs(
    top: str | Path,
    positions: Any = None,
    velocities: Any = None,
    box: Any = None,
    *,
    include: str | Path | None = None,
    defines: dict[str, str] | None = None,
    method: str | None = None,
    constraints: str | None = None,
    rigid_water: bool | None = None,
    hydrogen_mass: float | None = None,
    **options: Any,
) -> System:
    """Read a GROMACS topology; `load` reads the coordinates along with it.

    Parameters
    ----------
    top : str or Path
        .top, with the files that it includes; gzipped or not. Tables of bonded terms (table_b0.xvg, table_a0.xvg,
        table_d0.xvg, ...) are in its folder; beyond the end of a bond's table its energy is 0.
    positions, velocities : (n, 3) array, nm and nm/ps, optional
        Position restraints hold atoms at `positions`. Distance restraints have the force constant 1000 kJ/mol/nm^2
        times their weight, and no averages over time.
    box : (3, 3) array, optional
        Without one the system is not periodic.
    include : str or Path, optional
        Folder of included force fields; those of an installed GROMACS are found without it.
    defines : dict, optional
        Macros for the preprocessor, such as ``{"POSRES": "", "POSRES_FC_BB": 4000}``.
    method : str, optional
        Method of `Nonbonded`. Defaults to "pme" in a box and "none" without one.
    constraints : {None, "h-bonds", "all-bonds", "h-angles"}
        Bonds with hydrogen; all bonds; these and the angles H-X-H and H-O-X. The file's own constraints always hold.
    rigid_water : bool, optional
        Keep waters rigid, whatever `constraints` says; False defines FLEXIBLE. By default, waters are what the file
        says: rigid where they have [ settles ], flexible where they have bonds and an angle.
    hydrogen_mass : float, optional
        Mass of hydrogens in dalton, taken from the atoms they are bound to; water keeps its own.
    **options
        Options of `Nonbonded` (cutoff, switch, tolerance, ...). The run's settings (.mdp) are not read.

    Returns
    -------
    System

    Raises
    ------
    FileFormatError
        If a file is broken, or has a section or function type that is not supported; the message names file and line.
    MissingParameterError
        If a term has no parameters.
    """
    macros = dict(defines or {}) | ({"FLEXIBLE": ""} if rigid_water is False else {})
    types, molecules, between = _read(top, include, macros)
    n = sum(len(m.types) for m in molecules)
    if not n:
        raise FileFormatError(f"{top}: [ molecules ] must name molecules with atoms, got none (is the file truncated?)")
    terms = Terms(str(top), n)
    terms.check_count(positions)
    if rigid_water is False and any(m.settled for m in molecules):
        raise FileFormatError(f"{top}: water has [ settles ] even with FLEXIBLE defined (use rigid_water=True)")
    kinds = _kinds(molecules)
    masses = np.concatenate([m.masses for m in molecules])
    topology = _topology(molecules, kinds, types, masses)
    rows = _gathered([*kinds, _Kind(between, np.zeros(1, np.int64))])
    fixed = _constraints(str(top), topology, masses, rows, constraints, bool(rigid_water))
    _bonded(terms, rows)
    _cmap(terms, kinds, types)
    terms.exclusions = np.concatenate([kind.repeat(kind.molecule.excluded(), 2) for kind in kinds])
    _nonbonded(terms, molecules, types, {"method": method or ("none" if box is None else "pme")} | options)
    _position_restraints(terms, rows, positions, str(top))
    return terms.system(
        topology,
        masses,
        box,
        positions,
        velocities,
        hydrogen_mass,
        constraints=fixed,
        virtual_sites=_virtual_sites(kinds, topology, masses, str(top)),
    )


def _read(
    top: str | Path, include: str | Path | None, macros: dict[str, str]
) -> tuple[Types, list[Molecule], Molecule]:
    """Types, the molecules of the system one by one (those of a kind are the same object), and terms between them."""
    types, known = Types(), {}
    listed: list[Molecule] = []
    molecule: Molecule | None = None
    between = Molecule.of_all([])
    for section, words, where in read_lines(top, include, macros):
        if not words:  # the header
            if section in ("moleculetype", "system", "molecules"):
                molecule = None
            elif section == "intermolecular_interactions":
                molecule = between = Molecule.of_all(listed)
            else:
                known_sections = _INTERMOLECULAR if molecule is between else {*Types.SECTIONS, *Molecule.SECTIONS}
                check.choice(section, sorted(known_sections), f"{where}: the section", error=FileFormatError)
        elif section == "moleculetype":
            if len(words) != 2 or not words[1].isdecimal():
                raise FileFormatError(
                    f"{where}: a molecule must have a name and the bonds that exclude, got {' '.join(words)!r}"
                )
            if words[0] in known:
                raise FileFormatError(f"{where}: molecule {words[0]} must be defined once, got it again")
            molecule = known[words[0]] = Molecule(words[0], int(words[1]))
        elif section == "molecules":
            if len(words) != 2 or words[0] not in known or not words[1].isdecimal():
                raise FileFormatError(
                    f"{where}: [ molecules ] must name one of {', '.join(known) or 'no molecules'} and a number, got "
                    f"{' '.join(words)!r}"
                )
            listed += [known[words[0]]] * int(words[1])
        elif section == "system":
            continue
        elif not types.rule and section != "defaults":
            raise FileFormatError(
                f"{where}: [ defaults ] must come first, got [ {section} ] (is a force field missing?)"
            )
        elif not types.read(section, words, where):
            if molecule is None or section not in Molecule.SECTIONS:
                raise FileFormatError(
                    f"{where}: section [ {section} ] must follow a [ moleculetype ], or is not supported"
                )
            molecule.read(section, words, types, where)
            if between.bonds:
                raise FileFormatError(
                    f"{where}: bonds between molecules must not be chemical, got function type {words[2]} (use 6 or 10)"
                )
    return types, listed, between


class _Kind(NamedTuple):
    """A kind of molecule and the first atoms of its copies."""

    molecule: Molecule
    first: np.ndarray

    def repeat(self, rows: Any, k: int) -> np.ndarray:
        """Atoms [m, k] of terms of the molecule, for all copies."""
        rows = np.array(rows, np.int64).reshape(1, -1, k)
        return (rows + self.first[:, None, None]).reshape(-1, k)

    def tile(self, values: Any) -> np.ndarray:
        """Values [m, ...] of the molecule, for all copies."""
        values = np.asarray(values)
        return np.tile(values, (len(self.first), *[1] * (values.ndim - 1)))


def _kinds(molecules: list[Molecule]) -> list[_Kind]:
    starts = np.cumsum([0, *(len(m.types) for m in molecules)])
    found: dict[int, tuple[Molecule, list[int]]] = {}
    for molecule, start in zip(molecules, starts):
        found.setdefault(id(molecule), (molecule, []))[1].append(start)
    return [_Kind(molecule, np.array(first)) for molecule, first in found.values()]


def _gathered(kinds: list[_Kind]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Atoms [m, k] and values [m, p] of all terms, by their kind."""
    parts: dict[str, list] = {}
    for kind in kinds:
        for name, rows in kind.molecule.terms.items():
            if not rows:
                continue
            if name.startswith("distance_restraint") and len(kind.first) > 1:
                raise FileFormatError(
                    f"distance restraints must be of a molecule that occurs once, got {len(kind.first)} of "
                    f"{kind.molecule.name} (GROMACS averages over copies; restrain each by bonds of function type 10)"
                )
            atoms, values = zip(*rows)
            parts.setdefault(name, []).append(
                (kind.repeat(atoms, len(atoms[0])), kind.tile(np.array(values, np.float64)))
            )
    return {name: tuple(np.concatenate(p) for p in zip(*found)) for name, found in parts.items()}  # type: ignore[misc]


def _topology(molecules: list[Molecule], kinds: list[_Kind], types: Types, masses: np.ndarray) -> Topology:
    names = np.concatenate([m.names for m in molecules])
    listed = np.concatenate([[types.atoms[t].number for t in m.types] for m in molecules])
    elements = np.where(masses > 0, np.where(listed > 0, listed, guess_elements(masses, names)), 0)
    starts: dict[int, list[int]] = {}
    for kind in kinds:
        r = kind.molecule.residues
        starts[id(kind.molecule)] = [i for i in range(len(r)) if i == 0 or r[i] != r[i - 1]]
    residues = [(m.residues[i], e - i) for m in molecules for i, e in _ranges(starts[id(m)], len(m.types))]
    bonds = [kind.repeat([*kind.molecule.bonds, *kind.molecule.settled], 2) for kind in kinds]
    return Topology(
        names,
        elements,
        np.repeat(np.arange(len(residues)), [length for _, length in residues]),
        [name for (_, name), _ in residues],
        [number for (number, _), _ in residues],
        np.zeros(len(residues), int),
        ["A"],
        np.unique(np.sort(np.concatenate(bonds), axis=1), axis=0),
    )


def _ranges(starts: list[int], end: int) -> list[tuple[int, int]]:
    return list(zip(starts, [*starts[1:], end]))


def _constraints(
    where: str, topology: Topology, masses: np.ndarray, rows: dict, kind: str | None, rigid_water: bool
) -> Constraints:
    """The file's constraints, and bonds and angles that become some; these are taken out of `rows`."""
    lengths = {name: at for name, at in _LENGTHS.items() if name in rows}
    angles = {name: at for name, at in _ANGLES.items() if name in rows}
    fixed, free_bonds, free_angles = constrain(
        topology,
        masses,
        np.concatenate([np.empty((0, 2), int), *(rows[name][0] for name in lengths)]),
        np.concatenate([np.empty(0), *(rows[name][1][:, at] for name, at in lengths.items())]),
        np.concatenate([np.empty((0, 3), int), *(rows[name][0] for name in angles)]),
        np.concatenate([np.empty(0), *(rows[name][1][:, at] for name, at in angles.items())]),
        kind,
        rigid_water,
    )
    for table, free in ((lengths, free_bonds), (angles, free_angles)):
        for name in table:
            atoms, values = rows[name]
            stays, free = free[: len(atoms)], free[len(atoms) :]
            rows[name] = atoms[stays], values[stays]
    for name in {"spring"} & rows.keys():  # joins atoms that no chemical bond joins, and never becomes a constraint
        rows["bond"] = tuple(map(np.concatenate, zip(*(rows[n] for n in ("bond", name) if n in rows))))
        del rows[name]
    own, distances = rows.pop("constraint", (np.empty((0, 2), np.int64), np.empty((0, 1))))
    own = np.sort(own, axis=1)
    unique, group = np.unique(own, axis=0, return_inverse=True)
    spread = np.full(len(unique), -np.inf), np.full(len(unique), np.inf)
    np.maximum.at(spread[0], group.ravel(), distances[:, 0])
    np.minimum.at(spread[1], group.ravel(), distances[:, 0])
    for k in np.flatnonzero(spread[0] > spread[1])[:1]:
        raise FileFormatError(
            f"{where}: a constraint must have one length, got {spread[1][k]} and {spread[0][k]} nm for "
            f"{topology.describe(unique[k][0])} and {topology.describe(unique[k][1])}"
        )
    pairs = np.concatenate([own, fixed.pairs])
    _, first = np.unique(pairs, axis=0, return_index=True)
    first.sort()
    return Constraints(pairs[first], np.concatenate([distances[:, 0], fixed.distances])[first])


def _bonded(terms: Terms, rows: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    ours: dict[str, Callable[..., None]] = {
        "bond": terms.bonds,
        "angle": terms.angles,
        "urey_bradley": terms.urey_bradley,
        "torsion": terms.torsions,
        "improper": terms.impropers,
        "pair14": terms.pairs,
    }
    for name, (atoms, values) in rows.items():
        if name in ours:
            ours[name](atoms, *values.T)
        elif name == "ryckaert_bellemans":
            terms.ryckaert_bellemans(atoms, *values.T)
        elif name in _OTHERS and len(atoms):
            make = getattr(potentials, name)
            terms.potential(partial(make, atoms, **dict(zip(_OTHERS[name].split(), values.T))))
        elif name == "torsion_restraint":
            k, phi0, width = values.T
            terms.potential(partial(torsion_restraint, atoms, k=k, phi0=phi0, width=width))
        elif name in _ANGLE_RESTRAINTS:
            parameters = dict(zip(("k", "n", "theta0"), values.T))
            terms.potential(partial(ExpressionCompound, _ANGLE_RESTRAINTS[name], atoms, parameters, name=name))
        elif name in _TABLES:
            for k in np.unique(values[:, 0]):
                rows_of = values[:, 0] == k
                _tabulated(terms, name, atoms[rows_of], values[rows_of, 1], k)
        elif name.startswith("distance_restraint"):
            _distance_restraints(terms, atoms, dict(zip(("k", "lower", "upper", "linear"), values.T)))


def _tabulated(terms: Terms, name: str, atoms: np.ndarray, k: np.ndarray, number: float) -> None:
    """Terms with the energy k f, with f and -f' from a file."""
    letter, coordinate, unit, first, last = _TABLES[name]
    path = Path(terms.where).parent / f"table_{letter}{number:g}.xvg"
    if not path.is_file():
        raise FileFormatError(f"{terms.where}: {name} {number:g} must have a table in the file {path}, found none")
    text = [line for line in path.read_text().split("\n") if line.strip() and line.strip()[0] not in "#@;"]
    table = np.array([numbers(line.split(), str(path)) for line in text])
    x = table[:, 0] if table.ndim == 2 and table.shape[1] == 3 and len(table) > 1 else np.empty(0)
    grid = np.linspace(first, x[-1] if last is None else last, len(x)) if len(x) else x
    if not len(x) or not x[0] < x[-1] or not np.allclose(x, grid, rtol=1e-5, atol=1e-5 * abs(grid[1] - grid[0])):
        end = "the longest distance" if last is None else f"{last:g} degrees"
        raise FileFormatError(f"{path}: must have three columns, the first from {first:g} to {end} in equal steps")
    ends = unit * grid[0], unit * grid[-1]
    function = Tabulated(table[:, 1], [ends], slopes=-table[:, 2] / unit)
    expression = f"k*f({coordinate})"
    terms.potential(partial(ExpressionCompound, expression, atoms, {"k": k}, functions={"f": function}, name=name))


def _distance_restraints(terms: Terms, atoms: np.ndarray, parameters: dict[str, np.ndarray]) -> None:
    """Restraints of distances, or of several at once, r^-6 of which is the sum of theirs."""
    name, count = "distance_restraint", atoms.shape[1]
    if count == 2:
        terms.potential(partial(potentials.restraint_bond, atoms, name=name, **parameters))
    else:
        powers = "+".join(f"distance(p{k}, p{k + 1})^(-6)" for k in range(1, count, 2))
        terms.potential(partial(ExpressionCompound, _AMBIGUOUS.format(sum=powers), atoms, parameters, name=name))


def _cmap(terms: Terms, kinds: list[_Kind], types: Types) -> None:
    place = {key: k for k, key in enumerate(types.maps)}
    rows = [
        (kind.repeat([a for a, _ in kind.molecule.cmaps], 5), kind.tile([place[k] for _, k in kind.molecule.cmaps]))
        for kind in kinds
    ]
    atoms = np.concatenate([a for a, _ in rows])
    if len(atoms):
        terms.cmap(
            atoms[:, :4], atoms[:, 1:], np.concatenate([k for _, k in rows]).astype(int), list(types.maps.values())
        )


def _nonbonded(terms: Terms, molecules: list[Molecule], types: Types, options: dict[str, Any]) -> None:
    """Parameters of atoms where a mixing rule of ours gives those of all pairs, else a table."""
    charges = np.concatenate([m.charges for m in molecules])
    used = sorted({t for m in molecules for t in m.types})
    place = {t: k for k, t in enumerate(used)}
    index = np.concatenate([[place[t] for t in m.types] for m in molecules])
    c6, c12 = np.array([[types.mixed(a, b) for b in used] for a in used]).transpose(2, 0, 1)
    own6, own12 = np.diag(c6), np.diag(c12)
    some = (own6 > 0) & (own12 > 0)
    safe6, safe12 = np.where(some, own6, 1.0), np.where(some, own12, 1.0)
    sigma = np.where(some, (safe12 / safe6) ** (1 / 6), 0.1)
    epsilon = np.where(some, safe6 * safe6 / (4 * safe12), 0.0)
    if types.rule == 2:  # atoms without depth have a size all the same, which their pairs' depth of zero hides
        sigma = np.where(some, np.abs([types.atoms[t].lj[0] for t in used]), sigma)
    rule = "lorentz_berthelot" if types.rule == 2 else "geometric"
    mixed = (sigma[:, None] + sigma) / 2 if types.rule == 2 else np.sqrt(sigma[:, None] * sigma)
    depth = 4 * np.sqrt(epsilon[:, None] * epsilon)
    if np.allclose(c6, depth * mixed**6, rtol=1e-12, atol=0) and np.allclose(
        c12, depth * mixed**12, rtol=1e-12, atol=0
    ):
        terms.nonbonded(charges, sigma[index], epsilon[index], {"mixing": rule} | options)
    else:
        terms.nonbonded(charges, None, None, options)
        terms.lennard_jones_table(LJTable(index, c12, c6), {})


def _position_restraints(terms: Terms, rows: dict, positions: Any, where: str) -> None:
    if "position_restraint" not in rows:
        return
    if positions is None:
        raise FileFormatError(
            f"{where}: position restraints need coordinates to hold atoms at, got none (load a .gro too)"
        )
    atoms, k = rows["position_restraint"]
    k = k[:, 0] if np.all(k == k[:, :1]) else k
    terms.potential(lambda: PositionRestraint(atoms[:, 0], k, np.asarray(positions)[atoms[:, 0]]))


def _virtual_sites(kinds: list[_Kind], topology: Topology, masses: np.ndarray, where: str) -> list[Any]:
    grouped: dict[tuple[str, int], list[tuple[np.ndarray, np.ndarray, list[np.ndarray]]]] = {}
    for kind in kinds:
        for name, site, parents, parameters in kind.molecule.sites:
            entry = (
                kind.repeat([site], 1)[:, 0],
                kind.repeat([parents], len(parents)),
                [kind.tile(np.array([p], np.float64)) for p in parameters],
            )
            grouped.setdefault((name, len(parents)), []).append(entry)
    found = []
    for (name, _), entries in grouped.items():
        sites, parents, parameters = zip(*entries)
        columns = [np.concatenate(column) for column in zip(*parameters)]
        found.append(getattr(virtual_sites, name)(np.concatenate(sites), np.concatenate(parents), *columns))
    placed = np.concatenate([np.empty(0, int), *(kind.sites for kind in found)])
    heavy = placed[masses[placed] > 0]
    if len(heavy):
        raise FileFormatError(
            f"{where}: virtual sites must have no mass, got {masses[heavy[0]]} for {topology.describe(heavy[0])}"
        )
    return found
