"""Hessians by parameter shift of adjoint gradients: exact, and all in vector code."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...compile.lower import lower
from ..parameter_shift import Slots
from .adjoint import AdjointMethod

__all__ = ["ShiftedGradients"]

_POINTS = 64  # gradients that are found at once
_SWEEP_COST = 25  # about what a sweep with tangents costs, in adjoint gradients


class ShiftedGradients:
    """Second derivatives of expectation values, from gradients at shifted angles."""

    def __init__(self, circuit: Any, observables: list[Any], single: bool):
        self.slots = Slots(circuit)
        self.num_parameters = len(circuit.parameters)
        self._made: AdjointMethod | None = None
        self._observables, self._single = observables, single

    @property
    def is_cheaper(self) -> bool:
        """True if there are rules for all, and few enough points for this to be the faster way (against one sweep a
        parameter).
        """
        points = sum(len(shifts) for _, shifts in self.slots.rules)
        return self.slots.unruly is None and points < _SWEEP_COST * self.num_parameters

    def __call__(self, values: np.ndarray, initial: np.ndarray) -> np.ndarray:
        """(m, P, P) second derivatives at values (V,), from an initial state (1, N) or none (0, 0)."""
        if self._made is None:
            self._made = AdjointMethod(lower(self.slots.circuit), self._observables, self._single)
        matrix = self.slots.matrix[:, : self.num_parameters]
        at = self.slots.matrix @ values + self.slots.constants
        total = np.zeros((len(self._observables), *matrix.T.shape[:1], len(at)))
        counts = [len(shifts) for _, shifts in self.slots.rules]
        first = 0
        while first < len(at):
            last, points = first, 0
            while last < len(at) and (last == first or points + counts[last] <= _POINTS):
                points, last = points + counts[last], last + 1
            if points:
                shifted = np.concatenate([self.slots.shifted(at, k) for k in range(first, last)])
                weights = np.concatenate([c for c, _ in self.slots.rules[first:last]])
                rows = np.repeat(np.arange(first, last), counts[first:last])
                _, gradients = self._made.jacobian(shifted, initial)
                total += np.einsum("b,bp,bms->mps", weights, matrix[rows], gradients, optimize=True)
            first = last
        found = total @ matrix
        return 0.5 * (found + found.transpose(0, 2, 1))
