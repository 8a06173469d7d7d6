"""Learning rates that change with the step count: ``schedule(count) -> rate``; plain NumPy, so they compile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import check
from ..tensor import Tensor

__all__ = [
    "cosine_decay",
    "cosine_restarts",
    "exponential_decay",
    "inverse_root",
    "one_cycle",
    "one_cycle_momentum",
    "piecewise_constant",
    "polynomial_decay",
    "warmup",
]

Schedule = Callable[[Any], Any]


def exponential_decay(start: float, factor: float, every: int) -> Schedule:
    """``start * factor ** (count / every)``.

    Parameters
    ----------
    start : float
    factor : float
        Reached after `every` steps.
    every : int
        Number of steps.

    Examples
    --------
    >>> from triskele.core import optim
    >>> rate = optim.exponential_decay(1.0, 0.5, every=10)
    >>> [round(float(rate(n)), 3) for n in (0, 10, 20)]
    [1.0, 0.5, 0.25]
    """
    _check_rate(start, "exponential_decay: start")
    check.positive(every, "exponential_decay: every")
    check.positive(factor, "exponential_decay: factor")
    return lambda count: start * np.exp(count * (math.log(factor) / every))


def cosine_decay(start: float, steps: int, end: float = 0.0) -> Schedule:
    """From `start` to `end` along half a cosine in `steps`, then constant (Loshchilov & Hutter 2017, eq. 5).

    Parameters
    ----------
    start : float
    steps : int
        Length of the decay.
    end : float, default 0

    Examples
    --------
    >>> from triskele.core import optim
    >>> rate = optim.cosine_decay(1.0, 100)
    >>> [round(float(rate(n)), 3) for n in (0, 50, 100, 200)]
    [1.0, 0.5, 0.0, 0.0]
    """
    _check_rate(start, "cosine_decay: start")
    check.positive(steps, "cosine_decay: steps")
    return lambda count: end + (start - end) * 0.5 * (1 + np.cos(math.pi * np.minimum(count / steps, 1.0)))


def polynomial_decay(start: float, steps: int, power: float = 1.0, end: float = 0.0) -> Schedule:
    """From `start` to `end` as ``(1 - count / steps) ** power`` in `steps`, then constant.

    Parameters
    ----------
    start : float
    steps : int
        Length of the decay.
    power : float, default 1
        1 is linear.
    end : float, default 0

    Examples
    --------
    >>> from triskele.core import optim
    >>> rate = optim.polynomial_decay(1.0, 100, power=2)
    >>> [round(float(rate(n)), 3) for n in (0, 50, 100, 200)]
    [1.0, 0.25, 0.0, 0.0]
    """
    _check_rate(start, "polynomial_decay: start")
    check.positive(steps, "polynomial_decay: steps")
    check.positive(power, "polynomial_decay: power")
    return lambda count: end + (start - end) * np.power(1 - np.minimum(count / steps, 1.0), power)


def cosine_restarts(start: float, steps: int, factor: float = 1.0, end: float = 0.0) -> Schedule:
    """`cosine_decay` that starts again after each decay (SGDR: Loshchilov & Hutter 2017, eq. 5).

    Parameters
    ----------
    start : float
    steps : int
        Length of the first decay.
    factor : float, default 1
        Each decay is longer than the one before by this factor, at least 1 (T_mult of the paper).
    end : float, default 0

    Examples
    --------
    >>> from triskele.core import optim
    >>> rate = optim.cosine_restarts(1.0, 100, factor=2)
    >>> [round(float(rate(n)), 3) for n in (0, 50, 100, 200, 299, 300)]
    [1.0, 0.5, 1.0, 0.5, 0.0, 1.0]
    """
    _check_rate(start, "cosine_restarts: start")
    check.positive(steps, "cosine_restarts: steps")
    check.number(factor, "cosine_restarts: factor", 1)

    def place(count):
        """The share of the present decay that has passed."""
        if factor == 1:
            return np.mod(count, steps) / steps
        begin = lambda k: steps * (np.power(float(factor), k) - 1) / (factor - 1)
        k = np.floor(np.log1p(count * (factor - 1) / steps) / math.log(factor))
        k = k + (count >= begin(k + 1)) - (count < begin(k))  # the logarithm may round across a restart
        return (count - begin(k)) / (steps * np.power(float(factor), k))

    return lambda count: end + (start - end) * 0.5 * (1 + np.cos(math.pi * place(count)))


def one_cycle(
    peak: float,
    steps: int,
    rise: float = 0.3,
    start: float | None = None,
    end: float | None = None,
    *,
    linear: bool = False,
) -> Schedule:
    """From `start` up to `peak` and down to `end` in `steps` (Smith & Topin 2018, section 3), then constant.

    Parameters
    ----------
    peak : float
    steps : int
        Number of steps of the training.
    rise : float, default 0.3
        Share of the steps that rise.
    start : float, optional
        Rate of the first step. By default ``peak / 25``.
    end : float, optional
        Rate of the last step. By default ``start / 10000``.
    linear : bool, default False
        Rise and fall along straight lines, as in the paper, in place of half cosines.

    See Also
    --------
    one_cycle_momentum : the momentum that belongs to it.

    Examples
    --------
    >>> from triskele.core import optim
    >>> rate = optim.one_cycle(1.0, 101, start=0.1, end=0.0)
    >>> [round(float(rate(n)), 3) for n in (0, 29, 100)]
    [0.1, 1.0, 0.0]
    """
    _check_rate(peak, "one_cycle: peak")
    check.positive(steps, "one_cycle: steps")
    if check.number(rise, "one_cycle: rise", 0) >= 1:
        raise ValueError(f"one_cycle: rise must be a number >= 0 and < 1, got {rise!r}")
    low = peak / 25 if start is None else start
    return _cycle(low, peak, low / 1e4 if end is None else end, steps, rise, linear)


def one_cycle_momentum(
    steps: int, low: float = 0.85, high: float = 0.95, rise: float = 0.3, *, linear: bool = False
) -> Schedule:
    """From `high` down to `low` while the rate of `one_cycle` rises, and back up while it falls (Smith & Topin 2018).

    Pass it as ``SGD(momentum=)``, or as ``Adam(b1=)``.

    Parameters
    ----------
    steps : int
        Number of steps of the training.
    low, high : float, default 0.85, 0.95
        Momentum at the peak of the rate, and at both ends.
    rise : float, default 0.3
        Share of the steps in which the rate rises.
    linear : bool, default False
        Fall and rise along straight lines in place of half cosines.

    Examples
    --------
    >>> from triskele.core import optim
    >>> momentum = optim.one_cycle_momentum(101)
    >>> [round(float(momentum(n)), 3) for n in (0, 29, 100)]
    [0.95, 0.85, 0.95]
    >>> optimizer = optim.SGD(optim.one_cycle(0.4, 101), momentum=momentum)
    """
    check.positive(steps, "one_cycle_momentum: steps")
    for name, value in (("low", low), ("high", high), ("rise", rise)):
        if check.number(value, f"one_cycle_momentum: {name}", 0) >= 1:
            raise ValueError(f"one_cycle_momentum: {name} must be a number >= 0 and < 1, got {value!r}")
    return _cycle(high, low, high, steps, rise, linear)


def _cycle(first, peak, last, steps, rise, linear):
    """From `first` to `peak` and on to `last`."""
    top = rise * steps - 1  # PyTorch's step of the peak, which need not be whole
    up, down = max(top, 1e-9), max(steps - 1 - top, 1e-9)

    def between(a, b, share):
        return a + (b - a) * (share if linear else 0.5 * (1 - np.cos(math.pi * share)))

    def schedule(count):
        rising = between(first, peak, np.clip(count / up, 0.0, 1.0))
        return np.where(count <= top, rising, between(peak, last, np.clip((count - top) / down, 0.0, 1.0)))

    return schedule


def inverse_root(peak: float, warmup: int) -> Schedule:
    """Linear up to `peak` at step `warmup`, then falling as ``1 / sqrt(step)`` (Vaswani et al. 2017, eq. 3).

    Steps are counted from 1. The paper's rate for a width d is ``peak = (d * warmup) ** -0.5``.

    Parameters
    ----------
    peak : float
    warmup : int
        Number of steps that rise.

    Examples
    --------
    >>> from triskele.core import optim
    >>> rate = optim.inverse_root(1.0, warmup=10)
    >>> [round(float(rate(n)), 3) for n in (0, 4, 9, 39)]
    [0.1, 0.5, 1.0, 0.5]
    """
    _check_rate(peak, "inverse_root: peak")
    check.positive(warmup, "inverse_root: warmup")
    return lambda count: peak * np.minimum((count + 1) / warmup, np.sqrt(warmup / (count + 1)))


def warmup(steps: int, then: Schedule | float) -> Schedule:
    """Linear from 0 over the first `steps`, then the schedule (or number) `then`, counted from there.

    Examples
    --------
    >>> from triskele.core import optim
    >>> rate = optim.warmup(10, 0.5)
    >>> [round(float(rate(n)), 3) for n in (0, 5, 10, 100)]
    [0.0, 0.25, 0.5, 0.5]
    """
    check.number(steps, "warmup: steps", 0)
    after: Schedule = then if callable(then) else lambda count: then
    return lambda count: np.where(count < steps, after(0) * count / max(steps, 1), after(np.maximum(count - steps, 0)))


def piecewise_constant(values: Sequence[float], boundaries: Sequence[int]) -> Schedule:
    """``values[i]`` from ``boundaries[i - 1]`` on.

    Examples
    --------
    >>> from triskele.core import optim
    >>> rate = optim.piecewise_constant([1.0, 0.1], [100])
    >>> [round(float(rate(n)), 3) for n in (0, 99, 100)]
    [1.0, 1.0, 0.1]
    """
    if len(values) != len(boundaries) + 1 or list(boundaries) != sorted(boundaries):
        raise ValueError(
            "piecewise_constant: values must be one value more than boundaries, which must rise, got "
            f"{len(values)} values and {list(boundaries)}"
        )

    def schedule(count):
        rate = values[0]
        for value, start in zip(values[1:], boundaries, strict=True):
            rate = np.where(count >= start, value, rate)
        return rate

    return schedule


def _check_rate(rate, where):
    if not isinstance(rate, Tensor):
        check.number(rate, where, 0)
