"""Pools of operators for ADAPT-VQE."""

from __future__ import annotations

from collections.abc import Sequence

from ..circuit import Circuit
from ..operators.fermion import FermionOperator
from ..operators.mapping import encode, encoding
from ..operators.trotter import append_exponentials
from ..parameters import Parameter
from .excitations import append_excitation, excitation_name, excitations_of

__all__ = ["fermionic_pool", "qubit_pool"]


def fermionic_pool(
    num_electrons: int | Sequence[int], num_qubits: int, *, generalized: bool = False, mapping: str = "jordan_wigner"
) -> list[Circuit]:
    """The excitations of `uccsd`, singles first, each a circuit with one parameter: a pool for ADAPT-VQE [1]_.

    Arguments are those of `uccsd`.

    Parameters
    ----------
    num_electrons : int or (int, int)
        Number of electrons, or of those with spin up and with spin down.
    num_qubits : int
        Number of spin orbitals.
    generalized : bool, default False
        True to excite from any orbital to any other one.
    mapping : str, default "jordan_wigner"
        Encoding of fermions in qubits; see `uccsd`.

    References
    ----------
    .. [1] H. R. Grimsley, S. E. Economou, E. Barnes, N. J. Mayhall, An adaptive variational algorithm for exact
       molecular simulations on a quantum computer, Nat. Commun. 10, 3007 (2019). doi:10.1038/s41467-019-10988-2

    Examples
    --------
    >>> from triskele.quantum import fermionic_pool
    >>> [c.parameters for c in fermionic_pool(2, 4)]
    [('s_0_2',), ('s_1_3',), ('d_0_1_2_3',)]
    """
    pool = []
    for excitation in excitations_of(num_electrons, num_qubits, generalized, "fermionic_pool"):
        circuit = Circuit(num_qubits)
        append_excitation(circuit, excitation_name(excitation), excitation, mapping)
        pool.append(circuit)
    return pool


def qubit_pool(num_electrons: int | Sequence[int], num_qubits: int, *, generalized: bool = False) -> list[Circuit]:
    """The different Pauli strings of the pool's excitations after Jordan-Wigner without their Zs, as rotations: a pool
    for qubit-ADAPT [1]_.

    Parameters
    ----------
    num_electrons : int or (int, int)
        Number of electrons, or of those with spin up and with spin down.
    num_qubits : int
        Number of spin orbitals.
    generalized : bool, default False
        True to excite from any orbital to any other one.

    References
    ----------
    .. [1] H. L. Tang et al., Qubit-ADAPT-VQE: an adaptive algorithm for constructing hardware-efficient ansaetze on a
       quantum processor, PRX Quantum 2, 020310 (2021). doi:10.1103/PRXQuantum.2.020310

    Examples
    --------
    >>> from triskele.quantum import qubit_pool
    >>> len(qubit_pool(2, 4))
    12
    """

    strings: dict[str, None] = {}
    for source, target in excitations_of(num_electrons, num_qubits, generalized, "qubit_pool"):
        product = FermionOperator(" ".join([*(f"{a}^" for a in target), *(str(i) for i in reversed(source))]))
        for string, _ in encode((product - product.adjoint()).ladders(), encoding("jordan_wigner", num_qubits)):
            strings[" ".join(f for f in string.split() if f[0] != "Z")] = None
    pool = []
    for k, string in enumerate(strings):
        circuit = Circuit(num_qubits)
        append_exponentials(circuit, [(string, 0.5)], Parameter(f"p_{k}"))
        pool.append(circuit)
    return pool
