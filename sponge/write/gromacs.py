"""GROMACS topologies: a .top with everything on its own lines, and a .gro beside it (formats: GROMACS's manual)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..elements import SYMBOLS
from ..load.gro import gro_frame
from ..potentials.bonded import gromacs as own_terms
from ..potentials.bonded.harmonic_angle import harmonic_angle
from ..potentials.bonded.harmonic_bond import harmonic_bond
from ..potentials.bonded.harmonic_improper import harmonic_improper
from ..potentials.bonded.pair14 import pair14
from ..potentials.bonded.periodic_torsion import periodic_torsion
from ..potentials.bonded.ryckaert_bellemans import ryckaert_bellemans
from ..potentials.bonded.urey_bradley import urey_bradley
from ..potentials.pairs.mixing import sigma_epsilon
from ..system import System
from ..topology import graph_distances
from .gromacs_sites import site_sections
from .parts import Parts, number

__all__ = ["Section", "write_gromacs"]

# Terms with a function type of their own: section, function type, parameters in its order, angles among them
_TERMS: dict[type, tuple[str, str, str, str]] = {
    harmonic_improper: ("dihedrals", "2", "phi0 k", "phi0"),
    ryckaert_bellemans: ("dihedrals", "3", "c0 c1 c2 c3 c4 c5", ""),
    own_terms.g96_bond: ("bonds", "2", "r0 k", ""),
    own_terms.morse_bond: ("bonds", "3", "r0 depth beta", ""),
    own_terms.cubic_bond: ("bonds", "4", "r0 k cubic", ""),
    own_terms.fene_bond: ("bonds", "7", "longest k", ""),
    own_terms.restraint_bond: ("bonds", "10", "lower upper linear k", ""),
    own_terms.g96_angle: ("angles", "2", "theta0 k", "theta0"),
    own_terms.quartic_angle: ("angles", "6", "theta0 c0 c1 c2 c3 c4", "theta0"),
    own_terms.restricted_angle: ("angles", "10", "theta0 k", "theta0"),
    own_terms.restricted_torsion: ("dihedrals", "10", "phi0 k", "phi0"),
}
_KINDS = (harmonic_bond, harmonic_angle, urey_bradley, periodic_torsion, pair14, own_terms.lennard_jones_pair, *_TERMS)
# Function types that exclude near neighbors
_CHEMICAL = {("bonds", f) for f in "123457"} | {("constraints", "1")}
_ORDER = (
    "bonds constraints pairs angles dihedrals cmap settles virtual_sites1 virtual_sites2 virtual_sites3 virtual_sites4 "
    "virtual_sitesn"
).split()


class Section(NamedTuple):
    """Lines of one section with one function type."""

    name: str
    function: str
    atoms: np.ndarray  # (m, k), from 0
    values: np.ndarray  # (m, p)


def write_gromacs(
    system: System, path: str | Path, positions: Any = None, velocities: Any = None, box: Any = None
) -> tuple[Path, Path]:
    """Write a system as a GROMACS topology, with its coordinates in a .gro file beside it.

    Molecules that are alike are written once, with their number. Every parameter has its own digits, so that reading
    the topology gives the same doubles. The run's settings, which GROMACS takes from an .mdp file, are not written:
    cut-offs, switching, PME, dispersion correction. Pairs of types with Lennard-Jones parameters of their own (NBFIX)
    are [ nonbond_params ].

    Parameters
    ----------
    system : System
    path : str or Path
        The topology (.top). The .gro file has the same name otherwise.
    positions, velocities : (n, 3) array, nm and nm/ps, optional
        In place of the system's. Written with 15 and 16 decimals.
    box : float, (3,) or (3, 3) array, nm, optional
        In place of the system's.

    Returns
    -------
    tuple of Path
        The .top and the .gro file, for `load`.

    Raises
    ------
    ValueError
        If a part of the system has no form in a GROMACS topology; the message names it.

    Examples
    --------
    >>> import os, tempfile
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"))
    >>> files = sponge.write_gromacs(system, os.path.join(tempfile.mkdtemp(), "peptide.top"))
    >>> again = sponge.load(*files)
    >>> [line for line in files[0].read_text().split("\\n")][-3:-1]
    ['Chain_A 1', 'WAT 749']
    """
    parts = Parts("write_gromacs", system, path, (".top",), _KINDS, positions, velocities, box)
    return parts.write(_top(parts), _gro(parts), ".gro")


# -- terms -------------------------------------------------------------------------------------------------------------


def _rule(parts: Parts) -> int:
    """The combination rule: 1 (C6 and C12) where a repulsion or an attraction stands alone, else sigma and epsilon."""
    if parts.nonbonded.mixing != "table":
        alone = False
    else:
        alone = bool(np.any((parts.nonbonded.params["a"] > 0) != (parts.nonbonded.params["b"] > 0)))
    if alone or own_terms.lennard_jones_pair in parts.terms:
        return 1
    return 3 if parts.nonbonded.mixing == "geometric" else 2


def _sections(parts: Parts, fudge: float) -> Iterator[Section]:
    """All terms of all atoms."""
    atoms, values = parts.take(harmonic_bond)
    chemical = parts.bonded(atoms)
    for function, rows in (("1", chemical), ("6", ~chemical)):
        yield Section("bonds", function, atoms[rows], values[rows][:, ::-1])
    yield from _angles(parts)
    atoms, values = parts.torsions(periodic_torsion)
    proper = np.all([parts.bonded(atoms[:, k : k + 2]) for k in range(3)], axis=0)
    for function, rows in (("9", proper), ("4", ~proper)):
        k, n, phase = values[rows].T
        yield Section("dihedrals", function, atoms[rows], np.stack([np.degrees(phase), k, n], axis=1))
    for kind, (name, function, order, angles) in _TERMS.items():
        atoms, values = parts.take(kind)
        columns = dict(zip(kind.function.names[1:], values.T))  # type: ignore[attr-defined]
        turned = [np.degrees(columns[p]) if p in angles.split() else columns[p] for p in order.split()]
        yield Section(name, function, atoms, np.stack(turned, axis=1))
    yield from _pairs(parts, fudge)
    yield Section("cmap", "1", parts.cmap_atoms, np.empty((len(parts.cmap_atoms), 0)))
    for name, function, atoms, values in site_sections(parts):
        yield Section(name, function, atoms, values)


def _angles(parts: Parts) -> Iterator[Section]:
    """Angles, those with a spring between their ends as Urey-Bradley; other such springs are bonds of type 6."""
    angles, values = parts.take(harmonic_angle)
    springs, values_of_springs = parts.take(urey_bradley)
    row, held, constants = parts.springs_of_angles()
    both = np.column_stack([np.degrees(values[row, 1]), values[row, 0], constants[:, ::-1]])
    yield Section("angles", "5", angles[row], both)
    alone = np.delete(np.arange(len(angles)), row)
    yield Section("angles", "1", angles[alone], np.column_stack([np.degrees(values[alone, 1]), values[alone, 0]]))
    yield Section("bonds", "6", springs[~held], values_of_springs[~held][:, ::-1])


def _fudge(parts: Parts) -> float:
    """The scaling of charges that most 1-4 pairs have, [ defaults ] fudgeQQ."""
    atoms, values = parts.take(pair14)
    product = parts.nonbonded.params["charges"][atoms].prod(1)
    ratios = values[product != 0, 0] / product[product != 0]
    _, group, counts = np.unique(ratios.round(12), return_inverse=True, return_counts=True)
    return float(np.median(ratios[group == np.argmax(counts)])) if len(ratios) else 1.0


def _pairs(parts: Parts, fudge: float) -> Iterator[Section]:
    atoms, values = parts.take(pair14)
    charges = parts.nonbonded.params["charges"]
    product, sigma, epsilon = values.T
    scaled = fudge * charges[atoms].prod(1)
    usual = np.abs(product - scaled) <= 1e-14 * np.abs(scaled)
    lj = np.stack([sigma, epsilon] if _rule(parts) > 1 else [4 * epsilon * sigma**6, 4 * epsilon * sigma**12], axis=1)
    yield Section("pairs", "1", atoms[usual], lj[usual])
    other = np.column_stack([np.ones(len(atoms)), product, np.ones(len(atoms)), lj])
    yield Section("pairs", "2", atoms[~usual], other[~usual])
    atoms, values = parts.take(own_terms.lennard_jones_pair)
    yield Section("pairs", "2", atoms, np.column_stack([np.zeros((len(atoms), 3)), values]))


def _constraints(parts: Parts, starts: np.ndarray, sizes: np.ndarray) -> Iterator[Section]:
    """Constraints; those of whole waters of one kind as [ settles ]."""
    system = parts.system
    pairs, distances = np.sort(system.constraints.pairs, axis=1), system.constraints.distances
    order = np.lexsort(pairs.T[::-1])
    pairs, distances = pairs[order], distances[order]
    block = np.searchsorted(starts, pairs[:, 0], "right") - 1
    count = np.bincount(block, minlength=len(starts))
    first = np.searchsorted(block, np.arange(len(starts)))
    own = np.flatnonzero((count == 3) & (sizes >= 3))
    at = first[own][:, None] + np.arange(3)
    shape = np.array([[0, 1], [0, 2], [1, 2]])
    d = distances[at] if len(own) else np.empty((0, 3))
    elements = system.topology.elements[starts[own][:, None] + np.arange(3)]
    water = np.all(pairs[at] - starts[own][:, None, None] == shape, axis=(1, 2)) & np.all(elements == [8, 1, 1], axis=1)
    water &= np.abs(d[:, 0] - d[:, 1]) <= 1e-12 * d[:, 0]
    yield Section("settles", "1", starts[own[water]][:, None], d[water][:, [0, 2]])
    rest = np.delete(np.arange(len(pairs)), at[water].ravel())
    chemical = parts.bonded(pairs)[rest]
    for function, rows in (("1", rest[chemical]), ("2", rest[~chemical])):
        yield Section("constraints", function, pairs[rows], distances[rows][:, None])


# -- molecules ---------------------------------------------------------------------------------------------------------


class _Molecules:
    """The molecules of a system, and which of them are alike."""

    def __init__(self, parts: Parts, types: np.ndarray, fudge: float):
        system, topology = parts.system, parts.system.topology
        self.parts, self.types = parts, types
        self.starts = parts.blocks()
        self.sizes = np.diff([*self.starts, system.n])
        self.sections = [*_sections(parts, fudge), *_constraints(parts, self.starts, self.sizes)]
        self.single = topology.residue_index[self.starts] == topology.residue_index[self.starts + self.sizes - 1]
        names = topology.residue_names[topology.residue_index]
        number_of = np.where(np.repeat(self.single, self.sizes), "1", topology.residue_ids[topology.residue_index])
        self.labels = number_of, names, topology.names
        self.rows = [self._rows(s.atoms, s.values) for s in self.sections]
        self.excluded = self._rows(system.exclusions, np.empty((len(system.exclusions), 0)))
        columns = [types, parts.nonbonded.params["charges"], system.masses]
        self.text = ["\t".join(row) for row in zip(*(a.tolist() for a in self.labels))]
        self.atoms = np.stack(columns, axis=1).astype(np.float64)

    def _rows(self, atoms: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Atoms, counted from the first of their molecule, and values, by molecule; and where each molecule begins."""
        atoms = atoms.astype(np.int64)
        block = np.searchsorted(self.starts, atoms[:, 0], "right") - 1 if len(atoms) else np.empty(0, np.int64)
        order = np.argsort(block, kind="stable")
        rows = np.concatenate([atoms[order] - self.starts[block[order]][:, None], values[order]], axis=1)
        return rows, np.searchsorted(block[order], np.arange(len(self.starts) + 1))

    def kinds(self) -> np.ndarray:
        """The first molecule that each is like."""
        first: dict[tuple, int] = {}
        found = []
        for m, (start, size) in enumerate(zip(self.starts.tolist(), self.sizes.tolist())):
            pieces = (rows[cuts[m] : cuts[m + 1]].tobytes() for rows, cuts in (*self.rows, self.excluded) if len(rows))
            names = "\n".join(self.text[start : start + size])
            key = (names, self.atoms[start : start + size].tobytes(), *pieces)
            found.append(first.setdefault(key, m))
        return np.array(found)

    def lines(self, m: int, name: str, type_names: list[str]) -> Iterator[str]:
        """The [ moleculetype ] of a molecule."""
        start, size = int(self.starts[m]), int(self.sizes[m])
        near, exclusions = self._near(m)
        yield f"\n[ moleculetype ]\n{name} {near}\n\n[ atoms ]"
        numbers, residues, names = (a[start : start + size].tolist() for a in self.labels)
        for i, (t, charge, mass) in enumerate(self.atoms[start : start + size].tolist()):
            yield (
                f"{i + 1:6d} {type_names[int(t)]:<6s} {numbers[i]:>5s} {residues[i]:<5s} {names[i]:<5s} {i + 1:6d} "
                f"{number(charge)} {number(mass)}"
            )
        own = [(s, rows[cuts[m] : cuts[m + 1]].tolist()) for s, (rows, cuts) in zip(self.sections, self.rows)]
        for section in _ORDER:
            found = [(s, rows) for s, rows in own if s.name == section and rows]
            if found:
                yield f"\n[ {section} ]"
            for s, listed in found:
                k = s.atoms.shape[1]
                yield from (_line([int(a) + 1 for a in row[:k]], s.function, row[k:], section) for row in listed)
        if len(exclusions):
            yield "\n[ exclusions ]"
            for i in np.unique(exclusions[:, 0]).tolist():
                yield " ".join(str(j + 1) for j in [i, *exclusions[exclusions[:, 0] == i, 1].tolist()])

    def _near(self, m: int) -> tuple[int, np.ndarray]:
        """How many bonds exclude, and the pairs that are excluded besides."""
        own = [
            (s, rows[cuts[m] : cuts[m + 1], :2].astype(np.int64)) for s, (rows, cuts) in zip(self.sections, self.rows)
        ]
        bonds = [rows for s, rows in own if (s.name, s.function) in _CHEMICAL]  # not [ settles ], which exclude nothing
        rows, cuts = self.excluded
        wanted = {tuple(pair) for pair in rows[cuts[m] : cuts[m + 1]].astype(np.int64).tolist()}
        implied: set[tuple] = set()
        near = 0
        for shell in graph_distances(np.concatenate(bonds), int(self.sizes[m])):
            more = {tuple(pair) for pair in shell.tolist()}
            if not more <= wanted:
                break
            implied |= more
            near += 1
        return near, np.array(sorted(wanted - implied), np.int64).reshape(-1, 2)


