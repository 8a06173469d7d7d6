"""First-order optimizers of the core (Adam, SGD ...) on circuits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import optim

from .objective import Objective

__all__ = ["FirstOrder"]


@dataclass(frozen=True)
class FirstOrder:
    """Steps of an optimizer of `core.optim`, until the gradient is small.

    Attributes
    ----------
    rule : optimizer
        One of `core.optim`, such as `Adam`, or any object with the methods `init` and `step`.
    max_steps : int
    tolerance : float
        Converged when no component of the gradient is larger.

    Examples
    --------
    >>> from triskele.quantum.optimizers import FirstOrder
    >>> from triskele.core import optim
    >>> FirstOrder(optim.Adam(0.05), max_steps=300).max_steps
    300
    """

    rule: Any = optim.Adam(0.1)
    max_steps: int = 500
    tolerance: float = 1e-4

    gradient_free = False

    def minimize(
        self, objective: Objective, theta: np.ndarray, report: Callable[[np.ndarray, float], None]
    ) -> tuple[np.ndarray, bool, str]:
        """See `Optimizer.minimize`."""
        state = self.rule.init(theta)
        _, gradient = objective.value_and_grad(theta)
        for _ in range(self.max_steps):
            if np.max(np.abs(gradient)) <= self.tolerance:
                return theta, True, f"no component of the gradient is above {self.tolerance:g}"
            theta, state = self.rule.step(theta, gradient, state)
            value, gradient = objective.value_and_grad(theta)
            report(theta, value)
        return theta, False, f"the limit of {self.max_steps} steps was reached"
