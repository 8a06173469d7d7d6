"""Kernels of SITS."""

from __future__ import annotations

import math

import numpy as np

from triskele.core.kernels.njit import kernel

__all__ = ["factor"]


@kernel(nogil=True)
def factor(chunk, biased, energies, cross, beta, betas, log_n, scales, row, values):
    """Factors of pp and pw forces, and the bias energy, from the enhanced energy E = U_pp + cross U_pw.

    With w_k = n_k exp(-beta_k E) / sum_k n_k exp(-beta_k E): U_eff - U = -E - ln(sum_k n_k exp(-beta_k E)) / beta and
    f_b = d(U_eff - U + E)/dE = sum_k w_k beta_k / beta. `values` gets E, f_b and ln(sum_k ...); `biased` [1] is 0 where
    nothing is to be changed.
    """
    e = energies[0] + cross * energies[1]
    largest = -np.inf
    for k in range(len(betas)):
        largest = max(largest, log_n[k] - betas[k] * e)
    total = mean = 0.0
    for k in range(len(betas)):
        w = math.exp(log_n[k] - betas[k] * e - largest)
        total += w
        mean += w * betas[k]
    f = mean / total / beta
    values[0], values[1], values[2] = e, f, largest + math.log(total)
    if biased[0]:
        scales[0], scales[1], row[0, 0] = f, 1.0 + cross * (f - 1.0), -e - values[2] / beta
    else:
        scales[0], scales[1], row[0, 0] = 1.0, 1.0, 0.0
