"""From a circuit to the steps of `kernels`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...compile.lower import lower_gate
from ...compile.ops import MAX_DENSE, Builder, Kind, OpColumn
from ...compile.program import Program as Program
from ...errors import SimulatorError
from ...gates.base import Gate
from ...gates.instruction import BARRIER, LOOP, MEASURE, REPEAT, RESET, Instruction
from ...noise.channel import Channel
from ...noise.readout import ReadoutError
from . import trajectory_kernels as k

__all__ = ["TrajectoryProgram", "lower"]

_MEASURE = np.array([[[1, 0], [0, 0]], [[0, 0], [0, 1]]], complex)
_RESET = np.array([[[1, 0], [0, 0]], [[0, 1], [0, 0]]], complex)


@dataclass(frozen=True)
class TrajectoryProgram:
    """Steps, and the tables that they point into; `gates` has the coefficients."""

    gates: Program
    rows: np.ndarray
    ints: np.ndarray
    table: np.ndarray
    draws: int  # random numbers of a trajectory, that of the last measurement of all qubits included
    dense: int  # size of the largest matrix
    bits: int  # classical bits, those that say which lanes are in a loop included


def lower(
    instructions: Sequence[Instruction],
    num_qubits: int,
    num_clbits: int,
    parameters: tuple[str, ...],
    data: tuple[str, ...],
) -> TrajectoryProgram:
    """Return the program of gates, channels, measurements, resets and conditions."""
    maker = _Maker(num_qubits, num_clbits, parameters + data)
    for i in instructions:
        if i.gate is not BARRIER:
            maker.add(i)
    for q in range(num_qubits):
        maker.apply(q)
    gates = Program.from_builder(num_qubits, parameters, data, maker.builder)
    return TrajectoryProgram(
        gates,
        np.array(maker.rows, np.int64).reshape(-1, k.ROW),
        np.array([*maker.ints, 0], np.int64),
        np.array([*maker.table, 0.0]),
        maker.draws + 1,
        maker.dense,
        maker.bits,
    )


class _Maker:
    def __init__(self, num_qubits: int, num_clbits: int, names: tuple[str, ...]):
        self.builder, self.index = Builder(), {name: i for i, name in enumerate(names)}
        self.constants: dict[int, int] = {}
        self.rows: list[list[int]] = []
        self.ints: list[int] = []
        self.table: list[float] = []
        self.draws, self.dense, self.condition = 0, 2, -1
        self.loops: list[tuple[int, int]] = []  # rows at which those around this begin, and the bits of their lanes
        self.bits = num_clbits
        self.touched = [False] * num_qubits  # whether a chain may be more than the identity
        # and whether it is unitary: else it changes what other qubits are likely to do
        self.unitary = [True] * num_qubits

    def add(self, i: Instruction) -> None:
        self.when([*(i.condition.bits() if i.condition else ()), *((bit, 1) for _, bit in self.loops[-1:])])
        gate = i.gate
        if gate is LOOP or gate is REPEAT:
            self.loop(i)
        elif isinstance(gate, Gate):
            self.gate(i)
        elif gate is MEASURE:
            self.kraus(_MEASURE, i.qubits, i.clbits[0])
        elif gate is RESET:
            self.kraus(_RESET, i.qubits)
        elif isinstance(gate, Channel):
            self.channel(gate, i.qubits)
        elif isinstance(gate, ReadoutError):
            at = len(self.table)
            self.table += gate.matrix[1].tolist()
            self.row(k.FLIP, i.clbits[0], at, 0, self.draw())
        else:
            raise SimulatorError(f"trajectories: {gate.name} cannot be simulated")

    def when(self, bits: list[tuple[int, int]]) -> None:
        """Let rows act where these bits have these values."""
        self.condition = len(self.ints) if bits else -1
        self.ints += [len(bits), *(2 * c + value for c, value in bits)] if bits else []

    def loop(self, i: Instruction) -> None:
        """The beginning of each round, where a bit is set that holds to its end; or the end of the last."""
        for q in range(len(self.touched)):
            self.apply(q)
        if i.gate is REPEAT:
            start, _ = self.loops.pop()
            self.when([(i.clbits[0], 1)])
            self.row(k.REPEAT, start)
            return
        self.loops.append((len(self.rows), self.bits))
        for value in (0, 1):
            self.when([(i.clbits[0], value)])
            self.row(k.FLIP, self.bits, len(self.table), 0, self.draw())
            self.table += [value, value]
        self.bits += 1

    def row(self, kind: int, *integers: int) -> None:
        row = [kind, self.condition, *integers]
        self.rows.append(row + [0] * (k.ROW - len(row)))

    def draw(self) -> int:
        self.draws += 1
        return self.draws - 1

    def apply(self, q: int) -> None:
        """Bring a chain to the state, in every lane."""
        if self.touched[q]:
            self.rows.append([k.APPLY, -1, q] + [0] * (k.ROW - 3))
            self.touched[q], self.unitary[q] = False, True

    def gate(self, i: Instruction) -> None:
        first = len(self.builder.ops)
        lower_gate(self.builder, i._replace(condition=None), self.index, self.constants)
        for number in range(first, len(self.builder.ops)):
            op = self.builder.ops[number]
            kind, x, m, v, z, at = (
                op[c] for c in (OpColumn.KIND, OpColumn.X, OpColumn.M, OpColumn.V, OpColumn.Z, OpColumn.COEFFICIENT)
            )
            bits = x | m | z
            if kind != Kind.DENSE and bits.bit_count() == 1:
                q = bits.bit_length() - 1
                self.touched[q] = True
                if kind == Kind.PAIR:
                    self.row(k.TIMES, q, at)
                else:
                    self.row(k.SCALE, q, *(at + 2 * bool(j & z) if j & m == v else -1 for j in (0, bits)))
                continue
            if kind == Kind.DENSE:
                self.dense = max(self.dense, 1 << op[OpColumn.WIDTH])
            elif kind == Kind.DIAG and not bits:
                continue  # a global phase
            for q in range(bits.bit_length()):
                if bits >> q & 1:
                    self.apply(q)
            self.row(k.GATE, number)

    def channel(self, channel: Channel, qubits: tuple[int, ...]) -> None:
        probabilities = channel.pauli_probabilities
        if probabilities is not None:
            strings = np.flatnonzero(probabilities)
            strings = strings[np.argsort(-probabilities[strings], kind="stable")]
            if strings[0] == 0 and len(strings) == 1:
                return
            at, table = len(self.ints), len(self.table)
            self.ints += [len(qubits), *qubits, *strings.tolist()]
            self.table += np.cumsum(probabilities[strings]).tolist()
            self.row(k.PAULI, at, table, len(strings), self.draw())
        elif len(qubits) == 1 and channel.mixture is not None:
            weights, unitaries = channel.mixture
            table = len(self.table)
            self.table += np.cumsum(weights).tolist()
            self.table += unitaries.reshape(-1).view(float).tolist()
            self.row(k.UNITARY, qubits[0], table, len(weights), self.draw())
        else:
            self.kraus(channel.kraus, qubits)
            return
        for q in qubits:
            self.touched[q] = True

    def kraus(self, operators: np.ndarray, qubits: tuple[int, ...], clbit: int = -1) -> None:
        for q in range(len(self.unitary)):
            if not self.unitary[q] and q not in qubits:
                self.apply(q)
        table = len(self.table)
        products = operators.conj().transpose(0, 2, 1) @ operators
        self.table += np.ascontiguousarray(operators).reshape(-1).view(float).tolist()
        if len(qubits) == 1:
            for e in products:
                self.table += [e[0, 0].real, e[1, 1].real, e[0, 1].real, e[0, 1].imag]
            self.row(k.KRAUS, qubits[0], table, len(operators), self.draw(), clbit)
            self.touched[qubits[0]], self.unitary[qubits[0]] = True, False
            return
        if len(qubits) > MAX_DENSE:
            raise SimulatorError(
                f"trajectories: channels other than mixtures of Pauli strings act on at most "
                f"{MAX_DENSE} qubits, got {len(qubits)}"
            )
        self.table += np.ascontiguousarray(products).reshape(-1).view(float).tolist()
        self.dense = max(self.dense, 1 << len(qubits))
        for q in qubits:
            self.apply(q)
        at = len(self.ints)
        self.ints += [len(qubits), *qubits]
        self.row(k.KRAUS_MANY, at, table, len(operators), self.draw())
