"""Quantum circuits on triskele.core."""

if __name__ != "triskele.quantum":
    raise ImportError(f"import this package as triskele.quantum, not as {__name__!r}")

from triskele.quantum.circuit import Circuit
from triskele.quantum.operators.pauli import PauliSum
from triskele.quantum.parameters import Parameter

__all__ = ["Circuit", "Parameter", "PauliSum"]
