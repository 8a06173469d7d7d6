"""Expectation values after circuits of gates, and their derivatives: the adjoint method on state vectors."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...compile.lower import lower
from ...compile.program import Program
from ...operators.pauli import PauliSum
from ...simulators.statevector.engine import simulate
from ...simulators.statevector.simulator import check_memory
from ..engine import Engine
from .adjoint import AdjointMethod
from .hessian import ShiftedGradients
from .observable import Observable, compile_observable
from .sweeps import Sweeps
from .terms import term_values

__all__ = ["StatevectorEngine"]


class StatevectorEngine(Engine):
    """<psi|H|psi>: `AdjointMethod` for values and gradients, sweeps with tangents for second derivatives."""

    def __init__(self, circuit: Any, hamiltonians: Sequence[PauliSum], single: bool, initial: Any = None):
        n = circuit.num_qubits
        if n > 24:
            # one state, before observables make tables of that size
            check_memory("Expectation", n, (8 if single else 16) << n)
        lower(circuit, fuse=False)  # which raises what is wrong with the circuit; kernels wait for the first value
        self._circuit, self._single = circuit.copy(), single
        self._sweeps: Sweeps | None = None
        self._observe(hamiltonians)

    @cached_property
    def _program(self) -> Program:
        return lower(self._circuit)

    @cached_property
    def _adjoint(self) -> AdjointMethod:
        return AdjointMethod(self._program, self._observables, self._single)

    def _observe(self, hamiltonians: Sequence[PauliSum]) -> None:
        self.hamiltonians = hamiltonians
        self._observables = self._compiled(hamiltonians, np.float32 if self._single else np.float64)
        self.__dict__.pop("_adjoint", None)  # that of other operators
        self._shifted: ShiftedGradients | None = None

    def _compiled(self, hamiltonians: Sequence[PauliSum], dtype: Any) -> list[Observable]:
        return [compile_observable(h, self._circuit.num_qubits, dtype) for h in hamiltonians]

    def values(self, values, start):
        return self._adjoint.values(values, start)

    def jacobian(self, values, start):
        return self._adjoint.jacobian(values, start)

    def pull(self, values, ct, start):
        return self._adjoint.pull(values, ct, start)

    def observing(self, hamiltonians):
        new = copy.copy(self)
        new._observe(hamiltonians)
        return new

    def terms(self, values, start):
        psi = simulate(self._program, values, np.complex128, start[0] if start.size else None)
        return self._terms(psi, psi)

    def _terms(self, bra, ket):
        return [
            term_values(h.x[:, 0].astype(np.int64), h.z[:, 0].astype(np.int64), bra, ket) for h in self.hamiltonians
        ]

    def second(self, values, d_values, start, d_start, changes, weights):
        if self._sweeps is None:
            self._sweeps = Sweeps(lower(self._circuit, fuse=False))
        sweeps = self._sweeps
        observables = self._compiled(self.hamiltonians, np.float64) if self._single else self._observables
        first, d_first = (start[0], d_start[0]) if start.size else (None, np.zeros(sweeps.size, complex))
        d_observables = None if changes is None else self._compiled(changes, np.float64)
        slopes, g, d_lam, psi, d_psi = sweeps.second(
            values, first, d_values, d_first, observables, d_observables, weights
        )
        terms = (
            [np.zeros(0)]
            if changes is None
            else [2 * w * t for w, t in zip(weights, self._terms(psi, d_psi), strict=True)]
        )
        return slopes, g, np.concatenate(terms), 2 * d_lam.conj() if start.size else np.zeros(0, complex)

    def hessian(self, values, start):
        if self._shifted is None:
            self._shifted = ShiftedGradients(self._circuit, self._observables, self._single)
        return self._shifted(values, start) if self._shifted.is_cheaper else None
