"""The simulator "subspace" of `quantum.run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import states
from ...shots import sampling
from ...shots.sampling import Samples
from ..result import Result, StatevectorResult
from ..statevector.simulator import check_memory, check_state, precision, without_measurements
from . import turn_kernels as kernels
from .observable import expectation
from .turns import Turns, build

if TYPE_CHECKING:
    from ...circuit import Circuit

__all__ = ["SubspaceResult", "arguments", "simulate"]


def simulate(
    circuit: Circuit,
    theta: Any = None,
    data: Any = None,
    *,
    dtype: Any = np.complex128,
    initial: Any = None,
    shots: int | None = None,
    seed: int | None = None,
) -> SubspaceResult:
    """Simulate with the arguments of `quantum.run`, in double precision; `dtype` is that of the result.

    The circuit begins with X gates that prepare a determinant, or with `initial`, and then keeps the number of
    particles. Only basis states that its gates reach are stored: with separate numbers of alpha and beta electrons 225
    of the 4,096 of LiH.
    """
    circuit = without_measurements(circuit)
    dtype = precision(dtype)
    turns = build(circuit, None if initial is None else check_state(initial, circuit.num_qubits))
    values = turns.program.values(theta, data)
    vector = turns.start.copy()
    kernels.run(values, *arguments(turns), vector)
    return SubspaceResult(circuit.num_qubits, turns.states, turns.amplitudes(vector).astype(dtype), shots, seed)


def arguments(turns: Turns) -> tuple[np.ndarray, ...]:
    """Return the arguments that all kernels take after the values."""
    p = turns.program
    return (
        p.angle_starts,
        p.angle_indices,
        p.angle_coefficients,
        p.angle_constants,
        turns.rows,
        turns.numbers,
        turns.pairs,
    )


class SubspaceResult(Result):
    """A pure state that has few basis states: `states` (S,) int64, in ascending order, and their `amplitudes` (S,).

    >>> from triskele import quantum
    >>> result = quantum.run(quantum.Circuit(2).x(0).givens(0.1, 0, 1), simulator="subspace")
    >>> result.states.tolist(), result.amplitudes.real.round(3).tolist()
    ([1, 2], [0.995, 0.1])
    """

    def __init__(
        self,
        num_qubits: int,
        states: np.ndarray,
        amplitudes: np.ndarray,
        shots: int | None = None,
        seed: int | None = None,
    ):
        order = np.argsort(states)
        self.num_qubits, self.states, self.amplitudes = num_qubits, states[order], amplitudes[order]
        self.shots, self.seed = shots, seed

    @property
    def _state(self) -> np.ndarray:
        return self.statevector()

    def statevector(self) -> np.ndarray:
        """Return the amplitudes of all basis states, (2**n,); raise SimulatorError if they do not fit in memory."""
        if self.num_qubits > 20:
            check_memory("statevector", self.num_qubits, self.amplitudes.itemsize << self.num_qubits)
        state = np.zeros(1 << self.num_qubits, self.amplitudes.dtype)
        state[self.states] = self.amplitudes
        return state

    def probabilities(self, qubits: int | Sequence[int] | None = None) -> np.ndarray:
        """Probability of each outcome of measuring `qubits`, all when left out: see `Result.probabilities`."""
        chosen = states.check_qubits(qubits, self.num_qubits, "probabilities")
        if len(chosen) > 20:
            check_memory("probabilities", len(chosen), 8 << len(chosen))
        return np.bincount(_bits(self.states, chosen), self._weights, 1 << len(chosen))

    @property
    def _weights(self) -> np.ndarray:
        return (self.amplitudes.real**2 + self.amplitudes.imag**2).astype(float)

    def _of(self, qubits: tuple[int, ...], shots: int, seed: int) -> Samples:
        return Samples(_bits(self._in_basis({}, shots, seed).indices, qubits), len(qubits))

    def _in_basis(self, letters: dict[int, str], shots: int, seed: int | None) -> Samples:
        if set(letters.values()) <= {"Z"}:
            return Samples(self.states[sampling.sample(self._weights, shots, seed)], self.num_qubits)
        return StatevectorResult(self.statevector())._in_basis(letters, shots, seed)

    def _exact(self, h: Any) -> float:
        return expectation(h, self.states, self.amplitudes)


def _bits(indices: np.ndarray, qubits: Sequence[int]) -> np.ndarray:
    """Indices whose bit k is bit `qubits[k]`."""
    out = np.zeros_like(indices)
    for k, q in enumerate(qubits):
        out |= (indices >> q & 1) << k
    return out
