"""Density matrices: against the slow twin, stored references, and what must hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.noise.test_noise import CASES, DENSITY_MATRICES, reference_circuit
from tests.twins.density_matrix import branches, density_matrix
from tests.twins.statevector import statevector
from triskele import quantum
from triskele.quantum import noise
from triskele.quantum.errors import SimulatorError, StateError
from triskele.quantum.simulators.density_matrix.transfer import elements
from triskele.quantum.simulators.density_matrix.transfer_program import TransferProgram, positions
from triskele.quantum.simulators.density_matrix.vector import PauliVector


def simulate(circuit, values=None, **options):
    """Only the values that the circuit has."""
    theta = {name: v for name, v in (values or {}).items() if name in circuit.parameters}
    return quantum.run(circuit, theta, simulator="density_matrix", **options)


VALUES = {"a": 0.3, "b": -1.1, "c": 0.77}
STEPS = [
    lambda c, q, t: c.rx("a", q[0]),
    lambda c, q, t: c.u(t, "b", 0.3, q[0]),
    lambda c, q, t: c.h(q[0]),
    lambda c, q, t: c.cx(q[0], q[1]),
    lambda c, q, t: c.rzz("c", q[0], q[1]),
    lambda c, q, t: c.amplitude_damping(0.2, q[0]),
    lambda c, q, t: c.depolarizing(0.1, q[0], q[1]),
    lambda c, q, t: c.ccx(*q[:3]),
    lambda c, q, t: c.depolarizing(0.1, q[0]),
    lambda c, q, t: c.fsim("2*a+b", t, *q[:2]),
    lambda c, q, t: c.cry("c", *q[:2]),
    lambda c, q, t: c.iswap(*q[:2]),
    lambda c, q, t: c.cswap(*q[:3]),
    lambda c, q, t: c.reset(q[0]),
    lambda c, q, t: c.rxx(t, *q[:2]),
    lambda c, q, t: c.global_phase("a"),
    lambda c, q, t: c.barrier(),
    lambda c, q, t: c.measure(q[0], 0),
    lambda c, q, t: c.thermal_relaxation(50, 70, 10, q[0]),
    lambda c, q, t: c.ecr(*q[:2]),
    lambda c, q, t: c.cp("b", *q[:2]),
]


def random_circuit(n, steps, seed):
    """Gates of every kind and channels; gates of three qubits where there are as many."""
    rng = np.random.default_rng(seed)
    circuit = quantum.Circuit(n)
    while len(circuit) < steps:
        STEPS[rng.integers(len(STEPS))](
            circuit, rng.permutation(max(n, 3)).tolist() if n > 2 else [0, 1, 0], rng.normal()
        )
    return circuit


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda c: c["name"])
def test_reference_density_matrices(case):
    rho = simulate(reference_circuit(case), {}).density_matrix()
    np.testing.assert_allclose(rho, DENSITY_MATRICES[case["name"]], atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 6), st.integers(0, 2**32))
def test_random_circuits_agree_with_the_twin(n, seed):
    circuit = random_circuit(n, 40, seed)
    result, expected = simulate(circuit, VALUES), density_matrix(circuit, VALUES)
    np.testing.assert_allclose(result.density_matrix(), expected, atol=1e-13)
    np.testing.assert_allclose(result.probabilities(), np.diag(expected).real, atol=1e-13)
    h = quantum.PauliSum("0.5 X0 Y1 - 1.5 Z0 Z2 + 0.25 Y2 + 2")
    assert result.expectation(h) == pytest.approx(np.trace(h.matrix(n).toarray() @ expected).real, abs=1e-13)


@pytest.mark.parametrize("block", [6, 7])
@pytest.mark.parametrize("n", [8, 9])
def test_blocks_of_a_large_vector(n, block):
    """What is done in blocks of the vector is what is done on the whole; gates reach over all qubits."""
    rng = np.random.default_rng(n)
    circuit = quantum.Circuit(n)
    for _ in range(60):
        p, q = rng.permutation(n)[:2].tolist()
        circuit.u(*rng.normal(size=3), p).cx(p, q).depolarizing(0.02, p, q).amplitude_damping(0.1, q)
    found = [e for i in circuit for e in elements(i)]
    states = []
    for size in (block, n):
        program = TransferProgram(found, n, (), positions(found, n), size)
        states.append(program.run(np.zeros(0), PauliVector.zero(n, program.positions)).arranged(program.before).r)
    assert len(TransferProgram(found, n, (), n, block).steps[0].stages) > 1
    np.testing.assert_allclose(states[0], states[1], atol=1e-14)


def test_pure_states_of_stored_circuits():
    circuit = quantum.Circuit(4).h(0).cx(0, 1).rx(0.3, 2).append("ry", 3, [0.7], controls=[0, 2]).mcx([0, 1, 2], 3)
    psi = statevector(circuit)
    np.testing.assert_allclose(simulate(circuit, {}).density_matrix(), np.outer(psi, psi.conj()), atol=1e-14)


def test_maps_on_many_qubits():
    """Gates and channels too wide for a transfer matrix go through the density matrix."""
    circuit = quantum.Circuit(6)
    for q in range(6):
        circuit.ry(0.3 + q, q)
    circuit.append("rx", 5, ["a"], controls=[0, 1, 2, 3, 4]).cx(0, 5).mcx([5, 4, 3, 2], 0).bit_flip(0.1, 2)
    circuit.pauli_rotation("XYZXYZ", "b", range(6)).pauli_channel({"XIXZY": 0.2, "ZZIIX": 0.3}, 3, 0, 5, 1, 4)
    np.testing.assert_allclose(simulate(circuit, VALUES).density_matrix(), density_matrix(circuit, VALUES), atol=1e-13)


def test_depolarizing_of_a_whole_register():
    psi = statevector(quantum.Circuit(8).h(0).cx(0, 7).ry(0.3, 4))
    rho = simulate(quantum.Circuit(8).h(0).cx(0, 7).ry(0.3, 4).depolarizing(0.25, *range(8)), {}).density_matrix()
    np.testing.assert_allclose(rho, 0.75 * np.outer(psi, psi.conj()) + 0.25 * np.eye(256) / 256, atol=1e-15)


@pytest.mark.parametrize("n", [1, 2])
def test_few_qubits(n):
    circuit = quantum.Circuit(n).h(0).t(0).phase_damping(0.3, 0).ry("a", n - 1)
    np.testing.assert_allclose(simulate(circuit, VALUES).density_matrix(), density_matrix(circuit, VALUES), atol=1e-14)
    assert simulate(quantum.Circuit(n), {}).density_matrix()[0, 0] == 1.0


def test_initial_states():
    rng = np.random.default_rng(1)
    psi = rng.normal(size=8) + 1j * rng.normal(size=8)
    psi /= np.linalg.norm(psi)
    rho = 0.5 * np.outer(psi, psi.conj()) + 0.5 * np.eye(8) / 8
    circuit = random_circuit(3, 20, 5)
    np.testing.assert_allclose(
        simulate(circuit, VALUES, initial=rho).density_matrix(), density_matrix(circuit, VALUES, rho), atol=1e-14
    )
    same = simulate(quantum.Circuit(3), {}, initial=psi).density_matrix()
    np.testing.assert_allclose(same, np.outer(psi, psi.conj()), atol=1e-15)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_states_stay_states(seed):
    rho = simulate(random_circuit(4, 30, seed), VALUES).density_matrix()
    assert np.trace(rho) == pytest.approx(1.0, abs=1e-13)
    np.testing.assert_allclose(rho, rho.conj().T, atol=1e-15)
    assert np.linalg.eigvalsh(rho).min() > -1e-13


def test_gates_of_functions():

    gate = quantum.gates.Gate(
        "bend", 1, 1, function=lambda t: np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    )
    circuit = (
        quantum.Circuit(2)
        .h(0)
        .append(gate, 1, ["a"])
        .cx(0, 1)
        .depolarizing(0.1, 0)
        .append(gate, 0, ["b"], controls=[1])
    )
    for values in (VALUES, {"a": 1.0, "b": 2.0}):
        np.testing.assert_allclose(
            simulate(circuit, values).density_matrix(), density_matrix(circuit, values), atol=1e-14
        )


def bits_of(counts):
    return {int(k, 2): v for k, v in counts.items()}


def test_measured_bits_decide_what_follows():
    """Counts against the twin's probabilities of the classical bits, errors in reading among them: chi-square."""
    circuit = quantum.Circuit(3).ry(0.8, 0).measure(0, 0).append(noise.ReadoutError(0.1, 0.2), (), clbits=(0,))
    with circuit.when(0):
        circuit.ry(1.1, 1).depolarizing(0.1, 1)
    circuit.reset(0).cx(1, 0).measure(0, 2).measure(1, 1).append(noise.ReadoutError(0.05, 0.1), (), clbits=(1,))
    shots = 100_000
    counts = bits_of(simulate(circuit, {}, shots=shots, seed=1).counts())
    expected = {bits: np.trace(rho).real for bits, rho in branches(circuit).items()}
    assert set(counts) <= set(expected)
    chi2 = sum((counts.get(b, 0) - shots * p) ** 2 / (shots * p) for b, p in expected.items() if p > 1e-12)
    assert chi2 < 30  # 7 degrees of freedom: p = 1e-4
    assert simulate(circuit, {}, shots=100, seed=1).counts() == simulate(circuit, {}, shots=100, seed=1).counts()
    total = simulate(circuit, {}).density_matrix()
    np.testing.assert_allclose(total, density_matrix(circuit), atol=1e-14)


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        (np.ones(3), r"shape \(4,\) or \(4, 4\), got \(3,\)"),
        (np.ones(4), "trace 1, got 4"),
        (np.eye(4) / 4 + 1j * np.eye(4, k=1), "Hermitian"),
    ],
)
def test_bad_initial_states(initial, message):
    with pytest.raises(StateError, match=message):
        simulate(quantum.Circuit(2), {}, initial=initial)


