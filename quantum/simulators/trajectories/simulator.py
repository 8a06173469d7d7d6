"""Monte Carlo trajectories: the simulator, and its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from triskele.core.extend import threads
from triskele.core.random import key

from ...compile.program import all_values
from ...compile.readings import Reading, split, writes_bits
from ...errors import SimulatorError
from ...gates.base import find
from ...gates.instruction import BARRIER, Instruction
from ...shots.measurement import estimate
from ...shots.sampling import Estimate, Samples, check_observable, check_seed, check_shots, read_samples, sample
from ..result import CountsResult, Result
from ..statevector.coefficients import fill_coefficients
from ..statevector.simulator import check_memory, check_state
from ..statevector.simulator import simulate as simulate_pure
from . import trajectory_kernels as kernels
from .branches import branch_events, run_branches
from .trajectory_program import TrajectoryProgram, lower

if TYPE_CHECKING:
    from ...circuit import Circuit

__all__ = ["TrajectoriesResult", "simulate"]

BRANCH = 11  # qubits from which shots share states, where there are few of them, rather than each having its own
_PIECE = 1 << 22  # amplitudes that are kept at a time
_TO_Z = {"X": ("h",), "Y": ("sdg", "h"), "Z": ()}  # gates that bring the eigenbasis of a letter to that of Z


def simulate(
    circuit: Circuit,
    theta: Any = None,
    data: Any = None,
    *,
    dtype: Any = np.complex128,
    initial: Any = None,
    shots: int | None = None,
    seed: int | None = None,
) -> Any:
    """Simulate with the arguments of `quantum.run`: each shot is a pure state in which noise and measurements are drawn
    at random (Dalibard, Castin and Molmer, Phys. Rev. Lett. 68 (1992) 580, doi:10.1103/PhysRevLett.68.580).

    Channels that mix unitaries draw one whatever the state; of others, operator k has probability <psi|K_k^dagger
    K_k|psi>. Trajectory i draws from a stream of its own, so that results do not depend on how many run at once. The
    result of a circuit that writes classical bits counts these; one run and samples of it do where nothing but its end
    is random. The result of any other circuit is a `TrajectoriesResult`, with noise or without.
    """
    if shots is None:
        raise SimulatorError("trajectories: the number of trajectories is needed (run(..., shots=1000))")
    shots, seed, n = check_shots(shots, "run"), check_seed(seed, "run"), circuit.num_qubits
    check_memory("trajectories", n, _chunks(n) * 16 << (n + 3), "fewer threads need less")
    kept, size = circuit._programs.get("trajectories"), (len(circuit), circuit.num_clbits)
    if kept is None or kept[0] != size:
        kept = circuit._programs["trajectories"] = (size, _ready(circuit))
    ready = kept[1]
    values = all_values(ready.names[0], ready.names[1], theta, data)
    state = None if initial is None else check_state(initial, n)
    if ready.writes and n >= BRANCH and ready.events <= np.log2(shots) - 2:
        named = dict(zip(ready.names[0] + ready.names[1], values.tolist(), strict=True))
        samples, bits = run_branches(circuit, ready.body, named, dtype, state, shots, seed, ready.segments)
        return CountsResult(read_samples(Samples(samples, n), ready.readings, bits, seed))
    if len(ready.pure):
        named = dict(zip(ready.names[0] + ready.names[1], values.tolist(), strict=True))
        theta, data = ([named[name] for name in names] for names in (ready.pure.parameters, ready.pure.data))
        state = simulate_pure(
            ready.pure, theta, data, dtype=dtype if ready.ends else np.complex128, initial=state
        ).statevector()
    if ready.writes and ready.ends:
        state = simulate_pure(ready.pure, dtype=dtype, initial=state).statevector() if state is None else state
        samples, bits = sample(state, shots, seed), np.zeros((shots, circuit.num_clbits), np.uint8)
        return CountsResult(read_samples(Samples(samples, n), ready.readings, bits, seed))
    result = TrajectoriesResult(
        ready, values, None if state is None else np.array(state, complex).view(float), shots, seed, circuit.num_clbits
    )
    if not ready.writes:
        return result
    samples, bits, *_ = result._run()
    return CountsResult(read_samples(Samples(samples, n), ready.readings, bits, seed))


class PreparedTrajectories(NamedTuple):
    """The compiled form of a circuit."""

    names: tuple[tuple[str, ...], tuple[str, ...]]  # parameters, and data
    readings: list[Reading]  # measurements that end the circuit
    pure: Circuit  # what comes before anything random: simulated once, for all trajectories
    rest: list[Instruction]  # what follows it, without the readings
    program: TrajectoryProgram  # that of the rest
    ends: bool  # the rest is empty
    writes: bool  # the circuit writes classical bits
    body: list[Instruction]  # all but the readings
    events: float  # instructions that may split shots with a common state; inf if not only MEASURE and RESET are random
    segments: dict[Any, Circuit]  # cache of `branches`


def _ready(circuit: Circuit) -> PreparedTrajectories:
    body, readings = split(circuit)
    first = next((k for k, i in enumerate(body) if not i.is_unitary and i.gate is not BARRIER), len(body))
    names = (circuit.parameters, circuit.data)
    rest, ends = body[first:], first == len(body)
    program = lower(rest, circuit.num_qubits, circuit.num_clbits, *names)
    return PreparedTrajectories(
        names,
        readings,
        circuit._with(body[:first]),
        rest,
        program,
        ends,
        writes_bits(circuit),
        body,
        np.inf if ends else branch_events(body),
        {},
    )


def _chunks(n: int) -> int:
    """Parts that threads share: few where states are large, as each part has its own."""
    return 16 if n < 14 else threads.get_threads()


class TrajectoriesResult(Result):
    """An average over trajectories.

    Nothing but the circuit is kept: what is asked for is computed, from the same random numbers.
    """

    shots: int
    seed: int

    def __init__(
        self,
        ready: PreparedTrajectories,
        values: np.ndarray,
        initial: np.ndarray | None,
        shots: int,
        seed: int,
        num_clbits: int,
    ):
        self.num_qubits, self.shots, self.seed = ready.program.gates.num_qubits, shots, seed
        self._ready, self._program, self._values, self._num_clbits = ready, ready.program, values, num_clbits
        self._initial = np.zeros(0) if initial is None else initial

    def _run(
        self, h: Any = None, first: int = 0, count: int | None = None, keep: bool = False
    ) -> tuple[np.ndarray, ...]:
        """Outcomes, classical bits, values of h, and if they are kept the states, of trajectories `first` and
        following.
        """
        program = self._program
        if count is None:
            count = self.shots
        gates = program.gates
        coefficients = gates.coefficients.copy()
        program.gates.fill_functions(coefficients, self._values)
        fill_coefficients(
            self._values,
            gates.angle_starts,
            gates.angle_indices,
            gates.angle_coefficients,
            gates.angle_constants,
            gates.recipes,
            coefficients,
            np.empty((2, len(gates.angle_constants))),
        )
        samples, values, bits = (
            np.empty(count, np.int64),
            np.empty(count),
            np.zeros((count, program.bits), np.uint8),
        )
        final = np.empty((count << self.num_qubits) * 2 if keep else 0)
        strings, weights = np.zeros(0, np.int64), np.zeros(0)
        if h is not None:
            strings, weights = (
                np.stack([h.x[:, 0], h.z[:, 0]], 1).astype(np.int64).reshape(-1),
                h.coefficients.real.copy(),
            )
        k0, k1 = key(self.seed)
        kernels.run(
            self.num_qubits,
            min(_chunks(self.num_qubits), -(-count // kernels.states.LANES)),
            first,
            program.draws,
            program.dense,
            k0,
            k1,
            program.rows,
            program.ints,
            program.table,
            gates.ops,
            coefficients,
            self._initial,
            samples,
            values,
            bits,
            final,
            strings,
            weights,
            threads.body(kernels.run_chunk),
        )
        if np.any(samples < 0):
            raise SimulatorError(
                f"trajectories: the loops of trajectory {first + int(np.argmax(samples < 0))} do not end within "
                f"{kernels.PASSES} rounds (does the condition of each `while` change in it?)"
            )
        return samples, bits[:, : self._num_clbits], values, final.view(complex).reshape(-1, 1 << self.num_qubits)

    def states(self) -> Iterator[np.ndarray]:
        """The trajectories' final states in pieces (some, 2**n)."""
        step = max(_PIECE >> self.num_qubits, 8) & ~7
        for first in range(0, self.shots, step):
            yield self._run(None, first, min(step, self.shots - first), True)[3]

    @property
    def _state(self) -> np.ndarray:
        if self.num_qubits > 12:
            check_memory("density_matrix", self.num_qubits, 32 << 2 * self.num_qubits)
        return sum(psi.T @ psi.conj() for psi in self.states()) / self.shots

    @property
    def _diagonal(self) -> np.ndarray:
        return sum((psi.real**2 + psi.imag**2).sum(0) for psi in self.states()) / self.shots

    def statevector(self) -> np.ndarray:
        """Raise SimulatorError: every trajectory has its own state vector (see `states`)."""
        raise SimulatorError(
            "statevector: every trajectory ends in its own state (states() gives them, density_matrix() their average)"
        )

    def _of(self, qubits: tuple[int, ...], shots: int, seed: int) -> Samples:
        """One measurement of each trajectory."""
        samples = self._again(shots, seed)._run()[0]
        if qubits == tuple(range(self.num_qubits)):
            return Samples(samples, self.num_qubits)
        return Samples((samples[:, None] >> np.array(qubits) & 1).astype(np.uint8))

    def expectation(self, h: Any, shots: int | None = None, seed: int | None = None) -> Estimate:
        """Mean and standard error of the expectation values of a Hermitian Pauli sum in the trajectories.

        Nothing is measured, so that errors are smaller than those of as many measurements. But with `shots`, where
        qubits of `h` are read with errors, they are measured: see `Result.expectation`.

        Parameters
        ----------
        h : PauliSum or str
        shots, seed : int, optional
            For another number of trajectories, or others.

        Raises
        ------
        OperatorError
            If `h` is not Hermitian or acts on more qubits.
        """
        h = check_observable(h, self.num_qubits, "expectation")
        if shots is not None and self._wiring.errors:
            return estimate(h, shots, self.seed if seed is None else seed, self._read_in_basis)
        values = self._again(shots, seed)._run(h)[2]
        error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.nan
        return Estimate(float(values.mean()), float(error))

    def _again(self, shots: int | None, seed: int | None) -> TrajectoriesResult:
        shots = self.shots if shots is None else check_shots(shots, "trajectories")
        seed = self.seed if seed is None else check_seed(seed, "trajectories")
        initial = self._initial if len(self._initial) else None
        return TrajectoriesResult(self._ready, self._values, initial, shots, seed, self._num_clbits)

    def _exact(self, h: Any) -> float:
        return self.expectation(h).value

    def _in_basis(self, letters: dict[int, str], shots: int, seed: int | None) -> Samples:
        turns = [Instruction(find(name), (q,)) for q, p in letters.items() for name in _TO_Z[p]]
        ready = self._ready
        ready = ready._replace(program=lower([*ready.rest, *turns], self.num_qubits, self._num_clbits, *ready.names))
        turned = TrajectoriesResult(ready, self._values, self._initial, self.shots, self.seed, self._num_clbits)
        return Samples(turned._again(shots, seed)._run()[0], self.num_qubits)
