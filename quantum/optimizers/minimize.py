"""`minimize`: one entry point to every optimizer, with history, reports, checkpoints and a progress bar."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from triskele.core import optim
from triskele.core.extend import Reports, Work, check, short_repr

from ..errors import OptimizerError, ParameterError
from .first_order import FirstOrder
from .journal import Journal, describe
from .natural_gradient import NaturalGradient
from .objective import Objective
from .rotosolve import Rotosolve
from .scipy_methods import METHODS, SciPy
from .spsa import SPSA

__all__ = ["Minimum", "Optimizer", "Steps", "Unreported", "descend", "find", "minimize"]

_NAMED: dict[str, Callable[[], Any]] = {
    **{name: functools.partial(SciPy, name) for name in METHODS},
    "adam": lambda: FirstOrder(optim.Adam(0.1)),
    "sgd": lambda: FirstOrder(optim.SGD(0.1)),
    "spsa": SPSA,
    "rotosolve": Rotosolve,
    "natural-gradient": NaturalGradient,
}


class Optimizer(Protocol):
    """Protocol of optimizers: a frozen dataclass with a field `max_steps` and this method.

    Examples
    --------
    >>> from triskele.quantum import optimizers
    >>> optimizers.SPSA(max_steps=50).max_steps
    50
    """

    max_steps: int

    def minimize(
        self, objective: Objective, theta: np.ndarray, report: Callable[[np.ndarray, float], None]
    ) -> tuple[np.ndarray, bool, str]:
        """Go from `theta` to ``(theta, converged, message)``, calling ``report(theta, value)`` after each step."""
        ...


@short_repr
@dataclass(frozen=True)
class Minimum:
    """Result of a minimization.

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
        True if the optimizer's own criterion was met; False if it ran out of steps or a reporter stopped it.
    message : str
        Reason for stopping.
    thetas : (steps + 1, P) float64 array
        Angles at the start and after every step.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import optimizers
    >>> spsa = optimizers.SPSA(max_steps=300)
    >>> found = optimizers.minimize(lambda x: float(np.sum((x - 1.0) ** 2)), np.zeros(2), optimizer=spsa)
    >>> found.theta.shape, found.value < 0.1
    ((2,), True)
    """

    theta: np.ndarray
    value: float
    history: np.ndarray
    evaluations: int
    converged: bool
    message: str
    thetas: np.ndarray = dataclasses.field(repr=False)


class _Stop(Exception):
    """A reporter asked for the end."""


def minimize(
    function: Callable[[Any], Any],
    theta: Any,
    optimizer: str | Any = "bfgs",
    *,
    max_steps: int | None = None,
    seed: int = 0,
    report: Reports = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike | None = None,
) -> Minimum:
    """Minimize a real function of an angle vector.

    Parameters
    ----------
    function : callable
        An `Expectation` of one Hamiltonian, or any real function of an array that the core can differentiate.
    theta : (P,) array
        Initial angles.
    optimizer : str or object
        A name: `"bfgs"`, `"l-bfgs-b"`, `"cg"`, `"slsqp"`, `"tnc"`, `"trust-constr"` (with exact gradients), `"cobyla"`,
        `"cobyqa"`, `"nelder-mead"`, `"powell"` (without) of `scipy.optimize`, `"adam"`, `"sgd"`, `"spsa"`,
        `"rotosolve"`, `"natural-gradient"`; an optimizer of `quantum.optimizers`; or one of `core.optim`.
    max_steps : int, optional
        Overrides the optimizer's own limit.
    seed : int
        Seed of stochastic optimizers that are given by name.
    report : function or list of functions, optional
        Called after every step with a dictionary of ``step`` and ``value``; see `core.report`. A reporter that raises
        StopIteration ends the run, with its reason as the message.
    progress : bool, optional
        Show a progress bar. By default only on terminals and in notebooks.
    checkpoint : path-like, optional
        File of the values so far, written about once a second and at the end. If it exists, the run resumes from it
        bit for bit.

    Returns
    -------
    Minimum

    Raises
    ------
    OptimizerError
        If the optimizer is unknown or does not suit the circuit.
    ParameterError
        If `theta` is not a finite vector.
    FloatingPointError
        If the function returns a value that is not finite.
    CheckpointError
        If the checkpoint belongs to another run; the message names what differs.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import minimize
    >>> found = minimize(lambda t: np.sum(np.cos(t)), np.array([0.5, 1.0]))
    >>> round(found.value, 6), found.converged
    (-2.0, True)
    """
    chosen = find(optimizer, max_steps, seed)
    theta = _angles(theta)
    journal = Journal(
        "minimize", checkpoint, {**describe(function), "optimizer": repr(chosen), "seed": seed, "theta": theta.tolist()}
    )
    total = chosen.max_steps if chosen.max_steps < 1000 else None
    with Steps("minimize", report, progress, journal, total=total) as steps:
        return descend(function, theta, chosen, steps)


class Steps:
    """Optimizer steps of an algorithm, perhaps of several minimizations: their reports, bar and checkpoint.

    Errors begin with `where`, the algorithm, which also titles the bar; `total` is the number of steps, if known.
    """

    def __init__(
        self,
        where: str,
        report: Reports,
        progress: bool | None,
        journal: Journal,
        *,
        total: int | None = None,
        unit: str = "step",
    ):
        self.journal, self.count = journal, 0
        self.work = Work(where, report, progress, title=where.split(".")[0], unit=unit, total=total, done=journal.step)

    def __enter__(self) -> Steps:
        self.work.__enter__()
        self.journal.attach(self.work)
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self.journal.write()
        finally:
            self.work.__exit__(*error)

    @property
    def stopped(self) -> str | None:
        """The reason of a reporter that has ended the work."""
        return self.work.stopped

    def __call__(self, record: dict[str, Any], text: str) -> None:
        """Report a step, unless the run before the checkpoint has reported it."""
        self.count += 1
        if self.count > self.journal.step:
            self.work({"step": self.count, **record}, text)


class Unreported:
    """Steps that only the checkpoint sees, such as those inside a step of another algorithm."""

    stopped = None

    def __init__(self, journal: Journal):
        self.journal = journal

    def __call__(self, *_: Any) -> None:
        """Do nothing."""


def descend(function: Any, theta: np.ndarray, chosen: Any, steps: Steps | Unreported, **labels: Any) -> Minimum:
    """Minimize a function from `theta` (P,) as one part of the algorithm that has these `steps`; see `minimize`.
    `labels` are further entries of the records; its entry `name` is the name of the value in them.
    """
    name = labels.pop("name", "value")
    objective = function if isinstance(function, Objective) else Objective(function, steps.journal)
    began = objective.evaluations
    history = [objective(theta) if getattr(chosen, "gradient_free", True) else objective.value_and_grad(theta)[0]]
    thetas = [theta.copy()]
    if theta.size == 0:
        return Minimum(
            theta,
            history[0],
            np.array(history),
            objective.evaluations - began,
            True,
            "there is nothing to optimize",
            np.array(thetas),
        )

    def after_step(theta: np.ndarray, value: float) -> None:
        thetas.append(np.array(theta, np.float64))
        history.append(float(value))
        steps({name: history[-1], **labels}, f"{value:.8f}")
        if steps.stopped:
            raise _Stop

    try:
        found, converged, message = chosen.minimize(objective, theta.copy(), after_step)
    except _Stop:
        steps.journal.freeze()
        found, converged, message = thetas[-1], False, str(steps.stopped)
    return Minimum(
        found, objective(found), np.array(history), objective.evaluations - began, converged, message, np.array(thetas)
    )


def _angles(theta: Any) -> np.ndarray:
    try:
        if np.iscomplexobj(theta):
            raise TypeError
        theta = np.array(theta, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"minimize: theta must be a vector of real numbers, got {theta!r}") from None
    if theta.ndim != 1 or not np.all(np.isfinite(theta)):
        raise ParameterError(
            f"minimize: theta must be a finite vector, got "
            f"{'an array of shape ' + str(theta.shape) if theta.ndim != 1 else theta}"
        )
    return theta


def find(optimizer: Any, max_steps: int | None = None, seed: int = 0) -> Any:
    """Return an optimizer by name, or as given, with `max_steps` if any; optimizers of `core.optim` are wrapped."""
    if max_steps is not None:
        check.integer(max_steps, "optimizer: max_steps", 1, error=OptimizerError)
    if isinstance(optimizer, str):
        optimizer = _NAMED[
            check.choice(optimizer.lower().replace("_", "-"), _NAMED, "optimizer: a name", error=OptimizerError)
        ]()
        if hasattr(optimizer, "seed"):
            optimizer = dataclasses.replace(optimizer, seed=seed)
    elif isinstance(optimizer, optim.LBFGS):
        optimizer = SciPy(
            "l-bfgs-b",
            optimizer.max_steps,
            {"maxcor": optimizer.history, "gtol": optimizer.gradient_tolerance, "ftol": optimizer.value_tolerance},
        )
    elif not isinstance(optimizer, type) and hasattr(optimizer, "init") and hasattr(optimizer, "step"):
        optimizer = FirstOrder(optimizer)
    if isinstance(optimizer, type) or not hasattr(optimizer, "minimize") or not hasattr(optimizer, "max_steps"):
        raise OptimizerError(
            f"optimizer: a name, an optimizer of quantum.optimizers or one of core.optim is needed, got {optimizer!r}"
        )
    return optimizer if max_steps is None else dataclasses.replace(optimizer, max_steps=int(max_steps))
