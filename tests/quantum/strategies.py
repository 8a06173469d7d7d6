"""Random circuits for hypothesis."""

import numpy as np
from hypothesis import strategies as st

from triskele import quantum
from triskele.quantum import gates
from triskele.quantum.gates.base import Gate
from triskele.quantum.gates.families import pauli_rotation, unitary
from triskele.quantum.gates.primitives import Factor, Pair


def random_unitary(k, seed):
    """A (2**k, 2**k) unitary matrix."""
    random = np.random.default_rng(seed)
    return np.linalg.qr(random.normal(size=(1 << k,) * 2) + 1j * random.normal(size=(1 << k,) * 2))[0]


def excitation(n, seed):
    """exp(t/2 (|b><a| - |a><b|)) on some of n qubits with signs by parity of the others, as in fermionic
    excitations.
    """
    random = np.random.default_rng(seed)
    a, b = 0, 0
    while a == b:
        plane = int(random.integers(1, 1 << n))
        a, b = (int(random.integers(1 << n)) & plane for _ in range(2))
    free = ((1 << n) - 1) & ~plane
    parity = free & int(random.integers(1 << n))
    primitive = Pair(n, a, b, bool(random.integers(2)), free, parity)
    return Gate("excitation", n, 1, factors=(Factor(primitive, tuple(range(n))),))


ANGLES = st.one_of(st.floats(-7, 7, width=32), st.sampled_from(["a", "b", "2*a - b/4 + 1"]))


@st.composite
def circuits(draw, max_qubits=9, max_gates=30, angles=ANGLES):
    """Circuits of every registered gate with any number of controls, matrices, Pauli rotations and excitations."""
    n = draw(st.integers(1, max_qubits))
    circuit = quantum.Circuit(n)
    for _ in range(draw(st.integers(0, max_gates))):
        order = draw(st.permutations(range(n)))
        kind = draw(st.integers(0, 9))
        if kind == 0:
            k = draw(st.integers(1, min(n, 4)))
            gate = unitary(random_unitary(k, draw(st.integers(0, 1000))))
        elif kind == 1:
            gate = pauli_rotation("".join(draw(st.sampled_from("XYZ")) for _ in range(draw(st.integers(1, n)))))
        elif kind == 2 and n > 1:
            gate = excitation(draw(st.integers(2, n)), draw(st.integers(0, 1000)))
        else:
            gate = gates.find(
                draw(st.sampled_from([name for name in gates.names() if (gates.find(name).num_qubits or 0) <= n]))
            )
        k = gate.num_qubits
        controls = order[k : k + draw(st.sampled_from([0, 0, 0, 1, 2]))]
        circuit.append(gate, order[:k], [draw(angles) for _ in range(gate.num_params)], controls=controls)
    return circuit
