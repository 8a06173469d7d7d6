"""Objectives of optimizers: real functions of an angle vector, counted and checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import check

from .journal import Journal

__all__ = ["Objective"]


class Objective:
    """A real function of an angle vector with its gradient, which counts calls and rejects values that are not finite.

    Gradients come from its method ``value_and_grad(theta)``, as an `Expectation` has one, or else from the core. Its
    attribute ``circuit`` serves optimizers that need to see the circuit. `journal` has values known from a checkpoint.
    """

    def __init__(self, function: Callable[[Any], Any], journal: Journal | None = None):
        self.function = check.kind(function, Callable, "minimize: function", "a function of theta")
        self.circuit = getattr(function, "circuit", None)
        self.evaluations = 0  # calls so far, with or without gradient
        self._both = getattr(function, "value_and_grad", None)
        self._journal = Journal("minimize", None, {}) if journal is None else journal
        self._stream = getattr(function, "stream", None)
        # of the last few points: steps ask again for what a line search saw
        self._seen: dict[bytes, tuple[float, np.ndarray | None]] = {}

    def __call__(self, theta: np.ndarray) -> float:
        """The value at `theta`."""
        if (known := self._seen.get(theta.tobytes())) is None:
            self.evaluations += 1
            value = self._journal(
                theta, lambda: np.array([self._number(self.function(theta.copy()), theta)]), self._stream
            )
            known = (float(value[0]), None)
            self._remember(theta, known)
        return known[0]

    def value_and_grad(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """The value and the gradient at `theta`."""
        value, gradient = self._seen.get(theta.tobytes(), (0.0, None))
        if gradient is None:
            self.evaluations += 1
            if self._both is None:
                self._both = core.value_and_grad(self.function)
            found = self._journal(theta, lambda: self._compute(theta), self._stream)
            value, gradient = float(found[0]), found[1:]
            self._remember(theta, (value, gradient))
        return value, gradient.copy()

    def _compute(self, theta: np.ndarray) -> np.ndarray:
        """The value, and behind it the gradient."""
        value, gradient = self._both(theta.copy())  # type: ignore[misc]
        return np.concatenate([[self._number(value, theta)], self._gradient(gradient, theta)])

    def fresh(self, theta: np.ndarray) -> float:
        """The value at `theta`, measured again even if it was just asked for: for objectives with shot noise."""
        self._seen.pop(theta.tobytes(), None)
        return self(theta)

    def _remember(self, theta: np.ndarray, known: tuple[float, np.ndarray | None]) -> None:
        if len(self._seen) >= 32:
            del self._seen[next(iter(self._seen))]
        self._seen[theta.tobytes()] = known

    def _number(self, value: Any, theta: np.ndarray) -> float:
        if np.ndim(value) or not isinstance(value, (Real, np.ndarray)):
            what = f"an array of shape {np.shape(value)}" if np.ndim(value) else repr(value)
            raise TypeError(f"minimize: the function must return one number, got {what}")
        if not math.isfinite(value):
            raise FloatingPointError(f"minimize: values must be finite, got {value} at theta = {theta}")
        return float(value)

    def _gradient(self, gradient: Any, theta: np.ndarray) -> np.ndarray:
        gradient = check.shape(
            np.asarray(gradient, np.float64), theta.shape, "minimize: the gradient", hint="the shape of theta"
        )
        if not np.all(np.isfinite(gradient)):
            raise FloatingPointError(f"minimize: gradients must be finite, got {gradient} at theta = {theta}")
        return gradient
