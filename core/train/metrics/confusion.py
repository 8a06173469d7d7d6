"""Metrics of the confusion matrix: precision, recall, F1, Dice and intersection over union."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ... import check
from ...ops.index import index_add
from ...tensor import Tensor
from .inputs import decided, refuse_outside
from .metric import Metric

__all__ = ["F1", "ConfusionMatrix", "Dice", "IoU", "Precision", "Recall"]

_MOST = 4096  # classes of a matrix that grows; more is likely a wrong label
_AVERAGES = ("binary", "micro", "macro", "weighted", None)


class Confusion(Metric):
    """Base of metrics whose state is the confusion matrix."""

    classes: int | None
    threshold: float

    @property
    def compiled(self) -> bool:  # type: ignore[override]
        """True if the number of classes is known from the start."""
        return self._classes() is not None

    def _classes(self):
        return self.classes

    def init(self) -> Any:
        """The confusion matrix (rows: targets, columns: predictions), and the number of labels out of range."""
        n = self._classes() or 0
        return {"matrix": np.zeros((n, n)), "outside": np.float64(0)}

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch."""
        where, n = type(self).__name__, self._classes()
        found = decided(where, predictions, targets, weights, self.threshold, n)
        predicted, labels, counts = found.predicted, found.targets, found.weights
        if n is None:
            if isinstance(predicted, Tensor):
                raise ValueError(f"{where}: compiled code needs the number of classes (pass classes=)")
            counted = counts > 0
            predicted, labels, counts = predicted[counted], labels[counted], counts[counted]
            seen = 1 + max(labels.max(initial=-1), predicted.max(initial=-1))
            n = max(len(state["matrix"]), found.classes or 0, int(seen))
            if n > _MOST:
                raise ValueError(
                    f"{where}: labels above {_MOST - 1} need the number of classes, got {n - 1} (pass "
                    f"classes={n} if that is right)"
                )
        flat = index_add(np.zeros(n * n), labels * n + predicted, counts)
        return {
            "matrix": _grown(state["matrix"], n) + np.reshape(flat, (n, n)),
            "outside": state["outside"] + found.outside,
        }

    def merge(self, a: Any, b: Any) -> Any:
        """Add the matrices."""
        n = max(len(a["matrix"]), len(b["matrix"]))
        return {"matrix": _grown(a["matrix"], n) + _grown(b["matrix"], n), "outside": a["outside"] + b["outside"]}


@dataclass(frozen=True)
class ConfusionMatrix(Confusion):
    """Weights of samples by target (row) and predicted class (column).

    Predictions are real scores of classes (..., n_classes), real scores of class 1 (...), or labels (...); targets are
    integer labels (...).

    Parameters
    ----------
    classes : int, optional
        Number of classes. By default the matrix grows with the data; compiled code needs the number.
    threshold : float, default 0.5
        Scores of class 1 above it are class 1. For logits, pass 0.
    normalize : {"targets", "predictions", "all"}, optional
        Divide by the sums of rows, of columns, or of all. Rows and columns without samples are then NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.ConfusionMatrix()
    >>> metric.result(metric.update(metric.init(), np.array([0, 1, 1, 1]), np.array([0, 1, 0, 1])))
    array([[1., 1.],
           [0., 2.]])
    """

    classes: int | None = None
    threshold: float = 0.5
    normalize: str | None = None

    name = "confusion_matrix"

    def __post_init__(self) -> None:
        _check_classes("ConfusionMatrix", self.classes)
        known = ("targets", "predictions", "all")
        check.choice(self.normalize, [None, *known], "ConfusionMatrix: normalize")

    def result(self, state: Any) -> np.ndarray:
        """Return the matrix (classes, classes) float64."""
        refuse_outside("ConfusionMatrix", state)
        matrix = np.array(state["matrix"])
        if self.normalize is None:
            return matrix
        axis = {"targets": 1, "predictions": 0, "all": None}[self.normalize]
        return _divided(matrix, matrix.sum(axis=axis, keepdims=True), np.nan)


