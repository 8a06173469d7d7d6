"""Circuits that keep the number of particles, as rotations of pairs of numbers in one real vector.

An excitation turns pairs of amplitudes, (p, q) -> (c p - s q, s p + c q). With real and imaginary parts as numbers of
their own so does every other gate: exp(i t) turns (re p, im p), an imaginary pair turns (im q, re p) and (im p, re q).
What only exchanges numbers or changes their signs costs nothing: it is kept as where each number is and with which
sign. Basis states that no gate has reached are not there at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import gates
from ...compile.lower import lower_gate
from ...compile.ops import MAX_DENSE, Builder, Kind, OpColumn, Recipe
from ...compile.program import Program
from ...errors import SimulatorError
from ...gates.instruction import BARRIER, Instruction

if TYPE_CHECKING:
    from ...circuit import Circuit

__all__ = ["Turns", "build", "find"]

LANES = 8  # vectors are padded to a multiple


@dataclass(frozen=True, eq=False)
class Turns:
    """A circuit as rotations.

    Component ``planes * i + k`` is the real (k = 0) or imaginary part of the amplitude of ``states[i]``; at the end it
    is ``signs * vector[where]``.
    """

    program: Program  # tables of angles, and names of values
    states: np.ndarray  # (S,) int64, basis states in the order in which they are reached
    planes: int  # 1 if all amplitudes are real, else 2
    where: np.ndarray  # (planes * S,) int64
    signs: np.ndarray  # (planes * S,) float64
    start: np.ndarray  # (N,) float64, the vector before the circuit; N is a multiple of 8
    rows: np.ndarray  # (K, 3) int64: for each rotation, its angle or -1, and the range of its pairs
    numbers: np.ndarray  # (K, 3) float64: factor of the angle; cosine and sine where there is none
    pairs: np.ndarray  # (T, 2) int32

    def amplitudes(self, vector: np.ndarray) -> np.ndarray:
        """(S,) complex amplitudes of `states`."""
        parts = (self.signs * vector[self.where]).reshape(-1, self.planes)
        return parts[:, 0] + 1j * parts[:, 1] if self.planes == 2 else parts[:, 0].astype(complex)


def build(circuit: Circuit, initial: np.ndarray | None = None) -> Turns:
    """Return the rotations of a circuit, cached until it changes if it begins with |0...0>. Its gates must conserve the
    number of particles, but X gates may prepare a basis state.
    """
    key, kept = (len(circuit._instructions), circuit._data), circuit._programs.get("subspace")
    if initial is None and kept is not None and kept[0] == key:
        return kept[1]
    if circuit.num_qubits > 62:
        raise SimulatorError(f"subspace: at most 62 qubits, got {circuit.num_qubits}")
    builder, flipped = _lower(circuit)
    states, amplitudes = np.zeros(1, np.int64), np.ones(1, complex)
    if initial is not None:
        states = np.flatnonzero(initial)
        amplitudes = np.asarray(initial, complex)[states]
    recipes = {r[1]: (r[0], r[2], r[3]) for r in builder.recipes}
    constants = np.array(builder.coefficients).view(complex)
    real = not amplitudes.imag.any() and all(_is_real(op, recipes, constants) for op in builder.ops)
    work = _Work(circuit.num_qubits, states ^ flipped, amplitudes, 1 if real else 2)
    for op in builder.ops:
        at = op[OpColumn.COEFFICIENT]
        work.op(op, recipes.get(at), constants[at // 2 :])
    program = Program.from_builder(circuit.num_qubits, circuit.parameters, circuit.data, builder)
    turns = work.finish(program)
    if initial is None:
        circuit._programs["subspace"] = (key, turns)
    return turns


class _Table(Builder):
    """Op tables with one op an excitation, however many modes it has."""

    def pair(self, x: int, m: int, v: int, z: int, coefficient: int, form: int = 0) -> None:
        pivot = 1 << (x.bit_length() - 1)
        self.ops.append((Kind.PAIR, form, x, m & ~pivot, v & ~pivot, z & ~pivot, coefficient, 1, *(-1,) * MAX_DENSE))


def _lower(circuit: Circuit) -> tuple[_Table, int]:
    """Op table of a circuit, and the mask of the X gates that prepare a basis state."""
    builder, flipped = _Table(), 0
    touched: set[int] = set()
    index = {name: i for i, name in enumerate(circuit.parameters + circuit.data)}
    constants: dict[int, int] = {}
    x = gates.find("x")
    for number, i in enumerate(circuit._instructions):
        if i.gate is BARRIER:
            continue
        if i.gate is x and not i.controls and i.condition is None and i.qubits[0] not in touched:
            flipped ^= 1 << i.qubits[0]
            continue
        touched.update(i.qubits, i.controls)
        if isinstance(i.gate, gates.Gate) and i.gate.function is not None:
            raise SimulatorError(
                f"subspace: {_named(i, number)} is a function of its parameters, and nothing is "
                f"known (use simulator='statevector')"
            )
        first = len(builder.ops)
        lower_gate(builder, i, index, constants)
        if not all(_conserves(op, builder.coefficients) for op in builder.ops[first:]):
            raise SimulatorError(
                f"subspace: {_named(i, number)} does not conserve the number of particles (use simulator='statevector')"
            )
    return builder, flipped


def _named(i: Instruction, number: int) -> str:
    controls = f" controlled by {list(i.controls)}" if i.controls else ""
    return f"gate {i.gate.name} (instruction {number}) on qubits {list(i.qubits)}{controls}"


def _conserves(op: Sequence[int], coefficients: list[float]) -> bool:
    kind, _, x, m, v, _, at, width = op[:8]
    if kind == Kind.DIAG:
        return True
    if kind == Kind.PAIR:  # the pattern of all bits of x is fixed, and as many go up as down
        pivot = 1 << (x.bit_length() - 1)
        return not x & ~(m | pivot) and 2 * (v & x).bit_count() == x.bit_count()
    matrix = _matrix(np.array(coefficients[at : at + 2 * 4**width]).view(complex), width)
    number = np.bitwise_count(np.arange(1 << width))
    return not np.any(matrix[number[:, None] != number])


def _matrix(coefficients: np.ndarray, width: int) -> np.ndarray:
    return coefficients[: 4**width].reshape(1 << width, -1)


def _is_real(op: Sequence[int], recipes: dict[int, Any], constants: np.ndarray) -> bool:
    kind, at = op[OpColumn.KIND], op[OpColumn.COEFFICIENT]
    if at in recipes:
        return recipes[at][0] == Recipe.PAIR_REAL
    size = 2 if kind == Kind.DIAG else 4 if kind == Kind.PAIR else 4 ** op[OpColumn.WIDTH]
    return not constants[at // 2 : at // 2 + size].imag.any()


def find(states: np.ndarray, order: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Places of `wanted` among `states`, -1 where they are not; `order` sorts the states."""
    place = np.minimum(np.searchsorted(states, wanted, sorter=order), len(states) - 1)
    found = order[place]
    return np.where(states[found] == wanted, found, -1)


