"""Hamiltonians of spin chains."""

from __future__ import annotations

from triskele.core.extend import check

from ..errors import OperatorError
from .pauli import PauliSum

__all__ = ["heisenberg", "tfim"]


def tfim(num_qubits: int, j: float = 1.0, h: float = 1.0, *, periodic: bool = True) -> PauliSum:
    """The transverse-field Ising chain, -j sum Z_k Z_(k+1) - h sum X_k.

    Parameters
    ----------
    num_qubits : int
    j, h : float
        Coupling and field.
    periodic : bool
        A ring rather than an open chain.

    Examples
    --------
    >>> from triskele.quantum import tfim
    >>> tfim(3, h=0.5, periodic=False)
    PauliSum('-Z0 Z1 - Z1 Z2 - 0.5 X0 - 0.5 X1 - 0.5 X2')
    """
    terms = [(f"Z{a} Z{b}", -j) for a, b in _bonds(num_qubits, periodic, "tfim")]
    return PauliSum(terms + [(f"X{k}", -h) for k in range(num_qubits)])


def heisenberg(
    num_qubits: int,
    jx: float = 1.0,
    jy: float | None = None,
    jz: float | None = None,
    *,
    h: float = 0.0,
    periodic: bool = False,
) -> PauliSum:
    """The Heisenberg chain of spins S = (X, Y, Z)/2: sum over bonds of jx Sx Sx + jy Sy Sy + jz Sz Sz, plus h sum Sz.

    Parameters
    ----------
    num_qubits : int
    jx, jy, jz : float
        Couplings. Defaults to jy and jz are jx.
    h : float
        Field along z.
    periodic : bool
        A ring rather than an open chain.

    Examples
    --------
    >>> from triskele.quantum import heisenberg
    >>> heisenberg(2)
    PauliSum('0.25 Z0 Z1 + 0.25 X0 X1 + 0.25 Y0 Y1')
    """
    couplings = {"X": jx, "Y": jx if jy is None else jy, "Z": jx if jz is None else jz}
    bonds = _bonds(num_qubits, periodic, "heisenberg")
    terms = [(f"{p}{a} {p}{b}", c / 4) for a, b in bonds for p, c in couplings.items()]
    return PauliSum(terms + [(f"Z{k}", h / 2) for k in range(num_qubits)])


def _bonds(n: int, periodic: bool, where: str) -> list[tuple[int, int]]:
    check.integer(n, f"{where}: num_qubits", 2, error=OperatorError)
    return [(k, k + 1) for k in range(n - 1)] + ([(n - 1, 0)] if periodic and n > 2 else [])
