"""Pauli strings as bit masks: word w of a row holds qubits 64 w to 64 w + 63.

A string is i**|x & z| X^x Z^z, so that a qubit with both bits set is Y; |.| counts ones.
"""

from __future__ import annotations

import numpy as np

__all__ = ["anticommute", "count", "masks", "merge", "order", "pack", "pad", "products", "unpack"]

_I_POWERS = np.array([1, 1j, -1, -1j])


def masks(qubits: int, words: int) -> np.ndarray:
    """A Python integer of bits as (words,) uint64."""
    return np.frombuffer(qubits.to_bytes(8 * words, "little"), "<u8").astype(np.uint64)


def pack(flags: np.ndarray) -> np.ndarray:
    """Rows of flags, one for each qubit, as rows of words."""
    packed = np.packbits(flags.astype(bool), axis=1, bitorder="little")
    return np.ascontiguousarray(np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8)))).view("<u8").astype(np.uint64)


def unpack(rows: np.ndarray, num_qubits: int) -> np.ndarray:
    """Rows of words as rows of flags, (rows, num_qubits) bool."""
    flags = np.unpackbits(np.ascontiguousarray(rows.astype("<u8")).view(np.uint8), axis=1, bitorder="little").astype(
        bool
    )
    return np.pad(flags, ((0, 0), (0, max(0, num_qubits - flags.shape[1]))))[:, :num_qubits]


def pad(bits: np.ndarray, words: int) -> np.ndarray:
    """The same rows with zero words added to make `words`."""
    return bits if bits.shape[1] == words else np.pad(bits, ((0, 0), (0, words - bits.shape[1])))


def count(bits: np.ndarray) -> np.ndarray:
    """Ones in each row of words (last axis)."""
    return np.bitwise_count(bits).sum(-1, dtype=np.int64) if bits.shape[-1] != 1 else np.bitwise_count(bits[..., 0])


def anticommute(x1: np.ndarray, z1: np.ndarray, x2: np.ndarray, z2: np.ndarray) -> np.ndarray:
    """Return True where strings anticommute; broadcasts over all but the last axis."""
    return (count(x1 & z2) + count(z1 & x2)) & 1 == 1


def products(x1, z1, c1, x2, z2, c2):
    """Row by row products of strings with coefficients (broadcast): x, z, coefficients."""
    x, z = x1 ^ x2, z1 ^ z2
    power = count(x1 & z1) + count(x2 & z2) + 2 * count(z1 & x2) - count(x & z)
    return x, z, c1 * c2 * _I_POWERS[power & 3]


def merge(x: np.ndarray, z: np.ndarray, coefficients: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Equal strings summed, zeros dropped, in order of x then z as numbers, without empty words at the top."""
    x, z, words = _trim(x, z)
    if len(x) > 1:
        if words == 1 and not ((x | z) >> np.uint64(32)).any():  # one key holds both
            permutation, first = order([(x[:, 0] << np.uint64(32)) | z[:, 0]])
        else:
            permutation, first = order([*x.T[::-1], *z.T[::-1]])
        x, z, coefficients = x[permutation], z[permutation], coefficients[permutation]
        if not first.all():
            start = np.flatnonzero(first)
            x, z, coefficients = x[start], z[start], np.add.reduceat(coefficients, start)
    keep = coefficients != 0
    if not keep.all():
        x, z, coefficients = x[keep], z[keep], coefficients[keep]
        x, z, _ = _trim(x, z)
    return x, z, coefficients


def _trim(x: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    words = x.shape[1]
    while words > 1 and not (x[:, words - 1].any() or z[:, words - 1].any()):
        words -= 1
    return x[:, :words], z[:, :words], words


def order(columns: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """A permutation that sorts rows by their columns of numbers, the first counting most, and which sorted rows differ
    from the one before.
    """
    key = columns[0]
    # numpy sorts one key with vector instructions
    permutation = np.arange(len(key)) if (key[1:] >= key[:-1]).all() else np.argsort(key)
    same = np.diff(key[permutation]) == 0
    if len(columns) > 1 and same.any():  # the rest only where the first key leaves rows in a tie
        tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
        rows = permutation[tied]
        permutation[tied] = rows[np.lexsort([c[rows] for c in reversed(columns)])]
    first = np.ones(len(key), bool)
    first[1:] = ~same
    for column in columns[1:]:
        first[1:] |= np.diff(column[permutation]) != 0
    return permutation, first
