"""The fast engine of expectation values: one compiled call for values and gradients of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import threads

from ...compile.program import Program
from ...simulators.statevector.blocks import Block
from ...simulators.statevector.engine import pack
from ...simulators.statevector.passes import chunk
from ...simulators.statevector.simulator import check_memory
from . import adjoint_kernels as kernels
from .backward_passes import unwind_chunk
from .functions import pull_functions
from .observable import Observable, join
from .recipes import wanted

__all__ = ["AdjointMethod"]

_SMALL = 24  # qubits whose states need not be compared with the memory there is
_NOTHING = np.zeros((0, 0))
_NO_STATE = np.zeros((0, 0), np.complex128)


class AdjointMethod:
    """Values of observables after a program, and their gradients by the adjoint method (Jones and Gacon,
    arXiv:2009.02823). The observables are compiled for the precision.

    lambda = H psi and psi are taken back through the ops. Each op leaves the moments sum conj(lambda) psi of what it
    mixes, from which the derivatives of its coefficients, and by the chain rule those of angles and values, follow
    without further sweeps.
    """

    def __init__(
        self, program: Program, observables: list[Observable], single: bool = False, block: Block | None = None
    ):
        self.program, self.single = program, single
        self._arguments = (program, observables, single, block)
        together, starts = join(observables)
        packed = pack(program, single, block, states=2)  # psi and a lambda
        self._numbers = packed.numbers
        self._wanted = np.append(wanted(program), False).astype(np.uint8)
        # what the addresses point to must live as long as they do
        self._kept = (packed.words, packed.numbers, self._wanted, together, starts)
        fixed = np.zeros(1, kernels.CALL_CONTEXT)
        arrays = {
            "words": packed.words,
            "numbers": packed.numbers,
            "wanted": self._wanted,
            "rows": together.rows,
            "row_starts": starts,
            "masks": together.masks,
            "weights": together.weights,
            "tables": together.tables,
        }
        for name, array in arrays.items():
            fixed[name] = array.ctypes.data
        chunks = {"forward": chunk, "tiles": kernels.apply_tiles, "examples": kernels.example}
        for name, function in chunks.items():
            fixed[name] = self._address(function)
        self.size, self.num_values = len(observables), len(program.parameters) + len(program.data)
        numbers = {
            "words_length": len(packed.words),
            "numbers_length": len(packed.numbers),
            "observables": self.size,
            "num_values": self.num_values,
            "count": 1 << program.num_qubits,
        }
        for name, number in numbers.items():
            fixed[name] = number
        self._fixed, self._unwinds = fixed, False

    def _address(self, function):
        return threads.body(function, "float32" if self.single else "float64")

    def __reduce__(self) -> tuple[Any, ...]:
        return AdjointMethod, self._arguments  # a copy has addresses of its own

    def values(self, values: np.ndarray, initial: np.ndarray = _NO_STATE) -> np.ndarray:
        """(B, m) values for (B, V) float64 values of parameters and data, from (B or 1, N) complex128 initial
        states.
        """
        out = np.empty((len(values), self.size))
        self._evaluate(values, _NOTHING, initial, out, _NOTHING, _NO_STATE)
        return out

    def jacobian(self, values: np.ndarray, initial: np.ndarray = _NO_STATE) -> tuple[np.ndarray, np.ndarray]:
        """(B, m) values and (B, m, V) gradients."""
        batch = len(values)
        out, gradients = np.empty((batch, self.size)), np.empty((batch, self.size, self.num_values))
        self._evaluate(values, _NOTHING, initial, out, gradients, _NO_STATE)
        return out, gradients

    def pull(
        self, values: np.ndarray, ct: np.ndarray, initial: np.ndarray = _NO_STATE
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(B, m) values, and of the sum with weights (B, m): (B, V) gradients, and (B, N) for the initial states if
        they are given.
        """
        batch = len(values)
        out, gradients = np.empty((batch, self.size)), np.empty((batch, 1, self.num_values))
        states = np.empty((batch, initial.shape[1]), np.complex128) if initial.size else _NO_STATE
        self._evaluate(values, ct, initial, out, gradients, states)
        return out, gradients[:, 0], states

    def _evaluate(self, values, ct, initial, out, gradients, states):
        if self.program.num_qubits > _SMALL:
            vectors = 2 + gradients.shape[1] if gradients.size else 1
            check_memory(
                "Expectation", self.program.num_qubits, vectors * (8 if self.single else 16) << self.program.num_qubits
            )
        if gradients.size and not self._unwinds:  # values alone do not need this large kernel
            self._fixed["backward"], self._unwinds = self._address(unwind_chunk), True
        if not self.program.functions:
            kernels.evaluate(self._fixed, values, ct, initial, out, gradients, states, _NOTHING)
            return
        # gates that are Python functions: their matrices are found, and differentiated, example by example
        fixed, numbers = self._fixed.copy(), self._numbers.copy()
        fixed["numbers"] = numbers.ctypes.data
        matrices = numbers[len(numbers) - len(self.program.coefficients) :]
        cotangents = np.zeros((1, gradients.shape[1] if gradients.size else 0, len(matrices)))
        for k in range(len(values)):
            one = slice(k, k + 1)
            self.program.fill_functions(matrices, values[k])
            kernels.evaluate(
                fixed,
                values[one],
                ct[one],
                initial[one] if len(initial) > 1 else initial,
                out[one],
                gradients[one],
                states[one],
                cotangents if gradients.size else _NOTHING,
            )
            for i in range(cotangents.shape[1]):
                pull_functions(self.program, values[k], cotangents[0, i], gradients[k, i])
