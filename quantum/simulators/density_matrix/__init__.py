"""Density matrices: real vectors of Pauli expectation values, on which gates and channels are small real matrices."""
