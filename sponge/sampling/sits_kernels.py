"""Kernels of SITS."""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import kernel

from ..engine.flags import STEP

__all__ = ["factor", "record"]


@kernel(nogil=True)
def factor(chunk, biased, energies, cross, beta, betas, log_n, scales, row):
    """Factors of pp and pw forces, and the bias energy, from the enhanced energy E = U_pp + cross U_pw.

    With w_k = n_k exp(-beta_k E) / sum_k n_k exp(-beta_k E): U_eff - U = -E - ln(sum_k n_k exp(-beta_k E)) / beta and
    f_b = d(U_eff - U + E)/dE = sum_k w_k beta_k / beta. `biased` [1] is 0 where nothing is to be changed.
    """
    if biased[0] == 0:
        scales[0], scales[1], row[0, 0] = 1.0, 1.0, 0.0
        return
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
    scales[0], scales[1], row[0, 0] = f, 1.0 + cross * (f - 1.0), -e - (largest + math.log(total)) / beta


@kernel(nogil=True)
def record(chunk, flags, ahead, every, energies, cross, enhanced, mark, buffer, count):
    """Keep state number, U_pp and U_pw of every n-th state; energies are those of state flags[STEP] + ahead.

    `mark` [1] is the last state that was kept.
    """
    enhanced[0] = energies[0] + cross * energies[1]
    state = flags[STEP] + ahead
    if state % every == 0 and state != mark[0]:  # not again, when a later phase of the step had failed
        mark[0] = state
        k = count[0]
        buffer[k, 0], buffer[k, 1], buffer[k, 2] = state, energies[0], energies[1]
        count[0] = k + 1
