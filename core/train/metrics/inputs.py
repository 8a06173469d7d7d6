"""Checks of what metrics are given: shapes, labels, scores and weights, of arrays and of traced values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ... import check
from ...tensor import Tensor

__all__ = [
    "Decided",
    "array",
    "decided",
    "integers",
    "no_nan",
    "outside",
    "probabilities",
    "ratio",
    "refuse_outside",
    "same_shape",
    "spread",
]


class Decided(NamedTuple):
    """Labels of predictions and targets, flat, with float64 weights. See `decided`."""

    predicted: Any  # int64
    targets: Any  # int64, within the range of classes
    weights: Any  # float64
    classes: int | None
    outside: Any  # number of labels out of range: 0 unless traced


def array(x: Any) -> Any:
    """Return a traced value as it is, and anything else as an array."""
    return x if isinstance(x, Tensor) else np.asarray(x)


def decided(
    where: str, predictions: Any, targets: Any, weights: Any, threshold: float = 0.5, classes: int | None = None
) -> Decided:
    """Turn predictions into labels and flatten them with their targets and weights.

    Predictions are scores of classes (one axis more than the targets; the largest wins, the first of equal ones),
    scores of class 1 (real numbers in the shape of the targets; those above `threshold` win), or labels (integers or
    booleans in the shape of the targets). Targets may be probabilities of classes in the shape of the scores; the
    largest one is the label.
    """
    predictions, targets = array(predictions), array(targets)
    mixed: Any = 0.0
    if targets.dtype.kind == predictions.dtype.kind == "f" and targets.shape == predictions.shape and targets.ndim > 1:
        wrong = np.abs(np.sum(np.astype(targets, np.float64), axis=-1) - 1) > 1e-2
        if not isinstance(wrong, Tensor) and wrong.any():
            raise ValueError(
                f"{where}: targets that are not labels must be probabilities that sum to 1 over the last "
                f"axis, got {targets[wrong][0][:4]}"
            )
        targets, mixed = np.argmax(targets, axis=-1), np.sum(wrong, dtype=np.float64)
    targets = integers(where, targets)
    weights = spread(where, weights, targets.shape)
    real = predictions.dtype.kind == "f"
    if predictions.shape == targets.shape:
        if real:
            weights = no_nan(where, predictions, weights)
            predictions, scores = np.astype(predictions > threshold, np.int64), 2
        else:
            predictions, scores = integers(where, predictions, "predictions"), None
    elif predictions.shape[:-1] == targets.shape and real and predictions.ndim and predictions.shape[-1] > 0:
        weights = no_nan(where, predictions, weights, axis=-1)
        scores = predictions.shape[-1]
        predictions = np.astype(np.argmax(predictions, axis=-1), np.int64)
    else:
        raise ValueError(
            f"{where}: predictions must have the shape of targets, {targets.shape}, or be real scores "
            f"with one more axis for the classes, got {predictions.dtype} {predictions.shape}"
        )
    if classes is not None and scores is not None and scores > classes:
        raise ValueError(f"{where}: predictions must have scores of {classes} classes, got {scores}")
    classes = scores if classes is None else classes
    targets, bad = outside(where, targets, weights, classes, "targets")
    bad = bad + mixed
    if scores is None:
        predictions, more = outside(where, predictions, weights, classes, "predictions")
        bad = bad + more
    return Decided(np.reshape(predictions, -1), np.reshape(targets, -1), np.reshape(weights, -1), classes, bad)


def integers(where: str, x: Any, what: str = "targets") -> Any:
    """Return labels as int64; refuse real numbers."""
    x = array(x)
    if x.dtype.kind not in "biu":
        raise TypeError(f"{where}: {what} must be integer class labels, got {x.dtype} {x.shape}")
    return np.astype(x, np.int64)


def outside(where: str, labels: Any, weights: Any, classes: int | None, what: str = "targets") -> tuple[Any, Any]:
    """Return labels within 0, ..., classes - 1 and the number of those that were not; raise if that can be seen now."""
    high = np.iinfo(np.int64).max if classes is None else classes - 1
    bad = ((labels < 0) | (labels > high)) & (weights > 0)
    if not isinstance(bad, Tensor) and bad.any():
        at = tuple(int(k) for k in np.argwhere(bad)[0])
        span = "labels >= 0" if classes is None else f"labels from 0 to {classes - 1}"
        place = f" at {', '.join(map(str, at))}" if at else ""
        raise ValueError(f"{where}: {what} must be {span}, got {labels[at]}{place} (a weight of 0 leaves a sample out)")
    return np.clip(labels, 0, high), np.sum(bad, dtype=np.float64)


def refuse_outside(where: str, state: dict[str, Any]) -> None:
    """Raise if compiled updates have counted values out of range."""
    if count := int(state["outside"]):
        raise ValueError(
            f"{where}: targets and predictions must be in range, got {count} values out of range in "
            "compiled updates (call update with plain arrays to see where)"
        )


def spread(where: str, weights: Any, shape: tuple[int, ...]) -> Any:
    """Return weights as float64 in the shape of the targets; a traced negative weight becomes NaN."""
    if weights is None:
        return np.ones(shape)
    weights = array(weights)
    if weights.dtype.kind not in "biuf" or weights.shape != shape[: weights.ndim]:
        raise ValueError(
            f"{where}: weights must be numbers in the shape of targets or of their leading axes, {shape}, "
            f"got {weights.dtype} {weights.shape}"
        )
    weights = np.astype(weights, np.float64)
    good = (weights >= 0) & (weights < np.inf)
    if isinstance(good, Tensor):
        weights = np.where(good, weights, np.nan)
    elif not good.all():
        raise ValueError(f"{where}: weights must be finite and not negative, got {weights[~good][0]}")
    return np.broadcast_to(np.reshape(weights, (*weights.shape, *[1] * (len(shape) - weights.ndim))), shape)


def no_nan(where: str, values: Any, weights: Any, axis: int | None = None, what: str = "predictions") -> Any:
    """Refuse NaN among values that count. If they are traced, return weights that are NaN there."""
    bad = np.isnan(values) if axis is None else np.any(np.isnan(values), axis=axis)
    bad = bad & (weights > 0)
    if isinstance(bad, Tensor):
        return np.where(bad, np.nan, weights)
    if bad.any():
        at = ", ".join(str(int(k)) for k in np.argwhere(bad)[0])
        raise ValueError(f"{where}: {what} must not be NaN, got NaN at {at or 'the only sample'}")
    return weights


def same_shape(where: str, predictions: Any, targets: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Return float64 predictions, targets and weights of one shape, 0 where the weight is 0."""
    predictions, targets = array(predictions), array(targets)
    check.shape(predictions, targets.shape, f"{where}: predictions", hint="the shape of targets")
    for x, what in ((predictions, "predictions"), (targets, "targets")):
        if x.dtype.kind not in "biuf":
            raise TypeError(f"{where}: {what} must be real numbers, got {x.dtype}")
    weights = spread(where, weights, targets.shape)
    predictions, targets = np.astype(predictions, np.float64), np.astype(targets, np.float64)
    weights = no_nan(where, targets, no_nan(where, predictions, weights), what="targets")
    counts = weights != 0  # NaN counts
    return np.where(counts, predictions, 0.0), np.where(counts, targets, 0.0), weights


