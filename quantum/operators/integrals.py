"""Electronic Hamiltonians from one- and two-electron integrals."""

from __future__ import annotations

import numpy as np

from triskele.quantum.errors import OperatorError
from triskele.quantum.operators.mapping import Ladders, encode, encoding
from triskele.quantum.operators.pauli import PauliSum

__all__ = ["electronic_hamiltonian", "ladders"]


def ladders(one_body: np.ndarray, two_body: np.ndarray, spin_orbitals: bool) -> list[Ladders]:
    """Terms of `FermionOperator.from_integrals`, but for the constant; those that vanish are left out."""
    h, g = np.asarray(one_body), np.asarray(two_body)
    n = len(h) if h.ndim else 0
    if h.shape != (n, n) or g.shape != (n, n, n, n):
        raise OperatorError(f"from_integrals: arrays (n, n) and (n, n, n, n) are needed, got {h.shape} and {g.shape}")
    if not (np.isfinite(h).all() and np.isfinite(g).all()):
        raise OperatorError("from_integrals: integrals must be finite")
    p, q = np.nonzero(h)
    p2, q2, r2, s2 = np.nonzero(g)
    one, two = np.stack([p, q], 1), np.stack([p2, r2, s2, q2], 1)
    c1, c2 = h[p, q].astype(complex), 0.5 * g[p2, q2, r2, s2].astype(complex)
    if not spin_orbitals:
        spins = np.array([[a, b, b, a] for a in (0, 1) for b in (0, 1)])
        one, c1 = np.concatenate([2 * one, 2 * one + 1]), np.tile(c1, 2)
        two, c2 = (2 * two + spins[:, None]).reshape(-1, 4), np.tile(c2, 4)
    different = (two[:, 0] != two[:, 1]) & (two[:, 2] != two[:, 3])  # nothing is created or annihilated twice
    two, c2 = two[different], c2[different]
    return [Ladders(one, np.tile([True, False], (len(one), 1)), c1), Ladders(two, np.tile([True, True, False, False], (len(two), 1)), c2)]


def electronic_hamiltonian(one_body: np.ndarray, two_body: np.ndarray, constant: float = 0.0, mapping: str = "jordan_wigner") -> PauliSum:
    """The Hamiltonian of `FermionOperator.from_integrals` on qubits, straight from integrals over spatial orbitals.

    Coefficients that are rounding alone (1e-14 of the largest) are left out.
    """
    h = encode(ladders(one_body, two_body, False), encoding(mapping, 2 * len(one_body))) + constant
    return h.simplify(1e-14 * float(np.max(abs(h.coefficients), initial=0.0)))
