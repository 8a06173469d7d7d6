"""Operators on qubits and fermions."""

from triskele.quantum.operators.pauli import PauliSum

__all__ = ["PauliSum"]
