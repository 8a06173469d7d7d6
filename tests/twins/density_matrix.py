"""Density matrices instruction by instruction, and by branches of the classical bits: slow, and obviously right."""

import numpy as np

from tests.twins.statevector import apply
from triskele.quantum.gates.base import Gate

_ZERO, _ONE = np.diag([1.0, 0.0]), np.diag([0.0, 1.0])
_LOWER = np.array([[0.0, 1.0], [0.0, 0.0]])


def conjugate(kraus, qubits, rho):
    """sum K rho K^dagger, the operators (m, 2**q, 2**q) acting on `qubits`."""
    n, total = len(rho).bit_length() - 1, 0.0
    for k in kraus:
        bits = rho.T.reshape(-1)  # bit q of the row index is bit q here, that of the column index bit n + q
        bits = apply(k, qubits, bits)
        total = total + apply(np.conj(k), [q + n for q in qubits], bits).reshape(rho.shape).T
    return total


def branches(circuit, values=None, initial=None):
    """{classical bits as an integer: unnormalized density matrix} after the circuit, with parameters by name."""
    size = 1 << circuit.num_qubits
    rho = np.zeros((size, size), complex)
    rho[0, 0] = 1.0
    found = {0: rho if initial is None else np.array(initial, complex)}
    for i in circuit:
        new = {}
        for bits, rho in found.items():
            if (
                i.condition is not None
                and sum((bits >> c & 1) << k for k, c in enumerate(i.condition.clbits)) != i.condition.value
                or i.gate.name == "barrier"
            ):
                out = {bits: rho}
            elif i.gate.name == "measure":
                c = i.clbits[0]
                out = {
                    bits & ~(1 << c): conjugate([_ZERO], i.qubits, rho),
                    bits | 1 << c: conjugate([_ONE], i.qubits, rho),
                }
            elif i.gate.name == "readout_error":
                c = i.clbits[0]
                zero, one = i.gate.matrix[:, bits >> c & 1]
                out = {bits & ~(1 << c): zero * rho, bits | 1 << c: one * rho}
            elif i.gate.name == "reset":
                out = {bits: conjugate([_ZERO, _LOWER], i.qubits, rho)}
            elif isinstance(i.gate, Gate):
                out = {bits: conjugate([i.matrix(values)], (*i.qubits, *i.controls), rho)}
            else:
                out = {bits: conjugate(i.gate.kraus, i.qubits, rho)}
            for b, r in out.items():
                new[b] = new.get(b, 0) + r
        found = new
    return found


def density_matrix(circuit, values=None, initial=None):
    """The density matrix (2**n, 2**n) after a circuit, whatever the classical bits."""
    return sum(branches(circuit, values, initial).values())
