"""A circuit made ready for the density matrix simulator: made once, run with any parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.quantum.instruction import Instruction
from triskele.quantum.parameters import Linear
from triskele.quantum.simulators.density_matrix import kernels
from triskele.quantum.simulators.density_matrix.lower import BLOCK, Segment, lower
from triskele.quantum.simulators.density_matrix.merge import Map, merge
from triskele.quantum.simulators.density_matrix.transfer import WIDEST, Wide, elements, function_table, wide_kraus
from triskele.quantum.simulators.density_matrix.vector import PauliVector

__all__ = ["Program"]

_LANES = 2  # positions inside SIMD vectors, where nothing acts


class Program:
    """Instructions without classical conditions, as segments of compiled operations and wide maps between them.

    Parameters
    ----------
    instructions : sequence of Instruction
    num_qubits : int
    names : sequence of str
        Parameters, in the order in which `run` takes their values.
    block : int
        Positions of a block that is worked on at a time.
    """

    def __init__(self, instructions: Sequence[Instruction], num_qubits: int, names: Sequence[str], block: int = BLOCK):
        self.num_qubits, self.names = num_qubits, tuple(names)
        maps = merge(e for i in instructions for e in elements(i))
        widest = max((len(m.qubits) for m in maps if isinstance(m, Map)), default=0)
        self.positions = max(num_qubits, widest + _LANES)
        self.block = max(block, widest + _LANES + 1)
        self.angles: dict[Linear, int] = {}
        self.steps: list[Segment | Wide] = []
        self.before = where = list(range(self.positions - num_qubits, self.positions))
        run: list[Map] = []
        for m in [*maps, None]:
            if isinstance(m, Map):
                run.append(m)
                continue
            if run:
                self.steps.append(lower(run, where, self.positions, self.angles, self.block))
                where, run = self.steps[-1].after, []
            if m is not None:
                self.steps.append(m)
                where = self.before
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
                for stage in step.stages:
                    run_stage(step, stage, coefficients, state.r)
                state.where = step.after
            else:
                state = self.wide(step, values, state)
        return state

    def fill(self, segment: Segment, angles: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Coefficients of a segment's operations."""
        named = dict(zip(self.names, values.tolist(), strict=True)) if segment.sources else {}
        for instruction, place, part in segment.sources:
            inner = function_table(instruction, named)[0][part[:, None], part]
            segment.table[place : place + inner.size] = inner.reshape(-1)
        coefficients = np.empty(segment.coefficients)
        kernels.fill(segment.fills, segment.table, angles, coefficients)
        return coefficients

    def wide(self, step: Wide, values: np.ndarray, state: PauliVector) -> PauliVector:
        """A map on many qubits, through the density matrix."""
        rho = state.matrix()
        bits = rho.T.reshape(-1)  # bit q is that of the row, bit n + q that of the column
        n, total = self.num_qubits, 0.0
        for k in wide_kraus(step, dict(zip(self.names, values.tolist(), strict=True))):
            total = total + _apply(k.conj(), [q + n for q in step.qubits], _apply(k, step.qubits, bits))
        return PauliVector.of(total.reshape(rho.shape).T, self.positions)


def _apply(matrix: np.ndarray, qubits: Sequence[int], bits: np.ndarray) -> np.ndarray:
    n, k = bits.size.bit_length() - 1, len(qubits)
    axes = [n - 1 - q for q in reversed(qubits)]
    out = np.tensordot(matrix.reshape((2,) * (2 * k)), bits.reshape((2,) * n), (list(range(k, 2 * k)), axes))
    return np.moveaxis(out, range(k), axes).reshape(-1)


def run_stage(segment: Segment, stage: Any, coefficients: np.ndarray, r: np.ndarray) -> None:
    """One stage of a segment on the vector r."""
    work = np.empty(8 * 4**WIDEST + (4**stage.active if stage.active < segment.positions else 0))
    kernels.run_stage(r, segment.positions, stage.active, stage.gathered, stage.outside, segment.rows, stage.first, stage.last,
                      segment.ints, coefficients, work, 0, 1)  # fmt: skip
