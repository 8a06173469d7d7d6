"""Stabilizer states: Clifford circuits on thousands of qubits."""

from triskele.quantum.simulators.stabilizer.simulator import simulate

__all__ = ["simulate"]
