"""Clifford circuits as arrays for the kernels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...circuit import Circuit
from ...errors import SimulatorError
from ...gates.base import Gate, find
from ...gates.instruction import BARRIER, MEASURE, RESET, Condition, Instruction
from ...gates.primitives import Rotation
from ...noise.readout import ReadoutError
from ...parameters import Linear
from . import tableau_kernels as kernels
from .clifford import MOST_QUBITS, Action, action

__all__ = ["TableauProgram", "lower", "run"]


class TableauProgram(NamedTuple):
    """Operations in order. What begins with `..._start` has one entry more, the end of the last."""

    kind: np.ndarray  # [ops] uint8: GATE, MEASURE, RESET, NOISE, READ
    what: np.ndarray  # [ops] int64: number of the action, channel or reading, or classical bit of a measurement
    start: np.ndarray  # [ops + 1] int64, into qubits (of READ: the classical bit)
    qubits: np.ndarray
    condition_start: np.ndarray  # [ops + 1], into condition_bits (classical bits) and condition_values (0 or 1)
    condition_bits: np.ndarray
    condition_values: np.ndarray
    linear: np.ndarray  # [actions, 8] int64
    monomial_start: np.ndarray  # [actions + 1], into monomials
    monomials: np.ndarray
    # [channels + 1], into noise_cumulative (probabilities) and noise_strings (base-4 digits x + 2z)
    noise_start: np.ndarray
    noise_cumulative: np.ndarray
    noise_strings: np.ndarray
    readings: np.ndarray  # [readings, 2] float64: probability of reading 1 where 0, and where 1, was measured


class _Builder:
    def __init__(self) -> None:
        self.ops: list[tuple[int, int, tuple[int, ...], Condition | None]] = []
        self.actions: dict[Action, int] = {}
        self.channels: dict[Any, int] = {}
        self.readings: list[np.ndarray] = []
        self.known: dict[Any, list[tuple[Action, tuple[int, ...]]]] = {}  # by gate: actions on some of its qubits
        self.framed = True  # whether frames can follow it: all conditions are on Pauli strings

    def add(
        self, kind: int, what: int, qubits: tuple[int, ...], condition: Condition | None, is_pauli: bool = False
    ) -> None:
        self.framed &= condition is None or is_pauli
        self.ops.append((kind, what, qubits, condition))

    def gate(self, number: int, i: Instruction) -> None:
        key = (i.gate, i.params, len(i.controls))
        wires = (*i.qubits, *i.controls)
        if key not in self.known:
            self.known[key] = _actions(number, i)
        for act, places in self.known[key]:
            self.add(
                kernels.GATE,
                self.actions.setdefault(act, len(self.actions)),
                tuple(wires[p] for p in places),
                i.condition,
                act.is_pauli,
            )

    def channel(self, number: int, i: Instruction) -> None:
        p = getattr(i.gate, "pauli_probabilities", None)
        if p is None:
            raise SimulatorError(
                f"stabilizer: instruction {number}, {i.gate.name} on qubits {list(i.qubits)}, must be a Clifford gate, "
                f"a measurement, "
                "a reset or a Pauli channel (use simulator='trajectories' or 'density_matrix')"
            )
        self.add(kernels.NOISE, self.channels.setdefault(i.gate, len(self.channels)), i.qubits, i.condition)

    def finish(self) -> TableauProgram:
        conditions = [
            [] if c is None else [(b, c.value >> k & 1) for k, b in enumerate(c.clbits)] for *_, c in self.ops
        ]
        linear = np.zeros((len(self.actions), 8), np.int64)
        for act, k in self.actions.items():
            linear[k, : len(act.linear)] = act.linear
        tables = [np.flatnonzero(channel.pauli_probabilities) for channel in self.channels]
        return TableauProgram(
            np.array([op[0] for op in self.ops], np.uint8),
            np.array([op[1] for op in self.ops], np.int64),
            *_ragged([op[2] for op in self.ops], np.int64),
            *_ragged([[b for b, _ in c] for c in conditions], np.int64),
            _ragged([[v for _, v in c] for c in conditions], np.uint8)[1],
            linear,
            *_ragged([act.signs for act in self.actions], np.int64),
            *_ragged([np.cumsum(c.pauli_probabilities[t]) for c, t in zip(self.channels, tables)], np.float64),
            _ragged(tables, np.int64)[1],
            np.array(self.readings, float).reshape(-1, 2),
        )


def _ragged(rows: list[Any], dtype: Any) -> tuple[np.ndarray, np.ndarray]:
    start = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([len(r) for r in rows], out=start[1:])
    return start, np.concatenate([np.zeros(0, dtype), *rows]).astype(dtype)


def lower(circuit: Circuit, values: dict[str, float]) -> tuple[TableauProgram, bool]:
    """Return a Clifford circuit with Pauli channels as arrays, and True if Pauli frames can sample it."""
    builder = _Builder()
    for number, i in enumerate(circuit):
        if i.gate is BARRIER:
            continue
        if i.gate is MEASURE:
            builder.add(kernels.MEASURE, i.clbits[0], i.qubits, i.condition)
        elif i.gate is RESET:
            builder.add(kernels.RESET, 0, i.qubits, i.condition)
        elif isinstance(i.gate, ReadoutError):
            builder.add(kernels.READ, len(builder.readings), i.clbits, i.condition)
            builder.readings.append(i.gate.matrix[1])
        elif isinstance(i.gate, Gate):
            builder.gate(number, _bound(i, values))
        else:
            builder.channel(number, i)
    return builder.finish(), builder.framed


def run(
    program: TableauProgram, x: np.ndarray, z: np.ndarray, signs: np.ndarray, bits: np.ndarray | None = None
) -> np.ndarray:
    """Apply a program to a tableau in place, and return the log of its measurements."""
    bits = np.zeros(0, np.uint8) if bits is None else bits
    return kernels.run_tableau(program, x, z, signs, bits, np.uint32(0), np.uint32(0), 0, False)


def _bound(i: Instruction, values: dict[str, float]) -> Instruction:
    return i._replace(params=tuple(p(values) if type(p) is Linear else p for p in i.params)) if i.params else i


def _actions(number: int, i: Instruction) -> list[tuple[Action, tuple[int, ...]]]:
    """Return a gate as actions on positions among its qubits and controls."""
    k = len(i.qubits) + len(i.controls)
    if k == 0:
        return []  # a global phase, which no stabilizer sees
    if k <= MOST_QUBITS:
        found = action(i.matrix())
        if found is not None:
            return [(found, tuple(range(k)))] if found.signs or not found.is_pauli else []
    elif not i.controls and i.gate.factors and all(isinstance(f.primitive, Rotation) for f in i.gate.factors):
        quarters = [f.angle(i.params) / (math.pi / 2) for f in i.gate.factors]
        if all(abs(t - round(t)) < 1e-9 for t in quarters):
            return [
                step
                for f, t in zip(i.gate.factors, quarters)
                for step in _pauli_rotation(f.primitive.paulis, f.qubits, round(t) % 4)
            ]
    angles = f"({', '.join(f'{p:.12g}' for p in i.params)})" if i.params else ""
    what = "c" * len(i.controls) + i.gate.name + angles
    hint = "rotations by multiples of pi/2 are" if i.params else "H, S, CX and products of them are"
    hint = f"matrices of more than {MOST_QUBITS} qubits are not looked at" if k > MOST_QUBITS and not i.params else hint
    raise SimulatorError(
        f"stabilizer: instruction {number}, {what} on qubits {[*i.controls, *i.qubits]}, is not a "
        f"Clifford gate ({hint}; "
        "use simulator='statevector')"
    )


def _pauli_rotation(paulis: str, places: tuple[int, ...], quarters: int) -> list[tuple[Any, tuple[int, ...]]]:
    """exp(-i pi/4 quarters P) by a basis change, a ladder of CX and a phase gate."""
    if quarters == 0:
        return []

    def step(name: str, *on: int) -> tuple[Any, tuple[int, ...]]:
        return action(
            Instruction(find("x"), on[1:], controls=on[:1]).matrix() if name == "cx" else find(name).matrix()
        ), on[::-1] if name == "cx" else on

    change = [step(name, q) for p, q in zip(paulis, places) for name in {"X": ("h",), "Y": ("sdg", "h"), "Z": ()}[p]]
    back = [step(name, q) for p, q in zip(paulis, places) for name in {"X": ("h",), "Y": ("h", "s"), "Z": ()}[p]]
    ladder = [step("cx", a, b) for a, b in zip(places, places[1:])]
    return [*change, *ladder, step({1: "s", 2: "z", 3: "sdg"}[quarters], places[-1]), *reversed(ladder), *back]
