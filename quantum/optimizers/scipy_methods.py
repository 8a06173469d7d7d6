"""Methods of `scipy.optimize.minimize`, with exact gradients where they take one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import OptimizerError
from .objective import Objective

__all__ = ["METHODS", "SciPy"]

# name: (SciPy's name, whether it takes a gradient, its option for the number of steps, options that suit energies)
METHODS: dict[str, tuple[str, bool, str, dict[str, float]]] = {
    "bfgs": ("BFGS", True, "maxiter", {"gtol": 1e-6}),
    "l-bfgs-b": ("L-BFGS-B", True, "maxiter", {"gtol": 1e-6, "ftol": 1e-14, "maxcor": 20}),
    "cg": ("CG", True, "maxiter", {"gtol": 1e-6}),
    "slsqp": ("SLSQP", True, "maxiter", {"ftol": 1e-12}),
    "tnc": ("TNC", True, "maxfun", {"gtol": 1e-6}),
    "trust-constr": ("trust-constr", True, "maxiter", {"gtol": 1e-6}),
    "cobyla": ("COBYLA", False, "maxiter", {"rhobeg": 0.5, "tol": 1e-6}),
    "cobyqa": ("COBYQA", False, "maxiter", {"initial_tr_radius": 0.5, "final_tr_radius": 1e-6}),
    "nelder-mead": ("Nelder-Mead", False, "maxiter", {"xatol": 1e-6, "fatol": 1e-10, "adaptive": True}),
    "powell": ("Powell", False, "maxiter", {"xtol": 1e-8, "ftol": 1e-12}),
}


@dataclass(frozen=True)
class SciPy:
    """A method of `scipy.optimize.minimize`.

    Attributes
    ----------
    method : str
        SciPy's name of the method, in upper or lower case.
    max_steps : int
        Iterations; function evaluations for those that count nothing else (COBYLA, TNC).
    options : dict, optional
        More options of the method, which override the defaults; see SciPy's documentation.

    Raises
    ------
    OptimizerError
        If the method is unknown.

    Examples
    --------
    >>> from triskele.quantum.optimizers import SciPy
    >>> SciPy("cobyla", max_steps=200).method
    'cobyla'
    """

    method: str = "bfgs"
    max_steps: int = 1000
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check.choice(str(self.method).lower(), METHODS, "SciPy: method", error=OptimizerError)

    @property
    def gradient_free(self) -> bool:
        """True if the method uses values only."""
        return not METHODS[self.method.lower()][1]

    def minimize(
        self, objective: Objective, theta: np.ndarray, report: Callable[[np.ndarray, float], None]
    ) -> tuple[np.ndarray, bool, str]:
        """See `Optimizer.minimize`."""
        from scipy import optimize

        name, with_gradient, limit, ours = METHODS[self.method.lower()]
        options = {limit: self.max_steps, **ours, **self.options}

        def after_step(theta: np.ndarray, *_: Any) -> None:
            report(theta, objective(np.asarray(theta, np.float64)))

        r = optimize.minimize(
            objective.value_and_grad if with_gradient else objective,
            theta,
            jac=with_gradient or None,
            method=name,
            options=options,
            callback=after_step,
        )
        converged, message = bool(r.success), str(r.message)
        # its line search met rounding at a stationary point
        if name == "BFGS" and r.status == 2 and np.max(np.abs(r.jac)) < 1e-4:
            converged, message = True, "the energy cannot be lowered in double precision"
        return np.asarray(r.x, np.float64), converged, message
