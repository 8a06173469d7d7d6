"""Unitary matrices on two qubits as at most three CNOTs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...circuit import Circuit
from ...gates.base import find
from ...gates.families import unitary
from ...gates.primitives import embed

__all__ = ["Canonical", "canonical", "matrix_of", "two_qubit"]

# Bell states with phases that make SU(2) x SU(2) real: Makhlin, Quantum Inf. Process. 1, 243 (2002)
_MAGIC = np.array([[1, 0, 0, 1j], [0, 1j, 1, 0], [0, 1j, -1, 0], [1, 0, 0, -1j]]) / math.sqrt(2)
_PAULI = [find(p).matrix() for p in "xyz"]
# XX, YY, ZZ are diagonal there
_SIGNS = np.real(np.stack([np.diag(_MAGIC.conj().T @ np.kron(p, p) @ _MAGIC) for p in _PAULI], 1))


@dataclass
class Canonical:
    """exp(i phase) (a1 x a0) exp(i (x XX + y YY + z ZZ)) (b1 x b0) with pi/4 >= x >= y >= |z|; index 0 is the first
    qubit.
    """

    phase: float
    a: list[np.ndarray]
    b: list[np.ndarray]
    xyz: np.ndarray

    def matrix(self) -> np.ndarray:
        """The unitary."""
        middle = _MAGIC @ np.diag(np.exp(1j * _SIGNS @ self.xyz)) @ _MAGIC.conj().T
        return np.exp(1j * self.phase) * np.kron(self.a[1], self.a[0]) @ middle @ np.kron(self.b[1], self.b[0])


def canonical(matrix: np.ndarray) -> Canonical:
    """Return the canonical decomposition of a unitary (4, 4) matrix (Khaneja, Brockett and Glaser, Phys. Rev. A 63,
    032308 (2001); Tucci, arXiv:quant-ph/0507171).
    """
    u = _MAGIC.conj().T @ matrix @ _MAGIC
    u = u / np.linalg.det(u) ** 0.25
    p = _real_eigenvectors(u.T @ u)
    # u = k1 d k2 with k1, k2 real: columns of u p are k1 times phases
    phases = np.angle(np.diag(p.T @ u.T @ u @ p)) / 2
    k1 = np.real(u @ p @ np.diag(np.exp(-1j * phases)))
    if np.linalg.det(k1) < 0:  # a phase moved by pi turns a column around
        phases[0] += math.pi
        k1[:, 0] *= -1
    a, b = (_factors(_MAGIC @ k @ _MAGIC.conj().T) for k in (k1, p.T))
    found = Canonical(0.0, a, b, _SIGNS.T @ phases / 4)
    _to_chamber(found)
    found.phase = float(np.angle(np.vdot(found.matrix(), matrix)))
    return found


def _real_eigenvectors(m: np.ndarray) -> np.ndarray:
    """A rotation that diagonalizes a symmetric unitary matrix: its real and imaginary part commute."""
    best, error = np.eye(4), math.inf
    # a generic combination separates what only one of them does
    for weight in (0.0, 1.0, 0.6180339887, 2.6457513, 0.3141592, 7.389056):
        _, p = np.linalg.eigh(m.real + weight * m.imag if weight != 0.0 else m.imag)
        off = p.T @ m @ p
        now = float(np.abs(off - np.diag(np.diag(off))).max())
        if now < error:
            best, error = p, now
    if np.linalg.det(best) < 0:
        best[:, 0] *= -1
    return best


def _factors(matrix: np.ndarray) -> list[np.ndarray]:
    """The two unitary (2, 2) matrices whose Kronecker product this is, the first qubit's first."""
    blocks = matrix.reshape(2, 2, 2, 2)  # [row of 1, row of 0, column of 1, column of 0]
    r, c = np.unravel_index(np.argmax(np.abs(blocks).max(axis=(1, 3))), (2, 2))
    low = blocks[r, :, c, :]
    low = low / np.sqrt(np.linalg.det(low))
    high = np.einsum("arbs,rs->ab", blocks, low.conj()) / 2
    return [low, high]


def _to_chamber(k: Canonical) -> None:
    def shift(axis: int, n: int) -> None:  # exp(i pi/2 PP) = i PP
        k.xyz[axis] += n * math.pi / 2
        if n % 2:
            k.a = [m @ _PAULI[axis] for m in k.a]

    def negate(axis: int) -> None:  # a Pauli on one qubit turns the other two axes around
        k.xyz = np.where(np.arange(3) == axis, k.xyz, -k.xyz)
        k.a[0], k.b[0] = k.a[0] @ _PAULI[axis], _PAULI[axis] @ k.b[0]

    def exchange(i: int, j: int) -> None:
        k.xyz[[i, j]] = k.xyz[[j, i]]
        c = (_PAULI[i] + _PAULI[j]) / math.sqrt(2)
        k.a, k.b = [m @ c for m in k.a], [c @ m for m in k.b]

    for axis in range(3):
        shift(axis, -round(k.xyz[axis] / (math.pi / 2)))
    for i, j in ((0, 1), (1, 2), (0, 1)):
        if abs(k.xyz[i]) < abs(k.xyz[j]):
            exchange(i, j)
    if k.xyz[0] < 0:
        negate(1)
    if k.xyz[1] < 0:
        negate(0)
    if k.xyz[0] > math.pi / 4 - 1e-10 and k.xyz[2] < 0:
        shift(0, -1)
        negate(1)


def two_qubit(matrix: np.ndarray) -> Circuit:
    """Return a unitary (4, 4) matrix as single-qubit gates and as few CNOTs as possible, 0 to 3 (Shende, Markov and
    Bullock, Phys. Rev. A 69, 062321 (2004)).
    """
    k = canonical(matrix)
    x, y, z = k.xyz
    circuit = Circuit(2)
    for q in (0, 1):
        circuit.append(unitary(k.b[q]), q)
    tiny = 1e-9
    if abs(z) > tiny:  # three CNOTs: Vatan and Williams, Phys. Rev. A 69, 032315 (2004)
        circuit.rz(-math.pi / 2, 1).cx(1, 0).rz(math.pi / 2 - 2 * z, 0).ry(2 * x - math.pi / 2, 1)
        circuit.cx(0, 1).ry(math.pi / 2 - 2 * y, 1).cx(1, 0).rz(math.pi / 2, 0)
    elif y > tiny:  # CNOTs make XX an X of the control, ZZ a Z of the target
        circuit.rx(math.pi / 2, 0).rx(math.pi / 2, 1)  # YY to ZZ
        circuit.cx(0, 1).rx(-2 * x, 0).rz(-2 * y, 1).cx(0, 1)
        circuit.rx(-math.pi / 2, 0).rx(-math.pi / 2, 1)
    elif x > math.pi / 4 - tiny:  # exp(i pi/4 ZX) is a CNOT and rotations
        circuit.h(0).cx(0, 1).rz(-math.pi / 2, 0).rx(-math.pi / 2, 1).h(0)
    elif x > tiny:
        circuit.cx(0, 1).rx(-2 * x, 0).cx(0, 1)
    for q in (0, 1):
        circuit.append(unitary(k.a[q]), q)
    circuit.global_phase(float(np.angle(np.vdot(matrix_of(circuit), matrix))))
    return circuit


def matrix_of(circuit: Circuit) -> np.ndarray:
    """The matrix of a circuit on two qubits."""
    total = np.eye(4, dtype=complex)
    for i in circuit:
        total = embed(i.matrix(), (*i.qubits, *i.controls), 2) @ total
    return total
