"""TensorCircuit on JAX: the whole batch is one compiled function; Hamiltonians are dense matrices, which compile
soonest.
"""

import functools

import numpy as np

modules = ("tensorcircuit", "jax")
PAULIS = {"I": np.eye(2), "X": np.array([[0, 1], [1, 0]]), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1, -1])}


def dense(terms, n):
    total = np.zeros((1 << n, 1 << n), complex)
    for text, c in terms:
        letters = {int(s[1:]): s[0] for s in text.split()}
        total += c * functools.reduce(np.kron, [PAULIS[letters.get(q, "I")] for q in reversed(range(n))])
    return total


def prepare(bench, threads):
    import jax
    import jax.numpy as jnp
    import tensorcircuit as tc

    tc.set_backend("jax")
    tc.set_dtype(bench.dtype)
    n = bench.num_qubits
    matrices = jnp.asarray(np.stack([dense(terms, n) for terms in bench.hamiltonians]))

    def energies(theta, x):
        values, circuit = jnp.concatenate([theta, x]), tc.Circuit(n)
        for name, qubits, a in bench.elementary:
            wires = [n - 1 - q for q in qubits]  # its qubit 0 is the highest bit
            if a is None:
                getattr(circuit, name)(*wires)
            else:
                getattr(circuit, name)(*wires, theta=sum(c * values[k] for k, c in a))
        psi = circuit.state()
        found = jnp.real(jnp.einsum("i,mij,j->m", psi.conj(), matrices, psi))
        return found, found

    each = jax.jit(jax.vmap(jax.jacrev(energies, has_aux=True), (None, 0)))
    theta, data = jnp.asarray(bench.theta), jnp.asarray(bench.data)
    return lambda: jax.block_until_ready(each(theta, data)), lambda out: [np.asarray(out[1]), np.asarray(out[0])]
