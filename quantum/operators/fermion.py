"""Sums of products of fermionic creation and annihilation operators."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from numbers import Complex
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import OperatorError
from .algebra import Algebra
from .mapping import Ladders, encode, encoding
from .pauli import PauliSum
from .text import format_coefficient, parse_number

__all__ = ["FermionOperator", "number_operator", "spin_squared", "spin_z"]

Term = tuple[tuple[int, bool], ...]


class FermionOperator(Algebra):
    """A sum of products of creation (`"2^"`) and annihilation (`"2"`) operators with complex coefficients.

    Products are kept as they are written; `normal_ordered` brings them into one form, in which equal operators are
    equal. Operators are immutable: arithmetic returns new ones.

    Parameters
    ----------
    terms : str, mapping, iterable of pairs, number or FermionOperator, optional
        One product `"2^ 0"`, a sum with products in brackets `"0.5 [2^ 0] - 1.2 [3^ 1^ 1 0] + 2 []"`, `{"2^ 0": 0.5}`,
        or `[("2^ 0", 0.5)]`; `""` is the identity. Defaults to zero.

    Raises
    ------
    OperatorError
        If text cannot be read, or a coefficient is not a finite number.

    Examples
    --------
    >>> from triskele.quantum import FermionOperator
    >>> hop = FermionOperator("1^ 0")
    >>> hop + hop.adjoint()
    FermionOperator('1 [1^ 0] + 1 [0^ 1]')
    >>> FermionOperator("0 0^").normal_ordered()
    FermionOperator('1 [] - 1 [0^ 0]')
    >>> FermionOperator("0^ 0").to_qubits("jordan_wigner")
    PauliSum('0.5 - 0.5 Z0')
    """

    __slots__ = ("terms",)
    terms: dict[Term, complex]

    def __init__(
        self,
        terms: str | Mapping[str, complex] | Iterable[tuple[str, complex]] | complex | FermionOperator | None = None,
    ):
        if isinstance(terms, FermionOperator):
            pairs: Iterable[tuple[Term, complex]] = terms.terms.items()
        elif terms is None:
            pairs = ()
        elif isinstance(terms, str):
            pairs = _parse(terms)
        elif isinstance(terms, Complex):
            pairs = [((), _number(terms))]
        else:
            given = (
                terms.items()
                if isinstance(terms, Mapping)
                else check.kind(
                    terms,
                    Iterable,
                    "FermionOperator: terms",
                    "text, a mapping or pairs (product, coefficient)",
                    error=OperatorError,
                )
            )
            pairs = [_pair(pair) for pair in given]
        self.terms = _sum(pairs)

    @classmethod
    def _of(cls, pairs: Iterable[tuple[Term, complex]]) -> FermionOperator:
        new = cls.__new__(cls)
        new.terms = _sum(pairs)
        return new

    @classmethod
    def from_integrals(
        cls, one_body: np.ndarray, two_body: np.ndarray, constant: float = 0.0, *, spin_orbitals: bool = False
    ) -> FermionOperator:
        """The Hamiltonian sum h_pq a_p^dagger a_q + 1/2 sum (pq|rs) a_p^dagger a_r^dagger a_s a_q + constant.

        Parameters
        ----------
        one_body : (n, n) array
            h_pq.
        two_body : (n, n, n, n) array
            (pq|rs) in chemists' notation: p and q belong to the first electron.
        constant : float
            Constant term, such as the nuclear repulsion.
        spin_orbitals : bool
            The arrays are over spin orbitals. Otherwise they are over spatial orbitals: orbital p is mode 2 p with spin
            up and mode 2 p + 1 with spin down.

        Raises
        ------
        OperatorError
            If the arrays have other shapes.
        """
        from .integrals import ladders

        pairs: list[tuple[Term, complex]] = [((), complex(constant))] if constant else []
        for modes, creates, coefficients in ladders(one_body, two_body, spin_orbitals):
            pattern = creates[0].tolist() if len(creates) else []
            pairs += [
                (tuple(zip(m, pattern, strict=True)), c)
                for m, c in zip(modes.tolist(), coefficients.tolist(), strict=True)
            ]
        return cls._of(pairs)

    # -- what is in it ----------------------------------------------------------------------------------------------

    @property
    def num_modes(self) -> int:
        """The highest mode that a term acts on, plus one."""
        return 1 + max((p for term in self.terms for p, _ in term), default=-1)

    def __len__(self) -> int:
        return len(self.terms)

    def __iter__(self) -> Iterator[tuple[str, complex]]:
        for term, c in self.terms.items():
            yield _text(term), c

    def __getitem__(self, product: str) -> complex:
        """The coefficient of a product as it is written; 0 if it has none."""
        return self.terms.get(_product(product), 0j)

    @property
    def is_hermitian(self) -> bool:
        """True if the operator is its own adjoint, up to 1e-12 of its largest coefficient."""
        scale = max((abs(c) for c in self.terms.values()), default=0.0)
        return all(abs(c) <= 1e-12 * scale for c in (self - self.adjoint()).normal_ordered().terms.values())

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> FermionOperator:
        other = self._operand(other)
        return (
            NotImplemented
            if other is NotImplemented
            else FermionOperator._of([*self.terms.items(), *other.terms.items()])
        )

    def __mul__(self, other: Any) -> FermionOperator:
        other = self._operand(other)
        if other is NotImplemented:
            return NotImplemented
        return FermionOperator._of((a + b, x * y) for a, x in self.terms.items() for b, y in other.terms.items())

    def __eq__(self, other: Any) -> bool:
        """Return True if the same products, as written, have the same coefficients."""
        other = self._operand(other)
        return NotImplemented if other is NotImplemented else self.terms == other.terms

    def adjoint(self) -> FermionOperator:
        """The Hermitian conjugate."""
        return FermionOperator._of(
            (tuple((p, not up) for p, up in reversed(t)), c.conjugate()) for t, c in self.terms.items()
        )

    def commutator(self, other: FermionOperator) -> FermionOperator:
        """`self other - other self`, normal ordered."""
        return (self * other - other * self).normal_ordered()

    def normal_ordered(self) -> FermionOperator:
        """The same operator with creation operators first and modes falling in both halves; vanishing products are
        dropped.
        """
        done: dict[Term, complex] = {}
        todo = list(self.terms.items())
        while todo:
            term, c = todo.pop()
            ordered, sign, contracted = _order(term)
            todo += [(t, c * s) for t, s in contracted]
            if ordered is not None:
                done[ordered] = done.get(ordered, 0j) + c * sign
        return FermionOperator._of(sorted(done.items(), key=lambda item: (len(item[0]), item[0])))

    # -- qubits and other programs ----------------------------------------------------------------------------------

    def ladders(self) -> list[Ladders]:
        """The terms as arrays, one entry for each length of product."""
        lengths: dict[int, list[tuple[Term, complex]]] = {}
        for term, c in self.terms.items():
            lengths.setdefault(len(term), []).append((term, c))
        out = []
        for length, items in lengths.items():
            array = np.array([t for t, _ in items], np.int64).reshape(len(items), length, 2)
            out.append(Ladders(array[..., 0], array[..., 1].astype(bool), np.array([c for _, c in items])))
        return out

    def to_qubits(self, mapping: str = "jordan_wigner", num_modes: int | None = None) -> PauliSum:
        """The operator on qubits.

        Parameters
        ----------
        mapping : str
            "jordan_wigner", "parity" or "bravyi_kitaev".
        num_modes : int, optional
            Number of modes, on which the last two mappings depend. Defaults to the number that the operator acts on.

        Raises
        ------
        OperatorError
            If the mapping is unknown, or a term acts on a mode out of range.
        """
        n = self.num_modes if num_modes is None else num_modes
        if n < self.num_modes:
            raise OperatorError(f"to_qubits: the operator acts on {self.num_modes} modes, got num_modes={n}")
        return encode(self.ladders(), encoding(mapping, max(n, 1)))

    @classmethod
    def from_openfermion(cls, operator: Any) -> FermionOperator:
        """Convert an `openfermion.FermionOperator`."""
        terms = getattr(operator, "terms", None)
        if not isinstance(terms, dict) or any(up not in (0, 1) for term in terms for _, up in term):
            raise OperatorError(f"from_openfermion: a FermionOperator is needed, got {type(operator).__name__}")
        return cls._of((tuple((int(p), bool(up)) for p, up in term), complex(c)) for term, c in terms.items())

    def to_openfermion(self) -> Any:
        """An `openfermion.FermionOperator` (extra `chem`)."""
        from triskele.core.extend import optional

        out = optional.need("openfermion", "to_openfermion", "chem").FermionOperator()
        out.terms.update({tuple((p, int(up)) for p, up in term): c for term, c in self.terms.items()})
        return out

    # -- text -------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        text = ""
        for term, c in self.terms.items():
            text += f"{format_coefficient(c, not text)} [{_text(term)}]"
        return text or "0"

    def __repr__(self) -> str:
        if len(self) > 12:
            return f"FermionOperator({len(self)} terms on {self.num_modes} modes)"
        return f"FermionOperator({str(self)!r})"


def number_operator(num_modes: int) -> FermionOperator:
    """The number of particles, sum a_p^dagger a_p."""
    return FermionOperator._of((((p, True), (p, False)), 1 + 0j) for p in range(num_modes))


def spin_z(num_modes: int) -> FermionOperator:
    """S_z = (number of alpha - number of beta) / 2; even modes are alpha, odd ones beta."""
    return FermionOperator._of((((p, True), (p, False)), 0.5 - (p % 2) + 0j) for p in range(num_modes))


def spin_squared(num_modes: int) -> FermionOperator:
    """S^2 = S_- S_+ + S_z (S_z + 1), with S_+ = sum a_(2p)^dagger a_(2p+1); S (S + 1) on states of total spin S."""
    if num_modes % 2:
        raise OperatorError(f"spin_squared: the number of modes must be even, got {num_modes}")
    raising = FermionOperator._of((((p, True), (p + 1, False)), 1 + 0j) for p in range(0, num_modes, 2))
    z = spin_z(num_modes)
    return raising.adjoint() * raising + z * (z + 1)


def _order(term: Term) -> tuple[Term | None, int, list[tuple[Term, int]]]:
    """Insertion sort of one product: itself ordered (None: it vanishes), its sign, and what each swap of a_p a_p^dagger
    leaves.
    """
    ops, sign, left = list(term), 1, []
    for i in range(1, len(ops)):
        j = i
        while j and (ops[j][1], ops[j][0]) > (ops[j - 1][1], ops[j - 1][0]):
            if ops[j][0] == ops[j - 1][0]:  # a a^dagger = 1 - a^dagger a
                left.append((tuple(ops[: j - 1] + ops[j + 1 :]), sign))
            ops[j - 1], ops[j], sign = ops[j], ops[j - 1], -sign
            j -= 1
        if j and ops[j] == ops[j - 1]:  # the product is zero, and so is all that further swaps would leave
            return None, sign, left
    return tuple(ops), sign, left


def _sum(pairs: Iterable[tuple[Term, complex]]) -> dict[Term, complex]:
    total: dict[Term, complex] = {}
    for term, c in pairs:
        total[term] = total.get(term, 0j) + c
    check.finite(np.fromiter(total.values(), complex, len(total)), "FermionOperator: coefficients", error=OperatorError)
    return {t: c for t, c in total.items() if c}


def _number(value: Any) -> complex:
    try:
        return complex(value)
    except (TypeError, ValueError):
        raise OperatorError(f"FermionOperator: a coefficient must be a number, got {value!r}") from None


def _pair(pair: Any) -> tuple[Term, complex]:
    try:
        product, coefficient = pair
    except (TypeError, ValueError):
        product = coefficient = None
    if not isinstance(product, str):
        raise OperatorError(f"FermionOperator: a term must be a pair such as ('2^ 0', 0.5), got {pair!r}")
    return _product(product), _number(coefficient)


_LADDER = re.compile(r"(\d{1,6})(\^?)")
_BRACKET = re.compile(r"\s*([+-]?)\s*([^\[\]+-]*(?:\([^()]*\))?[^\[\]]*?)\s*\*?\s*\[([^\[\]]*)\]")


def _text(term: Term) -> str:
    return " ".join(f"{p}^" if up else str(p) for p, up in term)


def _product(text: str) -> Term:
    found = []
    for word in text.split():
        match = _LADDER.fullmatch(word)
        if not match:
            raise OperatorError(
                f"FermionOperator: a product must be such as '2^ 0' (mode 2 created, 0 annihilated), "
                f"got {word!r} in {text!r}"
            )
        found.append((int(match[1]), bool(match[2])))
    return tuple(found)


def _parse(text: str) -> list[tuple[Term, complex]]:
    if "[" not in text and "]" not in text:
        return [(_product(text), 1 + 0j)]
    terms: list[tuple[Term, complex]] = []
    place = 0
    while place < len(text.rstrip()):
        match = _BRACKET.match(text, place)
        number = parse_number(match[2]) if match else None
        if match is None or number is None or (terms and not match[1]):
            raise OperatorError(
                f"FermionOperator: a term such as '+ 0.5 [2^ 0]' must stand here, got "
                f"{text[place : place + 16]!r} at position {place}"
            )
        terms.append((_product(match[3]), -number if match[1] == "-" else number))
        place = match.end()
    return terms
