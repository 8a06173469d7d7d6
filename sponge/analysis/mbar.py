"""MBAR: averages and free energies from samples of several states."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from scipy.sparse.csgraph import connected_components

from triskele.core.extend import check, optional, plots, progress_bar, short_repr

from .statistics import statistical_inefficiency
from .wham import log_sum, solve, warn_of_gaps

__all__ = ["Mbar", "mbar"]

_OVERLAP = 1e-3  # as in wham
LEAST_SAMPLES = 10  # of a state: errors of fewer say nothing
_TOLERANCE = 1e-10  # of the expected number of samples in a state, over all samples


@short_repr
@dataclass(frozen=True, eq=False)
class Mbar:
    """See `mbar`.

    Attributes
    ----------
    free_energies, errors : (states,) array
        Reduced (in units of RT of each state), relative to the first state, and standard errors, which are infinite
        where no chain of overlapping states leads from one to the other.
    overlap : (states, states) array
        Chance that a sample of the row's state might as well be one of the column's; rows of states without samples are
        those of their weights.
    counts : (states,) int
        Samples that were used.
    used : (samples,) bool
        Which these are, of those that were given.
    """

    free_energies: np.ndarray
    errors: np.ndarray
    overlap: np.ndarray
    counts: np.ndarray
    used: np.ndarray
    _reduced: np.ndarray = field(repr=False)
    _w: np.ndarray = field(repr=False)  # of all states, [states, samples]
    _log_d: np.ndarray = field(repr=False)
    _groups: np.ndarray = field(repr=False)  # counts of the states in each group that overlaps, [groups, states]

    def plot(self, ax: Any = None, **line: Any) -> Any:
        """Draw the free energies of the states as points with error bars."""
        with plots.axes(ax, xlabel="state", ylabel="reduced free energy") as ax:
            ax.errorbar(np.arange(len(self.free_energies)), self.free_energies, self.errors, **{"marker": "o", **line})
            plots.whole_ticks(ax.xaxis)
        return ax

    def weights(self, reduced: Any = None) -> np.ndarray:
        """Weights of all samples in a state, [samples]; their sum is 1, and samples that were not used have 0.

        Parameters
        ----------
        reduced : array of as many elements as there are samples, optional
            Reduced potential of the state, which need not have been sampled. Defaults to that of the first.
        """
        result = np.zeros(len(self.used))
        result[self.used] = self._weights(self._target(reduced))
        return result

    def effective_samples(self, reduced: Any = None) -> float:
        """Number of independent samples of the state itself with the same information: 1 / sum of weights squared
        (Kish).

        Parameters
        ----------
        reduced : array, optional
            As for `weights`.
        """
        return float(1 / np.sum(self._weights(self._target(reduced)) ** 2))

    def mean(self, values: Any, reduced: Any = None) -> tuple[float, float]:
        """Mean of an observable in a state, and its standard error; of a region's indicator (0 or 1), its population.

        Errors allow for correlation in time. When all states have equally many samples, sample i of each is taken to be
        of the same moment. Samples that are all alike, such as those of a region that was never seen, say nothing of
        their error: NaN.

        Parameters
        ----------
        values : array of as many elements as there are samples
            Values in the order of the samples.
        reduced : array, optional
            As for `weights`.

        Warns
        -----
        UserWarning
            If fewer than 10 samples count in the state.
        """
        reduced, values = self._target(reduced), self._sampled("values", values)
        w = self._weights(reduced)
        if (effective := 1 / np.sum(w * w)) < LEAST_SAMPLES:
            warnings.warn(
                f"mbar: only {effective:.1f} samples count in this state: it overlaps too little with those "
                f"that were sampled",
                stacklevel=2,
            )
        middle = float(w @ values)
        if np.ptp(values) == 0:
            return middle, float("nan")
        positive = values - values.min() + np.ptp(values)  # the formula needs an observable that can be a weight
        size = float(w @ positive)
        theta = self._covariance(w, w * positive / size)
        error = size * np.sqrt(max(theta[-1, -1] + theta[-2, -2] - 2 * theta[-1, -2], 0.0))
        return middle, float(error * np.sqrt(self._inefficiency(w * (values - middle))))

    def free_energy(self, reduced: Any) -> tuple[float, float]:
        """Reduced free energy of a state relative to the first, and its standard error.

        Parameters
        ----------
        reduced : array
            As for `weights`.
        """
        reduced = self._target(reduced)
        return self._difference(reduced)

    def _difference(self, reduced):
        first, other = self._weights(self._reduced[0]), self._weights(reduced)
        theta = self._covariance(first, other)
        g = self._inefficiency(first - other)
        error = np.sqrt(max(theta[-1, -1] + theta[-2, -2] - 2 * theta[-1, -2], 0.0) * g)
        within = self._groups @ (self._w @ np.stack([first, other], axis=1)) >= _OVERLAP
        if within.any(axis=1).sum() > 1:
            error = np.inf
        return float(log_sum(-self._reduced[0] - self._log_d) - log_sum(-reduced - self._log_d)), float(error)

    def _weights(self, reduced):
        log_w = -reduced - self._log_d
        return np.exp(log_w - log_sum(log_w))

    def _covariance(self, *columns):
        """Covariance of the logarithms of the normalizations of all states and of further columns of weights [1, eq.

        8].
        """
        w = np.concatenate([self._w, np.stack(columns)])
        n = np.concatenate([self.counts, np.zeros(len(columns))])
        squares, v = np.linalg.eigh(w @ w.T)
        kept = squares > squares.max() * 1e-14
        vs = v[:, kept] * np.sqrt(squares[kept])
        inner = np.eye(kept.sum()) - vs.T @ (n[:, None] * vs)
        return vs @ np.linalg.pinv(inner, rcond=1e-10, hermitian=True) @ vs.T

    def _inefficiency(self, terms):
        """Return the statistical inefficiency of an estimate that is a sum of terms."""
        some = self.counts[self.counts > 0]
        if np.all(some == some[0]):
            return statistical_inefficiency(terms.reshape(len(some), -1).sum(0))
        parts = np.split(terms, np.cumsum(some)[:-1])
        sizes = np.array([p @ p for p in parts])
        return float(np.array([statistical_inefficiency(p) for p in parts]) @ sizes / max(sizes.sum(), 1e-300)) or 1.0

    def _target(self, reduced):
        return self._reduced[0] if reduced is None else self._sampled("reduced", reduced)

    def _sampled(self, name, values):
        values = np.asarray(values, np.float64).ravel()
        if values.size != len(self.used):
            raise ValueError(
                f"mbar: {name} must have one element for each of {len(self.used)} samples, got {values.size}"
            )
        check.finite(values[values != np.inf] if name == "reduced" else values, f"mbar: {name}")
        return values[self.used]


def mbar(
    reduced: Any,
    counts: Any = None,
    *,
    inefficiency: Any = None,
    solver: Literal["newton", "pymbar"] = "newton",
    progress: bool | None = None,
) -> Mbar:
    r"""Combine samples of several states by the multistate Bennett acceptance ratio [1]_.

    The reduced free energies f of the states solve

    .. math:: f_i = -\ln \sum_n \frac{e^{-u_i(x_n)}}{\sum_k N_k e^{f_k - u_k(x_n)}}

    Parameters
    ----------
    reduced : (states, samples) or (states, states, m) array
        Reduced potential of every state (rows) at every sample, (U + P V) / RT; samples of the first state come first,
        in the order of time. In the second form, with m samples of each state, the second index is the state that was
        sampled. Infinite where a state does not allow a sample of another one.
    counts : (states,) int, optional
        Samples of each state, 0 for one that was not sampled; not for the second form.
    inefficiency : float or (states,) array, optional
        Statistical inefficiency of each state's samples: only one in that many is used.
    solver : {"newton", "pymbar"}
        Solver: Newton's method of this module, or pymbar.
    progress : bool, optional
        Show a progress bar of the states. By default only on terminals and in notebooks.

    Returns
    -------
    Mbar

    Raises
    ------
    ValueError
        If shapes do not fit, numbers are not finite, or a state has fewer than 10 samples.
    ImportError
        If pymbar is asked for and missing.

    Warns
    -----
    UserWarning
        If states do not overlap: free energies between them are not determined.

    References
    ----------
    .. [1] Shirts, Chodera, "Statistically optimal analysis of samples from multiple equilibrium states", J. Chem. Phys.
       129 (2008)
       124105. doi:10.1063/1.2978177

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import mbar
    >>> rng, k = np.random.default_rng(0), np.array([1.0, 2.0])
    >>> x = rng.normal(size=(2, 1000)) / np.sqrt(k)[:, None]
    >>> result = mbar(0.5 * k[:, None, None] * x**2)
    >>> bool(abs(result.free_energies[1] - 0.5 * np.log(2)) < 4 * result.errors[1])
    True
    """
    reduced, counts = _checked(reduced, counts)
    check.choice(solver, ("newton", "pymbar"), "mbar: solver")
    used = np.ones(reduced.shape[1], bool)
    if inefficiency is not None:
        used, counts = _thinned(counts, inefficiency)
        reduced = reduced[:, used]
    some = counts > 0
    if np.any(counts[some] < LEAST_SAMPLES) or not some.any():
        bad = int(np.argmax(some & (counts < LEAST_SAMPLES)))
        raise ValueError(
            f"mbar: there must be at least {LEAST_SAMPLES} independent samples of each state that was "
            f"sampled, got {counts[bad]} of state {bad} (a longer run)"
        )
    f = _by_pymbar(reduced, counts) if solver == "pymbar" else free_energies_of_states(reduced[some], counts[some])
    log_d = log_sum((np.log(counts[some]) + f)[:, None] - reduced[some])
    everyone = -log_sum((-reduced - log_d).T)
    w = np.exp(everyone[:, None] - reduced - log_d)
    overlap = (w @ w.T) * counts
    warn_of_gaps("mbar: states", overlap, np.flatnonzero(some), 3)
    result = Mbar(
        everyone - everyone[0],
        np.zeros(len(counts)),
        overlap,
        counts,
        used,
        reduced,
        w,
        log_d,
        _groups(overlap, counts),
    )
    with progress_bar("mbar", "state", len(counts), done=1, show=progress) as bar:
        for i, u in enumerate(reduced[1:], 1):
            result.errors[i] = result._difference(u)[1]
            bar.update()
    return result


def _groups(overlap, counts):
    """Counts of the sampled states of each group, [groups, states]: those that share 0.001 of their samples, or at
    least one.
    """
    some = np.flatnonzero(counts)
    linked = (overlap >= _OVERLAP) | (counts[:, None] * overlap >= 1)
    groups, number = connected_components(linked[np.ix_(some, some)], directed=False)
    found = np.zeros((groups, len(counts)))
    found[number, some] = counts[some]
    return found


def _checked(reduced, counts):
    reduced = np.asarray(reduced, np.float64)
    if reduced.ndim == 3 and counts is None and reduced.shape[0] == reduced.shape[1]:
        counts = np.full(len(reduced), reduced.shape[2])
        reduced = reduced.reshape(len(reduced), -1)
    if counts is None or reduced.ndim != 2:
        raise ValueError(
            f"mbar: reduced must have shape [states, samples] with counts, or [states, states, m], got {reduced.shape}"
        )
    counts = np.asarray(counts)
    if (
        counts.shape != reduced.shape[:1]
        or counts.dtype.kind not in "iu"
        or np.any(counts < 0)
        or counts.sum() != reduced.shape[1]
    ):
        raise ValueError(
            f"mbar: counts must be whole numbers, one for each of {len(reduced)} states, with the sum "
            f"{reduced.shape[1]}, got {counts}"
        )
    drawn = np.repeat(np.arange(len(counts)), counts) == np.arange(len(counts))[:, None]
    wrong = ~np.isfinite(reduced) & (drawn | (reduced != np.inf))
    if wrong.any():
        bad = np.argwhere(wrong)[0]
        raise ValueError(
            f"mbar: reduced must be finite, got {reduced[tuple(bad)]} for state {bad[0]} at sample "
            f"{bad[1]} (it may be inf at samples of other states)"
        )
    if reduced.size and np.any(nowhere := np.all(reduced == np.inf, axis=1)):
        raise ValueError(
            f"mbar: some sample must have a finite energy in each state, got inf for all in state "
            f"{int(np.argmax(nowhere))}"
        )
    return reduced, counts.astype(np.int64)


def _thinned(counts, inefficiency):
    g = np.broadcast_to(np.asarray(inefficiency, np.float64), counts.shape)
    if not np.all(g >= 1):
        raise ValueError(f"mbar: inefficiency must be at least 1, got {inefficiency}")
    masks = []
    for n, every in zip(counts, g, strict=True):
        mask = np.zeros(n, bool)
        mask[np.ceil(np.arange(0, n, every)).astype(np.int64).clip(max=max(n - 1, 0))] = True
        masks.append(mask)
    return np.concatenate(masks), np.array([m.sum() for m in masks])


def free_energies_of_states(reduced: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Reduced free energies [states], that of the first 0, of states that were all sampled; u [states, samples]."""
    n = reduced.shape[1]
    lowest = reduced.min(axis=0)  # an offset of a sample changes nothing
    start = np.cumsum([0, *counts])
    f = np.array(
        [np.mean(reduced[k, a:b] - lowest[a:b]) for k, (a, b) in enumerate(zip(start, start[1:], strict=False))]
    )
    return solve(counts.astype(np.float64), np.ones(n), lowest - reduced, f - f[0], _TOLERANCE)[0]


def _by_pymbar(reduced, counts):
    """pymbar speaks through logging, of its timeseries and of JAX, and solvers that fail and are tried again warn."""
    logger = logging.getLogger("pymbar")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pymbar = optional.need("pymbar", "mbar with solver='pymbar'", "md")
            return np.asarray(pymbar.MBAR(reduced, counts, relative_tolerance=1e-12).f_k)[counts > 0]
    finally:
        logger.setLevel(level)
