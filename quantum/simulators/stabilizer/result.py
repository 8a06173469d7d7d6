"""Stabilizer states and what can be asked of them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.random import key

from ... import states
from ...errors import SimulatorError
from ...noise.channel import pauli_strings
from ...shots.sampling import Samples, check_seed
from ..result import Result
from . import tableau_kernels as kernels

__all__ = ["StabilizerResult", "zero_tableau"]

_MOST_QUBITS = 24  # whose amplitudes are written out


def zero_tableau(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, z [n, 2S] and signs [2S] of |0...0>: stabilizers Z, destabilizers X."""
    words = -(-n // 64)
    x, z = np.zeros((n, 2 * words), np.uint64), np.zeros((n, 2 * words), np.uint64)
    q = np.arange(n)
    z[q, q // 64] = x[q, words + q // 64] = np.uint64(1) << (q % 64).astype(np.uint64)
    return x, z, np.zeros(2 * words, np.uint64)


class StabilizerResult(Result):
    """A stabilizer state of any number of qubits, as a uint64 tableau: x, z (n, 2S) and signs (2S,), as in `kernels`.
    `shots` and `seed` are defaults of `sample`.
    """

    def __init__(
        self, x: np.ndarray, z: np.ndarray, signs: np.ndarray, shots: int | None = None, seed: int | None = None
    ):
        self._x, self._z, self._signs, self.num_qubits = x, z, signs, len(x)
        self.shots, self.seed = shots, seed

    def tableau(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A copy of x, z and signs."""
        return self._x.copy(), self._z.copy(), self._signs.copy()

    @functools.cached_property
    def _rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Stabilizers in reduced echelon form: x, z (n, n) and signs (n,) uint8, and how many have an x part; these
        come first.
        """
        n = self.num_qubits
        x, z = (_packed(_unpacked(bits, n).T) for bits in (self._x, self._z))
        signs = _unpacked(self._signs[None], n)[0]
        rank = kernels.reduce_rows(x, z, signs)
        return _unpacked(x, n), _unpacked(z, n), signs, rank

    def stabilizers(self) -> list[str]:
        """Generators of the state's stabilizer group as signed Pauli strings, qubit 0 rightmost, in reduced echelon
        form.

        Two states are equal exactly when these are.

        Examples
        --------
        >>> from triskele import quantum
        >>> quantum.run(quantum.Circuit(2).h(0).cx(0, 1), simulator="stabilizer").stabilizers()
        ['+XX', '+ZZ']
        """
        x, z, signs, _ = self._rows
        letters = np.array(["I", "X", "Z", "Y"])[x + 2 * z][:, ::-1]
        return ["+-"[s] + "".join(row) for s, row in zip(signs, letters, strict=True)]

    # -- measurement ------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _support(self) -> tuple[np.ndarray, np.ndarray]:
        """The basis states that occur, all equally likely: origin (n,) and directions (rank, n) uint8 that span
        them.
        """
        x, z, signs, rank = self._rows
        origin = np.zeros(self.num_qubits, np.uint8)
        if rank < self.num_qubits:
            # a row of Z alone fixes a parity: its pivot takes the sign
            origin[np.argmax(z[rank:], axis=1)] = signs[rank:]
        return origin, x[:rank]

    def _of(self, qubits: tuple[int, ...], shots: int, seed: int | None) -> Samples:
        chosen = list(qubits)
        origin, directions = self._support
        k = key(check_seed(seed, "sample"))
        packed = np.empty((shots, -(-len(chosen) // 64)), np.uint64)
        kernels.draw_affine(
            _packed(origin[None, chosen])[0], _tables(_packed(directions[:, chosen])), k[0], k[1], packed
        )
        if len(chosen) <= 63:
            return Samples(packed[:, 0].view(np.int64) if len(chosen) else np.zeros(shots, np.int64), len(chosen))
        return Samples(_unpacked(packed, len(chosen)))

    def probabilities(self, qubits: int | Sequence[int] | None = None) -> np.ndarray:
        chosen = states.check_qubits(qubits, self.num_qubits, "probabilities")
        self._few(len(chosen), "probabilities")
        origin, directions = self._support
        weights = np.int64(1) << np.arange(len(chosen), dtype=np.int64)
        points = np.array([origin[list(chosen)] @ weights], np.int64)
        for d in _independent((directions[:, list(chosen)] @ weights).tolist()):
            points = np.concatenate([points, points ^ d])
        p = np.zeros(1 << len(chosen))
        p[points] = 1.0 / len(points)
        return p

    def _in_basis(self, letters: dict[int, str], shots: int, seed: int | None) -> Samples:
        from ...circuit import Circuit
        from .tableau_program import lower, run

        change = Circuit(self.num_qubits)
        for q, letter in letters.items():
            if letter == "Y":
                change.sdg(q)
            if letter in "XY":
                change.h(q)
        x, z, signs = self.tableau()
        run(lower(change, {})[0], x, z, signs)
        return StabilizerResult(x, z, signs).sample(shots, seed)

    def _exact(self, h: Any) -> float:
        total = 0.0
        for x, z, c in zip(
            _unpacked(h.x, self.num_qubits), _unpacked(h.z, self.num_qubits), h.coefficients.real, strict=True
        ):
            total += c * kernels.value(self._x, self._z, self._signs, x, z)
        return float(total)

    # -- the state --------------------------------------------------------------------------------------------------

    @property
    def _state(self) -> np.ndarray:
        return self.statevector()

    def statevector(self) -> np.ndarray:
        """Return the amplitudes of at most 24 qubits, (2**n,) complex128, up to a global phase: a tableau has none."""
        self._few(self.num_qubits, "statevector")
        x, z, signs, rank = self._rows
        weights = np.int64(1) << np.arange(self.num_qubits, dtype=np.int64)
        j = np.arange(1 << self.num_qubits)
        psi = np.zeros(j.size, complex)
        psi[int(self._support[0] @ weights)] = 1.0
        # project on each
        for flip, mask, sign in zip(x[:rank] @ weights, z[:rank] @ weights, signs[:rank], strict=True):
            phase = 1j ** int(flip & mask).bit_count() * (1 - 2 * int(sign))
            psi = (
                psi + phase * ((1 - 2 * (np.bitwise_count(j & mask) & 1).astype(np.int8)) * psi)[j ^ flip]
            ) * np.sqrt(0.5)
        return psi

    def partial_trace(self, keep: int | Sequence[int]) -> np.ndarray:
        """Density matrix of some qubits: at most 5 of a state with more than 12."""
        chosen = states.check_qubits(keep, self.num_qubits, "partial_trace")
        if self.num_qubits <= 12:
            return super().partial_trace(chosen)
        self._few(len(chosen), "partial_trace", 5)
        k = len(chosen)
        total = np.zeros((1 << k, 1 << k), complex)  # sum of <P> P over all Pauli strings on these qubits
        for number, matrix in enumerate(pauli_strings(k)):
            x, z = np.zeros((2, self.num_qubits), np.uint8)
            x[list(chosen)] = [number >> 2 * q & 1 for q in range(k)]
            z[list(chosen)] = [number >> 2 * q + 1 & 1 for q in range(k)]
            total += kernels.value(self._x, self._z, self._signs, x, z) * matrix
        return total / (1 << k)

    def entropy(self, qubits: int | Sequence[int] | None = None, *, alpha: float = 1.0, base: float = 2.0) -> float:
        """Entropy of some qubits, exact for any number of them; of stabilizer states all Rényi entropies are the
        same.
        """
        chosen = list(states.check_qubits(qubits, self.num_qubits, "entropy"))
        states.check_order(alpha, base)
        if len(chosen) in (0, self.num_qubits):
            return 0.0
        # the rank of the generators cut to these qubits, less their number [Fattal et al., quant-ph/0406168]
        x, z, _, _ = self._rows
        rank = _rank(np.concatenate([x[:, chosen], z[:, chosen]], axis=1))
        return float((rank - len(chosen)) / np.log2(base))

    def fidelity(self, other: Any) -> float:
        """|<a|b>|**2 with another stabilizer state of any size, or as for other results where the amplitudes fit."""
        if not isinstance(other, StabilizerResult):
            return super().fidelity(other)
        n = self.num_qubits
        if other.num_qubits != n:
            raise SimulatorError(
                f"fidelity: states must have the same number of qubits, got {n} and {other.num_qubits}"
            )
        x, z, signs = self.tableau()
        value = 1.0
        for px, pz, sign in zip(*other._rows[:3], strict=True):
            outcome, is_open = kernels.project(x, z, signs, px, pz, sign)
            if outcome != sign:
                return 0.0
            value *= 0.5 if is_open else 1.0
        return value

    def _few(self, n: int, where: str, most: int = _MOST_QUBITS) -> None:
        if n > most:
            raise SimulatorError(
                f"{where}: at most {most} qubits can be written out, got {n} (sample, expectation, "
                f"stabilizers and entropy have no limit)"
            )


def _packed(bits: np.ndarray) -> np.ndarray:
    """(rows, n) of 0 and 1 to (rows, words) uint64, bit q of the words being column q."""
    rows, n = bits.shape
    padded = np.zeros((rows, -(-n // 64) * 64), np.uint8)
    padded[:, :n] = bits
    return np.packbits(padded, axis=1, bitorder="little").view("<u8").astype(np.uint64, copy=False)


def _unpacked(words: np.ndarray, n: int) -> np.ndarray:
    """The inverse of `_packed`: (rows, n) uint8; zeros where there are fewer words."""
    data = np.ascontiguousarray(words, "<u8").view(np.uint8)
    bits = np.unpackbits(data, axis=1, bitorder="little")[:, :n]
    return bits if bits.shape[1] == n else np.pad(bits, ((0, 0), (0, n - bits.shape[1])))


def _tables(directions: np.ndarray) -> np.ndarray:
    """Sums of all subsets of each 8 directions: (groups, 256, words)."""
    rank, words = directions.shape
    padded = np.zeros((-(-rank // 8) * 8, words), np.uint64)
    padded[:rank] = directions
    tables = np.zeros((len(padded) // 8, 1, words), np.uint64)
    for k in range(8):
        tables = np.concatenate([tables, tables ^ padded[k::8, None]], axis=1)
    return tables


def _independent(vectors: list[int]) -> list[int]:
    """A basis of the span of bit vectors."""
    basis: list[int] = []
    for v in vectors:
        for b in basis:
            v = min(v, v ^ b)
        if v:
            basis.append(v)
    return basis


def _rank(bits: np.ndarray) -> int:
    """Rank over F2 of (rows, columns) bits."""
    rows = [int.from_bytes(r.tobytes(), "little") for r in np.packbits(bits, axis=1, bitorder="little")]
    pivots: dict[int, int] = {}
    for v in rows:
        while v and (top := v.bit_length()) in pivots:
            v ^= pivots[top]
        if v:
            pivots[v.bit_length()] = v
    return len(pivots)