@dataclass(frozen=True)
class Counts(Confusion):
    """Base of ratios of true positives, false positives and false negatives, for each class or averaged.

    `_factors` are h, p and n of the ratio ``h tp / (h tp + p fp + n fn)``. A class whose ratio has the denominator 0
    counts as 0, as in scikit-learn.
    """

    average: str | None = "binary"
    classes: int | None = None
    threshold: float = 0.5

    _factors: ClassVar[tuple[int, int, int]]

    def __post_init__(self) -> None:
        where = type(self).__name__
        check.choice(self.average, _AVERAGES, f"{where}: average")
        _check_classes(where, self.classes)
        if self.average == "binary" and self.classes not in (None, 2):
            raise ValueError(
                f'{where}: average="binary" needs 2 classes, got {self.classes} (use "macro", "micro", '
                '"weighted" or None)'
            )

    def _classes(self):
        return 2 if self.average == "binary" else self.classes

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Add a batch."""
        if self.average == "binary" and np.ndim(predictions) == np.ndim(targets) + 1 and np.shape(predictions)[-1] > 2:
            raise ValueError(
                f'{type(self).__name__}: average="binary" needs 2 classes, got scores of '
                f'{np.shape(predictions)[-1]} (use average="macro", "micro", "weighted" or None)'
            )
        return super().update(state, predictions, targets, weights)

    def result(self, state: Any) -> float | np.ndarray:
        """Return the ratio, or (classes,) float64 for ``average=None``; NaN without samples."""
        refuse_outside(type(self).__name__, state)
        matrix = np.asarray(state["matrix"])
        hits = np.diagonal(matrix)
        misses, false = matrix.sum(axis=1) - hits, matrix.sum(axis=0) - hits
        if self.average == "micro":
            hits, misses, false = hits.sum(), misses.sum(), false.sum()
        h, p, n = self._factors
        ratios = _divided(h * hits, h * hits + p * false + n * misses, 0.0)
        if not matrix.sum():
            return np.full(len(matrix), np.nan) if self.average is None else float("nan")
        if np.isnan(matrix).any():
            ratios = np.full_like(ratios, np.nan)
        if self.average == "micro":
            return float(ratios)
        if self.average == "binary":
            return float(ratios[1])
        support = matrix.sum(axis=1)
        if self.average == "weighted":
            return float(ratios @ support / support.sum())
        seen = support + false != 0
        return np.where(seen, ratios, np.nan) if self.average is None else float(np.mean(ratios[seen]))


@dataclass(frozen=True)
class Precision(Counts):
    """Share of right answers among the predictions of a class: tp / (tp + fp).

    Predictions are real scores of classes (..., n_classes), real scores of class 1 (...), or labels (...); targets are
    integer labels (...). A ratio with the denominator 0 counts as 0, as in scikit-learn. Classes that occur neither in
    targets nor in predictions are left out of "macro", and are NaN among the ratios of single classes.

    Parameters
    ----------
    average : {"binary", "micro", "macro", "weighted", None}, default "binary"
        "binary" is the ratio of class 1; "micro" sums the counts of all classes; "macro" is the mean over classes, and
        "weighted" that mean weighted by the targets of each class; None returns one ratio per class.
    classes : int, optional
        Number of classes. By default it grows with the data; compiled code needs the number unless `average` is
        "binary".
    threshold : float, default 0.5
        Scores of class 1 above it are class 1. For logits, pass 0.

    Raises
    ------
    ValueError
        For shapes that do not fit, labels out of range, NaN scores, and more than 2 classes with "binary".

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.Precision()
    >>> state = metric.update(metric.init(), np.array([1, 1, 1, 0]), np.array([1, 1, 0, 1]))
    >>> metric.result(state)
    0.6666666666666666
    """

    name = "precision"
    _factors = (1, 1, 0)


@dataclass(frozen=True)
class Recall(Counts):
    """Share of right answers among the targets of a class: tp / (tp + fn).

    Parameters
    ----------
    average : {"binary", "micro", "macro", "weighted", None}, default "binary"
        See `Precision`.
    classes : int, optional
        Number of classes. By default it grows with the data; compiled code needs the number unless `average` is
        "binary".
    threshold : float, default 0.5
        Scores of class 1 above it are class 1. For logits, pass 0.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.Recall()
    >>> state = metric.update(metric.init(), np.array([1, 1, 1, 0]), np.array([1, 1, 0, 1]))
    >>> metric.result(state)
    0.6666666666666666
    """

    name = "recall"
    _factors = (1, 0, 1)


@dataclass(frozen=True)
class F1(Counts):
    """Harmonic mean of precision and recall: 2 tp / (2 tp + fp + fn).

    Parameters
    ----------
    average : {"binary", "micro", "macro", "weighted", None}, default "binary"
        See `Precision`.
    classes : int, optional
        Number of classes. By default it grows with the data; compiled code needs the number unless `average` is
        "binary".
    threshold : float, default 0.5
        Scores of class 1 above it are class 1. For logits, pass 0.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.F1()
    >>> state = metric.update(metric.init(), np.array([1, 1, 1, 0]), np.array([1, 1, 0, 1]))
    >>> metric.result(state)
    0.6666666666666666
    """

    name = "f1"
    _factors = (2, 1, 1)


@dataclass(frozen=True)
class Dice(Counts):
    """Overlap of regions, 2 |A and B| / (|A| + |B|) (Dice 1945), from the elements of all samples together.

    The same ratio as `F1`, under the name and with the default of segmentation: the mean over classes.

    Parameters
    ----------
    average : {"binary", "micro", "macro", "weighted", None}, default "macro"
        See `Precision`.
    classes : int, optional
        Number of classes. By default it grows with the data; compiled code needs the number unless `average` is
        "binary".
    threshold : float, default 0.5
        Scores of class 1 above it are class 1. For logits, pass 0.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.Dice()
    >>> state = metric.update(metric.init(), np.array([[[0, 1], [1, 1]]]), np.array([[[0, 0], [1, 1]]]))
    >>> round(metric.result(state), 3)
    0.733
    """

    average: str | None = "macro"

    name = "dice"
    _factors = (2, 1, 1)


@dataclass(frozen=True)
class IoU(Counts):
    """Intersection over union of regions, |A and B| / |A or B| (Jaccard 1901), from all elements of all samples.

    Parameters
    ----------
    average : {"binary", "micro", "macro", "weighted", None}, default "macro"
        See `Precision`.
    classes : int, optional
        Number of classes. By default it grows with the data; compiled code needs the number unless `average` is
        "binary".
    threshold : float, default 0.5
        Scores of class 1 above it are class 1. For logits, pass 0.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.IoU()
    >>> state = metric.update(metric.init(), np.array([[[0, 1], [1, 1]]]), np.array([[[0, 0], [1, 1]]]))
    >>> round(metric.result(state), 3)
    0.583
    """

    average: str | None = "macro"

    name = "iou"
    _factors = (1, 1, 1)


def _check_classes(where, classes):
    if classes is not None:
        check.integer(classes, f"{where}: classes", 1)


def _grown(matrix, n):
    """The matrix with rows and columns of 0 for further classes."""
    return matrix if len(matrix) == n else np.pad(matrix, (0, n - len(matrix)))


def _divided(a, b, otherwise):
    """a / b, with another value where b is 0."""
    zero = np.asarray(b) == 0
    return np.where(zero, otherwise, a / np.where(zero, 1, b))
