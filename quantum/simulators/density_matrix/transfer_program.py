"""A circuit made ready for the density matrix simulator: made once, run with any parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import threads

from ...noise.channel import Channel
from ...parameters import Linear
from . import vector_kernels as kernels
from .lower import BLOCK, SINGLE, Segment, lower
from .merge import Map, merge
from .transfer import Element, Wide, function_table, wide_kraus
from .vector import PauliVector

__all__ = ["CHUNKS", "TransferProgram", "is_scaling", "positions"]

CHUNKS = 16  # parts of a stage that threads share
_COMMUTE = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])  # letters I X Z Y
_LANES = 2  # positions inside SIMD vectors, where nothing acts


class TransferProgram:
    """Maps one after the other, as segments of compiled operations and wide maps between them.

    `run` takes the values of `names` in their order. The vector has `m` positions, at least as many as `positions`
    returns for the maps; blocks of `block` positions are worked on at a time.
    """

    def __init__(
        self, maps: Sequence[Element | Wide], num_qubits: int, names: Sequence[str], m: int, block: int = BLOCK
    ):
        self.num_qubits, self.names, self.positions = num_qubits, tuple(names), m
        merged = merge(maps)
        self.widest = widest = _widest(merged)
        self.block = m if m <= SINGLE else min(max(block, widest + _LANES + 1), m)
        self.work_size = 8 * 4**widest + (4**self.block if self.block < self.positions else 0)
        self.angles: dict[Linear, int] = {}
        self.steps: list[Segment | Wide] = []
        self.before = where = list(range(self.positions - num_qubits, self.positions))
        run: list[Map] = []
        for step in [*merged, None]:
            if isinstance(step, Map):
                run.append(step)
                continue
            if run:
                segment = lower(run, where, self.positions, self.angles, self.block)
                self.steps.append(segment)
                where, run = segment.after, []
            if step is not None:
                self.steps.append(step)
                where = where if is_scaling(step) else self.before
        self.after = where
        column = {name: k for k, name in enumerate(self.names)}
        self.slopes = np.zeros((len(self.angles), len(self.names)))
        self.constants = np.array([a.constant for a in self.angles])
        for row, a in enumerate(self.angles):
            for name, c in a.terms:
                self.slopes[row, column[name]] += c

    def run(self, values: np.ndarray, state: PauliVector) -> PauliVector:
        """The state after it; the vector of `state` is changed in place. `state` has its qubits at `self.before`."""
        angles = self.slopes @ values + self.constants
        for step in self.steps:
            if isinstance(step, Segment):
                coefficients = self.fill(step, angles, values)
                kernels.run(
                    state.r,
                    self.positions,
                    step.stages,
                    step.rows,
                    step.ints,
                    coefficients,
                    threads.body(kernels.run_chunk),
                    CHUNKS,
                    self.work_size,
                )
                state.where = step.after
            else:
                state = self.wide(step, values, state)
        return state

    def fill(self, segment: Segment, angles: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Coefficients of a segment's operations."""
        named = dict(zip(self.names, values.tolist(), strict=True)) if segment.sources else {}
        for instruction, place, part, _ in segment.sources:
            inner = function_table(instruction, named)[0][part[:, None], part]
            segment.table[place : place + inner.size] = inner.reshape(-1)
        coefficients = np.empty(segment.coefficients)
        kernels.fill(segment.fills, segment.table, angles, coefficients)
        return coefficients

    def wide(self, step: Wide, values: np.ndarray, state: PauliVector) -> PauliVector:
        """A map on many qubits: Pauli channels scale each string, everything else goes through the density matrix."""
        if is_scaling(step):
            p = step.instruction.gate.pauli_probabilities
            state.r *= _scales(p, [state.where[q] for q in step.qubits], self.positions).reshape(-1)
            return state
        return self.conjugate(wide_kraus(step, dict(zip(self.names, values.tolist(), strict=True))), step.qubits, state)

    def conjugate(self, kraus: np.ndarray, qubits: Sequence[int], state: PauliVector) -> PauliVector:
        """sum K rho K^dagger, the qubits then being at `self.before`."""
        rho = state.matrix()
        bits = rho.T.reshape(-1)  # bit q is that of the row, bit n + q that of the column
        n, total = self.num_qubits, np.zeros_like(bits)
        for k in kraus:
            total += _apply(k.conj(), [q + n for q in qubits], _apply(k, qubits, bits))
        return PauliVector.of(total.reshape(rho.shape).T, self.positions)


def positions(maps: Sequence[Any], num_qubits: int) -> int:
    """Positions that a vector needs for these maps: dummies are added where qubits alone leave no room."""
    return max(num_qubits, _widest(maps) + _LANES)


def _widest(maps: Sequence[Any]) -> int:
    return max((len(m.qubits) for m in maps if not isinstance(m, Wide)), default=0)


def is_scaling(step: Wide) -> bool:
    """Return True if it is a Pauli channel."""
    return isinstance(step.instruction.gate, Channel) and step.instruction.gate.pauli_probabilities is not None


def _scales(probabilities: np.ndarray, places: Sequence[int], m: int) -> np.ndarray:
    """Factors sum over P of p(P) (+1 if P and Q commute, else -1) of all strings Q, to be multiplied with (4,)*m
    numbers.
    """
    k = len(places)
    factors = probabilities.reshape((4,) * k)
    for axis in range(k):
        factors = np.moveaxis(np.tensordot(_COMMUTE, factors, (1, axis)), 0, axis)
    order = sorted(range(k), key=lambda j: -places[j])
    shape = [4 if m - 1 - axis in places else 1 for axis in range(m)]
    return np.broadcast_to(factors.transpose([k - 1 - j for j in order]).reshape(shape), (4,) * m)


def _apply(matrix: np.ndarray, qubits: Sequence[int], bits: np.ndarray) -> np.ndarray:
    n, k = bits.size.bit_length() - 1, len(qubits)
    axes = [n - 1 - q for q in reversed(qubits)]
    out = np.tensordot(matrix.reshape((2,) * (2 * k)), bits.reshape((2,) * n), (list(range(k, 2 * k)), axes))
    return np.moveaxis(out, range(k), axes).reshape(-1)
