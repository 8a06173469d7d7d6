"""Optimizers that use the signs of gradients only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree
from .base import Moments, Rate, _LeafByLeaf

__all__ = ["Lion", "Rprop"]


@dataclass(frozen=True)
class Lion(_LeafByLeaf):
    """Signs of an interpolated momentum, with decoupled weight decay (Chen et al. 2023, algorithm 2).

    Parameters
    ----------
    learning_rate : float or schedule, default 1e-4
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    b1, b2 : float, default 0.9, 0.99
        Share of the momentum in the step, and decay rate of the momentum.
    weight_decay : float, default 0
        Fraction of the parameters that is subtracted in a step, times the learning rate.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.Lion(0.1)
    >>> params = np.array([1.0, -2.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([ 0.9, -1.9])
    """

    learning_rate: Rate = 1e-4
    b1: float = 0.9
    b2: float = 0.99
    weight_decay: float = 0.0

    _real = True

    def _rule(self, p, g, m, rate):
        step = np.sign(self.b1 * m + (1 - self.b1) * g) + self.weight_decay * p
        return p - rate * step, self.b2 * m + (1 - self.b2) * g


@dataclass(frozen=True)
class Rprop(_LeafByLeaf):
    """Resilient propagation: a step size for each entry, from the signs of gradients, for full batches.

    After a change of sign an entry rests for one step (Igel & Hüsken 2003, algorithm 4, iRprop-; the method is that of
    Riedmiller & Braun 1993). The state holds the last gradients (`first`) and the step sizes (`second`) as multiples of
    `learning_rate`.

    Parameters
    ----------
    learning_rate : float or schedule, default 1e-2
        Size of the first step. A schedule multiplies all steps.
    shrink, grow : float, default 0.5, 1.2
        Factors of the step size after a change of sign and after none; ``shrink < 1 < grow``.
    smallest, largest : float, default 1e-4, 5e3
        Limits of the step size, as multiples of `learning_rate`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.Rprop(0.1)
    >>> params = np.array([1.0])
    >>> state = opt.init(params)
    >>> for _ in range(2):
    ...     params, state = opt.step(params, 2 * params, state)
    >>> params.round(6)
    array([0.78])
    """

    learning_rate: Rate = 1e-2
    shrink: float = 0.5
    grow: float = 1.2
    smallest: float = 1e-4
    largest: float = 5e3

    _real = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.shrink < 1 < self.grow:
            raise ValueError(
                f"Rprop: shrink and grow must satisfy 0 < shrink < 1 < grow, got {self.shrink} and {self.grow}"
            )
        if not self.smallest <= 1 <= self.largest:
            raise ValueError(
                f"Rprop: smallest and largest must satisfy smallest <= 1 <= largest, got {self.smallest} "
                f"and {self.largest}"
            )

    def init(self, params: Any) -> Moments:
        """The state before the first step."""
        count, gradients = super().init(params)
        return Moments(count, gradients, tree.map(np.ones_like, gradients))

    def _rule(self, p, g, last, size, rate):
        agreement = g * last
        size = np.where(agreement > 0, size * self.grow, np.where(agreement < 0, size * self.shrink, size))
        size = np.clip(size, self.smallest, self.largest)
        g = np.where(agreement < 0, np.zeros_like(g), g)
        return p - rate * size * np.sign(g), g, size
