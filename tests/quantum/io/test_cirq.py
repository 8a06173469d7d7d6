"""Cirq circuits both ways, against Cirq's own matrices."""

import numpy as np
import pytest

cirq = pytest.importorskip("cirq")
sympy = pytest.importorskip("sympy")
pytestmark = pytest.mark.peer

from tests.quantum.gates.test_gates import CIRCUITS, circuit_of  # noqa: E402
from tests.twins import statevector as twin  # noqa: E402
from triskele import quantum  # noqa: E402
from triskele.quantum import gates  # noqa: E402
from triskele.quantum.errors import CircuitError  # noqa: E402


def backwards(matrix):
    """The matrix with the first qubit least significant."""
    n = len(matrix).bit_length() - 1
    order = np.arange(1 << n).reshape((2,) * n).transpose().reshape(-1)
    return matrix[np.ix_(order, order)]


def matrix_of(circuit, n):
    return backwards(circuit.unitary(qubit_order=cirq.LineQubit.range(n), dtype=np.complex128))


Q = cirq.LineQubit.range(4)


@pytest.mark.parametrize(
    "operation",
    [
        cirq.X(Q[0]),
        cirq.Y(Q[0]),
        cirq.Z(Q[0]),
        cirq.H(Q[0]),
        cirq.S(Q[0]),
        cirq.T(Q[0]) ** -1,
        cirq.X(Q[0]) ** 0.3,
        cirq.Y(Q[0]) ** -0.7,
        cirq.Z(Q[0]) ** 1.2,
        cirq.H(Q[0]) ** 0.4,
        cirq.rx(0.3)(Q[0]),
        cirq.ry(0.3)(Q[0]),
        cirq.rz(0.3)(Q[0]),
        cirq.CX(Q[1], Q[0]),
        cirq.CX(Q[0], Q[1]) ** 0.3,
        cirq.CZ(Q[0], Q[1]) ** 0.3,
        cirq.SWAP(Q[0], Q[1]),
        cirq.SWAP(Q[0], Q[1]) ** 0.3,
        cirq.ISWAP(Q[0], Q[1]),
        cirq.ISWAP(Q[0], Q[1]) ** -0.4,
        cirq.XX(Q[0], Q[1]) ** 0.2,
        cirq.YY(Q[0], Q[1]) ** 0.2,
        cirq.ZZ(Q[0], Q[1]) ** 0.2,
        cirq.FSimGate(0.3, 0.4)(Q[0], Q[1]),
        cirq.PhasedXPowGate(phase_exponent=0.3, exponent=0.7)(Q[0]),
        cirq.CCX(Q[2], Q[0], Q[1]),
        cirq.PhasedXZGate(x_exponent=0.3, z_exponent=0.2, axis_phase_exponent=0.7)(Q[0]),
        cirq.CCZ(Q[0], Q[1], Q[2]) ** 0.3,
        cirq.CCX(Q[0], Q[1], Q[2]) ** 0.3,
        cirq.CSWAP(Q[1], Q[0], Q[2]),
        cirq.MatrixGate(cirq.testing.random_unitary(8, random_state=1))(Q[2], Q[0], Q[1]),
        cirq.givens(0.3)(Q[0], Q[1]),
        cirq.PhasedFSimGate(0.1, 0.2, 0.3, 0.4, 0.5)(Q[0], Q[1]),
        cirq.ControlledGate(cirq.X**0.3, control_values=[0])(Q[1], Q[0]),
        cirq.X(Q[0]).controlled_by(Q[1], Q[2]),
        cirq.XPowGate(exponent=0.3, global_shift=0.2)(Q[0]),
        cirq.CZPowGate(exponent=0.3, global_shift=0.2)(Q[0], Q[1]),
        cirq.QuantumFourierTransformGate(3)(Q[0], Q[1], Q[2]),
        cirq.global_phase_operation(1j),
        cirq.I(Q[0]),
        cirq.ControlledGate(cirq.GlobalPhaseGate(1j))(Q[0]),
        cirq.ZPowGate(exponent=0.3, global_shift=-0.5)(Q[0]).controlled_by(Q[1]),
    ],
    ids=str,
)
def test_operations_from_cirq(operation):
    n = max((q.x for q in operation.qubits), default=-1) + 1
    theirs = cirq.Circuit([cirq.I(q) for q in Q[:n]], operation)
    mine = quantum.Circuit.from_cirq(theirs)
    np.testing.assert_allclose(twin.unitary(mine), matrix_of(theirs, n), atol=1e-7)  # Cirq's own powers have 1e-8
    np.testing.assert_allclose(twin.unitary(mine).conj().T @ twin.unitary(mine), np.eye(1 << n), atol=1e-9)


