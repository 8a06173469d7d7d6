"""Expectation values from shots: groups of Pauli strings that one measurement serves, and rotations to their
eigenbasis.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import kernel, simd
from triskele.core.random import fold_in, key

from ..operators.sparse import walsh
from .sampling import Estimate, check_seed, check_shots, measured

__all__ = ["estimate", "exact", "groups", "to_z_basis"]


def estimate(h: Any, shots: int, seed: int | None, samples: Any) -> Estimate:
    """Return the expectation value of a Hermitian sum from `shots` measurements of each group of strings that agree
    qubit by qubit. Groups are measured independently, so that their errors add in squares.

    `samples(letters by qubit, shots, seed)` returns `Samples` of all qubits, each measured in the basis of its letter.
    """
    shots, seed = check_shots(shots, "expectation"), check_seed(seed, "expectation")
    value, variance = h.constant.real, 0.0
    for number, (letters, group) in enumerate(groups(h)):
        words = fold_in(key(seed), number)
        part = measured(samples(letters, shots, int(words[0]) | int(words[1]) << 32), group)
        value, variance = value + part.value, variance + part.error**2
    return Estimate(float(value), float(np.sqrt(variance)))


def groups(h: Any) -> list[tuple[dict[int, str], list[tuple[list[int], float]]]]:
    """Return groups of strings that agree on every qubit they share (`PauliSum.groups`), without the identity: for
    each, the letters by qubit, and a list of (qubits, coefficient).
    """
    found = []
    for part in h.groups():
        letters: dict[int, str] = {}
        members = []
        for text, c in part:
            own = {int(s[1:]): s[0] for s in text.split()}
            if own:
                letters.update(own)
                members.append((list(own), c.real))
        if members:
            found.append((letters, members))
    return found


def to_z_basis(vector: np.ndarray, letters: dict[int, str], first: int = 0, conjugate: bool = False) -> np.ndarray:
    """A copy in which the eigenbasis of each qubit's letter is the computational one; `first` is qubit 0's bit of the
    index.

    A density matrix (N * N,) has its columns in the low bits, which take the conjugate.
    """
    bits = np.array([first + q for q, p in letters.items() if p in "XY"], np.int64)
    phases = np.array(
        [1.0 if p == "X" else 1j if conjugate else -1j for p in letters.values() if p in "XY"], vector.dtype
    )
    out = vector.copy()
    _rotate(out, bits, phases * vector.dtype.type(np.sqrt(0.5)), out.dtype.type(np.sqrt(0.5)))
    return out


@kernel(nogil=True)
def _rotate(psi, bits, phases, root):  # on each bit [[1, phase], [1, -phase]] / sqrt 2; `phases` hold the root
    for k in range(bits.size):
        step, phase = 1 << bits[k], phases[k]
        for start in range(0, psi.size, 2 * step):
            for j in range(start, start + step):
                a, b = root * psi[j], phase * psi[j + step]
                psi[j], psi[j + step] = a + b, a - b


def exact(psi: np.ndarray, h: Any) -> float:
    """Expectation value of a Hermitian sum in a state vector (N,).

    With P = i**|x&z| X^x Z^z it is the sum over j of i**|x&z| (-1)**|j&z| conj(psi[j ^ x]) psi[j].
    """
    x, z = h.x[:, 0].astype(np.int64), h.z[:, 0].astype(np.int64)
    return _exact(
        psi,
        x,
        z,
        np.bitwise_count(x & z).astype(np.int64) & 3,
        h.coefficients.real.copy(),
        np.empty(min(psi.size, 4096), np.complex128),
    )


@kernel(nogil=True)
def _exact(psi, x, z, power, coefficients, products):  # terms sorted by x; products is scratch, a power of 2
    total, block = 0.0, products.size
    first = 0
    while first < x.size:
        end, flip = first + 1, x[first]
        while end < x.size and x[end] == flip:
            end += 1
        many = end - first > 6
        for base in range(0, psi.size, block):
            for j in range(block):
                products[j] = np.conj(psi[(base + j) ^ flip]) * psi[base + j]
            if many:
                walsh(products)  # the sums with the signs of all z at once
            for t in range(first, end):
                value = products[z[t] & (block - 1)]
                if not many:
                    value = 0.0j
                    for j in range(block):
                        value += (1.0 - 2.0 * simd.parity(j & z[t])) * products[j]
                p = power[t]
                part = value.real if p == 0 else -value.imag if p == 1 else -value.real if p == 2 else value.imag
                total += coefficients[t] * (1.0 - 2.0 * simd.parity(base & z[t])) * part
        first = end
    return total
