"""Gradients and second derivatives of expectation values after noisy circuits: against differences, parameter shift,
and the core.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.simulators.test_density_matrix import random_circuit
from tests.twins.density_matrix import density_matrix
from triskele import core, quantum
from triskele.quantum.errors import OperatorError, SimulatorError

H = "Z0 + X1 Y2 + 0.3 Y0 X2 Z1 - 0.2"


def energy(circuit, h=H, **options):
    return quantum.Expectation(circuit, h, simulator="density_matrix", **options)


def differences(f, x, step=1e-6):
    return np.moveaxis(np.array([(f(x + d) - f(x - d)) / (2 * step) for d in step * np.eye(len(x))]), 0, -1)


@settings(max_examples=15, deadline=None)
@given(st.integers(3, 6), st.integers(0, 2**32))
def test_gradient_of_random_circuits(n, seed):
    circuit = random_circuit(n, 40, seed).rx("a", 0).ry("b", 1).rz("c", 2).h(2)
    e = energy(circuit, [H, "Z0 Z1"])
    theta = np.random.default_rng(seed).normal(size=3)
    values, gradients = e.value_and_grad(theta)
    rho = density_matrix(circuit, dict(zip(circuit.parameters, theta, strict=True)))
    assert values[0] == pytest.approx(np.trace(quantum.PauliSum(H).matrix(n).toarray() @ rho).real, abs=1e-12)
    np.testing.assert_allclose(gradients, differences(e, theta), atol=2e-9)


def noisy(n, seed=0):
    rng = np.random.default_rng(seed)
    circuit = quantum.Circuit(n)
    for k in range(3):
        for q in range(n):
            circuit.ry(f"y{k}{q}", q).depolarizing(0.02, q).rz({f"z{k}{q}": 0.5, "shared": 1.0}, q).amplitude_damping(
                0.05, q
            )
        for q in range(n - 1):
            circuit.crx(rng.normal(), q, q + 1).depolarizing(0.03, q, q + 1)
    return circuit


def test_parameter_shift_of_rotations():
    """Rotations by one parameter each: their derivative is half the difference of values at +-pi/2, noise or not."""
    e = energy(noisy(3))
    theta = np.random.default_rng(1).normal(size=len(e.parameters))
    gradient = e.gradient(theta)
    for k, name in enumerate(e.parameters):
        if name.startswith("y"):
            shift = np.pi / 2 * (np.arange(len(theta)) == k)
            assert gradient[k] == pytest.approx((e(theta + shift) - e(theta - shift)) / 2, abs=1e-13)


def test_without_noise_it_is_the_gradient_of_state_vectors():
    circuit = quantum.Circuit(3).h(0).rx("a", 0).cx(0, 1).fsim("b", "2*a - c", 1, 2).cp("c", 0, 2).ry("b", 1)
    theta = np.array([0.3, -0.4, 1.2])
    for ours, pure in zip(
        energy(circuit).value_and_grad(theta), quantum.Expectation(circuit, H).value_and_grad(theta), strict=True
    ):
        np.testing.assert_allclose(ours, pure, atol=1e-13)


@pytest.mark.parametrize("n", [8, 9])
def test_vectors_in_blocks(n):
    """States of many qubits go back block by block."""
    e = energy(noisy(n))
    assert len(e._engine._ticks) > 1
    theta = np.random.default_rng(2).normal(size=len(e.parameters))
    gradient = e.gradient(theta)
    rng = np.random.default_rng(3)
    for _ in range(4):
        d = rng.normal(size=len(theta))
        assert gradient @ d == pytest.approx((e(theta + 1e-6 * d) - e(theta - 1e-6 * d)) / 2e-6, abs=2e-8)


def test_few_vectors_are_kept_when_there_is_no_room(monkeypatch):
    """With little memory for vectors on the way, they are computed again: the same gradient."""
    e = energy(noisy(4))
    theta = np.random.default_rng(2).normal(size=len(e.parameters))
    expected = e.gradient(theta)
    monkeypatch.setattr("triskele.quantum.expectation.density_matrix.engine._KEPT", 0)
    assert np.array_equal(e.gradient(theta), expected)


def test_maps_on_many_qubits():
    circuit = quantum.Circuit(6).append("rx", 5, ["a"], controls=[0, 1, 2, 3, 4])
    circuit = quantum.Circuit(6).h(0).ry(0.3, 1) + circuit
    for q in range(6):
        circuit = quantum.Circuit(6).ry(0.5 + q, q) + circuit
    circuit.depolarizing(0.2, 0, 1, 2, 3, 4).mcx([0, 1, 2, 3], 5).pauli_rotation("XYZXYZ", "b", range(6)).ry("a", 5)
    e = energy(circuit, "Z5 + X0 Z1 + Y3")
    theta = np.array([0.4, 1.3])
    np.testing.assert_allclose(e.gradient(theta), differences(e, theta), atol=1e-9)


def test_gates_of_functions():
    def bend(t, f):
        c, s = core.numpy.cos(t), core.numpy.sin(t)
        return core.numpy.stack(
            [
                core.numpy.stack([c + 0j, -s * core.numpy.exp(-1j * f)]),
                core.numpy.stack([s * core.numpy.exp(1j * f), c + 0j]),
            ]
        )

    gate = quantum.gates.Gate("bend", 1, 2, function=bend)
    circuit = (
        quantum.Circuit(3)
        .h(0)
        .append(gate, 1, ["a", "b"])
        .cx(0, 1)
        .depolarizing(0.1, 0)
        .append(gate, 2, ["2*b", "a"], controls=[1])
        .ry("a", 0)
    )
    e = energy(circuit)
    theta = np.array([0.4, 1.3])
    np.testing.assert_allclose(e.gradient(theta), differences(e, theta), atol=1e-9)


def test_transforms_of_the_core():
    e = energy(noisy(3))
    theta = np.random.default_rng(1).normal(size=len(e.parameters))
    np.testing.assert_allclose(core.grad(e)(theta), e.gradient(theta), atol=1e-14)
    batch = np.stack([theta, -theta])
    np.testing.assert_allclose(core.vmap(e)(batch), [e(theta), e(-theta)], atol=1e-14)
    np.testing.assert_allclose(e(batch), [e(theta), e(-theta)], atol=1e-14)
    d = np.random.default_rng(2).normal(size=len(theta))
    assert core.jvp(e, (theta,), (d,))[1] == pytest.approx(e.gradient(theta) @ d, abs=1e-13)


def test_second_derivatives():
    e = energy(noisy(3))
    theta = np.random.default_rng(1).normal(size=len(e.parameters))
    hessian = e.hessian(theta)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-13)
    np.testing.assert_allclose(hessian, differences(e.gradient, theta), atol=2e-9)


def test_coefficients_and_initial_state():
    circuit = quantum.Circuit(3).rx("a", 0).depolarizing(0.1, 0).cx(0, 1).ry("b", 1).amplitude_damping(0.2, 2).cx(1, 2)
    e, theta = energy(circuit), np.array([0.3, 0.9])
    h = quantum.PauliSum(H)
    c = h.coefficients.real.copy()
    np.testing.assert_allclose(
        core.grad(lambda k: e(theta, coefficients=k))(c), differences(lambda k: e(theta, coefficients=k), c), atol=1e-9
    )
    rng = np.random.default_rng(0)
    psi = rng.normal(size=8) + 1j * rng.normal(size=8)
    psi /= np.linalg.norm(psi)
    rho = density_matrix(circuit, {"a": 0.3, "b": 0.9}, np.outer(psi, psi.conj()))
    assert e(theta, initial=psi) == pytest.approx(np.trace(h.matrix(3).toarray() @ rho).real, abs=1e-13)
    assert energy(circuit, initial=psi)(theta) == pytest.approx(float(e(theta, initial=psi)), abs=1e-14)

    def real(x):
        return e(theta, initial=x[:8] + 1j * x[8:])

    x = np.concatenate([psi.real, psi.imag])
    np.testing.assert_allclose(core.grad(real)(x), differences(real, x), atol=1e-8)
    np.testing.assert_allclose(
        core.jvp(core.grad(real), (x,), (x[::-1].copy(),))[1], differences(core.grad(real), x) @ x[::-1], atol=1e-7
    )


def test_data_and_training():
    """Encoder and ansatz with noise between them; a few steps of descent lower the value."""
    circuit = quantum.Circuit(2).ry("x", 0).as_encoder() + quantum.Circuit(2).depolarizing(0.05, 0).rx("a", 0).cx(
        0, 1
    ).ry("b", 1)
    e = energy(circuit, "Z0 Z1")
    theta, data = np.array([0.1, 0.2]), np.array([[0.3], [0.8]])
    values, gradients = e.value_and_grad(theta, data)
    assert values.shape == (2,) and gradients.shape == (2, 2)
    for _ in range(30):
        theta = theta - 0.3 * e.gradient(theta, data).mean(0)
    assert e(theta, data).mean() < values.mean() - 0.5


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: energy(quantum.Circuit(2).bit_flip(0.1, 0), "Z5"), OperatorError, "qubits 0 to 1"),
        (
            lambda: energy(quantum.Circuit(2).bit_flip(0.1, 0), quantum.PauliSum([("Z0", 1j)])),
            OperatorError,
            "Hermitian",
        ),
        (
            lambda: quantum.Expectation(quantum.Circuit(1), "Z0", simulator="trajectories", gradient="adjoint"),
            SimulatorError,
            "parameter_shift",
        ),
        (
            lambda: energy(quantum.Circuit(6).append("rx", 5, ["a"], controls=range(5)).bit_flip(0.1, 0)).hessian(
                np.ones(1)
            ),
            SimulatorError,
            "at most 4 qubits, got rx on 6",
        ),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
