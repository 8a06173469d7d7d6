"""Product formulas: exact where terms commute, and with errors that fall with the order they are said to have."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from tests.twins.statevector import unitary
from triskele import quantum
from triskele.quantum import PauliSum, trotter
from triskele.quantum.errors import OperatorError

CHAIN = quantum.tfim(3, h=0.7, periodic=False) + PauliSum("0.3 Y0 Y2 - 0.2 Z2 + 0.1")


def evolution(h, t, n):
    return expm(-1j * t * h.matrix(n).toarray())


@pytest.mark.parametrize("order", [1, 2, 4])
def test_error_falls_as_steps_to_the_order(order):
    exact = evolution(CHAIN, 0.8, 3)
    steps = np.array([4, 8])
    errors = [np.linalg.norm(unitary(trotter(CHAIN, 0.8, s, order)) - exact, 2) for s in steps]
    slope = -np.diff(np.log(errors)) / np.log(2)
    assert abs(slope[-1] - order) < 0.1 and errors[-1] < 0.2


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.floats(-2, 2), st.sampled_from([1, 2, 4]), st.integers(1, 3), st.permutations("XYZ"))
def test_commuting_terms_are_exact_global_phase_and_all(t, order, steps, letters):
    a, b, c = letters
    h = PauliSum({f"{a}0 {b}1": 0.5, f"{b}0 {a}1": -1.5, f"{c}0 {c}1": 0.25, "": 0.75, f"{a}2": 2.0})
    np.testing.assert_allclose(unitary(trotter(h, t, steps, order)), evolution(h, t, 3), atol=1e-12)


def test_time_may_be_a_parameter():
    circuit = trotter(CHAIN, "2*t - 0.1", 3, 2)
    assert circuit.parameters == ("t",)
    np.testing.assert_allclose(unitary(circuit, {"t": 0.25}), unitary(trotter(CHAIN, 0.4, 3, 2)), atol=1e-13)
    # the last term of a half and the first of the next meet their mirror images
    assert len(circuit) == 3 * 2 * (len(CHAIN) - 1) + 1


def test_time_reversed_is_the_inverse():
    for order in (2, 4):
        both = trotter(CHAIN, 0.6, 2, order) + trotter(CHAIN, -0.6, 2, order)
        np.testing.assert_allclose(unitary(both), np.eye(8), atol=1e-13)


def test_magnetisation_of_a_quench():
    """Energy is kept and the transverse magnetisation moves as exact evolution says, through the engine."""
    h, x = quantum.tfim(6, h=1.3), PauliSum({f"X{q}": 1 / 6 for q in range(6)})
    up = np.eye(64)[0]
    for t in (0.3, 1.0):
        result = quantum.run(trotter(h, t, 20, 4))
        exact = evolution(h, t, 6) @ up
        assert abs(x.expectation(result.statevector()) - x.expectation(exact)) < 1e-6
        assert abs(h.expectation(result.statevector()) - h.expectation(up)) < 1e-5


@pytest.mark.parametrize(
    "arguments",
    [
        (1j * CHAIN, 1.0),
        (CHAIN, 1.0, 0),
        (CHAIN, 1.0, 2.5),
        (CHAIN, 1.0, 1, 3),
        (CHAIN, 1.0, 1, 1, 2),
        (CHAIN, np.nan),
        (CHAIN, "2 +"),
    ],
)
def test_misuse_is_an_error(arguments):
    with pytest.raises((OperatorError, ValueError), match="trotter"):
        trotter(*arguments)
