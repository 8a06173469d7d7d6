"""Errors of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import check
from .inputs import array, ratio, same_shape
from .metric import Metric

__all__ = ["MAE", "MSE", "R2", "RMSE"]


class Error(Metric):
    """Base of means of one number for each element."""

    greater_is_better = False

    def init(self) -> Any:
        """The weighted sum of errors, and the sum of weights."""
        return {"error": np.float64(0), "weight": np.float64(0)}

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch of predictions and targets of one shape."""
        predictions, targets, weights = same_shape(type(self).__name__, predictions, targets, weights)
        return {
            "error": state["error"] + np.sum(weights * self._error(predictions - targets)),
            "weight": state["weight"] + np.sum(weights),
        }

    def result(self, state: Any) -> float:
        """Return the mean error; NaN without samples."""
        return ratio(state["error"], state["weight"])

    def _error(self, difference):
        return difference**2


@dataclass(frozen=True)
class MAE(Error):
    """Mean absolute error over all elements.

    Raises
    ------
    ValueError
        For predictions and targets of different shapes, and NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.MAE()
    >>> metric.result(metric.update(metric.init(), np.array([1.0, 2.0]), np.array([1.0, 5.0])))
    1.5
    """

    name = "mae"

    def _error(self, difference):
        return np.abs(difference)


@dataclass(frozen=True)
class MSE(Error):
    """Mean squared error over all elements.

    Raises
    ------
    ValueError
        For predictions and targets of different shapes, and NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.MSE()
    >>> metric.result(metric.update(metric.init(), np.array([1.0, 2.0]), np.array([1.0, 5.0])))
    4.5
    """

    name = "mse"


@dataclass(frozen=True)
class RMSE(Error):
    """Root of the mean squared error over all elements.

    Raises
    ------
    ValueError
        For predictions and targets of different shapes, and NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.RMSE()
    >>> metric.result(metric.update(metric.init(), np.array([1.0, 2.0]), np.array([1.0, 2.0])))
    0.0
    """

    name = "rmse"

    def result(self, state: Any) -> float:
        """Return the root of the mean; NaN without samples."""
        return float(np.sqrt(super().result(state)))


@dataclass(frozen=True)
class R2(Metric):
    """Coefficient of determination, 1 - sum (t - p)² / sum (t - mean t)².

    The variance of targets is merged from the means and sums of squares of batches (Chan et al. 1983, eq. 2.1), which
    keeps its digits where the mean is large. The result is NaN where the targets do not vary.

    Parameters
    ----------
    outputs : int, optional
        Size of the last axis, whose entries are different quantities: the result is the mean of their coefficients.
        By default all elements are values of one quantity.

    Raises
    ------
    ValueError
        For predictions and targets of different shapes, and NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.R2()
    >>> metric.result(metric.update(metric.init(), np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0])))
    0.5
    """

    outputs: int | None = None

    name = "r2"

    def __post_init__(self) -> None:
        if self.outputs is not None:
            check.integer(self.outputs, "R2: outputs", 1)

    def init(self) -> Any:
        """Weights, means and sums of squared deviations of targets, and squared errors, each of `outputs` numbers."""
        return {k: np.zeros(self.outputs or 1) for k in ("weight", "mean", "squares", "error")}

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch of predictions and targets of one shape."""
        shape = array(targets).shape
        if self.outputs is not None and shape[-1:] != (self.outputs,):
            raise ValueError(f"R2: targets must have the last axis of outputs={self.outputs}, got {shape}")
        p, t, w = (np.reshape(x, (-1, self.outputs or 1)) for x in same_shape("R2", predictions, targets, weights))
        weight = np.sum(w, axis=0)
        mean = np.sum(w * t, axis=0) / np.where(weight == 0, 1.0, weight)
        return self.merge(
            state,
            {
                "weight": weight,
                "mean": mean,
                "squares": np.sum(w * (t - mean) ** 2, axis=0),
                "error": np.sum(w * (t - p) ** 2, axis=0),
            },
        )

    def merge(self, a: Any, b: Any) -> Any:
        """Combine means and sums of squares."""
        self._check_alike(a, b)
        weight = a["weight"] + b["weight"]
        share = b["weight"] / np.where(weight == 0, 1.0, weight)
        apart = b["mean"] - a["mean"]
        return {
            "weight": weight,
            "mean": a["mean"] + share * apart,
            "squares": a["squares"] + b["squares"] + a["weight"] * share * apart**2,
            "error": a["error"] + b["error"],
        }

    def result(self, state: Any) -> float:
        """Return the coefficient; NaN without samples, and where the targets do not vary."""
        rounding = state["weight"] * (8 * np.finfo(float).eps * np.asarray(state["mean"])) ** 2
        varies = ~(state["squares"] <= rounding)
        squares = np.where(varies, state["squares"], np.nan)
        return float(np.mean(1 - state["error"] / squares))
