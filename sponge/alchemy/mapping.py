"""`mapping` finds the atoms that two molecules share; `check_mapping` refuses those that no path should change."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from triskele.core.extend import optional

from ..analysis.superposition import superpose
from ..system import System

__all__ = ["check_mapping", "mapping"]

# bonds of an atom whose neighbors are all single-bonded, by atomic number
_VALENCE = {1: 1, 5: 3, 6: 4, 7: 3, 8: 2, 9: 1, 14: 4, 15: 3, 16: 2, 17: 1, 34: 2, 35: 1, 53: 1}
_TIMEOUT = 30  # seconds of RDKit's search
_MATCHES = 64  # ways to lay the common part on each molecule that are compared
_FLAT = 0.1  # triple product of unit vectors, 0.77 in a tetrahedron, below which a center has no handedness


def mapping(old: System, new: System, *, elements: bool = True) -> dict[int, int]:
    """Find the atoms that two molecules share, for `hybrid`.

    RDKit finds the maximum common substructure of the heavy atoms. Rings match whole rings only, and atoms match only
    those of the same hybridization, which follows from the element and the number of neighbors. Of the ways to lay the
    substructure on both molecules, the function takes the one that keeps most atoms and then superposes best. It pairs
    hydrogens of shared atoms by their distances, and leaves atoms out until `check_mapping` accepts the result.

    Parameters
    ----------
    old, new : System
        One molecule each, with positions and bonds.
    elements : bool, default True
        Map heavy atoms of different elements to each other. Hydrogens are mapped to hydrogens only.

    Returns
    -------
    dict of int to int
        Atoms of `old` to atoms of `new`, in the order of `old`.

    Raises
    ------
    ImportError
        If RDKit is not installed.
    ValueError
        If a system is not one molecule, an element is unknown, or the molecules share no heavy atom.

    Warns
    -----
    UserWarning
        If the search ended after 30 s: a larger common part may exist.

    References
    ----------
    Liu et al., "Lead optimization mapper: automating free energy calculations for lead optimization", J. Comput. Aided
    Mol. Des. 27 (2013) 755. doi:10.1007/s10822-013-9678-y

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> methanol = sponge.load("methanol.prmtop", "methanol.inpcrd", method="none")  # doctest: +SKIP
    >>> ethane = sponge.load("ethane.prmtop", "ethane.inpcrd", method="none")        # doctest: +SKIP
    >>> alchemy.mapping(methanol, ethane)                                            # doctest: +SKIP
    """
    a, b = _Molecule(old, "mapping", "old"), _Molecule(new, "mapping", "new")
    for m in (a, b):
        if len(np.unique(m.molecules)) != 1:
            raise ValueError(
                f"mapping: the {m.name} system must be one molecule (map the molecules before they are put into water)"
            )
        if unknown := [k for k in range(m.system.n) if m.elements[k] not in _VALENCE]:
            raise ValueError(
                f"mapping: the element of {m.describe(unknown[0])} must be known, got atomic number "
                f"{m.elements[unknown[0]]} (give the mapping yourself)"
            )
    best: dict[int, int] = {}
    score = (0, 0.0)
    for heavy in _common_parts(a, b, elements):
        if best and len(heavy) == 1:
            break
        placed = _placed(a, b, heavy)
        found = _accepted(a, b, heavy | _hydrogens(a, b, heavy, placed))
        old_atoms, new_atoms = list(found), list(found.values())
        apart = float(np.sum((placed[new_atoms] - a.positions[old_atoms]) ** 2))
        if any(a.elements[k] > 1 for k in found) and (not best or (len(found), -apart) > score):
            best, score = found, (len(found), -apart)
    if not best:
        raise ValueError("mapping: the molecules must share a heavy atom of the same hybridization, found none")
    return dict(sorted(best.items()))


def check_mapping(old: System, new: System, mapping: Mapping[int, int]) -> None:
    """Raise ValueError, naming the atoms, if a mapping is not one that free energies should be computed with.

    The check uses bonds, elements and positions, and does not need RDKit. Bonds have no orders, so it does not
    recognize double bonds that change between E and Z.

    Parameters
    ----------
    old, new : System
        With positions and bonds; other molecules may be present.
    mapping : mapping of int to int
        Atoms of `old` to atoms of `new`.

    Raises
    ------
    ValueError
        If the mapping is not one to one, or if bonds do not connect its atoms within each molecule; if shared atoms are
        bonded in one molecule alone, or unshared atoms are bonded to the shared ones more than once, as when a ring
        opens, closes or changes its size; or if a stereocenter would be inverted.

    References
    ----------
    Fleck, Wieder, Boresch, "Dummy atoms in alchemical free energy calculations", J. Chem. Theory Comput. 17 (2021)
    4403. doi:10.1021/acs.jctc.0c01328 (why unshared atoms should be bonded to one shared atom)

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge import alchemy
    >>> peptide = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> alchemy.check_mapping(peptide, peptide, {k: k for k in range(22)})
    >>> alchemy.check_mapping(peptide, peptide, {1: 1, 8: 8})
    Traceback (most recent call last):
    ValueError: check_mapping: shared atoms must be connected by bonds, ...
    """
    where = "check_mapping"
    a, b = _Molecule(old, where, "old"), _Molecule(new, where, "new")
    if not isinstance(mapping, Mapping):
        raise TypeError(f"{where}: mapping must be a dictionary of atoms, got {type(mapping).__name__}")
    pairs = {int(i): int(j) for i, j in mapping.items()}
    for m, atoms in ((a, list(pairs)), (b, list(pairs.values()))):
        if not atoms or min(atoms) < 0 or max(atoms) >= m.system.n or len(set(atoms)) < len(atoms):
            raise ValueError(
                f"{where}: mapping must name different atoms of the {m.name} system, 0 to {m.system.n - 1}, got {atoms}"
            )
    for _, message in _faults(a, b, pairs):
        raise ValueError(f"{where}: {message}")


class _Molecule:
    """Bonds, elements and positions of a system, as the checks need them."""

    def __init__(self, system, where, name):
        if not isinstance(system, System):
            raise TypeError(f"{where}: {name} must be a System, got {type(system).__name__}")
        if system.positions is None:
            raise ValueError(f"{where}: the {name} system must have positions")
        self.system, self.name, self.molecules = system, name, system.topology.molecules
        self.elements = system.topology.elements.tolist()
        self.positions = system.positions
        self.near: list[set[int]] = [set() for _ in range(system.n)]
        for i, j in system.topology.bonds.tolist():
            self.near[i].add(j)
            self.near[j].add(i)

    def describe(self, atom):
        return self.system.topology.describe(atom)

    def missing(self, atom):
        """Neighbors short of the valence: 0 of sp3, 1 of sp2, 2 of sp."""
        return max(0, _VALENCE[self.elements[atom]] - len(self.near[atom]))

    def beside(self, atoms):
        """All atoms of the molecules that some atoms belong to."""
        return np.flatnonzero(np.isin(self.molecules, self.molecules[list(atoms)])).tolist()

    def hydrogens(self, atom):
        return sorted(k for k in self.near[atom] if self.elements[k] == 1)

    def ring(self, i, j):
        """Size of the smallest ring through a bond, 0 if there is none."""
        seen, front, size = {i}, {i}, 1
        while front:
            front = {k for x in front for k in self.near[x] if (x, k) != (i, j)} - seen
            size += 1
            if j in front:
                return size
            seen |= front
        return 0

    def ring_system(self, atom):
        """The atoms that bonds in rings connect with an atom."""
        found, front = {atom}, [atom]
        while front:
            i = front.pop()
            more = {k for k in self.near[i] - found if self.ring(i, k)}
            found |= more
            front += more
        return found

    def stereocenters(self, atoms):
        """The given atoms that have four different neighbors; the two directions around a ring count as different."""
        inside = self.beside(atoms)
        kind = {k: self.elements[k] for k in inside}
        while True:
            keys = {k: (kind[k], *sorted(kind[x] for x in self.near[k])) for k in inside}
            rank = {key: n for n, key in enumerate(sorted(set(keys.values())))}
            if len(rank) == len(set(kind.values())):
                break
            kind = {k: rank[keys[k]] for k in inside}
        return {
            c
            for c in atoms
            if len(self.near[c]) == 4 and len({(kind[x], x if self.ring(c, x) else -1) for x in self.near[c]}) == 4
        }

    def handedness(self, center, neighbors):
        """+1 or -1 by the sense of three neighbors around a center, 0 if they are nearly flat."""
        arms = self.positions[neighbors] - self.positions[center]
        volume = float(np.linalg.det(arms / np.linalg.norm(arms, axis=1)[:, None]))
        return 0 if abs(volume) < _FLAT else int(np.sign(volume))


def _components(near: list[set[int]], atoms: Iterable[int]) -> list[set[int]]:
    """Sets of atoms that bonds among them connect, by their first atom."""
    left, found = dict.fromkeys(sorted(atoms)), []
    while left:
        part, front = set(), [next(iter(left))]
        while front:
            atom = front.pop()
            if atom in left:
                del left[atom]
                part.add(atom)
                front += near[atom]
        found.append(part)
    return found


def _faults(a: _Molecule, b: _Molecule, pairs: dict[int, int]) -> Iterator[tuple[set[int], str]]:
    """Yield each fault of a mapping: the atoms of the old molecule to leave out, and the reason."""
    back = {j: i for i, j in pairs.items()}
    for m, to_old in ((a, {i: i for i in pairs}), (b, back)):
        largest: dict[int, set[int]] = {}  # by molecule
        for part in sorted(_components(m.near, to_old), key=len, reverse=True):
            first = largest.setdefault(int(m.molecules[min(part)]), part)
            if first is part:
                continue
            i, j = min(first), min(part)
            yield (
                {to_old[k] for k in part},
                f"shared atoms must be connected by bonds, but {m.describe(i)} and {m.describe(j)} of the {m.name} "
                "molecule are not (leave one of them out, or map the atoms between)",
            )
    for m, other, to_old, to_other in ((a, b, {i: i for i in pairs}, pairs), (b, a, back, back)):
        for i in to_old:
            for j in sorted(k for k in m.near[i] if k > i and k in to_old):
                if to_other[j] not in other.near[to_other[i]]:
                    size = m.ring(i, j)
                    yield (
                        {to_old[i], to_old[j]},
                        f"a mapping must not break or form bonds, but {m.describe(i)} and {m.describe(j)} are "
                        f"bonded in the {m.name} molecule alone" + (f", in a ring of {size}" if size else ""),
                    )
    for m, to_old in ((a, {i: i for i in pairs}), (b, back)):
        for part in _components(m.near, set(m.beside(to_old)) - set(to_old)):
            bonds = [(i, k) for i in to_old for k in sorted(m.near[i] & part)]
            if len(bonds) > 1:
                i, k = bonds[0]
                size = m.ring(i, k)
                yield (
                    {to_old[x] for x in m.ring_system(i) & set(to_old)},
                    f"a mapping must not open, close or resize rings, but the unshared atoms with {m.describe(k)} "
                    f"of the {m.name} molecule are bonded to shared ones {len(bonds)} times, in a ring of {size} "
                    "(share the whole ring or one atom beside it)",
                )
    centers = a.stereocenters(list(pairs)) | {back[j] for j in b.stereocenters(list(back))}
    for c in sorted(centers):
        arms = [k for k in sorted(a.near[c]) if k in pairs]
        if len(arms) < 3 or len(a.near[c]) != 4 or len(b.near[pairs[c]]) != 4:
            continue
        hands = a.handedness(c, arms[:3]), b.handedness(pairs[c], [pairs[k] for k in arms[:3]])
        if hands[0] * hands[1] < 0:
            branches = _components(a.near, set(pairs) - {c})
            arms.sort(key=lambda k: -len(next(part for part in branches if k in part)))
            yield (
                set(arms[2:]),
                (
                    f"stereocenters must keep their handedness, but {a.describe(c)} is the mirror image "
                    f"of {b.describe(pairs[c])} (share at most two of its neighbors, or other hydrogens)"
                ),
            )


def _accepted(a, b, pairs):
    """The mapping without the atoms that cause faults: the largest connected part, possibly nothing."""
    while pairs and (fault := next(_faults(a, b, pairs), None)):
        kept = set(pairs) - fault[0]
        part = max(_components(a.near, kept), key=len, default=set())
        pairs = {i: j for i, j in pairs.items() if i in part}
    return pairs


def _common_parts(a: _Molecule, b: _Molecule, elements: bool) -> Iterator[dict[int, int]]:
    """Ways to lay the maximum common substructure of the heavy atoms on both molecules, then single atoms."""
    chem = optional.need("rdkit.Chem", "mapping", "ligand")
    mcs: Any = optional.need("rdkit.Chem.rdFMCS", "mapping", "ligand")
    graphs, atoms, labels = [], [], []
    for m in (a, b):
        heavy = [k for k in range(m.system.n) if m.elements[k] > 1]
        label = {k: 1 + m.missing(k) + (0 if elements else 4 * m.elements[k]) for k in heavy}
        graph = chem.RWMol()
        for k in heavy:  # all are carbons to RDKit, told apart by the isotope
            atom = chem.Atom(6)
            atom.SetIsotope(label[k])
            atom.SetNoImplicit(True)
            graph.AddAtom(atom)
        for n, k in enumerate(heavy):
            for other in sorted(x for x in m.near[k] if x > k and x in label):
                graph.AddBond(n, heavy.index(other), chem.BondType.SINGLE)
        graph.UpdatePropertyCache(strict=False)
        chem.FastFindRings(graph)
        graphs.append(graph.GetMol())
        atoms.append(heavy)
        labels.append(label)
    found = mcs.FindMCS(
        graphs,
        atomCompare=mcs.AtomCompare.CompareIsotopes,
        bondCompare=mcs.BondCompare.CompareAny,
        ringMatchesRingOnly=True,
        completeRingsOnly=True,
        timeout=_TIMEOUT,
    )
    if found.canceled:
        warnings.warn(f"mapping: RDKit's search ended after {_TIMEOUT} s; a larger common part may exist", stacklevel=3)
    if found.numBonds:
        query = chem.MolFromSmarts(found.smartsString)
        ways = [
            graph.GetSubstructMatches(query, uniquify=unique, maxMatches=_MATCHES)
            for graph, unique in zip(graphs, (True, False))
        ]
        for first in ways[0]:
            for second in ways[1]:
                yield {atoms[0][x]: atoms[1][y] for x, y in zip(first, second)}
    for i in atoms[0]:  # a common part has bonds, but a single atom can be all that the checks accept
        for j in atoms[1]:
            if labels[0][i] == labels[1][j]:
                yield {i: j}


def _placed(a, b, heavy):
    """Positions of the new molecule, laid on the old one by the heavy atoms."""
    i, j = list(heavy), list(heavy.values())
    if len(heavy) < 3:
        return b.positions + (a.positions[i] - b.positions[j]).mean(axis=0)
    reference = b.positions.copy()
    reference[j] = a.positions[i]
    return superpose(b.positions[None], reference, np.array(j))[0]


def _hydrogens(a, b, heavy, placed):
    """Hydrogens of mapped atoms, paired by distance."""
    found: dict[int, int] = {}
    for i, j in heavy.items():
        of_old, of_new = a.hydrogens(i), b.hydrogens(j)
        apart = np.linalg.norm(a.positions[of_old][:, None] - placed[of_new][None], axis=-1)
        found |= {of_old[x]: of_new[y] for x, y in zip(*linear_sum_assignment(apart))}
    return found
