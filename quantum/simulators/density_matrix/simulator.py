"""Density matrices after circuits, with measurements and what depends on them."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...compile.program import all_values
from ...compile.readings import Reading, read, split, writes_bits
from ...errors import StateError
from ...gates.instruction import MEASURE, Instruction
from ...noise.readout import ReadoutError
from ...shots import sampling
from ...shots.sampling import Samples
from ...states import check_qubits, marginal
from ..result import CountsResult, DensityMatrixResult, Result
from ..statevector.simulator import check_memory
from .transfer import Element, Wide, elements, project
from .transfer_program import TransferProgram, positions
from .vector import PauliVector

if TYPE_CHECKING:
    from ...circuit import Circuit

__all__ = ["VectorResult", "check_size", "simulate"]


class VectorResult(DensityMatrixResult):
    """A mixed state held as Pauli expectation values; the matrix is made when it is asked for."""

    def __init__(self, vector: PauliVector, shots: int | None = None, seed: int | None = None):
        self._vector, self.num_qubits = vector, len(vector.where)
        self.shots, self.seed = shots, seed
        self._count: Callable[..., Any] | None = None  # of shots and seed, where the state has lost the bits

    @functools.cached_property
    def _matrix(self) -> np.ndarray:  # type: ignore[override]
        return self._vector.matrix()

    @property
    def _diagonal(self) -> np.ndarray:
        return np.maximum(self._vector.diagonal(), 0.0)  # rounding leaves -1e-17

    def _in_basis(self, letters: dict[int, str], shots: int, seed: int | None) -> Samples:
        return Samples(sampling.sample(np.maximum(self._vector.diagonal(letters), 0.0), shots, seed), self.num_qubits)

    def _bits(self, shots: int, seed: int) -> Samples:
        return super()._bits(shots, seed) if self._count is None else self._count(shots=shots, seed=seed).samples

    def _exact(self, h: Any) -> float:
        return float(self._vector.r[self._vector.indices(h)] @ h.coefficients.real)

    def partial_trace(self, keep: int | Sequence[int]) -> np.ndarray:
        """Density matrix of some qubits: see `states.partial_trace`."""
        chosen = check_qubits(keep, self.num_qubits, "partial_trace")
        return PauliVector(self._vector.r, [self._vector.where[q] for q in chosen]).matrix()


def simulate(
    circuit: Circuit,
    theta: Any = None,
    data: Any = None,
    *,
    dtype: Any = np.complex128,
    initial: Any = None,
    shots: int | None = None,
    seed: int | None = None,
) -> VectorResult | CountsResult:
    """Simulate with the arguments of `quantum.run`; `initial` may be a density matrix too, and numbers are always of
    double precision.

    Without shots, outcomes of measurements are forgotten: the state is the average over them, and samples of classical
    bits that were written before the end run the circuit again. With shots, the result counts the classical bits that
    the circuit writes, drawn from their exact distribution.
    """
    ready = _ready(circuit)
    values, n = all_values(*ready.names, theta, data), circuit.num_qubits
    if not (shots and ready.writes):
        if ready.program is not None:
            total = ready.program.run(values, _start(initial, n, ready.program.positions))
        else:
            branches = _branches(circuit.instructions, n, ready.names[0] + ready.names[1], values, initial)
            total = branches.popitem()[1]
            for state in branches.values():
                total.r += state.arranged(total.where).r
        result = VectorResult(total, shots, seed)
        if ready.on_the_way:
            given, start = np.split(values, [len(ready.names[0])]), copy.deepcopy(initial)
            result._count = functools.partial(simulate, circuit.copy(), *given, initial=start)
        return result
    body, readings = split(circuit)
    branches = _branches(body, n, ready.names[0] + ready.names[1], values, initial)
    outcomes, weights = _distribution(branches, readings)
    bits = np.array([[o >> c & 1 for c in range(circuit.num_clbits)] for o in outcomes], np.uint8)
    return CountsResult(bits[sampling.sample(weights, shots, seed)])


class PreparedProgram(NamedTuple):
    """The compiled form of a circuit: names of parameters and data, whether it writes classical bits, whether it does
    before its end, and its program if it reads none.
    """

    names: tuple[tuple[str, ...], tuple[str, ...]]
    writes: bool
    on_the_way: bool
    program: TransferProgram | None


def _ready(circuit: Circuit) -> PreparedProgram:
    kept = circuit._programs.get("density_matrix")
    if kept is None or kept[0] != len(circuit):
        instructions, names = circuit.instructions, (circuit.parameters, circuit.data)
        program = None
        if not any(i.condition for i in instructions):
            found = [e for i in instructions if not isinstance(i.gate, ReadoutError) for e in elements(i)]
            n = circuit.num_qubits
            program = TransferProgram(found, n, names[0] + names[1], check_size(positions(found, n)))
        prepared = PreparedProgram(names, writes_bits(circuit), writes_bits(split(circuit)[0]), program)
        kept = circuit._programs["density_matrix"] = (len(circuit), prepared)
    return kept[1]


def check_size(m: int) -> int:
    """Return `m` if a density matrix of that many qubits fits in memory."""
    if m > 12:
        check_memory("density_matrix", m, 8 << 2 * m, "simulator='trajectories' needs less")
    return m


def _start(initial: Any, n: int, m: int) -> PauliVector:
    if initial is None:
        return PauliVector.zero(n, m)
    state = np.asarray(initial._state if isinstance(initial, Result) else initial, complex)
    size = 1 << n
    if state.shape not in ((size,), (size, size)):
        raise StateError(
            f"density_matrix: the initial state must have shape ({size},) or ({size}, {size}), got {state.shape}"
        )
    trace = np.vdot(state, state) if state.ndim == 1 else np.trace(state)
    if not abs(trace - 1) < 1e-6:
        raise StateError(f"density_matrix: the initial state must have trace 1, got {trace:.6g}")
    if state.ndim == 2 and not np.abs(state - state.conj().T).max() < 1e-8:
        raise StateError("density_matrix: the initial density matrix must be Hermitian")
    if state.ndim == 2:
        try:
            np.linalg.cholesky(state + 1e-8 * np.eye(size))
        except np.linalg.LinAlgError:
            raise StateError("density_matrix: the initial density matrix must have no negative eigenvalues") from None
    return PauliVector.of(state, m)


def _branches(
    body: Sequence[Instruction], n: int, names: tuple[str, ...], theta: np.ndarray, initial: Any
) -> dict[int, PauliVector]:
    """Unnormalized state for each value that the classical bits can have."""
    found = [e for i in body if not isinstance(i.gate, ReadoutError) for e in elements(i)]
    m = check_size(positions(found, n))
    states = {0: _start(initial, n, m)}
    waiting: list[Element | Wide] = []

    def advance(state: PauliVector, what: Sequence[Element | Wide]) -> PauliVector:
        program = TransferProgram(what, n, names, m)
        return program.run(theta, state.arranged(program.before))

    for i in [*body, None]:
        if i and i.condition is None and i.gate is not MEASURE and not isinstance(i.gate, ReadoutError):
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
    if (
        i.condition is not None
        and sum((bits >> c & 1) << k for k, c in enumerate(i.condition.clbits)) != i.condition.value
    ):
        return [(bits, state)]
    if i.gate is MEASURE:
        c = i.clbits[0]
        return [
            (bits & ~(1 << c) | outcome << c, advance(state.copy(), [Element(i.qubits, project(outcome))]))
            for outcome in (0, 1)
        ]
    if isinstance(i.gate, ReadoutError):
        c = i.clbits[0]
        column = i.gate.matrix[:, bits >> c & 1]
        return [
            (bits & ~(1 << c) | outcome << c, PauliVector(column[outcome] * state.r, state.where)) for outcome in (0, 1)
        ]
    return [(bits, advance(state.copy(), elements(i)))]


def _distribution(branches: dict[int, PauliVector], readings: list[Reading]) -> tuple[list[int], np.ndarray]:
    """Values of the classical bits and their probabilities (k,)."""
    outcomes, weights = [], []
    qubits = [r.qubit for r in readings]
    spread = np.zeros(1, object)
    for r in readings:
        spread = np.concatenate([spread, spread | 1 << r.clbit])
    for bits, state in branches.items():
        p = (
            read(marginal(np.maximum(state.diagonal(), 0.0), qubits, "density_matrix"), readings)
            if readings
            else state.r[:1]
        )
        cleared = bits & ~sum(1 << r.clbit for r in readings)
        kept = np.flatnonzero(p > 0)
        outcomes += [cleared | int(s) for s in spread[kept]]
        weights.append(p[kept])
    return outcomes, np.concatenate(weights)
