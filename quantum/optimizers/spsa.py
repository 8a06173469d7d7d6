"""Simultaneous perturbation stochastic approximation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from triskele.core import random
from triskele.core.extend import check

from ..errors import OptimizerError
from .objective import Objective

__all__ = ["SPSA"]


@dataclass(frozen=True)
class SPSA:
    """Two noisy values a step, whatever the number of angles: for energies from shots.

    Step k moves by ``-a_k g_k`` with ``g_k = (f(theta + c_k d) - f(theta - c_k d)) / (2 c_k) d``, d of random signs,
    ``a_k = a / (k + 1 + A)**0.602`` and ``c_k = c / (k + 1)**0.101`` [1]_, A being a tenth of `max_steps`. There is no
    criterion for convergence: all steps are made, and `converged` is always False.

    Attributes
    ----------
    max_steps : int
    perturbation : float
        c, in radians: about where two values differ by more than their noise.
    learning_rate : float, optional
        a. By default it is calibrated with the mean slope of `calibration` random directions, so that the first step
        changes an angle by about `first_step`.
    first_step : float, radians
        Length of the first step.
    calibration : int
        Number of directions for the calibration, with two values each.
    seed : int
        Seed of the random signs.

    References
    ----------
    .. [1] Spall, "Implementation of the simultaneous perturbation algorithm for stochastic optimization", IEEE Trans.
       Aerosp. Electron. Syst. 34, 817 (1998), section III. doi:10.1109/7.705889

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.optimizers import SPSA
    >>> from triskele.quantum.optimizers import minimize
    >>> minimize(lambda t: np.sum(np.cos(t)), np.array([0.5, 1.0]), SPSA(max_steps=200, seed=1)).value < -1.99
    True
    """

    max_steps: int = 200
    perturbation: float = 0.2
    learning_rate: float | None = None
    first_step: float = 0.1
    calibration: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("perturbation", "first_step", "calibration"):
            check.positive(getattr(self, name), f"SPSA: {name}", error=OptimizerError)
        if self.learning_rate is not None:
            check.positive(self.learning_rate, "SPSA: learning_rate", error=OptimizerError)

    def minimize(
        self, objective: Objective, theta: np.ndarray, report: Callable[[np.ndarray, float], None]
    ) -> tuple[np.ndarray, bool, str]:
        """See `Optimizer.minimize`. The reported value is the mean of a step's two."""
        offset = 0.1 * self.max_steps
        signs = np.where(
            random.bernoulli(random.key(self.seed), 0.5, (self.calibration + self.max_steps, theta.size)), 1.0, -1.0
        )
        a = self.learning_rate
        if a is None:
            slopes = [self._slope(objective, theta, d, self.perturbation)[0] for d in signs[: self.calibration]]
            typical = float(np.mean(np.abs(slopes)))
            # a flat start: no slope to go by
            a = self.first_step * (1 + offset) ** 0.602 / (typical if typical > 1e-10 else 1.0)
        for k, d in enumerate(signs[self.calibration :]):
            slope, mean = self._slope(objective, theta, d, self.perturbation / (k + 1) ** 0.101)
            theta = theta - a / (k + 1 + offset) ** 0.602 * slope * d
            report(theta, mean)
        return theta, False, f"all {self.max_steps} steps were made (SPSA has no criterion for convergence)"

    @staticmethod
    def _slope(objective: Objective, theta: np.ndarray, d: np.ndarray, c: float) -> tuple[float, float]:
        above, below = objective.fresh(theta + c * d), objective.fresh(theta - c * d)
        return (above - below) / (2 * c), 0.5 * (above + below)
