"""What results answer, against matrices and the slow simulator."""

import numpy as np
import pytest

from tests.twins.statevector import statevector
from triskele import quantum
from triskele.quantum.errors import CircuitError, OperatorError, SimulatorError
from triskele.quantum.operators.pauli import PauliSum
from triskele.quantum.simulators.result import CountsResult, DensityMatrixResult, StatevectorResult

H = PauliSum("0.5 Z0 Z1 - 1.2 X2 + 0.3 Y0 Y3 + 0.7 Y1 + 2 + 0.1 X0 Y1 Z2 - 0.4 Y0 Y1 Y2")


@pytest.fixture
def state(rng):
    psi = rng.normal(size=16) + 1j * rng.normal(size=16)
    return psi / np.linalg.norm(psi)


@pytest.fixture(params=["vector", "matrix"])
def result(request, state):
    return StatevectorResult(state) if request.param == "vector" else DensityMatrixResult(np.outer(state, state.conj()))


def test_expectation_is_that_of_the_matrix(result, state):
    expected = np.vdot(state, H.matrix(4) @ state).real
    assert result.expectation(H) == pytest.approx(expected, abs=1e-13)
    assert result.expectation("X3") == pytest.approx(np.vdot(state, PauliSum("X3").matrix(4) @ state).real, abs=1e-13)
    assert result.expectation(PauliSum(2.5)) == pytest.approx(2.5, abs=1e-13)


def test_expectation_in_a_state_of_several_blocks(rng):
    n = 14  # blocks have 4096 amplitudes
    psi = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    psi /= np.linalg.norm(psi)
    few = PauliSum([("X0 Z13", 0.5), ("Y13 X2", -1.0), ("Z12 Y5", 0.3), ("Z0", 2.0)])
    # one x mask, 24 terms
    many = PauliSum([(f"{letter}1 Z{q}", rng.normal()) for letter in "XY" for q in range(2, 14)])
    for h in (few, many):
        assert StatevectorResult(psi).expectation(h) == pytest.approx(np.vdot(psi, h.matrix(n) @ psi).real, abs=1e-12)
        assert StatevectorResult(psi.astype(np.complex64)).expectation(h) == pytest.approx(
            np.vdot(psi, h.matrix(n) @ psi).real, abs=1e-5
        )


def test_expectation_from_shots_lies_within_its_errors(result, state):
    exact = result.expectation(H)
    found = [result.expectation(H, shots=2000, seed=seed) for seed in range(40)]
    pulls = np.array([(value - exact) / error for value, error in found])
    assert np.abs(pulls.mean()) < 4 / np.sqrt(40)
    assert 0.6 < pulls.std() < 1.4
    assert result.expectation(H, shots=2000, seed=7) == found[7]


def test_expectation_of_an_eigenstate_has_no_noise():
    plus_y = StatevectorResult(statevector(quantum.Circuit(2).h(0).s(0).x(1)))
    assert plus_y.expectation("Y0 - Z1", shots=50, seed=1) == (2.0, 0.0)
    assert np.isnan(plus_y.expectation("Y0", shots=1, seed=1).error)  # one shot says nothing about its error


def test_both_kinds_of_result_agree(state):
    vector, matrix = StatevectorResult(state), DensityMatrixResult(np.outer(state, state.conj()))
    np.testing.assert_allclose(vector.probabilities([2, 0]), matrix.probabilities([2, 0]), atol=1e-14)
    np.testing.assert_allclose(vector.partial_trace([3, 1]), matrix.partial_trace([3, 1]), atol=1e-14)
    np.testing.assert_allclose(vector.density_matrix(), matrix.density_matrix(), atol=1e-14)
    assert vector.entropy([0, 1]) == pytest.approx(matrix.entropy([0, 1]), abs=1e-12)
    assert vector.fidelity(matrix) == matrix.fidelity(vector) == pytest.approx(1)
    assert vector.fidelity(state) == pytest.approx(1)
    np.testing.assert_array_equal(vector.statevector(), state)
    with pytest.raises(SimulatorError, match="no state vector"):
        matrix.statevector()


def test_samples_are_of_the_qubits_asked(result):
    everything, some = result.sample(20_000, seed=2), result.sample(20_000, seed=3, qubits=[3, 0])
    assert everything.num_bits == 4
    assert some.num_bits == 2
    p = result.probabilities([3, 0])
    np.testing.assert_allclose(np.bincount(some.indices, minlength=4) / 20_000, p, atol=0.02)
    pairs = everything.array[:, 3] + 2 * everything.array[:, 0]
    np.testing.assert_allclose(np.bincount(pairs, minlength=4) / 20_000, p, atol=0.02)


def test_shots_and_seed_of_the_run_are_the_defaults(state):
    result = StatevectorResult(state, shots=100, seed=5)
    assert sum(result.counts().values()) == 100
    assert result.counts() == result.sample(100, seed=5).counts()


def test_bad_questions(result):
    with pytest.raises(SimulatorError, match="shots must be an integer >= 1, got 0"):
        result.sample(0)
    with pytest.raises(
        SimulatorError, match=r"sample: the number of shots must be given, here or in run\(..., shots=1000\)"
    ):
        result.sample()
    with pytest.raises(SimulatorError, match="counts: the number of shots must be given"):
        result.counts()
    with pytest.raises(SimulatorError, match="shots"):
        result.expectation("Z0", shots=0)
    with pytest.raises(CircuitError, match="from 0 to 3, got 4"):
        result.sample(1, qubits=[4])
    with pytest.raises(CircuitError, match="differ"):
        result.probabilities([1, 1])
    with pytest.raises(OperatorError, match="qubits 0 to 3, got one on qubit 4"):
        result.expectation("Z4")
    with pytest.raises(OperatorError, match="Hermitian"):
        result.expectation(PauliSum("1j Z0"))


def test_a_result_of_counts_alone_says_what_it_has_not():
    result = CountsResult(np.array([[0, 1], [1, 1], [0, 1]]))
    assert result.counts() == {"10": 2, "11": 1}
    assert len(result.sample()) == len(result.sample(3)) == result.shots == 3
    with pytest.raises(SimulatorError, match=r"run\(..., shots=3\) made these measurements, got shots=10"):
        result.sample(10)
    for name in ("expectation", "statevector", "partial_trace"):
        with pytest.raises(SimulatorError, match=f"{name}: the circuit measures or has noise"):
            getattr(result, name)
    with pytest.raises(AttributeError):
        _ = result.nonsense
