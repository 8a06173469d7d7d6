"""The family of Adam: adaptive first and second moments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .base import Moments, Rate, _LeafByLeaf, given, rate_of, squared, update, zeros

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "NesterovMoments", "RAdam"]


@dataclass(frozen=True)
class _Adaptive(_LeafByLeaf):
    """Settings and state of the family."""

    learning_rate: Rate = 1e-3
    b1: float = 0.9
    b2: float = 0.999
    epsilon: float = 1e-8

    def init(self, params: Any) -> Any:
        """The state before the first step: real second moments."""
        where = type(self).__name__
        return Moments(np.int64(0), zeros(where, params), zeros(where, params, magnitude=True))

    def _corrections(self, b1, count):
        """Return the corrections of the bias of the first moment, and of the root of the second one."""
        return [1 / (1 - np.power(b1, (count + 1) * 1.0)), 1 / np.sqrt(1 - np.power(self.b2, (count + 1) * 1.0))]


@dataclass(frozen=True)
class Adam(_Adaptive):
    """Adaptive moments with bias correction (Kingma & Ba 2015, algorithm 1).

    Parameters
    ----------
    learning_rate : float or schedule, default 1e-3
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    b1 : float or schedule, default 0.9
        Decay rate of the first moment.
    b2 : float, default 0.999
        Decay rate of the second moment.
    epsilon : float, default 1e-8
        Added to the root of the second moment.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.Adam(0.1)
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.9])
    """

    b1: Rate = 0.9  # type: ignore[assignment]

    weight_decay = 0.0  # not a setting here

    def _numbers(self, count):
        # both bias corrections go into two numbers per step, not two divisions per parameter
        rate, b1 = rate_of(self.learning_rate, count), rate_of(self.b1, count)
        scale, root = self._corrections(b1, count)
        return [rate * scale, root, rate * self.weight_decay, b1]

    def _rule(self, p, g, m, v, step, root, decay, b1):
        m, v = _moments(b1, self.b2, g, m, v)
        p_next = p - step * (m / (np.sqrt(v) * root + self.epsilon))
        return (p_next - decay * p if given(self.weight_decay) else p_next), m, v


@dataclass(frozen=True)
class AdamW(Adam):
    """`Adam` with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2).

    Parameters
    ----------
    learning_rate : float or schedule, default 1e-3
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    b1 : float or schedule, default 0.9
        Decay rate of the first moment.
    b2 : float, default 0.999
        Decay rate of the second moment.
    epsilon : float, default 1e-8
        Added to the root of the second moment.
    weight_decay : float, default 0.01
        Fraction of the parameters that is subtracted in a step, times the learning rate.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.AdamW(0.1, weight_decay=0.1)
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.89])
    """

    weight_decay: float = 1e-2


def _moments(b1, b2, g, m, v):
    return b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * squared(g)


@dataclass(frozen=True)
class Adamax(_Adaptive):
    """`Adam` with the largest recent gradient in place of the second moment (Kingma & Ba 2015, algorithm 2).

    Parameters
    ----------
    learning_rate : float or schedule, default 2e-3
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    b1, b2 : float, default 0.9, 0.999
        Decay rates of the first moment and of the maximum.
    epsilon : float, default 1e-8
        Added to the absolute value of the gradient.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.Adamax(0.1)
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.9])
    """

    learning_rate: Rate = 2e-3

    def _numbers(self, count):
        return [rate_of(self.learning_rate, count) / (1 - np.power(self.b1, (count + 1) * 1.0))]

    def _rule(self, p, g, m, u, rate):
        m = self.b1 * m + (1 - self.b1) * g
        u = np.maximum(self.b2 * u, np.abs(g) + self.epsilon)
        return p - rate * m / u, m, u


class NesterovMoments(NamedTuple):
    """State of `NAdam`: step count, product of all momenta, first and second moments."""

    count: Any
    product: Any
    first: Any
    second: Any


@dataclass(frozen=True)
class NAdam(_Adaptive):
    """`Adam` with Nesterov's momentum (Dozat 2016, algorithm 2, with the schedule of its section 3.1).

    The momentum of step t is ``b1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))``.

    Parameters
    ----------
    learning_rate : float or schedule, default 2e-3
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    b1, b2 : float, default 0.9, 0.999
        Decay rates of the first and the second moment.
    epsilon : float, default 1e-8
        Added to the root of the second moment.
    momentum_decay : float, default 4e-3

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.NAdam(0.1)
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.894355])
    """

    learning_rate: Rate = 2e-3
    momentum_decay: float = 4e-3

    def init(self, params: Any) -> NesterovMoments:
        """The state before the first step."""
        count, first, second = super().init(params)
        return NesterovMoments(count, np.float64(1), first, second)

    def step(self, params: Any, grads: Any, state: NesterovMoments) -> tuple[Any, NesterovMoments]:
        """One update. Returns ``(params, state)``."""
        count = state.count + 1
        rate = rate_of(self.learning_rate, state.count)
        now, after = (self.b1 * (1 - 0.5 * np.power(0.96, t * self.momentum_decay)) for t in (count, count + 1))
        product = state.product * now
        root = 1 / np.sqrt(1 - np.power(self.b2, count * 1.0))

        def rule(p, g, m, v, of_gradient, of_moment, root):
            m, v = _moments(self.b1, self.b2, g, m, v)
            return p - (of_gradient * g + of_moment * m) / (np.sqrt(v) * root + self.epsilon), m, v

        params, first, second = update(
            "NAdam",
            rule,
            params,
            grads,
            [state.first, state.second],
            [rate * (1 - now) / (1 - product), rate * after / (1 - product * after), root],
        )
        return params, NesterovMoments(count, product, first, second)


@dataclass(frozen=True)
class RAdam(_Adaptive):
    """`Adam` that divides by the second moment once its variance is tractable (Liu et al. 2020, algorithm 2).

    Parameters
    ----------
    learning_rate : float or schedule, default 1e-3
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    b1, b2 : float, default 0.9, 0.999
        Decay rates of the first and the second moment.
    epsilon : float, default 1e-8
        Added to the root of the second moment.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.RAdam(0.1)
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.8])
    """

    def _numbers(self, count):
        after = count + 1
        scale = rate_of(self.learning_rate, count) / (1 - np.power(self.b1, after * 1.0))
        power = np.power(self.b2, after * 1.0)
        limit = 2 / (1 - self.b2) - 1
        length = limit - 2 * after * power / (1 - power)
        tractable = length > 5
        safe = np.where(tractable, length, 6.0)
        rectified = np.sqrt((safe - 4) * (safe - 2) * limit * (1 - power) / ((limit - 4) * (limit - 2) * safe))
        return [scale, np.where(tractable, rectified, 0.0), np.where(tractable, 0.0, 1.0)]

    def _rule(self, p, g, m, v, scale, adaptive, plain):
        m, v = _moments(self.b1, self.b2, g, m, v)
        return p - scale * m * (adaptive / (np.sqrt(v) + self.epsilon) + plain), m, v
