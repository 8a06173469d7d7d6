"""Stabilizer states: Clifford circuits on thousands of qubits."""

from .simulator import simulate

__all__ = ["simulate"]
