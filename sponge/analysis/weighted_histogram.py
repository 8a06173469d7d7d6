"""Probabilities of bins, with errors, from weighted and correlated samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triskele.core.extend import check

from .. import units
from .statistics import inefficiency

__all__ = ["angular", "check_bins", "free_energies", "weighted_histogram"]

# of a block in statistical inefficiencies: its mean is then too certain by a tenth in variance, a twentieth in error
_LENGTH = 5
_FEWEST, _MOST = 10, 200  # blocks
_FINE = 65_536  # samples from which the length of blocks is chosen; of longer series means of neighbors are used


def angular(x: np.ndarray, period: float) -> list[np.ndarray]:
    """Cosine and sine of a periodic quantity: what its slow motion can be seen in."""
    angle = 2 * np.pi / period * x
    return [np.cos(angle), np.sin(angle)]


def weighted_histogram(
    index: np.ndarray,  # (samples, series) int, bin of each sample
    weights: np.ndarray,  # (samples, series)
    bins: int,
    slow: Sequence[np.ndarray],  # (samples, series) each; blocks are so long that their weighted means are uncorrelated
    blocks: int | None,  # number over all series; None: chosen from `slow`
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the probability of each bin, its standard error (bins,), and the number of blocks of consecutive samples.

    With n_bk the weight of the samples of block b in bin k, and W_b that of the block, p_k = sum_b n_bk / sum_b W_b
    and, to first order in the residuals, sigma^2(p_k) = B / (B - 1) sum_b (n_bk - p_k W_b)^2 / (sum_b W_b)^2 (delta
    method for a ratio: Owen, Monte Carlo theory, methods and examples (2013), eq. 9.8). The error is infinite where
    fewer than two blocks decide, (sum_b n_bk)^2 < 2 sum_b n_bk^2.
    """
    n, series = index.shape
    total = weights.sum()
    if blocks is None:
        g = max(_inefficiency(weights * (x - np.sum(weights * x) / total)) for x in slow)
        blocks = int(np.clip(n * series / (_LENGTH * g), _FEWEST, _MOST))
    each = int(np.clip(round(blocks / series), 1, n))  # blocks of a series
    block = (np.arange(n) * each // n)[:, None] * series + np.arange(series)
    count = each * series
    flat = np.bincount((block * bins + index).ravel(), weights.ravel(), count * bins).reshape(count, bins)
    weight = flat.sum(1)
    probability = flat.sum(0) / total
    if count < 2:
        return probability, np.full(bins, np.inf), count
    error = np.sqrt(count / (count - 1) * np.sum((flat - weight[:, None] * probability) ** 2, axis=0)) / total
    error[flat.sum(0) ** 2 < 2 * np.sum(flat**2, axis=0)] = np.inf
    return probability, error, count


def free_energies(
    index: np.ndarray,
    weights: np.ndarray,
    bins: int,
    slow: Sequence[np.ndarray],
    temperature: float,
    blocks: int | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Free energy of each bin above the lowest and its standard error (kJ/mol), probability, and number of blocks.

    Both are infinite where nothing was sampled. The other arguments are those of `weighted_histogram`.
    """
    p, error, count = weighted_histogram(index, weights, bins, slow, blocks)
    kt = units.GAS_CONSTANT * temperature
    value, spread = np.full(bins, np.inf), np.full(bins, np.inf)
    seen = p > 0
    value[seen] = kt * np.log(p.max() / p[seen])
    spread[seen] = kt * error[seen] / p[seen]
    return value, spread, p, count


def check_bins(where: str, temperature: float, bins: int, blocks: int | None) -> None:
    """Raise ValueError unless the temperature is positive, and there is a bin and, if given, two blocks."""
    check.positive(temperature, f"{where}: temperature", "K")
    check.integer(bins, f"{where}: bins", 1)
    if blocks is not None:
        check.integer(blocks, f"{where}: blocks", 2)


def _inefficiency(y):
    together = -(-len(y) // _FINE)
    coarse = y[: len(y) // together * together].reshape(-1, together, y.shape[1]).mean(1)
    return together * inefficiency(coarse, 1.0)
