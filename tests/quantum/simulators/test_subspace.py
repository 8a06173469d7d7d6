"""Circuits that keep the number of particles: the subspace simulator against state vectors."""

import math

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import core, quantum
from triskele.quantum.errors import OperatorError, ParameterError, SimulatorError
from triskele.quantum.gates.base import Gate
from triskele.quantum.gates.families import unitary
from triskele.quantum.gates.primitives import Factor, Pair

PAIRS = [
    "givens",
    "fsim",
    "xx_plus_yy",
    "swapalpha",
    "swap",
    "iswap",
    "iswapdg",
    "cz",
    "cp",
    "rzz",
    "crz",
    "single_excitation",
]
SINGLES = ["z", "s", "sdg", "t", "tdg", "rz", "p"]


def conserving_unitary(k, seed):
    """A (2**k, 2**k) unitary that is block diagonal in the number of ones."""
    random = np.random.default_rng(seed)
    number = np.bitwise_count(np.arange(1 << k))
    matrix = np.zeros((1 << k, 1 << k), complex)
    for ones in range(k + 1):
        (at,) = np.nonzero(number == ones)
        block = random.normal(size=(len(at), len(at))) + 1j * random.normal(size=(len(at), len(at)))
        matrix[np.ix_(at, at)] = np.linalg.qr(block)[0] if seed % 3 else np.eye(len(at))[random.permutation(len(at))]
    return matrix


