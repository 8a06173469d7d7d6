"""Topology of a system: names, elements, residues, chains and chemical bonds."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from triskele.core.extend import check, short_repr

from .quantities import number_in

__all__ = ["Topology", "as_indices", "as_vectors", "graph_distances"]

_MOST = np.iinfo(np.int32).max


def as_indices(values: Any, where: str) -> np.ndarray:
    """Return indices of any shape as int32; floats with integral values are accepted, as text files have them.

    Other values, and those that do not fit into 32 bits, raise a ValueError that begins with `where`.
    """
    given = np.asarray(values)
    if given.dtype == np.int32 or not given.size:
        return np.ascontiguousarray(given, np.int32)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"{where}: indices must be integers, got {given.dtype} values such as {given.flat[0]!r}")
    bad = (given > _MOST) | (given < -_MOST) | ~np.isfinite(given)
    if given.dtype.kind == "f":
        bad |= given != np.floor(given)
    if bad.any():
        raise ValueError(f"{where}: indices must be integers below {_MOST + 1}, got {given[bad].flat[0]}")
    return np.ascontiguousarray(given, np.int32)


def check_indices(values: np.ndarray, n: int, where: str, error: type[Exception] = ValueError) -> None:
    """Raise an error, whose message begins with `where`, unless all indices are 0 to n - 1."""
    if values.size and not 0 <= values.min() <= values.max() < n:
        raise error(f"{where} must be 0 to {n - 1}, got {values.min()} to {values.max()}")


def as_atoms(where: str, atoms: Any, n: int) -> np.ndarray:
    """Indices of atoms from a list, a mask, or None for all."""
    if atoms is None:
        return np.arange(n)
    atoms = np.asarray(atoms)
    if atoms.dtype == bool:
        check.shape(atoms, (n,), f"{where}: a mask of atoms")
        atoms = np.flatnonzero(atoms)
    if atoms.ndim != 1 or not len(atoms) or not np.issubdtype(atoms.dtype, np.integer):
        raise ValueError(f"{where}: atoms must be a list of at least one number, got {atoms!r}")
    check_indices(atoms, n, f"{where}: atoms")
    return atoms


@short_repr
@dataclass(frozen=True, eq=False)
class Topology:
    """Atoms, their residues and chains, and the bonds between them; arrays in the order of the atoms.

    Parameters
    ----------
    names : (n,) str
        Atom names.
    elements : (n,) int
        Atomic numbers; 0 for virtual sites and particles that are not atoms.
    residue_index : (n,) int
        Residue of each atom.
    residue_names : (residues,) str
    residue_ids : (residues,) str
        Numbers as in the file, insertion code included.
    chain_index : (residues,) int
        Chain of each residue.
    chain_ids : (chains,) str
    bonds : (bonds, 2) int
        Pairs of atoms.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> system.topology.names[:4].tolist(), len(system.topology.bonds)
    (['HH31', 'CH3', 'HH32', 'HH33'], 21)
    """

    names: np.ndarray
    elements: np.ndarray
    residue_index: np.ndarray
    residue_names: np.ndarray
    residue_ids: np.ndarray
    chain_index: np.ndarray
    chain_ids: np.ndarray
    bonds: np.ndarray = field(default_factory=lambda: np.empty((0, 2), np.int32))

    def __post_init__(self):
        for name in ("names", "residue_names", "residue_ids", "chain_ids"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), str))
        for name in ("elements", "residue_index", "chain_index"):
            object.__setattr__(self, name, as_indices(getattr(self, name), f"topology: {name}"))
        object.__setattr__(self, "bonds", as_indices(self.bonds, "topology: bonds").reshape(-1, 2))
        n, residues = len(self.names), len(self.residue_names)
        if len(self.elements) != n or len(self.residue_index) != n:
            raise ValueError(
                f"topology: names, elements and residue_index must be of one length, got {n}, "
                f"{len(self.elements)} and {len(self.residue_index)}"
            )
        if len(self.residue_ids) != residues or len(self.chain_index) != residues:
            raise ValueError(
                "topology: residue_names, residue_ids and chain_index must be of one length, got "
                f"{residues}, {len(self.residue_ids)} and {len(self.chain_index)}"
            )
        check_indices(self.bonds, n, "topology: atoms of bonds")

    @classmethod
    def of_particles(cls, n: int, name: str = "X", element: int = 0, bonds=()) -> Topology:
        """`n` like particles, each its own residue, in one chain."""
        return cls(
            np.full(n, name),
            np.full(n, element),
            np.arange(n),
            np.full(n, name),
            np.arange(1, n + 1).astype(f"U{len(str(n))}"),
            np.zeros(n, int),
            np.array(["A"]),
            bonds,
        )

    @property
    def n(self) -> int:
        """Number of atoms."""
        return len(self.names)

    def describe(self, atom: int) -> str:
        """An atom as errors name it.

        Examples
        --------
        >>> from triskele.sponge import Topology
        >>> Topology.of_particles(3, "AR").describe(1)
        'atom 1 (AR 2 AR)'
        """
        r = self.residue_index[atom]
        return f"atom {atom} ({self.residue_names[r]} {self.residue_ids[r]} {self.names[atom]})"

    def select(self, text: str, positions: Any = None, box: Any = None) -> np.ndarray:
        """Choose atoms by a text in the words of MDAnalysis.

        ========================================  ======================================================================
        ``all  none``                             every atom, or no atom
        ``protein  nucleic  water``               residues, by their names
        ``ion``                                   residues of one atom of a metal or halogen
        ``ligand``                                all other residues
        ``backbone``                              N, CA, C and O of ``protein``
        ``name CA CB  resname AL*``               names, with ``*``, ``?`` and ``[...]``; also ``element``, ``chainid``
                                                  and ``segid``
        ``resid 5 7A 10:20  resnum``              numbers of residues, with and without insertion codes
        ``index 0:9  bynum 1:10``                 numbers of atoms, from 0 and from 1
        ``not  and  or  ( )``                     ``and`` and ``or`` bind alike, from the left
        ``within 0.5 of ...  around 0.5 ...``     atoms no further than 0.5 nm from others, with and without these
        ``byres ...  same residue as ...``        all atoms of residues; also ``same resname as``, ``fragment``, ...
        ``bonded ...``                            atoms with a bond to others
        ========================================  ======================================================================

        Words that take a selection, written as dots, take everything up to the next closing bracket. A backslash before
        a word of the language makes it a name.

        Parameters
        ----------
        text : str
            The selection.
        positions : (n, 3) array, nm, optional
            Needed by ``within`` and ``around``.
        box : array, optional
            Distances are those of nearest images if there is a box.

        Returns
        -------
        (m,) int
            Indices of atoms, ascending.

        Raises
        ------
        ValueError
            If the text is not a selection; names the word, its place, and known words that resemble it.

        Examples
        --------
        >>> from triskele import sponge
        >>> structure = sponge.load(*sponge.example_files("alanine-dipeptide-water"))
        >>> structure.topology.select("protein and name C*").tolist()
        [1, 4, 8, 10, 14, 18]
        """
        from .selection import select

        return select(self, text, positions, box)

    def take(self, atoms: Any) -> Topology:
        """Return the topology of some of the atoms, in the order given, with the bonds between them.

        Parameters
        ----------
        atoms : (m,) int
            Indices of atoms, each once.

        Examples
        --------
        >>> from triskele import sponge
        >>> system = sponge.load(*sponge.example_files("alanine-dipeptide-water"))
        >>> peptide = system.topology.take(system.select("protein"))
        >>> peptide.n, len(peptide.bonds), peptide.residue_names.tolist()
        (22, 21, ['ACE', 'ALA', 'NME'])
        """
        atoms = as_indices(atoms, "take: atoms").reshape(-1)
        check_indices(atoms, self.n, "take: atoms")
        place = np.full(self.n, -1)
        place[atoms] = np.arange(len(atoms))
        if np.count_nonzero(place >= 0) < len(atoms):
            raise ValueError("take: atoms must be given once each, got one twice")
        residues, residue_index = np.unique(self.residue_index[atoms], return_inverse=True)
        chains, chain_index = np.unique(self.chain_index[residues], return_inverse=True)
        bonds = place[self.bonds]
        return Topology(
            self.names[atoms],
            self.elements[atoms],
            residue_index,
            self.residue_names[residues],
            self.residue_ids[residues],
            chain_index,
            self.chain_ids[chains],
            bonds[(bonds >= 0).all(1)],
        )

    @cached_property
    def molecules(self) -> np.ndarray:
        """Number of the molecule of each atom [n]: atoms joined by bonds, numbered by their first atom."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import connected_components

        i, j = self.bonds.T
        return connected_components(coo_array((np.ones(len(i)), (i, j)), (self.n, self.n)), directed=False)[1].astype(
            np.int32
        )


