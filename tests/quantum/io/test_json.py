"""Circuits as JSON: exact, stable, and refused where they are none."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.gates.test_gates import CIRCUITS, circuit_of
from triskele import quantum
from triskele.quantum import gates
from triskele.quantum.errors import CircuitError, GateError, ParameterError

Circuit = quantum.Circuit


@pytest.mark.parametrize("name", sorted(CIRCUITS))
def test_circuits_come_back(name):
    circuit = circuit_of(CIRCUITS[name])
    assert Circuit.from_json(circuit.to_json()) == circuit


@pytest.mark.parametrize("name", gates.names())
def test_every_registered_gate_comes_back(name):
    gate = gates.find(name)
    circuit = Circuit(gate.num_qubits + 1).append(
        gate, range(gate.num_qubits), [{"a": 1 / 3}] * gate.num_params, controls=gate.num_qubits
    )
    assert Circuit.from_json(circuit.to_json()) == circuit


def test_everything_else_comes_back():
    circuit = (
        Circuit(3, 4)
        .rzyx("2*a - b/3 + 1", 0, 2, 1)
        .diagonal(["a", 0.1, 0, "b"], [2, 0])
        .unitary(np.diag([1, 1j]), 1, controls=0)
        .measure(0, 2)
        .reset(1)
        .barrier()
    )
    with circuit.when([2, 3], 1):
        circuit.x(0).measure(1, 0)
    circuit = Circuit(3).ry("x", 0).as_encoder() + circuit
    back = Circuit.from_json(circuit.to_json())
    assert back == circuit and back.data == ("x",) and back.num_clbits == 4
    assert back.to_json() == circuit.to_json()


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_numbers_are_exact(values):
    circuit = Circuit(1)
    for v in values:
        circuit.rx(v, 0)
    assert [i.params[0] for i in Circuit.from_json(circuit.to_json())] == values


def test_format_is_stable():
    """Version 1 as it was first written is read for ever."""
    text = (
        '{"format":"triskele.quantum.circuit","version":1,"num_qubits":2,"num_clbits":1,"data":["x"],"instructions":[{"gate":"h","qubits":[0]},'
        '{"gate":"rx","qubits":[1],"params":[{"terms":{"x":2.0},"constant":0.5}],"controls":[0]},'
        '{"gate":{"name":"mine","label":"M","matrix":[[[0.0,0.0],[1.0,0.0]],[[0.0,1.0],[0.0,0.0]]]},"qubits":[0]},'
        '{"gate":"measure","qubits":[0],"clbits":[0]},{"gate":"x","qubits":[1],"condition":{"clbits":[0],"value":1}}]}'
    )
    circuit = Circuit.from_json(text)
    assert circuit.data == ("x",) and circuit.to_json() == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        '{"format":"x","version":1}',
        '{"format":"triskele.quantum.circuit","version":2}',
        '{"format":"triskele.quantum.circuit","version":1}',
    ],
)
def test_what_is_no_circuit_is_refused(text):
    with pytest.raises(CircuitError, match="from_json"):
        Circuit.from_json(text)


@pytest.mark.parametrize(
    "change, error",
    [
        (lambda r: r["instructions"][0].update(qubits=[7]), CircuitError),
        (lambda r: r["instructions"][0].update(qubits=["a"]), CircuitError),
        (lambda r: r["instructions"][0].update(gate="hh"), GateError),
        (lambda r: r["instructions"][0].update(gate=["h"]), CircuitError),
        (lambda r: r["instructions"][1].update(params=[]), GateError),
        (lambda r: r["instructions"][1].update(params=[None]), ParameterError),
        (lambda r: r["instructions"][1].update(params=[{"terms": 3, "constant": 1}]), CircuitError),
        (lambda r: r.update(num_qubits=-1), CircuitError),
        (lambda r: r["instructions"][2].update(clbits=[5]), CircuitError),
        (lambda r: r["instructions"][2].update(clbits=[]), CircuitError),
        (lambda r: r["instructions"][0].update(condition={"clbits": [9], "value": 1}), CircuitError),
        (lambda r: r.update(instructions=3), CircuitError),
        (
            lambda r: r["instructions"][0].update(
                gate={"name": "m", "label": "", "matrix": [[[1, 0], [0, 0]], [[0, 0], [2, 0]]]}
            ),
            GateError,
        ),
    ],
)
def test_damaged_records_are_refused(change, error):
    record = json.loads(Circuit(2).h(0).rx(0.1, 1).measure(0, 0).to_json())
    change(record)
    with pytest.raises(error):
        Circuit.from_json(json.dumps(record))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_damaged_text_never_gives_another_error(data):
    text = Circuit(2).h(0).rx("a", 1).unitary(np.eye(2), 0).measure(0, 0).to_json()
    at = data.draw(st.integers(0, len(text) - 1))
    text = (
        text[:at]
        + data.draw(st.sampled_from(["", "0", "-1", "null", '"', "}", "1e999", "[]", "{}", "true"]))
        + text[at + data.draw(st.integers(0, 8)) :]
    )
    try:
        circuit = Circuit.from_json(text)
    except (CircuitError, GateError, ParameterError):
        return
    assert Circuit.from_json(circuit.to_json()) == circuit


def test_what_cannot_be_written():
    kick = quantum.gate(lambda t: np.exp(1j * t) * np.eye(2), 1, 1, "kick")
    with pytest.raises(CircuitError, match="kick is a function"):
        Circuit(1).append(kick, 0, [0.1]).to_json()
