"""`Step`, the result of one integration step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Slope", "Step"]

Slope = Callable[[Any, Any], Any]  # dy/dt of (y, t), (n,)


class Step(NamedTuple):
    """Values at the end of a step, (n,) each."""

    y: Any
    error: Any  # estimate of the error of y
    slope: Any  # dy/dt at the end
    dense: tuple[Any, ...]  # coefficients: y is y_start + u (c0 + u (c1 + ...)) at the fraction u of the step
