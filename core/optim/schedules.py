"""Learning rates that change with the step count: ``schedule(count) -> rate``; plain NumPy, so they compile."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["cosine_decay", "exponential_decay", "piecewise_constant", "warmup"]

Schedule = Callable[[Any], Any]


def exponential_decay(start: float, factor: float, every: int) -> Schedule:
    """``start * factor ** (count / every)``."""
    return lambda count: start * np.exp(count * (math.log(factor) / every))


def cosine_decay(start: float, steps: int, end: float = 0.0) -> Schedule:
    """From `start` to `end` along half a cosine in `steps`, then constant (Loshchilov & Hutter 2017, eq. 5)."""
    return lambda count: end + (start - end) * 0.5 * (1 + np.cos(math.pi * np.minimum(count / steps, 1.0)))


def warmup(steps: int, then: Schedule | float) -> Schedule:
    """Linear from 0 over the first `steps`, then the schedule (or number) `then`, counted from there."""
    after: Schedule = then if callable(then) else lambda count: then
    return lambda count: np.where(count < steps, after(0) * count / steps, after(np.maximum(count - steps, 0)))


def piecewise_constant(values: Sequence[float], boundaries: Sequence[int]) -> Schedule:
    """``values[i]`` from ``boundaries[i - 1]`` on."""
    if len(values) != len(boundaries) + 1 or list(boundaries) != sorted(boundaries):
        raise ValueError(f"piecewise_constant: wants one value more than (rising) boundaries, got {len(values)} values "
                         f"and {list(boundaries)}")

    def schedule(count):
        rate = values[0]
        for value, start in zip(values[1:], boundaries, strict=True):
            rate = np.where(count >= start, value, rate)
        return rate

    return schedule
