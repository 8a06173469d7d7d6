"""The family of Adagrad: steps divided by sums or running means of squared gradients, and proximal forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import check, tree
from .base import Moments, Momentum, Rate, _LeafByLeaf, given, squared, zeros

__all__ = ["Adadelta", "Adagrad", "FTRL", "ProximalAdagrad", "RMSprop"]


class _Sums(_LeafByLeaf):
    """Base of optimizers with a sum of squares that starts at `initial`."""

    initial: float
    _magnitude = True

    def init(self, params: Any) -> Momentum:
        """The state before the first step."""
        count, sums = super().init(params)
        return Momentum(count, tree.map(lambda z: np.full_like(z, self.initial), sums))


@dataclass(frozen=True)
class Adagrad(_Sums):
    """Gradients divided by the root of the sum of their squares (Duchi, Hazan & Singer 2011, figure 1, diagonal).

    Parameters
    ----------
    learning_rate : float or schedule, default 1e-2
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    initial : float, default 0
        Sum of squares before the first step.
    epsilon : float, default 1e-10
        Added to the root of the sum.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.Adagrad(0.1)
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.9])
    """

    learning_rate: Rate = 1e-2
    initial: float = 0.0
    epsilon: float = 1e-10

    def _rule(self, p, g, s, rate):
        s = s + squared(g)
        return p - rate * g / (np.sqrt(s) + self.epsilon), s


@dataclass(frozen=True)
class ProximalAdagrad(_Sums):
    """`Adagrad` whose every step ends with the proximal map of the penalties (Duchi & Singer 2009, eqs. 2, 3 and 19).

    The penalties are ``l1 * sum(abs(params)) + l2/2 * sum(params**2)``. With `l1`, parameters become exactly 0. The
    step of a parameter is ``learning_rate`` over the root of its sum of squared gradients, as in `Adagrad`.

    Parameters
    ----------
    learning_rate : float or schedule
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    l1, l2 : float, default 0
        Strengths of the penalties.
    initial : float, default 0.1
        Sum of squares before the first step, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.ProximalAdagrad(0.1, l1=1.0)
    >>> params = np.array([1.0, 0.01])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.851841, 0.      ])
    """

    learning_rate: Rate
    l1: float = 0.0
    l2: float = 0.0
    initial: float = 0.1

    _real = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check.positive(self.initial, "ProximalAdagrad: initial")

    def _rule(self, p, g, s, rate):
        s = s + squared(g)
        rate = rate / np.sqrt(s)
        return _shrink(p - rate * g, rate * self.l1) / (1 + rate * self.l2), s


def _shrink(x, by):
    """Soft thresholding: the proximal map of ``by * abs(x)``."""
    return np.sign(x) * np.maximum(np.abs(x) - by, 0)


@dataclass(frozen=True)
class FTRL(_LeafByLeaf):
    """Follow the regularized leader, proximal and per coordinate (McMahan et al. 2013, algorithm 1), for sparse models.

    The penalties are ``l1 * sum(abs(params)) + l2/2 * sum(params**2)``. With `l1`, parameters become exactly 0. Without
    penalties this is `Adagrad` with ``epsilon=beta``. The algorithm starts at zeros; other initial parameters are the
    center of its first proximal term. The state holds the subgradient of the penalties (`first`), which replaces the
    algorithm's z = first - params * curvature and stays valid when the rate changes, and the sums of squares
    (`second`).

    Parameters
    ----------
    learning_rate : float or schedule
        The algorithm's alpha: a number, or a function of the number of steps, such as `cosine_decay` returns.
    beta : float, default 1
        Added to the root of the sum of squares, positive.
    l1, l2 : float, default 0
        Strengths of the penalties.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.FTRL(0.1, l1=1.0)
    >>> params = np.array([1.0, 0.01])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.9, 0. ])
    """

    learning_rate: Rate
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0

    _real = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check.positive(self.beta, "FTRL: beta")

    def init(self, params: Any) -> Moments:
        """The state before the first step."""
        sums = zeros("FTRL", params, real=True)
        return Moments(np.int64(0), tree.map(lambda z, p: z + z.dtype.type(self.l2) * p, sums, params), sums)

    def _rule(self, p, g, s, n, rate):
        n = n + g * g
        curvature = self.beta + np.sqrt(n) + rate * self.l2  # times the rate, which may be 0
        z = rate * (s + g) - p * curvature
        s = self.l1 * np.clip(z / np.maximum(rate * self.l1, 1e-30), -1, 1) if given(self.l1) else np.zeros_like(s)
        return -_shrink(z, rate * self.l1) / curvature, s, n


@dataclass(frozen=True)
class Adadelta(_LeafByLeaf):
    """Gradients times the ratio of running root mean squares of steps and gradients (Zeiler 2012, algorithm 1).

    The state holds the mean squares of the gradients (`first`) and of the steps (`second`).

    Parameters
    ----------
    learning_rate : float or schedule, default 1
        Factor of the step: a number, or a function of the number of steps, such as `cosine_decay` returns.
    decay : float, default 0.9
        Decay rate of the mean squares.
    epsilon : float, default 1e-6
        Added to the mean squares.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.Adadelta()
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.996838])
    """

    learning_rate: Rate = 1.0
    decay: float = 0.9
    epsilon: float = 1e-6

    def init(self, params: Any) -> Moments:
        """The state before the first step."""
        start = zeros("Adadelta", params, magnitude=True)
        return Moments(np.int64(0), start, start)

    def _rule(self, p, g, of_gradients, of_steps, rate):
        of_gradients = self.decay * of_gradients + (1 - self.decay) * squared(g)
        step = np.sqrt(of_steps + self.epsilon) / np.sqrt(of_gradients + self.epsilon) * g
        return p - rate * step, of_gradients, self.decay * of_steps + (1 - self.decay) * squared(step)


@dataclass(frozen=True)
class RMSprop(_LeafByLeaf):
    """Gradients divided by a running root mean square (Tieleman & Hinton 2012, lecture 6e).

    Parameters
    ----------
    learning_rate : float or schedule
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    decay : float, default 0.9
        Decay rate of the mean square.
    epsilon : float, default 1e-8
        Added to the root mean square.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.RMSprop(0.1)
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.683772])
    """

    learning_rate: Rate
    decay: float = 0.9
    epsilon: float = 1e-8

    _magnitude = True

    def _rule(self, p, g, s, rate):
        s = self.decay * s + (1 - self.decay) * squared(g)
        return p - rate * g / (np.sqrt(s) + self.epsilon), s