def _line(atoms: list[int], function: str, values: list[float], section: str) -> str:
    """A line of a section; sites of [ virtual_sitesn ] name each atom with its weight."""
    if section == "virtual_sitesn":
        words = [str(atoms[0]), function]
        words += [w for a, x in zip(atoms[1:], values) for w in (str(a), number(x))]
        return " ".join(words)
    return " ".join([*(f"{a:5d}" for a in atoms), function, *map(number, values)])


# -- files -------------------------------------------------------------------------------------------------------------


def _top(parts: Parts) -> str:
    system, topology = parts.system, parts.system.topology
    labels = {"names": topology.names, "residue_names": topology.residue_names, "residue_ids": topology.residue_ids}
    for what, words in labels.items():
        for name in np.unique(words).tolist():
            if name.split() != [name] or ";" in name:
                raise ValueError(
                    f"write_gromacs: {what} must be words without blanks and semicolons, got {name!r} "
                    "(rename them in system.topology)"
                )
    centers = np.full(system.n, -1)
    centers[parts.cmap_atoms[:, 2]] = parts.cmap_types  # a map is found by types, of which these atoms get their own
    clash = centers[parts.cmap_atoms[:, 2]] != parts.cmap_types
    if clash.any():
        cmap = next(p for p in system.potentials if hasattr(p, "phi"))
        raise parts.refusal(cmap, f"several maps around {topology.describe(parts.cmap_atoms[clash][0, 2])}")
    types, first = parts.types(topology.elements, system.masses, centers)
    symbols = [SYMBOLS[z] or "X" for z in topology.elements[first]]
    type_names = [f"{symbol}{k + 1}" for k, symbol in enumerate(symbols)]
    fudge, rule = _fudge(parts), _rule(parts)
    lines = [
        "[ defaults ]",
        f"1 {rule} no 1.0 {number(fudge)}",
        "",
        *_atom_types(parts, rule, type_names, first),
        *_map_types(parts, types, type_names),
    ]
    molecules = _Molecules(parts, types, fudge)
    kinds = molecules.kinds()
    names: dict[int, str] = {}
    for m in np.unique(kinds).tolist():
        residue = topology.residue_index[molecules.starts[m]]
        chain = "".join(topology.chain_ids[topology.chain_index[residue]].split())
        base = str(topology.residue_names[residue]) if molecules.single[m] else f"Chain_{chain}"
        taken = set(names.values())
        names[m] = next(n for n in (base, *(f"{base}_{k}" for k in range(2, len(taken) + 3))) if n not in taken)
        lines += molecules.lines(m, names[m], type_names)
    lines += ["", "[ system ]", f"{system.n} atoms", "", "[ molecules ]"]
    changes = np.flatnonzero(np.diff(kinds, prepend=-1))
    counts = np.diff([*changes, len(kinds)])
    lines += [f"{names[int(kinds[at])]} {count}" for at, count in zip(changes, counts)]
    return "\n".join(lines) + "\n"


