"""Dropout: elements that are zeroed at random in training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import random
from ..show.short_repr import short_repr
from .layers import Cell, static

__all__ = ["Dropout"]


@short_repr
@dataclass(frozen=True)
class Dropout:
    """Sets entries to zero with probability `rate` in training and scales the others by 1 / (1 - rate) (Srivastava et
    al. 2014, section 10).

    Outside of training it returns its input. Each call in one forward pass draws another mask.

    Parameters
    ----------
    rate : float
        Probability of a zero, at least 0 and below 1.
    key, calls : optional
        Set by `training`.

    Raises
    ------
    ValueError
        If the rate is not in [0, 1).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> layer = nn.Dropout(0.25)
    >>> layer(np.ones(4))
    array([1., 1., 1., 1.])
    >>> y, _ = nn.apply_training(layer, random.key(0), np.ones(10_000))
    >>> round(float(y.mean()), 1), sorted({round(float(v), 3) for v in y})
    (1.0, [0.0, 1.333])
    """

    rate: float = static(default=0.5)
    key: Any = None
    calls: Any = static(default=None, repr=False)

    def __post_init__(self):
        if not 0 <= self.rate < 1:
            raise ValueError(f"Dropout: rate must be at least 0 and below 1, got {self.rate}")

    def training(self, key: Any) -> Dropout:
        """The twin that draws masks."""
        return replace(self, key=key, calls=Cell(0))

    def __call__(self, x: Any) -> NDArray[Any]:
        if self.key is None or self.rate == 0:
            return x
        self.calls.value += 1
        drawn = random.bits(random.fold_in(self.key, self.calls.value), np.shape(x))
        dropped = drawn < np.uint32(min(round(self.rate * 2**32), 2**32 - 1))
        return np.where(dropped, 0, x / np.asarray(1 - self.rate, np.result_type(x)))
