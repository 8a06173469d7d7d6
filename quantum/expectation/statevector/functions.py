"""Gates that are Python functions: derivatives of their matrices, by the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core import extend

from ...gates.base import Gate
from . import recipes

__all__ = ["complex_matrix", "pull_functions", "pull_functions_dual", "push_functions"]


def pull_functions(program: Any, values: np.ndarray, g: np.ndarray, g_values: np.ndarray) -> None:
    """Add to the cotangents of values (V,) what those of coefficients (C,) mean through the matrices."""
    from triskele import core

    g_angles = np.zeros(len(program.angle_constants))
    for at, gate, which in program.functions:
        params = [program.angle(i, values) for i in which]
        slopes = core.vjp(complex_matrix(gate), *params)[1](_matrix(g[at : at + 2 * 4**gate.num_qubits]))
        for i, slope in zip(which, slopes, strict=True):
            g_angles[i] += slope
    recipes.pull_angles(program.angle_starts, program.angle_indices, program.angle_coefficients, g_angles, g_values)


def _matrix(g: np.ndarray) -> np.ndarray:
    size = int(round((len(g) // 2) ** 0.5))
    return g.view(np.complex128).reshape(size, size)


def complex_matrix(gate: Gate) -> Callable[..., Any]:
    """The matrix of a gate that is a function, as a complex function of its parameters."""
    function = gate.function
    assert function is not None
    return lambda *t: extend.traceable(function)(*t) + 0j


def push_functions(program: Any, values: np.ndarray, d_angles: np.ndarray, d_c: np.ndarray) -> None:
    """Tangents of the matrices of gates that are functions."""
    from triskele import core

    for at, gate, which in program.functions:
        params, tangents = tuple(program.angle(i, values) for i in which), tuple(float(d_angles[i]) for i in which)
        matrix = np.ascontiguousarray(core.jvp(complex_matrix(gate), params, tangents)[1], complex)
        d_c[at : at + 2 * matrix.size] = matrix.ravel().view(float)


def pull_functions_dual(
    program: Any, values: np.ndarray, d_angles: np.ndarray, g: np.ndarray, d_g: np.ndarray, g_values: np.ndarray
) -> None:
    """Add tangents of the values' cotangents that come from gates that are functions."""
    from triskele import core

    total = np.zeros(len(d_angles))
    for at, gate, which in program.functions:
        params, tangents = tuple(program.angle(i, values) for i in which), tuple(float(d_angles[i]) for i in which)
        end = at + 2 * 4**gate.num_qubits

        def slopes(params, matrix, gate=gate):
            return core.vjp(complex_matrix(gate), *params)[1](matrix)

        _, found = core.jvp(slopes, (params, _matrix(g[at:end])), (tangents, _matrix(d_g[at:end])))
        for i, slope in zip(which, found, strict=True):
            total[i] += slope
    recipes.pull_angles(program.angle_starts, program.angle_indices, program.angle_coefficients, total, g_values)
