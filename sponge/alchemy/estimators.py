"""Free energy differences from works and slopes: the Bennett acceptance ratio, and thermodynamic integration."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from triskele.core.extend import check

from .. import units
from ..analysis.statistics import mean, statistical_inefficiency
from ..analysis.wham import log_sum

__all__ = ["bar", "thermodynamic_integration"]

_FEWEST = 2  # samples of which an error can be told
_OVERLAP = 1e-3  # as in mbar


def bar(forward: Any, reverse: Any, *, temperature: float, bootstrap: int = 0, seed: int = 0) -> tuple[float, float]:
    r"""Free energy difference of two states by the Bennett acceptance ratio [1]_.

    With w_F = U_1 - U_0 at samples of state 0 and w_R = U_0 - U_1 at samples of state 1, in units of RT, the
    difference f solves

    .. math:: \sum_{n=1}^{N_0} \frac{1}{1 + e^{M + w_F - f}} = \sum_{n=1}^{N_1} \frac{1}{1 + e^{-M + w_R + f}},
              \qquad M = \ln(N_0 / N_1)

    Parameters
    ----------
    forward, reverse : (n0,), (n1,) array, kJ/mol
        Works of switching each state's samples to the other state, in the order of time.
    temperature : float, K
        Temperature of the samples.
    bootstrap : int
        Number of resampled sets whose spread is the error; 0 for the asymptotic error, which for uncorrelated samples
        is that of [1]_ and [2]_. Blocks of correlated samples are drawn together.
    seed : int
        Seed of the bootstrap.

    Returns
    -------
    value, error : float, kJ/mol
        Free energy of state 1 less that of state 0, and its standard error. Both errors allow for correlation in time
        (`analysis.statistical_inefficiency`), and are infinite if the states do not overlap.

    Raises
    ------
    ValueError
        If there are fewer than two samples of a state, or a number is not finite.

    Warns
    -----
    UserWarning
        If the states do not overlap.

    References
    ----------
    .. [1] Bennett, "Efficient estimation of free energy differences from Monte Carlo data", J. Comput. Phys. 22 (1976)
       245, eq. 12. doi:10.1016/0021-9991(76)90078-4
    .. [2] Bennett (1976), eq. 10b; Shirts, Bair, Hooker, Pande, "Equilibrium free energies from nonequilibrium
       measurements using maximum-likelihood methods", Phys. Rev. Lett. 91 (2003) 140601.
       doi:10.1103/PhysRevLett.91.140601

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import alchemy
    >>> rng = np.random.default_rng(0)
    >>> forward = rng.normal(3.0, 2.0, 2000)  # kJ/mol; Gaussian works with this mean and spread
    >>> dissipated = 2.0**2 / (2 * 0.0083144626 * 300)
    >>> reverse = rng.normal(-3.0 + 2 * dissipated, 2.0, 2000)
    >>> value, error = alchemy.bar(forward, reverse, temperature=300)
    >>> bool(abs(value - (3.0 - dissipated)) < 4 * error)
    True
    """
    thermal = units.GAS_CONSTANT * check.positive(temperature, "bar: temperature", "K")
    works = [_works(name, w) / thermal for name, w in (("forward", forward), ("reverse", reverse))]
    if bootstrap:
        check.integer(bootstrap, "bar: bootstrap", 2)
    f, pulls, overlap = acceptance_ratio(*works)
    if overlap < _OVERLAP:
        warnings.warn(
            f"bar: the two states do not overlap ({overlap:.1g}): the free energy between them is not "
            f"determined (a state in between)",
            stacklevel=2,
        )
    if not is_determined(overlap, works):
        return f * thermal, math.inf
    if bootstrap:
        rng, g = np.random.Generator(np.random.Philox(seed)), [statistical_inefficiency(pull) for pull in pulls]
        drawn = [acceptance_ratio(*(_resampled(w, gw, rng) for w, gw in zip(works, g)))[0] for _ in range(bootstrap)]
        return f * thermal, float(np.std(drawn, ddof=1)) * thermal
    return f * thermal, math.hypot(*(len(pull) * mean(pull).error for pull in pulls)) * thermal


def acceptance_ratio(forward: np.ndarray, reverse: np.ndarray) -> tuple[float, list[np.ndarray], float]:
    """Solution of Bennett's equation for reduced works; by how much each sample of either state shifts it, to first
    order; and the chance that a sample of one state might as well be one of the other.
    """
    m = math.log(len(forward) / len(reverse))

    def excess(f):  # of logarithms, which do not underflow, and with which works of any size converge
        return float(log_sum(log_expit(f - m - forward)) - log_sum(log_expit(m - f - reverse)))

    low, high = min(forward.min(), (-reverse).min()) - abs(m) - 1, max(forward.max(), (-reverse).max()) + abs(m) + 1
    while excess(low) > 0:
        low -= 2 * (high - low)
    while excess(high) < 0:
        high += 2 * (high - low)
    f = float(brentq(excess, low, high, xtol=1e-12, rtol=8.9e-16, maxiter=1000))
    shares = [expit(f - m - forward), expit(m - f - reverse)]
    shared = float(sum(s @ (1 - s) for s in shares))
    return f, [(sign * s / max(shared, 1e-300)) for sign, s in zip((-1, 1), shares)], shared / min(map(len, shares))


def is_determined(overlap: float, works: Sequence[np.ndarray]) -> bool:
    """Return True if the states of these works share 0.001 of their samples, or at least one."""
    return overlap >= _OVERLAP or overlap * min(map(len, works)) >= 1


def _works(name, values):
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or len(values) < _FEWEST:
        raise ValueError(f"bar: {name} must have shape [samples], at least {_FEWEST}, got {values.shape}")
    return check.finite(values, f"bar: {name}")


def _resampled(values, g, rng):
    """As many values, drawn in blocks of neighbors, which are as long as the correlation."""
    n, length = len(values), min(math.ceil(g), len(values))
    first = rng.integers(0, n, -(-n // length))
    return values[((first[:, None] + np.arange(length)) % n).ravel()[:n]]


def thermodynamic_integration(
    lambdas: Any,
    slopes: Sequence[Any] | Mapping[str, Sequence[Any]],
    *,
    method: Literal["spline", "trapezoid"] = "spline",
) -> tuple[float, float]:
    r"""Free energy difference of the last and the first state by integrating mean slopes.

    .. math:: \Delta F = \sum_i \int \left\langle \frac{\partial U}{\partial\lambda_i} \right\rangle d\lambda_i

    along the path through all states. The integral is one of trapezoids, or of natural cubic splines [1]_, one for each
    stretch in which a lambda changes. It is linear in the means, so that the error follows from those of the states.

    Parameters
    ----------
    lambdas : (k,) array, or dict of str to (k,) array
        Lambdas of the states.
    slopes : sequence of k arrays, or dict of str to sequence of k arrays, kJ/mol
        dU/dlambda of the samples of each state, in the order of time; by the names in `lambdas` if that is a dict.
    method : {"spline", "trapezoid"}

    Returns
    -------
    value, error : float, kJ/mol
        The error allows for correlation in time, not for the error of the integration rule.

    Raises
    ------
    ValueError
        If `lambdas` is empty, if numbers of states or samples differ, if a state has fewer than two samples, or if a
        value is not finite.

    References
    ----------
    .. [1] Shyu, Ytreberg, "Reducing the bias and uncertainty of free energy estimates by using regression to fit
       thermodynamic integration data", J. Comput. Chem. 30 (2009) 2297. doi:10.1002/jcc.21231

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.sponge import alchemy
    >>> lambdas, rng = np.linspace(0, 1, 5), np.random.default_rng(0)
    >>> slopes = [rng.normal(3 * x**2, 0.1, 200) for x in lambdas]
    >>> value, error = alchemy.thermodynamic_integration(lambdas, slopes)
    >>> bool(abs(value - 1) < 0.03)
    True
    """
    values, variances = integrated(lambdas, slopes, method)
    return float(values[-1]), math.sqrt(variances[-1])


def integrated(lambdas: Any, slopes: Any, method: str) -> tuple[np.ndarray, np.ndarray]:
    """Integrals from the first state to every state, and their variances; see `thermodynamic_integration`."""
    where = "thermodynamic_integration"
    if method not in ("spline", "trapezoid"):
        raise ValueError(f"{where}: method must be 'spline' or 'trapezoid', got {method!r}")
    if isinstance(lambdas, Mapping) and not lambdas:
        raise ValueError(f"{where}: there must be at least one lambda, got none")
    if not isinstance(lambdas, Mapping):
        lambdas, slopes = {"lambda": lambdas}, {"lambda": slopes}
    if not isinstance(slopes, Mapping) or set(slopes) != set(lambdas):
        raise ValueError(
            f"{where}: slopes must have the names {', '.join(lambdas)}, got "
            f"{', '.join(slopes) if isinstance(slopes, Mapping) else type(slopes).__name__}"
        )
    weights = {}
    for name, given in lambdas.items():
        path = check.finite(np.asarray(given, np.float64), f"{where}: {name}")
        if path.ndim != 1 or len(path) < 2 or len(path) != len(slopes[name]):
            raise ValueError(
                f"{where}: {name} must have as many states as slopes, at least 2, got {path.shape} and "
                f"{len(slopes[name])}"
            )
        weights[name] = integration_weights(path, method)
    k = len(path)
    if any(len(w) != k for w in weights.values()):
        raise ValueError(f"{where}: all lambdas must have the same number of states")
    values, variances = np.zeros(k), np.zeros(k)
    for state in range(k):
        series = [_slopes(where, name, state, slopes[name][state]) for name in weights]
        if len({len(s) for s in series}) > 1:
            raise ValueError(
                f"{where}: slopes of state {state} must have the same number of samples for all lambdas, "
                f"got {', '.join(str(len(s)) for s in series)}"
            )
        w = np.array([weights[name][:, state] for name in weights])
        for end in range(k):
            if np.any(w[:, end]):
                found = mean(w[:, end] @ np.array(series))
                values[end] += found.value
                variances[end] += found.error**2
    return values, variances


def integration_weights(path: np.ndarray, method: str) -> np.ndarray:
    """Weights [end, state] of the slopes in the integral from the first state to each; stretches that rise, fall or
    stay are integrated apart.
    """
    k = len(path)
    pieces = np.zeros((k, k))  # of the interval that ends at each state
    moves = np.sign(np.diff(path))
    first = 0
    while first < k - 1:
        last = first + 1
        while last < k - 1 and moves[last] == moves[first]:
            last += 1
        x = path[first : last + 1]
        if moves[first] == 0:
            pass
        elif method == "trapezoid":
            for i in range(first, last):
                pieces[i + 1, i : i + 2] = 0.5 * (path[i + 1] - path[i])
        else:
            rising = x if moves[first] > 0 else -x
            spline = CubicSpline(rising, np.eye(len(x)), bc_type="natural")
            for i in range(len(x) - 1):
                pieces[first + i + 1, first : last + 1] = moves[first] * spline.integrate(rising[i], rising[i + 1])
        first = last
    return np.cumsum(pieces, axis=0)


def _slopes(where, name, state, values):
    values = np.asarray(values, np.float64)
    if values.ndim != 1 or len(values) < _FEWEST:
        raise ValueError(
            f"{where}: slopes of state {state} ({name}) must have shape [samples], at least {_FEWEST}, "
            f"got {values.shape}"
        )
    return check.finite(values, f"{where}: slopes of state {state} ({name}), sample")
