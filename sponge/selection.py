"""Atoms chosen by a text, in MDAnalysis's words: ``protein and name CA``, ``byres water and around 0.5 ligand``.

An expression is parsed and evaluated in one pass, as a mask of all atoms. `and` and `or` bind alike and from the left,
`not` takes one term, and the words that follow from a selection (`around`, `within ... of`, `byres`, `bonded`,
`same ... as`) take all up to the next closing bracket, as in MDAnalysis.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any

import numpy as np

from triskele.core.extend import check

from . import box as boxes
from .elements import SYMBOLS, is_metal
from .residues import standard_residue
from .topology import Topology, as_atoms, as_vectors

__all__ = ["chosen_atoms", "select"]

# Names that MDAnalysis takes for protein, nucleic acids and water, and that are no standard residues with known bonds
_OTHER = {
    **dict.fromkeys("ALAD ARGN ASF ASN1 ASPH CME CYS1 CYSH DAB GLUH HIS1 HIS2 HISA HISB".split(), "protein"),
    **dict.fromkeys("HISD HISE HISH HYP LYSH MSE PGLU QLN".split(), "protein"),
    **dict.fromkeys([f"R{base}{end}" for base in "ACGU" for end in ("", "3", "5")], "nucleic"),
    **dict.fromkeys(["T", "DU"], "nucleic"),
    **dict.fromkeys("HHO OH2 OHH T5P TIP2 TIP5".split(), "water"),
}
_HALOGENS = (9, 17, 35, 53)
_BACKBONE = ("N", "CA", "C", "O")


def _kind(t, kind):
    """Mask of the atoms of residues of a kind."""
    kinds = [_kind_of_name(name) for name in t.residue_names.tolist()]
    real = t.elements > 0
    single = np.bincount(t.residue_index, real, len(kinds)) == 1
    ionic = np.array([z in _HALOGENS or bool(is_metal(z)) for z in t.elements.tolist()], bool) & real
    ions = single & (np.bincount(t.residue_index, ionic, len(kinds)) == 1)
    known = np.array([k or ("ion" if ion else "ligand") for k, ion in zip(kinds, ions, strict=True)], str)
    return (known == kind)[t.residue_index]


@cache
def _kind_of_name(name):
    standard = standard_residue(name)
    return standard[3] if standard else _OTHER.get(name)


def _residue_keys(t):
    """Residue numbers of all atoms times 256, plus their insertion codes; -2^40 where there is no number."""
    keys = []
    for text in t.residue_ids.tolist():
        match = re.fullmatch(r"(-?\d{1,9})([A-Za-z]?)", text)
        keys.append(-(1 << 40) if match is None else (int(match[1]) << 8) + ord(match[2] or "\0"))
    return np.array(keys, np.int64)[t.residue_index]


# One value for each atom: those that are compared as text, and those that only `same ... as` knows
_TEXTS: dict[str, Callable[[Topology], np.ndarray]] = {
    "name": lambda t: t.names,
    "resname": lambda t: t.residue_names[t.residue_index],
    "chainid": lambda t: t.chain_ids[t.chain_index[t.residue_index]],
    "segid": lambda t: t.chain_ids[t.chain_index[t.residue_index]],
    "element": lambda t: np.array(SYMBOLS)[t.elements],
}
_SAME: dict[str, Callable[[Topology], np.ndarray]] = {
    **_TEXTS,
    "residue": lambda t: t.residue_index,
    "resid": lambda t: _residue_keys(t) >> 8,
    "resnum": lambda t: _residue_keys(t) >> 8,
    "segment": lambda t: t.chain_index[t.residue_index],
    "fragment": lambda t: t.molecules,
}
# Numbers that are given as values and ranges; a residue's number has room for its insertion code
_NUMBERS: dict[str, Callable[[Topology], np.ndarray]] = {
    "resid": lambda t: _residue_keys(t),
    "resnum": lambda t: _residue_keys(t) >> 8,
    "index": lambda t: np.arange(t.n),
    "bynum": lambda t: np.arange(1, t.n + 1),
}
_GROUPS: dict[str, Callable[[Topology], np.ndarray]] = {
    "all": lambda t: np.ones(t.n, bool),
    "none": lambda t: np.zeros(t.n, bool),
    "backbone": lambda t: _kind(t, "protein") & np.isin(t.names, _BACKBONE),
    **{kind: partial(_kind, kind=kind) for kind in ("protein", "nucleic", "water", "ion", "ligand")},
}
_FOLLOWING = ("around", "within", "byres", "bonded", "same")
_WORDS = (*_GROUPS, *_TEXTS, *_NUMBERS, *_FOLLOWING, "not", "and", "or")
_RANGE = re.compile(r"(-?\d+)([A-Za-z]?)(?:(?:\s*:\s*|\s+to\s+|\s+-\s+|-)(-?\d+)([A-Za-z]?))?(?=\s|$)\s*")


def select(topology: Topology, text: str, positions: Any = None, box: Any = None) -> np.ndarray:
    """Indices of the atoms that `text` selects, ascending; see `Topology.select`."""
    return np.flatnonzero(_Parser(topology, check.kind(text, str, "select: selection"), positions, box).mask())


def chosen_atoms(where: str, system: Any, atoms: Any) -> np.ndarray:
    """Indices of atoms of a system from a selection, by its own positions, or as for `as_atoms`."""
    found = system.select(atoms) if isinstance(atoms, str) else atoms
    if isinstance(atoms, str) and not len(found):
        raise ValueError(f"{where}: atoms must select at least one atom, got none by {atoms!r}")
    return as_atoms(where, found, system.n)


class _Parser:
    """A text that is being read, and what its words are about."""

    def __init__(self, topology, text, positions, box):
        self.topology, self.text, self.positions, self.box = topology, text, positions, box
        self.tokens = [(m.group(), m.start() + 1) for m in re.finditer(r"[()]|[^\s()]+", text)]
        self.at = 0

    def mask(self):
        found = self.expression()
        if self.word is not None:
            raise self.error("must be 'and', 'or' or the end")
        return found

    @property
    def word(self):
        """The word that comes next; None at the end."""
        return self.tokens[self.at][0] if self.at < len(self.tokens) else None

    def error(self, requirement, known=()):
        """The error that the next word is not what it must be."""
        word, place = self.tokens[self.at] if self.word is not None else (None, len(self.text) + 1)
        got = "the end of the text" if word is None else repr(word)
        hint = check.near(word, known, listing=True) if known else ""
        return ValueError(f"select: character {place} of {self.text!r} {requirement}, got {got}{hint}")

    def take(self, *expected):
        """Step over the next word, which must be one of those expected."""
        if self.word not in expected:
            requirement = repr(expected[0]) if len(expected) == 1 else "a property of atoms"
            raise self.error(f"must be {requirement}", expected if len(expected) > 1 else ())
        self.at += 1
        return self.tokens[self.at - 1][0]

    def expression(self):
        found = self.term()
        while self.word in ("and", "or"):
            both = self.take("and", "or") == "and"
            other = self.term()
            found = found & other if both else found | other
        return found

    def term(self):
        word = "chainid" if self.word == "chainID" else self.word
        if word not in ("(", "not", *_GROUPS, *_TEXTS, *_NUMBERS, *_FOLLOWING):
            raise self.error("must begin a selection", _WORDS)
        self.at += 1
        if word == "(":
            found = self.expression()
            self.take(")")
            return found
        if word == "not":
            return ~self.term()
        if word in _GROUPS:
            return _GROUPS[word](self.topology)
        if word in _TEXTS:
            names, inverse = np.unique(_TEXTS[word](self.topology), return_inverse=True)
            patterns = self.values("a name")
            return np.array([any(fnmatchcase(name, p) for p in patterns) for name in names.tolist()], bool)[inverse]
        return self.ranges(word) if word in _NUMBERS else getattr(self, word)()

    def values(self, what):
        """The words up to the next one of the language; a backslash makes such a word a value."""
        begin = self.at
        while self.word is not None and self.word not in (*_WORDS, "chainID", "(", ")"):
            self.at += 1
        if self.at == begin:
            raise self.error(f"must be {what}")
        return [word.removeprefix("\\") for word, _ in self.tokens[begin : self.at]]

    def ranges(self, word):
        begin, numbers = self.at, _NUMBERS[word](self.topology)
        text, found, end = " ".join(self.values("a number or a range such as 5:10")), np.zeros(len(numbers), bool), 0
        while end < len(text):
            match = _RANGE.match(text, end)
            if match is None or word != "resid" and (match[2] or match[4]):
                self.at = begin + text.count(" ", 0, end)
                raise self.error("must be a number or a range such as 5:10")
            bounds = [(int(n), ord(code or "\0")) for n, code in (match.groups()[:2], match.groups()[2:]) if n]
            low, high = ((n << 8) + code if word == "resid" else n for n, code in (bounds[0], bounds[-1]))
            found |= (numbers >= low) & (numbers <= high)
            end = match.end()
        return found

    # -- words that follow from a selection ----------------------------------------------------------------------------

    def around(self):
        """Atoms near those of a selection, without these."""
        cutoff = self.cutoff()
        near = self.expression()
        return self.near(near, cutoff) & ~near

    def within(self):
        """Atoms near those of a selection, and these."""
        cutoff = self.cutoff()
        self.take("of")
        return self.near(self.expression(), cutoff)

    def byres(self):
        return self.alike("residue", self.expression())

    def same(self):
        field = self.take(*_SAME)
        self.take("as")
        return self.alike(field, self.expression())

    def bonded(self):
        inside, found = self.expression(), np.zeros(self.topology.n, bool)
        for ends in (self.topology.bonds, self.topology.bonds[:, ::-1]):
            found[ends[inside[ends[:, 0]], 1]] = True
        return found

    def alike(self, field, chosen):
        values = _SAME[field](self.topology)
        return np.isin(values, values[chosen])

    def cutoff(self):
        """The distance that comes next, in nm."""
        if self.positions is None:
            self.at -= 1
            raise self.error("cannot be used without positions (give positions=, or use System.select)")
        try:
            cutoff = float(self.word or "")
        except ValueError:
            cutoff = -1.0
        if not 0 <= cutoff < np.inf:
            raise self.error("must be a distance in nm")
        self.at += 1
        return cutoff

    def near(self, chosen, cutoff):
        """Mask of `chosen`, and of all atoms with an image no further away than `cutoff`."""
        from scipy.spatial import KDTree

        x = as_vectors(self.positions, self.topology, "select: positions")
        reference = x[chosen]
        if self.box is not None and len(reference):
            box = boxes.as_box(self.box, "select: box")
            inverse = np.linalg.inv(box)
            x = x - np.floor(x @ inverse) @ box
            fractions = reference @ inverse
            fractions -= np.floor(fractions)
            reach = cutoff * np.linalg.norm(inverse, axis=0) + 1e-9  # in units of the distances between faces
            shifts = itertools.product(*(np.arange(-n, n + 1.0) for n in np.ceil(reach)))
            images = (fractions[:, None] + np.array(list(shifts))).reshape(-1, 3)
            reference = images[((images >= -reach) & (images <= 1 + reach)).all(1)] @ box
        if not len(reference):
            return np.zeros(len(x), bool)
        return chosen | (KDTree(reference).query(x, distance_upper_bound=cutoff + 1e-9)[0] <= cutoff)
