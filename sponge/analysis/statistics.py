"""Means of correlated time series, weighted or not, with honest errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import plots, short_repr

from .trajectory import as_series

__all__ = ["Blocking", "Mean", "block_average", "effective_samples", "mean", "statistical_inefficiency"]

_STRETCHES = 20  # in a series, one of which must not decide the mean


@short_repr
@dataclass(frozen=True)
class Mean:
    """See `mean`.

    Attributes
    ----------
    value, error : float
        Mean and its standard error. The error is infinite where one short stretch of the samples decides the mean, and
        NaN where it cannot be known: see `mean`.
    inefficiency : float
        Number of samples that count as one independent sample.
    """

    value: float
    error: float
    inefficiency: float

    def __str__(self):
        return f"{self.value:.6g}" + (f" ± {self.error:.2g}" if np.isfinite(self.error) else " (error unknown)")


@short_repr
@dataclass(frozen=True)
class Blocking:
    """See `block_average`.

    Attributes
    ----------
    size : (levels,) int
        Samples in a block.
    error : (levels,) array
        Standard error of the mean, were the blocks independent: it rises to a plateau, the true error.
    uncertainty : (levels,) array
        Standard error of `error`.
    mean : float
    """

    size: np.ndarray
    error: np.ndarray
    uncertainty: np.ndarray
    mean: float

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the error against the size of blocks."""
        with plots.axes(ax, xlabel="samples in a block", ylabel="standard error of the mean", xscale="log") as ax:
            ax.errorbar(self.size, self.error, self.uncertainty, **{"marker": "o", **line})
            ax.set_ylim(bottom=0)
        return ax


def statistical_inefficiency(x: Any) -> float:
    r"""Return the statistical inefficiency: the number of correlated samples worth one independent sample.

    .. math:: g = 1 + 2 \sum_{t=1}^{T} (1 - t / N) C(t)

    with the normalized autocorrelation C, summed until C(t) + C(t + 1) is no longer positive, as it is for reversible
    dynamics (initial positive sequence: Geyer, Statist. Sci. 7, 473 (1992); g as in Chodera et al., J. Chem. Theory
    Comput. 3, 26 (2007)).

    Parameters
    ----------
    x : (samples,) array

    Returns
    -------
    float
        At least 1; 1 for a constant.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import analysis
    >>> x = np.random.default_rng(0).normal(size=4096)
    >>> bool(analysis.statistical_inefficiency(np.repeat(x, 5)) > 4)
    True
    """
    x = as_series("statistical_inefficiency", "x", x)
    return inefficiency((x - x.mean())[:, None], float(np.abs(x).max()))


def inefficiency(deviations: np.ndarray, scale: float = 0.0) -> float:
    """Return the statistical inefficiency of deviations (samples, series) from a common mean.

    The autocorrelation is pooled over all series, so series that stay at different values count as correlated for as
    long as they last. A root mean square deviation up to 1e-15 max(1, scale) is rounding error and yields 1.
    """
    n = len(deviations)
    variance = np.mean(deviations**2)
    if n < 4 or variance <= (1e-15 * max(1.0, scale)) ** 2:
        return 1.0
    spectrum = np.fft.rfft(deviations, 2 * n, axis=0)
    power = np.mean(spectrum.real**2 + spectrum.imag**2, axis=1)
    correlation = np.fft.irfft(power, 2 * n)[:n] / (np.arange(n, 0, -1) * variance)
    g = 1.0
    for t in range(1, n - 1, 2):
        if correlation[t] + correlation[t + 1] <= 0:
            break
        g += 2 * ((1 - t / n) * correlation[t] + (1 - (t + 1) / n) * correlation[t + 1])
    return float(max(g, 1.0))


