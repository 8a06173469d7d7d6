"""Molecule types of a GROMACS topology: their atoms, terms, sites and exclusions, as lines of its sections tell
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import FileFormatError, MissingParameterError
from .gromacs_functions import DEGREE, DISRE_FC
from .gromacs_types import FORMS, Types, numbers, unsupported

__all__ = ["Molecule"]

_Site = tuple[str, int, list[int], tuple]  # kind, site, parents, parameters in the order of the kind's class


class Molecule:
    """A [ moleculetype ] with the sections that follow it; atoms are counted from 0."""

    SECTIONS: tuple[str, ...]

    def __init__(self, name: str, near: int):
        self.name, self.near = name, near
        self.types: list[str] = []
        self.names: list[str] = []
        self.residues: list[tuple[str, str]] = []  # number and name
        self.charges: list[float] = []
        self.masses: list[float] = []
        self.terms: dict[str, list[tuple[tuple[int, ...], tuple[float, ...]]]] = {}  # by kind: atoms and parameters
        self.bonds: list[tuple[int, int]] = []  # pairs that are joined chemically, for exclusions
        self.exclusions: list[tuple[int, int]] = []
        self.sites: list[_Site] = []
        self.cmaps: list[tuple[tuple[int, ...], tuple[str, ...]]] = []
        self.settled: list[tuple[int, int]] = []  # bonds of rigid water, which exclude nothing
        self._label, self._distances = np.nan, ""  # of the last distance restraint: its label and kind

    @classmethod
    def of_all(cls, molecules: Sequence[Molecule]) -> Molecule:
        """All molecules as one, for terms between them, which exclude no pairs."""
        whole = cls("of all molecules", 0)
        for m in molecules:
            whole.types += m.types
            whole.charges += m.charges
        return whole

    def read(self, section: str, words: list[str], types: Types, where: str) -> None:
        """Take up a line of one of the molecule's sections."""
        if section in FORMS:
            self._bonded(section, words, types, where)
        elif section == "distance_restraints":
            self._distance_restraint(words, where)
        else:
            _READERS[section](self, words, types, where)

    def excluded(self) -> np.ndarray:
        """Pairs [m, 2] that the file excludes, and those up to `near` bonds apart."""
        pairs = set(self.exclusions)
        around: list[set[int]] = [set() for _ in self.types]
        for i, j in self.bonds:
            around[i].add(j)
            around[j].add(i)
        for i in range(len(self.types)) if self.near > 0 else ():
            reached = edge = {i}
            for _ in range(min(self.near, len(self.types))):  # no path is longer
                edge = {k for j in edge for k in around[j]} - reached
                reached = reached | edge
            pairs.update((i, j) for j in reached if j > i)
        return np.array(sorted(pairs), np.int64).reshape(-1, 2)

    # -- sections ------------------------------------------------------------------------------------------------------

    def _indices(self, words: Sequence[str], where: str) -> tuple[int, ...]:
        n = len(self.types)
        if not all(w.isdecimal() and 1 <= int(w) <= n for w in words):
            raise FileFormatError(f"{where}: must name atoms 1 to {n} of molecule {self.name}, got {' '.join(words)!r}")
        return tuple(int(w) - 1 for w in words)

    def _head(self, section: str, words: list[str], atoms: int, known: Sequence[str], where: str):
        """Atoms, function type and parameters of a line that begins with a fixed number of atoms."""
        if len(words) <= atoms:
            raise FileFormatError(
                f"{where}: a line of [ {section} ] must have {atoms} atoms and a function type, got {' '.join(words)!r}"
            )
        indices, function = self._indices(words[:atoms], where), words[atoms]
        if function not in known:
            raise unsupported(section, function, where, known)
        # an angle restraint is one of two vectors, which may begin at the same atom
        vectors = [indices[:2], indices[2:]] if section == "angle_restraints" else [indices]
        if any(len(set(v)) < len(v) for v in vectors):
            raise FileFormatError(
                f"{where}: the atoms of a line of [ {section} ] must differ, got {' '.join(words[:atoms])}"
            )
        return indices, function, numbers(words[atoms + 1 :], where)

    def _atom(self, words: list[str], types: Types, where: str) -> None:
        if not 6 <= len(words) <= 8:
            raise FileFormatError(
                f"{where}: an atom must have 6 to 8 fields, got {len(words)} (perturbed atoms are not supported)"
            )
        if words[0] != str(len(self.types) + 1):
            raise FileFormatError(f"{where}: atoms must be numbered from 1 on without gaps, got {words[0]}")
        if words[1] not in types.atoms:
            raise MissingParameterError(f"{where}: atom type {words[1]} must be in [ atomtypes ], found none")
        kind = types.atoms[words[1]]
        charge, mass = (*numbers(words[6:], where), *(kind.charge, kind.mass)[len(words) - 6 :])
        if not mass >= 0:
            raise FileFormatError(
                f"{where}: masses must be finite and >= 0, got {mass} for atom {words[4]} of molecule {self.name}"
            )
        self.types.append(words[1])
        self.residues.append((words[2], words[3]))
        self.names.append(words[4])
        self.charges.append(charge)
        self.masses.append(mass)

    def _add(self, kind: str, atoms: tuple[int, ...], values: tuple[float, ...]) -> None:
        self.terms.setdefault(kind, []).append((atoms, values))

    def _bonded(self, section: str, words: list[str], types: Types, where: str) -> None:
        size, functions, _ = FORMS[section]
        atoms, name, given = self._head(section, words, size, [*functions], where)
        function = functions[name]
        if function.bond:
            self.bonds.append((atoms[0], atoms[1]))
        count = function.count
        if given[:count] and given[count:] == given[: len(given) - count]:
            given = given[:count]  # the perturbed state follows, and is the same
        if len(given) == count:
            series = [given]
        elif not given:
            series = types.find(section, name, tuple(types.atoms[self.types[i]].bonded for i in atoms), where)
        else:
            raise FileFormatError(
                f"{where}: function type {name} of [ {section} ] has {count} parameters, got {len(given)} "
                "(perturbed terms are not supported)"
            )
        for values in series:
            for term in function.convert(*values):
                if term.kind in ("torsion", "angle_restraint", "z_angle_restraint") and term.values[1] % 1:
                    raise FileFormatError(
                        f"{where}: the multiplicity of a torsion or a restraint must be an integer, got "
                        f"{term.values[1]}"
                    )
                if term.kind.startswith("tabulated") and not (term.values[0] >= 0 and term.values[0] % 1 == 0):
                    raise FileFormatError(f"{where}: the number of a table must be an integer >= 0, got {values[0]:g}")
                if term.kind == "torsion_restraint" and not (term.values[0] >= 0 and term.values[2] >= 0):
                    raise FileFormatError(
                        f"{where}: a dihedral restraint must have a free range and a force constant >= 0, got "
                        f"{values[1]:g} degrees and {values[2]:g} kJ/mol/rad^2"
                    )
                self._add(
                    term.kind, atoms if term.places is None else tuple(atoms[k] for k in term.places), term.values
                )

    def _pair(self, words: list[str], types: Types, where: str, section: str = "pairs") -> None:
        atoms, function, given = self._head(section, words, 2, ["1", "2"] if section == "pairs" else ["1"], where)
        a, b = (self.types[i] for i in atoms)
        product = types.fudge_qq * self.charges[atoms[0]] * self.charges[atoms[1]]
        if function == "1" and section == "pairs" and not given:
            c6, c12 = types.pair14(a, b, where)
        elif function == "1" and section == "pairs" and len(given) == 2:
            c6, c12 = types.lennard_jones(*given)
        elif function == "2" and len(given) == 5:
            product = given[0] * given[1] * given[2]
            c6, c12 = types.lennard_jones(*given[3:])
        elif section == "pairs_nb" and len(given) == 4:
            product = given[0] * given[1]
            c6, c12 = types.lennard_jones(*given[2:])
        else:
            raise FileFormatError(
                f"{where}: function type {function} of [ {section} ] does not have {len(given)} parameters"
            )
        if (c6 > 0) == (c12 > 0):
            sigma, epsilon = ((c12 / c6) ** (1 / 6), c6 * c6 / (4 * c12)) if c6 > 0 else (1.0, 0.0)
            self._add("pair14", atoms, (product, sigma, epsilon))
        else:  # no sigma and epsilon give one part alone
            self._add("pair14", atoms, (product, 1.0, 0.0))
            self._add("lennard_jones_pair", atoms, (c6, c12))

    def _pair_nb(self, words: list[str], types: Types, where: str) -> None:
        self._pair(words, types, where, "pairs_nb")

    def _exclusion(self, words: list[str], types: Types, where: str) -> None:
        first, *others = self._indices(words, where)
        self.exclusions += [(min(first, j), max(first, j)) for j in others if j != first]

    def _settle(self, words: list[str], types: Types, where: str) -> None:
        (o,), _, values = self._head("settles", words, 1, ["1"], where)
        if len(values) != 2 or o + 2 >= len(self.types):
            raise FileFormatError(
                f"{where}: a line of [ settles ] must name an oxygen with two hydrogens after it, and two distances"
            )
        self.settled += [(o, o + 1), (o, o + 2)]
        for i, j, distance in ((o, o + 1, values[0]), (o, o + 2, values[0]), (o + 1, o + 2, values[1])):
            self._add("constraint", (i, j), (distance,))

    def _cmap(self, words: list[str], types: Types, where: str) -> None:
        atoms, _, values = self._head("cmap", words, 5, ["1"], where)
        key = tuple(types.atoms[self.types[i]].bonded for i in atoms)
        if key not in types.maps or values:
            raise MissingParameterError(
                f"{where}: [ cmap ] must have a map for types {'-'.join(key)} in [ cmaptypes ], found none"
            )
        self.cmaps.append((atoms, key))

    def _position_restraint(self, words: list[str], types: Types, where: str) -> None:
        atoms, _, values = self._head("position_restraints", words, 1, ["1"], where)
        if len(values) not in (3, 6) or min(values[:3]) < 0 or values[3:] not in ([], values[:3]):
            raise FileFormatError(
                f"{where}: a position restraint must have three constants >= 0, got {' '.join(words[2:])} (perturbed "
                "terms are not supported)"
            )
        self._add("position_restraint", atoms, tuple(values[:3]))

    def _distance_restraint(self, words: list[str], where: str) -> None:
        """A restraint of one distance, or, with the label of the line before, of these distances together."""
        atoms, _, values = self._head("distance_restraints", words, 2, ["1"], where)
        if len(values) != 6 or values[1] not in (1, 2):
            raise FileFormatError(
                f"{where}: a distance restraint must have a label, type 1 or 2, three bounds and a weight, got "
                f"{' '.join(words[3:])!r}"
            )
        label, _, low, up1, up2, weight = values
        if not (weight >= 0 and 0 <= low <= up1 <= up2):
            raise FileFormatError(
                f"{where}: a distance restraint must have bounds 0 <= low <= up1 <= up2 and a weight >= 0, got "
                f"{' '.join(words[5:])}"
            )
        found = (DISRE_FC * weight, low, up1, up2)
        if label == self._label:
            others, before = self.terms[self._distances].pop()
            if before != found:
                raise FileFormatError(f"{where}: distances of label {label:g} must have the same bounds and weight")
            atoms = (*others, *atoms)
        self._label, self._distances = label, f"distance_restraint {len(atoms) // 2}"
        self._add(self._distances, atoms, found)

    # -- virtual sites -------------------------------------------------------------------------------------------------

    def _site(self, kind: str, atoms: Sequence[int], *parameters: Sequence[float] | float) -> None:
        self.sites.append((kind, atoms[0], list(atoms[1:]), parameters))

    def _site1(self, words: list[str], types: Types, where: str) -> None:
        atoms, _, _ = self._head("virtual_sites1", words, 2, ["1"], where)
        self._site("WeightedAverage", atoms, (1.0,))

    def _site2(self, words: list[str], types: Types, where: str) -> None:
        atoms, _, values = self._head("virtual_sites2", words, 3, ["1"], where)
        (a,) = _exactly(1, values, where)
        self._site("TwoParticleAverage", atoms, (1 - a, a))

    def _site3(self, words: list[str], types: Types, where: str) -> None:
        atoms, function, values = self._head("virtual_sites3", words, 4, ["1", "2", "3", "4"], where)
        a, b, *c = _exactly(3 if function == "4" else 2, values, where)
        origin = (1.0, 0.0, 0.0)
        if function == "1":
            self._site("ThreeParticleAverage", atoms, (1 - a - b, a, b))
        elif function == "2":  # at a distance b along a line; any other vector gives the frame's second direction
            other = (-1.0, 1.0, 0.0) if abs(a) > 0.5 else (-1.0, 0.0, 1.0)
            self._site("LocalCoordinates", atoms, origin, (-1.0, 1 - a, a), other, (b, 0.0, 0.0))
        elif function == "3":  # at an angle a and a distance b
            at = (b * np.cos(a * DEGREE), b * np.sin(a * DEGREE), 0.0)
            self._site("LocalCoordinates", atoms, origin, (-1.0, 1.0, 0.0), (0.0, -1.0, 1.0), at)
        else:
            self._site("OutOfPlane", atoms, a, b, *c)

    def _site4(self, words: list[str], types: Types, where: str) -> None:
        atoms, _, values = self._head("virtual_sites4", words, 5, ["2"], where)
        a, b, c = _exactly(3, values, where)
        x, y = (1 - a, -1.0, a, 0.0), (1 - b, -1.0, 0.0, b)
        self._site("LocalCoordinates", atoms, (1.0, 0.0, 0.0, 0.0), x, y, (0.0, 0.0, c))

    def _siten(self, words: list[str], types: Types, where: str) -> None:
        if len(words) < 3 or words[1] not in ("1", "2", "3"):
            raise unsupported("virtual_sitesn", words[1] if len(words) > 1 else "none", where, ["1", "2", "3"])
        atoms = self._indices([words[0], *words[2 :: 2 if words[1] == "3" else 1]], where)
        if words[1] == "3":
            weights = np.array(numbers(words[3::2], where))
        else:
            weights = np.array([1.0 if words[1] == "1" else self.masses[i] for i in atoms[1:]])
        if len(weights) != len(atoms) - 1 or not np.all(weights >= 0) or not weights.sum() > 0:
            raise FileFormatError(
                f"{where}: weights of a virtual site must be >= 0, one for each atom, got {weights.tolist()}"
            )
        self._site("WeightedAverage", atoms, tuple(weights / weights.sum()))


def _exactly(count: int, values: list[float], where: str) -> list[float]:
    if len(values) != count:
        hint = " (grompp would compute them from bonds and angles, which is not supported)" if not values else ""
        raise FileFormatError(f"{where}: a virtual site of this kind has {count} parameters, got {len(values)}{hint}")
    return values


_READERS: dict[str, Callable] = {
    "atoms": Molecule._atom,
    "pairs": Molecule._pair,
    "pairs_nb": Molecule._pair_nb,
    "exclusions": Molecule._exclusion,
    "settles": Molecule._settle,
    "cmap": Molecule._cmap,
    "position_restraints": Molecule._position_restraint,
    "virtual_sites1": Molecule._site1,
    "virtual_sites2": Molecule._site2,
    "virtual_sites3": Molecule._site3,
    "virtual_sites4": Molecule._site4,
    "virtual_sitesn": Molecule._siten,
    "dummies1": Molecule._site1,
    "dummies2": Molecule._site2,
    "dummies3": Molecule._site3,
    "dummies4": Molecule._site4,
    "dummiesn": Molecule._siten,
}
Molecule.SECTIONS = (*FORMS, "distance_restraints", *_READERS)
