"""Quantum Fisher information, natural gradient, inner products."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.strategies import circuits
from tests.twins.statevector import statevector
from triskele import core, quantum
from triskele.quantum.errors import CircuitError, ParameterError, SimulatorError


def test_analytic_values():
    """A rotation about an axis at angle t to the state has sin(t)**2; the global phase has none."""
    circuit = quantum.Circuit(2).ry("a", 0).rz("b", 0).global_phase("c").h(1)
    np.testing.assert_allclose(quantum.qfi(circuit, [0.5, 0.1, 2.0]), np.diag([1.0, np.sin(0.5) ** 2, 0.0]), atol=1e-14)


@settings(max_examples=20, deadline=None)
@given(circuits(max_qubits=5, max_gates=15), st.integers(0, 1000))
def test_is_the_second_derivative_of_fidelity(circuit, seed):
    """1 - |<psi(t)|psi(t + d)>|^2 = d F d / 4 up to third order."""
    random = np.random.default_rng(seed)
    theta, along = random.normal(size=(2, len(circuit.parameters)))

    def state(t):
        return statevector(circuit, dict(zip(circuit.parameters, t, strict=True)))

    metric = quantum.qfi(circuit, theta)
    step = 1e-3
    lost = 1 - abs(np.vdot(state(theta - step * along), state(theta + step * along))) ** 2
    assert lost / step**2 == pytest.approx(along @ metric @ along, abs=1e-3 * (1 + along @ metric @ along))
    assert np.array_equal(metric, metric.T)
    assert not len(theta) or np.linalg.eigvalsh(metric)[0] > -1e-10


def test_natural_gradient_does_not_depend_on_coordinates():
    """The same state written with other parameters moves the same way."""
    first = quantum.Circuit(1).ry("a", 0).rz("b", 0)
    second = quantum.Circuit(1).ry({"a": 2.0}, 0).rz({"b": 0.5, "a": 0.5}, 0)
    h = quantum.PauliSum("X0 + 0.3 Z0")
    change = np.array([[2.0, 0.0], [0.5, 0.5]])
    there = np.array([0.4, 0.8])
    g1 = quantum.natural_gradient(quantum.Expectation(first, h), change @ there, regularization=0.0)
    g2 = quantum.natural_gradient(quantum.Expectation(second, h), there, regularization=0.0)
    np.testing.assert_allclose(change @ g2, g1, rtol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.data(), st.integers(0, 1000))
def test_inner_product(data, seed):
    bra = data.draw(circuits(max_qubits=4, max_gates=8))
    n, random = bra.num_qubits, np.random.default_rng(seed)
    ket = quantum.Circuit(n)
    for q in range(n):
        ket.ry("b", q).rz({"c": 1.5}, q).cx(q, (q + 1) % n) if n > 1 else ket.rx("b", q).p("c", q)
    operator = quantum.PauliSum([(s, c) for s, c in (("", 0.3), ("X0", 1 + 2j), ("Y0", -0.7j), (f"Z{n - 1}", 0.4))])
    product = quantum.inner_product(bra, operator, ket)
    theta = random.normal(size=len(product.parameters))
    values = dict(zip(product.parameters, theta, strict=True))
    phi, psi = (s / np.linalg.norm(s) for s in random.normal(size=(2, 1 << n)) + 1j * random.normal(size=(2, 1 << n)))
    for states in ({}, {"bra": phi, "ket": psi}):
        left, right = (statevector(c, values, states.get(k)) for c, k in ((bra, "bra"), (ket, "ket")))
        assert product(theta, **states) == pytest.approx(np.vdot(left, operator.matrix(n) @ right), abs=1e-12)


def test_derivatives_of_inner_products():
    bra, ket = quantum.Circuit(2).ry("a", 0).cx(0, 1), quantum.Circuit(2).rx("a", 0).crz("b", 0, 1).h(1)
    product = quantum.inner_product(bra, quantum.PauliSum("X0 + 0.5j Z1"), ket)
    core.check_grads(lambda t: np.imag(product(t) * (1 + 2j)), (np.array([0.3, 0.8]),), order=2)
    batch = np.random.default_rng(0).normal(size=(3, 2))
    np.testing.assert_allclose(core.vmap(product)(batch), product(batch), atol=1e-14)


def test_errors():
    one, two = quantum.Circuit(1).ry("a", 0), quantum.Circuit(2)
    with pytest.raises(CircuitError, match="same number of qubits"):
        quantum.inner_product(one, quantum.PauliSum("Z0"), two)
    with pytest.raises(SimulatorError, match="shape"):
        quantum.inner_product(one, quantum.PauliSum("Z0"), one)(np.zeros(1), bra=np.zeros(4))
    with pytest.raises(ParameterError, match="got the shape"):
        quantum.qfi(one, np.zeros(2))
    energy = quantum.Expectation(one, [quantum.PauliSum("Z0")])
    with pytest.raises(ParameterError, match="one operator"):
        quantum.natural_gradient(energy, np.zeros(1))
    with pytest.raises(SimulatorError, match="GiB"):
        wide = quantum.Circuit(26)
        for k in range(20):
            wide.ry(f"t{k}", k)
        quantum.qfi(wide, np.zeros(20))