def as_weighted(where: str, x: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Samples [samples, series] and their weights of the same shape, whose mean is 1."""
    x = np.asarray(x, np.float64)
    if x.ndim not in (1, 2) or not x.size:
        raise ValueError(
            f"{where}: samples must have shape [samples] or [samples, series], none of them 0, got {x.shape}"
        )
    if not np.isfinite(x).all():
        first = np.argwhere(~np.isfinite(x))[0]
        raise ValueError(f"{where}: samples must be finite, got {x[tuple(first)]} at {', '.join(map(str, first))}")
    try:
        w = np.broadcast_to(1.0 if weights is None else np.asarray(weights, np.float64), x.shape)
    except ValueError:
        raise ValueError(
            f"{where}: weights must have the shape of the samples, {x.shape}, got {np.shape(weights)}"
        ) from None
    if not (np.isfinite(w).all() and np.all(w >= 0) and w.max() > 0):
        raise ValueError(f"{where}: weights must be finite and >= 0, and not all 0")
    w = w / w.max()  # their sum must not overflow
    return x.reshape(len(x), -1), (w / w.mean()).reshape(len(x), -1)


def mean(x: Any, weights: Any = None) -> Mean:
    r"""Mean of a correlated series, weighted or not, and its standard error.

    .. math:: \bar x = \sum_t w_t x_t / \sum_t w_t, \qquad
              \sigma^2 = g_y \langle y^2 \rangle / (N \bar w^2), \quad y_t = w_t (x_t - \bar x)

    The error is that of the ratio of two means to first order (delta method: Owen, Monte Carlo theory, methods and
    examples (2013), eq. 9.8, which is this for uncorrelated samples), with the inefficiency g of
    `statistical_inefficiency`, here that of y: neither the correlation of x nor that of the weights alone would do.

    For samples of different weights and for indicators, which have two values, the error is infinite if a twentieth of
    a series has more than 71 % of the sum of y squared. A region that was visited once gives such a sum, and so does a
    sample with most of the weight: another run may find any other mean. For an array of bool whose mean is 0 or 1 the
    error is NaN.

    Parameters
    ----------
    x : (samples,) or (samples, series) array
        Series are independent runs of one ensemble, such as walkers; time goes along the first axis.
    weights : array of the same shape (or broadcast to it), optional
        Weights of the samples, such as those that reweight a biased run to its target.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import mean
    >>> result = mean(np.random.default_rng(0).normal(300.0, 2.0, 400))
    >>> bool(abs(result.value - 300) < 0.4 and 0.08 < result.error < 0.2)
    True
    """
    fraction, (x, w) = np.asarray(x).dtype == bool, as_weighted("mean", x, weights)
    value = float(np.sum(w * x) / np.sum(w))
    y = w * (x - value)
    g = inefficiency(y, float(np.abs(x).max()))
    error = float(np.sqrt(g * np.sum(y * y) / max(x.size - 1, 1) / x.size))
    if fraction and not 0 < value < 1:  # a run that never left, or never came, cannot know how likely that is
        error = float("nan")
    elif (np.ptp(w) > 0 or np.all((x == x.min()) | (x == x.max()))) and _decided_at_once(y * y):
        error = float("inf")
    return Mean(value, error, g)


def _decided_at_once(squares):
    """Return True if a twentieth of one series has most of the sum of squares [samples, series].

    Of one part f and many small ones, the rule of `weighted_histogram`, (sum)^2 < 2 sum of squares, says f^2 > 1/2.
    """
    sums = np.cumsum(squares, axis=0)
    length = len(sums) // _STRETCHES
    if not length or not sums[-1].any():
        return False
    sums = np.concatenate([np.zeros((1, sums.shape[1])), sums])
    return bool(np.max(sums[length:] - sums[:-length]) > np.sqrt(0.5) * sums[-1].sum())


def effective_samples(x: Any, weights: Any = None, *, period: float | None = None) -> float:
    r"""Return the number of independent samples from the target that would give the mean of x with the same error.

    .. math:: N_{eff} = \frac{\mathrm{var}_w(x)}{\sigma^2(\bar x)}
              = \frac{(\sum_t w_t)^2 \, \mathrm{var}_w(x)}{g_y \sum_t w_t^2 (x_t - \bar x)^2}

    with the error of `mean`. For equal weights this is N / g; for weights of uncorrelated samples that have nothing to
    do with x it is that of Kish (Survey Sampling (1965), section 11.7), (sum w)^2 / sum w^2. A run that has not yet
    seen where x can go cannot know: then this is too many. It is 0 where the error is infinite.

    Parameters
    ----------
    x : (samples,) or (samples, series) array
        As for `mean`.
    weights : array of the same shape (or broadcast to it), optional
    period : float, optional
        Period of x, such as 2 pi for an angle: the result is the lesser of the numbers for its cosine and sine.

    Raises
    ------
    ValueError
        If x is the same in all samples that have weight.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import effective_samples
    >>> x = np.repeat(np.random.default_rng(0).normal(size=1000), 5)  # every sample five times
    >>> bool(800 < effective_samples(x) < 1200)
    True
    """
    where = "effective_samples"
    if period is not None:
        angle = 2 * np.pi / period * np.asarray(x, np.float64)
        return min(effective_samples(np.cos(angle), weights), effective_samples(np.sin(angle), weights))
    x, w = as_weighted(where, x, weights)
    average = mean(x, w)
    variance = float(np.sum(w * (x - average.value) ** 2) / np.sum(w))
    if not average.error > 0 or variance <= (1e-15 * max(1.0, np.abs(x).max())) ** 2:
        raise ValueError(f"{where}: x must vary, got {average.value} in all {x.size} samples")
    return min(variance / average.error**2, float(x.size))


def block_average(x: Any) -> Blocking:
    """Standard error of the mean for blocks of 1, 2, 4, ... samples (Flyvbjerg and Petersen, J. Chem. Phys.

    91, 461 (1989)).

    Parameters
    ----------
    x : (samples,) array
        At least 4.

    Raises
    ------
    ValueError
        If there are fewer.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import analysis
    >>> x = np.random.default_rng(0).normal(size=4096)
    >>> blocks = analysis.block_average(x)
    >>> bool(abs(blocks.error[0] - 1 / 64) < 0.001)
    True
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
        x = 0.5 * (x[0 : len(x) // 2 * 2 : 2] + x[1 : len(x) // 2 * 2 : 2])
        size *= 2
    return Blocking(np.array(sizes), np.array(errors), np.array(uncertain), whole)
