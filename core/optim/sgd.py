"""Gradient descent: with momentum, and with averaged parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Momentum, Optimizer, Rate, _LeafByLeaf, given, rate_of, update, zeros

__all__ = ["ASGD", "SGD"]


@dataclass(frozen=True)
class SGD(Optimizer):
    """Gradient descent with optional momentum (Sutskever et al. 2013, eqs. 1-4 for Nesterov's form).

    Parameters
    ----------
    learning_rate : float or schedule
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    momentum : float or schedule, default 0
    nesterov : bool, default False
        True for Nesterov's form of the momentum.
    l2 : float, default 0
        Strength of the penalty ``l2/2 * sum(params**2)``, whose gradient is added to `grads` (PyTorch's
        ``SGD(weight_decay=...)``). Unlike the `weight_decay` of `AdamW`, it passes through the momentum.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.optim import SGD
    >>> opt = SGD(0.1, momentum=0.9)
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params
    array([0.8])
    """

    learning_rate: Rate
    momentum: Rate = 0.0
    nesterov: bool = False
    l2: float = 0.0

    def init(self, params: Any) -> Momentum:
        """The state before the first step."""
        moment = zeros("SGD", params)
        return Momentum(np.int64(0), moment if given(self.momentum) else None)

    def step(self, params: Any, grads: Any, state: Momentum) -> tuple[Any, Momentum]:
        """One update. Returns ``(params, state)``."""
        l2 = self.l2

        def plain(p, g, rate):
            return (p - rate * _with_penalty(g, p, l2),)

        def rule(p, g, v, rate, mu):
            g = _with_penalty(g, p, l2)
            v = mu * v + g
            return p - rate * (mu * v + g if self.nesterov else v), v

        rate = rate_of(self.learning_rate, state.count)
        if not given(self.momentum):
            (params,) = update("SGD", plain, params, grads, numbers=[rate])
            return params, Momentum(state.count + 1, None)
        params, moment = update("SGD", rule, params, grads, [state.moment], [rate, rate_of(self.momentum, state.count)])
        return params, Momentum(state.count + 1, moment)


def _with_penalty(g, p, l2):
    return g + l2 * p if given(l2) else g


@dataclass(frozen=True)
class ASGD(_LeafByLeaf):
    """Gradient descent whose averaged parameters are the result (Polyak & Juditsky 1992, eqs. 5 and 6).

    The averages are ``state.moment``. Rate and penalty follow Bottou (2012, section 5): after t steps the rate is
    ``learning_rate / (1 + l2 * learning_rate * t) ** power``.

    Parameters
    ----------
    learning_rate : float or schedule, default 1e-2
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    l2 : float, default 1e-4
        Strength of the penalty ``l2/2 * sum(params**2)``, whose gradient is added to `grads`.
    power : float, default 0.75
        Exponent of the decay of the rate.
    start : float, default 1e6
        Number of steps after which the averages start. Before, they are the parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> opt = optim.ASGD(0.1, l2=0.0, start=0)
    >>> params = np.array([1.0])
    >>> state = opt.init(params)
    >>> for _ in range(2):
    ...     params, state = opt.step(params, 2 * params, state)
    >>> params.round(6), state.moment.round(6)
    (array([0.64]), array([0.64]))
    """

    learning_rate: Rate = 1e-2
    l2: float = 1e-4
    power: float = 0.75
    start: float = 1e6

    def _numbers(self, count):
        full = rate_of(self.learning_rate, count)
        return [full / np.power(1 + self.l2 * full * count, self.power), 1 / np.maximum(1.0, count - self.start)]

    def _rule(self, p, g, average, rate, share):
        p = p - rate * (g + self.l2 * p)
        return p, share * p + (1 - share) * average
