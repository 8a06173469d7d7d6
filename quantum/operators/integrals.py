"""Electronic Hamiltonians from one- and two-electron integrals."""

from __future__ import annotations

import numpy as np

from ..errors import OperatorError
from .mapping import Ladders, encode, encoding
from .pauli import PauliSum

__all__ = ["electronic_hamiltonian", "ladders"]


def ladders(one_body: np.ndarray, two_body: np.ndarray, spin_orbitals: bool) -> list[Ladders]:
    """Terms of `FermionOperator.from_integrals`, but for the constant; normal ordered, each product once."""
    h, g = np.asarray(one_body), np.asarray(two_body)
    n = len(h) if h.ndim else 0
    if h.shape != (n, n) or g.shape != (n, n, n, n):
        raise OperatorError(f"from_integrals: arrays (n, n) and (n, n, n, n) are needed, got {h.shape} and {g.shape}")
    if not (np.isfinite(h).all() and np.isfinite(g).all()):
        raise OperatorError("from_integrals: integrals must be finite")
    p, q = np.nonzero(h)
    one, c1 = np.stack([p, q], 1), h[p, q].astype(complex)
    two, c2 = _same_spin(g)
    if not spin_orbitals:
        one, c1 = np.concatenate([2 * one, 2 * one + 1]), np.tile(c1, 2)
        mixed, c3 = _opposite_spins(g)
        two, c2 = np.concatenate([2 * two, 2 * two + 1, mixed]), np.concatenate([c2, c2, c3])
    return [
        Ladders(one, np.tile([True, False], (len(one), 1)), c1),
        Ladders(two, np.tile([True, True, False, False], (len(two), 1)), c2),
    ]


def _same_spin(g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1/2 sum (pq|rs) a_p^dagger a_r^dagger a_s a_q with p > r and s > q: modes in this order, and coefficients."""
    t = 0.5 * g.transpose(0, 2, 3, 1)  # p, r, s, q
    t = t - t.transpose(1, 0, 2, 3)
    t = t - t.transpose(0, 1, 3, 2)
    above = np.tri(len(g), k=-1, dtype=bool)
    modes = np.argwhere((t != 0) & above[:, :, None, None] & above)
    return modes, t[tuple(modes.T)].astype(complex)


def _opposite_spins(g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """sum (pq|rs) a_p^dagger a_R^dagger a_S a_q, capitals being beta: modes in normal order, and coefficients."""
    t = (0.5 * (g + g.transpose(2, 3, 0, 1))).transpose(0, 2, 3, 1)
    places = np.argwhere(t)
    modes, c = 2 * places + [0, 1, 1, 0], t[tuple(places.T)].astype(complex)
    for left in (0, 2):  # creation and annihilation: the higher mode first
        swap = modes[:, left] < modes[:, left + 1]
        modes[swap, left], modes[swap, left + 1] = modes[swap, left + 1], modes[swap, left]
        c = np.where(swap, -c, c)
    return modes, c


def electronic_hamiltonian(
    one_body: np.ndarray, two_body: np.ndarray, constant: float = 0.0, mapping: str = "jordan_wigner"
) -> PauliSum:
    """The Hamiltonian of `FermionOperator.from_integrals` on qubits, straight from integrals over spatial orbitals.

    Coefficients that are rounding alone (1e-14 of the largest) are left out.
    """
    h = encode(ladders(one_body, two_body, False), encoding(mapping, 2 * len(one_body))) + constant
    return h.simplify(1e-14 * float(np.max(abs(h.coefficients), initial=0.0)))
