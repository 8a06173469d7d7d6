"""Fully convolutional networks (Long et al. 2015): segmentation with the convolutions of VGG-16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import random
from ..nn import Conv, Conv2d, ConvTranspose, Sequential, max_pool, relu
from ..show.short_repr import short_repr

__all__ = ["FCN"]

_STAGES = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))  # of VGG-16: channels in units of the width, and convolutions


@short_repr
@dataclass(frozen=True)
class FCN:
    """FCN-8s: scores at three resolutions, the coarser ones enlarged and added (Long et al. 2015, section 4.2).

    Attributes
    ----------
    stages : tuple of Sequential
        The convolutions of VGG-16 between one halving of the resolution and the next.
    classifier : Sequential
        VGG's dense layers as convolutions.
    scores : tuple of Conv
        1 x 1 convolutions to the classes, after the halvings by 8, 16 and 32.
    enlarge : tuple of ConvTranspose
        By 2, 2 and 8; they begin as linear interpolation.

    Notes
    -----
    Other than in the paper, all convolutions are padded to keep the resolution; nothing is cut off.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import models, random
    >>> net = models.FCN.init(random.key(0), 3, 21, width=4, hidden=16)
    >>> net(np.zeros((1, 64, 32, 3), np.float32)).shape
    (1, 64, 32, 21)
    """

    stages: tuple[Sequential, ...]
    classifier: Sequential
    scores: tuple[Conv, ...]
    enlarge: tuple[ConvTranspose, ...]

    @classmethod
    def init(
        cls,
        key: Any,
        channels_in: int,
        classes: int,
        *,
        width: int = 64,
        hidden: int = 4096,
        dtype: DTypeLike = np.float32,
    ) -> FCN:
        """Fresh weights.

        Parameters
        ----------
        key : key
            Source of the random weights; see `random.key`.
        channels_in, classes : int
        width : int, default 64
            Channels of the first convolutions.
        hidden : int, default 4096
            Channels of the classifier.
        dtype : dtype, default float32

        Returns
        -------
        FCN
        """
        keys = iter(random.split(key, 18))
        stages, n = [], channels_in
        for factor, count in _STAGES:
            parts: list[Any] = []
            for _ in range(count):
                parts += [Conv2d(next(keys), n, factor * width, 3, dtype=dtype), relu]
                n = factor * width
            stages.append(Sequential(tuple(parts)))
        classifier = Sequential(
            (
                Conv2d(next(keys), n, hidden, 7, dtype=dtype),
                relu,
                Conv2d(next(keys), hidden, hidden, 1, dtype=dtype),
                relu,
            )
        )
        scores = [Conv2d(next(keys), c, classes, 1, dtype=dtype) for c in (4 * width, 8 * width, hidden)]
        enlarge = [_interpolation(classes, factor, dtype) for factor in (2, 2, 8)]
        return cls(tuple(stages), classifier, tuple(scores), tuple(enlarge))

    def __call__(self, x: Any) -> NDArray[Any]:
        """Logits (n, height, width, classes) of images (n, height, width, channels_in); 32 divides the axes."""
        if any(n % 32 for n in np.shape(x)[1:-1]):
            raise ValueError(f"FCN: 32 must divide the height and the width of the images, got shape {np.shape(x)}")
        halved = []
        for stage in self.stages:
            x = max_pool(stage(x), 2)
            halved.append(x)
        by_8, by_16, by_32 = (
            score(x) for score, x in zip(self.scores, (*halved[2:4], self.classifier(x)), strict=True)
        )
        twice, again, eightfold = self.enlarge
        return eightfold(again(twice(by_32) + by_16) + by_8)


def _interpolation(classes: int, factor: int, dtype: DTypeLike) -> ConvTranspose:
    """Linear interpolation to `factor` times the size, each class by itself."""
    one = 1 - np.abs((np.arange(2 * factor) + 0.5) / factor - 1)
    weight = np.zeros((2 * factor, 2 * factor, classes, classes), dtype)
    weight[..., range(classes), range(classes)] = np.outer(one, one)[..., None]
    return ConvTranspose(weight, None, (factor, factor))
