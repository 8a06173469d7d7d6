"""The weighted histogram analysis method: a free energy profile, or map, from biased windows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from triskele.core.extend import check, plots, progress_bar, short_repr

from .. import units
from .statistics import statistical_inefficiency

__all__ = ["Wham", "wham"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
_OVERLAP = 1e-3  # windows with a smaller overlap raise a warning


@short_repr
@dataclass(frozen=True)
class Wham:
    """See `wham`.

    Attributes
    ----------
    middles : tuple of array
        Middles of the bins along each variable.
    value : (bins,) or (bins, bins) array
        Free energy in kJ/mol above its minimum; infinite where nothing was sampled.
    error : array of that shape
        Standard error, of the difference to the mean over all samples; NaN where nothing was sampled, or without
        bootstrap.
    probability : array of that shape
        Probability of the bins; the sum is 1.
    offsets, offset_errors : (windows,) array
        Free energies (kJ/mol) of the windows, by which biasing costs, relative to the first.
    overlap : (windows, windows) array
        Chance that a sample of the row's window might as well be one of the column's; rows sum to 1.
    iterations : int
    samples : (windows,) array
        Effective number of samples in each window.
    temperature : float, K
        Temperature of the samples.
    replicates : (bootstrap, ...) array
        Probabilities of the bootstrap.
    """

    middles: tuple[np.ndarray, ...]
    value: np.ndarray
    error: np.ndarray
    probability: np.ndarray
    offsets: np.ndarray
    offset_errors: np.ndarray
    overlap: np.ndarray
    iterations: int
    samples: np.ndarray
    temperature: float
    replicates: np.ndarray

    def population(self, inside: Any) -> tuple[float, float]:
        """Probability of a region and its standard error.

        Parameters
        ----------
        inside : callable or bool array
            ``inside(*middles)``, of the bins' middles (broadcast against each other), or the bins.
        """
        if callable(inside):
            inside = inside(*np.meshgrid(*self.middles, indexing="ij"))
        inside = np.broadcast_to(np.asarray(inside, bool), self.value.shape)
        error = self.replicates[:, inside].sum(1).std(ddof=1) if len(self.replicates) > 1 else np.nan
        return float(self.probability[inside].sum()), float(error)

    def plot(self, ax: Any = None, *, degrees: bool = False, **line: Any) -> Any:
        """Draw the profile with a band of one standard error to both sides, or the map; angles in `degrees`."""
        middles = [np.degrees(x) if degrees else x for x in self.middles]
        seen = np.where(np.isfinite(self.value), self.value, np.nan)
        if len(middles) == 1:
            with plots.axes(ax, xlabel="angle [°]" if degrees else "x", ylabel="free energy [kJ/mol]") as ax:
                plots.band(ax, middles[0], seen, self.error if len(self.replicates) else np.nan * seen, **line)
            return ax
        with plots.axes(
            ax, xlabel="first angle [°]" if degrees else "x", ylabel="second angle [°]" if degrees else "y"
        ) as ax:
            plots.heatmap(ax, middles[0], middles[1], seen, "free energy [kJ/mol]", **line)
        return ax


def wham(
    samples: Sequence[Any],
    centers: Any = None,
    k: Any = None,
    *,
    temperature: float,
    bias: Sequence[Callable] | None = None,
    bins: int | Sequence[int] = 60,
    period: Any = None,
    limits: Any = None,
    tolerance: float = 1e-8,
    bootstrap: int = 100,
    seed: int = 0,
    progress: bool | None = None,
) -> Wham:
    r"""Free energy along one or two variables from windows with known biases.

    The density in bin b is the one that makes all histograms most likely [1]_ [2]_,

    .. math:: p_b = \frac{\sum_w n_{wb}}{\sum_w N_w e^{f_w} c_{wb}}, \qquad e^{-f_w} = \sum_b p_b c_{wb},

    where c is the mean of exp(-bias/RT) over the bin. The f are found by Newton's method [3]_, everything in
    logarithms. Samples count by their statistical inefficiency; errors are the spread over histograms drawn from what
    the sampled ones, with as many independent samples, leave open (Bayesian bootstrap [4]_).

    Parameters
    ----------
    samples : sequence of (m,) or (m, 2) array
        The variable (or two of them) in each window, in the order of time.
    centers : (windows,) or (windows, 2) array
        Centers of harmonic biases k/2 (x - center)^2.
    k : float or array
        Force constants in kJ/mol per square of the variable's unit: of all windows, or such as `centers`.
    temperature : float, K
        Temperature of the samples.
    bias : sequence of callable, optional
        Biases in place of centers and k: ``bias[w](x)`` or ``bias[w](x, y)``, in kJ/mol, of arrays.
    bins : int or (int, int)
        Bins should be at most half as wide as a window's spread, (RT/k)^1/2: the density is taken as constant in
        each, and wider bins smear out barriers.
    period : (low, high), or two of them or None, optional
        Range of periodic variables, such as ``(-np.pi, np.pi)``.
    limits : (low, high), or two of them, optional
        Range of the bins. Defaults to the range of all samples, or the period.
    tolerance : float
        Largest error of the expected number of samples in a window, over all samples.
    bootstrap : int
        Number of sets of histograms drawn for errors; 0 for none.
    seed : int
        Seed of the bootstrap samples.
    progress : bool, optional
        Show a progress bar of the bootstrap. By default only on terminals and in notebooks.

    Returns
    -------
    Wham

    Raises
    ------
    ValueError
        If shapes do not fit, a window has no samples, or the equations cannot be solved.

    Warns
    -----
    UserWarning
        If windows do not overlap: the free energy between their regions then is not determined.

    References
    ----------
    .. [1] Kumar, Rosenberg, Bouzida, Swendsen, Kollman, "The weighted histogram analysis method for free-energy
       calculations on biomolecules", J. Comput. Chem. 13 (1992) 1011. doi:10.1002/jcc.540130812
    .. [2] Souaille, Roux, "Extension to the weighted histogram analysis method", Comput. Phys. Commun. 135 (2001) 40.
       doi:10.1016/S0010-4655(00)00215-0
    .. [3] Zhu, Hummer, "Convergence and error estimation in free energy calculations using the weighted histogram
       analysis method", J. Comput. Chem. 33 (2012) 453. doi:10.1002/jcc.21989
    .. [4] Rubin, "The Bayesian bootstrap", Ann. Stat. 9 (1981) 130. doi:10.1214/aos/1176345338

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge.analysis import wham
    >>> rng, centers, width = np.random.default_rng(0), np.linspace(-1, 1, 5), np.sqrt(0.0083144626 * 300 / 50)
    >>> samples = [rng.normal(c, width, 500) for c in centers]
    >>> result = wham(samples, centers, k=50.0, temperature=300, bins=20, limits=(-1, 1))
    >>> bool(result.value.max() < 2)  # flat: the windows feel nothing but their biases
    True
    """
    data = _samples(samples)
    dimensions = data[0].shape[1]
    check.positive(temperature, "wham: temperature", "K")
    if bootstrap < 0 or bootstrap == 1:
        raise ValueError(f"wham: bootstrap must be 0 or at least 2, got {bootstrap}")
    thermal = units.GAS_CONSTANT * temperature
    periods = _intervals("period", period, dimensions)
    data = [_wrapped(x, periods) for x in data]
    edges = _edges(data, bins, periods, limits, dimensions)
    functions = _biases(len(data), centers, k, bias, dimensions, periods)
    shape = tuple(len(e) - 1 for e in edges)
    counts = np.array([np.histogramdd(x, bins=edges)[0].ravel() for x in data])
    if np.any(counts.sum(1) == 0):
        raise ValueError(
            f"wham: every window must have samples within the limits, got none in window "
            f"{int(np.argmin(counts.sum(1)))}"
        )
    log_c = np.array([_log_mean(f, edges, thermal) for f in functions])
    inefficiency = np.array([inefficiency_of(x, periods) for x in data])
    effective = counts / inefficiency[:, None]
    seen = counts.sum(0) > 0
    weight, log_c = effective[:, seen], log_c[:, seen]
    f, log_p, iterations = solve(weight.sum(1), weight.sum(0), log_c, np.zeros(len(data)), tolerance)
    overlap = _overlap(weight.sum(1), f, log_p, log_c)
    warn_of_gaps("wham: windows", overlap, np.arange(len(data)), 3)
    replicates = np.zeros((bootstrap, seen.sum()))
    drawn_f = np.zeros((bootstrap, len(f)))
    rng = np.random.default_rng(seed)
    with progress_bar("wham", "bootstrap sample", bootstrap, show=progress) as bar:
        for r in range(bootstrap):
            drawn = np.maximum(rng.gamma(weight), 1e-300 * (weight > 0))
            drawn *= (weight.sum(1) / drawn.sum(1))[:, None]
            drawn_f[r], replicates[r], _ = solve(drawn.sum(1), drawn.sum(0), log_c, f, tolerance)
            bar.update()
    error = _spread(-thermal * replicates, weight) if bootstrap else np.full(seen.sum(), np.nan)
    offsets = thermal * (drawn_f - drawn_f[:, :1])
    value = -thermal * (log_p - log_p.max())
    return Wham(
        tuple(0.5 * (e[1:] + e[:-1]) for e in edges),
        _filled(value, seen, np.inf).reshape(shape),
        _filled(error, seen, np.nan).reshape(shape),
        _filled(np.exp(log_p), seen, 0.0).reshape(shape),
        thermal * (f - f[0]),
        offsets.std(0, ddof=1) if bootstrap else np.full(len(f), np.nan),
        overlap,
        iterations,
        effective.sum(1),
        float(temperature),
        np.array([_filled(np.exp(p), seen, 0.0).reshape(shape) for p in replicates]),
    )


def _spread(values, weight):
    """Standard deviation over the first axis, of the difference to the mean over bins, in which these count as often as
    samples.
    """
    share = weight.sum(0) / weight.sum()
    return (values - (values @ share)[:, None]).std(0, ddof=1)


def _samples(samples):
    data = [np.asarray(x, np.float64) for x in samples]
    if not data:
        raise ValueError("wham: there must be at least one window, got none")
    data = [x[:, None] if x.ndim == 1 else x for x in data]
    for w, x in enumerate(data):
        if x.ndim != 2 or x.shape[1] != data[0].shape[1] or x.shape[1] not in (1, 2):
            raise ValueError(
                f"wham: samples of a window must have shape [m] or [m, 2], alike for all, got "
                f"{np.shape(samples[w])} for window {w}"
            )
        if not len(x):
            raise ValueError(f"wham: every window must have samples, got none in window {w}")
        if not np.isfinite(x).all():
            raise ValueError(f"wham: samples must be finite, got {x[~np.isfinite(x).all(1)][0]} in window {w}")
    return data


def _intervals(name, value, dimensions):
    """One (low, high) or None for each variable."""
    if value is None:
        return [None] * dimensions
    value = [value] if dimensions == 1 and np.ndim(value[0]) == 0 and value[0] is not None else list(value)
    if len(value) != dimensions:
        raise ValueError(f"wham: {name} must be (low, high) for each of {dimensions} variables, got {value}")
    for interval in value:
        if interval is not None and not (len(interval) == 2 and -np.inf < interval[0] < interval[1] < np.inf):
            raise ValueError(f"wham: {name} must be (low, high) with low < high, got {interval}")
    return [None if i is None else (float(i[0]), float(i[1])) for i in value]


def _wrapped(x, periods):
    x = x.copy()
    for d, p in enumerate(periods):
        if p is not None:
            x[:, d] = p[0] + np.mod(x[:, d] - p[0], p[1] - p[0])
    return x


def _edges(data, bins, periods, limits, dimensions):
    bins = [bins] * dimensions if np.ndim(bins) == 0 else list(bins)
    if len(bins) != dimensions or any(isinstance(b, bool) or not hasattr(b, "__index__") or b < 1 for b in bins):
        raise ValueError(f"wham: bins must be integers >= 1, one for each of {dimensions} variables, got {bins}")
    edges = []
    for d, given in enumerate(_intervals("limits", limits, dimensions)):
        if given is None:
            given = periods[d] or (min(x[:, d].min() for x in data), max(x[:, d].max() for x in data))
        if periods[d] is not None and not periods[d][0] <= given[0] < given[1] <= periods[d][1]:
            raise ValueError(f"wham: limits must lie within the period {periods[d]}, got {given}")
        if not given[0] < given[1]:
            raise ValueError(f"wham: samples must differ, got {given[0]} only (give limits)")
        edges.append(np.linspace(given[0], given[1], bins[d] + 1))
    return edges


def _biases(windows, centers, k, bias, dimensions, periods):
    if (bias is None) == (centers is None or k is None):
        raise ValueError("wham: give either centers and k, or bias")
    if bias is not None:
        if len(bias) != windows:
            raise ValueError(f"wham: there must be one bias for each of {windows} windows, got {len(bias)}")
        return list(bias)
    centers = np.asarray(centers, np.float64)
    centers = check.shape(centers[:, None] if centers.ndim == 1 else centers, (windows, dimensions), "wham: centers")
    k = np.asarray(k, np.float64)
    k = k[:, None] if k.shape == (windows,) and dimensions == 1 else k
    k = np.broadcast_to(k, centers.shape)
    if not (np.isfinite(centers).all() and np.isfinite(k).all() and np.all(k >= 0)):
        raise ValueError("wham: centers must be finite, and k finite and >= 0")
    return [_harmonic(c, s, periods) for c, s in zip(centers, k, strict=True)]


def _harmonic(center, k, periods):
    def energy(*x):
        return sum(0.5 * s * _apart(v - c, p) ** 2 for v, c, s, p in zip(x, center, k, periods, strict=True))

    return energy


def _apart(d, period):
    return d if period is None else d - (period[1] - period[0]) * np.rint(d / (period[1] - period[0]))


def _log_mean(bias, edges, thermal):
    """Logarithm of the mean of exp(-bias/RT) over each bin, by Gauss and Legendre's rule with four points a side."""
    points = [(0.5 * (e[1:] + e[:-1]))[:, None] + 0.5 * np.diff(e)[:, None] * _NODES for e in edges]
    log_w = np.log(0.5 * _WEIGHTS)
    if len(edges) == 1:
        u = np.broadcast_to(np.asarray(bias(points[0]), np.float64), points[0].shape)
        result = np.logaddexp.reduce(log_w - u / thermal, axis=1)
    else:
        x, y = points[0][:, :, None, None], points[1][None, None]
        shape = np.broadcast_shapes(x.shape, y.shape)
        u = np.broadcast_to(np.asarray(bias(*np.broadcast_arrays(x, y)), np.float64), shape)
        result = np.logaddexp.reduce(
            np.logaddexp.reduce(log_w[:, None, None] + log_w - u / thermal, axis=3), axis=1
        ).ravel()
    if not np.isfinite(result).all():
        raise ValueError("wham: biases must be finite within the limits")
    return result


