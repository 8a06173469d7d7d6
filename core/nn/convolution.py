"""Convolution layers; channels are the last axis, batches are leading axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..ops.convolve_nd import conv_general
from ..short_repr import short_repr
from .init import Initializer, he_normal
from .layers import static

__all__ = ["Conv", "Conv1d", "Conv2d"]


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
