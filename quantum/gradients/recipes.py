"""Angles and coefficients of a program from its values, and back: cotangents of coefficients to those of values.

The cotangent G of a complex coefficient c is the number with dE = sum Re(G dc).
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.kernels.njit import kernel
from triskele.quantum.compile.ops import Recipe

__all__ = ["pull_angles", "pull_recipes", "wanted"]

_PAIR_REAL, _PAIR_IMAGINARY, _ROTATION, _PHASE = (int(r) for r in (Recipe.PAIR_REAL, Recipe.PAIR_IMAGINARY, Recipe.ROTATION, Recipe.PHASE))
_PRODUCT, _CONJUGATE, _MULTIPLY = int(Recipe.PRODUCT), int(Recipe.CONJUGATE), int(Recipe.MULTIPLY)


@kernel(nogil=True)
def pull_recipes(recipes, angles, coefficients, g, g_angles):
    """Add to `g_angles` what the cotangents `g` of all coefficients (used up) mean for the angles."""
    c = coefficients.view(np.complex128)
    gc = g.view(np.complex128)
    for r in range(recipes.shape[0] - 1, -1, -1):
        kind, out, source, sign = recipes[r, 0], recipes[r, 1] // 2, recipes[r, 2], recipes[r, 3]
        if kind == _PAIR_REAL or kind == _PAIR_IMAGINARY:
            ga, gb, gc_, gd = gc[out], gc[out + 1], gc[out + 2], gc[out + 3]
            half = 0.5 * angles[source]
            off = gc_.real - gb.real if kind == _PAIR_REAL else gb.imag + gc_.imag
            g_angles[source] += 0.5 * (sign * math.cos(half) * off - math.sin(half) * (ga.real + gd.real))
        elif kind == _ROTATION:
            g_angles[source] += 0.5 * sign * ((gc[out] * c[out]).imag - (gc[out + 1] * c[out + 1]).imag)
        elif kind == _PHASE:
            g_angles[source] -= sign * ((gc[out] + gc[out + 1]) * c[out]).imag


@kernel(nogil=True)
def pull_angles(starts, indices, coefficients, g_angles, g_values):
    """g_values += (angles' dependence on values, transposed) @ g_angles."""
    for i in range(starts.size - 1):
        for k in range(starts[i], starts[i + 1]):
            g_values[indices[k]] += coefficients[k] * g_angles[i]


def wanted(program) -> np.ndarray:
    """Of each op, whether its coefficients depend on values: only then are their cotangents worth collecting. (K,) bool."""
    varies = np.diff(program.angle_starts) > 0
    depends = np.zeros(len(program.coefficients) + 1, bool)  # by where coefficients begin
    for kind, out, source, _, previous, *_ in program.recipes.tolist():
        if kind <= _PHASE:
            depends[out] = varies[source]
        elif kind == _CONJUGATE:
            depends[out] = depends[source]
        else:
            depends[out] = depends[source] | (previous >= 0 and depends[previous])
    for at, _, angles in program.functions:
        depends[at] = varies[list(angles)].any()
    return depends[program.ops[:, 6]]
