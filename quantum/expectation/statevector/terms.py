"""Expectation values of single Pauli strings: derivatives of an energy with respect to its coefficients."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import kernel, simd

from ...operators.sparse import walsh

__all__ = ["term_values"]


def term_values(x: np.ndarray, z: np.ndarray, bra: np.ndarray, ket: np.ndarray) -> np.ndarray:
    """Return Re <bra|P|ket> (T,) of Pauli strings P, for complex128 states (N,) and int64 masks (T,) sorted by `x`."""
    out = np.zeros(len(x))
    _term_values(x, z, np.bitwise_count(x & z).astype(np.int64) & 3, bra, ket, out)
    return out


@kernel(nogil=True)
def _term_values(x, z, power, bra, ket, out):
    # A Walsh-Hadamard transform of conj(bra[j ^ x]) ket[j] over j has the values for all z at once.
    n = ket.size
    products = np.empty(n, np.complex128)
    for t in range(x.size):
        if t == 0 or x[t] != x[t - 1]:
            for j in range(n):
                products[j] = bra[j ^ x[t]].conjugate() * ket[j]
            following = t + 1
            while following < x.size and x[following] == x[t]:
                following += 1
            few = following - t < 4
            if not few:
                walsh(products)
        total = 0j
        if few:
            for j in range(n):
                total += (1.0 - 2.0 * simd.parity(j & z[t])) * products[j]
        else:
            total = products[z[t]]
        p = power[t]
        out[t] = total.real if p == 0 else -total.imag if p == 1 else -total.real if p == 2 else total.imag
