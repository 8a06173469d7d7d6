"""Adjoint gradients of random circuits against slow ways to the same numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.strategies import circuits
from tests.twins.statevector import statevector
from triskele import core, quantum
from triskele.quantum.compile.lower import lower
from triskele.quantum.expectation.statevector.adjoint import AdjointMethod
from triskele.quantum.expectation.statevector.observable import compile_observable
from triskele.quantum.simulators.statevector.blocks import Block


def random_operator(n, seed, terms=12):
    """A Hermitian sum of random strings of which some share what they flip."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 1 << n, terms, dtype=np.uint64)
    x[: terms // 2] = x[0]
    return quantum.PauliSum.from_arrays(
        x, random.integers(0, 1 << n, terms, dtype=np.uint64), random.normal(size=terms)
    )


def finite_difference(f, x, step=1e-5):
    """Central differences of a function of a vector."""
    return np.array([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))])


@settings(max_examples=40, deadline=None)
@given(circuits(), st.integers(0, 1000))
def test_gradients_of_random_circuits(circuit, seed):
    n = circuit.num_qubits
    h = random_operator(n, seed)
    theta = np.random.default_rng(seed).normal(size=len(circuit.parameters))

    def slow(theta):
        psi = statevector(circuit, dict(zip(circuit.parameters, theta, strict=True)))
        return np.vdot(psi, h.matrix(n) @ psi).real

    value, gradient = quantum.Expectation(circuit, h).value_and_grad(theta)
    assert value == pytest.approx(slow(theta), abs=1e-11)
    np.testing.assert_allclose(gradient, finite_difference(slow, theta), rtol=0, atol=2e-7)


@settings(max_examples=40, deadline=None)
@given(circuits(max_qubits=8), st.integers(0, 1000), st.booleans(), st.integers(3, 6), st.integers(3, 6))
def test_blocks_and_fusion_change_nothing(circuit, seed, fuse, size, low):
    n = circuit.num_qubits
    program = lower(circuit, fuse=fuse)
    operators = [random_operator(n, seed), random_operator(n, seed + 1)]
    adjoint = AdjointMethod(program, [compile_observable(h, n) for h in operators], block=Block(size, min(low, size)))
    values = np.random.default_rng(seed).normal(size=(3, len(circuit.parameters)))
    ct = np.array([[1.0, -0.5], [2.0, 0.3], [0.0, 1.0]])
    found, gradients, _ = adjoint.pull(values, ct)
    plain = quantum.Expectation(circuit, operators)
    expected, jacobian = plain.value_and_grad(values)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(gradients, np.einsum("bm,bmp->bp", ct, jacobian), rtol=0, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(circuits(max_qubits=6, max_gates=15), st.integers(0, 1000))
def test_tangents_agree_with_gradients(circuit, seed):
    """Second derivatives come from sweeps of their own (amplitude by amplitude, with tangents): so do their first
    ones.
    """
    n, random = circuit.num_qubits, np.random.default_rng(seed)
    energy = quantum.Expectation(circuit, random_operator(n, seed))
    theta, along = random.normal(size=(2, len(circuit.parameters)))
    empty, state = np.zeros((1, 0)), np.zeros((1, 0), complex)
    slopes, tangent, *_ = energy._batched.second(
        theta[None], empty, empty, state, np.ones((1, 1)), along[None], empty, empty, state
    )
    assert slopes[0, 0] == pytest.approx(energy.gradient(theta) @ along, abs=1e-11)
    step = 1e-5
    difference = (energy.gradient(theta + step * along) - energy.gradient(theta - step * along)) / (2 * step)
    np.testing.assert_allclose(tangent[0], difference, rtol=0, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(circuits(max_qubits=5, max_gates=12), st.integers(0, 1000))
def test_both_ways_to_second_derivatives_agree(circuit, seed):
    n = circuit.num_qubits
    energy = quantum.Expectation(circuit, [random_operator(n, seed), random_operator(n, seed + 1)])
    theta = np.random.default_rng(seed).normal(size=len(circuit.parameters))
    by_tangents = core.jacfwd(core.jacrev(energy))(theta)
    np.testing.assert_allclose(energy.hessian(theta), by_tangents, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [11, 13])
def test_states_of_several_blocks(n):
    """More amplitudes than a block has: passes with gathered blocks, shared out to threads."""
    random = np.random.default_rng(n)
    circuit = quantum.Circuit(n)
    for layer in range(2):
        for q in range(n):
            circuit.ry(f"y{layer}_{q}", q).rz(f"z{layer}_{q}", q)
        for q in range(n):
            circuit.cx(q, (q + 3) % n)
        circuit.rzz(f"a{layer}", 0, n - 1).crx(f"b{layer}", n - 1, 1).givens(f"c{layer}", 2, n - 2)
    energy = quantum.Expectation(circuit, random_operator(n, 1, 30))
    theta, along = random.normal(size=(2, len(circuit.parameters)))
    empty, state = np.zeros((1, 0)), np.zeros((1, 0), complex)
    slopes, *_ = energy._batched.second(
        theta[None], empty, empty, state, np.ones((1, 1)), along[None], empty, empty, state
    )
    assert slopes[0, 0] == pytest.approx(energy.gradient(theta) @ along, abs=1e-10)


def test_results_do_not_depend_on_threads():
    circuit = quantum.hardware_efficient(15, 2)
    h = quantum.PauliSum([(f"Z{q} Z{(q + 1) % 15}", 1.0) for q in range(15)] + [(f"X{q}", 0.5) for q in range(15)])
    energy = quantum.Expectation(circuit, [h, quantum.PauliSum("Y3")])
    theta = np.random.default_rng(0).normal(size=len(energy.parameters))
    before, found = core.get_threads(), []
    try:
        for threads in (1, 2, 3):
            core.set_threads(threads)
            found.append(energy.value_and_grad(theta))
    finally:
        core.set_threads(before)
    for value, gradient in found[1:]:
        assert np.array_equal(value, found[0][0]) and np.array_equal(gradient, found[0][1])


@pytest.mark.parametrize("controls", [(), (2,)])
def test_gates_from_functions(controls):
    """Matrices written in Python, differentiated by the core, to second order."""
    x = np.array([[0, 1], [1, 0]])
    kick = quantum.gate(lambda t: np.cos(t**2) * np.eye(2) - 1j * np.sin(t**2) * x, 1, 1, "kick")
    turn = quantum.gate(lambda t: np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]]), 1, 1, "turn")
    circuit = quantum.Circuit(1).append(turn, 0, ["b"]).inverse().remap([0], 3).h(0).h(2)
    circuit = (
        circuit.append(turn, 1, ["a - b"])
        .append(kick, 0, ["a"], controls=controls)
        .cx(0, 1)
        .append(kick, 1, ["2*a - b"])
        .ry("b", 2)
    )
    energy = quantum.Expectation(circuit, quantum.PauliSum("Z0 Z1 + 0.5 X2 + 0.3 Y1"))
    theta = np.array([0.7, -0.4])
    np.testing.assert_allclose(energy.gradient(theta), finite_difference(energy, theta), rtol=0, atol=1e-8)
    core.check_grads(energy, (theta,), order=2)
