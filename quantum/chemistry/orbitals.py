"""Formulas over molecular orbitals: energies, perturbation theory, active spaces, full CI.

Integrals are h[p, q] and g[p, q, r, s] = (pq|rs) (chemists' notation) over real spatial orbitals.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import OperatorError
from ..operators.pauli import PauliSum

__all__ = ["checked", "core_orbitals", "determinant_energy", "determinants", "fold", "full_ci", "mp2", "spaces"]

_MOST_DETERMINANTS = 400_000
# atoms after each noble gas have its shells as core: (atomic number, orbitals)
_SHELLS = ((2, 1), (10, 5), (18, 9))
_ELEMENTS = "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr".split()


def checked(one_body: Any, two_body: Any) -> tuple[np.ndarray, np.ndarray]:
    """The integrals as read-only float64 arrays, if they have the symmetries of real orbitals."""
    h, g = np.array(one_body, float), np.array(two_body, float)
    n = len(h) if h.ndim else 0
    if n == 0 or h.shape != (n, n) or g.shape != (n, n, n, n):
        raise OperatorError(f"Molecule: integrals must be (n, n) and (n, n, n, n), got {h.shape} and {g.shape}")
    scale = 1e-8 * max(1.0, float(abs(g).max()))
    turned = (g.transpose(1, 0, 2, 3), g.transpose(0, 1, 3, 2), g.transpose(2, 3, 0, 1))
    if not (abs(h - h.T).max() <= scale and all(abs(g - t).max() <= scale for t in turned)):  # false for NaN too
        raise OperatorError(
            "Molecule: integrals must have h_pq = h_qp and (pq|rs) = (qp|rs) = (pq|sr) = (rs|pq) "
            "(chemists' notation, real orbitals)"
        )
    h.flags.writeable = g.flags.writeable = False
    return h, g


def determinant_energy(h: np.ndarray, g: np.ndarray, alpha: int, beta: int) -> float:
    """Energy of the determinant of the lowest orbitals: sum h_ii + 1/2 sum (ii|jj) - 1/2 sum over equal spins
    (ij|ji).
    """
    coulomb, exchange = np.einsum("iijj->ij", g), np.einsum("ijji->ij", g)
    energy = 0.0
    for a in (alpha, beta):
        energy += np.trace(h[:a, :a]) - 0.5 * exchange[:a, :a].sum()
        energy += sum(0.5 * coulomb[:a, :b].sum() for b in (alpha, beta))
    return float(energy)


def mp2(h: np.ndarray, g: np.ndarray, alpha: int, beta: int) -> tuple[float, np.ndarray]:
    """Correlation energy and t[i, j, a, b] of a closed shell.

    t = (ia|jb) / (e_i + e_j - e_a - e_b), E = sum t (2 (ia|jb) - (ib|ja)) (A. Szabo, N. Ostlund, Modern Quantum
    Chemistry, Dover 1996, section 6.5).
    """
    if alpha != beta:
        raise OperatorError(f"mp2: the molecule must have a closed shell, got spin={alpha - beta}")
    o = alpha
    e = np.diag(h) + 2 * np.einsum("ppii->p", g[:, :, :o, :o]) - np.einsum("piip->p", g[:, :o, :o, :])
    ovov = g[:o, o:, :o, o:].transpose(0, 2, 1, 3)  # i, j, a, b
    gap = e[:o, None, None, None] + e[:o, None, None] - e[o:, None] - e[o:]
    t = ovov / gap
    return float((t * (2 * ovov - ovov.transpose(0, 1, 3, 2))).sum()), t


def core_orbitals(symbol: str) -> int:
    """Orbitals in the noble-gas core of an atom up to krypton."""
    if symbol not in _ELEMENTS:
        raise OperatorError(f"frozen_core: {symbol!r} must be an element up to Kr (use active_space)")
    return max((orbitals for z, orbitals in _SHELLS if _ELEMENTS.index(symbol) + 1 > z), default=0)


def spaces(n: int, alpha: int, beta: int, electrons: int, wanted: int | Sequence[int]) -> tuple[list[int], list[int]]:
    """Frozen and active ones of n orbitals."""
    frozen = alpha + beta - electrons
    if frozen < 0 or frozen % 2 or electrons < alpha - beta:
        raise OperatorError(
            f"active_space: of {alpha + beta} electrons ({alpha - beta} unpaired) an even "
            f"number must be frozen, got {electrons} active"
        )
    if isinstance(wanted, (int, np.integer)):
        active = list(range(frozen // 2, frozen // 2 + int(wanted)))
    else:
        active = sorted(int(p) for p in wanted)
    core = [p for p in range(beta) if p not in active][: frozen // 2]
    if (
        len(set(active)) != len(active)
        or not active
        or active[0] < 0
        or active[-1] >= n
        or len(core) < frozen // 2
        or electrons > 2 * len(active)
    ):
        raise OperatorError(
            f"active_space: {electrons} electrons in orbitals {active} do not fit ({n} orbitals, "
            f"{frozen // 2} of them frozen)"
        )
    return core, active


def fold(h: np.ndarray, g: np.ndarray, core: list[int]) -> tuple[float, np.ndarray]:
    """Energy of doubly occupied core orbitals, and h with their mean field."""
    mean = h + 2 * np.einsum("pqii->pq", g[:, :, core][:, :, :, core]) - np.einsum("piiq->pq", g[:, core][:, :, core])
    return float(np.trace((h + mean)[np.ix_(core, core)])), mean


def determinants(num_orbitals: int, alpha: int, beta: int) -> np.ndarray:
    """Bit strings with these numbers of electrons in even and odd modes, rising, int64."""
    up, down = (
        np.array([sum(1 << 2 * p + spin for p in c) for c in combinations(range(num_orbitals), k)], np.int64)
        for spin, k in ((0, alpha), (1, beta))
    )
    return np.sort((up[:, None] | down).reshape(-1))


def full_ci(hamiltonian: PauliSum, n: int, alpha: int, beta: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The k lowest energies of electrons in n orbitals, vectors (determinants, k), and the determinants; see
    `Molecule.eigenstates`.
    """
    from scipy.linalg import eigh
    from scipy.sparse.linalg import eigsh

    size = comb(n, alpha) * comb(n, beta)
    if size > _MOST_DETERMINANTS:
        raise OperatorError(f"fci: at most {_MOST_DETERMINANTS} determinants, got {size} (choose an active space)")
    check.integer(k, "eigenstates: k", 1, size, error=OperatorError)
    basis = determinants(n, alpha, beta)
    h = hamiltonian.block(basis).real
    if size <= 256 or k >= size // 2:
        values, vectors = eigh(h.toarray(), subset_by_index=(0, k - 1))
    else:
        # near Hartree-Fock for speed, and a little of everything: Lanczos never leaves the symmetry of its start
        start = 0.05 / np.sqrt(size) * np.random.default_rng(0).normal(size=size)
        start[0] += 1.0
        values, vectors = eigsh(h, k=k, which="SA", v0=start, ncv=min(size, max(2 * k + 1, 20)))
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
    return values, vectors, basis
