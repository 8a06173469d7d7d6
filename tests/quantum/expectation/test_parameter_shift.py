"""Parameter shift: the rule itself, and every registered gate against the adjoint method."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triskele import core, quantum
from triskele.quantum import gates
from triskele.quantum.errors import ParameterError, SimulatorError
from triskele.quantum.expectation.parameter_shift import frequencies, shift_rule

PARAMETERISED = [name for name in gates.names() if gates.find(name).num_params and gates.find(name).factors is not None]


@given(st.lists(st.integers(1, 12), min_size=1, max_size=5, unique=True), st.floats(-3, 3), st.integers(0, 100))
def test_rule_differentiates_trigonometric_polynomials(frequencies, t, seed):
    w = 0.5 * np.array(sorted(frequencies))
    a, b, constant = np.random.default_rng(seed).normal(size=(3, len(w)))

    def f(t):
        return constant[0] + np.sin(np.multiply.outer(t, w)) @ a + np.cos(np.multiply.outer(t, w)) @ b

    coefficients, shifts = shift_rule(w)
    expected = (w * np.cos(w * t)) @ a - (w * np.sin(w * t)) @ b
    assert coefficients @ f(t + shifts) == pytest.approx(expected, abs=1e-7 * max(1, abs(coefficients).sum()))


def test_well_known_rules():
    assert frequencies(gates.find("rx"), 0).tolist() == [1.0]
    assert frequencies(gates.find("p"), 0, controlled=True).tolist() == [1.0]
    assert frequencies(gates.find("rz"), 0, controlled=True).tolist() == [0.5, 1.0]
    coefficients, shifts = shift_rule([0.5, 1.0])  # four terms: Anselmetti et al., arXiv:2104.05695, eq. (8)
    root = np.sqrt(2)
    np.testing.assert_allclose(
        np.sort(np.abs(coefficients)), np.sort([(root - 1) / (4 * root), (root + 1) / (4 * root)] * 2), rtol=1e-12
    )
    np.testing.assert_allclose(
        np.sort(np.abs(shifts)), np.sort([np.pi / 2, np.pi / 2, 3 * np.pi / 2, 3 * np.pi / 2]), rtol=1e-12
    )


@pytest.mark.parametrize("controls", [0, 1, 2])
@pytest.mark.parametrize("name", PARAMETERISED)
def test_every_gate(name, controls):
    gate = gates.find(name)
    n = (gate.num_qubits or 1) + controls
    random = np.random.default_rng(7)
    circuit = quantum.Circuit(n)
    for q in range(n):
        circuit.ry(0.3 + q, q).rz(0.7 * q, q)
    names = [f"t{k}" for k in range(gate.num_params)]
    circuit.append(
        gate, range(controls, controls + gate.num_qubits), [{p: 1.5} for p in names], controls=range(controls)
    )
    circuit.ry({"t0": -0.5}, 0)
    for q in range(n):
        circuit.rx(0.2 + q, q)
    h = quantum.PauliSum(
        [("".join(f"{p}{q} " for q, p in enumerate(random.choice(list("XYZ"), n))), c) for c in random.normal(size=4)]
    )
    theta = random.normal(size=gate.num_params)
    exact, shifted = (
        quantum.Expectation(circuit, h, gradient=kind).gradient(theta) for kind in ("adjoint", "parameter_shift")
    )
    np.testing.assert_allclose(shifted, exact, rtol=0, atol=1e-12)


def test_shots():
    circuit = quantum.Circuit(2).ry("a", 0).crx("b", 0, 1)
    h = [quantum.PauliSum("Z0 Z1 + 0.5 X1"), quantum.PauliSum("Y0")]
    theta = np.array([0.4, 1.1])
    exact = quantum.Expectation(circuit, h)
    noisy, again = (quantum.Expectation(circuit, h, shots=20_000, seed=5) for _ in range(2))
    first, second = noisy(theta), noisy(theta)
    assert np.array_equal(first, again(theta)) and not np.array_equal(first, second)
    np.testing.assert_allclose(first, exact(theta), atol=0.05)
    np.testing.assert_allclose(noisy.gradient(theta), exact.gradient(theta), atol=0.05)
    np.testing.assert_allclose(core.jacrev(noisy)(theta), exact.gradient(theta), atol=0.05)


def test_through_a_noisy_simulator():
    circuit = quantum.Circuit(2).ry("a", 0).depolarizing(0.1, 0).crx("a", 0, 1).amplitude_damping(0.2, 1)
    h = quantum.PauliSum("Z0 Z1 + 0.5 X1")
    theta = np.array([0.4])
    energy = quantum.Expectation(circuit, h, simulator="density_matrix", gradient="parameter_shift")
    difference = (energy(theta + 1e-5) - energy(theta - 1e-5)) / 2e-5
    assert energy.gradient(theta)[0] == pytest.approx(difference, abs=1e-8)
    assert energy(theta) == pytest.approx(
        quantum.run(circuit, theta, simulator="density_matrix").expectation(h), abs=1e-14
    )


def test_errors():
    x = np.array([[0, 1], [1, 0]])
    kick = quantum.gate(lambda t: np.cos(t**2) * np.eye(2) - 1j * np.sin(t**2) * x, 1, 1, "kick")
    circuit, h = quantum.Circuit(1).append(kick, 0, ["a"]), quantum.PauliSum("Z0")
    with pytest.raises(SimulatorError, match="needs a generator, which kick does not have"):
        quantum.Expectation(circuit, h, gradient="parameter_shift").gradient(np.zeros(1))
    plain = quantum.Circuit(1).rx("a", 0)
    with pytest.raises(SimulatorError, match="gradient must be None, 'adjoint' or 'parameter_shift'"):
        quantum.Expectation(plain, h, gradient="finite")
    with pytest.raises(SimulatorError, match="shots=10"):
        quantum.Expectation(plain, h, shots=10, gradient="adjoint")
    with pytest.raises(SimulatorError, match="shots"):
        quantum.Expectation(plain, h, shots=0, gradient="parameter_shift")
    with pytest.raises(SimulatorError, match="simulator must be one of"):
        quantum.Expectation(plain, h, simulator="abacus")
    with pytest.raises(SimulatorError, match="second derivatives need"):
        core.hessian(quantum.Expectation(plain, h, gradient="parameter_shift"))(np.zeros(1))
    for bad in ([], [0.0], [1.0, 1.0]):
        with pytest.raises(ParameterError, match="different positive numbers"):
            shift_rule(bad)
