"""Density matrices: real vectors of Pauli expectation values, on which gates and channels are small real matrices."""

from triskele.quantum.simulators.density_matrix.simulator import simulate

__all__ = ["simulate"]