def graph_distances(bonds: np.ndarray, n: int, most: int = 3) -> list[np.ndarray]:
    """Pairs of atoms one, two, ... `most` bonds apart (by the shortest way), each int32 [m, 2] with i < j."""
    from scipy.sparse import coo_array

    i, j = np.asarray(bonds, np.int64).reshape(-1, 2).T
    one = np.ones(2 * len(i), np.int32)
    a = (coo_array((one, (np.r_[i, j], np.r_[j, i])), (n, n)).tocsr() > 0).astype(np.int32)
    found: list[np.ndarray] = []
    power, reached = a, None
    for _ in range(most):
        new = power if reached is None else power - power.multiply(reached)
        new = new.tocoo()
        keep = (new.row < new.col) & (new.data > 0)
        found.append(np.stack([new.row[keep], new.col[keep]], 1).astype(np.int32))
        reached = a if reached is None else ((reached + power) > 0).astype(np.int32)
        power = ((power @ a) > 0).astype(np.int32)
    return found


def as_vectors(values: Any, topology: Topology, where: str, unit: str = "nm") -> np.ndarray:
    """Return a float64 copy of one vector for each atom, (n, 3); raise ValueError, after `where`, if that is not so."""
    values = check.shape(np.array(number_in(unit, values, where), np.float64), (topology.n, 3), where)
    finite = np.isfinite(values).all(1)
    if not finite.all():
        bad = int(np.argmin(finite))
        raise ValueError(f"{where} must be finite, got {values[bad]} for {topology.describe(bad)}")
    return values
