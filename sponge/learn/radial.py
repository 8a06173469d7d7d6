"""Radial functions of networks, and an envelope that vanishes smoothly at the cut-off."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..potentials.pairs.formulas import fade
from ..units import angstrom

__all__ = ["envelope", "waves"]


def envelope(r: Any, cutoff: float) -> Any:
    """Return 1 - 10 x^3 + 15 x^4 - 6 x^5 with x = r / cutoff: 1 at r = 0, 0 from the cut-off on, twice differentiable.

    From the cut-off on it is zero to the last bit, with all derivatives, so that pairs there contribute nothing at all.

    >>> envelope(np.array([0.0, 0.25, 0.5, 0.7]), 0.5).tolist()
    [1.0, 0.5, 0.0, 0.0]
    """
    x = r * (1 / cutoff)
    return np.where(x < 1, fade(x), 0)


def waves(r: Any, cutoff: float, n: int) -> Any:
    """Return spherical waves sqrt(2 / c) sin(k pi r / c) / r for k = 1 ... n as a last axis, for r > 0 and c in nm.

    The lengths of the formula are in angstrom. J. Gasteiger, J. Gross and S. Guennemann, ICLR 2020, eq. 7,
    https://arxiv.org/abs/2003.03123.

    >>> waves(np.array([0.25]), 0.5, 2).round(6).tolist()
    [[0.252982, 0.0]]
    """
    k = np.arange(1, n + 1).astype(np.result_type(r)) * (math.pi / cutoff)
    return np.sin(r[..., None] * k) * (math.sqrt(2 * angstrom / cutoff) * angstrom / r[..., None])
