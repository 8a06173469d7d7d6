"""Kernels of Hessian-vector products of `Nonbonded`, by positions and by parameters: one pass over explicit pairs.

A pair energy U(r^2, p), p the parameters of both atoms, has the gradient 2 U_1 d on the first atom, at distance d. A
move that takes U_1 along by U_1', and the distance by w, takes the gradient along by 2 (U_1' d + U_1 w). A kernel is
generated for each form, with derivatives by `codegen.jets`.
"""

from __future__ import annotations

from triskele.core.extend import Elementwise, device, load_module, template

from ...box import minimum_image
from ...codegen.jets import directional
from ...codegen.simd_source import Output, expressions

__all__ = ["product_kernel", "product_loop"]

_SOURCE = """import math

import numpy as np

from triskele.core.extend import device, kernel, template
from triskele.sponge.potentials.nonbonded.product_kernels import product_loop


@template
def given(numbers):
    return ({given},)
{jets}

@kernel(nogil=True)
def products({arguments}):
    product_loop({arguments}, given, coulomb, lennard_jones)
"""
_JET = """

@device
def {name}(r2, move, i, j, move_i, move_j, given):
{body}
    return {results}
"""
_ARGUMENTS = "chunk, pairs, x, v, box, periodic, kinds, stride, params, moves, numbers, outs, by"


def product_kernel(
    coulomb: Elementwise,
    lennard_jones: Elementwise,  # of r^2, parameters of both atoms, and numbers
    numbers: int,
    moving: bool,
):  # moving: parameters move too
    """The kernel of one form; its arguments are those of `product_loop` but for the last three."""
    jets = _jet("coulomb", coulomb, numbers, moving) + _jet("lennard_jones", lennard_jones, numbers, moving)
    given = ", ".join(f"numbers[{k}]" for k in range(numbers))
    return load_module(_SOURCE.format(given=given, jets=jets, arguments=_ARGUMENTS), "products").products


def _jet(name, function, numbers, moving):
    """Source of a function that gives derivatives by r^2 and, if they move, parameters, and all along a move."""
    r2, *params = function.names[: len(function.names) - numbers]
    by = [r2, *params] if moving else [r2]
    lines, results = expressions(
        directional(function, by), [Output((key,)) for key in (*(f"d_{key}" for key in by), *by)], width=1
    )
    rows = [f"{atom}[{c}]" for atom in "ij" for c in range(len(params) // 2)]
    names = [*function.names[1:], *(f"d_{key}" for key in by)]
    values = [*rows, *(f"given[{k}]" for k in range(numbers)), "move", *(f"move_{row}" for row in rows)]
    loads = [f"{key} = {value}" for key, value in zip(names, values)]  # more values than names if parameters are still
    return _JET.format(name=name, body="\n".join(f"    {line}" for line in loads + lines), results=", ".join(results))


@device
def _add(out, i, j, x, y, z):
    out[i, 0] += x
    out[i, 1] += y
    out[i, 2] += z
    out[j, 0] -= x
    out[j, 1] -= y
    out[j, 2] -= z


@template
def _add_slopes(slopes, a, b, found):
    half = len(found) // 2
    columns = half // 2
    for c in range(columns):
        slopes[a, c, 0] += found[1 + c]
        slopes[b, c, 0] += found[1 + columns + c]
        slopes[a, c, 1] += found[half + 1 + c]
        slopes[b, c, 1] += found[half + 1 + columns + c]


@template
def product_loop(
    chunk, pairs, x, v, box, periodic, kinds, stride, params, moves, numbers, outs, by, given, coulomb, lennard_jones
):
    """Add derivatives of the chunk's part of all pairs along a move of positions (v) and parameters.

    params, moves (n + rows, 2): in row i the charge of an atom; from row n on sigma and root of epsilon of atoms, or
    with a `stride` a and b of pairs of types, of the atoms' `kinds`. outs[chunk] (n, 3): the gradient's derivative;
    by[chunk], of the shape of params and (2,), only used if parameters move: derivatives of the energy, and theirs
    along the move. The two formulas take (r2, its move, and four rows) to derivatives by r2 and both rows, and all of
    these along the move.
    """
    out, slopes, chunks, m, n, c = outs[chunk], by[chunk], len(outs), len(pairs), len(x), given(numbers)
    for k in range(chunk * m // chunks, (chunk + 1) * m // chunks):
        i, j = pairs[k, 0], pairs[k, 1]
        dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
        if periodic:
            dx, dy, dz = minimum_image(dx, dy, dz, box)
        wx, wy, wz = v[i, 0] - v[j, 0], v[i, 1] - v[j, 1], v[i, 2] - v[j, 2]
        r2, move = dx * dx + dy * dy + dz * dz, 2 * (dx * wx + dy * wy + dz * wz)
        first = along = 0.0
        if params[i, 0] != 0.0 or params[j, 0] != 0.0 or moves[i, 0] != 0.0 or moves[j, 0] != 0.0:
            found = coulomb(r2, move, params[i], params[j], moves[i], moves[j], c)
            first, along = found[0], found[len(found) // 2]
            _add_slopes(slopes, i, j, found)
        a, b = n + kinds[j] + stride * kinds[i], n + kinds[i] + stride * kinds[j]
        if stride > 0 or params[a, 1] * params[b, 1] != 0.0:
            found_lj = lennard_jones(r2, move, params[a], params[b], moves[a], moves[b], c)
            first, along = first + found_lj[0], along + found_lj[len(found_lj) // 2]
            _add_slopes(slopes, a, b, found_lj)
        first, along = 2 * first, 2 * along
        _add(out, i, j, first * wx + along * dx, first * wy + along * dy, first * wz + along * dz)
