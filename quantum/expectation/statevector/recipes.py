"""Angles and coefficients of a program from its values, and back: cotangents of coefficients to those of values.

The cotangent G of a complex coefficient c is the number with dE = sum Re(G dc).
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, kernel, simd

from ...compile.bits import top
from ...compile.ops import Recipe

__all__ = ["pull_angles", "pull_recipes", "wanted"]

_PAIR_REAL, _PAIR_IMAGINARY, _ROTATION, _PHASE = (
    int(r) for r in (Recipe.PAIR_REAL, Recipe.PAIR_IMAGINARY, Recipe.ROTATION, Recipe.PHASE)
)
_CONJUGATE, _MULTIPLY = int(Recipe.CONJUGATE), int(Recipe.MULTIPLY)


@kernel(nogil=True)
def pull_recipes(recipes, c, g, g_angles):
    """Add to `g_angles` (A,) what the cotangents `g` (C,) of all coefficients `c` (C,) mean for the angles; g is used
    up.
    """
    for r in range(recipes.shape[0] - 1, -1, -1):
        row = recipes[r]
        kind, out, source, sign = row[0], row[1], row[2], row[3]
        if kind == _PAIR_REAL:  # c[out + 4] = sign sin t/2
            g_angles[source] += 0.5 * (
                sign * c[out] * (g[out + 4] - g[out + 2]) - sign * c[out + 4] * (g[out] + g[out + 6])
            )
        elif kind == _PAIR_IMAGINARY:  # c[out + 3] = -sign sin t/2, and Re(-i G) = Im G
            g_angles[source] += 0.5 * (
                sign * c[out] * (g[out + 3] + g[out + 5]) + sign * c[out + 3] * (g[out] + g[out + 6])
            )
        elif kind == _ROTATION:
            g_angles[source] += 0.5 * sign * (imaginary(c, g, out, out) - imaginary(c, g, out + 2, out + 2))
        elif kind == _PHASE:
            g_angles[source] -= sign * (imaginary(c, g, out, out) + imaginary(c, g, out + 2, out + 2))
        elif kind == _CONJUGATE:
            for k in range(row[5]):
                g[source + 2 * k] += g[out + 2 * k]
                g[source + 2 * k + 1] -= g[out + 2 * k + 1]
        elif kind == _MULTIPLY:
            for k in range(0, 2 * row[5], 2):
                a, b = source + k, row[4] + k
                ga, gb = times(c, b, g, out + k), times(c, a, g, out + k)
                g[a], g[a + 1] = g[a] + ga[0], g[a + 1] + ga[1]
                g[b], g[b + 1] = g[b] + gb[0], g[b + 1] + gb[1]
        else:
            pull_product(row, c, g)


@device
def times(c, i, g, j):
    """Real and imaginary part of the product of complex numbers."""
    return c[i] * g[j] - c[i + 1] * g[j + 1], c[i] * g[j + 1] + c[i + 1] * g[j]


@device
def imaginary(c, g, i, j):
    """Imaginary part of the product of complex numbers."""
    return c[i] * g[j + 1] + c[i + 1] * g[j]


@device
def pull_product(row, c, g):
    """Pull back PRODUCT: matrix = op @ previous, so that G_previous = op^T G and G_op = G previous^T, gathered by
    entry.
    """
    out, source, previous, size = row[1], row[2], row[4], 1 << row[5]
    kind, x, m, v, z, local = row[6], row[7], row[8], row[9], row[10], row[11]
    step = 2 * size
    if previous >= 0:
        for k in range(size * step):  # where the op does nothing
            g[previous + k] += g[out + k]
    if kind == 0:
        pivot = top(x)
        for j in range(size):
            if j & m == v and j & pivot == 0:
                s = 1.0 - 2.0 * simd.parity(j & z)
                entry(c, g, out, previous, step, j, j, source, 1.0, 1)
                entry(c, g, out, previous, step, j, j ^ x, source + 2, s, 0)
                entry(c, g, out, previous, step, j ^ x, j, source + 4, s, 0)
                entry(c, g, out, previous, step, j ^ x, j ^ x, source + 6, 1.0, 1)
    elif kind == 1:
        for j in range(size):
            if j & m == v:
                entry(c, g, out, previous, step, j, j, source + 2 * simd.parity(j & z), 1.0, 1)
    else:
        width = 0
        bits = x
        while bits:
            bits &= bits - 1
            width += 1
        for j in range(size):
            if j & m != v or j & x:
                continue
            for row_ in range(1 << width):
                for column in range(1 << width):
                    a, b = j | spread(row_, width, local), j | spread(column, width, local)
                    entry(c, g, out, previous, step, a, b, source + 2 * ((row_ << width) + column), 1.0, int(a == b))


@device
def spread(i, width, local):
    """An index of a DENSE as bits of the index of the matrix."""
    out = 0
    for b in range(width):
        out |= ((i >> b) & 1) << ((local >> (4 * b)) & 15)
    return out


@device
def entry(c, g, out, previous, step, i, j, e, sign, diagonal):
    """The share of entry e (at row i, column j) of an op in the pull-back of PRODUCT.

    `diagonal`: 1 where i = j, for which G_previous has 1 already.
    """
    er, ei = sign * c[e] - diagonal, sign * c[e + 1]
    if previous < 0:
        g[e] += sign * g[out + i * step + 2 * j]
        g[e + 1] += sign * g[out + i * step + 2 * j + 1]
        return
    re, im = 0.0, 0.0
    for k in range(0, step, 2):
        gr, gi = g[out + i * step + k], g[out + i * step + k + 1]
        pr, pi = c[previous + j * step + k], c[previous + j * step + k + 1]
        re += gr * pr - gi * pi
        im += gr * pi + gi * pr
        g[previous + j * step + k] += er * gr - ei * gi
        g[previous + j * step + k + 1] += er * gi + ei * gr
    g[e] += sign * re
    g[e + 1] += sign * im


@kernel(nogil=True)
def pull_angles(starts, indices, coefficients, g_angles, g_values):
    """g_values += (angles' dependence on values, transposed) @ g_angles."""
    for i in range(starts.size - 1):
        for k in range(starts[i], starts[i + 1]):
            g_values[indices[k]] += coefficients[k] * g_angles[i]


def wanted(program) -> np.ndarray:
    """Return a mask of the ops whose coefficients depend on values, and so need cotangents.

    (K,) bool.
    """
    varies = np.diff(program.angle_starts) > 0
    depends = np.zeros(len(program.coefficients) + 1, bool)  # by where coefficients begin
    for at, _, angles in program.functions:
        depends[at] = varies[list(angles)].any()
    for kind, out, source, _, previous, *_ in program.recipes.tolist():
        if kind <= _PHASE:
            depends[out] = varies[source]
        elif kind == _CONJUGATE:
            depends[out] = depends[source]
        else:
            depends[out] = depends[source] | (previous >= 0 and depends[previous])
    return depends[program.ops[:, 6]]
