"""Means of correlated time series, with honest errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.sponge.analysis.trajectory import as_series, axes

__all__ = ["Blocking", "Mean", "block_average", "mean", "statistical_inefficiency"]


@dataclass(frozen=True)
class Mean:
    """See `mean`.

    Attributes
    ----------
    value, error : float
        Mean and its standard error.
    inefficiency : float
        So many samples count as one independent one.
    """

    value: float
    error: float
    inefficiency: float

    def __str__(self):
        return f"{self.value:.6g} ± {self.error:.2g}"


@dataclass(frozen=True)
class Blocking:
    """See `block_average`.

    Attributes
    ----------
    size : int array [levels]
        Samples in a block.
    error : array [levels]
        Standard error of the mean, were the blocks independent: it rises to a plateau, the true error.
    uncertainty : array [levels]
        Standard error of `error`.
    mean : float
    """

    size: np.ndarray
    error: np.ndarray
    uncertainty: np.ndarray
    mean: float

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the error against the size of blocks."""
        ax = axes(ax, xlabel="samples in a block", ylabel="standard error of the mean", xscale="log")
        ax.errorbar(self.size, self.error, self.uncertainty, **{"marker": "o", "markersize": 3, "capsize": 2, **style})
        ax.set_ylim(bottom=0)
        return ax


def statistical_inefficiency(x: Any) -> float:
    r"""How many correlated samples are worth one independent one.

    .. math:: g = 1 + 2 \sum_{t=1}^{T} (1 - t / N) C(t)

    with the normalised autocorrelation C, summed until C(t) + C(t + 1) is no longer positive, as it is for reversible
    dynamics (initial positive sequence: Geyer, Statist. Sci. 7, 473 (1992); g as in Chodera et al., J. Chem. Theory Comput.
    3, 26 (2007)).

    Parameters
    ----------
    x : array [samples]

    Returns
    -------
    float
        At least 1; 1 for a constant.
    """
    x = as_series("statistical_inefficiency", "x", x)
    n = len(x)
    x = x - x.mean()
    variance = x @ x / n
    if n < 4 or variance <= (1e-15 * max(1.0, np.abs(x).max())) ** 2:
        return 1.0
    spectrum = np.fft.rfft(x, 2 * n)
    correlation = np.fft.irfft((spectrum * spectrum.conj()).real, 2 * n)[:n] / (np.arange(n, 0, -1) * variance)
    g = 1.0
    for t in range(1, n - 1, 2):
        if correlation[t] + correlation[t + 1] <= 0:
            break
        g += 2 * ((1 - t / n) * correlation[t] + (1 - (t + 1) / n) * correlation[t + 1])
    return float(max(g, 1.0))


def mean(x: Any) -> Mean:
    """Mean of a correlated series, and its standard error sqrt(g var / N) with the inefficiency g.

    Examples
    --------
    >>> import numpy as np
    >>> result = mean(np.random.default_rng(0).normal(300.0, 2.0, 400))
    >>> bool(abs(result.value - 300) < 0.4 and 0.08 < result.error < 0.2)
    True
    """
    x = as_series("mean", "x", x)
    g = statistical_inefficiency(x)
    return Mean(float(x.mean()), float(np.sqrt(g * x.var(ddof=1 if len(x) > 1 else 0) / len(x))), g)


def block_average(x: Any) -> Blocking:
    """Standard error of the mean for blocks of 1, 2, 4, ... samples (Flyvbjerg and Petersen, J. Chem. Phys. 91, 461 (1989)).

    Parameters
    ----------
    x : array [samples]
        At least 4.

    Raises
    ------
    ValueError
        If there are fewer.
    """
    x = as_series("block_average", "x", x)
    if len(x) < 4:
        raise ValueError(f"block_average: at least 4 samples are needed, got {len(x)}")
    whole, size, sizes, errors, uncertain = float(x.mean()), 1, [], [], []
    while len(x) >= 4:
        error = np.sqrt(x.var() / (len(x) - 1))
        sizes.append(size)
        errors.append(error)
        uncertain.append(error / np.sqrt(2 * (len(x) - 1)))  # eq. 28
        x = 0.5 * (x[0:len(x) // 2 * 2:2] + x[1:len(x) // 2 * 2:2])
        size *= 2
    return Blocking(np.array(sizes), np.array(errors), np.array(uncertain), whole)
