"""Fermions on qubits: Jordan-Wigner, parity and Bravyi-Kitaev as linear encodings.

An encoding stores b = B n (mod 2) of the occupations n, B an invertible matrix of zeros and ones [1]_. Whatever B is,

    a_p = X^U Z^S (1 - Z^N) / 2,    a_p^dagger = X^U Z^S (1 + Z^N) / 2,

with U the stored bits that change with n_p (column p of B), N those whose sum is n_p (row p of B^-1), and S those whose
sum is n_0 + ... + n_(p-1) (the sum of the rows of B^-1 before p). The mappings differ in B alone.

References
----------
.. [1] J. T. Seeley, M. J. Richard, P. J. Love, The Bravyi-Kitaev transformation for quantum computation of electronic
   structure, J. Chem. Phys. 137, 224109 (2012). doi:10.1063/1.4768229
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from triskele.core.extend import check

from ..errors import OperatorError
from . import bits
from .pauli import PauliSum

__all__ = ["MAPPINGS", "Ladders", "encode", "encoding", "occupations", "reduced_parity"]

_MOST_STRINGS = 1 << 21  # made at a time


class Ladders(NamedTuple):
    """Products of as many creation and annihilation operators each, with coefficients."""

    modes: np.ndarray  # (terms, length) int
    creates: np.ndarray  # (terms, length) bool
    coefficients: np.ndarray  # (terms,) complex


def _identity(n: int) -> np.ndarray:
    return np.eye(n, dtype=np.uint8)


def _parity(n: int) -> np.ndarray:
    return np.tri(n, dtype=np.uint8)


def _fenwick(n: int) -> np.ndarray:
    """Bit i - 1 is the sum of occupations i - (lowest set bit of i) to i - 1: the tree of partial sums of Fenwick
    (1994).
    """
    b = np.zeros((n, n), np.uint8)
    for i in range(1, n + 1):
        b[i - 1, i - (i & -i) : i] = 1
    return b


#: Name of a mapping: matrix B for a number of modes.
MAPPINGS: dict[str, Callable[[int], np.ndarray]] = {
    "jordan_wigner": _identity,
    "parity": _parity,
    "bravyi_kitaev": _fenwick,
}


def encoding(mapping: str, num_modes: int) -> np.ndarray:
    """Return the matrix B (num_modes, num_modes) of a mapping, zeros and ones."""
    return MAPPINGS[check.choice(mapping, MAPPINGS, "mapping", error=OperatorError)](num_modes)


def occupations(occupied: Iterable[int], num_modes: int, mapping: str = "jordan_wigner") -> list[int]:
    """Qubits that are 1 in the state where these modes are occupied."""
    n = np.zeros(num_modes, np.uint8)
    n[list(occupied)] = 1
    return np.flatnonzero(encoding(mapping, num_modes) @ n % 2).tolist()


def encode(ladders: Iterable[Ladders], matrix: np.ndarray) -> PauliSum:
    """Return the Pauli sum of products of ladder operators, in the encoding by the matrix B (modes, modes)."""
    flip, parity, occupied = (bits.pack(rows) for rows in _sets(matrix))
    sums = []
    for modes, creates, coefficients in ladders:
        step = max(1, _MOST_STRINGS >> modes.shape[1])
        for k in range(0, len(modes), step):  # merged part by part, so that memory holds few repeats
            part = slice(k, k + step)
            sums.append(_encode(modes[part], creates[part], coefficients[part], flip, parity, occupied))
    if len(sums) < 2:
        return sums[0] if sums else PauliSum()
    words = max(s.x.shape[1] for s in sums)
    return PauliSum.from_arrays(
        np.concatenate([bits.pad(s.x, words) for s in sums]),
        np.concatenate([bits.pad(s.z, words) for s in sums]),
        np.concatenate([s.coefficients for s in sums]),
    )


def _encode(modes, creates, coefficients, flip, parity, occupied) -> PauliSum:
    terms, length = modes.shape
    x = np.zeros((terms, 1, flip.shape[1]), np.uint64)  # a product is 2**length strings c X^x Z^z, all of one x
    z, c = np.zeros_like(x), np.asarray(coefficients, complex)[:, None]
    for k in range(length):
        p = modes[:, k]
        x1, z1, n1 = flip[p][:, None], parity[p][:, None], occupied[p][:, None]
        c = 0.5 * c * (1.0 - 2.0 * (bits.count(z & x1) & 1))  # Z^z X^x = (-1)^|z & x| X^x Z^z
        z = z ^ z1
        c = np.concatenate([c, c * np.where(creates[:, k], 1.0, -1.0)[:, None]], 1)
        z = np.concatenate([z, z ^ n1], 1)
        x = x ^ x1
    x = np.broadcast_to(x, z.shape)
    c = c * np.array([1, -1j, -1, 1j])[bits.count(x & z) & 3]  # to strings with Y
    words = flip.shape[1]
    return PauliSum.from_arrays(x.reshape(-1, words), z.reshape(-1, words), c.reshape(-1))


def reduced_parity(ladders: Iterable[Ladders], num_modes: int, num_electrons: Sequence[int]) -> PauliSum:
    """Return the parity mapping on num_modes - 2 qubits: without those that hold the parities of alpha electrons and of
    all electrons, which the products conserve (Bravyi et al., arXiv:1701.08213 (2017)).

    `num_electrons` is (alpha, beta). Modes of even number are alpha; they come first in the encoding, so that their
    total parity is one of its bits.
    """
    alpha, beta = num_electrons
    if num_modes % 2 or num_modes < 4:
        raise OperatorError(f"reduced_parity: an even number of at least 4 modes is needed, got {num_modes}")
    order = [*range(0, num_modes, 2), *range(1, num_modes, 2)]
    # occupations in the order alpha, beta; signs still count modes in their own order, which B may reorder freely
    matrix = _parity(num_modes)[:, np.argsort(order)]
    full = encode(ladders, matrix)
    middle, last = num_modes // 2 - 1, num_modes - 1
    words = full.x.shape[1]
    if (full.x & bits.masks(((1 << middle) | (1 << last)) & ((1 << 64 * words) - 1), words)).any():
        raise OperatorError("reduced_parity: the operator must keep the parities of alpha and beta electrons")
    kept = full.project({middle: alpha % 2, last: (alpha + beta) % 2})
    return kept.remap(_without(middle, num_modes))


def _without(gone: int, n: int) -> list[int]:
    """New names of n qubits when `gone` is left out; it gets the last name, which nothing uses."""
    return [q - (q > gone) if q != gone else n - 1 for q in range(n)]


def _sets(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of flags by mode: bits that flip, bits whose sum is the occupation of the modes before, bits whose sum is
    its own.
    """
    inverse = _inverse(matrix)
    before = np.zeros_like(inverse)
    before[1:] = np.cumsum(inverse, 0)[:-1] % 2
    return matrix.T, before, inverse


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Gauss-Jordan elimination modulo 2."""
    n = len(matrix)
    work = np.concatenate([matrix % 2, np.eye(n, dtype=np.uint8)], 1).astype(np.uint8)
    for k in range(n):
        rows = k + np.flatnonzero(work[k:, k])
        if not len(rows):
            raise OperatorError("encoding: the matrix must be invertible modulo 2")
        work[[k, rows[0]]] = work[[rows[0], k]]
        others = np.flatnonzero(work[:, k])
        work[others[others != k]] ^= work[k]
    return work[:, n:]
