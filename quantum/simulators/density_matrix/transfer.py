"""Gates and channels as real matrices on vectors of Pauli expectation values.

A density matrix is held as r[P] = Tr(P rho) for all 4**n Pauli strings P, numbered as in `noise.channel.pauli_strings`.
A map of density matrices is then a real matrix R[P, Q] = Tr(P E(Q)) / 2**k. For exp(-i t G) with eigenvalues of G in
{0, g, -g}, g = 1/2 (or {0, -1}, of a phase), it is a trigonometric polynomial in t of these five functions.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from ...errors import ParameterError, SimulatorError
from ...gates.base import Gate
from ...gates.instruction import BARRIER, MEASURE, RESET, Instruction
from ...gates.primitives import Factor, exponential
from ...noise.channel import Channel, transfer_matrix
from ...parameters import LARGEST, Linear

__all__ = ["FUNCTIONS", "WIDEST", "Element", "Wide", "elements", "functions"]

FUNCTIONS = 5
WIDEST = 4  # most qubits of an operation whose transfer matrix (4**k x 4**k) is made


def functions(t: float) -> np.ndarray:
    """1, cos t/2, sin t/2, cos t, sin t."""
    return np.array([1.0, math.cos(t / 2), math.sin(t / 2), math.cos(t), math.sin(t)])


class Element(NamedTuple):
    """A map on some qubits: sum over f of function f of the angle times table[f].

    No angle: table has one row, the map.
    """

    qubits: tuple[int, ...]
    table: np.ndarray  # (1 or 5, 4**k, 4**k)
    angle: Linear | None = None
    source: Instruction | None = None  # of a gate that is a user's function: the table is made again in each run


class Wide(NamedTuple):
    """A map on more qubits than `WIDEST`, done on the density matrix itself."""

    qubits: tuple[int, ...]
    instruction: Instruction
    factor: Factor | None = None  # its primitive acts on the first qubits, the rest are controls
    angle: Linear | float = 0.0  # of the factor


def elements(instruction: Instruction) -> list[Element | Wide]:
    """Return the maps of an instruction, in order; none for a barrier. Measuring without looking at the outcome is a
    map, too: it removes the coherences.
    """
    gate = instruction.gate
    if isinstance(gate, Gate):
        return _gate_elements(instruction)
    if gate is BARRIER:
        return []
    if gate is MEASURE:
        return [Element(instruction.qubits, _DEPHASE)]
    if gate is RESET:
        return [Element(instruction.qubits, _RESET)]
    if isinstance(gate, Channel):
        if gate.num_qubits > WIDEST:
            return [Wide(instruction.qubits, instruction)]
        return [Element(instruction.qubits, _channel_table(gate))]
    raise SimulatorError(f"density_matrix: {gate.name} cannot be simulated")


def _gate_elements(instruction: Instruction) -> list[Element | Wide]:
    gate, controls = instruction.gate, instruction.controls
    if gate.factors is None or not instruction.params:
        qubits = (*instruction.qubits, *controls)
        if len(qubits) > WIDEST:
            return [Wide(qubits, instruction)]
        if gate.function is None:
            table = gate.kept(
                ("transfer", len(controls)),
                lambda: _clean(_unitary_map(_controlled(gate.matrix(), len(controls)))[None]),
            )
            return [Element(qubits, table)] if qubits else []
        return [Element(qubits, np.ones((1, 4 ** len(qubits), 4 ** len(qubits))), None, instruction)]
    found: list[Element | Wide] = []
    for factor in gate.factors:
        qubits = (*(instruction.qubits[q] for q in factor.qubits), *controls)
        angle = factor.angle(instruction.params)
        for number in (angle.constant, *(c for _, c in angle.terms)) if isinstance(angle, Linear) else (angle,):
            if not abs(number) <= LARGEST:
                raise ParameterError(
                    f"run: angles, and coefficients in them, must be at most {LARGEST:g}, got {number}"
                )
        if not qubits:
            continue  # a global phase
        if len(qubits) > WIDEST:
            found.append(Wide(qubits, instruction, factor, angle))
        elif isinstance(angle, Linear):
            found.append(Element(qubits, factor_table(factor.primitive, len(controls)), angle))
        else:
            table = factor_table(factor.primitive, len(controls))
            found.append(Element(qubits, np.tensordot(functions(angle), table, 1)[None]))
    return found


@functools.lru_cache(256)
def factor_table(primitive: Any, controls: int) -> np.ndarray:
    """(5, 4**k, 4**k): the transfer matrix of a primitive with controls after its qubits, as a trigonometric
    polynomial.
    """
    samples = np.array(
        [
            _unitary_map(_controlled(exponential(primitive, 4 * math.pi * j / FUNCTIONS), controls))
            for j in range(FUNCTIONS)
        ]
    )
    # half the angles of the samples: frequencies are 0, 1 and 2
    angles = 2 * math.pi * np.arange(FUNCTIONS) / FUNCTIONS
    weights = np.array([np.ones(FUNCTIONS), *(2 * f(k * angles) for k in (1, 2) for f in (np.cos, np.sin))]) / FUNCTIONS
    return _clean(np.tensordot(weights, samples, 1))


@functools.lru_cache(128)
def _channel_table(channel: Channel) -> np.ndarray:
    return _clean(channel.transfer_matrix()[None])


def function_table(instruction: Instruction, values: dict[str, float]) -> np.ndarray:
    """(1, 4**k, 4**k) of a gate that is a user's function, for these parameter values."""
    return _unitary_map(instruction.matrix(values))[None]


def _unitary_map(unitary: np.ndarray) -> np.ndarray:
    return transfer_matrix(np.asarray(unitary)[None])


def _controlled(matrix: np.ndarray, controls: int) -> np.ndarray:
    size = len(matrix) << controls
    total = np.eye(size, dtype=complex)
    total[size - len(matrix) :, size - len(matrix) :] = matrix
    return total


def _clean(table: np.ndarray) -> np.ndarray:
    """Rounding errors where there is nothing would hide the structure; 0 and 1 are exact."""
    nearest = np.rint(table)
    table = np.where(np.abs(table - nearest) < 4e-16 * table.shape[1], nearest, table) + 0.0
    table.flags.writeable = False
    return table


def project(outcome: int) -> np.ndarray:
    """(1, 4, 4) map of a measurement that gave `outcome`; the trace becomes its probability."""
    return _clean(transfer_matrix(np.diag([1.0 - outcome, float(outcome)]).astype(complex)[None])[None])


_DEPHASE = project(0) + project(1)
_RESET = _clean(transfer_matrix(np.array([[[1, 0], [0, 0]], [[0, 1], [0, 0]]], complex))[None])


def wide_kraus(wide: Wide, values: dict[str, float]) -> np.ndarray:
    """Kraus operators of a wide map for these parameter values."""
    if wide.factor is None:
        gate = wide.instruction.gate
        return gate.kraus if isinstance(gate, Channel) else wide.instruction.matrix(values)[None]
    t = wide.angle(values) if isinstance(wide.angle, Linear) else wide.angle
    return _controlled(exponential(wide.factor.primitive, t), len(wide.qubits) - len(wide.factor.qubits))[None]
