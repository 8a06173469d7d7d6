"""Samples of measurement outcomes: drawn from probabilities by a compiled kernel, and their statistics."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import check, device, kernel, philox, simd
from triskele.core.random import Fold, fold_in, uniform
from triskele.core.random import key as make_key

from ..compile.readings import Reading
from ..errors import OperatorError, SimulatorError, StateError
from ..states import TOLERANCE

__all__ = ["Estimate", "Samples", "read_samples", "sample"]

_FIRST = 1 << 62  # word of the stream of a seed: far from those that core.random draws from the same seed


class Estimate(NamedTuple):
    """A mean of measured values, and its standard error."""

    value: float
    error: float

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        if not 0 < self.error < np.inf:
            return f"{self.value:.6g} ± {self.error:.2g}"
        decimals = max(0, 1 - math.floor(math.log10(self.error)))  # two digits of the error
        return f"{self.value:.{decimals}f} ± {self.error:.{decimals}f}"


class Samples:
    """Outcomes of repeated measurements.

    Parameters
    ----------
    array : (shots, num_bits) array of 0 and 1, or (shots,) array of indices
        Bit k of an index, and column k, is bit k.
    num_bits : int, optional
        Needed with indices.

    Examples
    --------
    >>> samples = Samples(np.array([0, 3, 3, 1]), 2)
    >>> samples.counts()
    {'00': 1, '01': 1, '11': 2}
    >>> samples.expectation("Z0 Z1").value
    0.5
    """

    def __init__(self, array: np.ndarray, num_bits: int | None = None):
        if array.ndim == 2:
            self.num_bits = array.shape[1]
            self._array: Any = array.astype(np.uint8, copy=False)
            self._indices: Any = None
        else:
            if num_bits is None:
                raise SimulatorError("Samples: indices need num_bits, the number of bits of each")
            self.num_bits = operator.index(num_bits)
            self._array, self._indices = None, array

    @property
    def array(self) -> np.ndarray:
        """(shots, num_bits) uint8: column k is bit k."""
        if self._array is None:
            bits = np.arange(self.num_bits, dtype=self._indices.dtype)
            self._array = ((self._indices[:, None] >> bits) & 1).astype(np.uint8)
        return self._array

    @property
    def indices(self) -> np.ndarray:
        """(shots,) int64: the outcomes as numbers, bit 0 least significant.

        Raises
        ------
        SimulatorError
            If there are more than 63 bits (use `array`).
        """
        if self._indices is None:
            if self.num_bits > 63:
                raise SimulatorError(f"Samples.indices: at most 63 bits fit an index, got {self.num_bits} (use .array)")
            self._indices = self.array @ (np.int64(1) << np.arange(self.num_bits, dtype=np.int64))
        return self._indices

    def bit(self, k: int) -> np.ndarray:
        """(shots,) uint8: bit k."""
        return self._array[:, k] if self._indices is None else (self._indices >> k & 1).astype(np.uint8)

    def __len__(self) -> int:
        return len(self._array if self._indices is None else self._indices)

    def __repr__(self) -> str:
        return f"Samples({len(self)} shots, {self.num_bits} bits)"

    def counts(self) -> dict[str, int]:
        """Return the count of each outcome, by bit string with bit 0 rightmost, in ascending order."""
        if self.num_bits > 63:
            rows = np.packbits(self.array[:, ::-1], axis=1)  # most significant first, so that bytes sort as numbers do
            values, numbers = np.unique(rows.view(f"V{rows.shape[1]}").ravel(), return_counts=True)
            bits = np.unpackbits(values.view(np.uint8).reshape(len(values), -1), axis=1, count=self.num_bits)
        else:
            values, numbers = self.tally()
            bits = np.unpackbits(values.astype(">i8").view(np.uint8).reshape(-1, 8), axis=1)[:, 64 - self.num_bits :]
        if not self.num_bits:
            return {"": len(self)}
        text, n = (bits + np.uint8(ord("0"))).tobytes().decode("ascii"), self.num_bits
        return {text[k * n : (k + 1) * n]: c for k, c in enumerate(numbers.tolist())}

    def tally(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices that occurred, ascending, and their counts; for at most 63 bits."""
        indices = self.indices
        if self.num_bits <= 20:  # counting is faster than sorting
            numbers = np.bincount(indices, minlength=1)
            values = np.flatnonzero(numbers)
            return values, numbers[values]
        return np.unique(indices, return_counts=True)

    def frequencies(self) -> dict[str, float]:
        """Counts divided by the number of shots."""
        return {bits: count / len(self) for bits, count in self.counts().items()}

    def expectation(self, observable: Any) -> Estimate:
        """Mean and standard error of a sum of products of Z, where qubits stand for bits.

        Parameters
        ----------
        observable : PauliSum or str
            Observable with letters Z only.

        Raises
        ------
        OperatorError
            If it has an X or Y, or a qubit that was not measured.
        """
        group = []
        for text, c in check_observable(observable, self.num_bits, "Samples.expectation"):
            if bad := [s for s in text.split() if s[0] != "Z"]:
                raise OperatorError(
                    f"Samples.expectation: samples give products of Z only, got {bad[0]} in {text!r} "
                    f"(use Result.expectation)"
                )
            group.append(([int(s[1:]) for s in text.split()], c.real))
        return measured(self, group)


