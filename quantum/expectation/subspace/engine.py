"""Expectation values of circuits that keep the number of particles, and their derivatives: the adjoint method in the
space they reach.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...operators.pauli import PauliSum
from ...simulators.subspace import turn_kernels as kernels
from ...simulators.subspace.observable import compress, term_values
from ...simulators.subspace.simulator import arguments
from ...simulators.subspace.turns import build
from ..engine import Engine

__all__ = ["SubspaceEngine"]


class SubspaceEngine(Engine):
    """<psi|H|psi> in the space that the circuit reaches; the initial state is part of what is made.

    H need not conserve the number of particles: only its part inside the space contributes to the value. Numbers are of
    double precision.
    """

    takes_start = False

    def __init__(self, circuit: Any, hamiltonians: Sequence[PauliSum], single: bool, initial: np.ndarray | None):
        self.turns = build(circuit, initial)
        self._arguments = arguments(self.turns)
        self._observe(hamiltonians)

    def _observe(self, hamiltonians: Sequence[PauliSum]) -> None:
        self.hamiltonians, self.size = hamiltonians, len(hamiltonians)
        parts = [compress(h, self.turns) for h in hamiltonians]
        offsets = np.cumsum([0] + [len(p.entries) for p in parts])
        self.matrices = (
            np.stack([p.starts + at for p, at in zip(parts, offsets[:-1], strict=True)]),
            np.concatenate([p.columns for p in parts]),
            np.concatenate([p.entries for p in parts]),
        )
        self._each, self._none = np.eye(self.size)[None], np.zeros((1, 0, self.size))

    def observing(self, hamiltonians: Sequence[PauliSum]) -> SubspaceEngine:
        new = copy.copy(self)
        new._observe(hamiltonians)
        return new

    def values(self, values, start=None):
        return self._evaluate(values, self._none)[0]

    def jacobian(self, values, start=None):
        return self._evaluate(values, self._each)

    def pull(self, values, ct, start=None):
        energies, gradients = self._evaluate(values, ct[:, None])
        return energies, gradients[:, 0], np.zeros((len(values), 0), complex)

    def _evaluate(self, values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        energies, gradients = (
            np.empty((len(values), self.size)),
            np.empty((len(values), weights.shape[1], values.shape[1])),
        )
        kernels.evaluate(values, *self._arguments, self.turns.start, *self.matrices, weights, energies, gradients)
        return energies, gradients

    def state(self, values: np.ndarray) -> np.ndarray:
        """(S,) amplitudes of the states that are reached."""
        vector = self.turns.start.copy()
        kernels.run(values, *self._arguments, vector)
        return self.turns.amplitudes(vector)

    def terms(self, values, start=None):
        psi = self.state(values)
        return [term_values(h, self.turns.states, psi, psi) for h in self.hamiltonians]

    def second(self, values, d_values, start, d_start, changes, weights):
        slopes, gradient = np.empty(self.size), np.empty(len(values))
        psi, d_psi = np.empty_like(self.turns.start), np.empty_like(self.turns.start)
        other = self if changes is None else self.observing(changes)
        kernels.second(
            values,
            np.ascontiguousarray(d_values),
            *self._arguments,
            self.turns.start,
            *self.matrices,
            changes is not None,
            *other.matrices,
            np.ascontiguousarray(weights),
            slopes,
            gradient,
            psi,
            d_psi,
        )
        psi, d_psi = self.turns.amplitudes(psi), self.turns.amplitudes(d_psi)
        terms = (
            [np.zeros(0)]
            if changes is None
            else [
                2 * w * term_values(h, self.turns.states, psi, d_psi)
                for h, w in zip(self.hamiltonians, weights, strict=True)
            ]
        )
        return slopes, gradient, np.concatenate(terms), np.zeros(0, complex)
