"""First-order optimizers: frozen dataclasses with two functions.

``state = opt.init(params)``, then ``params, state = opt.step(params, grads, state)`` — pure functions on trees, to be
put inside the jitted training step. `learning_rate` is a number or a schedule (a function of the step count).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import tree
from ..errors import TreeError

__all__ = ["Adam", "AdamW", "RMSprop", "SGD", "clip_by_global_norm", "clip_by_value", "global_norm"]

Rate = float | Callable[[Any], Any]


def _zeros(params):
    return tree.map(lambda p: np.zeros(np.shape(p), np.result_type(p)), params)


def _rate(learning_rate, count):
    return learning_rate(count) if callable(learning_rate) else learning_rate


def _update(where, f, n_out, params, *trees):
    """Apply ``f(*leaves) -> n_out values`` leaf by leaf and return `n_out` trees, each leaf in the dtype of its
    parameter.
    """
    leaves, structure = tree.flatten(params)
    columns = [leaves]
    for t in trees:
        other, s = tree.flatten(t)
        if s != structure:
            raise TreeError(
                f"{where}: parameters, gradients and state must have one structure, got {structure} and {s}"
            )
        columns.append(other)
    for p, g in zip(leaves, columns[1], strict=True):
        if np.shape(p) != np.shape(g):
            raise ValueError(
                f"{where}: a gradient must have the shape of its parameter, {np.shape(p)}, got {np.shape(g)}"
            )
    rows = [f(*xs) for xs in zip(*columns, strict=True)]
    cast = [[_as(x, p) for x in row] for row, p in zip(rows, leaves, strict=True)]
    return [tree.unflatten(structure, [row[k] for row in cast]) for k in range(n_out)]


def _as(x, p):
    dtype = np.result_type(p)
    return x if np.result_type(x) == dtype else np.astype(x, dtype) if hasattr(x, "astype") else dtype.type(x)


def _squared(g):
    return np.real(g * np.conj(g)) if np.result_type(g).kind == "c" else g * g


class Momentum(NamedTuple):
    """State of `SGD` and `RMSprop`: step count and one moment per parameter."""

    count: Any
    moment: Any


class Moments(NamedTuple):
    """State of `Adam`: step count, first and second moments."""

    count: Any
    first: Any
    second: Any


@dataclass(frozen=True)
class SGD:
    """Gradient descent with optional momentum (Sutskever et al. 2013, eqs. 1-4 for Nesterov's form).

    Parameters
    ----------
    learning_rate : float or schedule
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    momentum : float, default 0
    nesterov : bool, default False
        True for Nesterov's form of the momentum.

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
    momentum: float = 0.0
    nesterov: bool = False

    def init(self, params: Any) -> Momentum:
        """The state before the first step."""
        return Momentum(0, _zeros(params) if self.momentum else None)

    def step(self, params: Any, grads: Any, state: Momentum) -> tuple[Any, Momentum]:
        """One update. Returns ``(params, state)``."""
        rate, mu = _rate(self.learning_rate, state.count), self.momentum
        if not mu:
            (params,) = _update("SGD", lambda p, g: (p - rate * g,), 1, params, grads)
            return params, Momentum(state.count + 1, None)

        def rule(p, g, v):
            v = mu * v + g
            return p - rate * (mu * v + g if self.nesterov else v), v

        params, moment = _update("SGD", rule, 2, params, grads, state.moment)
        return params, Momentum(state.count + 1, moment)


@dataclass(frozen=True)
class RMSprop:
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

    def init(self, params: Any) -> Momentum:
        """The state before the first step."""
        return Momentum(0, _zeros(params))

    def step(self, params: Any, grads: Any, state: Momentum) -> tuple[Any, Momentum]:
        """One update. Returns ``(params, state)``."""
        rate = _rate(self.learning_rate, state.count)

        def rule(p, g, s):
            s = self.decay * s + (1 - self.decay) * _squared(g)
            return p - rate * g / (np.sqrt(s) + self.epsilon), s

        params, moment = _update("RMSprop", rule, 2, params, grads, state.moment)
        return params, Momentum(state.count + 1, moment)


@dataclass(frozen=True)
class Adam:
    """Adaptive moments with bias correction (Kingma & Ba 2015, algorithm 1).

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
    >>> opt = optim.Adam(0.1)
    >>> params = np.array([1.0])
    >>> params, state = opt.step(params, 2 * params, opt.init(params))
    >>> params.round(6)
    array([0.9])
    """

    learning_rate: Rate = 1e-3
    b1: float = 0.9
    b2: float = 0.999
    epsilon: float = 1e-8

    def init(self, params: Any) -> Moments:
        """The state before the first step."""
        return Moments(0, _zeros(params), _zeros(params))

    def step(self, params: Any, grads: Any, state: Moments) -> tuple[Any, Moments]:
        """One update. Returns ``(params, state)``."""
        return adam_step(self, params, grads, state, 0.0)


@dataclass(frozen=True)
class AdamW(Adam):
    """`Adam` with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2).

    Parameters
    ----------
    learning_rate : float or schedule, default 1e-3
        A number, or a function of the number of steps, such as `cosine_decay` returns.
    b1, b2 : float, default 0.9, 0.999
        Decay rates of the first and the second moment.
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

    def step(self, params: Any, grads: Any, state: Moments) -> tuple[Any, Moments]:
        """One update. Returns ``(params, state)``."""
        return adam_step(self, params, grads, state, self.weight_decay)


def adam_step(opt: Adam, params: Any, grads: Any, state: Moments, weight_decay: float) -> tuple[Any, Moments]:
    """The update of `Adam`, and of `AdamW` by its weight decay."""
    count = state.count + 1
    rate = _rate(opt.learning_rate, state.count)
    # both bias corrections go into two numbers per step, not two divisions per parameter
    scale = 1 / (1 - np.power(opt.b1, count * 1.0))
    root = 1 / np.sqrt(1 - np.power(opt.b2, count * 1.0))

    def rule(p, g, m, v):
        real = np.zeros((), np.result_type(p)).real.dtype
        m = opt.b1 * m + (1 - opt.b1) * g
        v = opt.b2 * v + (1 - opt.b2) * _squared(g)
        update = m / (np.sqrt(v) * _in(root, real) + opt.epsilon)
        p_next = p - _in(rate * scale, real) * update
        return (p_next - _in(rate * weight_decay, real) * p if weight_decay else p_next), m, v

    params, first, second = _update(type(opt).__name__, rule, 3, params, grads, state.first, state.second)
    return params, Moments(count, first, second)


def _in(x, dtype):
    """A number of the step, in the precision of the parameters."""
    return x.astype(dtype) if hasattr(x, "astype") else x


def clip_by_value(grads: Any, limit: float) -> Any:
    """Cut every entry to [-limit, limit].

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> optim.clip_by_value({'a': np.array([3.0, -0.5])}, 1.0)
    {'a': array([ 1. , -0.5])}
    """
    return tree.map(lambda g: np.clip(g, -limit, limit), grads)


def global_norm(grads: Any) -> Any:
    """Root of the sum of squares of all entries of a tree.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> float(optim.global_norm({'a': np.array([3.0]), 'b': np.array([4.0])}))
    5.0
    """
    return np.sqrt(sum(np.sum(_squared(g)) for g in tree.leaves(grads)))


def clip_by_global_norm(grads: Any, limit: float) -> Any:
    """Scale the whole tree so that its `global_norm` is at most `limit` (Pascanu et al. 2013, algorithm 1).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> optim.clip_by_global_norm({'a': np.array([3.0, 4.0])}, 1.0)
    {'a': array([0.6, 0.8])}
    """
    norm = global_norm(grads)
    scale = limit / np.maximum(norm, limit)
    return tree.map(lambda g: g * _in(scale, np.zeros((), np.result_type(g)).real.dtype), grads)