def inefficiency_of(x: np.ndarray, periods: Sequence[Any]) -> float:
    """Statistical inefficiency of variables [m, d]: the largest; of periodic ones, about the mean direction."""
    worst = 1.0
    for d, p in enumerate(periods):
        v = x[:, d]
        if p is not None:
            angle = 2 * np.pi * (v - p[0]) / (p[1] - p[0])
            v = _apart(v - (p[0] + (p[1] - p[0]) * np.angle(np.exp(1j * angle).mean()) / (2 * np.pi)), p)
        worst = max(worst, statistical_inefficiency(v) if len(v) > 1 else 1.0)
    return worst


def solve(
    total: np.ndarray,  # (windows,) N > 0
    per_bin: np.ndarray,  # (bins,) M > 0
    log_c: np.ndarray,  # (windows, bins)
    f: np.ndarray,  # (windows,) first guess
    tolerance: float,  # largest element of the gradient, over the number of all samples
) -> tuple[np.ndarray, np.ndarray, int]:
    """Solve the equations of WHAM, or those of MBAR, where every sample has a bin of its own.

    Minimize the convex A(f) = sum_b M_b ln sum_w N_w exp(f_w) c_wb - sum_w N_w f_w, whose gradient is the expected
    number of samples in a window less the actual one. Return f (windows,), of which the first is 0, the logarithms of
    the probabilities (bins,), and the number of iterations.
    """
    log_n, all_ = np.log(total), total.sum()

    def function(f):
        log_d = log_sum((log_n + f)[:, None] + log_c)
        return per_bin @ log_d - total @ f, log_d

    value, log_d = function(f)
    for iteration in range(1, 501):
        share = np.exp((log_n + f)[:, None] + log_c - log_d)  # that a sample of a bin is one of a window
        gradient = share @ per_bin - total
        if np.abs(gradient).max() <= tolerance * all_:
            log_p = np.log(per_bin) - log_d
            return f - f[0], log_p - log_sum(log_p), iteration
        hessian = np.diag(share @ per_bin) - (share * per_bin) @ share.T
        step = np.zeros_like(f)
        # the offset of all f is free, and so is that between windows without overlap
        step[1:] = -np.linalg.lstsq(hessian[1:, 1:], gradient[1:], rcond=1e-13)[0]
        length = min(1.0, 20.0 / max(np.abs(step).max(), 1e-300))
        slope = gradient @ step
        while length > 1e-10:
            trial, _ = function(f + length * step)
            if trial <= value + 1e-4 * length * slope + 1e-12 * abs(value):
                break
            length *= 0.5
        # the step of the fixed-point iteration always goes down
        f = f + length * step if length > 1e-10 else f - np.log(np.maximum(share @ per_bin, 1e-300) / total)
        f = f - f[0]
        value, log_d = function(f)
    raise ValueError(
        f"free energies of windows: did not converge to {tolerance} in 500 iterations, got an error of "
        f"{np.abs(gradient).max() / all_:.1e} (do the windows overlap?)"
    )


