"""Qiskit circuits both ways, against Qiskit's own matrices."""

import numpy as np
import pytest

qiskit = pytest.importorskip("qiskit")
pytestmark = pytest.mark.peer

from qiskit import QuantumCircuit  # noqa: E402
from qiskit.circuit import Parameter, ParameterVector  # noqa: E402
from qiskit.circuit.library import get_standard_gate_name_mapping  # noqa: E402
from qiskit.quantum_info import Operator  # noqa: E402

from tests.quantum.gates.test_gates import CIRCUITS, circuit_of  # noqa: E402
from tests.twins import statevector as twin  # noqa: E402
from triskele import quantum  # noqa: E402
from triskele.quantum import gates  # noqa: E402
from triskele.quantum.errors import CircuitError  # noqa: E402

GATES = {n: g for n, g in get_standard_gate_name_mapping().items() if n not in ("measure", "reset", "delay")}


@pytest.mark.parametrize("name", sorted(GATES))
def test_standard_gates_from_qiskit(name):
    gate = GATES[name].base_class(*np.random.default_rng(0).uniform(-3, 3, len(GATES[name].params)))
    theirs = QuantumCircuit(gate.num_qubits)
    theirs.append(gate, range(gate.num_qubits))
    np.testing.assert_allclose(twin.unitary(quantum.Circuit.from_qiskit(theirs)), Operator(theirs).data, atol=1e-13)


@pytest.mark.parametrize("name", gates.names())
def test_registered_gates_to_qiskit(name):
    gate = gates.find(name)
    for controls in (0, 1):
        n = gate.num_qubits + controls
        params = np.random.default_rng(0).uniform(-3, 3, gate.num_params).tolist()
        circuit = quantum.Circuit(n).append(gate, range(controls, n), params, controls=range(controls))
        np.testing.assert_allclose(Operator(circuit.to_qiskit()).data, twin.unitary(circuit), atol=1e-12)


@pytest.mark.parametrize("name", ["all_1q_gates_3", "all_2q_gates_4", "all_3q_gates_5", "random_mix_3"])
def test_circuits_there_and_back(name):
    circuit = circuit_of(CIRCUITS[name])
    back = quantum.Circuit.from_qiskit(circuit.to_qiskit())
    assert quantum.equal(back, circuit, up_to_phase=False, atol=1e-12)


def test_what_has_a_definition_or_a_matrix():
    theirs = QuantumCircuit(4, global_phase=0.3)
    theirs.mcx([0, 1, 2], 3)
    theirs.append(GATES["h"].base_class().control(2, ctrl_state=1, annotated=False), [3, 1, 0])
    theirs.mcp(0.4, [0, 1, 2], 3)
    theirs.append(qiskit.circuit.library.PauliGate("XYZ"), [0, 2, 1])
    theirs.append(qiskit.circuit.library.DiagonalGate([1, 1j, -1, np.exp(0.3j)]), [3, 1])
    theirs.unitary(np.array([[0, 1], [1j, 0]]), [2])
    theirs.compose(qiskit.synthesis.synth_qft_full(3), [1, 2, 3], inplace=True)
    theirs.append(qiskit.circuit.library.UnitaryGate(np.diag([1, 1j])).control(1, annotated=False), [0, 2])
    np.testing.assert_allclose(twin.unitary(quantum.Circuit.from_qiskit(theirs)), Operator(theirs).data, atol=1e-13)


def test_parameters():
    a, v = Parameter("a"), ParameterVector("v", 2)
    theirs = QuantumCircuit(2)
    theirs.rx(2 * a - v[0] / 4 + 1.5, 0)
    theirs.crz(v[1], 0, 1)
    theirs.p(a - a, 0)
    mine = quantum.Circuit.from_qiskit(theirs)
    assert mine == quantum.Circuit(2).rx("2*a - 0.25*v[0] + 1.5", 0).crz("v[1]", 0, 1).p(0.0, 0)
    back = mine.to_qiskit()
    values = {"a": 0.3, "v[0]": -0.8, "v[1]": 2.2}
    bound = back.assign_parameters({p: values[p.name] for p in back.parameters})
    np.testing.assert_allclose(Operator(bound).data, twin.unitary(mine, values), atol=1e-14)
    bad = QuantumCircuit(1)
    bad.rx(a * a, 0)
    with pytest.raises(CircuitError, match="linear"):
        quantum.Circuit.from_qiskit(bad)


def test_dynamic_circuits_come_back():
    circuit = quantum.Circuit(2, 3).h(0).measure(0, 1).barrier(0, 1).reset(1)
    for bits, value in ((1, 1), (2, 0), ([0, 1], 2)):
        with circuit.when(bits, value):
            circuit.x(1).measure(1, 2)
    assert quantum.Circuit.from_qiskit(circuit.to_qiskit()) == circuit
    theirs = QuantumCircuit(1, 1)
    with theirs.if_test((0, 1)) as otherwise:
        theirs.x(0)
    with otherwise:
        theirs.y(0)
    mine = quantum.Circuit(1, 1)
    for value, name in ((1, "x"), (0, "y")):
        with mine.when(0, value):
            mine.append(name, 0)
    assert quantum.Circuit.from_qiskit(theirs) == mine


