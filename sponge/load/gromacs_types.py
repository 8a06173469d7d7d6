"""Types of a GROMACS force field: atoms, pairs of atoms, and terms that are found by the types of their atoms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from triskele.core.extend import check

from ..errors import FileFormatError, MissingParameterError
from .gromacs_functions import (
    ANGLE_RESTRAINTS,
    ANGLES,
    BONDS,
    CONSTRAINTS,
    DIHEDRAL_RESTRAINTS,
    DIHEDRALS,
    NAMES,
    Z_ANGLE_RESTRAINTS,
    Function,
)

__all__ = ["FORMS", "AtomType", "Types", "numbers", "unsupported"]

# Section: number of atoms, functions, section that lists parameters by type, if there is one
FORMS: dict[str, tuple[int, dict[str, Function], str]] = {
    "bonds": (2, BONDS, "bondtypes"),
    "constraints": (2, CONSTRAINTS, "constrainttypes"),
    "angles": (3, ANGLES, "angletypes"),
    "dihedrals": (4, DIHEDRALS, "dihedraltypes"),
    "angle_restraints": (4, ANGLE_RESTRAINTS, ""),
    "angle_restraints_z": (2, Z_ANGLE_RESTRAINTS, ""),
    "dihedral_restraints": (4, DIHEDRAL_RESTRAINTS, ""),
}
_LISTED = {types: section for section, (_, _, types) in FORMS.items() if types}


class AtomType(NamedTuple):
    """A line of [ atomtypes ]."""

    bonded: str  # the name under which bonded parameters are listed
    number: int  # atomic number, 0 where the file does not say
    mass: float
    charge: float
    kind: str  # A, V or D
    lj: tuple[float, float]  # as the file has them


def numbers(words: Sequence[str], where: str) -> list[float]:
    """Words as finite numbers."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        raise FileFormatError(
            f"{where}: must hold numbers, got {' '.join(words)!r} (values of macros are passed as defines)"
        ) from None
    if not np.all(np.isfinite(values)):
        raise FileFormatError(f"{where}: must hold finite numbers, got {' '.join(words)!r}")
    return values


def unsupported(section: str, function: str, where: str, known: Sequence[str]) -> FileFormatError:
    """The error for a function type without a counterpart."""
    name = NAMES.get((section, function), "")
    return FileFormatError(
        f"{where}: function type {function}{f' ({name})' if name else ''} of [ {section} ] is not supported "
        f"(supported are {', '.join(known)})"
    )


