"""Noise from a device's table: errors of gates, schedules, and tables that are wrong."""

import copy
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triskele import quantum
from triskele.quantum import noise
from triskele.quantum.errors import ChannelError, GateError

TABLE = {
    "qubits": [
        {"t1": 120e-6, "t2": 90e-6, "p01": 0.03, "p10": 0.01, "frequency": 5e9},
        {"t1": 80e-6, "t2": 200e-6, "p10": 0.02},
        {"p01": None, "excited_population": 0.1},
    ],
    "gates": [
        {"gate": "rz"},
        {"gate": "sx", "error": 3e-4, "duration": 35e-9},
        {"gate": "sx", "qubits": [1], "error": 5e-4, "duration": 50e-9},
        {"gate": "x", "qubits": 0, "duration": 35e-9},
        {"gate": "x", "qubits": [1], "duration": 50e-9},
        {"gate": "cx", "qubits": [0, 1], "error": 7e-3, "duration": 300e-9},
        {"gate": "measure", "duration": 1e-6},
        {"gate": "reset", "duration": 2e-6},
    ],
}


def ideal(num_qubits=2):
    """A table without noise but of a register, to add to."""
    return [{"t1": 100e-6, "t2": 80e-6} for _ in range(num_qubits)]


def infidelity(circuit, num_qubits):
    """Average gate infidelity of a circuit's channels: Nielsen's formula of the trace of the transfer matrix."""
    total = np.eye(4**num_qubits)
    for i in circuit:
        if isinstance(i.gate, noise.Channel):
            each = [np.eye(4)] * num_qubits
            if i.gate.num_qubits == 1:
                each[i.qubits[0]] = i.gate.transfer_matrix()
                matrix = each[0] if num_qubits == 1 else np.kron(each[1], each[0])
            else:
                matrix = i.gate.transfer_matrix()
            total = matrix @ total
    d = 2**num_qubits
    return 1 - (np.trace(total) / d + 1) / (d + 1)


@given(st.floats(1e-6, 1e-3), st.floats(0.01, 3), st.floats(0, 1e-6), st.floats(0, 0.4), st.floats(0, 1), st.booleans())
def test_gates_have_the_reported_error(t1, ratio, duration, error, excited, two):
    qubit = {"t1": t1, "t2": ratio * t1, "excited_population": excited, "p01": 0.1}
    name, circuit = ("cx", quantum.Circuit(2).cx(0, 1)) if two else ("x", quantum.Circuit(1).x(0))
    n = circuit.num_qubits
    gate = {"gate": name, "duration": duration}
    relaxed = infidelity(circuit.with_noise(noise.NoiseModel().relaxation(t1, min(ratio, 2) * t1, {name: duration})), n)
    model = noise.NoiseModel.from_device({"qubits": [qubit] * n, "gates": [gate | {"error": error}]})
    assert infidelity(circuit.with_noise(model), n) == pytest.approx(max(error, relaxed), abs=1e-12)


def test_errors_beyond_the_largest_depolarizing_channel():
    model = noise.NoiseModel.from_device({"qubits": [{}], "gates": [{"gate": "x", "error": 1.0}]})
    (_, lost) = quantum.Circuit(1).x(0).with_noise(model)
    np.testing.assert_allclose(lost.gate.pauli_probabilities, [0, 1 / 3, 1 / 3, 1 / 3], atol=1e-15)