def read_samples(samples: Samples, readings: Sequence[Reading], bits: np.ndarray, seed: int) -> np.ndarray:
    """Write measured qubits, which may be read wrongly, into classical bits (shots, bits)."""
    for number, reading in enumerate(readings):
        read = samples.bit(reading.qubit)
        if reading.matrix is not None:
            u = uniform(fold_in(make_key(seed), Fold.READINGS + number), (len(samples),))
            read = (u < reading.matrix[1, read]).astype(np.uint8)
        bits[:, reading.clbit] = read
    return bits


def as_pauli_sum(observable: Any) -> Any:
    """Return a `PauliSum`, converting a string."""
    from ..operators.pauli import PauliSum

    return observable if isinstance(observable, PauliSum) else PauliSum(observable)


def check_observable(h: Any, num_qubits: int, where: str) -> Any:
    """Return the observable as a `PauliSum`, checked to be Hermitian and to act on this many qubits."""
    h = as_pauli_sum(h)
    if not h.is_hermitian:
        worst = max(h, key=lambda term: abs(term[1].imag))
        raise OperatorError(f"{where}: the observable must be Hermitian, got coefficient {worst[1]} of {worst[0]!r}")
    if h.num_qubits > num_qubits:
        raise OperatorError(
            f"{where}: the observable must act on qubits 0 to {num_qubits - 1}, got one on qubit {h.num_qubits - 1}"
        )
    return h


def measured(samples: Samples, group: list[tuple[list[int], float]]) -> Estimate:
    """The sum over strings (qubits, coefficient) of the products of their outcomes ±1, averaged."""
    if samples.num_bits <= 63:
        indices, counts = samples.tally()
        total = np.zeros(len(indices))
        for qubits, c in group:
            mask = sum(1 << q for q in qubits)
            total += c * (1.0 - 2.0 * (np.bitwise_count(indices & np.int64(mask)) & 1))
    else:
        total, counts = np.zeros(len(samples)), np.ones(len(samples), int)
        for qubits, c in group:
            total += c * (1.0 - 2.0 * (samples.array[:, qubits].sum(1, dtype=np.int64) & 1))
    shots = int(counts.sum())
    average = float(total @ counts) / shots
    squares = float(((total - average) ** 2) @ counts) / shots
    return Estimate(average, float(np.sqrt(squares / (shots - 1))) if shots > 1 else float("nan"))


def check_shots(shots: Any, where: str) -> int:
    """Return the number of shots, checked to be given and positive."""
    if shots is None:
        raise SimulatorError(f"{where}: the number of shots must be given, here or in run(..., shots=1000)")
    return check.integer(shots, f"{where}: shots", 1, error=SimulatorError)


def check_seed(seed: Any, where: str) -> int:
    """Return the seed, checked, or a new one from the operating system for None."""
    if seed is None:
        return int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
    return check.integer(seed, f"{where}: the seed", 0, error=SimulatorError)