def odd(states: np.ndarray, z: int) -> np.ndarray:
    """Return True if an odd number of the bits of z is set."""
    return (np.bitwise_count(states & z) & 1).astype(bool)


class _Work:
    """The rotations while they are made."""

    def __init__(self, num_qubits: int, states: np.ndarray, amplitudes: np.ndarray, planes: int):
        self.n, self.planes, self.roomy = num_qubits, planes, 1 << 20
        self.states, self.order = states, np.argsort(states)
        self.start = np.stack([amplitudes.real, amplitudes.imag], axis=1)[:, :planes].ravel()
        self.where, self.signs = np.arange(len(self.start)), np.ones(len(self.start))
        self.rows: list[tuple[int, int, int]] = []
        self.numbers: list[tuple[float, float, float]] = []
        self.pairs: list[np.ndarray] = []
        self.count = 0

    def reach(self, wanted: np.ndarray) -> np.ndarray:
        """Places of states; those that are not there yet are added."""
        found = find(self.states, self.order, wanted)
        new = wanted[found < 0]
        if len(new):
            self.states = np.concatenate([self.states, new])
            self.order = np.argsort(self.states, kind="stable")
            count = self.planes * len(self.states)
            if count > self.roomy:
                from ..statevector.simulator import check_memory

                check_memory("subspace", self.n, 400 * count)
                self.roomy = 2 * count
            self.where = np.concatenate([self.where, np.arange(len(self.where), count)])
            self.signs = np.concatenate([self.signs, np.ones(count - len(self.signs))])
            found = find(self.states, self.order, wanted)
        return found

    def parts(self, places: np.ndarray) -> list[np.ndarray]:
        """Components of the real and the imaginary parts."""
        return [self.planes * places + k for k in range(self.planes)]

    def op(self, op: Sequence[int], recipe: tuple[int, int, int] | None, c: np.ndarray) -> None:
        kind, _, x, m, v, z, _, width = op[:8]
        if kind == Kind.DENSE:
            self.dense(_matrix(c, width), op[OpColumn.BITS : OpColumn.BITS + width], m, v)
            return
        if kind == Kind.DIAG:
            places = np.flatnonzero((self.states & m) == v)
            flip = odd(self.states[places], z)
            if recipe is None:
                self.multiply(places[~flip], c[0])
                self.multiply(places[flip], c[1])
            else:
                kind_of, angle, sign = recipe
                # exp(-i t/2) where the parity is even, exp(i t/2) where it is odd
                rotation = kind_of == Recipe.ROTATION
                backward = (~flip if rotation else np.zeros_like(flip)) ^ (sign < 0)
                real, imaginary = self.parts(places)
                self.turn(real, imaginary, backward, angle, 0.5 if rotation else 1.0)
            return
        pivot = 1 << (x.bit_length() - 1)
        lower = np.concatenate([self.states, self.states ^ x])
        lower = np.unique(lower[((lower & m) == v) & (lower & pivot == 0)])
        p, q = self.reach(lower), self.reach(lower ^ x)
        flip = odd(lower, z)
        if recipe is None:
            self.fixed(p, q, flip, c[:4])
        elif recipe[0] == Recipe.PAIR_REAL:
            self.turn(
                np.concatenate(self.parts(p)),
                np.concatenate(self.parts(q)),
                np.tile(flip ^ (recipe[2] < 0), self.planes),
                recipe[1],
                0.5,
            )
        else:
            (pr, pi), (qr, qi) = self.parts(p), self.parts(q)
            self.turn(
                np.concatenate([qi, pi]), np.concatenate([pr, qr]), np.tile(flip ^ (recipe[2] < 0), 2), recipe[1], 0.5
            )

    def turn(
        self,
        first: np.ndarray,
        second: np.ndarray,
        flip: np.ndarray,
        angle: int,
        scale: float,
        cosine: float = 1.0,
        sine: float = 0.0,
    ) -> None:
        """Rotation of components by angles[angle] * scale, the other way where `flip`; angle -1: by cosine and sine."""
        if not len(first):
            return
        flip = flip ^ (self.signs[first] != self.signs[second])
        x, y = self.where[first], self.where[second]
        self.pairs.append(np.stack([np.where(flip, y, x), np.where(flip, x, y)], axis=1))
        self.rows.append((angle, self.count, self.count + len(first)))
        self.numbers.append((scale, cosine, sine))
        self.count += len(first)

    def multiply(self, places: np.ndarray, factor: complex) -> None:
        """Amplitudes times a number of modulus 1."""
        if factor == 1 or not len(places):
            return
        if factor == -1 or self.planes == 1:
            for part in self.parts(places):
                self.signs[part] *= np.sign(factor.real)
            return
        real, imaginary = self.parts(places)
        if factor in (1j, -1j):
            self.exchange(real, imaginary)
            self.signs[real if factor == 1j else imaginary] *= -1
        else:
            self.turn(real, imaginary, np.zeros(len(places), bool), -1, 0.0, factor.real, factor.imag)

    def exchange(self, first: np.ndarray, second: np.ndarray) -> None:
        for array in (self.where, self.signs):
            array[first], array[second] = array[second], array[first]

    def fixed(self, p: np.ndarray, q: np.ndarray, flip: np.ndarray, matrix: np.ndarray) -> None:
        """A constant 2x2 unitary, ((a, b), (c, d)) = diag(u, w) ((cos, -sin), (sin, cos)) diag(1, y), -b and -c where
        `flip`.
        """
        a, b, c, d = (complex(e) for e in matrix)
        if not abs(b) and not abs(c):
            self.multiply(p, a)
            self.multiply(q, d)
            return
        if not abs(a) and not abs(d):
            for mine, its in zip(self.parts(p), self.parts(q), strict=True):
                self.exchange(mine, its)
            for places, factor in ((p, b), (q, c)):
                self.multiply(places[~flip], factor)
                self.multiply(places[flip], -factor)
            return
        u, w = a / abs(a), c / abs(c)
        self.multiply(q, d / abs(d) / w)
        both = np.concatenate(self.parts(p)), np.concatenate(self.parts(q))
        self.turn(*both, np.tile(flip, self.planes), -1, 0.0, abs(a), abs(c))
        self.multiply(p, u)
        self.multiply(q, w)

    def dense(self, matrix: np.ndarray, bits: Sequence[int], m: int, v: int) -> None:
        """A constant unitary on `bits` where ``states & m == v``, as products of rotations of two basis states
        (Givens).
        """
        mask = sum(1 << b for b in bits)
        at = [sum(1 << b for i, b in enumerate(bits) if j >> i & 1) for j in range(len(matrix))]
        rest, steps = matrix.astype(complex), []
        for column in range(len(matrix)):
            for row in range(column + 1, len(matrix)):
                a, b = rest[column, column], rest[row, column]
                if b:
                    u = np.array([[a.conjugate(), b.conjugate()], [-b, a]]) / np.hypot(abs(a), abs(b))
                    rest[[column, row]] = u @ rest[[column, row]]
                    rest[row, column] = 0
                    steps.append((column, row, u.conj().T.ravel()))
        for j, factor in enumerate(np.diagonal(rest)):
            self.multiply(np.flatnonzero((self.states & (m | mask)) == v | at[j]), complex(factor / abs(factor)))
        for i, j, u in reversed(steps):
            x = at[i] ^ at[j]
            states = np.concatenate([self.states, self.states ^ x])
            states = np.unique(states[(states & (m | mask)) == v | at[i]])
            self.fixed(self.reach(states), self.reach(states ^ x), np.zeros(len(states), bool), u)

    def finish(self, program: Program) -> Turns:
        start = np.zeros(-(-len(self.where) // LANES) * LANES)
        start[: len(self.start)] = self.start
        pairs = np.concatenate(self.pairs) if self.pairs else np.zeros((0, 2))
        return Turns(
            program,
            self.states,
            self.planes,
            self.where,
            self.signs,
            start,
            np.array(self.rows, np.int64).reshape(-1, 3),
            np.array(self.numbers, float).reshape(-1, 3),
            np.ascontiguousarray(pairs, np.int32),
        )
