"""Trajectories: they average to the density matrix, and are the same for any number of threads and of trajectories at a
time.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.noise.test_noise import CASES, DENSITY_MATRICES, reference_circuit
from tests.quantum.simulators.test_density_matrix import VALUES, random_circuit
from triskele import quantum
from triskele.core.kernels import threads
from triskele.quantum import noise
from triskele.quantum.errors import SimulatorError


def trajectories(circuit, shots, seed=1, **options):
    theta = {name: VALUES[name] for name in circuit.parameters}
    return quantum.run(circuit, theta, simulator="trajectories", shots=shots, seed=seed, **options)


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda c: c["name"])
def test_reference_density_matrices(case):
    """Entries of the averaged density matrix lie within five standard errors, of at most 1/sqrt(shots)."""
    rho = trajectories(reference_circuit(case), 20_000).density_matrix()
    assert np.abs(rho - DENSITY_MATRICES[case["name"]]).max() < 5 / np.sqrt(20_000)


@settings(max_examples=15, deadline=None)
@given(st.integers(3, 5), st.integers(0, 2**32))
def test_expectation_values_agree_with_the_density_matrix(n, seed):
    circuit = random_circuit(n, 30, seed)
    circuit = circuit._with(i for i in circuit if i.gate.name != "measure")
    circuit.num_clbits = 0
    h = "Z0 + X1 Y2 + 0.3 Y0 X2 Z1 + 0.7"
    exact = quantum.run(circuit, {n: VALUES[n] for n in circuit.parameters}, simulator="density_matrix").expectation(h)
    mean = trajectories(circuit.bit_flip(0.0, 0), 4000, seed).expectation(h)
    assert abs(mean.value - exact) < 5 * mean.error + 1e-9


def test_states_are_normalized_and_pure_noise_is_exact():
    circuit = (
        quantum.Circuit(3).h(0).cx(0, 1).amplitude_damping(0.4, 1).ry(0.3, 2).thermal_relaxation(50, 70, 30, 0).cx(2, 0)
    )
    states = np.concatenate(list(trajectories(circuit, 1001).states()))
    assert states.shape == (1001, 8)
    np.testing.assert_allclose(np.linalg.norm(states, axis=1), 1.0, atol=1e-14)
    certain = quantum.Circuit(2).h(0).bit_flip(1.0, 0).cx(0, 1).phase_flip(1.0, 1)
    state = next(trajectories(certain, 5).states())
    np.testing.assert_allclose(
        np.abs(state @ quantum.run(quantum.Circuit(2).h(0).cx(0, 1).z(1)).statevector().conj()), 1.0, atol=1e-14
    )


@pytest.mark.parametrize(
    "channel",
    [
        noise.kraus(
            [
                np.kron(k, l)
                for k in noise.amplitude_damping(0.3).kraus
                for l in noise.generalized_amplitude_damping(0.2, 0.6).kraus
            ]
        ),
        noise.kraus(np.sqrt(0.5) * np.array([np.eye(2), [[0.6, 0.8], [-0.8, 0.6]]])),
        noise.kraus(np.sqrt(0.5) * np.array([np.eye(4), np.kron([[0.6, 0.8], [-0.8, 0.6]], [[1, 0], [0, 1j]])])),
        noise.depolarizing(0.5, 2),
    ],
    ids=["damping of two", "mixture", "mixture of two", "depolarizing of two"],
)
def test_kinds_of_channels(channel):
    q = (2, 0)[: channel.num_qubits]
    circuit = (
        quantum.Circuit(3)
        .ry(0.9, 0)
        .cx(0, 1)
        .cx(1, 2)
        .rx(0.4, 2)
        .append(channel, q)
        .cx(2, 1)
        .append(channel, q[::-1])
        .h(0)
    )
    exact = quantum.run(circuit, simulator="density_matrix").density_matrix()
    assert np.abs(trajectories(circuit, 20_000).density_matrix() - exact).max() < 5 / np.sqrt(20_000)


def test_same_seed_same_trajectories_with_any_number_of_threads():
    circuit = random_circuit(4, 40, 7).amplitude_damping(0.3, 1)
    circuit = circuit._with(i for i in circuit if i.gate.name != "measure")
    circuit.num_clbits = 0
    before = threads.get_threads()
    try:
        found = []
        for count in (1, 2, 5):
            threads.set_threads(count)
            result = trajectories(circuit, 333, 5)
            found.append(
                (result.sample().indices, result.expectation("Z0 + X1"), np.concatenate(list(result.states())))
            )
    finally:
        threads.set_threads(before)
    for other in found[1:]:
        assert (
            np.array_equal(found[0][0], other[0]) and found[0][1] == other[1] and np.array_equal(found[0][2], other[2])
        )
    fewer = trajectories(circuit, 100, 5)
    assert np.array_equal(fewer.sample().indices, found[0][0][:100])  # trajectory i is trajectory i
    assert not np.array_equal(trajectories(circuit, 333, 6).sample().indices, found[0][0])


def test_samples_have_the_probabilities_of_the_average():
    circuit = quantum.Circuit(3).h(0).cx(0, 1).depolarizing(0.3, 1).ry(0.7, 2).amplitude_damping(0.4, 2)
    p = quantum.run(circuit, simulator="density_matrix").probabilities()
    result = trajectories(circuit, 50_000)
    counts = np.bincount(result.sample().indices, minlength=8)
    assert ((counts - 50_000 * p) ** 2 / (50_000 * p)).sum() < 35  # chi-square of 7 degrees of freedom
    np.testing.assert_allclose(result.probabilities(), p, atol=5 / np.sqrt(50_000))
    assert len(result.sample(100, qubits=[2])) == 100 and result.sample(qubits=[2]).num_bits == 1
    np.testing.assert_allclose(
        result.partial_trace(0), quantum.run(circuit, simulator="density_matrix").partial_trace(0), atol=0.02
    )


def test_initial_state():
    psi = np.array([0.6, 0, 0, 0.8j])
    state = next(trajectories(quantum.Circuit(2).bit_flip(1.0, 1), 8, initial=psi).states())
    np.testing.assert_allclose(state[3], [0, 0.8j, 0.6, 0], atol=1e-15)


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            lambda: quantum.run(quantum.Circuit(1).bit_flip(0.1, 0), simulator="trajectories"),
            "number of trajectories is needed",
        ),
        (lambda: trajectories(quantum.Circuit(1).bit_flip(0.1, 0), 0), "shots must be an integer >= 1, got 0"),
        (
            lambda: trajectories(quantum.Circuit(1).bit_flip(0.1, 0), 10).statevector(),
            "every trajectory ends in its own state",
        ),
        (lambda: trajectories(quantum.Circuit(40).bit_flip(0.1, 0), 10), "40 qubits need .* GiB"),
        (lambda: trajectories(quantum.Circuit(1).bit_flip(0.1, 0), 10).expectation("Z3"), "qubits 0 to 0"),
        (lambda: trajectories(quantum.Circuit(2).bit_flip(0.1, 0), 10, initial=np.ones(4)), "norm 1"),
    ],
)
def test_errors(run, message):
    with pytest.raises((SimulatorError, ValueError), match=message):
        run()
