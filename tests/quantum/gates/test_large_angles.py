"""Angles of any finite size are reduced exactly; others are refused where they are given."""

import numpy as np
import pytest

from tests.twins import density_matrix as mixed
from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum.errors import OperatorError, ParameterError, StateError
from triskele.quantum.parameters import Parameter

ANGLES = [3e13, 5.9e13, 6.1e13, 1e14, 1e15, 1e17, 1e20, 1e50, 4e99]


@pytest.mark.parametrize("angle", [*ANGLES, *(-a for a in ANGLES[::3])])
def test_large_angles_are_reduced_exactly(angle):
    circuit = (
        quantum.Circuit(3)
        .h(0)
        .rx("a", 0)
        .rz("a", 1)
        .h(1)
        .p("a", 1)
        .ry("a", 2)
        .crx("a", 0, 2)
        .rxx(angle, 0, 1)
        .cp(angle, 1, 2)
    )
    for _ in range(10):  # more than a vector of them, and some small
        circuit.rx("a", 0).ry(0.3, 1)
    expected = twin.statevector(circuit, {"a": angle})
    for found in (quantum.run(circuit, [angle]), quantum.run(circuit.bind([angle]))):
        np.testing.assert_allclose(found.statevector(), expected, atol=1e-12)
    np.testing.assert_allclose(
        quantum.run(circuit, [angle], simulator="density_matrix").density_matrix(),
        np.outer(expected, expected.conj()),
        atol=1e-12,
    )
    noisy = circuit.copy().bit_flip(0.1, 0)
    found = quantum.run(noisy, [angle], simulator="trajectories", shots=50, seed=1).probabilities(1)
    np.testing.assert_allclose(
        found, [mixed.density_matrix(noisy, {"a": angle}).diagonal().real[[0, 1, 4, 5]].sum(), 1 - found[0]], atol=1e-11
    )


@pytest.mark.parametrize("angle", ANGLES)
def test_expectation_values_and_gradients_at_large_angles(angle):
    energy = quantum.Expectation(quantum.Circuit(2).rx("a", 0).cx(0, 1).ry(0.3, 1), "Z0")
    value, gradient = energy.value_and_grad(np.array([angle]))
    assert (value, gradient[0]) == (pytest.approx(np.cos(angle), abs=1e-12), pytest.approx(-np.sin(angle), abs=1e-12))
    subspace = quantum.run(quantum.Circuit(2).x(0).givens("a", 0, 1), [angle], simulator="subspace")
    np.testing.assert_allclose(subspace.statevector()[[1, 2]], [np.cos(angle), np.sin(angle)], atol=1e-12)


BAD = [np.nan, np.inf, -np.inf, 10**400, 1 + 2j, np.complex128(1 + 2j)]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_angles_that_are_none_are_refused(bad):
    attempts = [
        lambda: quantum.Circuit(1).rx(bad, 0),
        lambda: quantum.Circuit(2).crz(bad, 0, 1),
        lambda: quantum.Circuit(1).rx({"a": bad}, 0),
        lambda: quantum.Circuit(1).global_phase(bad),
        lambda: quantum.Circuit(2).pauli_rotation("XX", bad, [0, 1]),
    ]
    if not isinstance(bad, complex) and abs(bad) < 10**310 or bad != bad:
        attempts += [
            lambda: quantum.Circuit(1).rx(Parameter("a") * bad, 0),
            lambda: quantum.Circuit(1).rx(Parameter("a") + bad, 0),
            lambda: quantum.Circuit.from_arrays(1, "rx", [[0]], [[bad]]),
            lambda: quantum.run(quantum.Circuit(1).rx("a", 0), [bad]),
            lambda: quantum.run(quantum.Circuit(1).rx("a", 0), {"a": bad}, simulator="density_matrix"),
            lambda: quantum.Circuit(1).rx("a", 0).bind([bad]),
            lambda: quantum.Circuit(1).rx("a", 0).bind({"a": bad}),
            lambda: quantum.Expectation(quantum.Circuit(1).rx("a", 0), "Z0")(np.array([bad])),
            lambda: quantum.Expectation(quantum.Circuit(1).rx("a", 0), "Z0").value_and_grad([bad]),
        ]
    for number, attempt in enumerate(attempts):
        with pytest.raises(ParameterError), np.errstate(over="ignore"):
            print(number, attempt())


@pytest.mark.parametrize("simulator", ["statevector", "density_matrix", "trajectories", "subspace"])
def test_angles_whose_products_overflow_are_refused(simulator):
    for circuit, theta in (
        (quantum.Circuit(2).x(0).givens(1.7e308, 0, 1), []),
        (quantum.Circuit(2).x(0).givens("1e200*a", 0, 1), [1.0]),
        (quantum.Circuit(2).x(0).givens("a", 0, 1), [1e101]),
    ):
        with pytest.raises(ParameterError, match="1e.100"), np.errstate(over="ignore"):
            quantum.run(circuit, theta, simulator=simulator, shots=10)


@pytest.mark.parametrize("text", ["1e999*a", "a/0", "2*a + 1e400", "1e999"])
def test_expressions_with_numbers_too_large(text):
    with pytest.raises(ParameterError):
        quantum.Circuit(1).rx(text, 0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, complex(0, np.nan)])
def test_operators_and_states_must_be_finite(bad):
    h = quantum.PauliSum("X0 + 0.5 Z1")
    for attempt in (
        lambda: quantum.PauliSum([("X0", bad)]),
        lambda: h * bad,
        lambda: bad * h,
        lambda: h + bad,
        lambda: quantum.PauliSum([("X0", 1e308), ("X0", 1e308)]),
        lambda: h * 1e308 * 10,
    ):
        with pytest.raises(OperatorError):
            attempt()
    state = np.array([bad, 0, 0, 0])
    for simulator in ("statevector", "density_matrix", "trajectories"):
        with pytest.raises((StateError, quantum.errors.SimulatorError)):
            quantum.run(quantum.Circuit(2).h(0), simulator=simulator, initial=state, shots=10)

    energy = quantum.Expectation(quantum.Circuit(2).ry("a", 0), h)
    for options, error in (
        ({"coefficients": np.array([bad, 1.0])}, OperatorError),
        ({"initial": np.array([bad, 0, 0, 0])}, StateError),
    ):
        if not (isinstance(bad, complex) and error is OperatorError):  # complex coefficients are another error
            with pytest.raises(error, match="finite"):
                energy(np.array([0.1]), **options)
