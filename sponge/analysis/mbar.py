"""MBAR: averages and free energies from samples of several states, by way of pymbar."""

from __future__ import annotations

import contextlib
import logging
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triskele.sponge.analysis.statistics import statistical_inefficiency
from triskele.sponge.analysis.wham import warn_of_gaps
from triskele.sponge.report.optional import need

__all__ = ["Mbar", "mbar"]

_LEAST = 10  # samples of a state: below, errors say nothing


@dataclass(frozen=True, eq=False)
class Mbar:
    """See `mbar`.

    Attributes
    ----------
    free_energies, errors : array [states]
        Reduced (in units of RT of each state), relative to the first state, and standard errors.
    overlap : array [states, states]
        Chance that a sample of the row's state might as well be one of the column's.
    counts : int array [states]
    """

    free_energies: np.ndarray
    errors: np.ndarray
    overlap: np.ndarray
    counts: np.ndarray
    _solved: Any = field(repr=False)
    _reduced: np.ndarray = field(repr=False)

    def weights(self, reduced: Any = None) -> np.ndarray:
        """Weights of all samples in a state, [samples]; the sum is 1.

        Parameters
        ----------
        reduced : array of as many elements as there are samples, optional
            Reduced potential of the state, which need not have been sampled; that of the first when left out.
        """
        reduced = self._target(reduced)
        log_d = np.logaddexp.reduce((np.log(np.maximum(self.counts, 1e-300)) + self._f)[:, None] - self._reduced, axis=0)
        log_w = -reduced - log_d
        return np.exp(log_w - np.logaddexp.reduce(log_w))

    def effective_samples(self, reduced: Any = None) -> float:
        """How many samples of the state itself would be worth as much, were all independent: 1 / sum of weights squared (Kish).

        Parameters
        ----------
        reduced : array, optional
            As for `weights`.
        """
        return float(1 / np.sum(self.weights(reduced) ** 2))

    def mean(self, values: Any, reduced: Any = None) -> tuple[float, float]:
        """Mean of an observable in a state, and its standard error; of a region's indicator (0 or 1), its population.

        Samples may be correlated in time: when all states have equally many, sample i of each is taken to be of the same moment.

        Parameters
        ----------
        values : array of as many elements as there are samples
            In their order.
        reduced : array, optional
            As for `weights`.

        Warns
        -----
        UserWarning
            If fewer than 10 samples count in the state.
        """
        reduced = self._target(reduced)
        values = self._sampled("values", values)
        w = self.weights(reduced)
        if (effective := 1 / np.sum(w * w)) < _LEAST:
            warnings.warn(f"mbar: only {effective:.1f} samples count in this state: it overlaps too little with those that were sampled",
                          stacklevel=2)
        middle = float(w @ values)
        if np.ptp(values) == 0:
            return middle, 0.0
        with _quiet():
            sigma = float(self._solved.compute_expectations(values, u_kn=reduced)["sigma"][0])
        return middle, sigma * np.sqrt(self._inefficiency(w * (values - middle)))

    def free_energy(self, reduced: Any) -> tuple[float, float]:
        """Reduced free energy of a state relative to the first, and its standard error.

        Parameters
        ----------
        reduced : array
            As for `weights`.
        """
        reduced = self._target(reduced)
        with _quiet():
            found = self._solved.compute_perturbed_free_energies(np.stack([self._reduced[0], reduced]))
        g = max(self._inefficiency(self.weights(u)) for u in (self._reduced[0], reduced))
        return float(found["Delta_f"][0, 1]), float(found["dDelta_f"][0, 1] * np.sqrt(g))

    @property
    def _f(self):
        return np.asarray(self._solved.f_k)

    def _inefficiency(self, terms):
        """Of the terms that add up to an estimate."""
        some = self.counts[self.counts > 0]
        if np.all(some == some[0]):
            return statistical_inefficiency(terms.reshape(len(some), -1).sum(0))
        starts = np.cumsum([0, *self.counts])
        return max(statistical_inefficiency(terms[a:b]) for a, b in zip(starts, starts[1:], strict=False) if b - a >= _LEAST)

    def _target(self, reduced):
        return self._reduced[0] if reduced is None else self._sampled("reduced", reduced)

    def _sampled(self, name, values):
        values = np.asarray(values, np.float64).ravel()
        if values.size != self._reduced.shape[1]:
            raise ValueError(f"mbar: {name} must have one element for each of {self._reduced.shape[1]} samples, got {values.size}")
        if not np.isfinite(values).all():
            raise ValueError(f"mbar: {name} must be finite")
        return np.ascontiguousarray(values)


