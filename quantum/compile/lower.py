"""Instructions to op tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SimulatorError
from ..gates.base import Gate
from ..gates.instruction import BARRIER, Instruction
from ..gates.primitives import Pair, Phase, Rotation
from ..parameters import Linear
from .fuse import fuse as fused
from .ops import MAX_DENSE, Builder, Form, Kind, Recipe
from .program import Program

if TYPE_CHECKING:
    from ..circuit import Circuit

__all__ = ["lower", "lower_gate"]


def lower(circuit: Circuit, fuse: bool = True) -> Program:
    """Return the program of a circuit of gates and barriers on at most 62 qubits, cached until the circuit changes.

    With `fuse`, gates are merged where that saves work; without it, each factor of each gate is an op, in their order.
    """
    kept, key = circuit._programs, (len(circuit), circuit._data)
    if fuse in kept and kept["key"] == key:
        return kept[fuse]
    if kept.get("key") != key:
        kept.clear()
        kept["key"] = key
    if fuse not in kept:
        if fuse:
            kept[True] = fused(lower(circuit, False))
        else:
            builder, parameters, data = _build(circuit)
            kept[False] = Program.from_builder(circuit.num_qubits, parameters, data, builder)
    return kept[fuse]


def _build(circuit: Circuit) -> tuple[Builder, tuple[str, ...], tuple[str, ...]]:
    """Op tables of a circuit of gates, one op for each factor, and the names of parameters and data."""
    if circuit.num_qubits > 62:
        raise SimulatorError(
            f"a state of {circuit.num_qubits} qubits has more amplitudes than memory has addresses "
            f"(the stabilizer simulator has no such limit)"
        )
    parameters, data = circuit.parameters, circuit.data
    index = {name: i for i, name in enumerate(parameters + data)}
    builder = Builder()
    constants: dict[int, int] = {}
    for instruction in circuit._instructions:
        if instruction.gate is not BARRIER:
            lower_gate(builder, instruction, index, constants)
    return builder, parameters, data


def lower_gate(builder: Builder, instruction: Instruction, index: dict[str, int], constants: dict[int, int]) -> None:
    """Add the ops of one gate without a classical condition.

    `index` holds the place of each parameter name among the values. `constants` holds the places of constant matrices
    that were added before; all gates of a builder share it.
    """
    gate, qubits, params, controls, _, condition = instruction
    if condition is not None or not isinstance(gate, Gate):
        what = f"{gate.name} under a classical condition" if condition is not None else gate.name
        raise SimulatorError(
            f"{what} on qubits {list(qubits)} is not a gate (give shots=..., or use the "
            f"density_matrix "
            f"or trajectories simulator)"
        )
    control = 0
    for q in controls:
        control |= 1 << q
    if gate.constant is not None:
        _constant(builder, gate, qubits, control, constants)
    elif gate.factors is not None:
        single = len(params) == 1
        for factor in gate.factors:
            if single:  # by far the most frequent
                p, c = params[0], factor.coefficients[0]
                if type(p) is Linear:
                    angle = builder.angle([(index[n], c * k) for n, k in p.terms], factor.constant + c * p.constant)
                else:
                    angle = builder.angle([], factor.constant + c * p)
            else:
                angle = _angle(builder, factor.angle(params), index)
            _factor(builder, factor.primitive, [qubits[q] for q in factor.qubits], control, angle)
    else:
        _dense_size(gate, qubits)
        angles = tuple(_angle(builder, p, index) for p in params)
        at = builder.reserve(4 ** len(qubits))
        builder.functions.append((at, gate, angles))
        if len(qubits) == 1:
            builder.pair(1 << qubits[0], control, control, 0, at)
        else:
            builder.dense(tuple(qubits), control, control, at)


def _angle(builder: Builder, expression: Any, index: dict[str, int]) -> int:
    if type(expression) is Linear:
        return builder.angle([(index[n], c) for n, c in expression.terms], expression.constant)
    return builder.angle([], float(expression))


def _factor(builder: Builder, primitive: Any, qubits: list[int], control: int, angle: int) -> None:
    if type(primitive) is Rotation:
        x = z = 0
        for q, p in zip(qubits, primitive.paulis, strict=True):
            if p != "Z":
                x |= 1 << q
            if p != "X":
                z |= 1 << q
        if not x:
            builder.diagonal(control, control, z, builder.recipe(Recipe.ROTATION, 2, angle))
            return
        # P = i^w X^x Z^z with w the number of Y; b = -i (-i)^w sin(t/2), c = -i i^w sin(t/2)
        w = (x & z).bit_count() % 4
        form, recipe = (Form.REAL, Recipe.PAIR_REAL) if w % 2 else (Form.IMAGINARY, Recipe.PAIR_IMAGINARY)
        builder.pair(x, control, control, z, builder.recipe(recipe, 4, angle, 1 if w < 2 else -1), form)
    elif type(primitive) is Phase:
        for q in qubits:
            control |= 1 << q
        builder.diagonal(control, control, 0, builder.recipe(Recipe.PHASE, 2, angle))
    elif type(primitive) is Pair:

        def place(mask: int) -> int:
            return sum(1 << q for i, q in enumerate(qubits) if mask >> i & 1)

        a, b, sign = place(primitive.a), place(primitive.b), 1
        if b < a:  # the state whose highest differing bit is 0 comes first
            a, b, sign = b, a, -1
        fixed = place(((1 << primitive.qubits) - 1) & ~primitive.free)
        form, recipe = (Form.IMAGINARY, Recipe.PAIR_IMAGINARY) if primitive.imaginary else (Form.REAL, Recipe.PAIR_REAL)
        at = builder.recipe(recipe, 4, angle, 1 if primitive.imaginary else sign)
        builder.pair(a ^ b, fixed | control, a | control, place(primitive.parity), at, form)
    else:
        raise SimulatorError(f"a factor must be a Rotation, Phase or Pair, got {primitive!r}")


def _dense_size(gate: Gate, qubits: tuple[int, ...]) -> None:
    if len(qubits) > MAX_DENSE:
        raise SimulatorError(
            f"{gate.name}: matrices on at most {MAX_DENSE} qubits, got {len(qubits)} (make a circuit "
            f"of it: state preparation, decompositions)"
        )


def _constant(builder: Builder, gate: Gate, qubits: tuple[int, ...], control: int, constants: dict[int, int]) -> None:
    found = gate.__dict__.get("_shape")  # kept with the gate; looked up without a call, for every gate of a circuit
    if found is None:
        found = gate.__dict__["_shape"] = shape(gate.matrix())
    kind, form, x, m, v, z, coefficients = found
    if coefficients is None:
        return  # the identity
    if len(qubits) == 1 and kind != Kind.DENSE:
        q = qubits[0]
        x, m, v, z = x << q, m << q, v << q, z << q
    elif kind != Kind.DENSE:
        x, m, v, z = (sum(1 << q for i, q in enumerate(qubits) if mask >> i & 1) for mask in (x, m, v, z))
    key = id(gate)
    if kind == Kind.PAIR and v >> (x.bit_length() - 1) & 1:  # the other state of the plane is the one that comes first
        v, coefficients, key = v ^ x, coefficients[::-1], ~key
    at = constants.get(key)
    if at is None:
        at = constants[key] = builder.constant(coefficients)
    if kind == Kind.DENSE:
        _dense_size(gate, qubits)
        builder.dense(tuple(qubits), control, control, at)
        return
    if kind == Kind.PAIR:
        builder.pair(x, m | control, v | control, z, at, form)
    else:
        builder.diagonal(m | control, v | control, z, at)


def shape(matrix: np.ndarray) -> tuple[int, int, int, int, int, int, np.ndarray | None]:
    """Kind, form, x, m, v, z (as masks of the matrix's own bits) and coefficients of the cheapest op that is this
    matrix.
    """
    size = len(matrix)
    k = size.bit_length() - 1
    full = size - 1
    diagonal = np.diagonal(matrix)
    if not np.count_nonzero(matrix - np.diag(diagonal)):
        changed = np.flatnonzero(diagonal != 1)
        if not len(changed):
            return Kind.DIAG, 0, 0, 0, 0, 0, None
        if len(changed) == 1:
            return Kind.DIAG, 0, 0, full, int(changed[0]), 0, np.repeat(diagonal[changed], 2)
        if k == 1:
            return Kind.DIAG, 0, 0, 0, 0, 1, diagonal
        if np.all(diagonal == diagonal[0]):
            return Kind.DIAG, 0, 0, 0, 0, 0, np.repeat(diagonal[:1], 2)
        return Kind.DENSE, 0, full, 0, 0, 0, matrix
    if k == 1:
        return Kind.PAIR, form_of(matrix), 1, 0, 0, 0, matrix.ravel()
    rows, columns = np.nonzero(matrix - np.eye(size))
    planes = {frozenset((int(r), int(c))) for r, c in zip(rows, columns, strict=True) if r != c}
    if len(planes) == 1 and all(
        {int(r), int(c)} <= set(next(iter(planes))) for r, c in zip(rows, columns, strict=True)
    ):
        a, b = sorted(next(iter(planes)))
        block = matrix[np.ix_([a, b], [a, b])]
        return Kind.PAIR, form_of(block), a ^ b, full, a, 0, block.ravel()
    return Kind.DENSE, 0, full, 0, 0, 0, matrix


def form_of(matrix: np.ndarray) -> int:
    """The form of a 2x2 matrix."""
    (a, b), (c, d) = matrix
    if a == d == 0 and b == c == 1:
        return Form.SWAP
    if not np.any(np.imag(matrix)):
        return Form.REAL
    if a.imag == d.imag == b.real == c.real == 0:
        return Form.IMAGINARY
    return Form.GENERAL
