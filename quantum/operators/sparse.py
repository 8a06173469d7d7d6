"""Pauli sums as sparse matrices and on state vectors.

Terms of one mask x differ in Z alone: together they are sum over rows r of e(r) |r><r ^ x|, with e the Walsh-Hadamard
transform of their coefficients placed at z. It is done in blocks of rows that fit in the cache: the upper bits of r
give signs, the lower ones are transformed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import check, device, kernel, simd

from ..errors import OperatorError
from .terms import Terms

__all__ = ["apply", "block", "lowest", "matrix", "walsh"]

_BLOCK = 8  # log2 of rows in a block
_CHUNK = 1 << 22  # entries of a matrix made at a time, before zeros are dropped
_DENSE = 256  # rows up to which LAPACK is the quicker eigensolver


class _Groups(NamedTuple):
    """Terms by x."""

    x: np.ndarray  # (groups,) int64
    start: np.ndarray  # (groups + 1,) terms of a group
    z: np.ndarray  # (terms,) int64
    re: np.ndarray  # (terms,) coefficient * (-i)**|x & z|, so that e(r) = sum of +-coefficients
    im: np.ndarray
    noise: np.ndarray  # (groups,) what is not zero by rounding alone


def _groups(operator: Terms) -> _Groups:
    x, z = operator.x[:, 0].astype(np.int64), operator.z[:, 0].astype(np.int64)
    c = operator.coefficients * np.array([1, -1j, -1, 1j])[np.bitwise_count(x & z) & 3]
    values, start = np.unique(x, return_index=True)  # terms are in order of x
    noise = 4 * np.finfo(float).eps * np.add.reduceat(abs(c), start) if len(c) else np.zeros(0)
    return _Groups(
        values, np.append(start, len(x)), z, np.ascontiguousarray(c.real), np.ascontiguousarray(c.imag), noise
    )


def _size(operator: Terms, num_qubits: int | None, where: str) -> int:
    n = operator.num_qubits if num_qubits is None else num_qubits
    if n < operator.num_qubits:
        raise OperatorError(f"{where}: the sum acts on {operator.num_qubits} qubits, got num_qubits={n}")
    if n > 30:
        raise OperatorError(f"{where}: at most 30 qubits, got {n}")
    return n


def matrix(operator: Terms, num_qubits: int | None) -> Any:
    """See `PauliSum.matrix`."""
    from scipy.sparse import csr_matrix

    n = _size(operator, num_qubits, "matrix")
    groups = _groups(operator)
    rows, width = 1 << n, max(len(groups.x), 1)
    step = min(rows, 1 << max(_BLOCK, (_CHUNK // width).bit_length()))
    lengths = np.zeros(rows + 1, np.int64)
    columns, data = np.empty(step * width, np.int32), np.empty(step * width, complex)
    parts = []
    for first in range(0, rows, step):
        used = _rows(*groups, first, step, min(n, _BLOCK), lengths[first + 1 : first + step + 1], columns, data)
        parts.append((columns[:used].copy(), data[:used].copy()))
    pointer = np.cumsum(lengths)
    out = csr_matrix(
        (np.concatenate([d for _, d in parts]), np.concatenate([c for c, _ in parts]), pointer), shape=(rows, rows)
    )
    out.sort_indices()
    return out


def block(operator: Terms, states: np.ndarray) -> Any:
    """See `PauliSum.block`."""
    from scipy.sparse import csr_matrix

    if operator.num_qubits > 62:
        raise OperatorError(f"block: at most 62 qubits, got {operator.num_qubits}")
    states = np.asarray(states, np.int64)
    if states.ndim != 1 or (np.diff(states) <= 0).any() or (len(states) and states[0] < 0):
        raise OperatorError("block: basis states must be different, rising integers >= 0")
    groups = _groups(operator)
    rows, columns, data = [], [], []
    for g, x in enumerate(groups.x):
        place = np.searchsorted(states, states ^ x)
        row = np.flatnonzero(states[np.minimum(place, len(states) - 1)] == states ^ x)
        terms = slice(groups.start[g], groups.start[g + 1])
        signs = 1.0 - 2.0 * (np.bitwise_count(states[row][:, None] & groups.z[terms]) & 1)
        values = signs @ (groups.re[terms] + 1j * groups.im[terms])
        keep = abs(values) > groups.noise[g]
        rows.append(row[keep])
        columns.append(place[row][keep])
        data.append(values[keep])
    empty = np.zeros(0, np.int64)
    shape = (len(states), len(states))
    return csr_matrix(
        (np.concatenate([*data, empty]), (np.concatenate([*rows, empty]), np.concatenate([*columns, empty]))),
        shape=shape,
        dtype=complex,
    )


def apply(operator: Terms, state: np.ndarray) -> np.ndarray:
    """H psi of a state (2**n,), as complex128."""
    state = np.asarray(state)
    n = state.size.bit_length() - 1
    check.shape(state, (1 << n,), "PauliSum: a state", error=OperatorError)
    _size(operator, n, "PauliSum")
    out = np.zeros(state.size, complex)
    _apply(*_groups(operator), min(n, _BLOCK), np.ascontiguousarray(state, complex), out)
    return out


def lowest(operator: Terms, k: int, num_qubits: int | None) -> tuple[np.ndarray, np.ndarray]:
    """See `PauliSum.eigenstates`."""
    n = _size(operator, num_qubits, "eigenstates")
    if not operator.is_hermitian:
        raise OperatorError(
            f"eigenstates: the sum must be Hermitian, got the coefficient {_largest_imaginary(operator)}"
        )
    check.integer(k, "eigenstates: k", 1, 1 << n, error=OperatorError)
    from scipy.linalg import eigh
    from scipy.sparse.linalg import LinearOperator, eigsh

    rows = 1 << n
    if rows <= _DENSE or k >= rows // 2:
        return eigh(matrix(operator, n).toarray(), subset_by_index=(0, k - 1))
    if len(_groups(operator).x) << n <= 1 << 27:
        h = matrix(operator, n)
        h = h if h.data.imag.any() else h.real
    else:
        h = LinearOperator((rows, rows), matvec=lambda v: apply(operator, v), dtype=complex)
    start = np.random.default_rng(0).normal(size=rows)  # given, so that the same sum has the same answer each time
    values, vectors = eigsh(h, k=k, which="SA", v0=start.astype(h.dtype), ncv=min(rows, max(2 * k + 1, 20)))
    order = np.argsort(values)
    return values[order], vectors[:, order].astype(complex)


def _largest_imaginary(operator: Terms) -> str:
    k = int(np.argmax(abs(operator.coefficients.imag)))
    string, c = operator[k]
    return f"{c} of {string or 'the identity'}"


@device
def _block(g, start, z, re, im, high, low, a, b):
    """e(high + l) of group g for l < 2**low into a (real parts) and b (imaginary ones); whether b may be anything but
    zero.
    """
    size = 1 << low
    a[:], b[:] = 0.0, 0.0
    is_complex = False
    for t in range(start[g], start[g + 1]):
        s = -1.0 if simd.parity(z[t] & high) else 1.0
        a[z[t] & (size - 1)] += s * re[t]
        b[z[t] & (size - 1)] += s * im[t]
        is_complex = is_complex or im[t] != 0.0
    walsh(a)
    if is_complex:
        walsh(b)


@device
def walsh(a):
    """The Walsh-Hadamard transform of an array of 2**n numbers, in place."""
    half = 1
    while half < a.size:
        for first in range(0, a.size, 2 * half):
            for i in range(first, first + half):
                u, v = a[i], a[i + half]
                a[i], a[i + half] = u + v, u - v
        half *= 2


@kernel
def _rows(x, start, z, re, im, noise, first, count, low, lengths, columns, data):
    """Rows `first` to `first + count` of the matrix into `columns` and `data`, their lengths into `lengths`; entries
    used.
    """
    size = 1 << low
    real, imag = np.zeros((x.size, size)), np.zeros((x.size, size))
    used = 0
    for high in range(first, first + count, size):
        for g in range(x.size):
            _block(g, start, z, re, im, high, low, real[g], imag[g])
        for r in range(size):
            before = used
            for g in range(x.size):
                if abs(real[g, r]) > noise[g] or abs(imag[g, r]) > noise[g]:
                    columns[used], data[used] = (high + r) ^ x[g], complex(real[g, r], imag[g, r])
                    used += 1
            lengths[high - first + r] = used - before
    return used


@kernel
def _apply(x, start, z, re, im, noise, low, state, out):
    size = 1 << low
    a, b = np.zeros(size), np.zeros(size)
    for high in range(0, state.size, size):
        for g in range(x.size):
            _block(g, start, z, re, im, high, low, a, b)
            for r in range(size):
                out[high + r] += complex(a[r], b[r]) * state[(high + r) ^ x[g]]
