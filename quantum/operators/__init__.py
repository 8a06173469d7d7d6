"""Operators on qubits and fermions."""

from .pauli import PauliSum

__all__ = ["PauliSum"]
