"""Molecules: integrals, energies and Hamiltonians."""

from triskele.quantum.chemistry import molecules
from triskele.quantum.chemistry.molecule import Molecule

__all__ = ["Molecule", "molecules"]
