"""Values, gradients and second derivatives of one example through the scalar kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.quantum.gradients import recipes, scalar_dual, scalar_kernels
from triskele.quantum.gradients.observable import Observable

__all__ = ["Sweeps"]


class Sweeps:
    """The sweeps of a program that is not fused.

    Parameters
    ----------
    program : Program
        Lowered with ``fuse=False``.
    """

    def __init__(self, program: Any):
        self.program = program
        self.wanted = recipes.wanted(program)
        self.size = 1 << program.num_qubits

    def coefficients(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Angles, and the coefficients of the ops."""
        p = self.program
        angles, out = np.empty(len(p.angle_constants)), p.coefficients.copy()
        scalar_kernels.coefficients_of(p.angle_starts, p.angle_indices, p.angle_coefficients, p.angle_constants, p.recipes, values, angles, out)
        p.fill_functions(out, values)
        return angles, out

    def start(self, initial: np.ndarray | None) -> np.ndarray:
        """The initial state; |0...0> for None."""
        if initial is not None:
            return np.array(initial, np.complex128)
        psi = np.zeros(self.size, np.complex128)
        psi[0] = 1.0
        return psi

    def forward(self, values: np.ndarray, initial: np.ndarray | None) -> np.ndarray:
        """The final state."""
        psi = self.start(initial)
        scalar_kernels.forward(self.program.ops, self.coefficients(values)[1], psi)
        return psi

    def backward(self, values: np.ndarray, psi: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Gradient of E with dE = 2 Re <lam|d psi> for the values; psi and lam become those at the beginning."""
        p = self.program
        angles, c = self.coefficients(values)
        g = np.zeros_like(c)
        scalar_kernels.backward(p.ops, self.wanted, c, psi, lam, g)
        return pull_values(p, values, angles, c, g)

    def second(self, values: np.ndarray, initial: np.ndarray | None, d_values: np.ndarray, d_initial: np.ndarray,
               observables: list[Observable], changes: list[Observable] | None, ct: np.ndarray) -> tuple[Any, ...]:  # fmt: skip
        """Derivatives along a direction.

        Parameters
        ----------
        values, d_values : (V,) array
        initial, d_initial : (N,) complex array
        observables : list of Observable
        changes : list of Observable, optional
            Tangents of the observables.
        ct : (m,) array

        Returns
        -------
        slopes : (m,) array
            Tangents of the values.
        g : (V,) array
            Tangent of the gradient of sum ct E for the values.
        lam : (N,) complex array
            Tangent of U^dagger H U psi.
        psi, d_psi : (N,) complex array
            The final state and its tangent.
        """
        p = self.program
        angles, c = self.coefficients(values)
        d_angles, zero = np.zeros_like(angles), np.zeros_like(angles)
        push_angles(p, d_values, d_angles)
        d_c = np.zeros_like(c)
        scalar_dual.push_recipes(p.recipes, angles, d_angles, d_c)
        push_functions(p, values, d_angles, d_c)
        psi, d_psi = self.start(initial), np.array(d_initial, np.complex128)
        scalar_dual.forward_dual(p.ops, self.wanted, c, d_c, psi, d_psi)
        final, d_final = psi.copy(), d_psi.copy()

        lam, d_lam, work = np.zeros_like(psi), np.zeros_like(psi), np.empty_like(psi)
        slopes = np.zeros(len(observables))
        for i, h in enumerate(observables):
            apply(h, psi, work)
            slopes[i] = 2 * np.vdot(work, d_psi).real
            lam += ct[i] * work
            apply(h, d_psi, work)
            d_lam += ct[i] * work
            if changes is not None:
                slopes[i] += apply(changes[i], psi, work)
                d_lam += ct[i] * work
        g, d_g = np.zeros_like(c), np.zeros_like(c)
        scalar_dual.backward_dual(p.ops, self.wanted, c, d_c, psi, d_psi, lam, d_lam, g, d_g)
        scalar_dual.pull_recipes_dual(p.recipes, angles, d_angles, g, d_g, zero)
        g_values = np.zeros(len(values))
        recipes.pull_angles(p.angle_starts, p.angle_indices, p.angle_coefficients, zero, g_values)
        pull_functions_dual(p, values, d_angles, g, d_g, g_values)
        return slopes, g_values, d_lam, final, d_final


def apply(h: Observable, psi: np.ndarray, out: np.ndarray) -> float:
    """out = H psi; returns <psi|H|psi>."""
    return scalar_kernels.apply_observable(h.rows, h.masks, h.weights, h.tables, psi, out)


def pull_values(program: Any, values: np.ndarray, angles: np.ndarray, c: np.ndarray, g: np.ndarray) -> np.ndarray:
    """Cotangents of values from those of coefficients (used up)."""
    g_angles, g_values = np.zeros_like(angles), np.zeros(len(values))
    matrices = [g[at : at + 2 * 4**gate.num_qubits].copy() for at, gate, _ in program.functions]
    recipes.pull_recipes(program.recipes, c, g, g_angles)
    for (_, gate, which), matrix in zip(program.functions, matrices, strict=True):
        for i, slope in zip(which, _pull_function(gate, [program.angle(i, values) for i in which], matrix), strict=True):
            g_angles[i] += slope
    recipes.pull_angles(program.angle_starts, program.angle_indices, program.angle_coefficients, g_angles, g_values)
    return g_values


def push_angles(program: Any, d_values: np.ndarray, d_angles: np.ndarray) -> None:
    """Tangents of the angles."""
    products = program.angle_coefficients * d_values[program.angle_indices]
    np.add.at(d_angles, np.repeat(np.arange(len(d_angles)), np.diff(program.angle_starts)), products)


def _matrix(g: np.ndarray) -> np.ndarray:
    size = int(round((len(g) // 2) ** 0.5))
    return g.view(np.complex128).reshape(size, size)


def _complex(gate: Any) -> Any:
    return lambda *t: gate.function(*t) + 0j


def _pull_function(gate: Any, params: list[float], g: np.ndarray) -> Any:
    from triskele import core

    return core.vjp(_complex(gate), *params)[1](_matrix(g))


def push_functions(program: Any, values: np.ndarray, d_angles: np.ndarray, d_c: np.ndarray) -> None:
    """Tangents of the matrices of gates that are functions."""
    from triskele import core

    for at, gate, which in program.functions:
        params, tangents = tuple(program.angle(i, values) for i in which), tuple(float(d_angles[i]) for i in which)
        matrix = np.ascontiguousarray(core.jvp(_complex(gate), params, tangents)[1], complex)
        d_c[at : at + 2 * matrix.size] = matrix.ravel().view(float)


def pull_functions_dual(program: Any, values: np.ndarray, d_angles: np.ndarray, g: np.ndarray, d_g: np.ndarray, g_values: np.ndarray) -> None:
    """Adds tangents of the values' cotangents that come from gates that are functions."""
    from triskele import core

    total = np.zeros(len(d_angles))
    for at, gate, which in program.functions:
        params, tangents = tuple(program.angle(i, values) for i in which), tuple(float(d_angles[i]) for i in which)
        end = at + 2 * 4**gate.num_qubits

        def slopes(params, matrix, gate=gate):
            return core.vjp(_complex(gate), *params)[1](matrix)

        _, found = core.jvp(slopes, (params, _matrix(g[at:end])), (tangents, _matrix(d_g[at:end])))
        for i, slope in zip(which, found, strict=True):
            total[i] += slope
    recipes.pull_angles(program.angle_starts, program.angle_indices, program.angle_coefficients, total, g_values)
