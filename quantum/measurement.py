"""Expectation values from shots: groups of Pauli strings that one measurement serves, and rotations to their eigenbasis."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.random import fold_in, key
from triskele.quantum.sampling import Estimate, check_seed, check_shots, measured

__all__ = ["TO_Z", "estimate", "groups"]

_R = np.sqrt(0.5)
TO_Z = {  # what turns the eigenbasis of a letter into the computational one
    "X": np.array([[_R, _R], [_R, -_R]], complex),
    "Y": np.array([[_R, -1j * _R], [_R, 1j * _R]]),
}


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
