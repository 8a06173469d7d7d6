"""Quantum natural gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from triskele.core.extend import check

from ..errors import OptimizerError
from .objective import Objective

__all__ = ["NaturalGradient"]


@dataclass(frozen=True)
class NaturalGradient:
    """Steepest descent in the metric of states: ``theta -= rate * (g + regularization)**-1 gradient``.

    g is the Fubini-Study metric, a quarter of the quantum Fisher information [1]_. Needs a function that has a
    `circuit`, such as an `Expectation` of a state vector.

    Attributes
    ----------
    learning_rate : float
        Length of the longest step; it is halved while a step would raise the energy.
    regularization : float
        Added to the metric's diagonal, which is singular where parameters are redundant.
    max_steps : int
    tolerance : float
        Converged when no component of the gradient is larger.

    References
    ----------
    .. [1] Stokes, Izaac, Killoran, Carleo, "Quantum natural gradient", Quantum 4, 269 (2020).
       doi:10.22331/q-2020-05-25-269

    Examples
    --------
    >>> from triskele import quantum
    >>> h = quantum.tfim(3, 1.0, 0.7)
    >>> ansatz = quantum.hardware_efficient(3, layers=2)
    >>> from triskele.quantum import optimizers
    >>> result = quantum.VQE(h, ansatz, initial='random', optimizer=optimizers.NaturalGradient(max_steps=50)).run()
    >>> result.energy < -2
    True
    """

    learning_rate: float = 0.2
    regularization: float = 1e-3
    max_steps: int = 300
    tolerance: float = 1e-5

    gradient_free = False

    def __post_init__(self) -> None:
        check.positive(self.learning_rate, "NaturalGradient: learning_rate", error=OptimizerError)
        check.positive(self.regularization, "NaturalGradient: regularization", error=OptimizerError)

    def minimize(
        self, objective: Objective, theta: np.ndarray, report: Callable[[np.ndarray, float], None]
    ) -> tuple[np.ndarray, bool, str]:
        """See `Optimizer.minimize`."""
        if objective.circuit is None:
            raise OptimizerError(
                "NaturalGradient: the function must have a circuit, as an Expectation does (the "
                "metric is that of its state)"
            )
        if not objective.circuit.is_unitary:
            raise OptimizerError(
                "NaturalGradient: the circuit must consist of gates alone (the metric is that of a state vector)"
            )
        from ..expectation.qfi import qfi

        ridge, rate = self.regularization * np.eye(theta.size), self.learning_rate
        value, gradient = objective.value_and_grad(theta)
        for _ in range(self.max_steps):
            if np.max(np.abs(gradient)) <= self.tolerance:
                return theta, True, f"no component of the gradient is above {self.tolerance:g}"
            direction = np.linalg.solve(0.25 * qfi(objective.circuit, theta) + ridge, gradient)
            new, slopes = objective.value_and_grad(theta - rate * direction)
            while new > value and rate > 1e-6 * self.learning_rate:
                rate *= 0.5
                new, slopes = objective.value_and_grad(theta - rate * direction)
            theta, value, gradient = theta - rate * direction, new, slopes
            rate = min(2.0 * rate, self.learning_rate)
            report(theta, value)
        return theta, False, f"the limit of {self.max_steps} steps was reached"