def mbar(reduced: Any, counts: Any = None) -> Mbar:
    """Combine samples of several states by the multistate Bennett acceptance ratio [1]_; needs pymbar.

    Parameters
    ----------
    reduced : array [states, samples] or [states, states, m]
        Reduced potential of every state (rows) at every sample, (U + P V) / RT; samples of the first state come first, in the
        order of time. In the second form, with m samples of each state, the second index is the state that was sampled.
    counts : int array [states], optional
        Samples of each state; not for the second form.

    Returns
    -------
    Mbar

    Raises
    ------
    ValueError
        If shapes do not fit, numbers are not finite, or a state has too few samples.
    ImportError
        If pymbar is missing.

    Warns
    -----
    UserWarning
        If states do not overlap: free energies between them are not determined.

    References
    ----------
    .. [1] Shirts, Chodera, "Statistically optimal analysis of samples from multiple equilibrium states", J. Chem. Phys. 129 (2008)
       124105. doi:10.1063/1.2978177

    Examples
    --------
    >>> import numpy as np
    >>> rng, k = np.random.default_rng(0), np.array([1.0, 2.0])
    >>> x = rng.normal(size=(2, 1000)) / np.sqrt(k)[:, None]
    >>> result = mbar(0.5 * k[:, None, None] * x**2)
    >>> bool(abs(result.free_energies[1] - 0.5 * np.log(2)) < 4 * result.errors[1])
    True
    """
    reduced = np.asarray(reduced, np.float64)
    if reduced.ndim == 3 and counts is None and reduced.shape[0] == reduced.shape[1]:
        counts = np.full(len(reduced), reduced.shape[2])
        reduced = reduced.reshape(len(reduced), -1)
    if counts is None or reduced.ndim != 2:
        raise ValueError(f"mbar: reduced must have shape [states, samples] with counts, or [states, states, m], got {reduced.shape}")
    counts = np.asarray(counts)
    if counts.shape != reduced.shape[:1] or counts.dtype.kind not in "iu" or np.any(counts < 0) or counts.sum() != reduced.shape[1]:
        raise ValueError(f"mbar: counts must be whole numbers, one for each of {len(reduced)} states, with the sum {reduced.shape[1]}, got {counts}")
    if np.any((counts > 0) & (counts < _LEAST)) or not counts.sum():
        bad = int(np.argmax((counts > 0) & (counts < _LEAST)))
        raise ValueError(f"mbar: there must be at least {_LEAST} samples of each state that was sampled, got {counts[bad]} of state {bad} "
                         "(a longer run)")
    if not np.isfinite(reduced).all():
        bad = np.argwhere(~np.isfinite(reduced))[0]
        raise ValueError(f"mbar: reduced must be finite, got {reduced[tuple(bad)]} for state {bad[0]} at sample {bad[1]}")
    with _quiet():
        pymbar = need("pymbar", "mbar")
        solved = pymbar.MBAR(np.ascontiguousarray(reduced), counts.astype(np.int64))
        between = solved.compute_free_energy_differences()
        overlap = np.asarray(solved.compute_overlap()["matrix"])
    warn_of_gaps("mbar: states", overlap, np.flatnonzero(counts), 3)
    result = Mbar(np.asarray(between["Delta_f"])[0], np.asarray(between["dDelta_f"])[0], overlap, counts.astype(np.int64), solved, reduced)
    g = np.array([result._inefficiency(result.weights(u)) for u in reduced])
    result.errors[:] *= np.sqrt(np.maximum(g, g[0]))
    return result


@contextlib.contextmanager
def _quiet():
    """pymbar speaks through logging of its timeseries and of JAX, and solvers that fail and are tried again warn."""
    logger = logging.getLogger("pymbar")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