def test_one_branch_runs_where_it_measures_the_bit_that_chose_it():
    for first in (0, 1):
        theirs = QuantumCircuit(2, 2)
        theirs.x(0)
        theirs.measure(0, 0)
        with theirs.if_test((0, first)) as otherwise:
            theirs.x(1 - first)
            theirs.measure(0, 0)  # where bit 0 becomes 0 it must not choose the other branch
        with otherwise:
            theirs.x(first)
        theirs.measure(1, 1)
        counts = {0: "01", 1: "00"}[first]
        mine = quantum.Circuit.from_qiskit(theirs)
        for simulator in ("trajectories", "density_matrix"):
            assert quantum.run(mine, simulator=simulator, shots=9).counts() == {counts: 9}


def test_branches_that_go_on_after_their_bit_was_measured_are_refused():
    def circuit():
        theirs = QuantumCircuit(2, 2)
        theirs.x(0)
        theirs.measure([0, 0], [0, 1])
        return theirs

    inner, nested, both = circuit(), circuit(), circuit()
    with inner.if_test((0, 1)):
        inner.x(0)
        inner.measure(0, 0)
        inner.x(1)
    with nested.if_test((0, 1)):
        with nested.if_test((1, 1)):
            nested.x(0)
            nested.measure(0, 0)
        nested.x(1)
    with both.if_test((0, 1)) as otherwise:
        both.measure(1, 0)
    with otherwise:
        both.measure(1, 0)
    for theirs in (inner, nested, both):
        with pytest.raises(CircuitError, match="must not go on after it measured the bits of its condition"):
            quantum.Circuit.from_qiskit(theirs)


def test_conditions_on_a_register():
    register = qiskit.ClassicalRegister(2, "c")
    theirs = QuantumCircuit(qiskit.QuantumRegister(2), qiskit.ClassicalRegister(1, "other"), register)
    with theirs.if_test((register, 2)):
        theirs.x(0)
    mine = quantum.Circuit(2, 3)
    with mine.when([1, 2], 2):
        mine.x(0)
    assert quantum.Circuit.from_qiskit(theirs) == mine


def test_gates_with_several_controlled_targets():
    theirs = QuantumCircuit(6)
    theirs.append(qiskit.circuit.library.MCMTGate(GATES["x"].base_class(), 2, 3), [4, 0, 2, 1, 5])
    theirs.append(qiskit.circuit.library.MCMTGate(GATES["ry"].base_class(0.3), 1, 2), [3, 0, 1])
    theirs.append(qiskit.circuit.library.ModularAdderGate(3), range(6))
    np.testing.assert_allclose(twin.unitary(quantum.Circuit.from_qiskit(theirs)), Operator(theirs).data, atol=1e-13)


def test_identities_stay_and_delays_do_not():
    theirs = QuantumCircuit(2)
    theirs.id(1)
    theirs.delay(100, 0)
    assert quantum.Circuit.from_qiskit(theirs).counts() == {"id": 1}  # noise models have noise of it


def test_what_cannot_be_translated():
    theirs = QuantumCircuit(1, 1)
    with theirs.while_loop((0, 1)):
        theirs.x(0)
    with pytest.raises(CircuitError, match="while_loop"):
        quantum.Circuit.from_qiskit(theirs)
    with pytest.raises(CircuitError, match="depolarizing"):
        quantum.Circuit(1).depolarizing(0.1, 0).to_qiskit()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("controls", [0, 1, 2])
@pytest.mark.parametrize("state", [0, 1])
def test_controlled_u_with_any_controls(controls, state):
    from qiskit.circuit.library import CUGate

    angles = (0.1, 0.2, 0.3, 0.4)
    gate = CUGate(*angles, ctrl_state=state)
    for k in range(controls):
        gate = gate.control(1, ctrl_state=k, annotated=False)
    theirs = QuantumCircuit(controls + 2)
    theirs.append(gate, range(controls + 2))
    np.testing.assert_allclose(twin.unitary(quantum.Circuit.from_qiskit(theirs)), Operator(theirs).data, atol=1e-9)


def test_rv_keeps_its_parameters():
    circuit = (
        quantum.Circuit(2).rv("a", 0.2, "2*b", 1).h(0).append("rv", 1, [0.1, 0.2, 0.3], controls=0).rv(np.pi, 0, 0, 0)
    )
    theirs = circuit.to_qiskit()
    back = quantum.Circuit.from_qiskit(theirs)
    assert back.parameters == ("a", "b")
    for c in (back, circuit.bind([0.4, -0.7])):
        np.testing.assert_allclose(
            twin.unitary(c, {"a": 0.4, "b": -0.7}), twin.unitary(circuit, {"a": 0.4, "b": -0.7}), atol=1e-12
        )
    bound = theirs.assign_parameters({p: {"a": 0.4, "b": -0.7}[p.name] for p in theirs.parameters})
    np.testing.assert_allclose(Operator(bound).data, twin.unitary(circuit, {"a": 0.4, "b": -0.7}), atol=1e-9)
    bound = circuit.bind([0.4, -0.7])
    for other in (quantum.Circuit.from_cirq(bound.to_cirq()), quantum.Circuit.from_qasm(bound.to_qasm())):
        np.testing.assert_allclose(twin.unitary(other), twin.unitary(bound), atol=1e-9)