def test_rows_of_a_table():
    model = noise.NoiseModel.from_device(json.loads(json.dumps(TABLE)), temperature=0.05)
    assert repr(model) == "NoiseModel(0 rules, a device's gates, relaxation, readout errors)"
    circuit = quantum.Circuit(3).sx(0).sx(1).sx(2).rz(0.3, 0).cx(0, 1).global_phase(0.2).barrier().measure(1).reset(0)
    noisy = circuit.with_noise(model)
    assert [(i.gate.name, i.qubits) for i in noisy if i.gate.name in ("thermal_relaxation", "readout_error")] == [
        ("thermal_relaxation", (0,)),
        ("thermal_relaxation", (1,)),
        ("thermal_relaxation", (2,)),
        ("thermal_relaxation", (0,)),
        ("thermal_relaxation", (1,)),
        ("readout_error", ()),
        ("thermal_relaxation", (0,)),
    ]
    assert [i.qubits for i in noisy if i.gate.name == "depolarizing"] == [(0,), (1,), (2,), (0, 1)]
    assert noisy.readout == {0: noise.ReadoutError(0.03, 0.01), 1: noise.ReadoutError(0.0, 0.02)}
    during = {q: i.gate for i in noisy if i.gate.name == "thermal_relaxation" for q in i.qubits}
    boltzmann = np.exp(-6.62607015e-34 * 5e9 / (1.380649e-23 * 0.05))
    steady = during[0](np.diag([1.0, 0.0]))[1, 1].real / -np.expm1(-2e-6 / 120e-6)
    assert steady == pytest.approx(boltzmann / (1 + boltzmann), rel=1e-9)
    np.testing.assert_allclose(during[2](np.full((2, 2), 0.5)), np.full((2, 2), 0.5), atol=1e-15)  # without t1 and t2
    t2 = -300e-9 / np.log(2 * during[1](np.full((2, 2), 0.5))[0, 1].real)
    assert t2 == pytest.approx(2 * 80e-6, rel=1e-9)  # not 200e-6


def test_rules_add_to_a_device():
    model = noise.NoiseModel.from_device(TABLE).add(noise.phase_flip(0.1), "rz").add(noise.bit_flip(0.2), "cx")
    noisy = quantum.Circuit(2).rz(0.1, 0).cx(0, 1).with_noise(model)
    assert noisy.counts() == {
        "rz": 1, "phase_flip": 1, "cx": 1, "bit_flip": 2, "depolarizing": 1, "thermal_relaxation": 2
    }  # fmt: skip


@pytest.mark.parametrize(
    ("circuit", "message"),
    [
        (quantum.Circuit(1).h(0), r"has no h, but rz, sx, x, cx \(quantum.decompose\(circuit, \['rz', 'sx', 'x', 'cx'"),
        (quantum.Circuit(3).cx(0, 2), r"has no cx on \[0, 2\], but on \[0, 1\] \(route"),
        (quantum.Circuit(2).cx(1, 0), r"has no cx on \[1, 0\], but on \[0, 1\]"),
        (quantum.Circuit(3).x(2), r"has no x on \[2\], but on \[0\], \[1\]"),
        (quantum.Circuit(3).ccx(0, 1, 2), "has no ccx"),
        (quantum.Circuit(4).sx(0), "a number for each of 4 qubits, got 3"),
    ],
)
def test_gates_that_a_device_does_not_have(circuit, message):
    with pytest.raises(ChannelError, match=message):
        circuit.with_noise(noise.NoiseModel.from_device(TABLE))


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"qubits": [{"T1": 1e-4}]}, {}, "qubit 0 has 'T1', which is none of t1, t2, p01"),
        ({"qubit": []}, {}, "the device has 'qubit', which is none of qubits, gates"),
        ({"gates": [{"gate": "x", "time": 1}]}, {}, "gate 0 has 'time', which is none of gate, qubits, error"),
        ({"qubits": [1e-4]}, {}, "qubit 0 must be a dict, got float"),
        ({"qubits": [{}, {"t1": -1.0}]}, {}, r"qubit 1: t1 must be a number above 0 \(seconds\), got -1.0"),
        ({"qubits": [{"t2": "80e-6"}]}, {}, "qubit 0: t2 must be a number above 0"),
        ({"qubits": [{"p01": 1.5}]}, {}, "qubit 0: p01 must be a number from 0 to 1, got 1.5"),
        ({"qubits": [{}], "gates": [{"gate": "x", "qubits": [1]}]}, {}, "x 1: qubits must differ and be from 0 to 0"),
        ({"qubits": [{}], "gates": [{"gate": "cx", "qubits": [0]}]}, {}, r"cx acts on 2 qubits, got 1: \[0\]"),
        ({"qubits": [{}], "gates": [{"gate": "x", "error": -0.1}]}, {}, "x: error must be a number from 0 to 1"),
        ({"qubits": [{}], "gates": [{"gate": "measure", "error": 0.1}]}, {}, "those of readout are p01 and p10"),
        ({"qubits": ideal(), "gates": [{"gate": "rz"}]}, {}, "reports no errors"),
        ([], {}, "a dict, or a Qiskit BackendV2 or Target is needed, got list"),
        (TABLE, {"idle": True}, "idle must be 'asap', 'alap' or None, got True"),
        (TABLE, {"temperature": -1}, "temperature must be a number >= 0, got -1"),
    ],
)
def test_tables_that_are_wrong(table, options, message):
    with pytest.raises(ChannelError, match=message):
        noise.NoiseModel.from_device(table, **options)


