"""Unitary coupled cluster with singles and doubles, and pools of its excitations."""

from __future__ import annotations

from collections.abc import Sequence

from ..circuit import Circuit
from ..errors import CircuitError
from ..operators.mapping import encode, encoding
from ..operators.trotter import append_exponentials
from ..parameters import Linear, Parameter
from .excitations import Excitation, append_excitation, doubles, electrons, hartree_fock, singles

__all__ = ["fermionic_pool", "qubit_pool", "uccsd"]


def uccsd(num_electrons: int | Sequence[int], num_qubits: int, *, generalized: bool = False, singlet: bool = False,
          reference: bool = True,
          mapping: str = "jordan_wigner") -> Circuit:
    """Unitary coupled cluster with singles and doubles: exponentials of excitations one after another on the
    Hartree-Fock determinant.

    Each excitation T has a parameter t in exp(t (T - T^dagger)), named by its modes: `s_0_4` moves an electron from
    spin orbital 0 to 4, `d_0_1_4_5` two from 0 and 1 to 4 and 5. Singles come first. At zero the state is
    Hartree-Fock's [1]_.

    Parameters
    ----------
    num_electrons : int or (alpha, beta)
        An odd number means one more alpha than beta electron.
    num_qubits : int
        Spin orbitals; even ones are alpha, odd ones beta.
    generalized : bool
        Excitations between any orbitals rather than from occupied to empty ones [2]_; of doubles those that move both
        electrons.
    singlet : bool
        One parameter for what the symmetry of closed shells makes equal: `s_0_2` moves an electron of either spin from
        spatial orbital 0 to 2, `d_0_1_2_3` two from orbitals 0 and 1 to 2 and 3. Less than half as many parameters.
    reference : bool
        False leaves out the gates that prepare the determinant.
    mapping : str
        "jordan_wigner" (one gate an excitation), "parity" or "bravyi_kitaev" (Pauli rotations).

    Raises
    ------
    CircuitError
        If the electrons do not fit, or `singlet` is requested for an open shell or with `generalized`.

    References
    ----------
    .. [1] J. Romero et al., Strategies for quantum computing molecular energies using the unitary coupled cluster
       ansatz, Quantum Sci. Technol. 4, 014008 (2018). doi:10.1088/2058-9565/aad3e4
    .. [2] J. Lee, W. J. Huggins, M. Head-Gordon, K. B. Whaley, Generalized unitary coupled cluster wave functions for
       quantum computation, J. Chem. Theory Comput. 15, 311 (2019). doi:10.1021/acs.jctc.8b01004

    Examples
    --------
    >>> from triskele.quantum import uccsd
    >>> uccsd(2, 4).parameters
    ('s_0_2', 's_1_3', 'd_0_1_2_3')
    >>> len(uccsd(4, 12).parameters), len(uccsd(4, 12, singlet=True).parameters)
    (92, 44)
    """
    alpha, beta = electrons(num_electrons, num_qubits, "uccsd")
    if singlet and (generalized or alpha != beta):
        raise CircuitError(f"uccsd: singlet needs a closed shell and no generalized excitations, got {alpha} alpha, "
                           f"{beta} beta, generalized={generalized}")
    circuit = hartree_fock((alpha, beta), num_qubits, mapping) if reference else Circuit(num_qubits)
    for excitations in (singles, doubles):
        for excitation in excitations(alpha, beta, num_qubits, generalized):
            t = _singlet_parameter(excitation) if singlet else Parameter(_name(excitation))
            append_excitation(circuit, t, excitation, mapping)
    return circuit


def fermionic_pool(num_electrons: int | Sequence[int], num_qubits: int, *, generalized: bool = False,
                   mapping: str = "jordan_wigner") -> list[Circuit]:
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
    for excitation in _all(num_electrons, num_qubits, generalized, "fermionic_pool"):
        circuit = Circuit(num_qubits)
        append_excitation(circuit, _name(excitation), excitation, mapping)
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
    from ..operators.fermion import FermionOperator

    strings: dict[str, None] = {}
    for source, target in _all(num_electrons, num_qubits, generalized, "qubit_pool"):
        product = FermionOperator(" ".join([*(f"{a}^" for a in target), *(str(i) for i in reversed(source))]))
        for string, _ in encode((product - product.adjoint()).ladders(), encoding("jordan_wigner", num_qubits)):
            strings[" ".join(f for f in string.split() if f[0] != "Z")] = None
    pool = []
    for k, string in enumerate(strings):
        circuit = Circuit(num_qubits)
        append_exponentials(circuit, [(string, 0.5)], Parameter(f"p_{k}"))
        pool.append(circuit)
    return pool


def _all(num_electrons: int | Sequence[int], num_qubits: int, generalized: bool, where: str) -> list[Excitation]:
    alpha, beta = electrons(num_electrons, num_qubits, where)
    return [*singles(alpha, beta, num_qubits, generalized), *doubles(alpha, beta, num_qubits, generalized)]


def _name(excitation: Excitation) -> str:
    source, target = excitation
    return "_".join(["s" if len(source) == 1 else "d", *map(str, source), *map(str, target)])


def _singlet_parameter(excitation: Excitation) -> Linear:
    """Its amplitude in terms of spatial ones, t(ij -> ab) = t(ji -> ba), that do not depend on spin.

    Electrons of different spin: t(ij -> ab); of the same spin t(ij -> ab) - t(ij -> ba), for either electron may have
    gone to either place.
    """
    source, target = (tuple(p // 2 for p in modes) for modes in excitation)
    if len(source) == 1:
        return Parameter(_name((source, target)))
    direct = _double(source, target)
    return direct if excitation[0][0] % 2 != excitation[0][1] % 2 else direct - _double(source, target[::-1])


def _double(source: tuple[int, ...], target: tuple[int, ...]) -> Linear:
    (i, a), (j, b) = sorted(zip(source, target, strict=True))
    return Parameter(_name(((i, j), (a, b))))
