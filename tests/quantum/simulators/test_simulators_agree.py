"""Every simulator that can run a circuit gives the same answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.strategies import circuits
from triskele import quantum
from triskele.quantum.operators.pauli import PauliSum

CLIFFORD = ["x", "y", "z", "h", "s", "sdg", "sx", "sxdg", "cx", "cy", "cz", "swap", "iswap", "ecr", "dcx"]


def pauli_sum(n, seed):
    random = np.random.default_rng(seed)
    letters = random.choice(list("IXYZ"), (6, n))
    return PauliSum([(" ".join(f"{p}{q}" for q, p in enumerate(row) if p != "I"), random.normal()) for row in letters])


def answers(result, n, seed):
    """What all kinds of results can be asked."""
    some = np.random.default_rng(seed).permutation(n)[: max(n - 1, 1)].tolist()
    return {
        "probabilities": result.probabilities(),
        "marginal": result.probabilities(some),
        "expectation": float(result.expectation(pauli_sum(n, seed))),
        "entropy": result.entropy(some[:2]),
        "state": result.density_matrix(),
        "part": result.partial_trace(some[:2]),
    }


def check(circuit, theta, simulators, seed):
    n = circuit.num_qubits
    expected = answers(quantum.run(circuit, theta), n, seed)
    for simulator in simulators:
        found = answers(quantum.run(circuit, theta, simulator=simulator, shots=2, seed=seed), n, seed)
        for what, value in expected.items():
            np.testing.assert_allclose(
                found[what], value, atol=1e-7 if what == "entropy" else 1e-10, err_msg=f"{simulator}: {what}"
            )


@given(circuits(max_qubits=4, max_gates=15), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_any_gates(circuit, seed):
    theta = np.random.default_rng(seed).normal(size=len(circuit.parameters))
    check(circuit, theta, ["density_matrix", "trajectories"], seed)


@given(st.data(), st.integers(1, 5), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_clifford_gates(data, n, seed):
    circuit = quantum.Circuit(n)
    for name in data.draw(st.lists(st.sampled_from(CLIFFORD if n > 1 else CLIFFORD[:8]), max_size=20)):
        qubits = data.draw(st.permutations(range(n)))
        getattr(circuit, name)(*qubits[: 1 if name in CLIFFORD[:8] else 2])
    check(circuit, None, ["stabilizer", "density_matrix"], seed)


@pytest.mark.parametrize("noisy", [False, True])
def test_counts_of_a_circuit_that_all_can_run(noisy):
    circuit = quantum.Circuit(3).h(0).cx(0, 1).s(1).sx(2)
    circuit = circuit.depolarizing(0.1, 0, 1).bit_flip(0.05, 2) if noisy else circuit
    circuit.measure(0, 0).reset(0).cx(1, 0)
    with circuit.when(0):
        circuit.x(2)
    circuit.measure([0, 1, 2], [1, 2, 3])
    shots = 4000
    found = {
        name: quantum.run(circuit, simulator=name, shots=shots, seed=6).counts()
        for name in ("density_matrix", "trajectories", "stabilizer")
    }
    outcomes = set().union(*found.values())
    for bits in outcomes:
        p = np.mean([counts.get(bits, 0) / shots for counts in found.values()])
        for name, counts in found.items():
            assert counts.get(bits, 0) / shots == pytest.approx(p, abs=4 * np.sqrt(p / shots)), (name, bits)