def _atom_types(parts: Parts, rule: int, names: list[str], first: np.ndarray) -> Iterator[str]:
    """[ atomtypes ], and [ nonbond_params ] of pairs that the combination rule does not give."""
    masses, elements = parts.system.masses, parts.system.topology.elements
    i, j = np.triu_indices(len(first))
    repulsion, attraction = parts.pair_parameters(first[i], first[j])
    pairs = np.stack([attraction, repulsion] if rule == 1 else sigma_epsilon(repulsion, attraction), axis=1)
    own = pairs[i == j]
    if parts.nonbonded.mixing != "table" and rule > 1:  # as they are; without depth they have a size all the same
        own = np.stack([parts.nonbonded.params["sigmas"][first], parts.nonbonded.params["epsilons"][first]], axis=1)
    yield "[ atomtypes ]"
    for name, atom, values in zip(names, first.tolist(), own.tolist()):
        kind = "A" if masses[atom] > 0 else "D"
        yield f"{name:<6s} {elements[atom]:3d} {number(masses[atom])} 0.0 {kind} {' '.join(map(number, values))}"
    yield ""
    if parts.nonbonded.mixing != "table" and rule > 1:
        return
    mixed = np.sqrt(own[i] * own[j])
    if rule == 2:
        mixed[:, 0] = (own[i, 0] + own[j, 0]) / 2
    other = ~np.all(np.isclose(pairs, mixed, 1e-14, 0) | (pairs[:, 1:] + mixed[:, 1:] == 0), axis=1)
    yield "[ nonbond_params ]"
    for a, b, values in zip(i[other].tolist(), j[other].tolist(), pairs[other].tolist()):
        yield f"{names[a]:<6s} {names[b]:<6s} 1 {' '.join(map(number, values))}"
    yield ""


