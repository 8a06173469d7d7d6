"""Small functions for rules on eight lanes."""

import numpy as np

from triskele.core.extend import device, simd

__all__ = ["as_float32", "clip"]


@device
def clip(x, low, high):
    """x between two numbers; NaN stays NaN."""
    return simd.select(x < low, low, simd.select(x > high, high, x))


@device
def as_float32(x):
    """x rounded to float32, as float64."""
    return simd.convert(simd.convert(x, np.float32), np.float64)
