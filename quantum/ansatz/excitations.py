"""Excitations of a determinant, their order, and circuits of their exponentials."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from ..circuit import Circuit
from ..errors import CircuitError
from ..operators.fermion import FermionOperator
from ..operators.mapping import encode, encoding, occupations
from ..operators.trotter import append_exponentials
from ..parameters import angle

__all__ = [
    "Excitation",
    "append_excitation",
    "doubles",
    "electrons",
    "excitation_name",
    "excitations_of",
    "hartree_fock",
    "singles",
]

Excitation = tuple[tuple[int, ...], tuple[int, ...]]  # modes emptied, modes filled


def electrons(num_electrons: int | Sequence[int], num_qubits: int, where: str) -> tuple[int, int]:
    """Numbers of alpha and beta electrons, checked; an odd total has one alpha more."""
    counts = tuple(num_electrons) if isinstance(num_electrons, Iterable) else (num_electrons,)
    if (
        isinstance(num_qubits, bool)
        or not isinstance(num_qubits, (int, np.integer))
        or num_qubits < 2
        or num_qubits % 2
    ):
        raise CircuitError(
            f"{where}: num_qubits must be even (two spins for each orbital) and at least 2, got {num_qubits!r}"
        )
    if len(counts) not in (1, 2) or any(
        isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 0 for k in counts
    ):
        raise CircuitError(f"{where}: electrons must be a number, or numbers of alpha and beta, got {num_electrons!r}")
    alpha, beta = ((counts[0] + 1) // 2, counts[0] // 2) if len(counts) == 1 else counts
    if max(alpha, beta) > num_qubits // 2:
        raise CircuitError(f"{where}: {alpha} alpha and {beta} beta electrons do not fit in {num_qubits // 2} orbitals")
    return int(alpha), int(beta)


def hartree_fock(num_electrons: int | Sequence[int], num_qubits: int, mapping: str = "jordan_wigner") -> Circuit:
    """The determinant with the lowest orbitals occupied, from |0...0>.

    Parameters
    ----------
    num_electrons : int or (alpha, beta)
        An odd number means one more alpha than beta electron.
    num_qubits : int
        Spin orbitals; even ones are alpha, odd ones beta.
    mapping : str
        "jordan_wigner", "parity" or "bravyi_kitaev".

    Raises
    ------
    CircuitError
        If the electrons do not fit.

    Examples
    --------
    >>> from triskele.quantum import hartree_fock
    >>> [i.qubits for i in hartree_fock(2, 4)]
    [(0,), (1,)]
    """
    alpha, beta = electrons(num_electrons, num_qubits, "hartree_fock")
    occupied = [*range(0, 2 * alpha, 2), *range(1, 2 * beta, 2)]
    circuit = Circuit(num_qubits)
    for q in occupations(occupied, num_qubits, mapping):
        circuit.x(q)
    return circuit


def singles(alpha: int, beta: int, num_qubits: int, generalized: bool = False) -> Iterator[Excitation]:
    """Moves of one electron without a change of spin, from occupied to empty modes, or (generalized) between any
    two.
    """
    for spin, count in ((0, alpha), (1, beta)):
        modes = range(spin, num_qubits, 2)
        for i, a in combinations(modes, 2):
            if generalized or i < 2 * count <= a:
                yield (i,), (a,)


def doubles(alpha: int, beta: int, num_qubits: int, generalized: bool = False) -> Iterator[Excitation]:
    """Moves of two electrons without a change of S_z: pairs of occupied modes to pairs of empty ones, or (generalized)
    to any other pair.

    Target k has the spin of source k.
    """
    full, empty = (list(combinations(range(num_qubits), 2)),) * 2
    if not generalized:
        occupied = {*range(0, 2 * alpha, 2), *range(1, 2 * beta, 2)}
        full, empty = (
            list(combinations(modes, 2)) for modes in (sorted(occupied), sorted(set(range(num_qubits)) - occupied))
        )
    for i, j in full:
        for a, b in empty:
            if i % 2 + j % 2 == a % 2 + b % 2 and not (generalized and ((i, j) >= (a, b) or {i, j} & {a, b})):
                yield (i, j), (a, b) if a % 2 == i % 2 else (b, a)


def append_excitation(circuit: Circuit, t: Any, excitation: Excitation, mapping: str = "jordan_wigner") -> None:
    """Add exp(t (T - T^dagger)): one gate after Jordan-Wigner, Pauli rotations (which commute) in other mappings."""
    source, target = excitation
    if mapping == "jordan_wigner":
        circuit.excitation(t, source, target)
        return
    product = FermionOperator(" ".join([*(f"{a}^" for a in target), *(str(i) for i in reversed(source))]))
    # i times a Hermitian sum
    generator = encode((product - product.adjoint()).ladders(), encoding(mapping, circuit.num_qubits))
    append_exponentials(circuit, [(string, -c.imag) for string, c in generator], angle(t, "excitation"))


def excitations_of(
    num_electrons: int | Sequence[int], num_qubits: int, generalized: bool, where: str
) -> list[Excitation]:
    """Single and double excitations, in this order."""
    alpha, beta = electrons(num_electrons, num_qubits, where)
    return [*singles(alpha, beta, num_qubits, generalized), *doubles(alpha, beta, num_qubits, generalized)]


def excitation_name(excitation: Excitation) -> str:
    """The name of its parameter."""
    source, target = excitation
    return "_".join(["s" if len(source) == 1 else "d", *map(str, source), *map(str, target)])
