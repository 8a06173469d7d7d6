"""Shares of right answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import check
from .inputs import array, decided, integers, no_nan, outside, ratio, refuse_outside, spread
from .metric import Metric

__all__ = ["Accuracy", "TopK"]


class _Share(Metric):
    """Base of shares of right answers."""

    def init(self) -> Any:
        """Weights of right answers and of all samples, and the number of labels out of range."""
        return {"right": np.float64(0), "weight": np.float64(0), "outside": np.float64(0)}

    def result(self, state: Any) -> float:
        """Return the share; NaN without samples."""
        refuse_outside(type(self).__name__, state)
        return ratio(state["right"], state["weight"])

    def _counted(self, state, right, weights, bad):
        """Return the state with one more batch."""
        return {
            "right": state["right"] + np.sum(np.where(right, weights, 0 * weights), dtype=np.float64),
            "weight": state["weight"] + np.sum(weights, dtype=np.float64),
            "outside": state["outside"] + bad,
        }


@dataclass(frozen=True)
class Accuracy(_Share):
    """Share of samples whose predicted class is the target.

    Predictions are real scores of classes (..., n_classes), real scores of class 1 (...), or labels (...); targets are
    integer labels (...), or probabilities of classes (..., n_classes), whose largest entry is the label.

    Parameters
    ----------
    threshold : float, default 0.5
        Scores of class 1 above it are class 1. For logits, pass 0.

    Raises
    ------
    ValueError
        For shapes that do not fit, labels out of range and NaN scores (see `Metric.compiled` for compiled code).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.Accuracy()
    >>> state = metric.update(metric.init(), np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]))
    >>> metric.result(state)
    0.5
    """

    threshold: float = 0.5

    name = "accuracy"

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch."""
        found = decided("Accuracy", predictions, targets, weights, self.threshold)
        return self._counted(state, found.predicted == found.targets, found.weights, found.outside)


@dataclass(frozen=True)
class TopK(_Share):
    """Share of samples whose target is among the k classes with the largest scores.

    Among equal scores, the class that comes first wins, as for `Accuracy`: ``TopK(1)`` is `Accuracy`.

    Parameters
    ----------
    k : int, default 5

    Raises
    ------
    ValueError
        For fewer than k classes, shapes that do not fit, labels out of range and NaN scores.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.TopK(2)
    >>> state = metric.update(metric.init(), np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]), np.array([1, 2]))
    >>> metric.result(state)
    0.5
    """

    k: int = 5

    name = "top_k"

    def __post_init__(self) -> None:
        check.integer(self.k, "TopK: k", 1)

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch of scores (..., n_classes) and integer targets (...)."""
        scores, targets = array(predictions), integers("TopK", targets)
        if scores.ndim == 0 or scores.shape[:-1] != targets.shape or scores.shape[-1] < self.k:
            raise ValueError(
                f"TopK: predictions must be scores in the shape of targets, {targets.shape}, with one "
                f"more axis of at least k={self.k} classes, got {scores.shape}"
            )
        weights = no_nan("TopK", scores, spread("TopK", weights, targets.shape), axis=-1)
        targets, bad = outside("TopK", targets, weights, scores.shape[-1])
        own = np.take_along_axis(scores, targets[..., None], axis=-1)
        earlier = np.arange(scores.shape[-1]) < targets[..., None]
        rank = np.sum((scores > own) | ((scores == own) & earlier), axis=-1)
        return self._counted(state, rank < self.k, weights, bad)
