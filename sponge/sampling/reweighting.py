r"""From energies sampled under mixtures of temperatures to any temperature: weights, free energies, heat capacities.

A run with fixed n_k draws E with density Omega(E) sum_k n_k exp(-beta_k E). With several sets n_ek, and M_e samples of
each, all samples together are drawn from

.. math:: \Omega(E) \sum_k c_k e^{-\beta_k E}, \qquad c_k = \sum_e M_e n_{ek} / Z_e, \quad Z_e = \sum_k n_{ek} Z_k,

which is again a mixture of the same temperatures, so that the equations of MBAR (Shirts and Chodera, J. Chem. Phys.
129, 124105 (2008), eq. 11) close in as many unknowns ln Z_k as there are temperatures, however many sets there were.
Everything is a logarithm here: a constant added to all energies changes nothing but ln Z.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from triskele.core.extend import check

from .. import units
from ..analysis.statistics import statistical_inefficiency
from ..analysis.wham import log_sum

__all__ = [
    "EnergyHistogram",
    "PoorOverlapWarning",
    "LadderReweighting",
    "count_round_trips",
    "kish",
    "log_mixture",
    "mean_probabilities",
    "solve",
]

_ROWS = 1 << 14  # samples at once: with 60 temperatures 8 MB
_PIECES = 20  # of a run, for the jackknife
_FEWEST = 20  # effective samples below which a reweighted mean says little


class PoorOverlapWarning(UserWarning):
    """Samples say little about the temperature they are taken to."""


def as_ladder(where: str, temperatures: Any) -> np.ndarray:
    """Temperatures in K as an array; at least one, and all of them positive."""
    try:
        values = np.array(temperatures, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise TypeError(
            f"{where}: temperatures must be numbers in K, got {temperatures!r:.80} (such as units.ladder(280, 600, 60))"
        ) from None
    if not len(values) or not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(
            f"{where}: temperatures must be positive numbers, at least one, got {temperatures!r} (such as "
            f"units.ladder(280, 600, 60))"
        )
    return values


def log_mixture(energies: np.ndarray, betas: np.ndarray, log_n: np.ndarray) -> np.ndarray:
    """ln sum_k n_k exp(-beta_k E) for each of `energies` [m], with `betas` and `log_n` [N]."""
    out = np.empty(len(energies))
    for at in range(0, len(energies), _ROWS):
        out[at : at + _ROWS] = log_sum(log_n - energies[at : at + _ROWS, None] * betas, 1)
    return out


def mean_probabilities(energies: np.ndarray, betas: np.ndarray, log_n: np.ndarray) -> np.ndarray:
    """Mean over `energies` of the probability of each temperature, n_k exp(-beta_k E) / sum_j n_j exp(-beta_j E)."""
    total = np.zeros(len(betas))
    for at in range(0, len(energies), _ROWS):
        terms = log_n - energies[at : at + _ROWS, None] * betas
        total += np.exp(terms - log_sum(terms, 1)[:, None]).sum(0)
    return total / len(energies)


class EnergyHistogram:
    """Counts of energies in bins so narrow that no reweighting notices them.

    A bin is represented by the mean of its samples. What is left of the bins is then second order in their width: a
    width of 0.05 / (largest beta - smallest beta) changes ln Z by less than 0.05^2 / 8. Bins are counted from the first
    sample, so that a constant added to all energies does not move their edges.
    """

    def __init__(
        self,
        betas: np.ndarray,  # (N,) that will be asked for
        widest: float = np.inf,
    ):  # kJ/mol, largest width of a bin where second moments are wanted
        spread = float(np.ptp(betas))
        self.width = min(0.05 / spread if spread else np.inf, widest)
        self.origin = np.nan
        self.index = np.zeros(0, np.int64)
        self.count = np.zeros(0)
        self.total = np.zeros(0)  # of energies less the origin

    def bins_of(self, energies: np.ndarray) -> np.ndarray:
        """Number of the bin of each energy."""
        if not len(self.index) and np.isnan(self.origin):
            self.origin = float(energies[0])
        return np.floor((energies - self.origin) / self.width).astype(np.int64)

    def add(self, energies: np.ndarray) -> None:
        """Count some energies [m]."""
        if not len(energies):
            return
        bins = self.bins_of(energies)
        self.index, where = np.unique(np.concatenate([self.index, bins]), return_inverse=True)
        old = len(self.count)
        size = len(self.index)
        self.total = np.bincount(where, np.concatenate([self.total, energies - self.origin]), size)
        self.count = np.bincount(where, np.concatenate([self.count, np.ones(len(where) - old)]), size)

    @property
    def energy(self) -> np.ndarray:
        """Mean energy of each bin that holds samples."""
        return self.origin + self.total / self.count


def mixture_of_all(samples: np.ndarray, log_n: np.ndarray, log_z: np.ndarray) -> np.ndarray:
    """ln c_k [N] of the mixture that `samples` [epochs] drawn with `log_n` [epochs, N] come from, with ln Z_k [N]."""
    used = samples > 0
    log_n = log_n[used]
    return log_sum(np.log(samples[used])[:, None] + log_n - log_sum(log_n + log_z, 1)[:, None], 0)


def solve(
    energy: np.ndarray,
    count: np.ndarray,  # (bins,)
    samples: np.ndarray,  # (epochs,) number of samples drawn with each set of n
    log_n: np.ndarray,  # (epochs, N), -inf where a temperature takes no part
    betas: np.ndarray,
    start: np.ndarray | None = None,  # (N,); ln Z to begin with
    tolerance: float = 1e-8,  # largest change of a ln Z to stop at
    most: int = 2000,
) -> tuple[np.ndarray, np.ndarray]:  # iterations
    """Return ln Z_k of each temperature, less that of the first, and ln c_k of the mixture of all samples.

    The equations at the top of the file are iterated, and sped up by Anderson's mixing of the last few iterates (J. ACM
    12, 547 (1965)). Z_k is the sum of exp(-beta_k E) / sum_j c_j exp(-beta_j E) over all samples.
    """
    used = count > 0
    terms = -energy[used, None] * betas
    with_counts = terms + np.log(count[used])[:, None]

    def step(log_z):
        log_c = mixture_of_all(samples, log_n, log_z)
        new = log_sum(with_counts - log_sum(log_c + terms, 1)[:, None], 0)
        return new - new[0]

    x = np.zeros(len(betas)) if start is None else start - start[0]
    if start is None:  # as if all had been drawn from the mean energy's neighborhood: right to first order
        x = -(betas - betas[0]) * float(np.average(energy[used], weights=count[used]))
    if np.count_nonzero(samples) == 1:  # one set of n: c is n, whatever Z
        x = step(x)
        return x, mixture_of_all(samples, log_n, x)
    xs: list[np.ndarray] = []
    fs: list[np.ndarray] = []
    for _ in range(most):
        f = step(x) - x
        size = float(np.abs(f).max())
        xs, fs = [*xs, x][-6:], [*fs, f][-6:]
        x = x + f
        if size < tolerance:
            break
        if len(fs) > 1 and size < 1.0:
            df = np.array([b - a for a, b in zip(fs, fs[1:])]).T
            dx = np.array([b - a for a, b in zip(xs, xs[1:])]).T
            gamma = np.linalg.lstsq(df, f, rcond=1e-10)[0]
            mixed = x - (dx + df) @ gamma
            if np.abs(mixed - x).max() < 50 * size:  # a longer leap is rounding
                x = mixed
    return x, mixture_of_all(samples, log_n, x)


def kish(weights: Any, epochs: Any = None) -> float:
    """Return the number of independent, equally weighted samples that a weighted series, in order of time, is worth.

    Kish's (sum w)^2 / sum w^2, divided by the statistical inefficiency of the weights: that of the longest of the
    `epochs` (samples,), the parts of the series that were drawn in different ways.
    """
    weights = np.asarray(weights, np.float64)
    if (
        weights.ndim != 1
        or not len(weights)
        or not np.isfinite(weights).all()
        or weights.min() < 0
        or not weights.max() > 0
    ):
        raise ValueError("kish: weights must be a series of finite numbers >= 0, not all 0")
    weights = weights / weights.max()
    kish = weights.sum() ** 2 / (weights @ weights)
    alike = weights if epochs is None else weights[epochs == np.bincount(epochs).argmax()]
    return float(kish / statistical_inefficiency(alike))


def count_round_trips(energies: np.ndarray, low: float, high: float) -> int:
    """Count the round trips of a series (m,) from `low` or below to `high` or above, and back.

    >>> count_round_trips(np.array([0.0, 3.0, 1.0, 5.0, 0.0, 5.0]), 0.0, 5.0)
    1
    """
    side = np.where(energies <= low, -1, np.where(energies >= high, 1, 0))
    side = side[side != 0]
    if -1 not in side:
        return 0
    return int(np.count_nonzero(np.diff(side[np.argmax(side == -1) :]) == -2))


class LadderReweighting:
    """Energies drawn with one or several n_k, and what they say about other temperatures."""

    def __init__(
        self,
        energies: Any,  # (m,) kJ/mol, enhanced energies in order of time
        log_n: Any,  # (N,) or (epochs, N); a row of NaN for samples drawn from plain dynamics
        temperatures: Any,
        temperature: float,  # (N,) K, of the ladder; K, of the simulation
        epochs: Any = None,
    ):  # (m,) row of `log_n` that each sample was drawn with
        where = "LadderReweighting"
        self.energies = np.asarray(energies, np.float64)
        rows = np.atleast_2d(np.asarray(log_n, np.float64))
        temperatures = np.asarray(temperatures, np.float64)
        epochs = np.zeros(len(self.energies), np.int64) if epochs is None else np.asarray(epochs)
        if self.energies.ndim != 1 or rows.ndim != 2 or temperatures.ndim != 1 or rows.shape[1] != len(temperatures):
            raise ValueError(
                f"{where}: energies must be [m], temperatures [N] and log_n [N] or [epochs, N], got "
                f"{self.energies.shape}, {temperatures.shape} and {np.shape(log_n)}"
            )
        if epochs.shape != self.energies.shape or (len(epochs) and not 0 <= epochs.min() <= epochs.max() < len(rows)):
            raise ValueError(f"{where}: epochs must give a row of log_n for each of the {len(self.energies)} energies")
        check.finite(self.energies, f"{where}: energies")
        if not (temperature > 0 and np.all(temperatures > 0) and np.all(np.isfinite(temperatures))):
            raise ValueError(f"{where}: temperatures must be positive and finite")
        plain: np.ndarray = np.isnan(rows).all(axis=1)
        if not np.isfinite(rows[~plain]).all():
            raise ValueError(f"{where}: log_n must be finite (a row of NaN stands for plain dynamics)")
        if len(self.energies) < 2:
            raise ValueError(f"{where}: at least 2 samples are needed, got {len(self.energies)}")
        self.beta = 1 / (units.GAS_CONSTANT * temperature)
        # plain dynamics is one more "temperature", that of the simulation, which no other set takes part in
        self._betas = np.concatenate([[self.beta], 1 / (units.GAS_CONSTANT * temperatures)])
        self._log_n = np.column_stack([np.where(plain, 0.0, -np.inf), np.where(plain[:, None], -np.inf, rows)])
        self._epochs = epochs
        self._samples = np.bincount(epochs, minlength=len(rows)).astype(np.float64)
        self._histogram = EnergyHistogram(self._betas, float(self.energies.std()) / 50 or np.inf)
        self._histogram.add(self.energies)
        self._energy = self._histogram.energy
        self._log_z = solve(self._energy, self._histogram.count, self._samples, self._log_n, self._betas)[0]

    def weights(self, temperature: float, chosen: Any = None, where: str = "weights") -> np.ndarray:
        """Return weights, of sum 1, that take samples to `temperature`: all, or those whose numbers are `chosen` [m].

        Chosen samples count as drawn from the mixture of what they were drawn with; Z_k comes from all. Warn
        (PoorOverlapWarning) if they are worth fewer than 20 independent samples.
        """
        chosen = np.arange(len(self.energies)) if chosen is None else np.asarray(chosen, np.int64)
        if not len(chosen):
            raise ValueError(f"{where}: there are no samples")
        energies, epochs = self.energies[chosen], self._epochs[chosen]
        samples = np.bincount(epochs, minlength=len(self._samples)).astype(np.float64)
        log_c = mixture_of_all(samples, self._log_n, self._log_z)
        logs = -energies / (units.GAS_CONSTANT * temperature) - log_mixture(energies, self._betas, log_c)
        weights = np.exp(logs - logs.max())
        effective = kish(weights, epochs)
        if effective < _FEWEST:
            warnings.warn(
                f"{where}: at {temperature:g} K, {len(weights)} samples are worth {effective:.1f} "
                f"independent ones "
                "(sample longer, or nearer to that temperature)",
                PoorOverlapWarning,
                stacklevel=3,
            )
        return weights / weights.sum()

    # -- as functions of the temperature -------------------------------------------------------------------------------

    def log_partition(self, temperatures: Any) -> tuple[np.ndarray, np.ndarray]:
        """ln Z(T) / Z(T0) of the enhanced energy [m], and standard errors, for temperatures [m] in K and that of the
        simulation.
        """
        return self._with_errors(temperatures, lambda logs, energy: log_sum(logs, 0) - log_sum(logs[:, :1], 0))

    def mean_energy(self, temperatures: Any, errors: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Mean enhanced energy [m] in kJ/mol, and standard errors (NaN without `errors`, which take time)."""
        return self._with_errors(temperatures, lambda logs, energy: _moments(logs, energy)[0], errors)

    def heat_capacity(self, temperatures: Any) -> tuple[np.ndarray, np.ndarray]:
        """Heat capacity (<E^2> - <E>^2) / (R T^2) [m] in kJ/mol/K, and standard errors; momenta not included."""
        betas = self._beta_of(temperatures)
        return self._with_errors(
            temperatures, lambda logs, energy: units.GAS_CONSTANT * betas**2 * _moments(logs, energy)[1]
        )

    def _beta_of(self, temperatures):
        temperatures = np.atleast_1d(np.asarray(temperatures, np.float64))
        if not ((temperatures > 0) & np.isfinite(temperatures)).all():
            raise ValueError(f"LadderReweighting: temperatures must be positive and finite, got {temperatures}")
        return np.concatenate([[self.beta], 1 / (units.GAS_CONSTANT * temperatures)])

    def _with_errors(self, temperatures, function, errors=True):
        """A function of ln weights [bins, 1 + m] (the first: the simulation's temperature) and energies, with errors
        from
        leaving out one piece of the run after the other (jackknife).
        """
        betas = self._beta_of(temperatures)

        def evaluate(count, samples):
            kept = count > 0
            log_c = solve(self._energy[kept], count[kept], samples, self._log_n, self._betas, self._log_z, 1e-5)[1]
            energy = self._energy[kept]
            logs = (
                np.log(count[kept])[:, None]
                - energy[:, None] * betas
                - log_mixture(energy, self._betas, log_c)[:, None]
            )
            return function(logs, energy)

        whole = self._histogram.count
        value = evaluate(whole, self._samples)
        if not errors:
            return value[1:], np.full(len(value) - 1, np.nan)
        pieces = np.array_split(np.arange(len(self.energies)), _PIECES)
        if len(pieces[-1]) < 2:
            raise ValueError(
                f"LadderReweighting: at least {2 * _PIECES} samples are needed for errors, got {len(self.energies)}"
            )
        bins = np.searchsorted(self._histogram.index, self._histogram.bins_of(self.energies))
        without = []
        for piece in pieces:
            count = whole - np.bincount(bins[piece], minlength=len(whole))
            samples = self._samples - np.bincount(self._epochs[piece], minlength=len(self._samples))
            without.append(evaluate(count, samples))
        spread = np.array(without) - np.mean(without, axis=0)
        error = np.sqrt((_PIECES - 1) / _PIECES * (spread**2).sum(0))
        return value[1:], error[1:]


def _moments(logs, energy):
    weights = np.exp(logs - logs.max(0))
    weights /= weights.sum(0)
    mean = energy @ weights
    return mean, ((energy[:, None] - mean) ** 2 * weights).sum(0)