def sample(weights: np.ndarray, shots: int, seed: int | None = None) -> np.ndarray:
    """Draw independent indices, (shots,) int64, by weights (N,): probabilities if real, amplitudes if complex.

    Weights are divided by their sum, or that of their squares, which must be 1 to 1e-5 (float32: 1e-3). The same seed
    draws the same indices.
    """
    shots = check_shots(shots, "sample")
    words = philox.bits(make_key(check_seed(seed, "sample")), _FIRST, 2 * shots).view(np.uint64)
    if weights.dtype.char not in "fdFD":
        weights = weights.astype(complex if np.iscomplexobj(weights) else float)
    if weights.size % 8:
        weights = np.append(weights, np.zeros(-weights.size % 8, weights.dtype))
    weights = np.ascontiguousarray(weights)
    step = 2 if np.iscomplexobj(weights) else 1
    values, blocks = weights.view(weights.real.dtype), weights.size // 8
    sums, threshold, alias, waiting = (
        np.empty(blocks),
        np.empty(blocks),
        np.empty(blocks, np.int32),
        np.empty(blocks, np.int32),
    )
    total = _tables(values, step, sums, threshold, alias, waiting)
    if not abs(total - 1.0) < TOLERANCE[values.dtype.char]:
        raise StateError(f"sample: probabilities must be at least 0 and sum to 1, got a sum of {total:.6g}")
    out = np.empty(shots, np.int64)
    _draw(values, step, sums, threshold, alias, words, out)
    return out


@device
def _cumulative(values, step, b):
    """Cumulative sums inside block b of 8 outcomes; `values` are probabilities, or real and imaginary parts (step
    2).
    """
    if step == 1:
        p = simd.convert(simd.load(values, 8 * b, 8), np.float64)
    else:
        v = simd.convert(simd.load(values, 16 * b, 16), np.float64)
        v = v * v
        p = simd.shuffle(v, (0, 2, 4, 6, 8, 10, 12, 14)) + simd.shuffle(v, (1, 3, 5, 7, 9, 11, 13, 15))
    zero = simd.splat(0.0, 8)
    p = p + simd.shuffle2(zero, p, (0, 8, 9, 10, 11, 12, 13, 14))
    p = p + simd.shuffle2(zero, p, (0, 0, 8, 9, 10, 11, 12, 13))
    return p + simd.shuffle2(zero, p, (0, 0, 0, 0, 8, 9, 10, 11))


@kernel(nogil=True)
def _tables(values, step, sums, threshold, alias, waiting):
    """Fill the sums of blocks of 8 outcomes, and Vose's alias table over the blocks (IEEE Trans. Software Eng. 17
    (1991) 972, doi:10.1109/32.92917); return the total, NaN if a probability is negative. `waiting` is scratch; all are
    (N / 8,).
    """
    total = 0.0
    for b in range(sums.size):
        sums[b] = simd.extract(_cumulative(values, step, b), 7)
        total += sums[b]
    if step == 1:
        for k in range(values.size):
            total = total if values[k] >= 0.0 else np.nan
    small, large = 0, sums.size  # `waiting` holds the blocks below the mean from the left, the others from the right
    scale = sums.size / total
    for b in range(sums.size):
        threshold[b], alias[b] = sums[b] * scale, b
        if threshold[b] < 1.0:
            waiting[small] = b
            small += 1
        else:
            large -= 1
            waiting[large] = b
    while small > 0 and large < sums.size:
        low, high = waiting[small - 1], waiting[large]
        alias[low] = high
        threshold[high] -= 1.0 - threshold[low]
        small -= 1
        if threshold[high] < 1.0:
            large += 1
            waiting[small] = high
            small += 1
    for k in range(small):  # what rounding leaves, on either side, is 1
        threshold[waiting[k]] = 1.0
    for k in range(large, sums.size):
        threshold[waiting[k]] = 1.0
    return total


@kernel(nogil=True)
def _draw(values, step, sums, threshold, alias, words, out):
    # No branch depends on a random number: a mispredicted one costs more than all the rest.
    scale = sums.size * 2.0**-53
    zero, one = simd.splat(np.int64(0), 8), simd.splat(np.int64(1), 8)
    for i in range(out.size):
        u = np.float64(np.int64(words[i] >> np.uint64(11))) * scale
        b = np.int64(u)
        u -= b
        t = threshold[b]
        stays = np.int64(u < t)
        f = np.float64(stays)
        b += (1 - stays) * (np.int64(alias[b]) - b)
        u = (u - (1.0 - f) * t) / (1.0 - t + f * (2.0 * t - 1.0))  # uniform again, given the block
        u = min(u, 1.0 - 2.0**-52) * sums[b]
        below = _cumulative(values, step, b) <= simd.splat(u, 8)
        out[i] = 8 * b + simd.sum(simd.select(below, one, zero))
