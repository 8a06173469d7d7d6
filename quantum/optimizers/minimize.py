"""`minimize`: one entry point to every optimiser, with history, callback and progress bar."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from triskele.core import optim
from triskele.core.extend import check, progress_bar

from ..errors import OptimizerError, ParameterError
from .first_order import FirstOrder
from .natural_gradient import NaturalGradient
from .objective import Objective
from .rotosolve import Rotosolve
from .scipy_methods import METHODS, SciPy
from .spsa import SPSA

__all__ = ["Minimum", "Optimizer", "find", "minimize"]

_NAMED: dict[str, Callable[[], Any]] = {
    **{name: functools.partial(SciPy, name) for name in METHODS},
    "adam": lambda: FirstOrder(optim.Adam(0.1)),
    "sgd": lambda: FirstOrder(optim.SGD(0.1)),
    "spsa": SPSA,
    "rotosolve": Rotosolve,
    "natural-gradient": NaturalGradient,
}


class Optimizer(Protocol):
    """Protocol of optimisers: a frozen dataclass with a field `max_steps` and this method."""

    max_steps: int

    def minimize(self, objective: Objective, theta: np.ndarray,
                 report: Callable[[np.ndarray, float], None]) -> tuple[np.ndarray, bool, str]:
        """Go from `theta` to ``(theta, converged, message)``, calling ``report(theta, value)`` after each step."""
        ...


@dataclass(frozen=True)
class Minimum:
    """Result of a minimisation.

    Attributes
    ----------
    theta : (P,) float64 array
    value : float
        Value at `theta`, measured again if it has shot noise.
    history : (steps + 1,) float64 array
        The value at the start and after every step.
    evaluations : int
        Number of calls of the function, with or without its gradient.
    converged : bool
        True if the optimiser's own criterion was met; False if it ran out of steps or a callback stopped it.
    message : str
        Reason for stopping.
    """

    theta: np.ndarray
    value: float
    history: np.ndarray
    evaluations: int
    converged: bool
    message: str


class _Stop(Exception):
    """A callback asked for the end."""


def minimize(function: Callable[[Any], Any], theta: Any, optimizer: str | Any = "bfgs", *, max_steps: int | None = None,
             seed: int = 0, callback: Callable[[int, np.ndarray, float],
                                               Any] | None = None, progress: str | None = None) -> Minimum:
    """Minimise a real function of an angle vector.

    Parameters
    ----------
    function : callable
        An `Expectation` of one Hamiltonian, or any real function of an array that the core can differentiate.
    theta : (P,) array
        Initial angles.
    optimizer : str or object
        A name: `"bfgs"`, `"l-bfgs-b"`, `"cg"`, `"slsqp"`, `"tnc"`, `"trust-constr"` (with exact gradients), `"cobyla"`,
        `"cobyqa"`, `"nelder-mead"`, `"powell"` (without) of `scipy.optimize`, `"adam"`, `"sgd"`, `"spsa"`,
        `"rotosolve"`, `"natural-gradient"`; an optimiser of `quantum.optimizers`; or one of `core.optim`.
    max_steps : int, optional
        Overrides the optimiser's own limit.
    seed : int
        Seed of stochastic optimisers that are given by name.
    callback : callable, optional
        Called after each step as ``callback(step, theta, value)``; the run ends when it returns True.
    progress : str, optional
        Title of a progress bar. By default no bar is shown.

    Returns
    -------
    Minimum

    Raises
    ------
    OptimizerError
        If the optimiser is unknown or does not suit the circuit.
    ParameterError
        If `theta` is not a finite vector.
    FloatingPointError
        If the function returns a value that is not finite.

    Examples
    --------
    >>> found = minimize(lambda t: np.sum(np.cos(t)), np.array([0.5, 1.0]))
    >>> round(found.value, 6), found.converged
    (-2.0, True)
    """
    chosen = find(optimizer, max_steps, seed)
    if callback is not None and not callable(callback):
        raise TypeError(f"minimize: callback must be a function of (step, theta, value), got {type(callback).__name__}")
    try:
        if np.iscomplexobj(theta):
            raise TypeError
        theta = np.array(theta, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"minimize: theta must be a vector of real numbers, got {theta!r}") from None
    if theta.ndim != 1 or not np.all(np.isfinite(theta)):
        raise ParameterError(f"minimize: theta must be a finite vector, got "
                             f"{'an array of shape ' + str(theta.shape) if theta.ndim != 1 else theta}")
    objective = function if isinstance(function, Objective) else Objective(function)
    began = objective.evaluations
    history = [objective(theta) if getattr(chosen, "gradient_free", True) else objective.value_and_grad(theta)[0]]
    if theta.size == 0:
        return Minimum(theta, history[0], np.array(history), objective.evaluations - began, True,
                       "there is nothing to optimise")
    last = theta

    def report(theta: np.ndarray, value: float) -> None:
        nonlocal last
        last = np.array(theta, np.float64)
        history.append(float(value))
        bar.set_postfix_str(f"{value:.8f}", refresh=False)
        bar.update()
        if callback is not None and callback(len(history) - 1, last.copy(), history[-1]) is True:
            raise _Stop

    total = chosen.max_steps if chosen.max_steps < 1000 else None
    with progress_bar(progress, "step", total, show=progress is not None) as bar:
        bar.set_postfix_str(f"{history[0]:.8f}")
        try:
            found, converged, message = chosen.minimize(objective, theta.copy(), report)
        except _Stop:
            found, converged, message = last, False, "stopped by the callback"
    return Minimum(found, objective(found), np.array(history), objective.evaluations - began, converged, message)


def find(optimizer: Any, max_steps: int | None = None, seed: int = 0) -> Any:
    """Return an optimiser by name, or as given; optimisers of `core.optim` are wrapped.

    Raises
    ------
    OptimizerError
        If no optimiser has that name. The message lists the known ones.
    """
    if max_steps is not None:
        check.integer(max_steps, "optimizer: max_steps", 1, error=OptimizerError)
    if isinstance(optimizer, str):
        name = optimizer.lower().replace("_", "-")
        if name not in _NAMED:
            raise OptimizerError(f"optimizer: unknown name {optimizer!r} (known: {', '.join(sorted(_NAMED))})")
        optimizer = _NAMED[name]()
        if hasattr(optimizer, "seed"):
            optimizer = dataclasses.replace(optimizer, seed=seed)
    elif isinstance(optimizer, optim.LBFGS):
        optimizer = SciPy("l-bfgs-b", optimizer.max_steps,
                          {"maxcor": optimizer.history, "gtol": optimizer.gradient_tolerance,
                           "ftol": optimizer.value_tolerance})
    elif not isinstance(optimizer, type) and hasattr(optimizer, "init") and hasattr(optimizer, "step"):
        optimizer = FirstOrder(optimizer)
    if isinstance(optimizer, type) or not hasattr(optimizer, "minimize") or not hasattr(optimizer, "max_steps"):
        raise OptimizerError(
            f"optimizer: a name, an optimiser of quantum.optimizers or one of core.optim is needed, got {optimizer!r}"
        )
    return optimizer if max_steps is None else dataclasses.replace(optimizer, max_steps=int(max_steps))
