"""Sums of Pauli strings."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Complex
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import OperatorError
from . import bits
from .algebra import Algebra
from .text import format_coefficient, parse_string, parse_sum, string_of

__all__ = ["PauliSum"]

_ALL, _COMMUTING, _ANTICOMMUTING = -1, 0, 1  # which products of terms are wanted


class PauliSum(Algebra):
    """A sum of Pauli strings with complex coefficients: a Hamiltonian or any other operator on qubits.

    Sums are immutable: arithmetic returns new ones. Equal strings are merged and terms kept in one order (by `x`, then
    `z`, as numbers), so that two sums are equal exactly when their arrays are.

    Parameters
    ----------
    terms : str, mapping, iterable of pairs, number or PauliSum, optional
        `"0.5 Z0 Z1 - 1.2 X2"`, `{"Z0 Z1": 0.5}`, `[("Z0 Z1", 0.5)]`; the identity is the empty string (in a sum written
        as text, a number alone). Defaults to zero.

    Raises
    ------
    OperatorError
        If text cannot be read (the message has the position), or a coefficient is not a finite number.

    Examples
    --------
    >>> from triskele.quantum import PauliSum
    >>> h = PauliSum("0.5 Z0 Z1 - 1.2 X2")
    >>> h * h
    PauliSum('1.69 - 1.2 Z0 Z1 X2')
    >>> PauliSum("X0") * PauliSum("Y0")
    PauliSum('1j Z0')
    """

    __slots__ = ("__dict__", "coefficients", "x", "z")
    x: np.ndarray
    z: np.ndarray
    coefficients: np.ndarray

    def __init__(
        self, terms: str | Mapping[str, complex] | Iterable[tuple[str, complex]] | complex | PauliSum | None = None
    ):
        if isinstance(terms, PauliSum):
            self._set(terms.x, terms.z, terms.coefficients)
            return
        if terms is None:
            read: list[tuple[int, int, complex]] = []
        elif isinstance(terms, str):
            read = parse_sum(terms)
        elif isinstance(terms, Complex):
            read = [(0, 0, _number(terms))]
        else:
            given = (
                terms.items()
                if isinstance(terms, Mapping)
                else check.kind(
                    terms,
                    Iterable,
                    "PauliSum: terms",
                    "text, a mapping or pairs (string, coefficient)",
                    error=OperatorError,
                )
            )
            read = [_pair(pair) for pair in given]
        words = max(1, -(-max((x | z for x, z, _ in read), default=0).bit_length() // 64))
        blank = np.zeros((0, words), np.uint64)
        x = np.stack([bits.masks(x, words) for x, _, _ in read]) if read else blank
        z = np.stack([bits.masks(z, words) for _, z, _ in read]) if read else blank
        self._merge(x, z, np.array([c for _, _, c in read], complex))

    @classmethod
    def from_arrays(cls, x: np.ndarray, z: np.ndarray, coefficients: np.ndarray) -> PauliSum:
        """A sum from bit masks: term k is coefficients[k] * i**|x & z| X^x Z^z.

        Parameters
        ----------
        x, z : (terms,) or (terms, words) uint64 array
            Bit q % 64 of word q // 64 is qubit q. Both bits set is Y.
        coefficients : (terms,) array

        Raises
        ------
        OperatorError
            If shapes do not match, or a coefficient is not finite.
        """
        x, z = (np.atleast_2d(np.array(a, np.uint64).T).T for a in (x, z))
        coefficients = np.array(coefficients, complex)
        if x.ndim != 2 or x.shape != z.shape or coefficients.shape != x.shape[:1]:
            raise OperatorError(
                f"from_arrays: x and z must be (terms, words), coefficients (terms,), got {x.shape}, {z.shape}, "
                f"{coefficients.shape}"
            )
        new = cls.__new__(cls)
        new._merge(x, z, coefficients)
        return new

    def _merge(self, x: np.ndarray, z: np.ndarray, coefficients: np.ndarray) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # said below
            x, z, coefficients = bits.merge(x, z, coefficients + 0.0)  # + 0 makes -0 plain zero
        check.finite(coefficients, "PauliSum: coefficients", error=OperatorError)
        self._set(x, z, coefficients)

    def _set(self, x: np.ndarray, z: np.ndarray, coefficients: np.ndarray) -> None:
        for name, array in (("x", x), ("z", z), ("coefficients", coefficients)):
            array = np.ascontiguousarray(array)
            array.flags.writeable = False
            setattr(self, name, array)

    def with_coefficients(self, coefficients: np.ndarray) -> PauliSum:
        """The sum of the same strings in the same order with these coefficients (terms,), which are not checked."""
        new = PauliSum.__new__(PauliSum)
        new._set(self.x, self.z, np.asarray(coefficients, complex))
        return new

    # -- what is in it ----------------------------------------------------------------------------------------------

    @functools.cached_property
    def num_qubits(self) -> int:
        """The highest qubit that a term acts on, plus one."""
        used = np.bitwise_or.reduce(self.x | self.z, axis=0, initial=0)
        return int.from_bytes(used.astype("<u8").tobytes(), "little").bit_length()

    def __len__(self) -> int:
        return len(self.coefficients)

    def __iter__(self) -> Iterator[tuple[str, complex]]:
        for x, z, c in zip(self.x, self.z, self.coefficients.tolist(), strict=True):
            yield string_of(x, z), c

    def __getitem__(self, key: Any) -> Any:
        """The coefficient of a string (0 if it has none); the term of that number; the sum of terms of a slice, mask or
        index array.
        """
        if isinstance(key, str):
            x, z = parse_string(key)
            if max(x, z).bit_length() > 64 * self.x.shape[1]:
                return 0j
            words = self.x.shape[1]
            found = (self.x == bits.masks(x, words)).all(1) & (self.z == bits.masks(z, words)).all(1)
            return complex(self.coefficients[found].sum())
        if isinstance(key, (int, np.integer)):
            return string_of(self.x[key], self.z[key]), complex(self.coefficients[key])
        return PauliSum.from_arrays(self.x[key], self.z[key], self.coefficients[key])

    def __contains__(self, string: str) -> bool:
        return self[string] != 0

    @property
    def constant(self) -> complex:
        """The coefficient of the identity."""
        return self[""]

    @property
    def is_hermitian(self) -> bool:
        """True if all coefficients are real, up to 1e-12 of the largest."""
        c = self.coefficients
        return bool((abs(c.imag) <= 1e-12 * np.max(abs(c), initial=0.0)).all())

    @property
    def weights(self) -> np.ndarray:
        """Number of qubits each term acts on, (terms,) int."""
        return np.asarray(bits.count(self.x | self.z), int)

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> PauliSum:
        other = self._operand(other)
        if other is NotImplemented:
            return NotImplemented
        words = max(self.x.shape[1], other.x.shape[1])
        x, z = (
            np.concatenate([bits.pad(a, words), bits.pad(b, words)]) for a, b in ((self.x, other.x), (self.z, other.z))
        )
        return PauliSum.from_arrays(x, z, np.concatenate([self.coefficients, other.coefficients]))

    def __mul__(self, other: Any) -> PauliSum:
        if isinstance(other, Complex):
            with np.errstate(over="ignore", invalid="ignore"):  # `from_arrays` says what is not finite
                return PauliSum.from_arrays(self.x, self.z, self.coefficients * _number(other))
        if not isinstance(other, PauliSum):
            return NotImplemented
        return self._times(other, _ALL)

    def _times(self, other: PauliSum, which: int) -> PauliSum:
        words = max(self.x.shape[1], other.x.shape[1])
        left, right = self._padded(words), other._padded(words)
        if len(self) * len(other) > 4096:
            from .products import merged_products

            return PauliSum.from_arrays(*merged_products(*left, *right, which))
        x, z, c = bits.products(*(a[:, None] for a in left), *(a[None] for a in right))
        if which != _ALL:
            keep = bits.anticommute(left[0][:, None], left[1][:, None], right[0], right[1]) == (which == _ANTICOMMUTING)
            return PauliSum.from_arrays(x[keep], z[keep], c[keep])
        return PauliSum.from_arrays(x.reshape(-1, words), z.reshape(-1, words), c.reshape(-1))

    def _padded(self, words: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return bits.pad(self.x, words), bits.pad(self.z, words), self.coefficients

    def __pow__(self, exponent: int) -> PauliSum:
        check.integer(exponent, "PauliSum: an exponent", 0, error=OperatorError)
        return functools.reduce(lambda total, _: total * self, range(exponent), PauliSum(1))

    def __eq__(self, other: Any) -> bool:
        other = self._operand(other)
        if other is NotImplemented:
            return NotImplemented
        return (
            np.array_equal(self.x, other.x)
            and np.array_equal(self.z, other.z)
            and np.array_equal(self.coefficients, other.coefficients)
        )

    def isclose(self, other: Any, tol: float = 1e-12) -> bool:
        """Return True if no coefficient differs by more than `tol`."""
        return bool((abs((self - other).coefficients) <= tol).all())

    def adjoint(self) -> PauliSum:
        """The Hermitian conjugate."""
        return PauliSum.from_arrays(self.x, self.z, self.coefficients.conj())

    def simplify(self, tol: float = 1e-12) -> PauliSum:
        """Return the sum without terms whose coefficient is at most `tol` in magnitude; real and imaginary parts are
        dropped likewise.
        """
        c = np.where(abs(self.coefficients.real) > tol, self.coefficients.real, 0) + 1j * np.where(
            abs(self.coefficients.imag) > tol, self.coefficients.imag, 0
        )
        return PauliSum.from_arrays(self.x, self.z, c)

    def commutator(self, other: PauliSum) -> PauliSum:
        """`self other - other self`, exactly zero where they commute: only pairs of terms that do not are
        multiplied.
        """
        return self._times(check.kind(other, PauliSum, "commutator: other", error=OperatorError), _ANTICOMMUTING) * 2

    def anticommutator(self, other: PauliSum) -> PauliSum:
        """`self other + other self`."""
        return self._times(check.kind(other, PauliSum, "anticommutator: other", error=OperatorError), _COMMUTING) * 2

    def commutes_with(self, other: PauliSum, tol: float = 1e-12) -> bool:
        """Return True if no coefficient of the commutator exceeds `tol`."""
        return self.commutator(other).isclose(0, tol)

    def groups(self, qubit_wise: bool = True) -> list[PauliSum]:
        """The sum in parts whose terms can be measured together.

        Each term, the largest first, goes into the first part whose terms all commute with it [1]_.

        Parameters
        ----------
        qubit_wise : bool
            Terms must agree on each qubit that both act on, so that single-qubit rotations before a measurement
            suffice; otherwise they only have to commute, which gives fewer parts.

        References
        ----------
        .. [1] O. Crawford et al., Efficient quantum measurement of Pauli operators in the presence of finite sampling
           error, Quantum 5, 385 (2021), "sorted insertion". doi:10.22331/q-2021-01-20-385

        Examples
        --------
        >>> from triskele.quantum import PauliSum
        >>> PauliSum("X0 X1 + Z0 Z1 + 2 Z0").groups()
        [PauliSum('2 Z0 + Z0 Z1'), PauliSum('X0 X1')]
        """
        from .grouping import groups

        return [self[np.sort(g)] for g in groups(self, qubit_wise)]

    # -- qubits -----------------------------------------------------------------------------------------------------

    def remap(self, qubits: Sequence[int]) -> PauliSum:
        """The sum with qubit k renamed `qubits[k]`.

        Raises
        ------
        OperatorError
            If there are fewer than `num_qubits` names, or two are equal.
        """
        names = list(qubits)
        if (
            len(names) < self.num_qubits
            or len(set(names)) != len(names)
            or any(not isinstance(q, (int, np.integer)) or q < 0 for q in names)
        ):
            raise OperatorError(f"remap: {self.num_qubits} different qubits are needed, got {names}")
        words = max(names, default=0) // 64 + 1
        out = np.zeros((2, len(self), words), np.uint64)
        for old, new in enumerate(names[: self.num_qubits]):
            for target, source in zip(out, (self.x, self.z), strict=True):
                target[:, new // 64] |= (source[:, old // 64] >> np.uint64(old % 64) & np.uint64(1)) << np.uint64(
                    new % 64
                )
        return PauliSum.from_arrays(out[0], out[1], self.coefficients)

    def tensor(self, other: PauliSum, num_qubits: int | None = None) -> PauliSum:
        """This sum on its qubits times `other` on the next ones, which begin at `num_qubits` (own number when left
        out).
        """
        n = self.num_qubits if num_qubits is None else num_qubits
        if n < self.num_qubits:
            raise OperatorError(f"tensor: this sum acts on {self.num_qubits} qubits, got num_qubits={n}")
        other = check.kind(other, PauliSum, "tensor: other", error=OperatorError)
        return self * other.remap(range(n, n + other.num_qubits))

    def project(self, bits_of: Mapping[int, int]) -> PauliSum:
        """The operator on the other qubits when some are in basis states: their matrix element <b|H|b>.

        Numbers of qubits stay.

        Parameters
        ----------
        bits_of : mapping of int to 0 or 1
            Bit of each fixed qubit.

        Examples
        --------
        >>> from triskele.quantum import PauliSum
        >>> PauliSum("Z0 Z1 + X0 + X1").project({1: 1})
        PauliSum('-Z0 + X0')
        """
        words, fixed, ones = self.x.shape[1], 0, 0
        for q, bit in bits_of.items():
            if not isinstance(q, (int, np.integer)) or q < 0 or bit not in (0, 1):
                raise OperatorError(
                    f"project: qubits of at least 0 with bits 0 or 1 are needed, got {{{q!r}: {bit!r}}}"
                )
            fixed, ones = fixed | 1 << int(q), ones | int(bit) << int(q)
        every = (1 << 64 * words) - 1
        fixed_mask, ones_mask = bits.masks(fixed & every, words), bits.masks(ones & every, words)
        keep = ~(self.x & fixed_mask).any(1)
        sign = 1.0 - 2.0 * (bits.count(self.z[keep] & ones_mask) & 1)
        return PauliSum.from_arrays(self.x[keep], self.z[keep] & ~fixed_mask, self.coefficients[keep] * sign)

    # -- matrices and states ----------------------------------------------------------------------------------------

    def matrix(self, num_qubits: int | None = None) -> Any:
        """The operator as a scipy CSR matrix of complex128, (2**n, 2**n), of `num_qubits` qubits (as many as it acts on
        when left out).

        Entries that are zero but for rounding are left out.

        Raises
        ------
        OperatorError
            If a term acts on a qubit out of range, or there are more than 30 qubits.
        """
        from .sparse import matrix

        return matrix(self, num_qubits)

    def block(self, states: np.ndarray) -> Any:
        """The matrix between some basis states, given as rising integers (k,): a scipy CSR matrix of complex128, (k,
        k).
        """
        from .sparse import block

        return block(self, states)

    def __matmul__(self, state: np.ndarray) -> np.ndarray:
        """H psi of a state (2**n,), complex128."""
        from .sparse import apply

        return apply(self, state)

    def expectation(self, state: np.ndarray) -> float | complex:
        """<psi|H|psi> of a state (2**n,) as it stands; a float when the sum is Hermitian."""
        value = np.vdot(state, self @ state)
        return float(value.real) if self.is_hermitian else complex(value)

    def eigenstates(self, k: int = 1, num_qubits: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The k lowest eigenvalues (k,) in rising order, and states (2**n, k): exact diagonalization, by Lanczos for
        large n.

        Raises
        ------
        OperatorError
            If the sum is not Hermitian, k out of range, or there are more than 30 qubits.
        """
        from .sparse import lowest

        return lowest(self, k, num_qubits)

    def ground_state(self, num_qubits: int | None = None) -> tuple[float, np.ndarray]:
        """The lowest eigenvalue and its state (2**n,).

        Examples
        --------
        >>> from triskele.quantum import PauliSum
        >>> energy, state = PauliSum("Z0 Z1 + 0.5 X0 + 0.5 X1").ground_state()
        >>> round(energy, 6)  # -sqrt(2)
        -1.414214
        """
        values, states = self.eigenstates(1, num_qubits)
        return float(values[0]), states[:, 0]

    # -- other programs ---------------------------------------------------------------------------------------------

    @classmethod
    def from_openfermion(cls, operator: Any) -> PauliSum:
        """Convert an `openfermion.QubitOperator`."""
        from .exchange import from_openfermion

        return cls(from_openfermion(operator))

    def to_openfermion(self) -> Any:
        """An `openfermion.QubitOperator` (extra `chem`)."""
        from .exchange import to_openfermion

        return to_openfermion(self)

    @classmethod
    def from_qiskit(cls, operator: Any) -> PauliSum:
        """Convert a `qiskit.quantum_info.SparsePauliOp`; qubits keep their numbers."""
        from .exchange import from_qiskit

        return cls.from_arrays(*from_qiskit(operator))

    def to_qiskit(self, num_qubits: int | None = None) -> Any:
        """A `qiskit.quantum_info.SparsePauliOp` (extra `quantum`) on `num_qubits` qubits."""
        from .exchange import to_qiskit

        return to_qiskit(self, max(1, self.num_qubits) if num_qubits is None else num_qubits)

    # -- text -------------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        text = ""
        for string, c in self:
            unit = string and abs(c.real) == 1 and c.imag == 0
            size = (
                (("-" if not text else " - ") if c.real < 0 else "" if not text else " + ")
                if unit
                else format_coefficient(c, not text)
            )
            text += size + (string if unit else " " + string if string else "")
        return text or "0"

    def __repr__(self) -> str:
        if len(self) > 12:
            return f"PauliSum({len(self)} terms on {self.num_qubits} qubits: {str(self[:3])} ...)"
        return f"PauliSum({str(self)!r})"


def _number(value: Any) -> complex:
    try:
        return complex(value)
    except OverflowError:
        return complex(np.inf)
    except (TypeError, ValueError):
        raise OperatorError(f"PauliSum: a coefficient must be a number, got {value!r}") from None


def _pair(pair: Any) -> tuple[int, int, complex]:
    try:
        string, coefficient = pair
    except (TypeError, ValueError):
        string = coefficient = None
    if not isinstance(string, str):
        raise OperatorError(f"PauliSum: a term must be a pair such as ('Z0 Z1', 0.5), got {pair!r}")
    return *parse_string(string), _number(coefficient)
