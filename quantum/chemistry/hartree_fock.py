"""Hartree-Fock and coupled cluster by PySCF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import check, optional

from ..errors import OperatorError

__all__ = ["HartreeFock", "ccsd", "hartree_fock"]

_BOHR = 0.529177210903  # angstrom; CODATA 2018 (Rev. Mod. Phys. 93, 025010 (2021))
_TOLERANCE = 1e-12  # hartree: integrals then agree between runs to about 1e-7


class HartreeFock(NamedTuple):
    """Result of a calculation."""

    one_body: np.ndarray
    two_body: np.ndarray
    constant: float
    num_electrons: int
    geometry: tuple[tuple[str, tuple[float, float, float]], ...]
    mean_field: Any


def hartree_fock(
    geometry: str | Sequence[tuple[str, Sequence[float]]], basis: str, charge: int, spin: int, unit: str
) -> HartreeFock:
    """Restricted Hartree-Fock, open-shell where `spin` is not 0; see `Molecule`."""
    atoms = read_geometry(geometry, unit)
    gto, scf, ao2mo = (optional.need(f"pyscf.{name}", "Molecule", "chem") for name in ("gto", "scf", "ao2mo"))
    try:
        molecule = gto.M(atom=atoms, unit=unit, basis=basis, charge=charge, spin=spin, verbose=0)
    except Exception as error:  # PySCF raises KeyError, RuntimeError, BasisNotFoundError ...
        raise OperatorError(
            f"Molecule: PySCF cannot set up {atoms} with basis={basis!r}, charge={charge}, spin={spin}: {error}"
        ) from error
    mean_field = (scf.ROHF if spin else scf.RHF)(molecule)
    mean_field.conv_tol = _TOLERANCE
    mean_field.kernel()
    if not mean_field.converged:
        raise RuntimeError(
            "Molecule: Hartree-Fock did not converge (another geometry or basis, or integrals from a "
            "program where it can be helped)"
        )
    orbitals = mean_field.mo_coeff
    # signs of orbitals are free: the largest coefficient is positive here
    orbitals = orbitals * np.sign(orbitals[np.argmax(abs(orbitals).round(6), axis=0), np.arange(orbitals.shape[1])])
    n = orbitals.shape[1]
    one_body = orbitals.T @ mean_field.get_hcore() @ orbitals
    two_body = ao2mo.restore(1, ao2mo.kernel(molecule, orbitals), n)
    one_body, two_body = (np.where(abs(a) > 1e-13, a, 0.0) for a in (one_body, two_body))
    if unit == "bohr":
        atoms = tuple((s, (x * _BOHR, y * _BOHR, z * _BOHR)) for s, (x, y, z) in atoms)
    return HartreeFock(
        0.5 * (one_body + one_body.T), two_body, float(molecule.energy_nuc()), molecule.nelectron, atoms, mean_field
    )


def ccsd(mean_field: Any) -> float:
    """Total CCSD energy of a converged Hartree-Fock calculation."""
    if mean_field is None:
        raise OperatorError("ccsd: the molecule must come from a geometry through PySCF, got integrals alone")
    calculation = optional.need("pyscf.cc", "ccsd", "chem").CCSD(mean_field)
    calculation.conv_tol, calculation.conv_tol_normt = 1e-10, 1e-8
    calculation.kernel()
    if not calculation.converged:
        raise RuntimeError("ccsd: coupled cluster did not converge")
    return float(calculation.e_tot)


def read_geometry(geometry: Any, unit: str) -> tuple[tuple[str, tuple[float, float, float]], ...]:
    """Atoms and positions, checked."""
    check.choice(unit, ("angstrom", "bohr"), "Molecule: unit", error=OperatorError)
    rows = (
        [r.split() for r in geometry.replace("\n", ";").split(";") if r.strip()]
        if isinstance(geometry, str)
        else [[s, *r] for s, r in geometry]
    )
    atoms = []
    for row in rows:
        try:
            symbol, *place = row
            x, y, z = (float(v) for v in place)
        except (TypeError, ValueError):
            raise OperatorError(
                f"Molecule: an atom must be a symbol and three coordinates such as 'Li 0 0 1.5', got {row}"
            ) from None
        if not np.isfinite([x, y, z]).all():
            raise OperatorError(f"Molecule: coordinates must be finite, got {row}")
        atoms.append((str(symbol), (x, y, z)))
    if not atoms:
        raise OperatorError("Molecule: at least one atom is needed")
    for k, (_, a) in enumerate(atoms):
        for _, b in atoms[:k]:
            if np.linalg.norm(np.subtract(a, b)) < 1e-3:
                raise OperatorError(f"Molecule: atoms must be apart, got two at {a}")
    return tuple(atoms)
