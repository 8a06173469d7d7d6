"""Circuits: building, composing, inverting, controlling, binding."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.strategies import circuits
from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum.errors import CircuitError, GateError, ParameterError
from triskele.quantum.gates.families import unitary

VALUES = {"a": 0.7, "b": -1.9}
SMALL = circuits(max_qubits=4, max_gates=8)


def bound(circuit):
    return {name: VALUES[name] for name in circuit.parameters}


@settings(max_examples=40, deadline=None)
@given(SMALL)
def test_the_inverse_undoes(circuit):
    u = twin.unitary(circuit, VALUES)
    np.testing.assert_allclose(twin.unitary(circuit.inverse(), VALUES) @ u, np.eye(len(u)), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(SMALL)
def test_control_acts_where_the_control_is_one(circuit):
    n = circuit.num_qubits
    u, v = twin.unitary(circuit, VALUES), twin.unitary(circuit.control(n), VALUES)
    np.testing.assert_allclose(v, np.block([[np.eye(1 << n), np.zeros_like(u)], [np.zeros_like(u), u]]), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(SMALL, st.integers(0, 3))
def test_repeat_is_a_power(circuit, times):
    u = twin.unitary(circuit, VALUES)
    np.testing.assert_allclose(
        twin.unitary(circuit.repeat(times), VALUES), np.linalg.matrix_power(u, times), atol=1e-12
    )


@settings(max_examples=40, deadline=None)
@given(SMALL)
def test_binding_gives_the_same_circuit_with_numbers(circuit):
    fixed = circuit.bind(bound(circuit))
    assert fixed.parameters == ()
    np.testing.assert_allclose(twin.statevector(fixed), twin.statevector(circuit, VALUES), atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(SMALL, st.data())
def test_remap_moves_qubits(circuit, data):
    n = circuit.num_qubits
    order = data.draw(st.permutations(range(n)))
    state = twin.statevector(circuit, VALUES)
    moved = sum((((np.arange(1 << n) >> q) & 1) << order[q] for q in range(n)), np.zeros(1 << n, int))
    np.testing.assert_allclose(twin.statevector(circuit.remap(order), VALUES)[moved], state, atol=1e-12)


def test_composition():
    first, second = quantum.Circuit(2).h(0), quantum.Circuit(3).cx(0, 2).rz("a", 1)
    whole = quantum.Circuit(3).extend(first) + second
    assert [i.gate.name for i in whole] == ["h", "x", "rz"]
    assert len(first) == 1 and len(second) == 2  # neither changed
    assert quantum.Circuit(3).extend(first, qubits=[2, 0]).instructions[0].qubits == (2,)
    copy = whole.copy().x(0)
    assert len(whole) == 3 and len(copy) == 4
    assert whole == pickle.loads(pickle.dumps(whole))


def test_data_and_trainable_parameters():
    encoder = quantum.Circuit(2).rx("x", 0).as_encoder()
    circuit = encoder + quantum.Circuit(2).ry("a", 1)
    assert (circuit.parameters, circuit.data, circuit.names) == (("a",), ("x",), ("x", "a"))
    with pytest.raises(ParameterError, match="trainable in one circuit and data in the other"):
        encoder + quantum.Circuit(2).ry("x", 1)


def test_depth_and_counts():
    circuit = quantum.Circuit(3).h(0).cx(0, 1).barrier().x(2).ccx(0, 1, 2).measure(2, 0)
    assert circuit.depth() == 5  # the barrier puts x after cx
    assert circuit.counts()["ccx"] == 1 and circuit.counts()["h"] == 1
    assert quantum.Circuit(3).depth() == 0
    assert quantum.Circuit(3).h(0).h(1).h(2).depth() == 1


def test_conditions():
    circuit = quantum.Circuit(2).measure(0, 1)
    with circuit.when(1):
        circuit.x(1)
    assert circuit.instructions[-1].condition == ((1,), 1)
    assert circuit.x(0).instructions[-1].condition is None
    with pytest.raises(CircuitError, match="from 0 to 1"), circuit.when(5):
        pass
    with pytest.raises(CircuitError, match="cannot be undone"):
        circuit.inverse()
    with pytest.raises(CircuitError, match="cannot be controlled"):
        circuit.control(3)


def test_arrays_make_the_circuit_that_calls_make():
    random = np.random.default_rng(0)
    names, qubits, params = [], [], []
    expected = quantum.Circuit(6)
    for _ in range(200):
        name = str(random.choice(["h", "cx", "rz", "u", "ccx", "rzz", "crx"]))
        width, angles = {
            "h": (1, 0),
            "cx": (2, 0),
            "rz": (1, 1),
            "u": (1, 3),
            "ccx": (3, 0),
            "rzz": (2, 1),
            "crx": (2, 1),
        }[name]
        wires, numbers = random.permutation(6)[:width].tolist(), random.normal(size=angles).tolist()
        expected.append(name, wires, numbers)
        names.append(name)
        qubits.append(wires + [-1] * (3 - width))
        params.append(numbers + [0.0] * (3 - angles))
    assert quantum.Circuit.from_arrays(6, names, np.array(qubits), np.array(params)) == expected
    layer = quantum.Circuit.from_arrays(4, "rx", range(4), [f"t{q}" for q in range(4)])
    assert layer == quantum.Circuit(4).rx("t0", 0).rx("t1", 1).rx("t2", 2).rx("t3", 3)
    assert quantum.Circuit.from_arrays(4, "h", np.zeros((0, 1), int)) == quantum.Circuit(4)


@pytest.mark.parametrize(
    ("names", "qubits", "params", "error", "message"),
    [
        ("h", [[4]], None, CircuitError, "h: qubits must be integers from 0 to 3, got 4"),
        ("cx", [[1, 2], [1, 1]], None, CircuitError, r"cx: qubits must differ, got \[1, 1\]"),
        ("cx", [[1, -1]], None, CircuitError, "cx: qubits must be integers from 0 to 3, got -1"),
        ("h", [[1, 2]], None, CircuitError, "h: acts on 1 qubits"),
        ("h", [[0.5]], None, CircuitError, "qubits must be integers"),
        ("rx", [[0]], None, GateError, "rx: 1 parameters are needed, got 0"),
        ("rx", [[0]], [[np.nan]], ParameterError, "rx: an angle must be finite, got nan"),
        (["h", "h"], [[0]], None, CircuitError, "of one length, got 2, 1, 1"),
        ("hh", [[0]], None, GateError, "unknown gate 'hh'"),
    ],
)
def test_bad_arrays(names, qubits, params, error, message):
    with pytest.raises(error, match=message):
        quantum.Circuit.from_arrays(4, names, qubits, params)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: quantum.Circuit(-1), CircuitError, "num_qubits must be an integer >= 0, got -1"),
        (lambda: quantum.Circuit(2.5), CircuitError, "num_qubits must be an integer"),
        (lambda: quantum.Circuit(2).h(2), CircuitError, "h: qubits must be integers from 0 to 1, got 2"),
        (lambda: quantum.Circuit(2).cx(0, 2), CircuitError, "cx: qubits must be integers from 0 to 1, got 2"),
        (lambda: quantum.Circuit(2).h(-1), CircuitError, "got -1"),
        (lambda: quantum.Circuit(2).h(0.5), CircuitError, "got 0.5"),
        (lambda: quantum.Circuit(2).h("0"), CircuitError, "got '0'"),
        (lambda: quantum.Circuit(2).cx(1, 1), CircuitError, r"qubits must differ, got \[1, 1\]"),
        (lambda: quantum.Circuit(2).append("x", 0, controls=0), CircuitError, "qubits must differ"),
        (lambda: quantum.Circuit(2).rx(0), CircuitError, "rx: needs 1 parameters and 1 qubits, got 1"),
        (lambda: quantum.Circuit(2).append("rx", 0), GateError, "rx: 1 parameters are needed, got 0"),
        (lambda: quantum.Circuit(2).append("hadamard", 0), GateError, "unknown gate 'hadamard'"),
        (lambda: quantum.Circuit(2).hh(0), AttributeError, "Circuit has no gate or method 'hh'.*did you mean"),
        (lambda: unitary([[1, 1], [0, 1]]), GateError, "must be unitary"),
        (lambda: quantum.Circuit(1).extend(quantum.Circuit(2)), CircuitError, "does not fit on 1"),
        (lambda: quantum.Circuit(1).extend(3), CircuitError, "other must be a Circuit, got int"),
        (lambda: quantum.Circuit(2).remap([0, 0]), CircuitError, "2 different qubits"),
        (lambda: quantum.Circuit(2).repeat(-1), CircuitError, ">= 0, got -1"),
        (lambda: quantum.Circuit(1).rx("a", 0).bind({"b": 1.0}), ParameterError, r"no parameters \['b'\]"),
        (
            lambda: quantum.Circuit(1).rx("a", 0).bind([1.0, 2.0]),
            ParameterError,
            r"values must have shape \(1,\), got \(2,\) \(one for each",
        ),
        (lambda: quantum.Circuit(1).rx("a", 0).bind([np.inf]), ParameterError, "must be finite"),
    ],
)
def test_errors(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_plan_counts_passes_and_arithmetic():
    circuit = quantum.Circuit(14)
    for q in range(14):
        circuit.sx(q)
    costs = quantum.plan(circuit)
    assert (costs.gates, costs.factors, costs.ops, costs.state_bytes) == (14, 14, 14, 16 << 14)
    assert sum(costs.ops_per_pass) == 14 and 1 < costs.passes == len(costs.ops_per_pass) < 14
    assert costs.flops <= 14 * 14 * 2**14  # blocks that are zero cost nothing
    assert f"14 gates -> 14 factors -> 14 ops in {costs.passes} passes" in str(costs)
    single = quantum.plan(circuit, np.complex64)
    assert single.state_bytes == 8 << 14
    fused = quantum.plan(quantum.Circuit(1).h(0).rx("a", 0).rz(0.1, 0).ry("b", 0))
    assert (fused.factors, fused.ops, fused.passes, fused.bytes_moved) == (4, 1, 1, 0)
    assert all(seconds >= 0 for seconds in costs.limit())
