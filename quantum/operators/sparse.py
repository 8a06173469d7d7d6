"""Pauli sums as sparse matrices and on state vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.quantum.errors import OperatorError

if TYPE_CHECKING:
    from triskele.quantum.operators.pauli import PauliSum

__all__ = ["diagonals", "matrix"]

_I_POWERS = np.array([1, 1j, -1, -1j])


def diagonals(operator: PauliSum, num_qubits: int) -> tuple[np.ndarray, np.ndarray]:
    """Masks x (groups,) and d (groups, 2**n) with H = sum over groups and j of d[g, j] |j ^ x[g]><j|.

    Terms of one x differ in Z alone: their sum over j is a Walsh-Hadamard transform of the coefficients placed at z.
    """
    x, z = operator.x[:, 0].astype(np.int64), operator.z[:, 0].astype(np.int64)
    values, group = np.unique(x, return_inverse=True)
    d = np.zeros((len(values), 1 << num_qubits), complex)
    d[group, z] = operator.coefficients * _I_POWERS[np.bitwise_count(x & z) & 3]
    for q in range(num_qubits):
        pairs = d.reshape(len(values), -1, 2, 1 << q)
        low, high = pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]
        pairs[:, :, 0], pairs[:, :, 1] = low, high
    return values, d


def matrix(operator: PauliSum, num_qubits: int | None) -> Any:
    """See `PauliSum.matrix`."""
    from scipy.sparse import csr_matrix

    n = operator.num_qubits if num_qubits is None else num_qubits
    if n < operator.num_qubits:
        raise OperatorError(f"matrix: the sum acts on {operator.num_qubits} qubits, got num_qubits={n}")
    if n > 30:
        raise OperatorError(f"matrix: at most 30 qubits, got {n} (apply the sum to a state instead)")
    x, d = diagonals(operator, n)
    rows = np.arange(1 << n)
    columns = rows[:, None] ^ x
    data = d[np.arange(len(x)), columns]
    keep = data != 0
    pointer = np.concatenate([[0], np.cumsum(keep.sum(1))])
    out = csr_matrix((data[keep], columns[keep], pointer), shape=(1 << n, 1 << n))
    out.sort_indices()
    return out
