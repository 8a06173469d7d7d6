"""Pauli sums to and from openfermion and Qiskit."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check, optional

from ..errors import OperatorError
from . import bits
from .terms import Terms

__all__ = ["from_openfermion", "from_qiskit", "to_openfermion", "to_qiskit"]


def from_openfermion(operator: Any) -> list[tuple[str, complex]]:
    """Terms of an `openfermion.QubitOperator`."""
    terms = check.kind(
        getattr(operator, "terms", operator), dict, "from_openfermion: operator", "a QubitOperator", error=OperatorError
    )
    if not all(isinstance(letter, str) for term in terms for _, letter in term):
        raise OperatorError(
            "from_openfermion: a QubitOperator is needed, got products of creation and annihilation "
            "operators (map them to qubits)"
        )
    return [(" ".join(f"{letter}{q}" for q, letter in term), c) for term, c in terms.items()]


def to_openfermion(operator: Terms) -> Any:
    """An `openfermion.QubitOperator`."""
    out = optional.need("openfermion", "to_openfermion", "chem").QubitOperator()
    for string, c in operator:
        out.terms[tuple((int(factor[1:]), factor[0]) for factor in string.split())] = c
    return out


def from_qiskit(operator: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrays x, z, coefficients of a `qiskit.quantum_info.SparsePauliOp`."""
    try:
        x, z, coefficients = operator.paulis.x, operator.paulis.z, np.asarray(operator.coeffs, complex)
    except (AttributeError, TypeError, ValueError):
        raise OperatorError(
            f"from_qiskit: a SparsePauliOp with numbers for coefficients is needed, got {type(operator).__name__}"
        ) from None
    return bits.pack(x), bits.pack(z), coefficients


def to_qiskit(operator: Terms, num_qubits: int) -> Any:
    """A `qiskit.quantum_info.SparsePauliOp` on that many qubits."""
    if num_qubits < operator.num_qubits:
        raise OperatorError(f"to_qiskit: the sum acts on {operator.num_qubits} qubits, got num_qubits={num_qubits}")
    info = optional.need("qiskit.quantum_info", "to_qiskit", "quantum")
    x, z, c = (
        (operator.x, operator.z, operator.coefficients)
        if len(operator)
        else (np.zeros((1, 1), np.uint64),) * 2 + (np.zeros(1),)
    )
    return info.SparsePauliOp(info.PauliList.from_symplectic(bits.unpack(z, num_qubits), bits.unpack(x, num_qubits)), c)
