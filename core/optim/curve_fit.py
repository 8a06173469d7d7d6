"""`fit`: parameters of a model from data, with their errors, confidence intervals and error bands of predictions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from types import MethodType
from typing import Any

import numpy as np
from scipy import optimize, special

from .. import check, foreign, tree
from ..compile.jit import jit
from ..compile.rebound import snapshot
from ..show.report import Reports
from ..transforms.jacobian import jacfwd
from .least_squares import GaussNewton, LevenbergMarquardt, Problem

__all__ = ["Fit", "fit"]

_KEPT = 8  # models whose compiled functions stay
_DOUBLINGS = 20  # of the distance from the best value, within which a profile is searched for its limit
_kept: list[_Compiled] = []


class _Compiled:
    """Residuals and predictions of a model, compiled once for all data of a shape."""

    def __init__(self, model: Callable[..., Any], params: Any, kind: Any):
        self.model, self.kind = model, kind
        self.states, self.values = snapshot(model)

        def residuals(p, x, y, weights):
            value = model(p, x)
            if np.shape(value) != np.shape(y):
                raise ValueError(f"fit: the model must return the shape of y, {np.shape(y)}, got {np.shape(value)}")
            if np.iscomplexobj(value) and not np.iscomplexobj(y):
                raise TypeError("fit: the model must return real numbers for real y, got complex ones")
            r = np.matmul(weights, value - y) if np.ndim(weights) > np.ndim(y) else weights * (value - y)
            return [np.real(r), np.imag(r)] if np.iscomplexobj(r) else r

        self.problem = Problem("fit", residuals, params)
        predict = lambda v, x: model(self.problem.params(v), x)
        self.predict, self.slopes = jit(predict), jit(jacfwd(predict))


def _compiled(model: Callable[..., Any], params: Any) -> _Compiled:
    """The compiled functions of an earlier fit of the same model, as long as nothing that it reads has changed."""
    leaves, structure = tree.flatten(params)
    kind = structure, [(np.shape(x), np.result_type(x)) for x in leaves]
    for one in list(_kept):
        same = one.model == model if isinstance(model, MethodType) else one.model is model
        if same and one.kind == kind and one.states == snapshot(model)[0]:
            break
    else:
        one = _Compiled(model, params, kind)
    _kept[:] = [*[k for k in _kept if k is not one][1 - _KEPT :], one]
    return one


@dataclass(frozen=True, eq=False)
class Fit:
    """Result of `fit`.

    Attributes
    ----------
    params, errors : tree
        The parameters, and their standard errors in trees like them; infinite where the data do not determine one.
    names : list of str
        Names of the numbers in `params`, in the order of `covariance`.
    covariance : (p, p) float64
    chi2 : float
        Sum of the squares of residuals / sigma.
    dof : int
        Degrees of freedom: numbers in the data (complex ones count twice) less p.
    residuals : array like y
        Data less model, not divided by sigma.
    absolute_sigma : bool

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> x = np.linspace(0.0, 4.0, 9)
    >>> y = 2.5 * np.exp(-1.3 * x) + 0.01 * np.cos(9 * x)
    >>> found = core.fit(lambda p, x: p["a"] * np.exp(-p["k"] * x), x, y, {"a": 1.0, "k": 1.0})
    >>> found
    Fit: chi2 = 0.0003652, 7 degrees of freedom
      a  2.5085 ± 0.0070
      k  1.3065 ± 0.0069
    >>> value, error = found.predict(np.array([0.5]))
    >>> value.round(3), error.round(3)
    (array([1.305]), array([0.004]))
    """

    params: Any
    errors: Any
    names: list[str]
    covariance: np.ndarray
    chi2: float
    dof: int
    residuals: np.ndarray
    absolute_sigma: bool
    _model: Callable[..., Any] = field(repr=False)
    _data: tuple[Any, ...] = field(repr=False)
    _directions: np.ndarray = field(repr=False)  # columns in the space of parameters, which do not correlate
    _lengths: np.ndarray = field(repr=False)  # standard errors along these

    def __repr__(self) -> str:
        width = max(map(len, self.names))
        lines = [
            f"  {name:{width}}  {_rounded(value, error)}"
            for name, value, error in zip(self.names, _vector(self.params), _vector(self.errors))
        ]
        if len(lines) > 24:
            lines[20:] = [f"  ... {len(lines) - 20} more"]
        return "\n".join([f"Fit: chi2 = {self.chi2:.4g}, {self.dof} degrees of freedom", *lines])

    def predict(self, x: Any) -> tuple[Any, Any]:
        """Return the model at `x` and its standard error, which follows from the covariance to first order.

        Parameters
        ----------
        x : tree
            As for the model.

        Returns
        -------
        value, error : array
            The error holds that of the real and of the imaginary part where the model is complex.
        """
        known, x = _compiled(self._model, self.params), _arrays(x)
        v = _vector(self.params)
        value, slopes = np.asarray(known.predict(v, x)), np.asarray(known.slopes(v, x))
        rows = slopes.reshape(-1, v.size)
        error = _deviations(rows.real, self._directions, self._lengths)
        if np.iscomplexobj(rows):
            error = error + 1j * _deviations(rows.imag, self._directions, self._lengths)
        return value, error.reshape(value.shape)

    def confidence(self, level: float = 0.95, *, profile: bool = False) -> tuple[Any, Any]:
        """Return the lower and the upper ends of confidence intervals, each a tree like the parameters.

        Parameters
        ----------
        level : float, default 0.95
        profile : bool, default False
            By default, the ends lie symmetrically, by Student's t (by the normal distribution with `absolute_sigma`).
            With True, they are where the lowest chi2 with that parameter held rises by as much as `level` says, which
            is right for curved models, too; an end beyond a million standard errors is infinite.

        Raises
        ------
        RuntimeError
            If the profile finds parameters with a lower chi2.
        """
        check.number(level, "Fit.confidence: level", 0, 1)
        below = (1 + level) / 2
        best, errors = _vector(self.params), _vector(self.errors)
        if not self.dof and not self.absolute_sigma:
            return _like(self.params, np.full_like(best, -np.inf)), _like(self.params, np.full_like(best, np.inf))
        times = special.ndtri(below) if self.absolute_sigma else special.stdtrit(self.dof, below)
        low, high = best - times * errors, best + times * errors
        if profile:
            known = _compiled(self._model, self.params)
            problem = known.problem.at(self.params, self._data)
            rise = times**2 * (1.0 if self.absolute_sigma else self.chi2 / self.dof)
            for k in np.flatnonzero(np.isfinite(errors)):
                low[k], high[k] = (
                    _limit(problem, int(k), best, side * times * errors[k], self.chi2, rise) for side in (-1, 1)
                )
        return _like(self.params, low), _like(self.params, high)


def fit(
    model: Callable[..., Any],
    x: Any,
    y: Any,
    p0: Any,
    sigma: Any = None,
    *,
    absolute_sigma: bool = False,
    method: GaussNewton | None = None,
    report: Reports = None,
    progress: bool | None = None,
) -> Fit:
    """Fit the parameters of a model to data by least squares, with their errors.

    Parameters
    ----------
    model : callable
        ``model(params, x)`` returns an array like `y`.
    x : tree
        Passed to the model; lists become arrays.
    y : array
        Data of any shape, real or complex.
    p0 : tree of float
        Parameters to start with.
    sigma : float or array, optional
        Standard deviations of `y` (of real and imaginary part each), of a shape that broadcasts to it; for `y` of shape
        (n,) also their (n, n) covariance. By default 1.
    absolute_sigma : bool, default False
        True if `sigma` is known in the units of `y`. Otherwise it counts up to a factor, and errors are scaled by
        sqrt(chi2 / dof), as by ``scipy.optimize.curve_fit``.
    method : GaussNewton or LevenbergMarquardt, optional
        Defaults to ``optim.LevenbergMarquardt()``.
    report : function or list of functions, optional
        Called after every step; see `core.report`.
    progress : bool, optional
        Show a progress bar. By default only on terminals and in notebooks.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        If data, or the model at `p0`, are not finite, or there are fewer data than parameters.
    RuntimeError
        If the method does not converge.

    Warns
    -----
    RuntimeWarning
        If the data do not determine a parameter; its error is infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> x, y = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.1, 2.9, 5.2, 6.8])
    >>> found = core.fit(lambda p, x: p["slope"] * x + p["start"], x, y, {"slope": 1.0, "start": 0.0})
    >>> round(float(found.params["slope"]), 3), round(float(found.errors["slope"]), 3)
    (1.94, 0.091)
    """
    check.kind(method, (GaussNewton, None), "fit: method")
    method = method or LevenbergMarquardt()
    p0, x = tree.map(_inexact, _arrays(p0, False)), _arrays(x)
    y = check.finite(foreign.as_plain(y, "fit: y"), "fit: y")
    y = y if y.dtype.kind in "fc" else y.astype(np.float64)
    known = _compiled(model, p0)
    size = _vector(p0).size
    dof = y.size * (1 + np.iscomplexobj(y)) - size
    if dof < 0:
        raise ValueError(f"fit: needs as many data as parameters, got {dof + size} data for {size} parameters")
    data = x, y, _weights(sigma, y)
    check.finite(known.problem.at(p0, data).first[: y.size].reshape(y.shape), "fit: the model at p0")
    found = method.minimize(known.problem, p0, *data, report=report, progress=progress)
    if not found.converged:
        raise RuntimeError(
            f"fit: {method} did not converge: {found.message}; chi2 = {2 * found.value:.6g} at {found.params}"
        )
    problem = known.problem.at(found.params, data)
    chi2 = 2 * found.value
    scale = 1.0 if absolute_sigma else np.sqrt(chi2 / dof) if dof else np.inf
    jacobian, eps = problem.jacobian(problem.start), np.finfo(problem.first.dtype).eps
    sizes = np.maximum(np.abs(_vector(p0)), np.abs(_vector(found.params)))
    reach = np.linalg.norm(jacobian, axis=0) * sizes  # what a change by the size of a parameter would do
    jacobian[:, (0 < reach) & (reach < eps * np.linalg.norm(problem.first))] = 0
    directions, lengths = _spread(jacobian, eps, scale)
    names, errors = _names(p0), _deviations(np.eye(size), directions, lengths)
    if lost := [name for name, e in zip(names, errors) if np.isinf(e)]:
        why = "the data do not determine" if dof or absolute_sigma else "as many parameters as data leave no error for"
        shown = ", ".join(map(repr, lost[:8])) + (f" and {len(lost) - 8} more" if len(lost) > 8 else "")
        warnings.warn(f"fit: {why} {shown}: infinite errors", RuntimeWarning, stacklevel=2)
    half = directions * np.where(np.isfinite(lengths), lengths, 0)
    covariance = np.where(np.isinf(errors)[:, None] | np.isinf(errors), np.inf, half @ half.T)
    return Fit(
        found.params,
        _like(p0, errors),
        names,
        covariance,
        chi2,
        dof,
        y - np.asarray(known.predict(problem.start, x)),
        absolute_sigma,
        model,
        data,
        directions,
        lengths,
    )


def _arrays(values, lists=True):
    """Convert lists and arrays of other libraries in a tree to NumPy arrays."""
    return tree.map(
        lambda v: foreign.as_plain(np.asarray(v) if type(v) is list else v, "fit"),
        values,
        is_leaf=lambda v: lists and type(v) is list,
    )


def _inexact(leaf):
    return leaf if np.result_type(leaf).kind in "fc" else np.asarray(leaf, np.float64)


def _vector(params):
    return np.concatenate([np.ravel(x).astype(np.float64) for x in tree.leaves(params)])


def _like(params, vector):
    """Return the numbers of a vector as a tree like `params`."""
    leaves, structure = tree.flatten(params)
    parts = np.split(vector, np.cumsum([np.size(x) for x in leaves])[:-1])
    return tree.unflatten(structure, [np.reshape(v, np.shape(x)) for v, x in zip(parts, leaves)])


def _names(params):
    return [
        path + (f"[{', '.join(map(str, index))}]" if index else "") or "value"
        for path, leaf in tree.paths(params)
        for index in np.ndindex(np.shape(leaf))
    ]


def _weights(sigma, y):
    """Return the weights of residuals: 1 / sigma, or the inverse Cholesky factor of a covariance matrix."""
    if sigma is None:
        return np.float64(1)
    sigma = check.finite(foreign.as_plain(sigma, "fit: sigma"), "fit: sigma")
    if y.ndim == 1 and sigma.shape == (y.size, y.size):
        return np.linalg.inv(np.linalg.cholesky(sigma))
    sigma = np.broadcast_to(sigma, y.shape).astype(np.float64)
    if np.any(bad := ~(sigma > 0)):
        place = ", ".join(map(str, np.argwhere(bad)[0]))
        raise ValueError(f"fit: sigma must be positive, got {sigma[bad][0]} at {place}")
    return 1 / sigma


def _spread(jacobian, eps, scale):
    """Directions without correlation, as columns, and the standard errors along them: infinite in the null space.

    The singular values are those of columns of length 1, so that units of parameters do not matter.
    """
    norms = np.linalg.norm(jacobian, axis=0)
    norms = np.where(norms > 0, norms, 1.0)
    _, values, vt = np.linalg.svd(jacobian / norms, full_matrices=False)
    known = values > eps * max(jacobian.shape) * values[0]
    return vt.T / norms[:, None], np.where(known, scale / np.where(known, values, 1), np.inf)


def _deviations(rows, directions, lengths):
    """Standard errors of numbers whose derivatives by the parameters are `rows`."""
    along = rows @ directions
    size = np.linalg.norm(along, axis=1, keepdims=True)
    none = (along == 0) | (np.isinf(lengths) & (np.abs(along) <= 1e-8 * size))  # the null space, but for rounding
    return np.linalg.norm(np.where(none, 0, along) * np.where(none, 0, lengths), axis=1)


class _Held(Problem):
    """A problem with its parameter `k` held at a value."""

    def __init__(self, problem: Problem, k: int, value: float):
        self.whole, self.k, self.value, self.where = problem, k, value, problem.where

    def at(self, params: Any, args: tuple[Any, ...]) -> Problem:
        self.start, self.args, self.first = params, args, self.residuals(params)
        return self

    def params(self, x: Any) -> Any:
        return x

    def full(self, x: np.ndarray) -> np.ndarray:
        whole = np.empty(x.size + 1)
        whole[: self.k], whole[self.k], whole[self.k + 1 :] = x[: self.k], self.value, x[self.k :]
        return whole

    def residuals(self, x: np.ndarray) -> np.ndarray:
        return self.whole.residuals(self.full(x))

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        return np.delete(self.whole.jacobian(self.full(x)), self.k, axis=1)

    def lowest(self, start: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the lowest chi2 and its parameters."""
        if not start.size:
            return float(np.sum(self.residuals(start).astype(np.float64) ** 2)), start
        found = LevenbergMarquardt().minimize(self, start)
        return 2 * found.value, found.params


