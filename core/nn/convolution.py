"""Convolution layers; channels are the last axis, batches are leading axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..graph.trace import bind
from ..ops.convolve_nd import conv_general, conv_input_p, pad_widths, spread
from ..ops.define import as_value
from ..precision import in_dtype_of
from .init import Initializer, he_normal
from .layer import layer
from .layers import static

__all__ = ["Conv", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose", "conv_transpose"]


@dataclass(frozen=True)
class _Windowed:
    """Base of layers that apply `_map` with a weight, which is moved along the axes."""

    weight: Any
    bias: Any = None
    stride: tuple[int, ...] = static(default=(1, 1))
    padding: Any = static(default="same")
    dilation: tuple[int, ...] = static(default=(1, 1))
    groups: int = static(default=1)

    _map: ClassVar[Callable[..., NDArray[Any]]]

    def __call__(self, x: Any) -> NDArray[Any]:
        x = in_dtype_of(x, self.weight)
        y = self._map(
            x, self.weight, stride=self.stride, padding=self.padding, dilation=self.dilation, groups=self.groups
        )
        return y if self.bias is None else y + self.bias


@layer
@dataclass(frozen=True)
class Conv(_Windowed):
    """Convolution over any number of axes (`Conv1d`, `Conv2d`, `Conv3d`); channels are the last axis.

    As many groups as channels in make it depthwise: each channel has windows of its own.

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
    >>> depthwise = Conv2d(random.key(0), 16, 16, window=3, groups=16)
    >>> depthwise.weight.shape
    (3, 3, 1, 16)
    """

    _map = staticmethod(conv_general)

    @classmethod
    def init(
        cls,
        key: Any,
        rank: int,
        channels_in: int,
        channels_out: int,
        window: int | tuple[int, ...],
        *,
        stride: int | tuple[int, ...] = 1,
        padding: Any = "same",
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        initializer: Initializer = he_normal,
        dtype: DTypeLike = np.float32,
    ) -> Conv:
        """Fresh weights; numbers stand for the same value along each of the `rank` axes."""
        where = f"Conv{rank}d"
        if channels_in % groups or channels_out % groups:
            raise ValueError(
                f"{where}: groups must divide the channels, got {groups} for {channels_in} in and {channels_out} out"
            )
        weight = initializer(key, (*spread(where, "window", window, rank), channels_in // groups, channels_out), dtype)
        return cls(
            weight,
            np.zeros(channels_out, dtype) if bias else None,
            spread(where, "stride", stride, rank),
            padding,
            spread(where, "dilation", dilation, rank),
            groups,
        )


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


def Conv3d(key: Any, channels_in: int, channels_out: int, window: int | tuple[int, int, int], **options: Any) -> Conv:
    """A `Conv` over three axes: inputs [..., depth, height, width, channels_in]. Options as for `Conv.init`.

    Parameters
    ----------
    key : key
        Source of the random weights; see `random.key`.
    channels_in, channels_out : int
    window : int or (int, int, int)
        Extent of the kernel along the three axes.
    **options
        Passed to `Conv.init`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> nn.Conv3d(random.key(0), 1, 4, 3)(np.ones((2, 8, 8, 8, 1), np.float32)).shape
    (2, 8, 8, 8, 4)
    """
    return Conv.init(key, 3, channels_in, channels_out, window, **options)


def conv_transpose(
    x: Any, kernel: Any, *, stride: Any = 1, padding: Any = "same", dilation: Any = 1, groups: int = 1
) -> NDArray[Any]:
    """Transposed convolution: the linear map whose transpose is `conv_general` with the same kernel.

    Parameters
    ----------
    x : (n, *axes, channels_in) array
    kernel : (*window, channels_out / groups, channels_in) array
        Not reversed: position i of `x` adds ``kernel[t]`` to position ``i stride + t dilation - low`` of the result.
    stride, dilation : int or tuple of int
        Positions of the result from one position of `x` to the next, and between elements of the window.
    padding : "same", "valid", int, or (low, high) for each axis
        Positions cut off the result: with "same", ``length stride`` of them remain; with "valid" (0) all
        ``(length - 1) stride + dilation (window - 1) + 1``.
    groups : int
        Number of groups of channels.

    Returns
    -------
    (n, *positions, channels_out) array

    Raises
    ------
    ValueError
        If shapes, groups, strides or paddings do not fit together.

    Notes
    -----
    Dumoulin & Visin 2016, "A guide to convolution arithmetic for deep learning", section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.conv_transpose(np.array([1.0, 2.0]).reshape(1, 2, 1), np.ones((2, 1, 1)), stride=2)[0, :, 0]
    array([1., 1., 2., 2.])
    """
    where = "conv_transpose"
    x, kernel = as_value(x), as_value(kernel)
    rank = np.ndim(kernel) - 2
    if rank < 1 or np.ndim(x) != rank + 2 or np.shape(x)[-1] != np.shape(kernel)[-1]:
        raise ValueError(
            f"{where}: x must be (n, *axes, channels in) and the kernel (*window, channels out, channels "
            f"in), got shapes {np.shape(x)} and {np.shape(kernel)}"
        )
    if groups < 1 or np.shape(kernel)[-1] % groups:
        raise ValueError(f"{where}: groups must divide the channels in, got {groups} for {np.shape(kernel)[-1]}")
    steps, gaps = spread(where, "stride", stride, rank), spread(where, "dilation", dilation, rank)
    window, axes = np.shape(kernel)[:-2], np.shape(x)[1:-1]
    if padding == "same":
        lengths = [n * s for n, s in zip(axes, steps, strict=True)]
        widths = pad_widths(where, padding, tuple(lengths), window, steps, gaps)
    else:
        widths = pad_widths(where, padding, axes, window, steps, gaps)
        lengths = [
            (n - 1) * s + d * (k - 1) + 1 - sum(cut)
            for n, s, d, k, cut in zip(axes, steps, gaps, window, widths, strict=True)
        ]
        if min(lengths) < 1:
            raise ValueError(f"{where}: padding must leave a position, got {padding} for shape {np.shape(x)}")
    dtype = np.result_type(x, kernel)
    dtype = np.dtype(float) if dtype.kind in "iub" else dtype
    x, kernel = [v if np.result_type(v) == dtype else np.astype(v, dtype) for v in (x, kernel)]
    shape = (np.shape(x)[0], *lengths, np.shape(kernel)[-2] * groups)
    return bind(conv_input_p, x, kernel, shape=shape, stride=steps, padding=widths, dilation=gaps, groups=int(groups))


@layer
@dataclass(frozen=True)
class ConvTranspose(_Windowed):
    """Transposed convolution over any number of axes, which multiplies lengths by the stride; see `conv_transpose`.

    Attributes
    ----------
    weight : (*window, channels_out / groups, channels_in) array
    bias : (channels_out,) array, or None
    stride, dilation : tuple of int, one per window axis
    padding : "same", "valid" or ((low, high), ...)
        Positions cut off the result.
    groups : int

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> layer = nn.ConvTranspose.init(random.key(0), 2, 16, 8, window=2, stride=2)
    >>> layer(np.zeros((4, 7, 7, 16), np.float32)).shape
    (4, 14, 14, 8)
    """

    _map = staticmethod(conv_transpose)

    @classmethod
    def init(
        cls,
        key: Any,
        rank: int,
        channels_in: int,
        channels_out: int,
        window: int | tuple[int, ...],
        *,
        stride: int | tuple[int, ...] = 1,
        padding: Any = "same",
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        initializer: Initializer = he_normal,
        dtype: DTypeLike = np.float32,
    ) -> ConvTranspose:
        """Fresh weights; numbers stand for the same value along each of the `rank` axes."""
        if channels_in % groups or channels_out % groups:
            raise ValueError(
                f"ConvTranspose: groups must divide the channels, got {groups} for {channels_in} in and "
                f"{channels_out} out"
            )
        steps = spread("ConvTranspose", "stride", stride, rank)
        shape = (*spread("ConvTranspose", "window", window, rank), channels_in // groups, channels_out)
        weight = np.reshape(initializer(key, shape, dtype), (*shape[:rank], channels_out // groups, channels_in))
        return cls(
            weight,
            np.zeros(channels_out, dtype) if bias else None,
            steps,
            padding,
            spread("ConvTranspose", "dilation", dilation, rank),
            groups,
        )
