"""Parameters of bonds, angles, torsions and CMAP terms, by the types of their atoms."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from ..errors import MissingParameterError
from ..topology import Topology
from .assign import Assignment
from .tables import TermTable

__all__ = ["Impropers", "find_impropers", "find_terms"]


def find_terms(
    what: str, atoms: np.ndarray, table: TermTable, assignment: Assignment, topology: Topology, needed: bool = True
) -> np.ndarray:
    """Return the index (m,) into the values of `table` for each term of `atoms` (m, k), -1 where there is none.

    If terms are `needed`, one without parameters raises MissingParameterError, which calls the terms `what`.
    """
    keys = assignment.atom_type[atoms]
    unique, _, inverse = _unique_rows(keys, len(assignment.types))
    kinds = [tuple(assignment.types[t] for t in row) for row in unique.tolist()]
    found = np.array([-1 if (k := table.find(types)) is None else k for types in kinds], np.int64)
    out = found[inverse]
    if needed and np.any(out < 0):
        missing = np.flatnonzero(out < 0)
        first = atoms[missing[0]]
        types = ", ".join(f"{t.name}" for t in kinds[inverse[missing[0]]])
        pattern = " ".join(f'type{k + 1}="{t.name}"' for k, t in enumerate(kinds[inverse[missing[0]]]))
        others = f", and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise MissingParameterError(
            f"create_system: the force field must have parameters for every {what}, got none for "
            f"{' - '.join(topology.describe(a) for a in first)} of types {types}{others} (add <{what.capitalize()} "
            f"{pattern} ... /> in a file of your own; with k=0 if nothing is meant to act)"
        )
    return out


def _unique_rows(keys, base):
    code = np.zeros(len(keys), np.int64)
    for column in keys.T:
        code = code * base + column
    _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
    return keys[first], first, inverse


class Impropers:
    """The improper definitions of a force field, by the type of the central atom."""

    def __init__(self, table: TermTable):
        self.table = table
        self.by_center: dict = {}
        for k, pattern in enumerate(table.patterns):
            self.by_center.setdefault(pattern[0], []).append(k)

    def find(self, center, bound) -> tuple[int, tuple[int, ...]] | None:
        """Definition for a central type and three bound ones, and which of these take the pattern's other places.

        The last definition without wildcards, else the first with.
        """
        candidates = sorted(k for key in center.keys for k in self.by_center.get(key, ()))
        best = None
        for k in candidates:
            pattern = self.table.patterns[k]
            if best is not None and None in pattern:
                continue
            places = next(
                (p for p in permutations(range(3)) if all(pattern[q + 1] in bound[p[q]].keys for q in range(3))), None
            )
            if places is not None:
                best = (k, places)
        return best


def find_impropers(
    candidates: np.ndarray, table: TermTable, assignment: Assignment, topology: Topology
) -> tuple[np.ndarray, np.ndarray]:
    """Impropers that the force field defines: atoms [m, 4] in the order of the torsion, and index into the table's
    values [m].

    Where the pattern leaves the order of the atoms open, it follows the rule of the file's `ordering`: "amber" sorts by
    residue and place in the template; "charmm" and "default" put carbon, then the heavier element, then the lower
    number first. The order is settled by the first improper of given types and kept for all of these types, as OpenMM
    does. (LEaP settles each alone, so that e.g. the two sides of a phenyl ring may differ from it: 0.08 of 2,972 kJ/mol
    in a protein of 892 atoms.)
    """
    if not len(table) or not len(candidates):
        return np.empty((0, 4), np.int64), np.empty(0, np.int64)
    bound = candidates[:, 1:]
    place = assignment.template_atom[bound] + topology.residue_index[bound].astype(np.int64) * (
        assignment.template_atom.max() + 1
    )
    rank = np.argsort(np.argsort(place, axis=1), axis=1)
    unique, first, inverse = _unique_rows(assignment.atom_type[candidates], len(assignment.types))
    definitions = Impropers(table)
    orders = np.zeros((len(unique), 4), np.int64)
    index = np.full(len(unique), -1)
    for row, key in enumerate(unique.tolist()):
        types = [assignment.types[t] for t in key]
        found = definitions.find(types[0], types[1:])
        if found is not None:
            index[row] = found[0]
            orders[row] = _order(table.values[found[0]][0], table.patterns[found[0]], found[1], types, rank[first[row]])
    keep = index[inverse] >= 0
    inverse = inverse[keep]
    return np.take_along_axis(candidates[keep], orders[inverse], axis=1), index[inverse]


def _order(ordering, pattern, places, types, rank):
    """Places (0 the central atom, 1 to 3 the bound ones) in the order of the torsion."""
    two, three, four = (p + 1 for p in places)
    wild = None in pattern
    if ordering == "smirnoff":
        return 0, two, three, four
    if ordering == "charmm" and not wild:
        return 0, two, three, four
    if ordering in ("default", "charmm"):
        a, b = types[two].element, types[three].element
        # bound atoms come sorted by number, so that places compare like numbers
        if (a == b and two > three) or (a != b and a != 6 and (b == 6 or a < b)):
            two, three = three, two
        return two, three, 0, four

    def alike(p, q):
        return types[p].element == types[q].element if wild else types[p].name == types[q].name

    def after(p, q):
        return rank[p - 1] > rank[q - 1]

    if alike(two, four) and after(two, four):
        two, four = four, two
    if alike(three, four) and after(three, four):
        three, four = four, three
    if (wild or alike(two, three)) and after(two, three):
        two, three = three, two
    return two, three, 0, four
