"""U-Net (Ronneberger et al. 2015): segmentation of images and volumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import random
from ..nn import BatchNorm, Conv, ConvTranspose, Sequential, max_pool, relu
from ..show.short_repr import short_repr

__all__ = ["UNet"]


@short_repr
@dataclass(frozen=True)
class UNet:
    """An encoder that halves the resolution, a decoder that doubles it, and connections between equal resolutions.

    Attributes
    ----------
    encoder : tuple of Sequential
        Two convolutions, each with normalization and activation, for each resolution from the finest to the coarsest.
    upward : tuple of ConvTranspose
        Doubling of the resolution, from the coarsest on.
    decoder : tuple of Sequential
        Two convolutions of the doubled result next to that of the encoder.
    head : Conv
        1 x 1 convolution to the classes.

    Notes
    -----
    Other than in the paper, convolutions are padded, so that the result has the size of the input, and normalized.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import models, random
    >>> net = models.UNet.init(random.key(0), 1, 2, width=8, depth=2)
    >>> net(np.zeros((1, 32, 48, 1), np.float32)).shape
    (1, 32, 48, 2)
    """

    encoder: tuple[Sequential, ...]
    upward: tuple[ConvTranspose, ...]
    decoder: tuple[Sequential, ...]
    head: Conv

    @classmethod
    def init(
        cls,
        key: Any,
        channels_in: int,
        classes: int,
        *,
        width: int = 64,
        depth: int = 4,
        rank: int = 2,
        dtype: DTypeLike = np.float32,
    ) -> UNet:
        """Fresh weights.

        Parameters
        ----------
        key : key
            Source of the random weights; see `random.key`.
        channels_in, classes : int
        width : int, default 64
            Channels at the finest resolution; they double with each halving.
        depth : int, default 4
            Number of halvings.
        rank : int, default 2
            Axes of an image: 2, or 3 for volumes.
        dtype : dtype, default float32

        Returns
        -------
        UNet
        """
        if depth < 1:
            raise ValueError(f"UNet: depth must be at least 1, got {depth}")
        keys = iter(random.split(key, 5 * depth + 3))

        def double(n_in, n_out):
            parts: list[Any] = []
            for n in (n_in, n_out):
                parts += [
                    Conv.init(next(keys), rank, n, n_out, 3, bias=False, dtype=dtype),
                    BatchNorm.init(n_out, dtype=dtype),
                    relu,
                ]
            return Sequential(tuple(parts))

        widths = [width << k for k in range(depth + 1)]
        encoder = [double(a, b) for a, b in zip([channels_in, *widths], widths, strict=False)]
        steps = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        upward = [ConvTranspose.init(next(keys), rank, a, b, 2, stride=2, dtype=dtype) for a, b in steps]
        decoder = [double(a, b) for a, b in steps]
        return cls(
            tuple(encoder), tuple(upward), tuple(decoder), Conv.init(next(keys), rank, width, classes, 1, dtype=dtype)
        )

    def __call__(self, x: Any) -> NDArray[Any]:
        """Logits (n, *axes, classes) of images (n, *axes, channels_in), whose axes 2**depth divides."""
        step = 1 << len(self.upward)
        if any(n % step for n in np.shape(x)[1:-1]):
            raise ValueError(f"UNet: {step} must divide the axes of the images, got shape {np.shape(x)}")
        skipped = []
        for k, layer in enumerate(self.encoder):
            x = layer(x if k == 0 else max_pool(x, 2))
            skipped.append(x)
        for up, layer, finer in zip(self.upward, self.decoder, skipped[-2::-1], strict=True):
            x = layer(np.concatenate([finer, up(x)], axis=-1))
        return self.head(x)
