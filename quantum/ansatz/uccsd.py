"""Unitary coupled cluster with singles and doubles, in the order of `excitations`."""

from __future__ import annotations

from collections.abc import Sequence

from ..circuit import Circuit
from ..errors import CircuitError
from ..parameters import Linear, Parameter
from .excitations import Excitation, append_excitation, doubles, electrons, excitation_name, hartree_fock, singles

__all__ = ["uccsd"]


def uccsd(
    num_electrons: int | Sequence[int],
    num_qubits: int,
    *,
    generalized: bool = False,
    singlet: bool = False,
    reference: bool = True,
    mapping: str = "jordan_wigner",
) -> Circuit:
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
        raise CircuitError(
            f"uccsd: singlet needs a closed shell and no generalized excitations, got {alpha} alpha, "
            f"{beta} beta, generalized={generalized}"
        )
    circuit = hartree_fock((alpha, beta), num_qubits, mapping) if reference else Circuit(num_qubits)
    for excitations in (singles, doubles):
        for excitation in excitations(alpha, beta, num_qubits, generalized):
            t = _singlet_parameter(excitation) if singlet else Parameter(excitation_name(excitation))
            append_excitation(circuit, t, excitation, mapping)
    return circuit


def _singlet_parameter(excitation: Excitation) -> Linear:
    """Its amplitude in terms of spatial ones, t(ij -> ab) = t(ji -> ba), that do not depend on spin.

    Electrons of different spin: t(ij -> ab); of the same spin t(ij -> ab) - t(ij -> ba), for either electron may have
    gone to either place.
    """
    source, target = (tuple(p // 2 for p in modes) for modes in excitation)
    if len(source) == 1:
        return Parameter(excitation_name((source, target)))
    direct = _double(source, target)
    return direct if excitation[0][0] % 2 != excitation[0][1] % 2 else direct - _double(source, target[::-1])


def _double(source: tuple[int, ...], target: tuple[int, ...]) -> Linear:
    (i, a), (j, b) = sorted(zip(source, target, strict=True))
    return Parameter(excitation_name(((i, j), (a, b))))
