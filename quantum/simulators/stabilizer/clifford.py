"""The action of Clifford gates on Pauli strings, derived from their matrices."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from ...noise.channel import pauli_strings

__all__ = ["MOST_QUBITS", "Action", "action"]

MOST_QUBITS = 4  # of a gate that is recognized by its matrix
_EXACT = 1e-9


class Action(NamedTuple):
    """U P U^dagger for all Pauli strings P on k qubits, over the 2k bits (x of qubits 0 to k-1, then z of them)."""

    linear: tuple[int, ...]  # for each bit of the image, the mask of bits of P whose parity it is
    # monomials, each a mask of bits of P: the image is negative where an odd number of them has all its bits set
    # (the algebraic normal form of the sign of an image as a Hermitian string)
    signs: tuple[int, ...]

    @property
    def is_pauli(self) -> bool:
        """True if the gate only changes signs, as Pauli strings do."""
        return all(mask == 1 << k for k, mask in enumerate(self.linear))


def action(matrix: np.ndarray) -> Action | None:
    """Return the action of a unitary (2**k, 2**k), k from 1 to 4, or None if it maps a Pauli string to what is none.

    >>> action(np.array([[1, 1], [1, -1]]) / np.sqrt(2))  # H swaps X and Z, and Y changes sign
    Action(linear=(2, 1), signs=(3,))
    """
    return _action(np.ascontiguousarray(matrix, complex).tobytes(), len(matrix).bit_length() - 1)


@functools.lru_cache(4096)
def _action(data: bytes, k: int) -> Action | None:
    u = np.frombuffer(data, complex).reshape(1 << k, 1 << k)
    strings = pauli_strings(k)
    images = u @ strings @ u.conj().T
    overlaps = np.einsum("wij,vji->vw", strings, images, optimize=True).real / len(u)
    found = np.argmax(np.abs(overlaps), axis=1)
    signs = np.sign(overlaps[np.arange(len(found)), found])
    if np.abs(images - signs[:, None, None] * strings[found]).max() > _EXACT:
        return None
    digits = np.array([_bits(w, k) for w in range(4**k)])  # digit by qubit -> our order of bits
    place = np.empty(4**k, int)
    place[digits] = np.arange(4**k)
    image = digits[found[place]]  # by our numbering of P, the image in our numbering
    linear = tuple(sum(1 << b for b in range(2 * k) if image[1 << b] >> out & 1) for out in range(2 * k))
    table = (signs[place] < 0).astype(np.uint8)
    for b in range(2 * k):  # Möbius transform: from values to coefficients
        halves = table.reshape(-1, 2, 1 << b)
        halves[:, 1] ^= halves[:, 0]
    return Action(linear, tuple(int(m) for m in np.flatnonzero(table)))


def _bits(string: int, k: int) -> int:
    """From base-4 digits x + 2z by qubit to x of all qubits, then z of all."""
    digits = [string >> 2 * q & 3 for q in range(k)]
    return sum((d & 1) << q | (d >> 1) << (k + q) for q, d in enumerate(digits))
