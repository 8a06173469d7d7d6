"""1-4 pairs that some torsions scale in their own way, by the types of their four atoms (GLYCAM, Amber's lipids)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from .topology_terms import bonded_propers, neighbor_lists

if TYPE_CHECKING:
    from ..topology import Topology
    from .assign import Assignment

__all__ = ["ScaledPairs", "pair_divisors"]

_AMBER = (1.2, 2.0)  # Amber's divisors of 1-4 interactions


class ScaledPairs:
    """Divisors of the electrostatic and the Lennard-Jones interactions of 1-4 pairs, by the names of four atom types.

    Types in one of the two mappings have Amber's standard divisor for the other. Torsions count in the direction in
    which the first atom has the lower number, and the last one of a pair decides, as in the scripts of OpenMM's files.
    """

    def __init__(self, electrostatic: Mapping[tuple, Any], lennard_jones: Mapping[tuple, Any]):
        self._tables = [
            {tuple(key): float(value) for key, value in table.items()} for table in (electrostatic, lennard_jones)
        ]
        wrong = [key for table in self._tables for key, value in table.items() if len(key) != 4 or not value > 0]
        if wrong:
            raise ValueError(f"1-4 pairs must have four atom types and a divisor above 0, got {wrong[0]}")

    @classmethod
    def unscaled(cls, types: Sequence[tuple[str, str, str, str]]) -> ScaledPairs:
        """Pairs whose interactions are not scaled."""
        return cls(dict.fromkeys(map(tuple, types), 1.0), dict.fromkeys(map(tuple, types), 1.0))

    def find(self, propers: np.ndarray, assignment: Assignment) -> dict[tuple[int, int], list[float]]:
        """Return both divisors by pair of atoms for sorted torsions (m, 4), all with the lower number first."""
        names = [kind.name for kind in assignment.types]
        number = {name: k for k, name in enumerate(names)}
        found: dict[tuple[int, int], list[float]] = {}
        wanted: dict[tuple, list[float | None]] = {}
        for which, table in enumerate(self._tables):
            for key, value in table.items():
                if all(name in number for name in key):
                    wanted.setdefault(tuple(number[name] for name in key), [None, None])[which] = value
        if not wanted:
            return found
        for atoms, kinds in zip(propers.tolist(), assignment.atom_type[propers].tolist()):
            for which, value in enumerate(wanted.get(tuple(kinds), ())):
                if value is not None:
                    found.setdefault((atoms[0], atoms[3]), list(_AMBER))[which] = value
        return found


def pair_divisors(
    rules: Sequence[ScaledPairs], topology: Topology, assignment: Assignment
) -> dict[tuple[int, int], list[float]]:
    """Divisors of all rules by pair of atoms; a later rule replaces those of an earlier one."""
    if not rules:
        return {}
    propers = bonded_propers(topology.bonds, *neighbor_lists(topology.bonds, topology.n))
    return {pair: both for rule in rules for pair, both in rule.find(propers, assignment).items()}
