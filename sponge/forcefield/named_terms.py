"""Terms that CHARMM's files define by the names of residues, patches and atoms: impropers, and anisotropies of Drude
oscillators.

OpenMM's files hold them in tables of scripts (see `scripts`). The rules here are those of the scripts of OpenMM 8.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import MissingParameterError
from .topology_terms import neighbor_lists

if TYPE_CHECKING:
    from ..topology import Topology
    from .assign import Assignment
    from .templates import Template

__all__ = ["NamedAnisotropies", "NamedImpropers", "NamedResidues", "find_named_impropers"]


class NamedResidue(NamedTuple):
    """Atoms of a residue by the names of its template, and the names of its residue and patches."""

    atoms: dict[str, int]
    names: frozenset[str]


class NamedResidues:
    """The residues of a topology, each read when it is first needed."""

    def __init__(self, assignment: Assignment, topology: Topology):
        self._groups = assignment.groups
        self._names = [_names(template) for template, _ in assignment.groups]
        self.count = len(topology.residue_names)
        self._group, self._row = np.full(self.count, -1), np.zeros(self.count, np.int64)
        for k, (_, atoms) in enumerate(assignment.groups):
            residues = topology.residue_index[atoms[:, 0]]
            self._group[residues], self._row[residues] = k, np.arange(len(atoms))

    def having(self, names: Iterable[str]) -> list[int]:
        """Numbers of the residues whose residue or patches are among `names`."""
        wanted = set(names)
        groups = [k for k, (_, found) in enumerate(self._names) if wanted & found]
        return np.flatnonzero(np.isin(self._group, groups)).tolist()

    def __getitem__(self, residue: int) -> NamedResidue:
        group = self._group[residue] if 0 <= residue < self.count else -1
        if group < 0:
            return NamedResidue({}, frozenset())
        atoms, names = self._names[group]
        return NamedResidue(dict(zip(atoms, self._groups[group][1][self._row[residue]].tolist())), names)


def _names(template: Template) -> tuple[list[str], frozenset[str]]:
    """Names of the atoms of a template, and those of its residue and patches.

    Where a patch of several residues takes part, names come from atom types such as "ALA-CA"; there are none if a type
    is called otherwise, as in a file of another kind.
    """
    if not any(":" in patch for patch in template.patches):
        residue, *patches = "-".join([template.name, *template.patches]).split("-")
        return list(template.names), frozenset([residue, *(p.rpartition("_")[0] or p for p in patches)])
    atoms, names = [], set()
    for kind in template.types:
        drude = kind.startswith("Drude-")
        name, dash, atom = kind.removeprefix("Drude-").rpartition("-")
        if not dash:
            return [], frozenset()
        names.add(name)
        atoms.append(("D" if drude else "") + atom)
    if len(set(atoms)) != len(atoms):
        raise MissingParameterError(
            f"create_system: atoms of residue template {template.name} with patches "
            f"{', '.join(template.patches)} must have different names, got {', '.join(atoms)}"
        )
    return atoms, frozenset(names)


class NamedImpropers:
    """Impropers of CHARMM's residues and patches by the names of their atoms, with parameters by classes.

    `tables` holds impropers by residue and by patch ("residue_impropers", "patch_impropers", "delete_impropers"), four
    pairs (offset of the residue, name of the atom) each; the order of names ("residue_order", "patch_order"); and
    parameters by the classes of the four atoms, None for any: (periodicity, phase, k) in "periodic_improper_types",
    ((k, angle),) with the energy k (phi - angle)^2 in "harmonic_improper_types".
    """

    def __init__(self, tables: Mapping[str, Any]):
        self._residues, self._patches = tables["residue_impropers"], tables["patch_impropers"]
        self._deleted = tables["delete_impropers"]
        self._order = tables["residue_order"], tables["patch_order"]
        self._periodic = {
            key: (int(n), float(phase), float(k)) for key, (n, phase, k) in tables["periodic_improper_types"].items()
        }
        self._harmonic = {
            key: (float(k), float(angle)) for key, ((k, angle),) in tables["harmonic_improper_types"].items()
        }

    def find(
        self, residues: NamedResidues, assignment: Assignment, bonded: list[set[int]]
    ) -> tuple[list[tuple], list[tuple]]:
        """Return the impropers of a topology: (atoms, (periodicity, phase, k)), and harmonic (atoms, (k, angle)).

        `bonded` has the atoms bound to each atom. An improper without parameters, or with those of both kinds, raises
        MissingParameterError.
        """
        periodic, harmonic = [], []
        for number in residues.having([*self._residues, *self._patches]):
            for improper in self._of(residues[number].names):
                atoms = [residues[number + offset].atoms.get(name, -1) for offset, name in improper]
                if min(atoms) < 0 or not _joined(atoms, bonded):
                    continue
                classes = tuple(assignment.types[assignment.atom_type[a]].cls for a in atoms)
                one, other = _matching(self._periodic, classes), _matching(self._harmonic, classes)
                if (one is None) == (other is None):
                    raise MissingParameterError(
                        f"create_system: an improper must have parameters of one kind, got "
                        f"{'none' if one is None else 'both periodic and harmonic ones'} for classes "
                        f"{', '.join(classes)} (atoms {', '.join(name for _, name in improper)})"
                    )
                if one is not None:
                    periodic.append((atoms, one))
                else:
                    harmonic.append((atoms, other))
        return periodic, harmonic

    def _of(self, names: frozenset[str]) -> list[tuple]:
        """The impropers of a residue with patches: those of patches come after deletions of the same patch."""
        found: dict[tuple, None] = {}
        for name in sorted(names & self._residues.keys(), key=self._order[0].__getitem__):
            found |= dict.fromkeys(self._residues[name])
        for name in sorted(names & self._patches.keys(), key=self._order[1].__getitem__):
            for improper in self._deleted.get(name, ()):
                found.pop(improper, None)
            found |= dict.fromkeys(self._patches[name])
        return list(found)


def find_named_impropers(
    rules: Sequence[NamedImpropers], topology: Topology, assignment: Assignment
) -> tuple[list[tuple], list[tuple]]:
    """The impropers of all rules: periodic ones and harmonic ones, as `NamedImpropers.find` returns them."""
    periodic: list[tuple] = []
    harmonic: list[tuple] = []
    if rules:
        residues = NamedResidues(assignment, topology)
        starts, near = neighbor_lists(topology.bonds, topology.n)
        bonded = [set(of.tolist()) for of in np.split(near, starts[1:-1])]
        for rule in rules:
            one, other = rule.find(residues, assignment, bonded)
            periodic += one
            harmonic += other
    return periodic, harmonic


def _joined(atoms: list[int], bonded: list[set[int]]) -> bool:
    """Return True if the first or the last atom is bound to the three others."""
    first, *_, last = atoms
    return bonded[first].issuperset(atoms[1:]) or bonded[last].issuperset(atoms[:-1])


def _matching(table: Mapping[tuple, Any], classes: tuple[str, ...]) -> Any:
    """The entry for four classes with the fewest wildcards, the first places before later ones; None without one."""
    for count in range(5):
        for wild in combinations(range(4), count):
            key = tuple(None if k in wild else cls for k, cls in enumerate(classes))
            if key in table:
                return table[key]
    return None


class NamedAnisotropies:
    """Anisotropic polarizabilities of CHARMM's residues and patches by the names of their atoms.

    `tables` holds (three atoms, aniso12, aniso34) by residue or patch and atom ("residue_anisotropies",
    "patch_anisotropies"), atoms that a patch makes isotropic ("delete_anisotropies"), and the order of names.
    """

    def __init__(self, tables: Mapping[str, Any]):
        self._residues, self._patches = tables["residue_anisotropies"], tables["patch_anisotropies"]
        self._deleted = tables["delete_anisotropies"]
        self._order = tables["residue_order"], tables["patch_order"]

    def find(self, residues: NamedResidues) -> dict[int, tuple[tuple[int, int, int], tuple[float, float]]]:
        """By atom that has a Drude particle, the three atoms that give directions, and aniso12 and aniso34."""
        found = {}
        for number in residues.having([*self._residues, *self._patches]):
            atoms, names = residues[number]
            own: dict[str, tuple] = {}
            for name in sorted(names & self._residues.keys(), key=self._order[0].__getitem__):
                own |= self._residues[name]
            for name in sorted(names & self._patches.keys(), key=self._order[1].__getitem__):
                own = {atom: row for atom, row in own.items() if atom not in self._deleted.get(name, ())}
                own |= self._patches[name]
            for atom, (two, three, four, aniso12, aniso34) in own.items():
                if all(name in atoms for name in (atom, two, three, four)):
                    found[atoms[atom]] = (atoms[two], atoms[three], atoms[four]), (float(aniso12), float(aniso34))
        return found
