"""Expectation values from shots: groups of Pauli strings that one measurement serves, and rotations to their eigenbasis."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.random import fold_in, key
from triskele.quantum.errors import OperatorError
from triskele.quantum.sampling import Estimate, Samples, as_pauli_sum, check_seed, check_shots

__all__ = ["estimate", "observable"]

_R = np.sqrt(0.5)
TO_Z = {  # what turns the eigenbasis of a letter into the computational one
    "X": np.array([[_R, _R], [_R, -_R]], complex),
    "Y": np.array([[_R, -1j * _R], [_R, 1j * _R]]),
}


def observable(h: Any, num_qubits: int, where: str) -> Any:
    """A `PauliSum` whose expectation value is a real number on this many qubits.

    Raises
    ------
    OperatorError
        If it is not Hermitian, or acts on a qubit that is not there.
    """
    h = as_pauli_sum(h)
    if not h.is_hermitian:
        worst = max(h, key=lambda term: abs(term[1].imag))
        raise OperatorError(f"{where}: the observable must be Hermitian, got coefficient {worst[1]} of {worst[0]!r}")
    if h.num_qubits > num_qubits:
        raise OperatorError(f"{where}: the observable must act on qubits 0 to {num_qubits - 1}, got one on qubit {h.num_qubits - 1}")
    return h


def estimate(h: Any, shots: int, seed: int | None, samples: Any) -> Estimate:
    """Expectation value of a Hermitian sum from `shots` measurements of each group of strings that agree qubit by qubit.

    Parameters
    ----------
    h : PauliSum
    shots : int
        For each group.
    seed : int, optional
    samples : callable
        Of (letters by qubit, shots, seed) to `Samples` of all qubits, each qubit measured in the basis of its letter.

    Returns
    -------
    Estimate
        Errors of groups add in squares: their measurements are independent.
    """
    shots, seed = check_shots(shots, "expectation"), check_seed(seed, "expectation")
    value, variance = h.constant.real, 0.0
    for number, (letters, group) in enumerate(groups(h)):
        words = fold_in(key(seed), number)
        part = measured(samples(letters, shots, int(words[0]) | int(words[1]) << 32), group)
        value, variance = value + part.value, variance + part.error**2
    return Estimate(float(value), float(np.sqrt(variance)))


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


def groups(h: Any) -> list[tuple[dict[int, str], list[tuple[list[int], float]]]]:
    """Strings sorted greedily, the largest coefficients first, into groups that agree on every qubit they share; no identity.

    Returns
    -------
    list of (letter by qubit, list of (qubits, coefficient))
    """
    found: list[tuple[dict[int, str], list[tuple[list[int], float]]]] = []
    for text, c in sorted(h, key=lambda term: -abs(term[1])):
        letters = {int(s[1:]): s[0] for s in text.split()}
        if not letters:
            continue
        for basis, members in found:
            if all(basis.get(q, p) == p for q, p in letters.items()):
                basis.update(letters)
                members.append((list(letters), c.real))
                break
        else:
            found.append((letters, [(list(letters), c.real)]))
    return found