def test_tables_of_numpy_numbers_are_copied_with_their_models():
    qubit = {"t1": np.float32(1e-4), "t2": np.float32(1e-4)}
    gates = [{"gate": "x", "qubits": np.int64(0), "error": np.float32(0.01)}, {"gate": "reset", "duration": 1e-6}]
    model = noise.NoiseModel.from_device({"qubits": [qubit], "gates": gates})
    circuit = quantum.Circuit(1).x(0).reset(0)
    for same in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert circuit.with_noise(same) == circuit.with_noise(model)
        assert circuit.with_noise(same).counts() == {"x": 1, "depolarizing": 1, "reset": 1, "thermal_relaxation": 1}


def test_durations_of_the_wrong_qubits():
    with pytest.raises(ChannelError, match=r"cx acts on 2 qubits, got 1: \[0\]"):
        noise.NoiseModel().relaxation(1.0, 1.0, {("cx", 0): 0.1})


def test_unknown_gates_of_a_table():
    with pytest.raises(GateError, match="unknown gate 'cnx'"):
        noise.NoiseModel.from_device({"qubits": [{}], "gates": [{"gate": "cnx"}]})


# -- schedules ---------------------------------------------------------------------------------------------------------


def waits(circuit, durations, idle):
    """[(qubit, time, name of the instruction that follows)] of all relaxation outside of gates."""
    model = noise.NoiseModel().relaxation(1e3, 1e3, durations, idle=idle)
    noisy, found = circuit.with_noise(model).instructions, []
    plain = circuit.with_noise(noise.NoiseModel().relaxation(1e3, 1e3, durations, idle=None)).instructions
    k = 0
    for i in noisy:
        if k < len(plain) and i == plain[k]:
            k += 1
        else:
            time = -1e3 * np.log(2 * i.gate(np.full((2, 2), 0.5))[0, 1].real)
            found.append((*i.qubits, round(time, 6), plain[k].gate.name if k < len(plain) else "end"))
    assert k == len(plain)
    return found


def test_as_early_and_as_late_as_possible():
    circuit = quantum.Circuit(3).x(0).x(0).x(1).cx(0, 1)
    durations = {"x": 1.0, ("x", 1): 0.5, "cx": 4.0}
    assert waits(circuit, durations, "asap") == [(1, 1.5, "x")]
    assert waits(circuit, durations, "alap") == [(1, 1.5, "x"), (2, 6.0, "end")]
    assert waits(circuit.x(2).barrier(), durations, "asap") == [(1, 1.5, "x"), (2, 5.0, "barrier")]
    assert waits(circuit, durations, None) == []


def test_measurements_end_together_on_a_late_schedule():
    circuit = quantum.Circuit(3).x(0).x(0).x(1).measure_all()
    durations = {"x": 1.0, "measure": 5.0, ("measure", 1): 7.0}
    assert waits(circuit, durations, "alap") == [(0, 1.0, "x"), (2, 3.0, "measure")]


@pytest.mark.parametrize("idle", ["asap", "alap"])
def test_conditions_wait_for_what_they_read(idle):
    circuit = quantum.Circuit(3).measure(0)
    for q in (1, 2):  # at the same time
        with circuit.when(0):
            circuit.x(q)
    circuit.barrier().measure(1, 0)
    found = waits(circuit, {"x": 1.0, "measure": 5.0}, idle)
    assert found[:3] == [(1, 5.0, "x"), (2, 5.0, "x"), (0, 1.0, "barrier")]
    assert found[3:] == ([(0, 5.0, "end"), (2, 5.0, "end")] if idle == "alap" else [])
