"""Activations and losses, as plain NumPy functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..ops.likelihood import likelihood

__all__ = ["cross_entropy", "gelu", "gelu_tanh", "log_softmax", "mean_squared_error", "relu", "sigmoid", "silu",
           "softmax", "softplus"]


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
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def log_softmax(x: Any, axis: int = -1) -> NDArray[Any]:
    """log of `softmax`, without overflow.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    y = x - np.max(x, axis=axis, keepdims=True)
    return y - np.log(np.sum(np.exp(y), axis=axis, keepdims=True))


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Mean cross entropy of integer class labels.

    Parameters
    ----------
    logits : (..., n_classes) array
    labels : (...) integer
        At least 0 and below `n_classes`.

    Returns
    -------
    scalar

    Raises
    ------
    IndexError
        If a label is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> float(nn.cross_entropy(np.zeros((5, 4)), np.array([0, 1, 2, 3, 0])).round(6))  # log 4
    1.386294
    """
    if np.shape(labels) != np.shape(logits)[:-1]:
        raise ValueError(
            f"cross_entropy: labels must have the shape of logits without its last axis, {np.shape(logits)[:-1]}, got "
            f"{np.shape(labels)}"
        )
    if np.result_type(labels).kind not in "iu":
        raise TypeError(f"cross_entropy: labels must be integers, got {np.result_type(labels)}")
    labels = np.where(labels < 0, np.shape(logits)[-1], labels)  # out of range, and not counted from the end
    losses = -np.take_along_axis(log_softmax(logits), labels[..., None], axis=-1)
    return np.mean(likelihood(losses, logits, "categorical"))


def mean_squared_error(prediction: Any, target: Any) -> Any:
    """Mean of (prediction - target)²; the shapes must be equal (broadcasting here is nearly always a mistake).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> float(nn.mean_squared_error(np.array([1.0, 2.0]), np.array([1.0, 4.0])))
    2.0
    """
    if np.shape(prediction) != np.shape(target):
        raise ValueError(f"mean_squared_error: prediction and target must have one shape, got {np.shape(prediction)} "
                         f"and {np.shape(target)}")
    return np.mean(likelihood((prediction - target) ** 2, prediction, "normal"))
