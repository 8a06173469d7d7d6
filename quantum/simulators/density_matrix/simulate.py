"""Density matrices after circuits, with measurements and what depends on them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.quantum import sampling
from triskele.quantum.errors import SimulatorError, StateError
from triskele.quantum.instruction import MEASURE, Instruction
from triskele.quantum.noise.readout import ReadoutError
from triskele.quantum.simulators.density_matrix.program import Program, positions
from triskele.quantum.simulators.density_matrix.transfer import Element, Wide, elements, project
from triskele.quantum.simulators.density_matrix.vector import PauliVector
from triskele.quantum.simulators.dynamic import Reading, read, split
from triskele.quantum.simulators.result import CountsResult, DensityMatrixResult

__all__ = ["VectorResult", "simulate"]


class VectorResult(DensityMatrixResult):
    """A mixed state held as Pauli expectation values; the matrix is made when it is asked for."""

    def __init__(self, vector: PauliVector, shots: int | None = None, seed: int | None = None):
        self._vector, self.num_qubits = vector, len(vector.where)
        self.shots, self.seed = shots, seed

    @functools.cached_property
    def _matrix(self) -> np.ndarray:  # type: ignore[override]
        return self._vector.matrix()

    @property
    def _diagonal(self) -> np.ndarray:
        return np.maximum(self._vector.diagonal(), 0.0)  # rounding leaves -1e-17

    def _exact(self, h: Any) -> float:
        return float(self._vector.r[self._vector.indices(h)] @ h.coefficients.real)

    def _rotated(self, letters: dict[int, str]) -> np.ndarray:
        return super()._rotated(letters) if letters else self._diagonal


def simulate(circuit: Any, values: dict[str, float], *, initial: np.ndarray | None = None, shots: int | None = None,
             seed: int | None = None) -> VectorResult | CountsResult:  # fmt: skip
    """The state after a circuit, or with `shots` and measurements the classical bits.

    Without shots a measurement is one whose outcome is forgotten.

    Parameters
    ----------
    circuit : Circuit
    values : dict of str to float
        Of all its parameters.
    initial : (2**n,) state vector or (2**n, 2**n) density matrix, optional
        |0...0> when left out.
    shots : int, optional
    seed : int, optional

    Raises
    ------
    SimulatorError
        If there are too many qubits for memory.
    StateError
        If `initial` is no state of these qubits.
    """
    n, names = circuit.num_qubits, circuit.names
    instructions = circuit.instructions
    theta = np.array([values[name] for name in names])
    measured = any(i.gate is MEASURE for i in instructions)
    if not any(i.condition for i in instructions) and (shots is None or not measured):
        program = _program(instructions, n, names)
        return VectorResult(program.run(theta, _start(initial, n, program.positions)), shots, seed)
    body, readings = split(circuit) if shots is not None else (list(instructions), [])
    branches = _branches(body, n, names, theta, initial)
    if shots is None:
        total = branches.popitem()[1]
        for state in branches.values():
            total.r += state.r
        return VectorResult(total)
    outcomes, weights = _distribution(branches, readings)
    bits = np.array([[o >> c & 1 for c in range(circuit.num_clbits)] for o in outcomes], np.uint8)
    return CountsResult(bits[sampling.sample(weights, shots, seed)])


@functools.lru_cache(32)
def _program(instructions: tuple[Instruction, ...], n: int, names: tuple[str, ...]) -> Program:
    found = [e for i in instructions if not isinstance(i.gate, ReadoutError) for e in elements(i)]
    return Program(found, n, names, _checked(positions(found, n)))


def _checked(m: int) -> int:
    if m > 20:
        need = 8 * 4.0**m / 2**30
        raise SimulatorError(f"density_matrix: {m} qubits need {need:.3g} GiB (use simulator='trajectories')")
    import os

    if hasattr(os, "sysconf"):
        have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if 8 * 4**m > have:
            need, have = 8 * 4**m / 2**30, have / 2**30
            raise SimulatorError(f"density_matrix: {m} qubits need {need:.3g} GiB, this machine has {have:.3g} (use simulator='trajectories')")
    return m


def _start(initial: Any, n: int, m: int) -> PauliVector:
    if initial is None:
        return PauliVector.zero(n, m)
    state = np.asarray(initial, complex)
    size = 1 << n
    if state.shape not in ((size,), (size, size)):
        raise StateError(f"density_matrix: the initial state must have shape ({size},) or ({size}, {size}), got {state.shape}")
    trace = np.vdot(state, state) if state.ndim == 1 else np.trace(state)
    if not abs(trace - 1) < 1e-6:
        raise StateError(f"density_matrix: the initial state must have trace 1, got {trace:.6g}")
    if state.ndim == 2 and not np.abs(state - state.conj().T).max() < 1e-8:
        raise StateError("density_matrix: the initial density matrix must be Hermitian")
    return PauliVector.of(state, m)


def _branches(body: Sequence[Instruction], n: int, names: tuple[str, ...], theta: np.ndarray, initial: Any) -> dict[int, PauliVector]:
    """Unnormalised state for each value that the classical bits can have."""
    found = [e for i in body if i.gate is not MEASURE and not isinstance(i.gate, ReadoutError) for e in elements(i)]
    m = _checked(positions(found, n))
    states = {0: _start(initial, n, m)}
    waiting: list[Element | Wide] = []

    def advance(state: PauliVector, what: Sequence[Element | Wide]) -> PauliVector:
        program = Program(what, n, names, m)
        return program.run(theta, state.arranged(program.before))

    for i in [*body, None]:
        plain = i is not None and i.condition is None and i.gate is not MEASURE and not isinstance(i.gate, ReadoutError)
        if plain:
            waiting += elements(i)
            continue
        if waiting:
            states = {bits: advance(s, waiting) for bits, s in states.items()}
            waiting = []
        if i is None:
            break
        new: dict[int, PauliVector] = {}
        for bits, state in states.items():
            for b, s in _step(i, bits, state, advance):
                if s.r[0] > 1e-16:  # its probability
                    new[b] = s if b not in new else PauliVector(new[b].arranged(s.where).r + s.r, s.where)
        states = new
    return states


def _step(i: Instruction, bits: int, state: PauliVector, advance: Any) -> list[tuple[int, PauliVector]]:
    if i.condition is not None and sum((bits >> c & 1) << k for k, c in enumerate(i.condition.clbits)) != i.condition.value:
        return [(bits, state)]
    if i.gate is MEASURE:
        c = i.clbits[0]
        return [(bits & ~(1 << c) | outcome << c, advance(state.copy(), [Element(i.qubits, project(outcome))])) for outcome in (0, 1)]
    if isinstance(i.gate, ReadoutError):
        c = i.clbits[0]
        column = i.gate.matrix[:, bits >> c & 1]
        return [(bits & ~(1 << c) | outcome << c, PauliVector(column[outcome] * state.r, state.where)) for outcome in (0, 1)]
    return [(bits, advance(state.copy(), elements(i)))]


def _distribution(branches: dict[int, PauliVector], readings: list[Reading]) -> tuple[list[int], np.ndarray]:
    """Values of the classical bits and their probabilities (k,)."""
    from triskele.quantum import states

    outcomes, weights = [], []
    qubits = [r.qubit for r in readings]
    spread = np.zeros(1, object)
    for r in readings:
        spread = np.concatenate([spread, spread | 1 << r.clbit])
    for bits, state in branches.items():
        p = read(states.marginal(np.maximum(state.diagonal(), 0.0), qubits, "density_matrix"), readings) if readings else state.r[:1]
        cleared = bits & ~sum(1 << r.clbit for r in readings)
        kept = np.flatnonzero(p > 0)
        outcomes += [cleared | int(s) for s in spread[kept]]
        weights.append(p[kept])
    return outcomes, np.concatenate(weights)