def _map_types(parts: Parts, types: np.ndarray, names: list[str]) -> Iterator[str]:
    """[ cmaptypes ]: a map for each series of types, beginning at -180 degrees."""
    chains = np.column_stack([types[parts.cmap_atoms].reshape(-1, 5), parts.cmap_types])
    for k, row in enumerate(np.unique(chains, axis=0).tolist()):
        grid = parts.maps[row[5]]
        size = len(grid)
        values = np.roll(grid, (size // 2, size // 2), (0, 1)).ravel().tolist()
        yield "" if k else "[ cmaptypes ]"
        yield " ".join([*(names[t] for t in row[:5]), f"1 {size} {size}\\"])
        texts = [number(v) for v in values]
        yield "\\\n".join(" ".join(texts[at : at + 10]) for at in range(0, len(texts), 10))


def _gro(parts: Parts) -> str:
    """Coordinates with 15 decimals, velocities with 16; names are cut to the columns of the format."""
    topology = parts.system.topology
    numbers = ["".join(c for c in text if c.isdecimal()) or "0" for text in topology.residue_ids.tolist()]
    names, kinds = topology.names.astype("U5"), topology.residue_names.astype("U5")
    short = replace(topology, names=names, residue_names=kinds, residue_ids=np.array(numbers))
    return gro_frame(parts.path.stem, short, parts.positions, parts.box, parts.velocities, decimals=15)
