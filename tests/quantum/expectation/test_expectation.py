"""`Expectation` as a function: arguments, batches, transforms of the core, errors."""

import copy
import gc
import pickle

import numpy as np
import pytest

from tests.twins.statevector import statevector
from triskele import core, quantum
from triskele.quantum.errors import CircuitError, OperatorError, ParameterError, SimulatorError

ENCODER = quantum.Circuit(3).rx("x0", 0).ry({"x1": 2.0}, 1).as_encoder()
ANSATZ = (
    quantum.Circuit(3)
    .h(0)
    .ry("a", 0)
    .crx({"b": 2.0}, 0, 1)
    .p("a + b", 1)
    .rzz("c", 1, 2)
    .u("a", "b", "c", 2)
    .fsim("c", "a", 0, 2)
)
OPERATORS = [quantum.PauliSum("0.5 Z0 Z1 - 1.2 X2 + 0.3 Y0 Y1"), quantum.PauliSum("X0 X1 + 0.1 Z2")]
RANDOM = np.random.default_rng(3)
THETA, DATA = RANDOM.normal(size=3), RANDOM.normal(size=2)
PSI = RANDOM.normal(size=8) + 1j * RANDOM.normal(size=8)
PSI /= np.linalg.norm(PSI)


def energies():
    return quantum.Expectation(ENCODER + ANSATZ, OPERATORS)


def expected(theta, data, h, initial=None):
    circuit = ENCODER + ANSATZ
    values = dict(zip(circuit.parameters + circuit.data, [*theta, *data], strict=True))
    psi = statevector(circuit, values, initial)
    return np.vdot(psi, h.matrix(3) @ psi).real


def test_values_and_shapes():
    energy = energies()
    assert energy.parameters == ("a", "b", "c") and energy.data == ("x0", "x1")
    np.testing.assert_allclose(energy(THETA, DATA), [expected(THETA, DATA, h) for h in OPERATORS], atol=1e-14)
    np.testing.assert_allclose(
        energy(THETA, DATA, initial=PSI), [expected(THETA, DATA, h, PSI) for h in OPERATORS], atol=1e-14
    )
    single = quantum.Expectation(ENCODER + ANSATZ, OPERATORS[0])
    assert np.shape(single(THETA, DATA)) == () and single.gradient(THETA, DATA).shape == (3,)
    batch = RANDOM.normal(size=(5, 2))
    for e, m in ((energy, (2,)), (single, ())):
        value, gradient = e.value_and_grad(THETA, batch)
        assert value.shape == (5, *m) and gradient.shape == (5, *m, 3)
        np.testing.assert_allclose(value, [e(THETA, d) for d in batch], atol=1e-15)
        np.testing.assert_allclose(gradient, [e.gradient(THETA, d) for d in batch], atol=1e-15)
    assert energy(np.stack([THETA] * 4), DATA).shape == (4, 2)


def test_values_by_name():
    energy = energies()
    assert np.array_equal(
        energy({"c": THETA[2], "a": THETA[0], "b": THETA[1]}, {"x1": DATA[1], "x0": DATA[0]}), energy(THETA, DATA)
    )
    slopes = core.grad(lambda t: energy(t, DATA)[0])({"a": THETA[0], "b": THETA[1], "c": THETA[2]})
    np.testing.assert_allclose([slopes[n] for n in "abc"], energy.gradient(THETA, DATA)[0], atol=1e-14)


def test_initial_state_given_to_the_constructor():
    energy = quantum.Expectation(ENCODER + ANSATZ, OPERATORS, initial=PSI)
    np.testing.assert_allclose(energy(THETA, DATA), energies()(THETA, DATA, initial=PSI), atol=1e-15)
    assert energy.gradient(THETA, DATA).shape == (2, 3)


def test_coefficients_as_arguments():
    energy, own = energies(), [h.coefficients.real for h in OPERATORS]
    np.testing.assert_allclose(energy(THETA, DATA, coefficients=own), energy(THETA, DATA), atol=1e-15)
    doubled = energy(THETA, DATA, coefficients=[2 * own[0], 0 * own[1]])
    np.testing.assert_allclose(doubled, energy(THETA, DATA) * [2, 0], atol=1e-15)


def test_derivatives_of_everything_to_second_order():
    energy, own = energies(), [h.coefficients.real for h in OPERATORS]

    def f(theta, data, first, second, psi):
        return energy(theta, data, coefficients=[first, second], initial=psi)

    core.check_grads(f, (THETA, DATA, *own, PSI), order=2)


def test_single_operator_to_second_order():
    core.check_grads(quantum.Expectation(ANSATZ, OPERATORS[0]), (THETA,), order=2)