@pytest.mark.parametrize("name", gates.names())
def test_registered_gates_to_cirq(name):
    gate = gates.find(name)
    for controls in (0, 1):
        n = gate.num_qubits + controls
        params = np.random.default_rng(0).uniform(-3, 3, gate.num_params).tolist()
        circuit = quantum.Circuit(n).append(gate, range(controls, n), params, controls=range(controls))
        np.testing.assert_allclose(matrix_of(circuit.to_cirq(), n), twin.unitary(circuit), atol=1e-12)


@pytest.mark.parametrize("name", ["all_1q_gates_3", "all_2q_gates_4", "random_mix_3"])
def test_circuits_there_and_back(name):
    circuit = circuit_of(CIRCUITS[name])
    assert quantum.equal(quantum.Circuit.from_cirq(circuit.to_cirq()), circuit, up_to_phase=False, atol=1e-7)


def test_parameters():
    a, b = sympy.symbols("a b")
    theirs = cirq.Circuit(cirq.rx(2 * a - b / 4 + 1.5)(Q[0]), cirq.CZ(Q[0], Q[1]) ** b)
    mine = quantum.Circuit.from_cirq(theirs)
    assert mine.parameters == ("a", "b")
    values = {"a": 0.3, "b": -0.8}
    np.testing.assert_allclose(
        twin.unitary(mine, values), matrix_of(cirq.resolve_parameters(theirs, values), 2), atol=1e-7
    )
    circuit = quantum.Circuit(2).rx({"a": 2.0}, 0).crz("b", 0, 1).cp("a", 1, 0).rzz("b", 0, 1)
    np.testing.assert_allclose(
        matrix_of(cirq.resolve_parameters(circuit.to_cirq(), values), 2), twin.unitary(circuit, values), atol=1e-7
    )
    with pytest.raises(CircuitError, match="linear"):
        quantum.Circuit.from_cirq(cirq.Circuit(cirq.rx(a * a)(Q[0])))


def test_dynamic_circuits_come_back():
    circuit = quantum.Circuit(2, 2).h(0).reset(1).measure(0, 0)  # in the order of moments
    for value in (0, 1):
        with circuit.when(0, value):
            circuit.x(1)
    circuit.measure(1, 1)
    assert quantum.Circuit.from_cirq(circuit.to_cirq()) == circuit
    with pytest.raises(CircuitError, match="one measured bit"):
        quantum.Circuit.from_cirq(
            cirq.Circuit(cirq.measure(Q[0], Q[1], key="m"), cirq.X(Q[0]).with_classical_controls("m"))
        )


def test_what_cannot_be_translated():
    with pytest.raises(CircuitError, match="no matrix and no decomposition"):
        quantum.Circuit.from_cirq(cirq.Circuit(cirq.depolarize(0.1)(Q[0])))
    with pytest.raises(CircuitError, match="inverted"):
        quantum.Circuit.from_cirq(cirq.Circuit(cirq.measure(Q[0], invert_mask=(True,))))
    with pytest.raises(CircuitError, match="global phase with parameters"):
        quantum.Circuit(1).global_phase("a").to_cirq()


def test_tags_hide_no_conditions_and_keep_the_order_of_parameters():
    qubits = cirq.LineQubit.range(2)
    theirs = cirq.Circuit(
        cirq.measure(qubits[0], key="m"),
        cirq.X(qubits[1]).with_classical_controls("m").with_tags("mine"),
        cirq.Z(qubits[1]).controlled_by(qubits[0]).with_tags(1),
    )
    ours = quantum.Circuit.from_cirq(theirs)
    assert [i.condition is not None for i in ours] == [False, True, False] and ours.instructions[2].controls == (0,)
    circuit = quantum.Circuit(3).u("c", "b", "a", 0).rx("b", 0).ry("d", 1).rz({"e": 1, "a": 2}, 2).measure(0, 0)
    with circuit.when(0):
        circuit.rx("f", 1)
    for c in (circuit, quantum.Circuit(2).rx("a", 0).rx("b", 0).rx("c", 1), quantum.Circuit(1).rx({"b": 1, "a": 1}, 0)):
        assert quantum.Circuit.from_cirq(c.to_cirq()).parameters == c.parameters
    never = quantum.Circuit(1, 1)
    with never.when(0):
        never.rx("b", 0).rx("a", 0)  # a condition on a bit that nothing writes can be written
    assert len(list(never.to_cirq().all_operations())) == 2
