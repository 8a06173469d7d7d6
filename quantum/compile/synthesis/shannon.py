"""Unitary matrices on any number of qubits as single-qubit gates and CNOTs."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from ...circuit import Circuit
from ...gates.families import unitary
from ...library import uniformly_controlled_rotation
from .kak import two_qubit

__all__ = ["shannon"]


def shannon(matrix: np.ndarray) -> Circuit:
    """Return the quantum Shannon decomposition of a unitary (2**n, 2**n) matrix: about (3/4) 4**n CNOTs (Shende,
    Bullock and Markov, IEEE Trans. CAD 25, 1000 (2006)). Bit k of the matrix's index is qubit k.
    """
    n = len(matrix).bit_length() - 1
    if n == 2:
        return two_qubit(matrix)
    circuit = Circuit(n)
    if n == 0:
        return circuit.global_phase(float(np.angle(matrix[0, 0])))
    if n == 1:
        return circuit.append(unitary(matrix), 0)
    half, top, below = len(matrix) // 2, n - 1, range(n - 1)
    (u1, u2), angles, (v1, v2) = scipy.linalg.cossin(matrix, p=half, q=half, separate=True)
    _multiplexed(circuit, v1, v2)
    circuit.extend(uniformly_controlled_rotation("y", (2 * angles).tolist(), below, top))
    _multiplexed(circuit, u1, u2)
    return circuit


def _multiplexed(circuit: Circuit, first: np.ndarray, second: np.ndarray) -> None:
    """diag(first, second) = (1 x V) diag(D, D*) (1 x W), where the middle is a multiplexed RZ of the highest qubit."""
    triangle, v = scipy.linalg.schur(first @ second.conj().T, output="complex")  # of a normal matrix: diagonal
    half = np.angle(np.diag(triangle)) / 2
    w = np.exp(1j * half)[:, None] * (v.conj().T @ second)
    top = circuit.num_qubits - 1
    circuit.extend(shannon(w))
    circuit.extend(uniformly_controlled_rotation("z", (-2 * half).tolist(), range(top), top))
    circuit.extend(shannon(v))
