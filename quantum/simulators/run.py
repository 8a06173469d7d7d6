"""Running circuits."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from ..circuit import Circuit
from ..errors import CircuitError, SimulatorError
from .registry import find

__all__ = ["run"]


def run(
    circuit: Circuit,
    theta: Any = None,
    data: Any = None,
    *,
    simulator: str = "statevector",
    dtype: Any = np.complex128,
    initial: Any = None,
    shots: int | None = None,
    seed: int = 0,
) -> Any:
    """Run a circuit.

    Parameters
    ----------
    circuit : Circuit
    theta : (P,) array or dict of str to float, optional
        Values of `circuit.parameters`, in order or by name.
    data : (D,) array or dict of str to float, optional
        Values of `circuit.data`.
    simulator : str
        "statevector", "density_matrix" (noise), "trajectories" (noise and measurements, shot by shot), "stabilizer"
        (Clifford gates on thousands of qubits), "subspace" (gates that keep the number of particles).
    dtype : complex128 or complex64
    initial : (2**n,) complex array or Result, optional
        Initial state. Defaults to |0...0>.
    shots, seed : int, optional
        For the result's `sample`; circuits with mid-circuit measurements need shots. Samples of a circuit that
        measures are its classical bits, 0 where nothing is written; those of any other circuit are its qubits, whatever
        classical bits it declares.

    Returns
    -------
    Result
        State, probabilities, samples, expectation values.

    Raises
    ------
    ParameterError
        If values are missing, of the wrong number or names, or not finite.
    SimulatorError
        If the simulator is unknown, cannot do what the circuit asks, or the state does not fit in memory.

    References
    ----------
    Haener, Steiger, "0.5 petabyte simulation of a 45-qubit quantum circuit", SC17 (2017): blocks of a state in cache.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import quantum
    >>> result = quantum.run(quantum.Circuit(2).h(0).crx("a", 0, 1), [np.pi])
    >>> result.probabilities().round(3).tolist()
    [0.5, 0.0, 0.0, 0.5]
    """
    if not isinstance(circuit, Circuit):
        raise CircuitError(f"run: a Circuit is needed, got {type(circuit).__name__}")
    if shots is not None:
        check.integer(shots, "run: shots", 1, error=SimulatorError)
    result = find(simulator)(circuit, theta, data, dtype=dtype, initial=initial, shots=shots, seed=seed)
    result.ran = circuit.reading()
    return result
