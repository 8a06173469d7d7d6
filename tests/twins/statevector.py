"""State vectors and density matrices gate by gate with tensordot: slow, and obviously right."""

import numpy as np


def apply(matrix, qubits, state):
    """The matrix on those qubits of a state (2**n,); bit k of the matrix's index is qubits[k]."""
    n, k = state.size.bit_length() - 1, len(qubits)
    axes = [n - 1 - q for q in reversed(qubits)]
    out = np.tensordot(np.reshape(matrix, (2,) * (2 * k)), state.reshape((2,) * n), (list(range(k, 2 * k)), axes))
    return np.moveaxis(out, range(k), axes).reshape(-1)


def statevector(circuit, values=None, initial=None):
    """The state after a circuit of gates, with parameters by name."""
    state = np.zeros(1 << circuit.num_qubits, complex)
    state[0] = 1.0
    if initial is not None:
        state = np.array(initial, complex)
    for i in circuit:
        if i.gate.name != "barrier":
            state = apply(i.matrix(values), (*i.qubits, *i.controls), state)
    return state


def unitary(circuit, values=None):
    """The circuit's matrix (2**n, 2**n)."""
    return np.stack([statevector(circuit, values, basis) for basis in np.eye(1 << circuit.num_qubits)], 1)
