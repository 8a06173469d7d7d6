"""Normalization layers; channels are the last axis, batches are leading axes."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import check
from ..precision import at_least_float32, in_dtype_of
from ..transforms.checkpoint import stop_gradient
from .layer import layer
from .layers import Cell, static

__all__ = ["BatchNorm", "GroupNorm", "LayerNorm", "RMSNorm"]


@layer
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
        check.shape(x, (..., np.shape(self.scale)[0]), "LayerNorm: the input")
        y = at_least_float32(x)
        centered = y - np.mean(y, axis=-1, keepdims=True)
        variance = np.mean(centered**2, axis=-1, keepdims=True)
        return in_dtype_of(centered / np.sqrt(variance + self.epsilon) * self.scale + self.bias, x)


@layer
@dataclass(frozen=True)
class BatchNorm:
    """Normalizes each channel (last axis) over all other axes (Ioffe & Szegedy 2015).

    ``layer(x)`` uses the running statistics; in training mode (`apply_training`) it uses those of the batch and updates
    the running ones. ``layer.train(x)`` does so by itself and returns ``(y, layer)``. Running statistics get no
    gradient.

    Parameters
    ----------
    scale, bias : (channels,) array
    mean, variance : (channels,) array
        Running statistics.
    momentum : float, default 0.9
        Weight of the running statistics in an update.
    epsilon : float, default 1e-5
        Added to the variance.
    seen : optional
        Set by `training`.

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
    seen: Any = static(default=None, repr=False)  # in training mode: the layer after this pass

    statistics = ("mean", "variance")

    @classmethod
    def init(cls, n: int, *, momentum: float = 0.9, epsilon: float = 1e-5, dtype: DTypeLike = np.float32) -> BatchNorm:
        """`momentum` is the weight of the past in the running statistics."""
        return cls(np.ones(n, dtype), np.zeros(n, dtype), np.zeros(n, dtype), np.ones(n, dtype), momentum, epsilon)

    def _apply(self, x, mean, variance):
        y = (at_least_float32(x) - mean) / np.sqrt(variance + self.epsilon) * self.scale + self.bias
        return in_dtype_of(y, x)

    def __call__(self, x: Any) -> NDArray[Any]:
        if self.seen is not None:
            y, self.seen.value = (self.seen.value or self).train(x)
            return y
        check.shape(x, (..., np.shape(self.scale)[0]), "BatchNorm: the input")
        return self._apply(x, stop_gradient(self.mean), stop_gradient(self.variance))

    def training(self, _key: Any) -> BatchNorm:
        """The twin that normalizes by the batch."""
        return replace(self, seen=Cell())

    def trained(self) -> BatchNorm:
        """The layer after the pass of its twin; the statistics stay as they are if it was not called."""
        return replace(self.seen.value or self, seen=None)

    def train(self, x: Any) -> tuple[NDArray[Any], BatchNorm]:
        """Normalize by the batch. Returns ``(y, updated layer)``."""
        check.shape(x, (..., np.shape(self.scale)[0]), "BatchNorm: the input")
        axes = tuple(range(np.ndim(x) - 1))
        y = at_least_float32(x)
        mean = np.mean(y, axis=axes)
        variance = np.mean((y - mean) ** 2, axis=axes)
        n = x.size // np.shape(x)[-1]
        unbiased = variance * (n / max(n - 1, 1))

        def blend(old, new):
            return self.momentum * stop_gradient(old) + (1 - self.momentum) * stop_gradient(new)

        updated = replace(self, mean=blend(self.mean, mean), variance=blend(self.variance, unbiased))
        return self._apply(x, mean, variance), updated


@layer
@dataclass(frozen=True)
class RMSNorm:
    """x / sqrt(mean(x²) + epsilon) over the last axis, then scale (Zhang & Sennrich 2019, eq. 4).

    Parameters
    ----------
    scale : (n,) array
    epsilon : float, default 1e-6
        Added to the mean square.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.RMSNorm(np.ones(2))(np.array([1.0, 7.0])).round(3)
    array([0.2, 1.4])
    """

    scale: Any  # [n]
    epsilon: float = static(default=1e-6)

    @classmethod
    def init(cls, n: int, *, epsilon: float = 1e-6, dtype: DTypeLike = np.float32) -> RMSNorm:
        """Ones for `n` features."""
        return cls(np.ones(n, dtype), epsilon)

    def __call__(self, x: Any) -> NDArray[Any]:
        check.shape(x, (..., np.shape(self.scale)[0]), "RMSNorm: the input")
        y = at_least_float32(x)
        return in_dtype_of(y / np.sqrt(np.mean(y**2, axis=-1, keepdims=True) + self.epsilon) * self.scale, x)


@layer
@dataclass(frozen=True)
class GroupNorm:
    """Normalizes groups of channels of each sample over all its positions, then scales and shifts each channel.

    One group normalizes the whole sample; as many groups as channels give instance normalization. The statistics are
    those of the sample alone, so training and evaluation are the same (Wu & He 2018, eq. 1 and 7).

    Parameters
    ----------
    scale, bias : (channels,) array
    groups : int
        Divides the channels.
    epsilon : float, default 1e-5
        Added to the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> norm = nn.GroupNorm.init(4, groups=2, dtype=float)
    >>> norm(np.arange(8.0).reshape(1, 2, 4)).round(2)
    array([[[-1.21, -0.73, -1.21, -0.73],
            [ 0.73,  1.21,  0.73,  1.21]]])
    """

    scale: Any  # [channels]
    bias: Any  # [channels]
    groups: int = static()
    epsilon: float = static(default=1e-5)

    @classmethod
    def init(cls, channels: int, *, groups: int, epsilon: float = 1e-5, dtype: DTypeLike = np.float32) -> GroupNorm:
        """Scale 1 and shift 0."""
        if groups < 1 or channels % groups:
            raise ValueError(f"GroupNorm: groups must divide the channels, got {groups} for {channels}")
        return cls(np.ones(channels, dtype), np.zeros(channels, dtype), groups, epsilon)

    def __call__(self, x: Any) -> NDArray[Any]:
        """`x`: (n, *axes, channels), n samples."""
        check.shape(x, (..., np.shape(self.scale)[0]), "GroupNorm: the input")
        shape = np.shape(x)
        if len(shape) < 2:
            raise ValueError(f"GroupNorm: x must be (n, *axes, channels), got shape {shape}")
        groups = shape[0], math.prod(shape[1:-1]), self.groups, shape[-1] // self.groups
        parts = np.reshape(at_least_float32(x), groups)
        centered = parts - np.mean(parts, axis=(1, 3), keepdims=True)
        variance = np.mean(centered**2, axis=(1, 3), keepdims=True)
        return in_dtype_of(np.reshape(centered / np.sqrt(variance + self.epsilon), shape) * self.scale + self.bias, x)
