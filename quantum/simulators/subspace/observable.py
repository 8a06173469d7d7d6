"""Pauli sums between the basis states of a subspace: real symmetric matrices, in rows of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .turns import LANES, Turns, find

__all__ = ["Sparse", "compress", "elements", "expectation", "term_values"]

_NEGLIGIBLE = 1e-16  # of the largest coefficient: what cancellation leaves
_CHUNK = 1 << 22  # signs at a time
_POWERS = np.array([1, 1j, -1, -1j])


def _groups(h: Any, states: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Terms with the same x: which, places k and j of states with states[k] = states[j] ^ x, i^|x & z| (terms,),
    (-1)^|j & z| (terms, pairs).
    """
    order = np.argsort(states)
    x, z = h.x[:, 0].astype(np.int64), h.z[:, 0].astype(np.int64)
    edges = np.append(np.flatnonzero(np.diff(x, prepend=-1)), len(x))
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        k = find(states, order, states ^ x[first])
        j = np.flatnonzero(k >= 0)
        step = max(1, _CHUNK // max(1, len(j)))
        for begin in range(first, last if len(j) else first, step):
            terms = slice(begin, min(begin + step, last))
            signs = 1.0 - 2.0 * (np.bitwise_count(states[j] & z[terms, None]) & 1)
            yield terms, k[j], j, _POWERS[np.bitwise_count(x[first] & z[terms]) & 3], signs


def elements(h: Any, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, columns and values (complex) of <states[row]| H |states[column]>; entries may repeat."""
    found = []
    for terms, k, j, phases, signs in _groups(h, states):
        c = h.coefficients[terms] * phases
        found.append((k, j, c.real @ signs + (1j * (c.imag @ signs) if c.imag.any() else 0j)))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, complex)
    rows, columns, values = (np.concatenate(f) for f in zip(*found, strict=True))
    keep = np.abs(values) > _NEGLIGIBLE * np.abs(h.coefficients).max(initial=0.0)
    return rows[keep], columns[keep], values[keep]


def expectation(h: Any, states: np.ndarray, amplitudes: np.ndarray) -> float:
    """<psi|H|psi>."""
    rows, columns, values = elements(h, states)
    return float((amplitudes[rows].conj() * values * amplitudes[columns]).real.sum())


def term_values(h: Any, states: np.ndarray, bra: np.ndarray, ket: np.ndarray) -> np.ndarray:
    """(T,) Re <bra|P|ket> of every string P of a sum."""
    out = np.zeros(len(h))
    for terms, k, j, phases, signs in _groups(h, states):
        products = bra[k].conj() * ket[j]
        out[terms] = phases.real * (signs @ products.real) - phases.imag * (signs @ products.imag)
    return out


class Sparse(NamedTuple):
    """A sparse matrix, eight rows at a time.

    Entry ``i`` of row ``8 b + r`` is at ``starts[b] + 8 i + r``; rows shorter than the longest of the eight end with
    zeros.
    """

    starts: np.ndarray  # (N / 8 + 1,) int64
    columns: np.ndarray  # (E,) int32
    entries: np.ndarray  # (E,) float64


def compress(h: Any, turns: Turns) -> Sparse:
    """The matrix that a Hermitian sum is for the vector at the end of `turns`.

    With amplitudes a + i b and H = A + i B it is ((A, -B), (B, A)); of real amplitudes only A matters.
    """
    from scipy.sparse import coo_array

    row, column, value = elements(h, turns.states)
    if turns.planes == 2:
        real, imaginary = np.flatnonzero(value.real), np.flatnonzero(value.imag)
        r, c, f = row[real], column[real], row[imaginary]
        g = column[imaginary]
        row = np.concatenate([2 * r, 2 * r + 1, 2 * f, 2 * f + 1])
        column = np.concatenate([2 * c, 2 * c + 1, 2 * g + 1, 2 * g])
        a, b = value.real[real], value.imag[imaginary]
        entries = np.concatenate([a, a, -b, b])
    else:
        entries = value.real
    entries = entries * turns.signs[row] * turns.signs[column]
    size = len(turns.start)
    matrix = coo_array((entries, (turns.where[row], turns.where[column])), shape=(size, size)).tocsr()
    matrix.eliminate_zeros()
    lengths = np.diff(matrix.indptr).astype(np.int64)
    starts = np.zeros(size // LANES + 1, np.int64)
    np.cumsum(LANES * lengths.reshape(-1, LANES).max(axis=1), out=starts[1:])
    row = np.repeat(np.arange(size), lengths)
    within = np.arange(len(row)) - np.repeat(matrix.indptr[:-1], lengths)
    at = starts[row // LANES] + LANES * within + row % LANES
    sparse = Sparse(starts, np.zeros(starts[-1], np.int32), np.zeros(starts[-1]))
    sparse.columns[at], sparse.entries[at] = matrix.indices, matrix.data
    return sparse
