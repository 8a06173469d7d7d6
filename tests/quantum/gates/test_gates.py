"""Gates: consistency of every registered one, matrices of other programs, families, user functions, errors."""

import gzip
import json
import pathlib

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins import statevector as twin
from triskele import core, quantum
from triskele.quantum import gates
from triskele.quantum.errors import CircuitError, GateError
from triskele.quantum.gates.base import Gate
from triskele.quantum.gates.families import diagonal, pauli_rotation, unitary
from triskele.quantum.gates.function import gate as function_gate
from triskele.quantum.gates.primitives import Factor, Pair, Rotation
from triskele.quantum.gates.standard import CONTROLLED, resolve
from triskele.quantum.testing.gate import check_gate

DATA = pathlib.Path(__file__).parents[2] / "data" / "quantum" / "circuits"
CIRCUITS = {c["name"]: c for c in json.loads(gzip.open(DATA / "circuits.json.gz").read())}
MATRICES = json.loads(gzip.open(DATA / "matrices.json.gz").read())
PAULI = {"I": np.eye(2), "X": np.array([[0, 1], [1, 0]]), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1, -1])}


def circuit_of(record):
    """The circuit of a stored gate list."""
    circuit = quantum.Circuit(record["n_qubits"])
    for name, qubits, params in record["gates"]:
        if name == "unitary":
            circuit.unitary(np.array(params)[..., 0] + 1j * np.array(params)[..., 1], qubits)
        else:
            circuit.append(name, qubits, params)
    return circuit


# -- what is registered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", gates.names())
def test_every_registered_gate_is_consistent(name):
    check_gate(gates.find(name))


@pytest.mark.parametrize("name", sorted(CIRCUITS))
def test_circuits_of_other_programs(name):
    state = np.load(DATA / "states.npz")[name]
    assert np.abs(twin.statevector(circuit_of(CIRCUITS[name])) - state).max() < 1e-12


@pytest.mark.parametrize("package, name", [(p, n) for p in ("qiskit", "mindquantum") for n in MATRICES[p]])
def test_matrices_of_other_programs(package, name):
    record = MATRICES[package][name]
    expected = np.array(record["re"]) + 1j * np.array(record["im"])
    # MindQuantum counts in half turns
    params = [np.pi * record["params"][0]] if name == "swapalpha" else record["params"]
    n = len(expected).bit_length() - 1
    mine = twin.unitary(quantum.Circuit(n).append(name, range(n), params))
    np.testing.assert_allclose(mine, expected, atol=1e-14)


def test_checker_finds_what_is_wrong():
    rx = Factor(Rotation("X"), (0,))
    tilted = Factor(Rotation("Z"), (0,), (1.0,), 0.3)
    wrong = {
        "U†U and 1": Gate("g", 1, constant=np.array([[1, 0], [0, 1.001]], complex)),
        "inverse times matrix": Gate("g", 1, 1, factors=(rx, tilted), adjoint=lambda t: (-t,)),
        "the derivative": Gate("g", 1, 1, function=lambda t: np.exp(1j * core.stop_gradient(t)) * np.eye(2)),
        "exactly one": Gate("g", 1),
        "does not fit": Gate("g", 2, 1, factors=(Factor(Rotation("XX"), (0,)),)),
        r"must have shape \(4, 4\), got \(2, 2\)": Gate("g", 2, constant=np.eye(2, dtype=complex)),
    }
    for message, bad in wrong.items():
        with pytest.raises((GateError, ValueError), match=message):
            check_gate(bad)


@pytest.mark.parametrize(
    "gate",
    [
        Gate("g", 1, 2, factors=(Factor(Rotation("X"), (0,), (1, 0)), Factor(Rotation("Z"), (0,), (0.5, -2), 0.3))),
        Gate("g", 3, 1, factors=(Factor(Pair(3, 0b001, 0b100, free=0b010, parity=0b010), (0, 1, 2)),)),
        function_gate(
            lambda a, b: (
                core.numpy.array([[np.cos(a), 1j * np.sin(a)], [1j * np.sin(a), np.cos(a)]]) * np.exp(1j * a * b)
            ),
            1,
            2,
        ),
    ],
)
def test_inverses_that_nobody_wrote_down(gate):
    """Products that do not commute are reversed, functions transposed."""
    check_gate(gate)
    circuit = quantum.Circuit(gate.num_qubits).append(gate, range(gate.num_qubits), [0.3] * gate.num_params)
    assert circuit.inverse().inverse() == circuit


@pytest.mark.parametrize("name", gates.names())
def test_engine_does_what_the_matrix_says(name):
    """On scattered qubits of a random state, with and without a control."""
    gate = gates.find(name)
    n = gate.num_qubits + 2
    random = np.random.default_rng(len(name))
    wires, params = random.permutation(n).tolist(), random.uniform(-3, 3, gate.num_params).tolist()
    circuit = (
        quantum.Circuit(n)
        .append(gate, wires[2:], params, controls=wires[:1])
        .append(gate, wires[: gate.num_qubits], params)
    )
    state = random.normal(size=1 << n) + 1j * random.normal(size=1 << n)
    state /= np.linalg.norm(state)
    np.testing.assert_allclose(
        quantum.run(circuit, initial=state).statevector(), twin.statevector(circuit, initial=state), atol=1e-13
    )


