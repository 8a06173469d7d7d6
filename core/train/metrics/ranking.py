"""Areas under the ROC curve and the precision-recall curve, exact: the state holds all scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import check
from .inputs import integers, no_nan, outside, spread
from .metric import Metric

__all__ = ["PRAUC", "ROCAUC"]


@dataclass(frozen=True)
class Area(Metric):
    """Base of areas: scores, targets and weights are kept, batch by batch."""

    average: str | None = "macro"

    compiled = False

    def __post_init__(self) -> None:
        known = ("macro", "weighted", None)
        check.choice(self.average, known, f"{type(self).__name__}: average")

    def init(self) -> Any:
        """No batches."""
        return ()

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch of scores (..., n_classes), or scores of class 1 (...), and integer targets (...)."""
        where, scores = type(self).__name__, np.asarray(predictions)
        targets = integers(where, targets)
        binary = scores.shape == targets.shape
        if not (binary or scores.ndim and scores.shape[:-1] == targets.shape and scores.shape[-1] > 1):
            raise ValueError(
                f"{where}: predictions must have the shape of targets, {targets.shape}, or one more axis "
                f"for 2 or more classes, got {scores.shape}"
            )
        if scores.dtype.kind not in "biuf":
            raise TypeError(f"{where}: predictions must be real scores, got {scores.dtype}")
        scores = scores.astype(np.float64)
        weights = spread(where, weights, targets.shape)
        no_nan(where, scores, weights, None if binary else -1)
        n = 2 if binary else scores.shape[-1]
        targets, _ = outside(where, targets, weights, n)
        counts = weights > 0
        scores, targets, weights = scores[counts], targets[counts], weights[counts]
        if n == 2 and not binary:
            with np.errstate(invalid="ignore"):  # inf - inf is refused as NaN
                scores = scores[:, 1] - scores[:, 0]
            no_nan(where, scores, weights)
        elif n > 2 and (scores.min(initial=0) < 0 or np.any(np.abs(scores.sum(axis=-1) - 1) > 1e-2)):
            raise ValueError(
                f"{where}: scores of {n} classes must be probabilities that sum to 1, or samples could "
                "not be compared (apply nn.softmax to logits)"
            )
        return self.merge(state, ({"scores": scores, "targets": targets, "weights": weights},))

    def merge(self, a: Any, b: Any) -> Any:
        """Join the batches."""
        if a and b and a[0]["scores"].shape[1:] != b[0]["scores"].shape[1:]:
            raise ValueError(
                f"{type(self).__name__}: all batches must have scores of the same classes, got scores "
                f"{a[0]['scores'].shape} and {b[0]['scores'].shape}"
            )
        return (*a, *b)

    def result(self, state: Any) -> float | np.ndarray:
        """Return the area, or the areas (classes,) for ``average=None``; NaN without samples."""
        if not sum(len(batch["weights"]) for batch in state):
            return float("nan")
        scores, targets, weights = (
            np.concatenate([batch[k] for batch in state]) for k in ("scores", "targets", "weights")
        )
        if scores.ndim == 1:
            return self._checked(scores, targets == 1, weights, 1)
        areas = np.array([self._checked(s, targets == k, weights, k) for k, s in enumerate(scores.T)])
        if self.average is None:
            return areas
        support = np.bincount(targets, weights, len(areas)) if self.average == "weighted" else None
        return float(np.average(areas, weights=support))

    def _checked(self, scores, positive, weights, k):
        if positive.all() or not positive.any():
            raise ValueError(
                f"{type(self).__name__}: targets must have samples of class {k} and of another class, got "
                f"{'only' if positive.all() else 'none of'} class {k} in {len(positive)} samples"
            )
        order = np.argsort(-scores, kind="stable")
        scores, positive, weights = scores[order], positive[order], weights[order]
        last = np.append(np.flatnonzero(np.diff(scores)), len(scores) - 1)  # of each group of ties
        true = np.cumsum(weights * positive)[last]
        return float(self._area(true, np.cumsum(weights * ~positive)[last]))

    def _area(self, true, false):
        raise NotImplementedError


@dataclass(frozen=True)
class ROCAUC(Area):
    """Area under the ROC curve: the probability that a positive sample has a larger score than a negative one.

    Ties count half (Fawcett 2006, algorithm 2). The state holds the scores of all samples with a weight. Of more than
    two classes, each is compared with the rest.

    Parameters
    ----------
    average : {"macro", "weighted", None}, default "macro"
        For three or more classes: the mean of the areas, that mean weighted by the targets of each class, or all areas.

    Raises
    ------
    ValueError
        For shapes that do not fit, labels out of range, NaN scores, scores of three or more classes that are not
        probabilities, and (in `result`) targets of one class only.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.ROCAUC()
    >>> state = metric.update(metric.init(), np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
    >>> metric.result(state)
    0.75
    """

    name = "roc_auc"

    def _area(self, true, false):
        return np.trapezoid(np.append(0, true), np.append(0, false)) / (true[-1] * false[-1])


@dataclass(frozen=True)
class PRAUC(Area):
    """Area under the precision-recall curve: average precision, sum over thresholds of (R_n - R_(n-1)) P_n.

    The curve is a step function, since interpolated areas are too large (Davis & Goadrich 2006). Samples of equal score
    enter together. The state holds the scores of all samples with a weight.

    Parameters
    ----------
    average : {"macro", "weighted", None}, default "macro"
        For three or more classes: the mean of the areas, that mean weighted by the targets of each class, or all areas.

    Raises
    ------
    ValueError
        For shapes that do not fit, labels out of range, NaN scores, scores of three or more classes that are not
        probabilities, and (in `result`) targets of one class only.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.PRAUC()
    >>> state = metric.update(metric.init(), np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
    >>> round(metric.result(state), 4)
    0.8333
    """

    name = "pr_auc"

    def _area(self, true, false):
        return np.sum(np.diff(true, prepend=0) * true / (true + false)) / true[-1]
