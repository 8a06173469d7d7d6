"""`TermTable`: the parameters of bonded terms by the types of their atoms."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

__all__ = ["CustomTerms", "TermTable"]

_ATOMS = {"bond": 2, "angle": 3, "torsion": 4}


class TermTable:
    """Definitions of one kind of term, each for a pattern of `n` atoms.

    A pattern has one key for each atom: ("type", name), ("class", name), or None for any. An earlier definition goes
    before a later one and, where `specific_first`, any without None before those with. Patterns read the same in both
    directions unless `find` is called with other options.
    """

    def __init__(self, n: int, specific_first: bool = True):
        self.n, self.specific_first = n, specific_first
        self.values: list[Any] = []
        self.patterns: list[tuple] = []
        self._index: dict[tuple, int] = {}

    def __len__(self) -> int:
        return len(self.values)

    def add(self, pattern: tuple, value: Any) -> None:
        """Append a definition."""
        self._index.setdefault(pattern, len(self.values))
        self.patterns.append(pattern)
        self.values.append(value)

    def rank(self, index: int) -> tuple[bool, int]:
        """Return the sort key of a definition; the smallest is chosen."""
        return self.specific_first and None in self.patterns[index], index

    def find(self, types: tuple, both_ways: bool = True) -> int | None:
        """Index of the definition for atoms of the given AtomTypes; None if there is none."""
        options = [t.keys for t in types]
        found = [self._index[p] for p in product(*options) if p in self._index]
        if both_ways:
            found += [self._index[p] for p in product(*options[::-1]) if p in self._index]
        return min(found, key=self.rank, default=None)

    def fits(self, index: int, types: Any) -> bool:
        """Return True if a definition fits atoms of the given AtomTypes in this direction."""
        return all(key in t.keys for key, t in zip(self.patterns[index], types))


@dataclass
class CustomTerms:
    """A section such as CustomTorsionForce: values of the parameters by the types of atoms."""

    kind: str  # "bond", "angle", "torsion"
    energy: str
    parameters: list[str]
    constants: dict[str, float]
    table: TermTable = field(init=False)
    impropers: TermTable = field(init=False)

    def __post_init__(self):
        self.table = TermTable(_ATOMS[self.kind], specific_first=self.kind == "torsion")
        self.impropers = TermTable(4)