class Types:
    """The sections of a topology that come before its molecules."""

    SECTIONS = (
        *_LISTED,
        "defaults",
        "atomtypes",
        "nonbond_params",
        "pairtypes",
        "implicit_genborn_params",
        "cmaptypes",
    )

    def __init__(self) -> None:
        self.rule = 0  # of [ defaults ]; 0 until that is read
        self.generate = False
        self.fudge_lj = self.fudge_qq = 1.0
        self.atoms: dict[str, AtomType] = {}
        self.pairs: dict[tuple[str, str], tuple[float, float]] = {}
        self.overrides: dict[tuple[str, str], tuple[float, float]] = {}
        self.maps: dict[tuple[str, ...], np.ndarray] = {}
        self._last: dict[str, tuple[str, ...]] = {}  # types of the line before, in its order
        self.terms: dict[tuple[str, str], dict[tuple[str, ...], list[list[float]]]] = {}

    def read(self, section: str, words: list[str], where: str) -> bool:
        """Take up a line, if its section is one of types; else False."""
        if section not in self.SECTIONS:
            return False
        if section in _LISTED:
            self._term(section, words, where)
        else:
            getattr(self, f"_{section}")(words, where)
        return True

    # -- sections ------------------------------------------------------------------------------------------------------

    def _defaults(self, words: list[str], where: str) -> None:
        if self.rule:
            raise FileFormatError(f"{where}: [ defaults ] must occur once, got it again")
        if len(words) < 2 or words[0] != "1" or words[1] not in ("1", "2", "3"):
            raise FileFormatError(
                f"{where}: [ defaults ] must name function 1 (Lennard-Jones) and combination rule 1, 2 or 3, got "
                f"{' '.join(words)!r} (Buckingham potentials are not supported)"
            )
        self.rule = int(words[1])
        self.generate = len(words) > 2 and words[2].lower() == "yes"
        self.fudge_lj, self.fudge_qq, power = (*numbers(words[3:6], where), *(1.0, 1.0, 12.0)[len(words[3:6]) :])
        if power != 12:
            raise FileFormatError(f"{where}: the power of the repulsion must be 12, got {power:g}")

    def _atomtypes(self, words: list[str], where: str) -> None:
        # where the particle's kind, a letter, stands tells which of bonded type and atomic number are given
        if len(words) > 5 and len(words[5]) == 1 and words[5].isalpha():
            bonded, number, rest = words[1], words[2], words[3:]
        elif len(words) > 3 and len(words[3]) == 1 and words[3].isalpha():
            bonded, number, rest = words[0], "0", words[1:]
        elif len(words) > 4 and len(words[4]) == 1 and words[4].isalpha():
            named = words[1][0].isalpha()
            bonded, number, rest = words[1] if named else words[0], "0" if named else words[1], words[2:]
        else:
            rest = []
        if len(rest) != 5:
            raise FileFormatError(
                f"{where}: an atom type must have a name, mass, charge, kind and two Lennard-Jones parameters, got "
                f"{' '.join(words)!r}"
            )
        kind = check.choice(
            rest[2].upper(),
            ("A", "V", "D"),
            f"{where}: kinds of particles",
            error=FileFormatError,
            hint="shells are not supported",
        )
        number, mass, charge, v, w = numbers([number, *rest[:2], *rest[3:]], where)
        if w < 0 or (self.rule == 1 and v < 0):
            raise FileFormatError(f"{where}: Lennard-Jones parameters must not be negative, got {v:g} and {w:g}")
        self.atoms[words[0]] = AtomType(bonded, max(int(number), 0), mass, charge, kind, (v, w))

    def _pair(self, section: str, table: dict, words: list[str], where: str) -> None:
        if len(words) < 3 or words[2] != "1":
            raise unsupported(section, words[2] if len(words) > 2 else "none", where, ["1"])
        if len(words) != 5:
            raise FileFormatError(f"{where}: a line of [ {section} ] must have 5 fields, got {len(words)}")
        v, w = numbers(words[3:], where)
        table[tuple(sorted(words[:2]))] = v, w

    def _nonbond_params(self, words: list[str], where: str) -> None:
        self._pair("nonbond_params", self.overrides, words, where)

    def _pairtypes(self, words: list[str], where: str) -> None:
        self._pair("pairtypes", self.pairs, words, where)

    def _implicit_genborn_params(self, words: list[str], where: str) -> None:
        """Radii of an implicit solvent, which acts only where the run asks for it."""

    def _cmaptypes(self, words: list[str], where: str) -> None:
        if len(words) < 8 or words[5] != "1":
            raise unsupported("cmaptypes", words[5] if len(words) > 5 else "none", where, ["1"])
        n, m = (int(x) for x in numbers(words[6:8], where))
        values = numbers(words[8:], where)
        if n != m or n < 3 or n % 2 or len(values) != n * n:
            raise FileFormatError(
                f"{where}: a map must be square with an even size, got {n} x {m} and {len(values)} values"
            )
        # the file begins at -180 degrees, we at 0
        self.maps[tuple(words[:5])] = np.roll(np.array(values).reshape(n, n), (-(n // 2), -(n // 2)), (0, 1))

    def _term(self, section: str, words: list[str], where: str) -> None:
        kind = _LISTED[section]
        count, functions, _ = FORMS[kind]
        if kind == "dihedrals" and len(words) > 2 and words[2].isdigit() and not _is_function(words, 4):
            # two types: the outer ones of an improper, the inner ones of a proper torsion
            a, b = words[:2]
            words = [*((a, "X", "X", b) if words[2] == "2" else ("X", a, b, "X")), *words[2:]]
        if len(words) <= count or words[count] not in functions:
            raise unsupported(
                section.removesuffix("types") + "s", words[count] if len(words) > count else "none", where, [*functions]
            )
        key, function = tuple(words[:count]), words[count]
        values = numbers(words[count + 1 :], where)
        if len(values) != functions[function].count:
            raise FileFormatError(
                f"{where}: function type {function} of [ {section} ] has {functions[function].count} parameters, got "
                f"{len(values)}"
            )
        if function == "5" and kind == "dihedrals":  # GROMACS lists them as what they become
            function, values = "3", list(functions["5"].convert(*values)[0].values)
        table = self.terms.setdefault((kind, functions[function].types or function), {})
        given, key = key, min(key, key[::-1])
        again = function == "9" and key in table
        apart = again and self._last.get(kind) != given and table[key] != [values]
        self._last[kind] = given if function in ("1", "9") or kind != "dihedrals" else self._last.get(kind, ())
        if apart or (not again and len(table.get(key, ())) > 1):
            raise FileFormatError(
                f"{where}: the torsions of types {'-'.join(key)} must follow each other, got more after others"
            )
        if not (again and table[key] == [values]):
            table[key] = [*table[key], values] if again else [values]  # a later line takes the place of an earlier one

    # -- searches ------------------------------------------------------------------------------------------------------

    def find(self, section: str, function: str, types: tuple[str, ...], where: str) -> list[list[float]]:
        """Parameters of a term whose line has none; torsions may have several."""
        table = self.terms.get((section, FORMS[section][1][function].types or function), {})
        found = table.get(min(types, types[::-1]))
        if found is None and section == "dihedrals":
            scores = [(max(_matches(key, types), _matches(key, types[::-1])), key) for key in table if "X" in key]
            best = max(scores, key=lambda s: s[0], default=(-1, ()))  # the first of equals
            found = table[best[1]] if best[0] >= 0 else None
        if found is None:
            raise MissingParameterError(
                f"{where}: [ {section} ] must have parameters, found none for types {'-'.join(types)} with function "
                f"type {function}"
            )
        return found

    def lennard_jones(self, v: float, w: float) -> tuple[float, float]:
        """C6 and C12 (kJ/mol nm^6, kJ/mol nm^12) of the file's parameters; a negative sigma has no attraction."""
        return (v, w) if self.rule == 1 else (4 * w * v**6 if v >= 0 else 0.0, 4 * w * v**12)

    def mixed(self, a: str, b: str) -> tuple[float, float]:
        """C6 and C12 of two atom types that are not bound to each other."""
        override = self.overrides.get((min(a, b), max(a, b)))
        if override is not None:
            return self.lennard_jones(*override)
        (v1, w1), (v2, w2) = self.atoms[a].lj, self.atoms[b].lj
        if self.rule == 2:
            sigma = (abs(v1) + abs(v2)) / 2
            return self.lennard_jones(-sigma if min(v1, v2) < 0 else sigma, (w1 * w2) ** 0.5)
        (c6, c12), (d6, d12) = self.lennard_jones(v1, w1), self.lennard_jones(v2, w2)
        return (c6 * d6) ** 0.5, (c12 * d12) ** 0.5

    def pair14(self, a: str, b: str, where: str) -> tuple[float, float]:
        """C6 and C12 of a 1-4 pair whose line has no parameters."""
        listed = self.pairs.get((min(a, b), max(a, b)))
        if listed is not None:
            return self.lennard_jones(*listed)
        if not self.generate:
            raise MissingParameterError(
                f"{where}: [ pairs ] must have parameters, found none for types {a}-{b} in [ pairtypes ]"
            )
        c6, c12 = self.mixed(a, b)
        return self.fudge_lj * c6, self.fudge_lj * c12


def _is_function(words: list[str], place: int) -> bool:
    """Return True if the word at `place` is a function type of a dihedral and not one of its parameters."""
    return len(words) > place and words[place] in DIHEDRALS and not all(_is_number(w) for w in words[2:place])


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _matches(key: tuple[str, ...], types: tuple[str, ...]) -> int:
    """The number of types that agree, -1 if one that is not X differs."""
    if any(k not in ("X", t) for k, t in zip(key, types)):
        return -1
    return sum(k == t for k, t in zip(key, types))
