"""Optimizers for large batches, whose rate of each array follows the ratio of norms of parameters and update."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .adam import _Adaptive, _moments
from .base import Rate, _LeafByLeaf, norm

__all__ = ["LAMB", "LARS"]


@dataclass(frozen=True)
class LARS(_LeafByLeaf):
    """Momentum with a rate for each array (You, Gitman & Ginsburg 2017, algorithm 1), for large batches.

    The rate of an array p with gradient g is ``learning_rate * trust * norm(p) / (norm(g) + l2 * norm(p))``, and
    ``learning_rate`` itself where p or g is 0. Biases and normalizations are usually left to `SGD`: see `Groups`.

    Parameters
    ----------
    learning_rate : float or schedule
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    momentum : float, default 0.9
    trust : float, default 1e-3
        The trust coefficient, eta of the paper.
    l2 : float, default 0
        Strength of the penalty ``l2/2 * sum(params**2)``, whose gradient is added to `grads`; beta of the paper.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.LARS(1.0, trust=0.1)
    >>> params = np.array([1.0, 0.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.9, 0. ])
    """

    learning_rate: Rate
    momentum: float = 0.9
    trust: float = 1e-3
    l2: float = 0.0

    def _rule(self, p, g, v, rate):
        ratio = _ratio(self.trust * norm(p), norm(g), self.l2 * norm(p))
        v = self.momentum * v + rate * ratio * (g + self.l2 * p)
        return p - v, v


def _ratio(a, b, more=0.0):
    """``a / (b + more)``; 1 where a or b is 0."""
    both = (a > 0) & (b > 0)
    one = np.ones_like(a)
    return np.where(both, a, one) / np.where(both, b + more, one)


@dataclass(frozen=True)
class LAMB(_Adaptive):
    """Steps of `AdamW` scaled to the norm of each array of parameters (You et al. 2020, algorithm 2, with phi(x) = x).

    Arrays whose norm or step is 0 are not scaled. Biases and normalizations are usually left to `Adam`: see `Groups`.

    Parameters
    ----------
    learning_rate : float or schedule, default 1e-3
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    b1, b2 : float, default 0.9, 0.999
        Decay rates of the first and the second moment.
    epsilon : float, default 1e-6
        Added to the root of the second moment.
    weight_decay : float, default 0
        Fraction of the parameters that is added to Adam's step before its norm is taken.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.LAMB(0.1)
    >>> params = np.array([3.0, 4.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([2.646447, 3.646447])
    """

    epsilon: float = 1e-6
    weight_decay: float = 0.0

    def _numbers(self, count):
        return [*super()._numbers(count), *self._corrections(self.b1, count)]

    def _rule(self, p, g, m, v, rate, scale, root):
        m, v = _moments(self.b1, self.b2, g, m, v)
        step = scale * m / (np.sqrt(v) * root + self.epsilon) + self.weight_decay * p
        return p - rate * _ratio(norm(p), norm(step)) * step, m, v