def test_gates_from_functions_are_run_and_differentiated():
    """The derivative of the matrix comes from the core, that of the energy from the adjoint sweep; differences
    agree.
    """
    kick = function_gate(lambda t, s: np.cos(t * s) * np.eye(2) - 1j * np.sin(t * s) * PAULI["X"], 1, 2, "kick")
    circuit = quantum.Circuit(2).h(0).append(kick, 1, ["a", {"b": 2.0}], controls=0).rv("a", "b", 0.3, 0).cx(0, 1)
    theta, h = np.array([0.3, 0.8]), 1e-5
    energy = quantum.Expectation(circuit, quantum.PauliSum("Z0 X1 + 0.3 Y0 - X1"))
    np.testing.assert_allclose(
        quantum.run(circuit, theta).statevector(), twin.statevector(circuit, {"a": 0.3, "b": 0.8}), atol=1e-14
    )
    numeric = [(energy(theta + d) - energy(theta - d)) / (2 * h) for d in h * np.eye(2)]
    np.testing.assert_allclose(energy.gradient(theta), numeric, atol=1e-9)


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, controls, inner",
    [
        ("cx", 1, "x"),
        ("ccx", 2, "x"),
        ("c3x", 3, "x"),
        ("c4x", 4, "x"),
        ("c3sx", 3, "sx"),
        ("c3sqrtx", 3, "sx"),
        ("cccz", 3, "z"),
        ("ccrx", 2, "rx"),
        ("mcx", None, "x"),
        ("mcp", None, "p"),
        ("mcrxyz", None, "rxyz"),
        ("cswap", 1, "swap"),
        ("crzz", 1, "rzz"),
        ("cu", 0, "cu"),
    ],
)
def test_names_of_controlled_gates(name, controls, inner):
    number, gate = resolve(name)
    assert (number, gate.name) == (controls, inner)


def test_controls_as_a_list():
    listed = quantum.Circuit(4).mcx([0, 1, 2], 3).mcp(0.3, [0], 2).mcrx("a", [], 1).mcswap([3], 0, 1)
    flat = quantum.Circuit(4).c3x(0, 1, 2, 3).cp(0.3, 0, 2).rx("a", 1).cswap(3, 0, 1)
    assert listed == flat == quantum.Circuit(4).append("mcx", [0, 1, 2, 3]).cp(0.3, 0, 2).rx("a", 1).cswap(3, 0, 1)


@pytest.mark.parametrize("name", sorted(CONTROLLED))
def test_controlled_names_act_where_controls_are_one(name):
    number, inner = CONTROLLED[name]
    gate = gates.find(inner)
    n = number + gate.num_qubits
    params = [0.4, 0.7, -0.2][: gate.num_params]
    matrix = twin.unitary(quantum.Circuit(n).append(name, range(n), params))
    states = np.arange(1 << n)
    on = states[(states & ((1 << number) - 1)) == (1 << number) - 1]  # controls come first
    expected = np.eye(1 << n, dtype=complex)
    expected[np.ix_(on, on)] = gate.matrix(*params)
    np.testing.assert_array_equal(matrix, expected)


def test_errors_of_names():
    circuit = quantum.Circuit(3)
    with pytest.raises(AttributeError, match="unknown gate 'crxx_'.*did you mean"):
        circuit.crxx_(1, 2)
    for name in ("hadamard", "mcmcx", "ccmcx", "mc3x", "", "c", "cc"):
        with pytest.raises(GateError, match="unknown gate"):
            circuit.append(name, [0])
    for thing in (None, 3, [1], b"x"):
        with pytest.raises(GateError, match="a gate's name, or a gate, channel or operation is needed"):
            circuit.append(thing, [0])
    with pytest.raises(CircuitError, match="a list of controls"):
        circuit.mcx(0, 1, 2)
    with pytest.raises(CircuitError, match="must differ"):
        circuit.mcx([0, 1], 1)
    assert len(circuit) == 0


# -- families ----------------------------------------------------------------------------------------------------------


@given(st.text("IXYZ", min_size=1, max_size=4), st.floats(-10, 10))
def test_pauli_rotation_is_the_exponential(paulis, t):
    n = len(paulis)
    pauli = np.eye(1)
    for letter in paulis:
        pauli = np.kron(PAULI[letter], pauli)
    circuit = quantum.Circuit(n).pauli_rotation(paulis, t, range(n))
    np.testing.assert_allclose(twin.unitary(circuit), scipy.linalg.expm(-0.5j * t * pauli), atol=1e-13)


