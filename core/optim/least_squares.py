"""Nonlinear least squares: Gauss-Newton and Levenberg-Marquardt on trees, with compiled residuals and Jacobians."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import check, tree
from ..compile.jit import jit
from ..show.report import Reports, Work
from ..transforms.grad import check_inexact
from ..transforms.jacobian import jacfwd, jacrev
from .lbfgs import Result

__all__ = ["GaussNewton", "LevenbergMarquardt", "Problem"]

_HALVINGS = 40
_TRIALS = 100


class Problem:
    """Residuals of a tree of parameters, as functions of one vector of float64 numbers."""

    args: tuple[Any, ...]
    start: np.ndarray
    first: np.ndarray  # residuals at the start
    evaluations = 0

    def __init__(self, where: str, residuals: Callable[..., Any], params: Any):
        self.where = where
        leaves, self.structure = tree.flatten(params)
        check_inexact(leaves, where)
        self.shapes, self.dtypes = [np.shape(x) for x in leaves], [np.result_type(x) for x in leaves]
        if any(d.kind == "c" for d in self.dtypes):
            raise TypeError(f"{where}: parameters must be real, got complex ones (optimize real and imaginary part)")
        self.ends = np.cumsum([int(np.prod(s)) for s in self.shapes])

        def vector(x, *args):
            found = tree.leaves(residuals(self.params(x), *args))
            return np.concatenate([np.ravel(r) * 1.0 for r in found])

        self._value, self._forward, self._reverse = jit(vector), jit(jacfwd(vector)), jit(jacrev(vector))

    def at(self, params: Any, args: tuple[Any, ...]) -> Problem:
        """The problem with these arguments and this start; what is compiled is shared."""
        made = copy.copy(self)
        made.args, made.evaluations = args, 0
        made.start = np.concatenate([np.ravel(x).astype(np.float64) for x in tree.leaves(params)])
        made.first = made.residuals(made.start)
        return made

    def params(self, x: Any) -> Any:
        """The tree of a vector."""
        begins = [0, *self.ends[:-1]]
        return tree.unflatten(
            self.structure,
            [
                np.astype(np.reshape(x[a:b], s), d)
                for a, b, s, d in zip(begins, self.ends, self.shapes, self.dtypes, strict=True)
            ],
        )

    def residuals(self, x: np.ndarray) -> np.ndarray:
        self.evaluations += 1
        return np.asarray(self._value(x, *self.args))

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        of = self._forward if self.start.size <= self.first.size else self._reverse
        found = np.asarray(of(x, *self.args), np.float64)
        if not np.all(np.isfinite(found)):
            raise ValueError(
                f"{self.where}: the Jacobian must be finite, got {np.sum(~np.isfinite(found))} entries "
                f"that are not, at {self.params(x)}"
            )
        return found


def _cost(r: np.ndarray) -> float:
    """Half the sum of squares; infinite if a residual is not finite."""
    with np.errstate(over="ignore"):
        value = 0.5 * float(r.astype(np.float64) @ r)
    return value if np.isfinite(value) else np.inf


@dataclass(frozen=True)
class GaussNewton:
    """Gauss-Newton method with a backtracking line search (Nocedal & Wright 2006, section 10.3).

    Converges quadratically where the residuals are small at the solution. `LevenbergMarquardt` is more robust far from
    the solution.

    Parameters
    ----------
    max_steps : int, default 100
    gradient_tolerance : float, default 1e-10
        Converged when the cosine of the angle between the residuals and each column of the Jacobian is at most this.
    step_tolerance : float, default 1e-10
        Converged when a step is shorter, relative to the parameters.
    value_tolerance : float, default 1e-14
        Converged when a step is predicted to reduce, and reduces, the value by less, relative to the value.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> t = np.linspace(0.0, 4.0, 9)
    >>> data = 2.5 * np.exp(-1.3 * t)
    >>> fit = optim.GaussNewton().minimize(lambda p: p["a"] * np.exp(-p["k"] * t) - data, {"a": 1.0, "k": 1.0})
    >>> round(float(fit.params["a"]), 6), round(float(fit.params["k"]), 6)
    (2.5, 1.3)
    """

    max_steps: int = 100
    gradient_tolerance: float = 1e-10
    step_tolerance: float = 1e-10
    value_tolerance: float = 1e-14

    def __post_init__(self) -> None:
        where = type(self).__name__
        check.integer(self.max_steps, f"{where}: max_steps", 0)
        for name in ("gradient_tolerance", "step_tolerance", "value_tolerance"):
            check.number(getattr(self, name), f"{where}: {name}", 0)

    def minimize(
        self,
        residuals: Callable[..., Any] | Problem,
        params: Any,
        *args: Any,
        report: Reports = None,
        progress: bool | None = None,
    ) -> Result:
        """Minimize half the sum of squares of ``residuals(params, *args)``.

        Parameters
        ----------
        residuals : callable
            Real array, or tree of arrays, of a tree of real arrays.
        params : tree
            The start.
        *args : trees
            Further arguments of `residuals`.
        report : function or list of functions, optional
            Called after every step with a dictionary of ``step`` and ``loss``; see `core.report`. A reporter that
            raises StopIteration ends the minimization.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.

        Returns
        -------
        Result
            `value` is half the sum of squares.

        Raises
        ------
        TypeError
            If parameters or residuals are complex.
        ValueError
            If residuals at the start, or derivatives, are not finite.
        """
        where = f"{type(self).__name__}.minimize"
        known = residuals if isinstance(residuals, Problem) else Problem(where, residuals, params)
        problem = known.at(params, args)
        x, r = problem.start, problem.first
        if r.dtype.kind != "f":
            raise TypeError(f"{where}: residuals must be real, got {r.dtype}")
        if not np.all(np.isfinite(r)):
            raise ValueError(
                f"{where}: residuals must be finite at the start, got {np.sum(~np.isfinite(r))} of {r.size} "
                "that are not"
            )
        cost, message, steps, memory, converged = _cost(r), "", 0, None, True
        before = np.inf
        rounding = cost * (100 * np.finfo(r.dtype).eps) ** 2
        with Work(where, report, progress, total=self.max_steps) as work:
            while not message:
                jacobian = problem.jacobian(x)
                gradient, norms = jacobian.T @ r, np.linalg.norm(jacobian, axis=0)
                cosines = np.abs(gradient) / np.where(norms > 0, norms, 1) / max(np.sqrt(2 * cost), 1e-300)
                if cost == 0 or cost <= rounding and cost >= 0.99 * before:  # it is large where the start is far
                    message = "the residuals are zero within rounding"
                elif np.max(cosines) <= self.gradient_tolerance:
                    message = "the gradient is zero within gradient_tolerance"
                elif steps == self.max_steps:
                    message, converged = f"max_steps={self.max_steps} reached", False
                else:
                    found, memory = self._trial(problem, x, r, cost, jacobian, memory)
                    if found is None:
                        message = "no step reduces the value any further"
                        converged = cost <= rounding or memory <= np.sqrt(np.finfo(r.dtype).eps) * cost
                        break
                    before = cost
                    (x, r, new), predicted, length = found
                    small = cost - new <= self.value_tolerance * cost and predicted <= self.value_tolerance * cost
                    cost, steps = new, steps + 1
                    work({"step": steps, "loss": cost})
                    if work.stopped:
                        message, converged = work.stopped, False
                    elif small:
                        message = "the value is stationary within value_tolerance"
                    elif length <= self.step_tolerance:
                        message = "the step is zero within step_tolerance"
        return Result(tree.map(np.asarray, problem.params(x)), cost, steps, problem.evaluations, converged, message)

    def _trial(self, problem, x, r, cost, jacobian, memory):
        """``((x, residuals, value), predicted reduction, relative length), memory`` of a step that reduces the value.

        Where there is none, None and the reduction that was predicted for the first attempt.
        """
        step = np.linalg.lstsq(jacobian, -r, rcond=None)[0]
        slope, size = float(r @ jacobian @ step), 1.0
        for _ in range(_HALVINGS):
            moved = x + size * step
            residuals = problem.residuals(moved)
            new = _cost(residuals)
            if new < cost and new <= cost + 1e-4 * size * slope:
                length = np.linalg.norm(size * step) / max(float(np.linalg.norm(x)), 1e-300)
                return ((moved, residuals, new), -slope / 2, length), memory
            size /= 2
        return None, -slope / 2


@dataclass(frozen=True)
class LevenbergMarquardt(GaussNewton):
    """Levenberg-Marquardt method in a scaled trust region (Moré 1978), as MINPACK's ``lmder``.

    A step s minimizes |J s + r| where |D s| is at most the radius of the trust region. D holds the largest norms of the
    columns of the Jacobian so far. Meant for small and medium trees of parameters: a step factorizes the dense
    Jacobian.

    Parameters
    ----------
    max_steps : int, default 500
    gradient_tolerance : float, default 1e-10
        Converged when the cosine of the angle between the residuals and each column of the Jacobian is at most this.
    step_tolerance : float, default 1e-10
        Converged when a step is shorter, relative to the parameters, both scaled by D.
    value_tolerance : float, default 1e-14
        Converged when a step is predicted to reduce, and reduces, the value by less, relative to the value.
    radius : float, default 100.0
        First radius, as a multiple of |D x| at the start (of 1 if that is zero).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> rosenbrock = lambda x: np.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]])
    >>> fit = optim.LevenbergMarquardt().minimize(rosenbrock, np.array([-1.2, 1.0]))
    >>> fit.params.round(8), fit.converged
    (array([1., 1.]), True)
    """

    max_steps: int = 500
    radius: float = 100.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check.positive(self.radius, "LevenbergMarquardt: radius")

    def _trial(self, problem, x, r, cost, jacobian, memory):
        scale = np.maximum(memory[1] if memory else 0.0, np.linalg.norm(jacobian, axis=0))
        used = np.where(scale > 0, scale, 1.0)
        size = float(np.linalg.norm(used * x))
        radius: float = memory[0] if memory else self.radius * (size or 1.0)
        u, values, vt = np.linalg.svd(jacobian / used, full_matrices=False)
        slopes = values * (u.T @ r)
        best = None
        for _ in range(_TRIALS):
            damping, weights = _damped(values, slopes, radius)
            step, length = -(vt.T @ weights) / used, float(np.linalg.norm(weights))
            moved = x + step
            residuals = problem.residuals(moved)
            new = _cost(residuals)
            predicted = 0.5 * float(np.sum((values * weights) ** 2)) + damping * length**2
            if best is None:
                best, radius = predicted, radius if memory else min(radius, length)
            gain = (cost - new) / predicted if predicted > 0 else -np.inf
            if gain <= 0.25:
                radius = min(radius, 10 * length) * _shrinking(cost, new, predicted - damping * length**2 / 2)
            elif damping == 0 or gain >= 0.75:
                radius = 2 * length
            if gain >= 1e-4:
                # a step that the region shortens says nothing about what is left to gain
                whole = predicted if damping == 0 else 0.5 * float(np.sum(slopes**2))
                return ((moved, residuals, new), whole, length / max(size, 1e-300)), (radius, scale)
            if np.all(moved == x):
                break
        return None, best


def _damped(values: np.ndarray, slopes: np.ndarray, radius: float) -> tuple[float, np.ndarray]:
    """The damping mu, and the coefficients slopes / (values² + mu), whose norm is the radius within 10 %.

    mu is 0 where the undamped step is inside (Moré 1978, section 5: Newton's method on 1 / norm).
    """
    squares = values**2
    regular = values > values.size * np.finfo(float).eps * values[0]
    weights = np.where(regular, slopes, 0) / np.where(regular, squares, 1)
    length = np.linalg.norm(weights)
    if length <= 1.1 * radius:
        return 0.0, weights
    low, high = 0.0, float(np.linalg.norm(slopes)) / radius
    damping = max(1e-3 * high, float(squares[-1]))
    for _ in range(50):
        weights = slopes / (squares + damping)
        length = np.linalg.norm(weights)
        if abs(length - radius) <= 0.1 * radius:
            break
        low, high = (damping, high) if length > radius else (low, damping)
        change = length**2 / np.sum(weights**2 / (squares + damping)) * (length - radius) / radius
        damping = damping + change if low < damping + change < high else max(np.sqrt(low * high), 1e-3 * high)
    return float(damping), weights


def _shrinking(cost: float, new: float, descent: float) -> float:
    """Factor of the radius after a poor step: the minimum of a parabola through both costs, within [0.1, 0.5]."""
    if new <= cost:
        return 0.5
    slope = -descent / cost
    factor = 0.5 * slope / (slope + 0.5 * (1 - new / cost)) if np.isfinite(new) else 0.1
    return float(np.clip(factor, 0.1, 0.5))
