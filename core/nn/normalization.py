"""Normalization layers; channels are the last axis, batches are leading axes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..short_repr import short_repr
from ..transforms.checkpoint import stop_gradient
from .layers import check_last_axis, static

__all__ = ["BatchNorm", "LayerNorm"]


@short_repr
@dataclass(frozen=True)
class LayerNorm:
    """(x - mean) / sqrt(variance + epsilon) over the last axis, then scale and shift (Ba et al. 2016, eq. 4).

    Parameters
    ----------
    scale, bias : (n,) array
    epsilon : float, default 1e-5
        Added to the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.LayerNorm(np.ones(4), np.zeros(4))(np.array([1.0, 2.0, 3.0, 4.0])).round(3)
    array([-1.342, -0.447,  0.447,  1.342])
    """

    scale: Any  # [n]
    bias: Any  # [n]
    epsilon: float = static(default=1e-5)

    @classmethod
    def init(cls, n: int, *, epsilon: float = 1e-5, dtype: DTypeLike = np.float32) -> LayerNorm:
        return cls(np.ones(n, dtype), np.zeros(n, dtype), epsilon)

    def __call__(self, x: Any) -> NDArray[Any]:
        check_last_axis("LayerNorm", x, np.shape(self.scale)[0])
        centered = x - np.mean(x, axis=-1, keepdims=True)
        variance = np.mean(centered**2, axis=-1, keepdims=True)
        return centered / np.sqrt(variance + self.epsilon) * self.scale + self.bias


@short_repr
@dataclass(frozen=True)
class BatchNorm:
    """Normalizes each channel (last axis) over all other axes (Ioffe & Szegedy 2015).

    ``layer.train(x)`` uses the batch's statistics and returns ``(y, layer)`` with updated running ones; ``layer(x)``
    uses the running ones. Neither gives the running statistics a gradient.

    Parameters
    ----------
    scale, bias : (channels,) array
    mean, variance : (channels,) array
        Running statistics.
    momentum : float, default 0.9
        Weight of the running statistics in an update.
    epsilon : float, default 1e-5
        Added to the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> norm = nn.BatchNorm(np.ones(3), np.zeros(3), mean=np.zeros(3), variance=np.ones(3))
    >>> y, norm = norm.train(np.arange(6.0).reshape(2, 3))
    >>> y.round(3)
    array([[-1., -1., -1.],
           [ 1.,  1.,  1.]])
    >>> norm.mean.round(3)
    array([0.15, 0.25, 0.35])
    """

    scale: Any  # [n]
    bias: Any  # [n]
    mean: Any  # [n]
    variance: Any  # [n]
    momentum: float = static(default=0.9)
    epsilon: float = static(default=1e-5)

    @classmethod
    def init(cls, n: int, *, momentum: float = 0.9, epsilon: float = 1e-5, dtype: DTypeLike = np.float32) -> BatchNorm:
        """`momentum` is the weight of the past in the running statistics."""
        return cls(np.ones(n, dtype), np.zeros(n, dtype), np.zeros(n, dtype), np.ones(n, dtype), momentum, epsilon)

    def _apply(self, x, mean, variance):
        return (x - mean) / np.sqrt(variance + self.epsilon) * self.scale + self.bias

    def __call__(self, x: Any) -> NDArray[Any]:
        check_last_axis("BatchNorm", x, np.shape(self.scale)[0])
        return self._apply(x, stop_gradient(self.mean), stop_gradient(self.variance))

    def train(self, x: Any) -> tuple[NDArray[Any], BatchNorm]:
        """Normalize by the batch. Returns ``(y, updated layer)``."""
        check_last_axis("BatchNorm", x, np.shape(self.scale)[0])
        axes = tuple(range(np.ndim(x) - 1))
        mean = np.mean(x, axis=axes)
        variance = np.mean((x - mean) ** 2, axis=axes)
        n = x.size // np.shape(x)[-1]
        unbiased = variance * (n / max(n - 1, 1))

        def blend(old, new):
            return self.momentum * stop_gradient(old) + (1 - self.momentum) * stop_gradient(new)

        updated = replace(self, mean=blend(self.mean, mean), variance=blend(self.variance, unbiased))
        return self._apply(x, mean, variance), updated
