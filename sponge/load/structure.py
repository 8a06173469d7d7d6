"""`Structure`: what a structure file holds, and the chemical bonds that such files leave out."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from triskele.core.extend import gunzip, short_repr

from .. import box as boxes
from ..elements import SYMBOLS, is_metal
from ..errors import FileFormatError
from ..residues import standard_residue
from ..topology import Topology

__all__ = ["AtomRecords", "Structure", "assemble", "standard_bonds"]

_ENDS = ("C", "O3'")  # atoms of a residue that the next one may be bound to
_LONGEST_LINK = 0.25  # nm; a bond between residues that would be longer is a gap in the chain (C-N 0.13, O-P 0.16 nm)
_LONGEST_HYDROGEN = 0.15  # nm; longer than S-H, the longest bond to a hydrogen of a standard residue
_LONGEST_DISULFIDE = 0.3  # nm; S-S is 0.205 nm, badly refined ones reach 0.25, unbound sulfurs do not come below 0.33


@short_repr
@dataclass(frozen=True, eq=False)
class Structure:
    """Topology, positions and box of a structure.

    Parameters
    ----------
    topology : Topology
    positions : (n, 3) float, nm
        Positions of the atoms.
    box : (3, 3) float or None
        Vectors as rows, nm.
    space_group : str, optional
        Space group of the crystal whose cell is the box. A cell that is not "P 1" has further copies of the atoms.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> structure = sponge.Structure(system.topology, system.positions)
    >>> structure.positions.shape
    (22, 3)
    """

    topology: Topology
    positions: np.ndarray
    box: np.ndarray | None = None
    space_group: str | None = None


@short_repr
@dataclass(eq=False)
class AtomRecords:
    """Atoms as a file lists them, one entry each."""

    names: np.ndarray  # str [n]
    altlocs: np.ndarray  # str [n], "" where there is one place only
    residue_names: np.ndarray  # str [n]
    residue_ids: np.ndarray  # str [n], number and insertion code
    chain_ids: np.ndarray  # str [n]
    segments: np.ndarray  # int [n], goes up where a chain ends
    elements: np.ndarray  # int [n]
    positions: np.ndarray  # float [n, 3], nm
    occupancies: np.ndarray  # float [n]
    lines: np.ndarray  # int [n], place in the file, for errors
    serials: np.ndarray | None = None  # object [n], names by which the file's own bonds call atoms

    def __len__(self) -> int:
        return len(self.names)

    def take(self, keep: np.ndarray) -> AtomRecords:
        """The atoms of an index array or mask."""
        return AtomRecords(**{k: None if v is None else v[keep] for k, v in vars(self).items()})


def assemble(
    atoms: AtomRecords,
    box: np.ndarray | None,  # (3, 3) nm, vectors in rows
    where: str,
    altloc: str = "highest",  # or "first", or a letter
    links: np.ndarray | None = None,  # (m, 2), bonds that the file has, as pairs of `serials`
    components: dict | None = None,  # bonds that the file describes: {residue name: [(atom name, atom name), ...]}
) -> Structure:
    """Find the residues, chains and bonds of the atom records of a file.

    Of several places of a residue's atoms, `altloc` keeps that of the highest total occupancy (the first of equals),
    the first in the file, or that of a letter (where a residue has no such place, the one of highest occupancy).
    """
    if not len(atoms):
        raise FileFormatError(f"{where}: there must be atoms, got none")
    atoms = atoms.take(_one_place(atoms, altloc))
    start = np.r_[True, _changes(atoms.segments, atoms.chain_ids, atoms.residue_ids, atoms.residue_names)]
    residue = np.cumsum(start) - 1
    first = np.flatnonzero(start)
    _check_duplicates(atoms, residue, where)
    chain_start = np.r_[True, _changes(atoms.segments[first], atoms.chain_ids[first])]
    topology = Topology(
        atoms.names,
        atoms.elements,
        residue,
        atoms.residue_names[first],
        atoms.residue_ids[first],
        np.cumsum(chain_start) - 1,
        atoms.chain_ids[first][chain_start],
    )
    bonds = [standard_bonds(topology, atoms.positions, box, components)]
    if links is not None and len(links):
        bonds.append(_linked(atoms, topology, links, where))
    pairs = np.concatenate(bonds)
    pairs = np.unique(np.sort(pairs, axis=1), axis=0) if len(pairs) else pairs
    topology = Topology(**{**{k: getattr(topology, k) for k in topology.__dataclass_fields__}, "bonds": pairs})
    return Structure(topology, np.ascontiguousarray(atoms.positions, np.float64), box)


def _changes(*columns):
    return np.any([c[1:] != c[:-1] for c in columns], axis=0)


def _one_place(atoms, altloc):
    """Mask of the atoms that stay when each residue is given one of its alternate locations."""
    if altloc not in ("highest", "first") and len(altloc) != 1:
        raise ValueError(f"altloc: must be 'highest', 'first' or one letter, got {altloc!r}")
    keep = np.ones(len(atoms), bool)
    if not np.any(atoms.altlocs != ""):
        return keep
    residue = np.cumsum(np.r_[True, _changes(atoms.segments, atoms.chain_ids, atoms.residue_ids)])
    for r in np.unique(residue[atoms.altlocs != ""]):
        rows = np.flatnonzero(residue == r)
        letters = [str(a) for a in dict.fromkeys(atoms.altlocs[rows]) if a]
        occupancy = {a: atoms.occupancies[rows][atoms.altlocs[rows] == a].sum() for a in letters}
        chosen = (
            letters[0]
            if altloc == "first"
            else altloc
            if altloc in letters
            else max(letters, key=occupancy.__getitem__)
        )
        kind = atoms.residue_names[rows][atoms.altlocs[rows] == chosen][0]
        stays = (atoms.altlocs[rows] == "") | (atoms.altlocs[rows] == chosen)
        seen = set(atoms.names[rows][stays])
        for k in np.flatnonzero(~stays):  # an atom that the chosen place lacks stands in another
            if atoms.residue_names[rows[k]] == kind and atoms.names[rows[k]] not in seen:
                stays[k] = True
                seen.add(atoms.names[rows[k]])
        keep[rows] = stays
    return keep


def _check_duplicates(atoms, residue, where):
    code = np.unique(atoms.names, return_inverse=True)[1]
    key = residue * (code.max() + 1) + code
    order = np.argsort(key, kind="stable")
    same = np.flatnonzero(np.diff(key[order]) == 0)
    if len(same):
        i, j = order[same[0]], order[same[0] + 1]
        raise FileFormatError(
            f"{where}, line {atoms.lines[j]}: an atom must occur once in a residue, got {atoms.names[j]} of "
            f"{atoms.residue_names[j]} {atoms.residue_ids[j]} (chain {atoms.chain_ids[j]}) again after line "
            f"{atoms.lines[i]} (are two residues numbered alike?)"
        )


def _linked(atoms, topology, links, where):
    """Bonds that the file gives itself; those of metals to other residues are coordination and left out."""
    known: dict = {}
    for i, serial in enumerate(atoms.serials):
        known.setdefault(serial, []).append(i)
    pairs = []
    for a, b in links:
        if a not in known or b not in known:
            continue  # an atom of another model or place
        if len(known[a]) > 1 or len(known[b]) > 1:
            raise FileFormatError(
                f"{where}: bonds must name one atom each, got number {a if len(known[a]) > 1 else b} for "
                f"{max(len(known[a]), len(known[b]))} atoms (write the file with unique atom numbers)"
            )
        i, j = known[a][0], known[b][0]
        metal = is_metal(topology.elements[i]) or is_metal(topology.elements[j])
        if i != j and not (metal and topology.residue_index[i] != topology.residue_index[j]):
            pairs.append((i, j))
    return np.array(pairs, np.int32).reshape(-1, 2)


def standard_bonds(
    topology: Topology, positions: np.ndarray, box: np.ndarray | None = None, components: dict | None = None
) -> np.ndarray:
    """Return the bonds (m, 2) of amino acids, nucleotides and water by atom names, and disulfide bridges by distance.

    Residues that follow each other in a chain are joined if their atoms are no further apart than 0.25 nm. Hydrogens of
    standard residues under names that are not known are bound to the nearest heavy atom of their residue. Cysteines
    without a hydrogen at the sulfur are bridged if their sulfurs are each other's nearest and within 0.3 nm. All
    distances are those of nearest images.
    """
    names, residues = topology.names, topology.residue_names
    starts = np.searchsorted(topology.residue_index, np.arange(len(residues) + 1))
    plain, kinds = names.tolist(), residues.tolist()
    local: dict = {}
    tails: dict = {}
    pairs = []
    for r, kind in enumerate(kinds):
        lo, hi = starts[r], starts[r + 1]
        key = (kind, *plain[lo:hi])
        if key not in local:
            local[key] = _bonds_of_names(kind, plain[lo:hi], topology.elements[lo:hi], components)
        inner, links, unknown, ends = local[key]
        if len(inner):
            pairs.append(inner + lo)
        for k in unknown:
            pairs.append(_nearest_heavy(lo + k, lo, hi, topology, positions, box))
        previous = tails if r and topology.chain_index[r] == topology.chain_index[r - 1] else {}
        for tail, k in links:
            if tail in previous and _distance(positions[previous[tail]], positions[lo + k], box) < _LONGEST_LINK:
                pairs.append(np.array([[previous[tail], lo + k]]))
        tails = {name: lo + k for name, k in ends}
    pairs.append(_disulfides(topology, positions, box))
    return np.concatenate(pairs).astype(np.int32).reshape(-1, 2)


def _bonds_of_names(kind, names, elements, components):
    """Bonds [m, 2] inside a residue, ("atom of the residue before", atom) links, hydrogens not known, and (name, atom)
    of its ends.
    """
    standard, own = standard_residue(kind), (components or {}).get(kind)
    if standard is None and own is None:
        return np.empty((0, 2), np.int64), [], [], [(name, names.index(name)) for name in _ENDS if name in names]
    bonds, aliases = (standard[1], standard[2]) if standard else ([], {})
    bonds = [*bonds, *(own or ())]
    known = {name for bond in bonds for name in bond}
    where = {name if name in known else aliases.get(name, name): k for k, name in reversed(list(enumerate(names)))}
    inner = np.array([(where[a], where[b]) for a, b in bonds if a in where and b in where], np.int64).reshape(-1, 2)
    links = [(a[1:], where[b]) for a, b in bonds if a[0] == "-" and b in where]
    bound = set(inner.ravel().tolist())
    unknown = [k for k in range(len(names)) if elements[k] == 1 and k not in bound] if len(names) > 1 else []
    return inner, links, unknown, [(name, where[name]) for name in _ENDS if name in where]


def _nearest_heavy(h, lo, hi, topology, positions, box):
    heavy = lo + np.flatnonzero(topology.elements[lo:hi] > 1)
    if not len(heavy):
        return np.empty((0, 2), np.int64)
    distance = _distance(positions[heavy], positions[h], box)
    k = int(np.argmin(distance))
    return np.array([[h, heavy[k]]]) if distance[k] < _LONGEST_HYDROGEN else np.empty((0, 2), np.int64)


def _disulfides(topology, positions, box):
    cysteine = np.array([(standard_residue(str(n)) or ("",))[0] == "CYS" for n in topology.residue_names])
    sulfur = np.flatnonzero((topology.elements == 16) & cysteine[topology.residue_index])
    with_hydrogen = set(topology.residue_index[np.isin(topology.names, ["HG", "HG1", "HSG"])].tolist())
    sulfur = np.array([s for s in sulfur if topology.residue_index[s] not in with_hydrogen], np.int64)
    if len(sulfur) < 2:
        return np.empty((0, 2), np.int64)
    d = positions[sulfur][:, None] - positions[sulfur][None]
    distance = np.linalg.norm(boxes.displacement(d, box), axis=-1)
    np.fill_diagonal(distance, np.inf)
    near = np.argmin(distance, axis=1)
    k = np.flatnonzero(
        (near[near] == np.arange(len(near))) & (distance[np.arange(len(near)), near] < _LONGEST_DISULFIDE)
    )
    return np.array([(sulfur[i], sulfur[near[i]]) for i in k if i < near[i]], np.int64).reshape(-1, 2)


def _distance(a, b, box):
    return np.linalg.norm(boxes.displacement(a - b, box), axis=-1)


def symbol(number: int) -> str:
    """Symbol of an element as errors print it."""
    return SYMBOLS[number] or "virtual site"


def open_text(path: str | Path) -> str:
    """Text of a file, unpacked if its name ends in .gz."""
    path = Path(path)
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gunzip(data, path)
    return data.decode("latin-1")
