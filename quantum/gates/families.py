"""Gates of any size: Pauli rotations, diagonal gates, and matrices given as numbers."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import GateError
from ..parameters import angle as exact
from .base import _REGISTRY, Gate, family, find
from .primitives import Factor, Phase, Rotation

__all__ = ["diagonal", "pauli_rotation", "rotation_on", "unitarity", "unitary"]


@functools.lru_cache(1024)
def pauli_rotation(paulis: str) -> Gate:
    """Return the gate exp(-i t/2 P) of a Pauli string; letter k of `paulis` (X, Y or Z) acts on the gate's qubit k.

    The name `rxyz` (any number of letters) stands for the same gate.
    """
    if not isinstance(paulis, str) or not re.fullmatch("[XYZ]+", paulis):
        raise GateError(f"pauli_rotation: a string of X, Y and Z is needed, got {paulis!r}")
    name = f"r{paulis.lower()}"
    if name in _REGISTRY:
        return find(name)
    return Gate(
        name, len(paulis), 1, factors=(Factor(Rotation(paulis), tuple(range(len(paulis)))),), label=f"R{paulis}"
    )


def rotation_on(paulis: str, qubits: Sequence[int] | int, angle: Any) -> tuple[Gate, tuple[int, ...], tuple[Any, ...]]:
    """Return gate, qubits and parameters of exp(-i angle/2 P), with letter k of `paulis` on `qubits[k]`, without I."""
    qubits = (qubits,) if isinstance(qubits, (int, np.integer)) else tuple(qubits)
    if not isinstance(paulis, str) or len(paulis) != len(qubits):
        raise GateError(f"pauli_rotation: a letter for each qubit is needed, got {paulis!r} for {list(qubits)}")
    where = tuple(q for q, p in zip(qubits, paulis, strict=True) if p != "I")
    if not where:
        return find("global_phase"), (), (-0.5 * exact(angle, "pauli_rotation"),)
    return pauli_rotation(paulis.replace("I", "")), where, (angle,)


@family
def _rotation_of_name(name: str) -> Gate | None:
    return pauli_rotation(name[1:].upper()) if re.fullmatch("r[xyz]{2,}", name) else None


@functools.lru_cache(16)
def diagonal(num_qubits: int) -> Gate:
    """Return the gate diag(exp(i t_0), exp(i t_1), ...) on at most 10 qubits, with a parameter for each basis state.

    The phases are the sum over subsets S of qubits of a product of Z signs with coefficient `sum_j (-1)**|j & S| t_j /
    2**n` (Walsh series): rotations about Z...Z by -2 times that, and a global phase.
    """
    if not 0 <= num_qubits <= 10:
        raise GateError(
            f"diagonal: 0 to 10 qubits, got {num_qubits} (compose larger ones of phases and Pauli rotations)"
        )
    size = 1 << num_qubits
    factors = [Factor(Phase(0), (), (1.0 / size,) * size)]
    for subset in range(1, size):
        qubits = tuple(q for q in range(num_qubits) if subset >> q & 1)
        signs = tuple((2.0 if (j & subset).bit_count() % 2 else -2.0) / size for j in range(size))
        factors.append(Factor(Rotation("Z" * len(qubits)), qubits, signs))
    return Gate("diagonal", num_qubits, size, factors=tuple(factors), label="Diag")


def unitary(matrix: Any, name: str = "unitary", label: str = "U") -> Gate:
    """Return the gate with a given matrix (2**q, 2**q), unitary to 1e-9; bit k of an index is the gate's qubit k. Files
    show `name`, drawings `label`.
    """
    m = np.array(matrix, complex)
    if m.ndim != 2 or m.shape[0] != m.shape[1] or m.shape[0] & (m.shape[0] - 1) or not m.size:
        raise GateError(f"{name}: a matrix needs 2**q rows and columns, got the shape {m.shape}")
    if not (deviation := unitarity(m)) < 1e-9:
        raise GateError(f"{name}: the matrix must be unitary, got U†U that differs from 1 by {deviation:.3g}")
    m.flags.writeable = False
    return Gate(name, m.shape[0].bit_length() - 1, constant=m, label=label)


def unitarity(matrix: np.ndarray) -> float:
    """Largest |U†U - 1|; NaN where the matrix is not finite."""
    if not np.isfinite(matrix).all():
        return float("nan")
    return float(np.max(np.abs(matrix.conj().T @ matrix - np.eye(len(matrix)))))