def test_too_many_qubits():
    with pytest.raises(SimulatorError, match="25 qubits need 8.39e.06 GiB"):
        simulate(quantum.Circuit(25).h(0), {})


def test_results_need_no_matrix():
    """Samples, reduced states and values come from the vector; they are those of the matrix."""
    from triskele.quantum.simulators.result import DensityMatrixResult

    circuit = random_circuit(4, 30, 11)
    result = simulate(circuit, VALUES)
    plain = DensityMatrixResult(density_matrix(circuit, VALUES))
    np.testing.assert_allclose(result.partial_trace([2, 0]), plain.partial_trace([2, 0]), atol=1e-14)
    assert result.expectation("X0 Y1 - Z3") == pytest.approx(plain.expectation("X0 Y1 - Z3"), abs=1e-13)
    for letters in ({}, {0: "X", 2: "Y", 3: "Z"}):
        found, expected = (np.bincount(r._in_basis(letters, 20_000, 3).indices, minlength=16) for r in (result, plain))
        assert np.abs(found - expected).max() < 500
    estimate = result.expectation("X0 Y1 - Z3", shots=20_000, seed=1)
    assert abs(estimate.value - plain.expectation("X0 Y1 - Z3")) < 5 * estimate.error
    assert result.entropy() == pytest.approx(plain.entropy(), abs=1e-10) and result.fidelity(plain) == pytest.approx(
        1.0, abs=1e-7
    )
