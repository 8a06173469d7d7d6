"""Residual networks (He et al. 2016), for images of CIFAR's and of ImageNet's size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import check, random
from ..nn import (
    BatchNorm,
    Conv2d,
    Linear,
    Residual,
    Sequential,
    global_mean_pool,
    max_pool,
    relu,
)
from ..show.short_repr import short_repr

__all__ = ["ResNet"]


class _Plan(NamedTuple):
    """Sizes of one network: `blocks` in each stage, whose channels double from stage to stage."""

    blocks: tuple[int, ...]
    channels: int
    classes: int
    bottleneck: bool = False
    large: bool = False  # images of ImageNet's size: a 7 x 7 convolution with stride 2, and pooling
    shortcut: str = "normalized"  # where the shape changes: "normalized" or "plain" projection, or "identity"
    bias: bool = False
    padding: Any = 1
    epsilon: float = 1e-5
    momentum: float = 0.9


_PLANS = {
    8: _Plan((1, 1, 1), 16, 10, shortcut="plain", bias=True, padding="same", epsilon=1e-3, momentum=0.99),
    20: _Plan((3, 3, 3), 16, 10, shortcut="identity"),
    18: _Plan((2, 2, 2, 2), 64, 1000, large=True),
    50: _Plan((3, 4, 6, 3), 64, 1000, bottleneck=True, large=True),
}


@short_repr
@dataclass(frozen=True)
class ResNet:
    """Residual network: a convolution, stages of residual blocks, the mean over positions, a linear layer.

    Attributes
    ----------
    stem : Sequential
        First convolution, normalization and activation; with pooling for images of ImageNet's size.
    blocks : tuple of Sequential
        A `Residual` and an activation each.
    head : Linear

    Notes
    -----
    Depths 8 and 20 are for images of 32 x 32 pixels, 18 and 50 for 224 x 224. Depth 8 is the reference network of
    MLPerf Tiny's image classification (Banbury et al. 2021): biases in the convolutions, projections without
    normalization. Depth 20 has shortcuts without parameters (He et al. 2016, option A), 18 and 50 normalized
    projections (option B); 50 has bottlenecks, with the stride in their 3 x 3 convolution.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import models, random
    >>> net = models.ResNet.init(random.key(0), 8)
    >>> net(np.zeros((2, 32, 32, 3), np.float32)).shape
    (2, 10)
    """

    stem: Sequential
    blocks: tuple[Sequential, ...]
    head: Linear

    @classmethod
    def init(
        cls, key: Any, depth: int, *, classes: int | None = None, channels_in: int = 3, dtype: DTypeLike = np.float32
    ) -> ResNet:
        """Fresh weights.

        Parameters
        ----------
        key : key
            Source of the random weights; see `random.key`.
        depth : {8, 18, 20, 50}
        classes : int, optional
            10 by default for depths 8 and 20, 1000 for 18 and 50.
        channels_in : int, default 3
        dtype : dtype, default float32

        Returns
        -------
        ResNet

        Raises
        ------
        ValueError
            For another depth.
        """
        plan = _PLANS[check.choice(depth, sorted(_PLANS), "ResNet: depth")]
        keys = iter(random.split(key, 4 * sum(plan.blocks) + 2))
        make = _Maker(plan, keys, dtype)
        if plan.large:
            stem = [
                *make.convolution(channels_in, plan.channels, 7, 2, 3),
                relu,
                partial(max_pool, window=3, stride=2, padding=1),
            ]
        else:
            stem = [*make.convolution(channels_in, plan.channels, 3, 1, plan.padding), relu]
        blocks, n_in = [], plan.channels
        for stage, count in enumerate(plan.blocks):
            n_out = plan.channels << stage
            for k in range(count):
                blocks.append(make.block(n_in, n_out, 2 if stage and not k else 1))
                n_in = 4 * n_out if plan.bottleneck else n_out
        head = Linear.init(next(keys), n_in, plan.classes if classes is None else classes, dtype=dtype)
        return cls(Sequential(tuple(stem)), tuple(blocks), head)

    def __call__(self, x: Any) -> NDArray[Any]:
        """Logits (n, classes) of images (n, height, width, channels_in)."""
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(global_mean_pool(x))


class _Maker:
    """Makes the parts of one network."""

    def __init__(self, plan: _Plan, keys: Iterator[Any], dtype: DTypeLike):
        self.plan, self.keys, self.dtype = plan, keys, dtype

    def convolution(self, n_in: int, n_out: int, window: int, stride: int, padding: Any) -> list[Any]:
        """A convolution and a normalization."""
        plan = self.plan
        return [
            Conv2d(
                next(self.keys), n_in, n_out, window, stride=stride, padding=padding, bias=plan.bias, dtype=self.dtype
            ),
            BatchNorm.init(n_out, momentum=plan.momentum, epsilon=plan.epsilon, dtype=self.dtype),
        ]

    def block(self, n_in: int, n_out: int, stride: int) -> Sequential:
        same = self.plan.padding
        if self.plan.bottleneck:
            body = [
                *self.convolution(n_in, n_out, 1, 1, 0),
                relu,
                *self.convolution(n_out, n_out, 3, stride, same),
                relu,
                *self.convolution(n_out, 4 * n_out, 1, 1, 0),
            ]
            n_out *= 4
        else:
            body = [*self.convolution(n_in, n_out, 3, stride, same), relu, *self.convolution(n_out, n_out, 3, 1, same)]
        shortcut = None if n_in == n_out and stride == 1 else self.shortcut(n_in, n_out, stride)
        return Sequential((Residual(Sequential(tuple(body)), shortcut), relu))

    def shortcut(self, n_in: int, n_out: int, stride: int) -> Any:
        if self.plan.shortcut == "identity":
            return partial(_thinned, stride=stride, channels=n_out)
        projection = self.convolution(n_in, n_out, 1, stride, 0)
        return projection[0] if self.plan.shortcut == "plain" else Sequential(tuple(projection))


def _thinned(x: Any, *, stride: int, channels: int) -> Any:
    """Every `stride`-th position, with channels of zeros on both sides."""
    missing = channels - np.shape(x)[-1]
    return np.pad(x[:, ::stride, ::stride], ((0, 0),) * 3 + ((missing // 2, missing - missing // 2),))
