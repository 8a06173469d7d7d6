"""Equality of circuits as unitaries."""

from __future__ import annotations

import numpy as np

from .circuit import Circuit
from .errors import CircuitError

__all__ = ["equal"]


def equal(circuit: Circuit, other: Circuit, *, up_to_phase: bool = True, atol: float = 1e-9, seed: int = 0) -> bool:
    """Return True if two circuits of gates are the same unitary.

    Both act on random states, with random values for parameters, which must have the same names. A state that both
    change alike by chance would be an eigenvector of the difference, which a random one is with probability 0.

    Parameters
    ----------
    circuit, other : Circuit
    up_to_phase : bool
        Ignore a global phase, which may depend on parameters.
    atol : float
        Largest difference in norm of final states.
    seed : int
        Seed of the random states and parameters.

    Returns
    -------
    bool
        Also False if the numbers of qubits or the names of parameters differ.

    Raises
    ------
    CircuitError
        If one of them has measurements, resets, channels or conditions.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import quantum
    >>> quantum.equal(quantum.Circuit(2).swap(0, 1), quantum.Circuit(2).cx(0, 1).cx(1, 0).cx(0, 1))
    True
    >>> quantum.equal(quantum.Circuit(1).rz(np.pi, 0), quantum.Circuit(1).z(0), up_to_phase=False)
    False
    """
    from .simulators.run import run

    for c in (circuit, other):
        if not c.is_unitary:
            raise CircuitError(
                "equal: circuits of gates alone can be compared (no measurements, resets, channels, conditions)"
            )
    if circuit.num_qubits != other.num_qubits or set(circuit.names) != set(other.names):
        return False
    random = np.random.default_rng(seed)
    for _ in range(2):
        values = {name: random.uniform(-np.pi, np.pi) for name in circuit.names}
        state = random.normal(size=1 << circuit.num_qubits) + 1j * random.normal(size=1 << circuit.num_qubits)
        state /= np.linalg.norm(state)
        a, b = (run(c.bind(values), initial=state).statevector() for c in (circuit, other))
        if up_to_phase:
            overlap = np.vdot(b, a)
            b = b * (overlap / abs(overlap) if overlap else 1.0)
        if not np.linalg.norm(a - b) <= atol:
            return False
    return True
