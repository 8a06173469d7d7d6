"""Distances of surfaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import check
from .inputs import array, decided, ratio, spread
from .metric import Metric

__all__ = ["Hausdorff"]


@dataclass(frozen=True)
class Hausdorff(Metric):
    """Hausdorff distance of the surfaces of predicted and true regions, averaged over samples.

    The surface of a region is its elements that have a neighbor outside along an axis, or lie at the edge of the
    image. For each sample, the quantile of the distances from each surface to the other is taken, and the larger of
    the two counts (Huttenlocher et al. 1993, eqs. 1 and 2; with a quantile, their partial distance). A sample where
    both regions are empty has the distance 0; where one is empty, it is infinite.

    Predictions are real scores (batch, ..., n_classes), real scores of class 1, or labels (batch, ...); targets are
    integer labels (batch, ...). Weights are (batch,).

    Parameters
    ----------
    quantile : float, default 1.0
        1 for the largest distance, 0.95 for the 95 % distance of medical images.
    label : int, default 1
        The class whose regions are compared.
    spacing : float or sequence of float, default 1.0
        Distance of neighboring elements, along each axis or along all. The result has its unit.
    threshold : float, default 0.5
        Scores of class 1 above it are class 1. For logits, pass 0.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.Hausdorff(spacing=0.5)
    >>> state = metric.update(metric.init(), np.array([[0, 1, 1, 0, 0]]), np.array([[0, 1, 1, 1, 1]]))
    >>> metric.result(state)
    1.0
    """

    quantile: float = 1.0
    label: int = 1
    spacing: Any = 1.0
    threshold: float = 0.5

    name = "hausdorff"
    compiled = False
    greater_is_better = False

    def __post_init__(self) -> None:
        check.number(self.quantile, "Hausdorff: quantile", 0, 1)
        check.integer(self.label, "Hausdorff: label", 0)
        for length in np.ravel(self.spacing):
            check.positive(length, "Hausdorff: spacing")

    def init(self) -> Any:
        """The weighted sum of distances, and the sum of weights."""
        return {"distance": np.float64(0), "weight": np.float64(0)}

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch."""
        shape = array(targets).shape
        if len(shape) < 2:
            raise ValueError(f"Hausdorff: targets must be (batch, ...) with at least one axis of space, got {shape}")
        check.shape(self.spacing, [(), (len(shape) - 1,)], "Hausdorff: spacing")
        weights = spread("Hausdorff", weights, shape[:1])
        found = decided("Hausdorff", predictions, targets, weights, self.threshold)
        a, b = (np.reshape(x == self.label, shape) for x in (found.predicted, found.targets))
        total = sum(weights[k] * self._distance(a[k], b[k]) for k in np.flatnonzero(weights))
        return {"distance": state["distance"] + np.float64(total), "weight": state["weight"] + np.sum(weights)}

    def result(self, state: Any) -> float:
        """Return the mean distance; NaN without samples."""
        return ratio(state["distance"], state["weight"])

    def _distance(self, a, b):
        if not (a.any() and b.any()):
            return 0.0 if a.any() == b.any() else np.inf
        a, b = _surface(a), _surface(b)
        return max(self._directed(a, b), self._directed(b, a))

    def _directed(self, a, b):
        from scipy.ndimage import distance_transform_edt  # late: import of some 30 ms

        return np.quantile(distance_transform_edt(~b, sampling=self.spacing)[a], self.quantile)


def _surface(region):
    from scipy.ndimage import binary_erosion

    return region & ~binary_erosion(region)