def test_composition_of_transforms():
    energy = energies()
    batch = RANDOM.normal(size=(4, 2))

    def loss(theta, data):
        return np.sum(np.tanh(energy(theta, data)) ** 2)

    plain = core.grad(loss)(THETA, batch)
    np.testing.assert_allclose(core.jit(core.grad(loss))(THETA, batch), plain, atol=1e-14)
    np.testing.assert_allclose(core.vmap(energy, in_axes=(None, 0))(THETA, batch), energy(THETA, batch), atol=1e-15)
    np.testing.assert_allclose(
        np.sum(core.vmap(core.grad(loss), in_axes=(None, 0))(THETA, batch), 0), plain, atol=1e-13
    )
    np.testing.assert_allclose(
        core.vmap(core.vmap(energy, in_axes=(None, 0)), in_axes=(0, None))(np.stack([THETA, 2 * THETA]), batch),
        [energy(THETA, batch), energy(2 * THETA, batch)],
        atol=1e-15,
    )
    hessian = core.hessian(loss)(THETA, batch)
    np.testing.assert_allclose(core.jit(core.hessian(loss))(THETA, batch), hessian, atol=1e-13)
    np.testing.assert_allclose(core.jacrev(core.grad(loss))(THETA, batch), hessian, atol=1e-12)
    np.testing.assert_allclose(core.jacfwd(energy)(THETA, DATA), energy.gradient(THETA, DATA), atol=1e-13)
    second = energy.hessian(THETA, DATA)
    np.testing.assert_allclose(second[1], core.hessian(lambda t: energy(t, DATA)[1])(THETA), atol=1e-14)
    np.testing.assert_allclose(energy.hessian(THETA, np.stack([DATA, -DATA]))[0], second, atol=1e-14)


def test_constant_circuits_and_operators():
    bell = quantum.Circuit(2).h(0).cx(0, 1)
    assert quantum.Expectation(bell, quantum.PauliSum("X0 X1 - 2 Y0 Y1 + 0.5"))() == pytest.approx(3.5, abs=1e-15)
    assert quantum.Expectation(bell, quantum.PauliSum())() == 0
    assert quantum.Expectation(quantum.Circuit(1).rx("a", 0), quantum.PauliSum(2)).gradient(np.zeros(1)) == [0.0]


def test_what_is_given_stays_as_it_is():
    energy, theta, psi = energies(), THETA.copy(), PSI.copy()
    energy.value_and_grad(theta, DATA)
    core.grad(lambda p: energy(theta, DATA, initial=p)[0])(psi)
    assert np.array_equal(theta, THETA) and np.array_equal(psi, PSI)


def test_circuits_that_grow_afterwards():
    circuit = quantum.Circuit(1).ry("a", 0)
    energy = quantum.Expectation(circuit, quantum.PauliSum("Z0"))
    circuit.rx("b", 0)
    assert energy.parameters == ("a",) and energy(np.zeros(1)) == 1.0
    assert energy.hessian(np.zeros(1))[0, 0] == pytest.approx(-1.0) and core.hessian(energy)(np.zeros(1))[
        0, 0
    ] == pytest.approx(-1.0)


def test_copies():
    energy = quantum.Expectation(ANSATZ, OPERATORS)
    expected = energy.value_and_grad(THETA)
    copies = [
        copy.deepcopy(energy),
        pickle.loads(
            pickle.dumps(quantum.Expectation(quantum.Circuit(2).rx("a", 0).crz("b", 0, 1), quantum.PauliSum("Z0 X1")))
        ),
    ]
    del energy
    gc.collect()
    found = copies[0].value_and_grad(THETA)
    assert np.array_equal(found[0], expected[0]) and np.array_equal(found[1], expected[1])
    assert copies[1].gradient(np.zeros(2)).shape == (2,)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((np.zeros(2), np.zeros(2)), ParameterError, r"theta must have shape \(3,\).*got \(2,\)"),
        ((np.array([0.0, np.nan, 0.0]), np.zeros(2)), ParameterError, "values must be finite, got nan for b"),
        ((np.zeros(3), np.array([0.0, np.inf])), ParameterError, "got inf for x1"),
        ((np.zeros(3),), ParameterError, "data must have a value for x0, x1"),
        (({"a": 0.0, "b": 0.0}, np.zeros(2)), ParameterError, "must have a value for 'c'"),
        (({"a": 0.0, "b": 0.0, "c": 0.0, "d": 0.0}, np.zeros(2)), ParameterError, "no 'd'"),
        ((np.zeros((4, 3)), np.zeros((5, 2))), ParameterError, "batch"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        energies()(*arguments)
    with pytest.raises(error, match=message):
        energies().value_and_grad(*arguments)


def test_bad_options():
    energy = energies()
    with pytest.raises(OperatorError, match="one number for each term"):
        energy(THETA, DATA, coefficients=[np.zeros(2), np.zeros(2)])
    with pytest.raises(SimulatorError, match=r"initial state must have shape \(8,\)"):
        energy(THETA, DATA, initial=np.zeros(4))
    with pytest.raises(SimulatorError, match="norm 1"):
        quantum.Expectation(ANSATZ, OPERATORS[0], initial=np.ones(8))
    with pytest.raises(OperatorError, match="Hermitian"):
        quantum.Expectation(ANSATZ, quantum.PauliSum("X0 + 0.5j Z0"))
    with pytest.raises(OperatorError, match="qubit 3"):
        quantum.Expectation(ANSATZ, quantum.PauliSum("X3"))
    with pytest.raises(OperatorError, match="at least one"):
        quantum.Expectation(ANSATZ, [])
    with pytest.raises(SimulatorError, match="dtype must be"):
        quantum.Expectation(ANSATZ, OPERATORS[0], dtype=np.float64)
    with pytest.raises(CircuitError, match="circuit must be a Circuit, got str"):
        quantum.Expectation("rx", OPERATORS[0])
    with pytest.raises(SimulatorError, match="measure on qubits"):
        quantum.Expectation(quantum.Circuit(1).measure(0), quantum.PauliSum("Z0"))
