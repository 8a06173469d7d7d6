"""Density matrices: real vectors of Pauli expectation values, on which gates and channels are small real matrices."""

from .simulator import simulate

__all__ = ["simulate"]
