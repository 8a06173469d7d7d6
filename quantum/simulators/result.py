"""Results of simulations: the state, and the quantities derived from it."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import states
from ..compile.readings import Reading, Wiring, wiring
from ..errors import SimulatorError
from ..gates.instruction import Instruction
from ..noise.readout import ReadoutError
from ..shots import sampling
from ..shots.measurement import estimate, exact, to_z_basis
from ..shots.sampling import Estimate, Samples, check_observable, read_samples

__all__ = ["CountsResult", "DensityMatrixResult", "Result", "StatevectorResult"]


class Result(ABC):
    """The state after a circuit.

    Bit k of every index, and the rightmost character of every bit string, is qubit k, or `qubits[k]`.
    """

    num_qubits: int
    shots: int | None = None
    seed: int | None = None
    # instructions of the circuit, how many there were when it ran, classical bits, errors in reading: from `run`
    ran: tuple[Sequence[Instruction], int, int, dict[int, ReadoutError]] = ((), 0, 0, {})

    @property
    @abstractmethod
    def _state(self) -> np.ndarray:
        """(2**n,) or (2**n, 2**n)."""

    @abstractmethod
    def _in_basis(self, letters: dict[int, str], shots: int, seed: int | None) -> Samples:
        """Samples of all qubits, each measured in the basis of its letter (Z when it has none), without errors."""

    def _of(self, qubits: tuple[int, ...], shots: int, seed: int) -> Samples:
        """Samples of some qubits, without errors in reading."""
        if qubits == tuple(range(self.num_qubits)):
            return self._in_basis({}, shots, seed)
        return Samples(sampling.sample(self.probabilities(qubits), shots, seed), len(qubits))

    def _bits(self, shots: int, seed: int) -> Samples:
        """Samples of the classical bits."""
        wiring = self._wiring
        if not wiring.ends:
            raise SimulatorError("sample: the circuit writes classical bits on its way (give shots to run)")
        samples = self._of(tuple(range(self.num_qubits)), shots, seed)
        return Samples(read_samples(samples, wiring.readings, np.zeros((shots, wiring.num_clbits), np.uint8), seed))

    @functools.cached_property
    def _wiring(self) -> Wiring:
        instructions, length, num_clbits, readout = self.ran
        return wiring(instructions[:length], num_clbits, readout)

    def _as_read(self, samples: Samples, qubits: Iterable[int], seed: int) -> Samples:
        """Samples whose bit k is `qubits[k]`, as a device reads them."""
        errors = self._wiring.errors
        readings = [Reading(k, k, errors[q]) for k, q in enumerate(qubits) if q in errors]
        return Samples(read_samples(samples, readings, samples.array.copy(), seed)) if readings else samples

    def _read_in_basis(self, letters: dict[int, str], shots: int, seed: int) -> Samples:
        """As `_in_basis`, with errors in reading those qubits that have a letter."""
        qubits = (q if q in letters else -1 for q in range(self.num_qubits))
        return self._as_read(self._in_basis(letters, shots, seed), qubits, seed)

    @abstractmethod
    def _exact(self, h: Any) -> float:
        """Expectation value of a Hermitian PauliSum."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.num_qubits} qubits)"

    def probabilities(self, qubits: int | Sequence[int] | None = None) -> np.ndarray:
        """Probability of each outcome of measuring `qubits` without errors in reading, all when left out.

        Parameters
        ----------
        qubits : int or sequence of int, optional
            Bit k of the result's index is `qubits[k]`.

        Returns
        -------
        (2**len(qubits),) float64 array

        Raises
        ------
        CircuitError
            If a qubit is out of range or repeated.
        """
        return states.marginal(self._diagonal, qubits, "probabilities")

    @property
    def _diagonal(self) -> np.ndarray:
        return states.diagonal(self._state)

    def sample(
        self, shots: int | None = None, seed: int | None = None, qubits: int | Sequence[int] | None = None
    ) -> Samples:
        """Draw what a device would return: classical bits if the circuit writes any, else all qubits, or `qubits`.

        Parameters
        ----------
        shots : int, optional
            Defaults to those given to `run`.
        seed : int, optional
            The same seed gives the same samples with any number of threads. Defaults to the seed given to `run`.
        qubits : int or sequence of int, optional
            Qubits to measure, whatever the circuit itself measures. Bit k of the samples is `qubits[k]`.

        Returns
        -------
        Samples

        Raises
        ------
        SimulatorError
            If the number of shots is missing or not positive.
        CircuitError
            If a qubit is out of range or repeated.

        Examples
        --------
        >>> from triskele import quantum
        >>> quantum.run(quantum.Circuit(2).h(0).cx(0, 1)).sample(1000, seed=1).counts()
        {'00': 511, '11': 489}
        """
        chosen = tuple(states.check_qubits(qubits, self.num_qubits, "sample"))
        shots, seed = self._shots(shots, "sample"), sampling.check_seed(self.seed if seed is None else seed, "sample")
        if qubits is None and self._wiring.writes:
            return self._bits(shots, seed)
        return self._as_read(self._of(chosen, shots, seed), chosen, seed)

    def _shots(self, shots: int | None, where: str) -> int:
        return sampling.check_shots(self.shots if shots is None else shots, where)

    def counts(self) -> dict[str, int]:
        """Return the count of each outcome in the shots given to `run`: see `sample`."""
        return self.sample(self._shots(None, "counts")).counts()

    def expectation(self, h: Any, shots: int | None = None, seed: int | None = None) -> float | Estimate:
        """Expectation value of a Hermitian Pauli sum, exactly or from shots.

        Parameters
        ----------
        h : PauliSum or str
        shots : int, optional
            Measurements of each group of strings that can be measured together (they agree on every qubit they share),
            with the errors of a noise model in reading them. Exact values have none.
        seed : int, optional
            The same seed gives the same value.

        Returns
        -------
        float, or with `shots` an Estimate (value, error)

        Raises
        ------
        OperatorError
            If `h` is not Hermitian or acts on more qubits.
        SimulatorError
            If the number of shots is missing or not positive.

        Examples
        --------
        >>> from triskele import quantum
        >>> bell = quantum.run(quantum.Circuit(2).h(0).cx(0, 1))
        >>> round(bell.expectation("X0 X1 - 2 Y0 Y1"), 12)
        3.0
        >>> bell.expectation("X0 X1 + Z0", shots=1000, seed=1).value
        0.976
        """
        h = check_observable(h, self.num_qubits, "expectation")
        if shots is None:
            return self._exact(h)
        return estimate(h, shots, self.seed if seed is None else seed, self._read_in_basis)

    def density_matrix(self) -> np.ndarray:
        """The state as a density matrix, (2**n, 2**n)."""
        return states.density_matrix(self._state)

    def partial_trace(self, keep: int | Sequence[int]) -> np.ndarray:
        """Density matrix of some qubits: see `states.partial_trace`."""
        return states.partial_trace(self._state, keep)

    def entropy(self, qubits: int | Sequence[int] | None = None, *, alpha: float = 1.0, base: float = 2.0) -> float:
        """Von Neumann entropy of some qubits, or Rényi's of order `alpha`: see `states.entropy`."""
        return states.entropy(self._state, qubits, alpha=alpha, base=base)

    def fidelity(self, other: Any) -> float:
        """Fidelity with another result, state vector or density matrix: see `states.fidelity`."""
        return states.fidelity(self._state, other)


