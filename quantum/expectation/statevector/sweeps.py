"""Second derivatives of one example: the sweeps with tangents."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import recipes, scalar_dual, scalar_kernels
from .functions import pull_functions_dual, push_functions
from .observable import Observable

__all__ = ["Sweeps", "apply"]


class Sweeps:
    """The sweeps of a program that was lowered with ``fuse=False``."""

    def __init__(self, program: Any):
        self.program = program
        self.wanted = recipes.wanted(program)
        self.size = 1 << program.num_qubits

    def coefficients(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Angles, and the coefficients of the ops."""
        p = self.program
        angles, out = np.empty(len(p.angle_constants)), p.coefficients.copy()
        scalar_kernels.coefficients_of(
            p.angle_starts, p.angle_indices, p.angle_coefficients, p.angle_constants, p.recipes, values, angles, out
        )
        p.fill_functions(out, values)
        return angles, out

    def start(self, initial: np.ndarray | None) -> np.ndarray:
        """The initial state; |0...0> for None."""
        if initial is not None:
            return np.array(initial, np.complex128)
        psi = np.zeros(self.size, np.complex128)
        psi[0] = 1.0
        return psi

    def second(
        self,
        values: np.ndarray,
        initial: np.ndarray | None,
        d_values: np.ndarray,
        d_initial: np.ndarray,
        observables: list[Observable],
        changes: list[Observable] | None,
        ct: np.ndarray,
    ) -> tuple[Any, ...]:
        """Return derivatives along the direction of `d_values` (V,), `d_initial` (N,) and `changes`, tangents of the
        observables: the tangents of the values (m,), of the gradient of sum ct E for `values` (V,), and of U^dagger H U
        psi (N,); then the final state and its tangent (N,).
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


def push_angles(program: Any, d_values: np.ndarray, d_angles: np.ndarray) -> None:
    """Tangents of the angles."""
    products = program.angle_coefficients * d_values[program.angle_indices]
    np.add.at(d_angles, np.repeat(np.arange(len(d_angles)), np.diff(program.angle_starts)), products)