def probabilities(where: str, predictions: Any, targets: Any, weights: Any, logits: bool) -> tuple[Any, Any, Any, Any]:
    """Return float64 log probabilities or probabilities (n, classes), with flat targets, weights, and the number of
    rows out of range: log softmax if `logits`, otherwise rows that are checked to be probabilities.
    """
    predictions, targets = array(predictions), integers(where, targets)
    if predictions.ndim == 0 or predictions.shape[:-1] != targets.shape or predictions.dtype.kind != "f":
        raise ValueError(
            f"{where}: predictions must be real numbers in the shape of targets, {targets.shape}, with "
            f"one more axis for the classes, got {predictions.dtype} {predictions.shape}"
        )
    classes = predictions.shape[-1]
    weights = no_nan(where, predictions, spread(where, weights, targets.shape), axis=-1)
    targets, bad = outside(where, targets, weights, classes)
    p = np.astype(predictions, np.float64)
    p = np.where((weights != 0)[..., None], p, 1.0 / classes)
    if logits:
        with np.errstate(invalid="ignore"):  # an infinite logit gives NaN
            p = p - np.max(p, axis=-1, keepdims=True)
        p = p - np.log(np.sum(np.exp(p), axis=-1, keepdims=True))
    else:
        wrong = ((np.abs(np.sum(p, axis=-1) - 1) > 1e-2) | np.any(p < 0, axis=-1)) & (weights > 0)
        if not isinstance(wrong, Tensor) and wrong.any():
            raise ValueError(
                f"{where}: predictions must be probabilities that sum to 1 over the last axis, got "
                f"{p[wrong][0][:4]} (logits=True for scores before the softmax)"
            )
        bad = bad + np.sum(wrong, dtype=np.float64)
    return np.reshape(p, (-1, classes)), np.reshape(targets, -1), np.reshape(weights, -1), bad


def ratio(a: Any, b: Any) -> float:
    """a / b as a float; NaN if b is 0."""
    return float(a) / float(b) if b else float("nan")
