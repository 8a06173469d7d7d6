"""Molecules: integrals, energies and Hamiltonians."""

from . import molecules
from .molecule import Molecule

__all__ = ["Molecule", "molecules"]