def test_pauli_rotations_have_names():
    assert quantum.Circuit(3).rzxy("a", 2, 0, 1) == quantum.Circuit(3).pauli_rotation("ZXY", "a", [2, 0, 1])
    assert pauli_rotation("XX") is gates.find("rxx")
    assert quantum.Circuit(2).pauli_rotation("II", "a", [0, 1]) == quantum.Circuit(2).global_phase({"a": -0.5})
    check_gate(gates.find("rzyxzy"))
    with pytest.raises(GateError, match="a letter for each qubit"):
        quantum.Circuit(2).pauli_rotation("XY", 0.1, [0])
    with pytest.raises(GateError, match="X, Y and Z"):
        quantum.Circuit(2).pauli_rotation("XQ", 0.1, [0, 1])


@given(st.integers(0, 3), st.data())
def test_diagonal_has_these_phases(n, data):
    phases = data.draw(st.lists(st.floats(-10, 10), min_size=1 << n, max_size=1 << n))
    circuit = quantum.Circuit(n).diagonal(phases, range(n))
    np.testing.assert_allclose(twin.unitary(circuit), np.diag(np.exp(1j * np.array(phases))), atol=1e-13)


def test_diagonal_is_a_gate_with_parameters():
    check_gate(diagonal(3))
    assert quantum.Circuit(2).diagonal(["a", "b", 0.1, {"a": 2}], [1, 0]).parameters == ("a", "b")
    with pytest.raises(GateError, match="4 parameters are needed, got 3"):
        quantum.Circuit(2).diagonal([0, 1, 2], [0, 1])


@given(st.integers(1, 3), st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_unitary_of_numbers(n, seed):
    random = np.random.default_rng(seed)
    u = scipy.linalg.qr(random.normal(size=(1 << n, 1 << n)) + 1j * random.normal(size=(1 << n, 1 << n)))[0]
    circuit = quantum.Circuit(n).unitary(u, range(n))
    np.testing.assert_array_equal(twin.unitary(circuit), u)
    np.testing.assert_allclose(twin.unitary(circuit + circuit.inverse()), np.eye(1 << n), atol=1e-13)
    controlled = quantum.Circuit(n + 1).unitary(u, range(n), controls=n)
    np.testing.assert_array_equal(twin.unitary(controlled), scipy.linalg.block_diag(np.eye(1 << n), u))


@pytest.mark.parametrize(
    "matrix, message",
    [
        ([[1, 0], [0, 1.1]], "differs from 1 by 0.21"),
        ([[1, 0], [0, np.nan]], "must be unitary"),
        (np.eye(3), "shape"),
        (np.ones((2, 4)), "shape"),
        (np.zeros((0, 0)), "shape"),
        ([1, 0], "shape"),
    ],
)
def test_unitary_refuses(matrix, message):
    with pytest.raises(GateError, match=message):
        unitary(matrix)


def test_unitary_keeps_its_own_numbers():
    matrix = np.eye(2, dtype=complex)
    circuit = quantum.Circuit(1).unitary(matrix, 0)
    matrix[0, 0] = 5
    assert circuit.instructions[0].gate.matrix()[0, 0] == 1
    with pytest.raises(CircuitError, match="acts on 1 qubits"):
        quantum.Circuit(2).unitary(np.eye(2), [0, 1])


# -- functions ---------------------------------------------------------------------------------------------------------


def test_gate_from_a_function():
    kick = function_gate(lambda t, s: np.cos(t * s) * np.eye(2) - 1j * np.sin(t * s) * PAULI["X"], 1, 2, "kick")
    check_gate(kick)
    circuit = quantum.Circuit(2).append(kick, 1, ["a", {"b": 2.0}], controls=0)
    same = quantum.Circuit(2).crx(2 * 0.3 * 1.4, 0, 1)
    np.testing.assert_allclose(twin.unitary(circuit, {"a": 0.3, "b": 0.7}), twin.unitary(same), atol=1e-14)


def test_rotation_about_a_vector_is_smooth_at_zero():
    rv = gates.find("rv")
    np.testing.assert_allclose(rv.derivative(0.0, 0.0, 0.0), [-0.5j * PAULI[p] for p in "XYZ"], atol=1e-15)
    near, far = rv.matrix(0.99e-4, 0, 0), rv.matrix(1.01e-4, 0, 0)  # both sides of the switch to the series
    np.testing.assert_allclose(near, gates.find("rx").matrix(0.99e-4), atol=1e-16)
    np.testing.assert_allclose(far, gates.find("rx").matrix(1.01e-4), atol=1e-16)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((lambda t: t * np.eye(2), 1, 1), "must be unitary, at parameters"),
        ((lambda t: np.eye(2), 2, 1), r"shape \(4, 4\)"),
        ((3, 1, 1), "a function"),
        ((lambda t: np.eye(2), 1.5, 1), "integers"),
    ],
)
def test_function_gates_refuse(arguments, message):
    with pytest.raises(GateError, match=message):
        function_gate(*arguments)