def plane(n, seed):
    """A rotation of two basis states with the same number of ones, with signs by parity, in all states of the other
    qubits.
    """
    random = np.random.default_rng(seed)
    k = int(random.integers(1, n // 2 + 1))
    order = random.permutation(n)
    a, b = (sum(1 << int(q) for q in part) for part in (order[:k], order[k : 2 * k]))
    free = ((1 << n) - 1) & ~(a | b)
    primitive = Pair(n, a, b, bool(random.integers(2)), free, free & int(random.integers(1 << n)))
    return Gate("plane", n, 1, factors=(Factor(primitive, tuple(range(n)), (2.0,)),))


@st.composite
def conserving(draw):
    n = draw(st.integers(2, 6))
    circuit = quantum.Circuit(n)
    for q in draw(st.sets(st.integers(0, n - 1))):
        circuit.x(q)
    angles = st.one_of(st.floats(-4, 4, width=32), st.sampled_from(["a", "b", "2*a - b/4 + 1"]))
    for _ in range(draw(st.integers(0, 15))):
        order, kind, seed = draw(st.permutations(range(n))), draw(st.integers(0, 6)), draw(st.integers(0, 100))
        controls = order[2 : 2 + draw(st.sampled_from([0, 0, 1]))]
        if kind == 0:
            circuit.append(plane(n, seed), range(n), [draw(angles)])
        elif kind == 1:
            k = min(n, 1 + seed % 3)
            circuit.append(unitary(conserving_unitary(k, seed)), order[:k])
        elif kind == 2 and n > 3:
            circuit.excitation(draw(angles), order[:2], order[2:4])
        elif kind == 3:
            gate = quantum.gates.find(draw(st.sampled_from(SINGLES)))
            circuit.append(gate, order[:1], [draw(angles) for _ in range(gate.num_params)], controls=controls)
        else:
            name = draw(st.sampled_from(PAIRS))
            number, gate = quantum.gates.standard.resolve(name)
            circuit.append(
                gate,
                order[number : number + gate.num_qubits],
                [draw(angles) for _ in range(gate.num_params)],
                controls=(*order[:number], *controls),
            )
    return circuit


def operator(n, seed):
    """A random sum; its terms need not keep the number of particles."""
    random = np.random.default_rng(seed)
    letters = random.choice(list("IIXYZ"), (12, n))
    return quantum.PauliSum(
        [(" ".join(f"{p}{q}" for q, p in enumerate(row) if p != "I"), random.normal()) for row in letters]
    )


@given(conserving(), st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_states_are_those_of_the_state_vector(circuit, seed):
    theta = np.random.default_rng(seed).normal(size=len(circuit.parameters))
    result, expected = quantum.run(circuit, theta, simulator="subspace"), quantum.run(circuit, theta)
    np.testing.assert_allclose(result.statevector(), expected.statevector(), rtol=0, atol=1e-12)
    assert len(result.states) <= math.comb(circuit.num_qubits, circuit.num_qubits // 2)
    h = operator(circuit.num_qubits, seed)
    assert result.expectation(h) == pytest.approx(expected.expectation(h), abs=1e-12)
    for qubits in (None, [1], [1, 0]):
        np.testing.assert_allclose(result.probabilities(qubits), expected.probabilities(qubits), atol=1e-12)


@given(conserving(), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_values_gradients_and_hessians_are_those_of_the_state_vector(circuit, seed):
    theta = np.random.default_rng(seed).normal(size=len(circuit.parameters))
    h = [operator(circuit.num_qubits, seed + k) for k in range(2)]
    mine, expected = (quantum.Expectation(circuit, h, simulator=s) for s in ("subspace", "statevector"))
    for a, b in zip(mine.value_and_grad(theta), expected.value_and_grad(theta), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mine(theta), expected(theta), rtol=0, atol=1e-12)
    if len(theta):
        np.testing.assert_allclose(mine.hessian(theta), expected.hessian(theta), rtol=0, atol=1e-11)


MOLECULES = {name: quantum.molecules.load(name) for name in ("H2", "H4", "LiH", "H2O")}


@pytest.mark.parametrize(("name", "dimension"), [("H2", 4), ("H4", 36), ("LiH", 225), ("H2O", 441)])
def test_ucc_lives_in_the_sector_of_its_electrons(name, dimension):
    molecule = MOLECULES[name]
    ansatz = quantum.uccsd(molecule.num_electrons, molecule.num_qubits)
    theta = np.random.default_rng(1).normal(size=len(ansatz.parameters))
    assert len(quantum.run(ansatz, theta, simulator="subspace").states) <= dimension
    mine, expected = (
        quantum.Expectation(ansatz, molecule.hamiltonian, simulator=s) for s in ("subspace", "statevector")
    )
    value, gradient = mine.value_and_grad(theta)
    assert value == pytest.approx(expected(theta), abs=1e-12 * abs(value))
    np.testing.assert_allclose(gradient, expected.gradient(theta), rtol=0, atol=1e-12 * abs(value))
    assert mine(np.zeros_like(theta)) == pytest.approx(molecule.hf_energy, abs=1e-8)


def test_vqe_reaches_chemical_accuracy():
    lih = MOLECULES["LiH"]
    result = quantum.VQE(lih.hamiltonian, quantum.uccsd(4, 12, singlet=True), simulator="subspace").run(progress=False)
    assert abs(result.energy - lih.fci_energy) < 1.6e-3
    assert result.energy >= lih.fci_energy


def test_triple_excitations_of_many_modes_and_qubits():
    # three electrons at a time on 16 qubits, against the exponential of the generator between two determinants
    primitive = Pair(6, 0b000111, 0b111000)
    circuit = (
        quantum.Circuit(40)
        .x(0)
        .x(5)
        .x(39)
        .append(Gate("triple", 6, 1, factors=(Factor(primitive, range(6)),)), (0, 5, 39, 7, 20, 31), [0.8])
    )
    result = quantum.run(circuit, simulator="subspace")
    moved = (1 << 7) | (1 << 20) | (1 << 31)
    turn = scipy.linalg.expm(0.4 * np.array([[0.0, -1.0], [1.0, 0.0]]))
    assert dict(zip(result.states.tolist(), result.amplitudes.tolist(), strict=True)) == pytest.approx(
        {(1 | 1 << 5 | 1 << 39): turn[0, 0], moved: turn[1, 0]}, abs=1e-15
    )


def test_one_particle_on_sixty_sites_is_a_walk():
    # nearest-neighbor hopping in Trotter steps on a chain, as 60x60 matrices
    n, t = 60, 0.1
    circuit = quantum.Circuit(n).x(30)
    expected = np.eye(n)[30].astype(complex)
    for _ in range(5):
        for q in range(n - 1):
            circuit.xx_plus_yy(2 * t, 0.0, q, q + 1)
            c, s = math.cos(t), -1j * math.sin(t)
            expected[q], expected[q + 1] = c * expected[q] + s * expected[q + 1], s * expected[q] + c * expected[q + 1]
    result = quantum.run(circuit, simulator="subspace")
    found = np.zeros(n, complex)
    found[np.log2(result.states).astype(int)] = result.amplitudes
    np.testing.assert_allclose(found, expected, atol=1e-13)
    assert result.expectation("0.5 Z30") == pytest.approx(0.5 * (1 - 2 * abs(expected[30]) ** 2), abs=1e-13)
    occupied = result.sample(500, seed=2).array
    assert np.all(occupied.sum(axis=1) == 1)
    with pytest.raises(SimulatorError, match="60 qubits need"):
        result.statevector()


H2, OTHER = MOLECULES["H2"].hamiltonian, operator(4, 3)


def test_the_core_sees_it_as_one_operation():
    circuit = quantum.Circuit(4).x(0).x(1).excitation("a", [0, 1], [2, 3]).rz(
        "phase", 2
    ).as_encoder() + quantum.Circuit(4).givens("b", 0, 2).fsim("c", "b", 1, 3)
    theta, data = np.array([0.4, -0.2]), np.random.default_rng(0).normal(size=(3, 2))
    mine, expected = (quantum.Expectation(circuit, [H2, OTHER], simulator=s) for s in ("subspace", "statevector"))
    np.testing.assert_allclose(mine(theta, data), expected(theta, data), atol=1e-13)
    np.testing.assert_allclose(core.vmap(lambda d: mine(theta, d))(data), expected(theta, data), atol=1e-13)

    def total(energy):
        return lambda t, d, c: np.sum(energy(t, d, coefficients=[c, 2.0 * c[: len(OTHER)]]) ** 2)

    coefficients = np.random.default_rng(1).normal(size=len(H2))
    np.testing.assert_allclose(
        core.jit(core.grad(total(mine), argnums=0))(theta, data, coefficients),
        core.grad(total(expected))(theta, data, coefficients),
        atol=1e-11,
    )
    for argument in (1, 2):
        found, wanted = (core.grad(total(e), argnums=argument)(theta, data, coefficients) for e in (mine, expected))
        np.testing.assert_allclose(found, wanted, atol=1e-11)
    found, wanted = (core.hessian(lambda c, e=e: total(e)(theta, data, c))(coefficients) for e in (mine, expected))
    np.testing.assert_allclose(found, wanted, atol=1e-10)


def test_starts_from_any_state():
    state = np.zeros(16, complex)
    state[[3, 5, 8]] = 0.6, 0.64j, -np.sqrt(1 - 0.36 - 0.4096)
    circuit = quantum.Circuit(4).givens("a", 0, 1).excitation("b", [0, 1], [2, 3])
    theta = np.array([0.3, 0.9])
    found, expected = (
        quantum.run(circuit, theta, initial=state, simulator=s).statevector() for s in ("subspace", "statevector")
    )
    np.testing.assert_allclose(found, expected, atol=1e-14)
    mine, other = (quantum.Expectation(circuit, H2, initial=state, simulator=s) for s in ("subspace", "statevector"))
    np.testing.assert_allclose(mine.gradient(theta), other.gradient(theta), atol=1e-13)
    with pytest.raises(SimulatorError, match="initial state is fixed"):
        mine(theta, initial=state)


def test_samples_and_shots_are_those_of_the_state_vector():
    circuit = quantum.uccsd(2, 4)
    theta = [0.1, -0.2, 0.5]
    mine, expected = (quantum.run(circuit, theta, simulator=s) for s in ("subspace", "statevector"))
    p = expected.probabilities()
    counts = mine.sample(20_000, seed=1).counts()
    assert all(count / 20_000 == pytest.approx(p[int(bits, 2)], abs=0.02) for bits, count in counts.items())
    np.testing.assert_allclose(
        mine.sample(20_000, seed=1, qubits=[2, 0]).array.mean(0), mine.sample(20_000, seed=1).array[:, [2, 0]].mean(0)
    )
    exact = expected.expectation(H2)
    estimate = mine.expectation(H2, shots=20_000, seed=1)
    assert abs(estimate.value - exact) < 5 * estimate.error
    assert mine.entropy([0, 1]) == pytest.approx(expected.entropy([0, 1]), abs=1e-10)
    assert mine.fidelity(expected) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize(
    ("circuit", "message"),
    [
        (quantum.Circuit(2).x(0).givens(0.1, 0, 1).h(1), r"gate h \(instruction 2\) on qubits \[1\] does not conserve"),
        (quantum.Circuit(2).rz(0.1, 0).x(0), r"gate x \(instruction 1\)"),
        (quantum.Circuit(2).x(0).cx(0, 1), r"gate x \(instruction 1\) on qubits \[1\] controlled by \[0\]"),
        (quantum.Circuit(2).rxx("a", 0, 1), r"gate rxx \(instruction 0\)"),
        (quantum.Circuit(2).xx_minus_yy("a", 0.0, 0, 1), r"gate xx_minus_yy \(instruction 0\)"),
        (quantum.Circuit(2).ecr(0, 1), r"gate ecr \(instruction 0\)"),
        (quantum.Circuit(2).x(0).reset(0), "reset"),
        (quantum.Circuit(2).depolarizing(0.1, 0), "is not a gate"),
        (quantum.Circuit(63), "at most 62 qubits"),
    ],
)
def test_says_which_gate_does_not_conserve_particles(circuit, message):
    with pytest.raises(SimulatorError, match=message):
        quantum.run(circuit, np.zeros(len(circuit.parameters)), simulator="subspace")


def test_other_errors():
    circuit = quantum.Circuit(2).x(0).givens("a", 0, 1)
    with pytest.raises(ParameterError, match="finite"):
        quantum.run(circuit, [np.nan], simulator="subspace")
    with pytest.raises(ParameterError, match="must have shape"):
        quantum.Expectation(circuit, "Z0", simulator="subspace")(np.zeros(2))
    with pytest.raises(OperatorError, match="Hermitian"):
        quantum.Expectation(circuit, quantum.PauliSum({"Z0": 1j}), simulator="subspace")


def test_classical_bits():
    circuit = quantum.Circuit(3).x(0).givens(np.pi / 2, 0, 2).measure([2, 0], [0, 3])
    for result in (quantum.run(circuit, simulator="subspace", shots=10), quantum.run(circuit, simulator="subspace")):
        assert result.sample(10).counts() == {"0001": 10}


def test_a_changed_circuit_is_recompiled():
    circuit = quantum.Circuit(2).x(0).givens("a", 0, 1)
    before = quantum.run(circuit, [0.3], simulator="subspace").amplitudes
    after = quantum.run(circuit.givens("a", 0, 1), [0.3], simulator="subspace").amplitudes
    np.testing.assert_allclose(before, [math.cos(0.3), math.sin(0.3)], atol=1e-15)
    np.testing.assert_allclose(after, [math.cos(0.6), math.sin(0.6)], atol=1e-15)
