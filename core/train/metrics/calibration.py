"""Agreement of predicted probabilities with frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import check
from ...ops.index import index_add
from .inputs import array, probabilities, refuse_outside
from .metric import Metric

__all__ = ["CalibrationError"]


@dataclass(frozen=True)
class CalibrationError(Metric):
    """Expected calibration error: mean difference of confidence and accuracy over bins (Guo et al. 2017, eq. 3).

    The confidence of a sample is its largest probability. Bin k of M holds confidences in (k / M, (k + 1) / M].
    Predictions are (..., n_classes), targets integer labels (...). Probabilities of class 1 in the shape of the
    targets stand for two classes.

    Parameters
    ----------
    bins : int, default 15
    logits : bool, default False
        True if predictions are scores before the softmax (before the sigmoid, for scores of class 1).

    Raises
    ------
    ValueError
        For predictions that are not probabilities, shapes that do not fit, labels out of range and NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.CalibrationError(bins=10)
    >>> state = metric.update(metric.init(), np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([0, 0]))
    >>> metric.result(state)
    0.25
    """

    bins: int = 15
    logits: bool = False

    name = "calibration_error"
    greater_is_better = False

    def __post_init__(self) -> None:
        check.integer(self.bins, "CalibrationError: bins", 1)

    def init(self) -> Any:
        """Sums over each bin of weights, confidences and right answers, and the number of values out of range."""
        return {**{k: np.zeros(self.bins) for k in ("weight", "confidence", "right")}, "outside": np.float64(0)}

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch."""
        predictions = array(predictions)
        if predictions.shape == np.shape(targets) and predictions.dtype.kind == "f":
            other = 0 * predictions if self.logits else 1 - predictions
            predictions = np.stack([other, predictions], axis=-1)
        p, targets, weights, bad = probabilities("CalibrationError", predictions, targets, weights, self.logits)
        p = np.exp(p) if self.logits else p
        confidence, right = np.max(p, axis=-1), np.argmax(p, axis=-1) == targets
        at = np.clip(np.astype(np.ceil(confidence * self.bins), np.int64) - 1, 0, self.bins - 1)
        return {
            "weight": index_add(state["weight"], at, weights),
            "confidence": index_add(state["confidence"], at, weights * confidence),
            "right": index_add(state["right"], at, weights * right),
            "outside": state["outside"] + bad,
        }

    def result(self, state: Any) -> float:
        """Return the error, from 0 to 1; NaN without samples."""
        refuse_outside("CalibrationError", state)
        total = np.sum(state["weight"])
        if not total:
            return float("nan")
        return float(np.sum(np.abs(np.asarray(state["right"]) - state["confidence"])) / total)
