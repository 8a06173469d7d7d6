"""Density matrices as vectors of Pauli expectation values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from triskele.core.extend import kernel, simd

from ...operators.sparse import walsh

__all__ = ["PauliVector"]


class PauliVector:
    """r[P] = Tr(P rho) for all Pauli strings P, some qubits of the index being dummies in state r = (1, 0, 0, 0).

    Base-4 digit `where[q]` of an index of `r` (4**m,) is the letter on qubit q: x + 2 z of X^x Z^z (Y = i X Z).
    """

    def __init__(self, r: np.ndarray, where: list[int]):
        self.r, self.where = r, where

    @classmethod
    def zero(cls, num_qubits: int, positions: int) -> PauliVector:
        """The state |0...0>."""
        self = cls(np.zeros(4**positions), list(range(positions - num_qubits, positions)))
        self.r[self.spread(1)] = 1.0
        return self

    @classmethod
    def of(cls, rho: np.ndarray, positions: int) -> PauliVector:
        """The vector of a density matrix (2**n, 2**n), or of a state (2**n,)."""
        n = len(rho).bit_length() - 1
        self = cls(np.zeros(4**positions), list(range(positions - n, positions)))
        if rho.ndim == 1:
            rho = np.outer(rho, rho.conj())
        _from_matrix(np.ascontiguousarray(rho, complex), self.spread(0), self.spread(1), self.r)
        return self

    def copy(self) -> PauliVector:
        """A state of its own."""
        return PauliVector(self.r.copy(), list(self.where))

    def arranged(self, where: list[int]) -> PauliVector:
        """The same state with the qubits at these positions; itself if they are there."""
        if self.where == where:
            return self
        m = (self.r.size.bit_length() - 1) // 2
        old = [*self.where, *(p for p in range(m) if p not in self.where)]
        new = [*where, *(p for p in range(m) if p not in where)]
        axes = [0] * m  # axis m - 1 - p of an array of digits is position p
        for a, b in zip(old, new, strict=True):
            axes[m - 1 - b] = m - 1 - a
        return PauliVector(self.r.reshape((4,) * m).transpose(axes).reshape(-1), list(where))

    def spread(self, bit: int) -> np.ndarray:
        """(2**n,) int64: index of the string whose x (bit 0) or z (bit 1) has bits j on the qubits, for each j."""
        out = np.zeros(1, np.int64)
        for p in self.where:
            out = np.concatenate([out, out | 1 << (2 * p + bit)])
        return out

    def matrix(self) -> np.ndarray:
        """The density matrix (2**n, 2**n)."""
        size = 1 << len(self.where)
        rho = np.empty((size, size), complex)
        _to_matrix(self.r, self.spread(0), self.spread(1), rho)
        return rho

    def diagonal(self, letters: Mapping[int, str] | None = None) -> np.ndarray:
        """Probabilities (2**n,) of the basis states, each qubit in the eigenbasis of its letter (Z when it has
        none).
        """
        strings = np.zeros(1, np.int64)
        for q, p in enumerate(self.where):
            digit = "IXZY".index((letters or {}).get(q, "Z"))
            strings = np.concatenate([strings, strings | digit << 2 * p])
        out = self.r[strings] / (1 << len(self.where))
        walsh(out)
        return out

    def indices(self, h: Any) -> np.ndarray:
        """Index of each string of a PauliSum."""
        spread_x, spread_z = self.spread(0), self.spread(1)
        return spread_x[h.x[:, 0].astype(np.int64)] + spread_z[h.z[:, 0].astype(np.int64)]


@kernel(nogil=True)
def _to_matrix(r, spread_x, spread_z, rho):
    # P|j> = i**|x&z| (-1)**|j&z| |j^x>, so rho[j^x, j] = sum over z of r[x, z] i**|x&z| (-1)**|j&z| / 2**n
    size = len(rho)
    re, im = np.empty(size), np.empty(size)
    for x in range(size):
        for z in range(size):
            value, quarter = r[spread_x[x] + spread_z[z]] / size, simd.popcount(x & z) & 3
            re[z] = value if quarter == 0 else -value if quarter == 2 else 0.0
            im[z] = value if quarter == 1 else -value if quarter == 3 else 0.0
        walsh(re)
        walsh(im)
        for j in range(size):
            rho[j ^ x, j] = complex(re[j], im[j])


@kernel(nogil=True)
def _from_matrix(rho, spread_x, spread_z, r):
    size = len(rho)
    re, im = np.empty(size), np.empty(size)
    for x in range(size):
        for j in range(size):
            re[j], im[j] = rho[j, j ^ x].real, rho[j, j ^ x].imag
        walsh(re)
        walsh(im)
        for z in range(size):
            quarter = simd.popcount(x & z) & 3
            r[spread_x[x] + spread_z[z]] = (
                re[z] if quarter == 0 else -im[z] if quarter == 1 else -re[z] if quarter == 2 else im[z]
            )
