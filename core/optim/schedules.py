"""Learning rates that change with the step count: ``schedule(count) -> rate``; plain NumPy, so they compile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["cosine_decay", "exponential_decay", "piecewise_constant", "warmup"]

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
    return lambda count: end + (start - end) * 0.5 * (1 + np.cos(math.pi * np.minimum(count / steps, 1.0)))


def warmup(steps: int, then: Schedule | float) -> Schedule:
    """Linear from 0 over the first `steps`, then the schedule (or number) `then`, counted from there.

    Examples
    --------
    >>> from triskele.core import optim
    >>> rate = optim.warmup(10, 0.5)
    >>> [round(float(rate(n)), 3) for n in (0, 5, 10, 100)]
    [0.0, 0.25, 0.5, 0.5]
    """
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
        raise ValueError(f"piecewise_constant: wants one value more than (rising) boundaries, got {len(values)} values "
                         f"and {list(boundaries)}")

    def schedule(count):
        rate = values[0]
        for value, start in zip(values[1:], boundaries, strict=True):
            rate = np.where(count >= start, value, rate)
        return rate

    return schedule
