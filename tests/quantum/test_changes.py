"""What is changed after it was compiled acts or is refused; circuits that are deleted leave nothing behind."""

import copy
import gc
import os
import pickle

import numpy as np
import pytest

from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum import noise
from triskele.quantum.errors import CircuitError
from triskele.quantum.gates.base import Gate
from triskele.quantum.gates.instruction import Condition

SIMULATORS = ["statevector", "density_matrix", "trajectories", "stabilizer", "subspace"]


def outcome(circuit, simulator, **options):
    return quantum.run(circuit, simulator=simulator, shots=20, seed=1, **options).counts()


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_circuits_that_grow_are_recompiled(simulator):
    circuit = quantum.Circuit(2).x(0)
    assert outcome(circuit, simulator) == {"01": 20}
    circuit.swap(0, 1)
    assert outcome(circuit, simulator) == {"10": 20}
    circuit.extend(quantum.Circuit(2).swap(0, 1))
    assert outcome(circuit, simulator) == {"01": 20}
    if simulator != "subspace":
        circuit.measure(0, 1)
        assert outcome(circuit, simulator) == {"10": 20}
        with circuit.when(1):
            circuit.x(1)
        circuit.measure(1, 0)
        assert outcome(circuit, simulator) == {"11": 20}
        circuit.num_clbits = 3
        assert outcome(circuit, simulator) == {"011": 20}


def test_what_cannot_be_changed():
    circuit = quantum.Circuit(2).h(0).measure(0, 1)
    quantum.run(circuit, shots=2)
    with pytest.raises(AttributeError):
        circuit.num_qubits = 3
    for number in (1, -1, 2.5, True):
        with pytest.raises(CircuitError, match=">= 2"):
            circuit.num_clbits = number
    with pytest.raises(AttributeError):
        circuit.instructions.append(None)
    with pytest.raises(AttributeError):
        circuit.instructions[0].qubits = (1,)
    with pytest.raises(AttributeError):
        quantum.Parameter("a").constant = 2.0
    for array in (
        quantum.gates.find("h").constant,
        quantum.PauliSum("X0").coefficients,
        quantum.PauliSum("X0").x,
        noise.bit_flip(0.1).kraus,
        noise.amplitude_damping(0.1).kraus,
        noise.bit_flip(0.1).pauli_probabilities,
        noise.bit_flip(0.1).mixture[0],
        noise.ReadoutError(0.1, 0.2).matrix,
    ):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_arrays_that_were_handed_in_are_copied():
    matrix, kraus = np.array([[0, 1], [1, 0]], complex), np.array([[[1, 0], [0, 1]]], complex)
    x, z, c = np.array([[1]], np.uint64), np.array([[0]], np.uint64), np.array([1.0])
    circuit = (
        quantum.Circuit(1)
        .append(Gate("mine", 1, constant=matrix), 0)
        .unitary(matrix, 0)
        .append(quantum.gate(lambda: matrix, 1, 0), 0)
    )
    circuit.append(noise.kraus(kraus), 0)
    h = quantum.PauliSum.from_arrays(x, z, c)
    for array in (matrix, kraus, x, z, c):
        array[:] = 0
    assert circuit.counts() and quantum.run(circuit, simulator="density_matrix").expectation("Z0") == pytest.approx(-1)
    assert h == quantum.PauliSum("X0")


@pytest.mark.parametrize("simulator", ["statevector", "density_matrix", "trajectories"])
def test_states_and_values_that_were_handed_in_are_copied(simulator):
    start, theta, bits = np.array([0, 1], complex), np.array([0.0]), [0]
    circuit = quantum.Circuit(1, 1).rx("a", 0).append("x", 0, condition=Condition(bits, 0))
    circuit = circuit if simulator != "statevector" else quantum.Circuit(1).rx("a", 0).x(0)
    result = quantum.run(circuit, theta, simulator=simulator, initial=start, shots=10, seed=1)
    start[:], theta[:], bits[:] = [1, 0], 2.0, [1]
    assert result.probabilities().round(9).tolist() == [1, 0]
    assert float(result.expectation("Z0")) == pytest.approx(1)
    assert circuit.num_clbits == 0 or circuit.instructions[1].condition == ((0,), 0)


@pytest.mark.parametrize("simulator", ["statevector", "density_matrix", "subspace"])
def test_expectations_are_of_what_they_were_made_of(simulator):
    circuit, start = quantum.Circuit(2).x(0).givens("a", 0, 1), np.array([0, 1, 0, 0], complex)
    operators = [quantum.PauliSum("Z0"), quantum.PauliSum("Z1")]
    energy = quantum.Expectation(circuit, operators, simulator=simulator)
    before = energy(np.array([0.3]))
    circuit.x(0).givens("b", 0, 1)
    operators[0] = quantum.PauliSum("Z1")
    start[:] = 0
    np.testing.assert_array_equal(energy(np.array([0.3])), before)
    assert energy.parameters == ("a",)
    theta = np.array([0.3])
    value, gradient = energy.value_and_grad(theta)
    theta[:] = 1.0
    value[:], gradient[:] = 7.0, 7.0  # results are the caller's own
    np.testing.assert_array_equal(energy(np.array([0.3])), before)


def test_results_are_not_shared():
    circuit = quantum.Circuit(2).h(0).cx(0, 1)
    first = quantum.run(circuit).statevector()
    first[:] = 0
    np.testing.assert_allclose(quantum.run(circuit).statevector(), twin.statevector(circuit), atol=1e-14)


