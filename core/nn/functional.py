"""Activations and losses, as plain NumPy functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .. import check
from ..ops.likelihood import likelihood
from ..precision import at_least_float32, in_dtype_of
from ..tensor import Tensor
from ..transforms.checkpoint import stop_gradient
from .entries import pick_entries

__all__ = [
    "binary_cross_entropy",
    "cross_entropy",
    "gelu",
    "gelu_tanh",
    "log_softmax",
    "mean_squared_error",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
]


def relu(x: Any) -> NDArray[Any]:
    """max(x, 0).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.relu(np.array([-1.0, 0.5]))
    array([0. , 0.5])
    """
    return np.maximum(x, 0)


def sigmoid(x: Any) -> NDArray[Any]:
    """1 / (1 + exp(-x)).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> float(nn.sigmoid(0.0))
    0.5
    """
    return special.expit(x)


def silu(x: Any) -> NDArray[Any]:
    """x sigmoid(x), also called swish.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.silu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.2689,  0.    ,  0.7311])
    """
    return x * special.expit(x)


def softplus(x: Any) -> NDArray[Any]:
    """log(1 + exp(x)), without overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.softplus(np.array([-1000.0, 0.0, 1000.0])).round(4)
    array([0.000e+00, 6.931e-01, 1.000e+03])
    """
    return np.logaddexp(x, 0)


def gelu(x: Any) -> NDArray[Any]:
    """x Φ(x) with the normal distribution's Φ (Hendrycks & Gimpel 2016, section 2).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.gelu(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1587,  0.    ,  0.8413])
    """
    return 0.5 * x * (1 + special.erf(x * math.sqrt(0.5)))


def gelu_tanh(x: Any) -> NDArray[Any]:
    """0.5 x (1 + tanh(sqrt(2 / π) (x + 0.044715 x³))), close to `gelu` (Hendrycks & Gimpel 2016, section 2).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.gelu_tanh(np.array([-1.0, 0.0, 1.0])).round(4)
    array([-0.1588,  0.    ,  0.8412])
    """
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


def softmax(x: Any, axis: int = -1) -> NDArray[Any]:
    """exp(x) / sum(exp(x)) along `axis`, without overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.softmax(np.array([0.0, np.log(3.0)])).round(12)
    array([0.25, 0.75])
    """
    e = np.exp(_below_max(at_least_float32(x), axis))
    return in_dtype_of(e / np.sum(e, axis=axis, keepdims=True), x)


def _below_max(x, axis):
    """x - max(x). The shift cancels in softmax, so that no derivative need pass through the maximum."""
    return x - stop_gradient(np.max(x, axis=axis, keepdims=True))


def log_softmax(x: Any, axis: int = -1) -> NDArray[Any]:
    """log of `softmax`, without overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    y = _below_max(at_least_float32(x), axis)
    return in_dtype_of(y - np.log(np.sum(np.exp(y), axis=axis, keepdims=True)), x)


def cross_entropy(logits: Any, labels: Any, *, smoothing: float = 0.0, ignore_index: int | None = None) -> Any:
    """Mean cross entropy of class labels, or of probabilities of classes.

    Parameters
    ----------
    logits : (..., n_classes) array
    labels : (...) integer, or (..., n_classes) float
        Labels, at least 0 and below `n_classes`; or probabilities, such as `data.image.mixup` makes, whose sum over the
        last axis is 1.
    smoothing : float, default 0
        Share of the probability that is spread evenly over all classes (Szegedy et al. 2016, section 7).
    ignore_index : int, optional
        Label of places that do not count, such as padding. The mean is taken over the others; it is NaN if there are
        none.

    Returns
    -------
    scalar

    Raises
    ------
    IndexError
        If a label is out of range.
    TypeError
        If labels are neither integers nor probabilities, or if `ignore_index` is given with probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> float(nn.cross_entropy(np.zeros((5, 4)), np.array([0, 1, 2, 3, 0])).round(6))  # log 4
    1.386294
    >>> float(nn.cross_entropy(np.zeros((1, 2)), np.array([[0.3, 0.7]])).round(6))  # log 2
    0.693147
    """
    shape, kind = np.shape(logits), np.result_type(labels).kind
    if kind not in "iuf":
        raise TypeError(
            f"cross_entropy: labels must be integers, or probabilities of classes, got {np.result_type(labels)}"
        )
    if np.shape(labels) != (shape if kind == "f" else shape[:-1]):
        of = (
            "probabilities must have the shape of logits"
            if kind == "f"
            else ("labels must have the shape of logits without its last axis")
        )
        raise ValueError(f"cross_entropy: {of}, {shape if kind == 'f' else shape[:-1]}, got {np.shape(labels)}")
    check.number(smoothing, "cross_entropy: smoothing", 0, 1)
    used = None
    if ignore_index is not None:
        if kind == "f":
            raise TypeError("cross_entropy: ignore_index needs integer labels, got probabilities of classes")
        labels = labels if isinstance(labels, Tensor) else np.asarray(labels)
        used = np.not_equal(labels, check.integer(ignore_index, "cross_entropy: ignore_index", None))
    logits = at_least_float32(logits)
    log = log_softmax(logits)
    if kind == "f":
        losses = -np.sum(labels * log, axis=-1, keepdims=True)
    else:
        if used is not None:
            labels = np.where(used, labels, 0)
        losses = -pick_entries(
            "cross_entropy: labels",
            labels,
            shape[-1],
            lambda labels: np.take_along_axis(log, labels[..., None], axis=-1),
        )
    if smoothing:
        losses = (1 - smoothing) * losses - smoothing * np.mean(log, axis=-1, keepdims=True)
    losses = likelihood(losses, logits, "categorical")
    if used is None:
        return np.mean(losses)
    return np.sum(np.where(used[..., None], losses, 0)) / np.sum(used, dtype=losses.dtype)


def binary_cross_entropy(logits: Any, targets: Any) -> Any:
    """Mean cross entropy of yes-or-no variables, whose probabilities are the sigmoids of `logits`.

    Parameters
    ----------
    logits : array
    targets : array of the same shape
        Zeros and ones, or probabilities between them.

    Returns
    -------
    scalar

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> float(nn.binary_cross_entropy(np.zeros(3), np.array([0, 1, 1])).round(6))  # log 2
    0.693147
    """
    check.shape(targets, np.shape(logits), "binary_cross_entropy: targets", hint="the shape of logits")
    return np.mean(likelihood(softplus(logits) - targets * logits, logits, "bernoulli"))


def mean_squared_error(prediction: Any, target: Any) -> Any:
    """Mean of (prediction - target)²; the shapes must be equal (broadcasting here is nearly always a mistake).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> float(nn.mean_squared_error(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
    2.0
    """
    check.shape(target, np.shape(prediction), "mean_squared_error: target", hint="the shape of prediction")
    prediction, target = at_least_float32(prediction), at_least_float32(target)
    return np.mean(likelihood((prediction - target) ** 2, prediction, "normal"))