def log_sum(x: np.ndarray, axis: int = 0) -> Any:
    """Logarithm of the sum of exp(x) over an axis; -inf where all terms are."""
    top = x.max(axis=axis, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - top).sum(axis=axis)) + np.squeeze(top, axis)


def _overlap(total, f, log_p, log_c):
    """O_vw = N_w sum_b q_vb p(w | b), with the density q_v of window v (Klimovich, Shirts, Mobley, J.

    Comput.-Aided Mol. Des. 29, 397 (2015)).
    """
    log_q = f[:, None] + log_p + log_c
    log_q = log_q - log_sum(log_q.T)[:, None]
    log_w = (np.log(total) + f)[:, None] + log_c
    share = np.exp(log_w - log_sum(log_w))
    return np.exp(log_q) @ share.T


def warn_of_gaps(what: str, overlap: np.ndarray, among: np.ndarray, stacklevel: int) -> None:
    """Warn if the states `among` fall into groups with too little overlap between them."""
    number = connected_components(np.maximum(overlap, overlap.T) >= _OVERLAP, directed=False)[1]
    group, others = ([int(k) for k in among if (number[k] == number[among[0]]) == same] for same in (True, False))
    if others:
        warnings.warn(
            f"{what} {_listed(group)} do not overlap with {_listed(others)}: "
            f"the free energy "
            "between them is not determined (more in between, or softer biases)",
            stacklevel=stacklevel,
        )


def _listed(numbers):
    return ", ".join(map(str, numbers)) if len(numbers) < 7 else f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"


def _filled(values, where, fill):
    result = np.full(len(where), fill)
    result[where] = values
    return result