def test_copies_are_on_their_own():
    circuit = quantum.Circuit(2).h(0).unitary(np.eye(4)[[1, 0, 3, 2]], [0, 1]).rx("a", 1)
    quantum.run(circuit, [0.1])
    for other in (
        copy.deepcopy(circuit),
        copy.copy(circuit).copy(),
        pickle.loads(pickle.dumps(circuit)),
        circuit.copy(),
    ):
        other.x(0)
        assert len(other) == len(circuit) + 1
        np.testing.assert_allclose(
            quantum.run(other, [0.1]).statevector(), twin.statevector(other, {"a": 0.1}), atol=1e-14
        )
        np.testing.assert_allclose(
            quantum.run(circuit, [0.1]).statevector(), twin.statevector(circuit, {"a": 0.1}), atol=1e-14
        )


@pytest.mark.parametrize("simulator", ["statevector", "trajectories", "density_matrix", "subspace"])
def test_an_encoder_of_a_circuit_that_has_run(simulator):
    circuit = quantum.Circuit(2).x(0).givens("a", 0, 1)
    quantum.run(circuit, [0.3], simulator=simulator, shots=10)
    result = quantum.run(circuit.as_encoder(), data=[0.4], simulator=simulator, shots=10)
    np.testing.assert_allclose(result.probabilities(1), [np.cos(0.4) ** 2, np.sin(0.4) ** 2], atol=1e-14)


def test_models_changed_after_use_do_not_change_circuits():
    model = noise.NoiseModel().add(noise.bit_flip(1.0))
    noisy = quantum.Circuit(1).x(0).with_noise(model)
    model.add(noise.bit_flip(1.0))
    assert noisy.counts() == {"x": 1, "bit_flip": 1}
    assert outcome(noisy, "density_matrix") == {"0": 20}


# -- memory


def one_round(number):
    """Circuits of new gates and new structure, built, run in every way, and deleted."""
    random = np.random.default_rng(number)
    unitary = np.linalg.qr(random.normal(size=(32, 32)) + 1j * random.normal(size=(32, 32)))[0]
    circuit = quantum.Circuit(6).unitary(unitary, range(5)).unitary(np.linalg.qr(unitary[:8, :8])[0], [5, 0, 2])
    for k in range(20):
        circuit.ry(f"p{k}", k % 6).cx(k % 6, (k + 1) % 6).rz(float(random.normal()), k % 6)
    theta = random.normal(size=20)
    quantum.run(circuit, theta, shots=10, seed=1).counts()
    quantum.Expectation(circuit, "Z0 + X1 Y2").value_and_grad(theta)
    quantum.Circuit.from_json(circuit.to_json())
    circuit.inverse().bind(theta)
    small = (
        quantum.Circuit(3, 2)
        .unitary(np.linalg.qr(unitary[:8, :8])[0], [0, 1, 2])
        .append(noise.amplitude_damping(float(random.uniform(0.1, 0.9))), 0)
    )
    small.ry("a", 1).measure(0, 0)
    with small.when(0):
        small.x(1)
    for simulator in ("density_matrix", "trajectories"):
        quantum.run(small, [0.3], simulator=simulator, shots=16, seed=1).counts()
    quantum.run(
        quantum.Circuit(3).h(0).cx(0, 1).depolarizing(float(random.uniform(0.1, 0.9)), 2),
        simulator="stabilizer",
        shots=64,
        seed=1,
    )
    quantum.run(quantum.Circuit(4).x(0).givens("a", 0, 1).givens("b", 1, 2), theta[:2], simulator="subspace")
    quantum.Circuit.from_qasm(
        quantum.Circuit(3).unitary(np.linalg.qr(unitary[:4, :4])[0], [0, 1]).rx("a", 0).to_qasm(3)
    )


def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
@pytest.mark.parametrize(("first", "rounds"), [(30, 60), pytest.param(1200, 6000, marks=pytest.mark.slow)])
def test_a_soak_of_circuits_is_flat_in_memory(first, rounds):
    for number in range(first):  # fills the caches, which have a size
        one_round(number)
    before = resident()
    for number in range(first, first + rounds):
        one_round(number)
    assert resident() - before < 12 * 2**20


def test_names_are_checked():
    circuit = quantum.Circuit(1).rx("a", 0).extend(quantum.Circuit(1).ry("x", 0).as_encoder())
    for names in ({"b": "c"}, {"a": "1a"}, {"a": "x"}, {"x": "a"}):
        with pytest.raises(quantum.errors.ParameterError, match="rename|Parameter"):
            circuit.rename(names)
    assert circuit.rename({"a": "x", "x": "a"}).data == ("a",)
    for times in (-1, 1.5, True, "2"):
        with pytest.raises(CircuitError, match="integer >= 0"):
            circuit.repeat(times)


def test_a_matrix_with_negative_eigenvalues_is_no_state():
    with pytest.raises(quantum.errors.StateError, match="negative eigenvalues"):
        quantum.run(quantum.Circuit(1), simulator="density_matrix", initial=np.diag([1.5, -0.5]))


def test_names_of_gates_with_very_many_controls():
    with pytest.raises(quantum.errors.GateError, match="more than 64 controls"):
        quantum.Circuit(3).append("c" * 5000 + "x", [0, 1, 2])
