"""`OpenMMTerms`: the terms of an OpenMM System, whose forces say one by one what a box and exclusions mean to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..errors import FileFormatError
from ..system import System
from .terms import Terms

__all__ = ["OpenMMTerms"]

# NonbondedForce's methods by the number that the file has, and those of CustomNonbondedForce that cut pairs off alike
METHODS = ("none", "reaction_field", "reaction_field", "ewald", "pme", "ljpme")
_ALIKE = {0: (0,), 1: (1,), 2: (2, 3, 4)}


class OpenMMTerms(Terms):
    """Terms as `Terms` has them, made with OpenMM's rules."""

    system: System  # that terms are added to; there while they are made

    def __init__(self, where: str, n: int, read: Callable[[OpenMMTerms, Any], bool]):
        super().__init__(where, n)
        self.read = read  # adds a force that is a part of another one, and returns whether it is periodic
        self._method: int | None = None  # of the NonbondedForce
        self._tables: list[tuple[str, int, Any, dict[str, Any]]] = []
        self._excluded: tuple[str, set[tuple[int, int]]] | None = None
        self._expected: tuple[str, np.ndarray] | None = None
        self._not_in_a_box: list[str] = []  # forces that cut off without images
        self.exclusion_images = True

    @contextmanager
    def images(self, images: bool) -> Iterator[None]:
        """Let terms that are added meanwhile take nearest images in a box, or not."""
        before = len(self._add)
        yield
        if not images:
            self._add[before:] = [lambda make=make: _without_images(make()) for make in self._add[before:]]

    def expression(self, make: Callable, kind: str, atoms: np.ndarray, values: dict[str, Any]) -> None:
        """Terms of atoms [m, k] with an expression, made by a function of atoms and values."""

        def expression(atoms, **values):
            return make(atoms, values)

        expression.__name__ = f"{kind}_expression"
        self._term(expression, atoms, **values)

    def restraint(self, make: Callable, in_box: Callable) -> None:
        """A potential made by `make` or, in a system with a box, by `in_box`."""
        self._add.append(lambda: (make if self.system.box is None else in_box)())

    def exclude(self, where: str, pairs: np.ndarray) -> None:
        """Take the pairs (m, 2) that a force leaves out: all forces between pairs must leave out the same."""
        rows = [tuple(p) for p in np.sort(np.asarray(pairs, np.int64).reshape(-1, 2), axis=1).tolist()]
        for p in rows:
            if p[0] == p[1] or p[0] < 0 or p[1] >= self.n:
                raise FileFormatError(
                    f"{where}: exceptions must be of two particles of 0 to {self.n - 1}, got {p[0]} and {p[1]}"
                )
        found = set(rows)
        if len(found) < len(rows):
            twice = next(p for p in rows if rows.count(p) > 1)
            raise FileFormatError(
                f"{where}: exceptions must be given once, got particles {twice[0]} and {twice[1]} twice"
            )
        other = self._excluded or (where, found)
        if found != other[1]:
            p = min(found ^ other[1])
            raise FileFormatError(
                f"{where}: excluded pairs must be those of {other[0]}, got particles {p[0]} and {p[1]} excluded in one "
                f"of them"
            )
        self._excluded = other
        self.exclusions = np.array(sorted(found), np.int64).reshape(-1, 2)

    def expect_exclusions(self, where: str, pairs: np.ndarray) -> None:
        """Exclude the pairs of a force that can do with others, unless a force needs others."""
        self._expected = self._expected or (where, pairs)

    def settle_exclusions(self) -> None:
        """Choose the exclusions of the system, when all forces have been read."""
        if self._excluded is None and self._expected is not None:
            self.exclude(*self._expected)

    def excludes_others(self, pairs: np.ndarray) -> bool:
        """Return True if a force needs other exclusions than `pairs` [m, 2]."""
        return self._excluded is not None and self._excluded[1] != {tuple(p) for p in np.sort(pairs, axis=1).tolist()}

    def pair_method(self, where: str, method: int) -> None:
        """Note the method of a force between pairs: 0 no cut-off, 1 cut-off without images, 2 cut-off in a box."""
        if method not in _ALIKE:
            raise FileFormatError(
                f"{where}: method must be 0 (NoCutoff), 1 (CutoffNonPeriodic) or 2 (CutoffPeriodic), got {method}"
            )
        if method == 1:
            self._not_in_a_box.append(where)

    def one_nonbonded(self, where: str, method: int) -> None:
        """Remember the method of the NonbondedForce; there must be exactly one."""
        if self._method is not None:
            raise FileFormatError(
                f"{where}: there must be one NonbondedForce, got a second one (add their parameters up)"
            )
        self._method = method
        self.pair_method(where, min(method, 2))

    def lennard_jones(self, where: str, method: int, table: Any, options: dict[str, Any]) -> None:
        """Lennard-Jones by pair of types, with a cut-off of its own."""
        self.pair_method(where, method)
        self._tables.append((where, method, table, options))

    def add_to(self, system: System) -> None:
        """Make all potentials and add them to the system."""
        self.system = system
        if system.box is not None and self._not_in_a_box:
            raise FileFormatError(
                f"{self._not_in_a_box[0]}: a cut-off without periodicity (CutoffNonPeriodic) is not supported in a "
                "system with periodic forces"
            )
        alone = self._with_charges()
        super().add_to(system)
        if self._atoms is not None and not self.exclusion_images:
            system.nonbonded.images = False
        for _, method, table, options in alone:
            system.add(self._table_alone(method, table, options))

    def _with_charges(self) -> list[tuple]:
        """Give a table to the NonbondedForce that has charges alone and the same cut-off; return the other tables."""
        if self._atoms is None or np.any(self._atoms["epsilons"] != 0) or len(self._tables) != 1:
            return self._tables
        _, method, table, options = self._tables[0]
        if self._method not in _ALIKE[method] or (method and options["cutoff"] != self._options.get("cutoff")):
            return self._tables
        self._options.pop("switch", None)
        self.lennard_jones_table(table, options)
        return []

    def _table_alone(self, method: int, table: Any, options: dict[str, Any]) -> Any:
        from ..potentials.nonbonded.nonbonded import Nonbonded

        return Nonbonded(np.zeros(self.n), mixing=table, method="cutoff" if method else "none").update(**options)


def _without_images(potential: Any) -> Any:
    potential.images = False
    return potential
