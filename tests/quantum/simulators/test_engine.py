"""The state-vector engine against other programs' states, and against gate-by-gate NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum import reference
from tests.quantum.strategies import circuits, random_unitary
from tests.twins import program as table
from tests.twins import statevector as twin
from triskele import quantum
from triskele.core.kernels import threads
from triskele.quantum.compile.lower import lower
from triskele.quantum.errors import ParameterError, SimulatorError
from triskele.quantum.gates.families import pauli_rotation, unitary
from triskele.quantum.simulators.statevector.blocks import Block
from triskele.quantum.simulators.statevector.engine import simulate

VALUES = {"a": 0.7, "b": -1.9}
BLOCKS = st.sampled_from(
    [None, Block(3, 3), Block(4, 3), Block(5, 4), Block(7, 3), Block(4, 3, True), Block(6, 4, True)]
)
TOLERANCE = {np.complex128: 1e-12, np.complex64: 2e-5}


@pytest.fixture
def both_threads():
    before = threads.get_threads()
    yield
    threads.set_threads(before)


def values_of(circuit):
    return np.array([VALUES[name] for name in circuit.parameters])


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", reference.names())
def test_reference_circuits(name, dtype, fuse):
    found = simulate(lower(reference.circuit(name), fuse), np.zeros(0), dtype)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, reference.state(name), rtol=0, atol=1e-12 if dtype == np.complex128 else 1e-5)


@settings(max_examples=80, deadline=None)
@given(circuits(), st.sampled_from([np.complex128, np.complex64]), st.booleans(), BLOCKS)
def test_random_circuits_agree_with_the_twin(circuit, dtype, fuse, block):
    found = simulate(lower(circuit, fuse), values_of(circuit), dtype, None, block)
    np.testing.assert_allclose(found, twin.statevector(circuit, VALUES), rtol=0, atol=TOLERANCE[dtype])


@settings(max_examples=25, deadline=None)
@given(circuits(max_qubits=6), st.booleans())
def test_op_tables_mean_what_their_columns_say(circuit, fuse):
    found = table.run(lower(circuit, fuse), values_of(circuit))
    np.testing.assert_allclose(found, twin.statevector(circuit, VALUES), rtol=0, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(circuits(max_qubits=6), BLOCKS, st.integers(0, 100))
def test_any_initial_state(circuit, block, seed):
    random = np.random.default_rng(seed)
    initial = random.normal(size=1 << circuit.num_qubits) + 1j * random.normal(size=1 << circuit.num_qubits)
    initial /= np.linalg.norm(initial)
    found = simulate(lower(circuit), values_of(circuit), np.complex128, initial, block)
    np.testing.assert_allclose(found, twin.statevector(circuit, VALUES, initial), rtol=0, atol=1e-12)
    assert abs(np.linalg.norm(found) - 1) < 1e-12


def large_circuit(n=15):
    random = np.random.default_rng(5)
    circuit = quantum.Circuit(n)
    for layer in range(3):
        for q in range(n):
            circuit.u(*random.uniform(-3, 3, 3), q)
        for q in range(n):
            circuit.append(
                ["cx", "cz", "rzz", "swap"][layer if q % 3 else 2],
                (q, (q + 5) % n),
                [0.4] if layer == 2 or q % 3 == 0 else [],
            )
        circuit.append(unitary(random_unitary(3, layer)), random.permutation(n)[:3])
        circuit.append(pauli_rotation("XYZXYZXYXX"), random.permutation(n)[:10], [0.3], controls=())
    return circuit


@pytest.mark.parametrize("block", [None, Block(11, 5), Block(11, 8, True)])
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_blocked_passes_agree_with_the_twin(dtype, block):
    circuit = large_circuit()
    np.testing.assert_allclose(
        simulate(lower(circuit), np.zeros(0), dtype, None, block),
        twin.statevector(circuit),
        rtol=0,
        atol=TOLERANCE[dtype],
    )


def test_results_do_not_depend_on_threads(both_threads):
    circuit, states = large_circuit(17), []
    for block in (Block(11, 5), Block(10, 7, True)):
        for count in (1, 2):
            threads.set_threads(count)
            states.append(simulate(lower(circuit), np.zeros(0), np.complex128, None, block))
        assert np.array_equal(*states[-2:])


def test_inverse_undoes():
    circuit = large_circuit(13)
    state = simulate(lower(circuit + circuit.inverse()), np.zeros(0))
    np.testing.assert_allclose(state, np.eye(1, 1 << 13)[0], rtol=0, atol=1e-12)


def test_matrices_need_not_be_unitary():
    """Superoperators of channels are run by the same kernels."""
    from triskele.quantum.compile.ops import Builder
    from triskele.quantum.compile.program import Program

    random = np.random.default_rng(1)
    for bits in ((4,), (1,), (0, 4), (5, 2), (2, 0, 5), (6, 3, 0, 4), (0, 1, 2, 3, 4, 5)):
        k = len(bits)
        matrix = random.normal(size=(1 << k, 1 << k)) + 1j * random.normal(size=(1 << k, 1 << k))
        initial = random.normal(size=128) + 1j * random.normal(size=128)
        builder = Builder()
        builder.dense(bits, 0, 0, builder.constant(matrix))
        found = simulate(Program.from_builder(7, (), (), builder), np.zeros(0), np.complex128, initial)
        np.testing.assert_allclose(found, twin.apply(matrix, bits, initial), rtol=0, atol=1e-12)


def test_no_qubits_and_no_gates():
    assert quantum.run(quantum.Circuit(0)).statevector().tolist() == [1]
    assert quantum.run(quantum.Circuit(0).global_phase(np.pi)).statevector().round(12).tolist() == [-1]
    for n in (1, 3, 12):
        assert np.array_equal(quantum.run(quantum.Circuit(n)).statevector(), np.eye(1, 1 << n)[0])


def test_large_and_small_angles():
    """Angles far outside one period keep their accuracy, tiny ones their sine."""
    for t in (1e5 + 0.25, -3e7, 1e-12, 1e-300):
        state = quantum.run(quantum.Circuit(1).rx("t", 0), [t]).statevector()
        np.testing.assert_allclose(state, [np.cos(t / 2), -1j * np.sin(t / 2)], rtol=1e-13, atol=0)


def test_gates_that_are_python_functions():
    x = np.array([[0, 1], [1, 0]])
    kick = quantum.gate(lambda t: np.cos(t**2) * np.eye(2) - 1j * np.sin(t**2) * x, 1, 1, "kick")
    both = quantum.gate(lambda s, t: np.kron(kick.function(s), kick.function(t)), 2, 2, "both")
    circuit = quantum.Circuit(5).append(kick, 1, ["a"]).append(both, (4, 0), ["a", "2*b"], controls=1).h(1)
    for values in (VALUES, {"a": 0.1, "b": 2.0}):
        found = quantum.run(circuit, values).statevector()
        np.testing.assert_allclose(found, twin.statevector(circuit, values), rtol=0, atol=1e-12)


def test_theta_by_order_and_by_name_and_data():
    encoder = quantum.Circuit(2).rx("x", 0).ry("y", 1).as_encoder()
    circuit = encoder + quantum.Circuit(2).rz("a", 0).cx(0, 1).ry("b", 1)
    expected = twin.statevector(circuit, {"x": 1.0, "y": 2.0, "a": 3.0, "b": 4.0})
    for theta, data in (
        ([3.0, 4.0], [1.0, 2.0]),
        ({"b": 4.0, "a": 3.0}, {"x": 1, "y": 2}),
        (np.array([3, 4]), np.array([1.0, 2.0])),
    ):
        np.testing.assert_allclose(quantum.run(circuit, theta, data).statevector(), expected, rtol=0, atol=1e-12)


def test_a_changed_circuit_is_recompiled():
    circuit = quantum.Circuit(2).h(0)
    assert quantum.run(circuit).probabilities().round(12).tolist() == [0.5, 0.5, 0, 0]
    circuit.cx(0, 1)
    assert quantum.run(circuit).probabilities().round(12).tolist() == [0.5, 0, 0, 0.5]


@pytest.mark.parametrize(
    ("theta", "message"),
    [
        (None, "theta must have a value for a, b"),
        ([1.0], r"theta must be 2 numbers \(a, b\), got the shape \(1,\)"),
        ([1.0, np.nan], "must be finite, got nan for b"),
        (np.array([np.inf, 1.0]), "must be finite, got inf for a"),
        ({"a": 1.0}, "must have a value for 'b'"),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, "theta has no 'c'"),
    ],
)
def test_bad_theta(theta, message):
    with pytest.raises(ParameterError, match=message):
        quantum.run(quantum.Circuit(1).rx("a", 0).ry("b", 0), theta)


def test_bad_calls():
    circuit = quantum.Circuit(2).h(0)
    with pytest.raises(SimulatorError, match="simulator must be one of .*statevector.*, got 'state'"):
        quantum.run(circuit, simulator="state")
    with pytest.raises(SimulatorError, match="dtype must be complex128 or complex64"):
        quantum.run(circuit, dtype=np.float64)
    with pytest.raises(SimulatorError, match=r"initial must have the shape \(4,\)"):
        quantum.run(circuit, initial=[1, 0])
    with pytest.raises(SimulatorError, match="norm 1, got 2"):
        quantum.run(circuit, initial=[2, 0, 0, 0])
    with pytest.raises(SimulatorError, match="norm 1, got nan"):
        quantum.run(circuit, initial=[np.nan, 0, 0, 0])
    with pytest.raises(SimulatorError, match="shots must be an integer >= 1, got 0"):
        quantum.run(circuit, shots=0)
    with pytest.raises(ParameterError, match="no parameters for theta"):
        quantum.run(circuit, [1.0])


def test_too_many_qubits_say_how_much_memory_they_need():
    with pytest.raises(
        SimulatorError, match=r"45 qubits need 5.24e\+05 GiB, and .* GiB are free \(dtype=complex64 halves it\)"
    ):
        quantum.run(quantum.Circuit(45).h(44))
    with pytest.raises(SimulatorError, match="100 qubits"):
        quantum.run(quantum.Circuit(100).h(0))


def test_measurements_on_the_way_need_shots():
    with pytest.raises(SimulatorError, match="h after a measurement on qubits .0. .*shots"):
        quantum.run(quantum.Circuit(1).h(0).measure(0).h(0))
    with pytest.raises(SimulatorError, match="reset on qubits"):
        quantum.run(quantum.Circuit(1).h(0).measure(0).reset(0))
    assert quantum.run(quantum.Circuit(1).h(0).measure(0)).probabilities().round(12).tolist() == [0.5, 0.5]
    for circuit in (
        quantum.Circuit(1).x(0).measure(0).reset(0).measure(0, 1),
        quantum.Circuit(1, 2).x(0).reset(0).x(0).measure(0),
    ):
        assert quantum.run(circuit, shots=10, seed=1).counts() == {"01": 10}
    assert quantum.run(quantum.Circuit(1).x(0).reset(0), shots=10, seed=1).sample().counts() == {"0": 10}
