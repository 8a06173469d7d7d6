"""Free energy along one coordinate, with errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import plots, short_repr

from .statistics import as_weighted
from .weighted_histogram import angular, check_bins, free_energies

__all__ = ["Profile", "profile"]


@short_repr
@dataclass(frozen=True)
class Profile:
    """See `profile`.

    Attributes
    ----------
    x : (bins,) array
        Middles of the bins.
    value : (bins,) array
        Free energy in kJ/mol above the lowest bin; infinite where nothing was sampled.
    error : (bins,) array
        Standard error of -kT ln p, kJ/mol; infinite where nothing was sampled, or in effect by one block only.
    probability : (bins,) array
        Probability of each bin; their sum is 1.
    temperature : float, K
        Temperature of the samples.
    blocks : int
        Number of blocks from whose scatter the errors were found.
    """

    x: np.ndarray
    value: np.ndarray
    error: np.ndarray
    probability: np.ndarray
    temperature: float
    blocks: int

    def plot(self, ax: Any = None, *, degrees: bool = False, **line: Any) -> Any:
        """Draw the free energy with a band of one standard error to both sides, against x or x in `degrees`."""
        with plots.axes(ax, xlabel="angle [°]" if degrees else "x", ylabel="free energy [kJ/mol]") as ax:
            value = np.where(np.isfinite(self.error), self.value, np.nan)
            plots.band(ax, np.degrees(self.x) if degrees else self.x, value, self.error, **line)
        return ax


def profile(
    x: Any,
    weights: Any = None,
    *,
    temperature: float,
    bins: int = 60,
    period: tuple[float, float] | None = None,
    limits: tuple[float, float] | None = None,
    blocks: int | None = None,
) -> Profile:
    """Free energy -kT ln p(x) along a coordinate, from a histogram.

    Errors come from the scatter of blocks, as in `free_energy`.

    Parameters
    ----------
    x : (samples,) or (samples, series) array
        Series are independent runs, such as walkers; time goes along the first axis.
    weights : array of that shape (or broadcast to it), optional
        Weights of the samples, such as those that reweight a biased run to `temperature`.
    temperature : float, K
        Temperature of the samples.
    bins : int
    period : tuple of float, optional
        Ends of one period of x, such as (-pi, pi): the bins fill it, and x is wrapped into it.
    limits : tuple of float, optional
        Ends of the bins of what is not periodic, from the least to the greatest x when left out. Samples outside count
        for none of them: p is that within the limits.
    blocks : int, optional
        Number of blocks. Defaults to a choice by the correlation of x.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import profile
    >>> from triskele.sponge import units
    >>> x = np.random.default_rng(0).normal(size=20_000)  # -kT ln p = kT x^2 / 2
    >>> result = profile(x, temperature=300.0, bins=7, limits=(-3.5, 3.5))
    >>> (result.value / (units.GAS_CONSTANT * 300.0)).round(1)[1:6]
    array([1.9, 0.4, 0. , 0.4, 1.8])
    """
    where = "profile"
    check_bins(where, temperature, bins, blocks)
    if period is not None and limits is not None:
        raise ValueError(f"{where}: either period or limits can be given, not both")
    for name, ends in (("period", period), ("limits", limits)):
        if ends is not None and np.shape(ends) != (2,):
            raise ValueError(f"{where}: {name} must be (lowest, highest), got {ends!r}")
    x, w = as_weighted(where, x, weights)
    low, high = period or limits or (float(x.min()), float(x.max()))
    if not low < high:
        raise ValueError(f"{where}: the bins must have a width, got ends {low} and {high}")
    place = (x - low) * (bins / (high - low))
    if period is None:
        slow = [(x - x.mean()) / max(x.std(), 1e-300)]
        inside = (x >= low) & (x <= high)
        if not np.any(w[inside] > 0):
            raise ValueError(f"{where}: no sample lies within the limits {low} to {high}, got {x.min()} to {x.max()}")
        w = np.where(inside, w, 0.0)
        index = np.clip(place, 0, bins - 1).astype(np.int64)
    else:
        slow = angular(x, high - low)
        index = np.floor(np.mod(place, bins)).astype(np.int64) % bins
    value, spread, p, count = free_energies(index, w, bins, slow, temperature, blocks)
    return Profile(low + (np.arange(bins) + 0.5) * (high - low) / bins, value, spread, p, float(temperature), count)
