"""States as arrays, against formulas that are obviously right and states with known answers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele.quantum import states
from triskele.quantum.errors import CircuitError, StateError
from triskele.quantum.simulators.result import StatevectorResult

BELL = np.array([1, 0, 0, 1]) / np.sqrt(2)
GHZ = np.array([1, 0, 0, 0, 0, 0, 0, 1]) / np.sqrt(2)
W = np.array([0, 1, 1, 0, 1, 0, 0, 0]) / np.sqrt(3)


def random_vector(n, rng):
    psi = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    return psi / np.linalg.norm(psi)


def random_matrix(n, rng, rank=3):
    weights = rng.dirichlet(np.ones(rank))
    return sum(w * np.outer(psi, psi.conj()) for w, psi in ((w, random_vector(n, rng)) for w in weights))


def slow_partial_trace(rho, keep):
    """Element by element, from the definition."""
    n, k = len(rho).bit_length() - 1, len(keep)
    out = np.zeros((1 << k, 1 << k), complex)
    for i in range(1 << n):
        for j in range(1 << n):
            if all((i >> q & 1) == (j >> q & 1) for q in range(n) if q not in keep):
                out[
                    sum((i >> q & 1) << b for b, q in enumerate(keep)),
                    sum((j >> q & 1) << b for b, q in enumerate(keep)),
                ] += rho[i, j]
    return out


@given(st.integers(1, 4), st.data())
@settings(max_examples=40, deadline=None)
def test_partial_trace_and_marginals_follow_the_order_asked(n, data):
    keep = data.draw(st.lists(st.integers(0, n - 1), unique=True, max_size=n))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    psi, rho = random_vector(n, rng), random_matrix(n, rng)
    for state, matrix in ((psi, np.outer(psi, psi.conj())), (rho, rho)):
        expected = slow_partial_trace(matrix, keep)
        np.testing.assert_allclose(states.partial_trace(state, keep), expected, atol=1e-14)
        np.testing.assert_allclose(states.probabilities(state, keep), np.diag(expected).real, atol=1e-14)
        np.testing.assert_allclose(states.purity(state, keep), np.trace(expected @ expected).real, atol=1e-13)


def test_entropies_of_known_states():
    assert states.entropy(BELL, 0) == pytest.approx(1, abs=1e-14)
    assert states.entropy(BELL) == 0
    assert states.entropy(GHZ, [0, 1], base=np.e) == pytest.approx(np.log(2), abs=1e-14)
    assert states.entropy(W, 0) == pytest.approx(-1 / 3 * np.log2(1 / 3) - 2 / 3 * np.log2(2 / 3), abs=1e-14)
    assert states.entropy(np.eye(8) / 8) == pytest.approx(3, abs=1e-14)
    assert states.entropy(W, 0, alpha=2) == pytest.approx(-np.log2(1 / 9 + 4 / 9), abs=1e-14)
    assert states.entropy(W, 0, alpha=0) == pytest.approx(1, abs=1e-14)
    assert states.entropy(W, 0, alpha=np.inf) == pytest.approx(-np.log2(2 / 3), abs=1e-14)
    assert states.mutual_information(GHZ, 0, 2) == pytest.approx(1, abs=1e-14)
    assert states.mutual_information(GHZ, [0], [1, 2]) == pytest.approx(2, abs=1e-14)


def test_both_sides_of_a_pure_state_have_the_same_entropy(rng):
    psi = random_vector(7, rng)
    for order in (0.5, 1, 2, 3):
        assert states.entropy(psi, [0, 5], alpha=order) == pytest.approx(
            states.entropy(psi, [1, 2, 3, 4, 6], alpha=order), abs=1e-12
        )


def test_schmidt_rebuilds_the_state(rng):
    psi = random_vector(5, rng)
    s, a, b = states.schmidt(psi, [3, 0])
    assert np.all(np.diff(s) <= 0)
    rebuilt = np.zeros(32, complex)
    for index in range(32):
        row = (index >> 3 & 1) | (index & 1) << 1
        column = (index >> 1 & 1) | (index >> 2 & 1) << 1 | (index >> 4 & 1) << 2
        rebuilt[index] = np.sum(s * a[:, row] * b[:, column])
    np.testing.assert_allclose(rebuilt, psi, atol=1e-14)


def test_fidelity_and_trace_distance_agree_between_vectors_and_matrices(rng):
    a, b = random_vector(3, rng), random_vector(3, rng)
    rho_a, rho_b = np.outer(a, a.conj()), np.outer(b, b.conj())
    overlap = abs(np.vdot(a, b)) ** 2
    for x in (a, rho_a):
        for y in (b, rho_b):
            # the root of a rank-one matrix has half the digits
            assert states.fidelity(x, y) == pytest.approx(overlap, abs=1e-7)
            assert states.trace_distance(x, y) == pytest.approx(np.sqrt(1 - overlap), abs=1e-12)
    assert states.fidelity(a, rho_b) == pytest.approx(overlap, abs=1e-14)


def test_fidelity_of_commuting_matrices_is_that_of_their_spectra(rng):
    p, q = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(8))
    u = np.linalg.qr(rng.normal(size=(8, 8)) + 1j * rng.normal(size=(8, 8)))[0]
    rho, sigma = u @ np.diag(p) @ u.conj().T, u @ np.diag(q) @ u.conj().T
    assert states.fidelity(rho, sigma) == pytest.approx(np.sum(np.sqrt(p * q)) ** 2, abs=1e-13)
    assert states.trace_distance(rho, sigma) == pytest.approx(0.5 * np.abs(p - q).sum(), abs=1e-13)


@pytest.mark.parametrize("p", [0.0, 0.2, 1 / 3, 0.5, 0.9, 1.0])
def test_concurrence_of_werner_states(p):
    # p |psi-><psi-| + (1 - p) 1/4 has concurrence max(0, (3p - 1)/2)
    singlet = np.array([0, 1, -1, 0]) / np.sqrt(2)
    rho = p * np.outer(singlet, singlet) + (1 - p) * np.eye(4) / 4
    assert states.concurrence(rho) == pytest.approx(max(0, (3 * p - 1) / 2), abs=1e-12)


def test_concurrence_is_the_same_for_a_vector_and_its_matrix(rng):
    psi = random_vector(2, rng)
    assert states.concurrence(np.outer(psi, psi.conj())) == pytest.approx(states.concurrence(psi), abs=1e-7)


def test_bloch_vector_is_the_three_pauli_expectations(rng):
    t, f = 0.7, -2.1
    psi = np.array([np.cos(t / 2), np.exp(1j * f) * np.sin(t / 2)])
    np.testing.assert_allclose(
        states.bloch_vector(psi), [np.sin(t) * np.cos(f), np.sin(t) * np.sin(f), np.cos(t)], atol=1e-14
    )
    np.testing.assert_allclose(states.bloch_vector(np.kron(psi, BELL), 2), states.bloch_vector(psi), atol=1e-14)
    np.testing.assert_allclose(states.bloch_vector(BELL, 1), 0, atol=1e-14)


@pytest.mark.parametrize(
    "state, words",
    [
        (np.ones(3) / np.sqrt(3), "shape"),
        (np.ones((2, 4)), "shape"),
        (np.array(1.0), "shape"),
        (np.ones(4), "norm"),
        (np.array([np.nan, 0]), "norm"),
        (np.eye(2), "trace"),
        (np.array([[1, 1j], [1j, 0]]), "Hermitian"),
    ],
)
def test_arrays_that_are_no_states(state, words):
    with pytest.raises(StateError, match=words):
        states.entropy(state)


def test_results_are_states_too():
    assert states.concurrence(StatevectorResult(BELL.astype(complex))) == pytest.approx(1, abs=1e-14)
    with pytest.raises(StateError, match="array of numbers or a Result, got str"):
        states.purity("bell")


def test_qubits_that_are_none():
    with pytest.raises(CircuitError, match="partial_trace: each of the qubits must be an integer from 0 to 1, got 2"):
        states.partial_trace(BELL, [2])
    with pytest.raises(CircuitError, match="differ"):
        states.probabilities(BELL, [0, 0])
    with pytest.raises(CircuitError, match="differ"):
        states.mutual_information(BELL, 0, 0)
    with pytest.raises(CircuitError, match="got True"):
        states.bloch_vector(BELL, True)
    with pytest.raises(StateError, match="same number of qubits"):
        states.fidelity(BELL, GHZ)
    with pytest.raises(StateError, match="two qubits are needed, got 3"):
        states.concurrence(GHZ)
    with pytest.raises(ValueError, match="alpha"):
        states.entropy(BELL, 0, alpha=-1)
