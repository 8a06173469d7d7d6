"""Expectation values of circuits that keep the number of particles, and their derivatives: the adjoint method in the space they reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.quantum.errors import SimulatorError
from triskele.quantum.gradients.expectation import Expectation, _examples, _with
from triskele.quantum.operators.pauli import PauliSum
from triskele.quantum.simulators.subspace import kernels
from triskele.quantum.simulators.subspace.observable import compress, term_values
from triskele.quantum.simulators.subspace.simulator import arguments
from triskele.quantum.simulators.subspace.turns import Turns, build

__all__ = ["SubspaceAdjoint", "SubspaceExpectation"]


class SubspaceExpectation(Expectation):
    """<psi|H|psi> in the space that the circuit reaches; made by `Expectation(..., simulator="subspace")`.

    H need not keep the number of particles: what it does outside of the space has no share in the value.
    Numbers are of double precision.
    """

    def _prepare(self, simulator: str, gradient: str, shots: int | None, seed: int | None) -> None:
        self.parameters, self.data = self.circuit.parameters, self.circuit.data
        self._turns = build(self.circuit, self.initial)
        self._adjoint = SubspaceAdjoint(self._turns, self.hamiltonians)
        self.initial, self._initials = None, self._initials[:0]  # it is part of the rotations now

    def _inputs(self, theta: Any, data: Any, coefficients: Any, initial: Any) -> tuple[list[Any], bool]:
        if initial is not None:
            raise SimulatorError("Expectation: with simulator='subspace' the initial state is fixed, got one as an argument (give it to Expectation(...))")
        return super()._inputs(theta, data, coefficients, initial)

    def _engine(self, coefficients: np.ndarray) -> Any:
        return SubspaceAdjoint(self._turns, self._sums(coefficients)) if coefficients.shape[1] else self._adjoint

    def _sums(self, coefficients: np.ndarray) -> list[PauliSum]:
        return [_with(h, c) for h, c in zip(self.hamiltonians, np.split(coefficients[0], self._ends[:-1]), strict=True)]

    def _pull(self, theta, data, coefficients, initial, ct):
        values = self._rows(theta, data, coefficients, ct)
        ct = np.ascontiguousarray(np.broadcast_to(ct, (len(values), self.size)))
        if len(coefficients) == 1:
            g = self._engine(coefficients).pull(values, ct)[1]
        else:
            g = np.concatenate([self._engine(c).pull(v, w)[1] for v, c, w in _examples(values, coefficients, ct)])
        slopes = np.zeros((len(values), coefficients.shape[1]))
        for k in range(len(values) if coefficients.shape[1] else 0):
            psi = self._adjoint.state(values[k])
            slopes[k] = self._slopes(ct[k], psi, psi)
        split = theta.shape[1]
        return [np.ascontiguousarray(g[:, :split]), np.ascontiguousarray(g[:, split:]), slopes, np.zeros((len(values), 0), complex)]

    def _slopes(self, ct: np.ndarray, bra: np.ndarray, ket: np.ndarray) -> np.ndarray:
        return np.concatenate([c * term_values(h, self._turns.states, bra, ket) for h, c in zip(self.hamiltonians, ct, strict=True)])

    def _second(self, theta, data, coefficients, initial, ct, d_theta, d_data, d_coefficients, d_initial):
        values = self._rows(theta, data, coefficients, ct, d_theta, d_data, d_coefficients)
        batch, split = len(values), theta.shape[1]
        d_values = np.concatenate([np.broadcast_to(d, (batch, d.shape[1])) for d in (d_theta, d_data)], axis=1)
        slopes, gradients, terms = np.zeros((batch, self.size)), np.zeros(values.shape), np.zeros((batch, coefficients.shape[1]))
        for k, (v, d_v, c, d_c, w) in enumerate(_examples(values, d_values, coefficients, d_coefficients, ct)):
            changes = SubspaceAdjoint(self._turns, self._sums(d_c)) if c.shape[1] else None
            slopes[k], gradients[k], psi, d_psi = self._engine(c).second(v[0], d_v[0], w[0], changes)
            if c.shape[1]:
                terms[k] = 2 * self._slopes(w[0], psi, d_psi)
        return [slopes, np.ascontiguousarray(gradients[:, :split]), np.ascontiguousarray(gradients[:, split:]), terms, np.zeros((batch, 0), complex)]


class SubspaceAdjoint:
    """Values and gradients for values (B, V) of parameters and data; `initial` is not looked at.

    Parameters
    ----------
    turns : Turns
    hamiltonians : sequence of PauliSum
    """

    def __init__(self, turns: Turns, hamiltonians: Sequence[PauliSum]):
        self.turns, self.size, self._arguments = turns, len(hamiltonians), arguments(turns)
        parts = [compress(h, turns) for h in hamiltonians]
        offsets = np.cumsum([0] + [len(p.entries) for p in parts])
        self.matrices = (np.stack([p.starts + at for p, at in zip(parts, offsets[:-1], strict=True)]), np.concatenate([p.columns for p in parts]),
                         np.concatenate([p.entries for p in parts]))  # fmt: skip
        self._each, self._none = np.eye(self.size)[None], np.zeros((1, 0, self.size))

    def values(self, values: np.ndarray, initial: Any = None) -> np.ndarray:
        """(B, m) values."""
        return self._evaluate(values, self._none)[0]

    def jacobian(self, values: np.ndarray, initial: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """(B, m) values and (B, m, V) gradients."""
        return self._evaluate(values, self._each)

    def pull(self, values: np.ndarray, ct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(B, m) values, and gradients (B, V) of their sums with weights (B, m)."""
        energies, gradients = self._evaluate(values, ct[:, None])
        return energies, gradients[:, 0]

    def _evaluate(self, values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        energies, gradients = np.empty((len(values), self.size)), np.empty((len(values), weights.shape[1], values.shape[1]))
        kernels.evaluate(values, *self._arguments, self.turns.start, *self.matrices, weights, energies, gradients)
        return energies, gradients

    def state(self, values: np.ndarray) -> np.ndarray:
        """(S,) amplitudes of the states that are reached."""
        vector = self.turns.start.copy()
        kernels.run(values, *self._arguments, vector)
        return self.turns.amplitudes(vector)

    def second(self, values: np.ndarray, d_values: np.ndarray, weights: np.ndarray, changes: SubspaceAdjoint | None) -> tuple[np.ndarray, ...]:
        """Tangents of values (m,) and of the gradient (V,) of weights @ values, and the state (S,) with its tangent."""
        slopes, gradient = np.empty(self.size), np.empty(len(values))
        psi, d_psi = np.empty_like(self.turns.start), np.empty_like(self.turns.start)
        other = self if changes is None else changes
        kernels.second(values, np.ascontiguousarray(d_values), *self._arguments, self.turns.start, *self.matrices, changes is not None, *other.matrices,
                       np.ascontiguousarray(weights), slopes, gradient, psi, d_psi)  # fmt: skip
        return slopes, gradient, self.turns.amplitudes(psi), self.turns.amplitudes(d_psi)