def _limit(problem, k, best, step, chi2, rise):
    """The value of parameter `k`, in the direction of `step`, at which the lowest chi2 has risen by `rise`."""
    others = np.delete(best, k)

    @functools.cache
    def excess(distance):
        """Square roots make the rise nearly linear in the distance."""
        nonlocal others
        if distance == 0:
            return -np.sqrt(rise)
        held = _Held(problem, k, best[k] + distance)
        try:
            with np.errstate(all="ignore"):
                value, found = held.lowest(others)
        except (ValueError, RuntimeError):  # where the model is not finite, or an integration inside fails
            return 1e3 * np.sqrt(rise)
        if value < chi2 - 1e-6 * rise - 1e-9 * chi2:
            raise RuntimeError(
                f"Fit.confidence: chi2 must not be lower anywhere, got {value:.6g} < {chi2:.6g} at "
                f"{problem.params(held.full(found))} (fit again from there)"
            )
        if value < chi2 + rise:
            others = found
        return np.sqrt(max(value - chi2, 0.0)) - np.sqrt(rise)

    near, far = 0.0, step
    for _ in range(_DOUBLINGS):
        if excess(far) >= 0:
            return best[k] + optimize.brentq(excess, near, far, xtol=np.finfo(float).tiny, rtol=1e-8)
        near, far = far, 2 * far
    return np.sign(step) * np.inf


def _rounded(value, error):
    """The value with as many digits as its error has, which is rounded to two."""
    if not (0 < error < np.inf):
        return f"{value:.6g} ± {error:g}"
    digits = int(np.floor(np.log10(max(abs(value), error))) - np.floor(np.log10(error))) + 2
    return f"{value:#.{min(digits, 15)}g} ± {error:#.2g}"