class StatevectorResult(Result):
    """A pure state (2**n,); `shots` and `seed` are defaults of `sample`."""

    def __init__(self, state: np.ndarray, shots: int | None = None, seed: int | None = None):
        self._amplitudes, self.num_qubits = state, state.size.bit_length() - 1
        self.shots, self.seed = shots, seed

    @property
    def _state(self) -> np.ndarray:
        return self._amplitudes

    def statevector(self) -> np.ndarray:
        """The amplitudes, (2**n,); the array itself, no copy."""
        return self._amplitudes

    def _in_basis(self, letters: dict[int, str], shots: int, seed: int | None) -> Samples:
        psi = to_z_basis(self._amplitudes, letters) if letters else self._amplitudes
        return Samples(sampling.sample(psi, shots, seed), self.num_qubits)

    def _exact(self, h: Any) -> float:
        return exact(self._amplitudes, h)


class DensityMatrixResult(Result):
    """A mixed state (2**n, 2**n); `shots` and `seed` are defaults of `sample`."""

    def __init__(self, matrix: np.ndarray, shots: int | None = None, seed: int | None = None):
        self._matrix, self.num_qubits = matrix, len(matrix).bit_length() - 1
        self.shots, self.seed = shots, seed

    @property
    def _state(self) -> np.ndarray:
        return self._matrix

    def statevector(self) -> np.ndarray:
        """Raise SimulatorError: a mixed state has no state vector."""
        raise SimulatorError(
            "statevector: a density matrix has no state vector, got one (use density_matrix(), or "
            "simulator='statevector')"
        )

    def _in_basis(self, letters: dict[int, str], shots: int, seed: int | None) -> Samples:
        rho = self._matrix
        if letters:
            rows = to_z_basis(np.ascontiguousarray(rho).reshape(-1), letters, first=self.num_qubits)
            rho = to_z_basis(rows, letters, conjugate=True).reshape(rho.shape)
        p = np.maximum(states.diagonal(rho), 0.0)  # rounding leaves -1e-17
        return Samples(sampling.sample(p, shots, seed), self.num_qubits)

    def _exact(self, h: Any) -> float:
        j = np.arange(len(self._matrix))
        total = 0.0
        for x, z, c in zip(h.x[:, 0].astype(int), h.z[:, 0].astype(int), h.coefficients.real, strict=True):
            signs = 1.0 - 2.0 * (np.bitwise_count(j & z) & 1)
            total += c * (1j ** int(x & z).bit_count() * (signs @ self._matrix[j, j ^ x])).real
        return float(total)


class CountsResult:
    """Result of a circuit that writes classical bits: the bits of each shot. It has no final state.

    For noisy circuits that write none, the stabilizer simulator measures all qubits and returns their outcomes.
    """

    def __init__(self, array: np.ndarray, num_clbits: int | None = None):
        self.samples = Samples(array, num_clbits)
        self.shots = len(self.samples)

    def __repr__(self) -> str:
        return f"CountsResult({self.shots} shots, {self.samples.num_bits} classical bits)"

    def counts(self) -> dict[str, int]:
        """Return the count of each value of the classical bits, by bit string with bit 0 rightmost."""
        return self.samples.counts()

    def sample(self, shots: int | None = None) -> Samples:
        """Return the classical bits of every shot of `run`; raise SimulatorError for another number of shots."""
        if shots is not None and shots != self.shots:
            raise SimulatorError(
                f"sample: run(..., shots={self.shots}) made these measurements, got shots={shots} "
                f"(run the circuit again)"
            )
        return self.samples

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Result, name) and name != "statevector":
            raise AttributeError(f"CountsResult has no {name!r}")
        raise SimulatorError(
            f"{name}: the circuit measures or has noise, so that every shot ends in its own state "
            f"(counts() and sample() have the classical bits, sample().expectation('Z0 Z1') their "
            f"products)"
        )
