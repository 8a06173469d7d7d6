"""Electrons of a molecule in its molecular orbitals."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import OperatorError
from ..operators.fermion import FermionOperator
from ..operators.integrals import electronic_hamiltonian, ladders
from ..operators.mapping import reduced_parity
from ..operators.pauli import PauliSum
from . import orbitals as formulas

__all__ = ["Molecule"]

Geometry = tuple[tuple[str, tuple[float, float, float]], ...]


class Molecule:
    """A molecule's electrons: integrals over Hartree-Fock orbitals, energies, Hamiltonians on qubits.

    Constructing a molecule runs a restricted (for open shells: restricted open-shell) Hartree-Fock calculation with
    PySCF (extra `chem`); `molecules.load` returns stored molecules, and `from_integrals` accepts the integrals of
    another program. Spin orbitals alternate: qubit 2 p is orbital p with spin up (alpha), qubit 2 p + 1 the same with
    spin down (beta). Energies are in hartree.

    Parameters
    ----------
    geometry : str or sequence of (symbol, (x, y, z))
        `"Li 0 0 0; H 0 0 1.5"`, in angstrom unless `unit` is "bohr".
    basis : str
        A basis set by its name.
    charge : int
        Total charge, in units of the elementary charge.
    spin : int
        2 S = number of alpha minus number of beta electrons.
    unit : str
        "angstrom" or "bohr".

    Attributes
    ----------
    geometry, basis, charge, spin
        The arguments, with the geometry in angstrom.
    one_body : (n, n) float64 array
        <p|h|q> over n spatial orbitals.
    two_body : (n, n, n, n) float64 array
        (pq|rs), chemists' notation.
    constant : float
        Nuclear repulsion plus the energy of frozen electrons.
    num_electrons : int

    Raises
    ------
    OperatorError
        If the geometry cannot be read, an element or the basis is unknown, or charge and spin do not match.
    RuntimeError
        If Hartree-Fock does not converge.

    Examples
    --------
    >>> from triskele import quantum
    >>> h2 = quantum.molecules.load("H2")
    >>> h2.num_qubits, round(h2.fci_energy, 6)
    (4, -1.137306)
    >>> len(h2.hamiltonian), h2.hamiltonian.num_qubits
    (15, 4)
    """

    def __init__(
        self,
        geometry: str | Sequence[tuple[str, Sequence[float]]],
        basis: str = "sto-3g",
        charge: int = 0,
        spin: int = 0,
        *,
        unit: str = "angstrom",
    ):
        from .hartree_fock import hartree_fock

        found = hartree_fock(geometry, basis, charge, spin, unit)
        self._set(
            found.one_body, found.two_body, found.constant, found.num_electrons, spin, found.geometry, basis, charge
        )
        self._mean_field = found.mean_field

    @classmethod
    def from_integrals(
        cls,
        one_body: np.ndarray,
        two_body: np.ndarray,
        constant: float,
        num_electrons: int,
        spin: int = 0,
        *,
        geometry: Geometry = (),
        basis: str = "",
        charge: int = 0,
        energies: dict[str, float] | None = None,
    ) -> Molecule:
        """Return a molecule with known integrals, over orbitals whose lowest ones are occupied; arguments are the
        attributes.

        Raises
        ------
        OperatorError
            If shapes do not match, the integrals lack the symmetries of real orbitals, or there are too many electrons.
        """
        new = cls.__new__(cls)
        new._set(one_body, two_body, constant, num_electrons, spin, geometry, basis, charge)
        new.__dict__.update({f"{name}_energy": float(value) for name, value in (energies or {}).items()})
        new._mean_field = None
        return new

    def _set(
        self,
        one_body: Any,
        two_body: Any,
        constant: float,
        num_electrons: int,
        spin: int,
        geometry: Geometry,
        basis: str,
        charge: int,
    ) -> None:
        self.one_body, self.two_body = formulas.checked(one_body, two_body)
        alpha, rest = divmod(num_electrons + spin, 2)
        n = len(self.one_body)
        if rest or spin < 0 or spin > num_electrons or alpha > n:
            raise OperatorError(
                f"Molecule: {num_electrons} electrons in {n} orbitals cannot have spin={spin} (2 S: "
                f"alpha minus beta electrons)"
            )
        self.constant, self.num_electrons, self.spin = float(constant), int(num_electrons), int(spin)
        self.geometry, self.basis, self.charge = geometry, basis, charge

    # -- what is in it ----------------------------------------------------------------------------------------------

    @property
    def num_orbitals(self) -> int:
        """Spatial orbitals."""
        return len(self.one_body)

    @property
    def num_qubits(self) -> int:
        """Spin orbitals."""
        return 2 * self.num_orbitals

    @property
    def num_alpha(self) -> int:
        """Electrons with spin up."""
        return (self.num_electrons + self.spin) // 2

    @property
    def num_beta(self) -> int:
        """Electrons with spin down."""
        return (self.num_electrons - self.spin) // 2

    @property
    def occupied(self) -> list[int]:
        """Spin orbitals of the Hartree-Fock determinant."""
        return sorted([*range(0, 2 * self.num_alpha, 2), *range(1, 2 * self.num_beta, 2)])

    def __repr__(self) -> str:
        atoms = "".join(symbol for symbol, _ in self.geometry) or "integrals"
        return f"Molecule({atoms}, {self.num_electrons} electrons in {self.num_orbitals} orbitals)"

    # -- operators --------------------------------------------------------------------------------------------------

    @functools.cached_property
    def hamiltonian(self) -> PauliSum:
        """The Hamiltonian after Jordan-Wigner; for other mappings see `to_qubits`."""
        return self.to_qubits("jordan_wigner")

    def to_qubits(self, mapping: str = "jordan_wigner") -> PauliSum:
        """The Hamiltonian on qubits.

        Parameters
        ----------
        mapping : str
            "jordan_wigner", "parity", "bravyi_kitaev", or "reduced_parity": parity without the two qubits that spin and
            number of electrons fix.

        Raises
        ------
        OperatorError
            If the mapping is unknown.
        """
        if mapping == "reduced_parity":
            h = (
                reduced_parity(
                    ladders(self.one_body, self.two_body, False), self.num_qubits, (self.num_alpha, self.num_beta)
                )
                + self.constant
            )
            return h.simplify(1e-14 * float(np.max(abs(h.coefficients))))
        return electronic_hamiltonian(self.one_body, self.two_body, self.constant, mapping)

    def fermion_operator(self) -> FermionOperator:
        """The Hamiltonian in creation and annihilation operators."""
        return FermionOperator.from_integrals(self.one_body, self.two_body, self.constant)

    # -- energies ---------------------------------------------------------------------------------------------------

    @functools.cached_property
    def hf_energy(self) -> float:
        """Energy of the Hartree-Fock determinant."""
        return self.constant + formulas.determinant_energy(self.one_body, self.two_body, self.num_alpha, self.num_beta)

    @functools.cached_property
    def mp2_energy(self) -> float:
        """Second-order Moeller-Plesset energy of a closed shell.

        Raises
        ------
        OperatorError
            For an open shell.
        """
        return self.hf_energy + self._mp2()[0]

    def _mp2(self) -> tuple[float, np.ndarray]:
        return formulas.mp2(self.one_body, self.two_body, self.num_alpha, self.num_beta)

    def mp2_amplitudes(self) -> np.ndarray:
        """First-order doubles t[i, j, a, b] of a closed shell: a start for UCCSD; (occupied, occupied, virtual,
        virtual).
        """
        return self._mp2()[1]

    @functools.cached_property
    def ccsd_energy(self) -> float:
        """Coupled-cluster energy with singles and doubles, of a molecule that PySCF made (extra `chem`) or that is
        stored.

        Raises
        ------
        OperatorError
            If only integrals are known.
        RuntimeError
            If it does not converge.
        """
        from .hartree_fock import ccsd

        return ccsd(self._mean_field)

    @functools.cached_property
    def fci_energy(self) -> float:
        """The exact lowest energy with these numbers of alpha and beta electrons, by Lanczos in the space of their
        determinants.

        Raises
        ------
        OperatorError
            If there are more than 400,000 determinants.
        """
        return float(self._full_ci(1)[0][0])

    def _full_ci(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return formulas.full_ci(self.hamiltonian, self.num_orbitals, self.num_alpha, self.num_beta, k)

    def eigenstates(self, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The k lowest energies (k,) with these numbers of electrons, and states (2**num_qubits, k) after
        Jordan-Wigner.

        Raises
        ------
        OperatorError
            If there are more than 400,000 determinants, or fewer than k.
        """
        values, vectors, basis = self._full_ci(k)
        states = np.zeros((1 << self.num_qubits, k), complex)
        states[basis] = vectors
        return values, states

    # -- smaller spaces ---------------------------------------------------------------------------------------------

    def active_space(self, electrons: int, orbitals: int | Sequence[int]) -> Molecule:
        """The molecule with some electrons in some orbitals; the other electrons stay in the lowest orbitals left over,
        pairwise.

        Parameters
        ----------
        electrons : int
        orbitals : int or sequence of int
            Number of orbitals above the frozen ones, or indices of orbitals.

        Raises
        ------
        OperatorError
            If the frozen electrons are an odd or negative number, or an orbital does not exist.

        Examples
        --------
        >>> from triskele import quantum
        >>> quantum.molecules.load("LiH").active_space(2, 3)
        Molecule(LiH, 2 electrons in 3 orbitals)
        """
        core, active = formulas.spaces(self.num_orbitals, self.num_alpha, self.num_beta, electrons, orbitals)
        shift, one_body = formulas.fold(self.one_body, self.two_body, core)
        two_body = self.two_body[np.ix_(active, active, active, active)]
        return Molecule.from_integrals(
            one_body[np.ix_(active, active)],
            two_body,
            self.constant + shift,
            electrons,
            self.spin,
            geometry=self.geometry,
            basis=self.basis,
            charge=self.charge,
        )

    def frozen_core(self) -> Molecule:
        """The molecule with the inner shells of its atoms frozen."""
        core = sum(formulas.core_orbitals(symbol) for symbol, _ in self.geometry)
        return self.active_space(self.num_electrons - 2 * core, self.num_orbitals - core)
