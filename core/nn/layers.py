"""Feed-forward layers.

A layer is a frozen dataclass of arrays: a tree, so every transform and optimizer takes it whole.

``Layer.init(key, ...)`` makes one with fresh weights, ``layer(x)`` applies it. Batches are leading axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import random
from ..ops.convolve_nd import conv_general
from ..short_repr import short_repr
from ..transforms.checkpoint import stop_gradient
from .init import Initializer, he_normal, lecun_normal

__all__ = ["BatchNorm", "Conv", "Conv1d", "Conv2d", "Embedding", "LayerNorm", "Linear", "MLP", "check_last_axis",
           "static"]


def static(**kwargs: Any) -> Any:
    """A dataclass field that belongs to the structure of the tree, not to its leaves.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from triskele.core import nn, tree
    >>> @dataclass(frozen=True)
    ... class Scale:
    ...     factor: np.ndarray
    ...     power: int = nn.static(default=2)
    ...     def __call__(self, x):
    ...         return self.factor * x**self.power
    >>> tree.leaves(Scale(np.ones(2)))
    [array([1., 1.])]
    """
    return field(metadata={"static": True}, **kwargs)


def check_last_axis(where: str, x: Any, n: int) -> None:
    """Raise ValueError unless the last axis of `x` has `n` entries."""
    if np.ndim(x) == 0 or np.shape(x)[-1] != n:
        raise ValueError(f"{where}: the last axis of the input must have {n} entries, got shape {np.shape(x)}")


@short_repr
@dataclass(frozen=True)
class Linear:
    """``x @ weight + bias``.

    Attributes
    ----------
    weight : (n_in, n_out) array
    bias : (n_out,) array, or None

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.core.nn import Linear
    >>> layer = Linear.init(random.key(0), 3, 2)
    >>> layer(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """

    weight: Any  # [n_in, n_out]
    bias: Any = None  # [n_out]

    @classmethod
    def init(cls, key: Any, n_in: int, n_out: int, *, bias: bool = True, initializer: Initializer = lecun_normal,
             dtype: DTypeLike = np.float32) -> Linear:
        """Fresh weights; the bias starts at zero."""
        return cls(initializer(key, (n_in, n_out), dtype), np.zeros(n_out, dtype) if bias else None)

    def __call__(self, x: Any) -> NDArray[Any]:
        check_last_axis("Linear", x, np.shape(self.weight)[0])
        y = x @ self.weight
        return y if self.bias is None else y + self.bias


@short_repr
@dataclass(frozen=True)
class MLP:
    """Linear layers with an activation between them.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.core.nn import MLP
    >>> net = MLP.init(random.key(0), [2, 16, 1], activation=np.tanh)
    >>> net(np.zeros(2, np.float32)).shape
    (1,)
    """

    layers: tuple[Linear, ...]
    activation: Callable[..., Any] = static(default=np.tanh)

    @classmethod
    def init(cls, key: Any, sizes: Sequence[int], *, activation: Callable[..., Any] = np.tanh,
             initializer: Initializer = lecun_normal, dtype: DTypeLike = np.float32) -> MLP:
        """`sizes` are the widths from input to output."""
        if len(sizes) < 2:
            raise ValueError(f"MLP: sizes must name at least input and output width, got {sizes}")
        keys = random.split(key, len(sizes) - 1)
        layers = [
            Linear.init(k, a, b, initializer=initializer,
                        dtype=dtype) for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]
        return cls(tuple(layers), activation)

    def __call__(self, x: Any) -> NDArray[Any]:
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


@short_repr
@dataclass(frozen=True)
class Conv:
    """Convolution over one (`Conv1d`) or two (`Conv2d`) axes; channels are the last axis.

    Attributes
    ----------
    weight : (*window, channels_in / groups, channels_out) array
    bias : (channels_out,) array, or None
    stride, dilation : tuple of int, one per window axis
    padding : "same", "valid" or ((low, high), ...)
    groups : int

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.core.nn import Conv2d
    >>> layer = Conv2d(random.key(0), 1, 16, window=3)
    >>> layer(np.zeros((8, 28, 28, 1), np.float32)).shape
    (8, 28, 28, 16)
    """

    weight: Any
    bias: Any = None
    stride: tuple[int, ...] = static(default=(1, 1))
    padding: Any = static(default="same")
    dilation: tuple[int, ...] = static(default=(1, 1))
    groups: int = static(default=1)

    @classmethod
    def init(cls, key: Any, rank: int, channels_in: int, channels_out: int, window: int | tuple[int, ...], *,
             stride: int | tuple[int, ...] = 1,
             padding: Any = "same", dilation: int | tuple[int, ...] = 1, groups: int = 1, bias: bool = True,
             initializer: Initializer = he_normal, dtype: DTypeLike = np.float32) -> Conv:
        """Fresh weights; numbers stand for the same value along each of the `rank` axes."""

        def spread(what, v):
            v = (v,) * rank if isinstance(v, int) else tuple(v)
            if len(v) != rank:
                raise ValueError(f"Conv{rank}d: {what} must have {rank} entries, got {v}")
            return v

        if channels_in % groups or channels_out % groups:
            raise ValueError(f"Conv{rank}d: groups must divide the channels, got {groups} for {channels_in} in and "
                             f"{channels_out} out")
        weight = initializer(key, (*spread("window", window), channels_in // groups, channels_out), dtype)
        return cls(weight, np.zeros(channels_out, dtype) if bias else None, spread("stride", stride), padding,
                   spread("dilation", dilation), groups)

    def __call__(self, x: Any) -> NDArray[Any]:
        y = conv_general(x, self.weight, stride=self.stride, padding=self.padding, dilation=self.dilation,
                         groups=self.groups)
        return y if self.bias is None else y + self.bias


def Conv1d(key: Any, channels_in: int, channels_out: int, window: int, **options: Any) -> Conv:
    """A `Conv` over one axis: inputs [..., length, channels_in]. Options as for `Conv.init`.

    Parameters
    ----------
    key : key
        Source of the random weights; see `random.key`.
    channels_in, channels_out : int
    window : int
        Extent of the kernel.
    **options
        Passed to `Conv.init`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> nn.Conv1d(random.key(0), 3, 8, 5)(np.ones((2, 20, 3), np.float32)).shape
    (2, 20, 8)
    """
    return Conv.init(key, 1, channels_in, channels_out, window, **options)


def Conv2d(key: Any, channels_in: int, channels_out: int, window: int | tuple[int, int], **options: Any) -> Conv:
    """A `Conv` over two axes: inputs [..., height, width, channels_in]. Options as for `Conv.init`.

    Parameters
    ----------
    key : key
        Source of the random weights; see `random.key`.
    channels_in, channels_out : int
    window : int or (int, int)
        Extent of the kernel along both axes.
    **options
        Passed to `Conv.init`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> nn.Conv2d(random.key(0), 1, 8, 3)(np.ones((2, 28, 28, 1), np.float32)).shape
    (2, 28, 28, 8)
    """
    return Conv.init(key, 2, channels_in, channels_out, window, **options)


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


@short_repr
@dataclass(frozen=True)
class Embedding:
    """A row of `weight` for each index.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.core.nn import Embedding
    >>> Embedding.init(random.key(0), 10, 4)(np.array([[1, 2], [3, 4]])).shape
    (2, 2, 4)
    """

    weight: Any  # [n_entries, n_features]

    @classmethod
    def init(cls, key: Any, n_entries: int, n_features: int, *, dtype: DTypeLike = np.float32) -> Embedding:
        """Standard normal entries."""
        return cls(random.normal(key, (n_entries, n_features), dtype=dtype))

    def __call__(self, indices: Any) -> NDArray[Any]:
        return self.weight[indices]
