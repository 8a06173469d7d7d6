"""The formulas of pairs, each written once, for numbers, arrays, Tensors and the scalars of `core.elementwise`."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["fade", "force_switch", "removed", "screened", "screening_series", "switch", "twelve_six"]


def twelve_six(inverse6: Any, a: Any, b: Any) -> Any:
    """Lennard-Jones energy a / r^12 - b / r^6, of r^-6; a = b = 4 epsilon with (sigma / r)^6.

    >>> twelve_six(0.5, 4.0, 4.0)  # at the minimum
    -1.0
    """
    return (a * inverse6 - b) * inverse6


def fade(x: Any) -> Any:
    """A step from 1 at x = 0 to 0 at x = 1, with two continuous derivatives.

    >>> [fade(x) for x in (0.0, 0.5, 1.0)]
    [1.0, 0.5, 0.0]
    """
    return 1 - x * x * x * (10 - x * (15 - 6 * x))


def switch(r: Any, start: Any, cutoff: Any) -> Any:
    """The factor that takes an energy to 0 between the distances `start` and `cutoff`; 1 below."""
    return np.where(r > start, fade((r - start) * (1 / (cutoff - start))), 1.0)


def force_switch(n: int, start: Any, cutoff: Any) -> tuple[Any, Any, Any]:
    """Coefficients a, b and c of GROMACS's force switch of r^-n.

    The force is n r^-(n+1) + a x^2 + b x^3, x = r - start, from `start` on, and it and its slope vanish at the cut-off;
    the energy is r^-n - a/3 x^3 - b/4 x^4 - c (reference manual of GROMACS, "Modified non-bonded interactions").
    """
    width = cutoff - start
    a = -n * ((n + 4) * cutoff - (n + 1) * start) / (cutoff ** (n + 2) * width**2)
    b = n * ((n + 3) * cutoff - (n + 1) * start) / (cutoff ** (n + 2) * width**3)
    return a, b, cutoff**-n - a / 3 * width**3 - b / 4 * width**4


def removed(r: Any, n: int, start: Any, cutoff: Any) -> Any:
    """Amount by which the force switch, or without `start` the shift, lowers r^-n within the cut-off."""
    if start is None:
        return cutoff**-n
    a, b, c = force_switch(n, start, cutoff)
    x = np.where(r > start, r - start, 0.0)
    return x * x * x * (a / 3 + b / 4 * x) + c


def screened(x: Any) -> Any:
    """1 - exp(-x) (1 + x + x^2/2), the part of r^-6 that the mesh sums (Essmann et al. 1995, equation 5.3)."""
    # three terms cancel for small x
    small = x < 0.05
    y, z = np.where(small, x, 0.0), np.where(small, 1.0, x)
    return np.where(small, y**3 / 6 * screening_series(y), 1 - np.exp(-z) * (1 + z + 0.5 * z * z))


def screening_series(x: Any) -> Any:
    """Series of `screened`(x) 6/x^3."""
    return 1 + x * (-3 / 4 + x * (3 / 10 + x * (-1 / 12 + x * (1 / 56 + x * (-1 / 320 + x * (1 / 2160 - x / 16800))))))
