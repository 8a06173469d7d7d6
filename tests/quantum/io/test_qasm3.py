"""OpenQASM 3 read, both versions written, and read back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.quantum.gates.test_gates import CIRCUITS, circuit_of
from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum import gates
from triskele.quantum.equality import equal
from triskele.quantum.errors import CircuitError, QASMError
from triskele.quantum.gates.standard import resolve
from triskele.quantum.io.qasm.reader import from_qasm

HEAD = 'OPENQASM 3.0;\ninclude "stdgates.inc";\n'
U = quantum.Circuit


def sx_power(exponent):
    """exp(i pi e/2) RX(pi e): X to the power e, whose eigenvalue -1 becomes exp(i pi e)."""
    return U(1).rx(np.pi * exponent, 0).global_phase(np.pi * exponent / 2)


@pytest.mark.parametrize(
    "body, expected",
    [
        ("qubit a; qubit[2] b; cx a, b;", U(3).cx(0, 1).cx(0, 2)),
        ("qreg q[2]; x q[-1];", U(2).x(1)),
        ("qubit[4] q; x q[1:2]; h q[0:2:3];", U(4).x(1).x(2).h(0).h(2)),
        ("qubit[3] q; ctrl(2) @ z q[0], q[1], q[2];", U(3).ccz(0, 1, 2)),
        ("qubit[2] q; negctrl @ rx(0.3) q[0], q[1];", U(2).x(0).crx(0.3, 0, 1).x(0)),
        ("qubit q; inv @ s q; inv @ rx(0.3) q;", U(1).sdg(0).rx(-0.3, 0)),
        ("qubit q; pow(3) @ t q;", U(1).t(0).t(0).t(0)),
        ("qubit q; pow(-2) @ t q;", U(1).tdg(0).tdg(0)),
        ("qubit q; pow(1/2) @ x q;", U(1).sx(0)),
        ("qubit q; pow(0.3) @ x q;", sx_power(0.3)),
        ("qubit[2] q; ctrl @ pow(0.3) @ x q[0], q[1];", sx_power(0.3).remap([1], 2).control(0)),
        ("qubit[2] q; gphase(0.4); ctrl @ gphase(0.7) q[1];", U(2).global_phase(0.4).p(0.7, 1)),
        ("qubit[2] q; inv @ ctrl @ s q[0], q[1];", U(2).csdg(0, 1)),
        ("const int n = 3; qubit[n] q; for uint i in [0:n-2] { cx q[i], q[i+1]; }", U(3).cx(0, 1).cx(1, 2)),
        ("qubit[3] q; for int i in {2, 0} x q[i];", U(3).x(2).x(0)),
        (
            "qubit q; for int i in [5:-2:1] rz(i*pi/8) q;",
            U(1).rz(5 * np.pi / 8, 0).rz(3 * np.pi / 8, 0).rz(np.pi / 8, 0),
        ),
        (
            "gate g(t) a, b { ctrl @ rx(t/2) a, b; gphase(t); } qubit[3] q; g(0.4) q[2], q[0]; ctrl @ g(1.0) q[1], q[0], q[2];",  # noqa: E501
            U(3).crx(0.2, 2, 0).global_phase(0.4).append("ccrx", [1, 0, 2], [0.5]).p(1.0, 1),
        ),
        ("gate e(t) a { for int k in [1:2] { rz(k * t) a; } } qubit q; e(0.1) q;", U(1).rz(0.1, 0).rz(0.2, 0)),
        ("qubit[3] q; let a = q[1:2]; let b = a ++ q[0]; x a[0]; h b;", U(3).x(1).h(1).h(2).h(0)),
        ("float x = 0.25; const float[64] y = 2 * x; qubit q; rx(y) q;", U(1).rx(0.5, 0)),
        ("qubit q; if (2 > 1) { x q; } else { y q; }", U(1).x(0)),
        ("x $2; cx $0, $2;", U(3).x(2).cx(0, 2)),
        # whole numbers have whole quotients
        ("qubit q; rx(7/2) q; rx(-7/2) q; rx(1/2*pi) q;", U(1).rx(3.0, 0).rx(-3.0, 0).rx(0.0, 0)),
        ("qubit[4] q; const int n = 7; rx(n/2) q[n/4]; rx(pi*n/2) q[n/2];", U(4).rx(3.0, 1).rx(np.pi * 7 / 2, 3)),
        ("qubit q; const float n = 7; rx(n/2) q; rx(7/2.0) q; rx(7.0/2) q;", U(1).rx(3.5, 0).rx(3.5, 0).rx(3.5, 0)),
        (
            "gate u(a, b, c) q { x q; } gate cu1(a) p, q { cz p, q; } qubit[2] q; u(1, 2, 3) q[0]; cu1(1) q[0], q[1];",
            U(2).x(0).cz(0, 1),
        ),
        ("@hint fast\nqubit q; x q;", U(1).x(0)),
        (
            "qubit q; u3(0.1, 0.2, 0.3) q; U(0.1, 0.2, 0.3) q; phase(0.2) q; p(τ/4) q;",
            U(1)
            .u(0.1, 0.2, 0.3, 0)
            .global_phase(-0.25)
            .u(0.1, 0.2, 0.3, 0)
            .global_phase(0.05)
            .p(0.2, 0)
            .p(np.pi / 2, 0),
        ),
        (
            "qubit q; rx(2 ** 3 ** 0) q; rx(0x10) q; rx(1_0.5) q; rx(mod(7, 4)) q; rx(-2**2) q;",
            U(1).rx(2, 0).rx(16, 0).rx(10.5, 0).rx(3, 0).rx(-4, 0),
        ),
    ],
)
def test_programs(body, expected):
    circuit = from_qasm(HEAD + body)
    assert circuit.num_qubits == expected.num_qubits
    np.testing.assert_allclose(twin.unitary(circuit), twin.unitary(expected), atol=1e-14)


def test_parameters():
    circuit = from_qasm(
        HEAD + "input float a; input angle[32] b; qubit q; rx(2*a - b/4 + pi) q; rz(-a) q; pow(2) @ inv @ rz(b) q;"
    )
    expected = U(1).rx("2*a - 0.25*b + pi", 0).rz({"a": -1}, 0).rz({"b": -1}, 0).rz({"b": -1}, 0)
    assert circuit == expected and circuit.parameters == ("a", "b")


def test_measurement_and_conditions():
    text = (
        "qubit[2] q; bit m = measure q[0]; bit[2] c; c = measure q; if (m) x q[0]; if (!m) { z q[0]; y q[1]; } if (c "
        "== 2) h q[1]; if (m && c[1] == 0) { reset q[0]; } else {}"
    )
    expected = U(2, 3).measure(0, 0).measure([0, 1], [1, 2])
    for bits, value, add in (
        (0, 1, lambda: expected.x(0)),
        (0, 0, lambda: expected.z(0).y(1)),
        ([1, 2], 2, lambda: expected.h(1)),
        ([0, 2], 1, lambda: expected.reset(0)),
    ):
        with expected.when(bits, value):
            add()
    assert from_qasm(HEAD + text) == expected


def test_else_and_nested_conditions():
    circuit = from_qasm(
        HEAD + "bit[2] c; qubit q; if (c[0]) { if (c[1] == 0) { x q; } if (c[0] == 0) { y q; } } else z q;"
    )
    expected = U(1, 2)
    with expected.when([0, 1], 1):
        expected.x(0)
    with expected.when(0, 0):
        expected.z(0)
    assert circuit == expected


@pytest.mark.parametrize(
    "body, message",
    [
        ("input float a; qubit q; rx(a*a) q;", "only linear expressions of them can be angles"),
        ("input float a; qubit q; rx(sin(a)) q;", "only linear expressions"),
        ("input int n;", "parameters are float or angle, got 'int'"),
        ("qubit q; ctrl @ x q, q;", "qubits must differ"),
        ("qubit q; ctrl(2) @ x q;", "from 1 to 1 qubits, got 2"),
        ("qubit q; pow @ x q;", "'\\(' with the exponent is missing"),
        ("qubit q; ctrl x q;", "'@' is missing"),
        ("qubit q; inv(2) @ x q;", "inv takes no argument"),
        ("input float a; qubit q; pow(0.5) @ rx(a) q;", "bind it first"),
        ("gate g a { x a; h a; } qubit q; pow(0.5) @ g q;", "can only have whole powers"),
        ("qubit q; pow(1" + "0" * 350 + ") @ x q;", "does not fit in 64 bits"),
        ("while (true) {}", "more than 1000000 steps"),
        ("qubit q; for int i in [0:0:3] x q;", "step of a range must not be 0"),
        ("qubit q; for int i in [0] x q;", r"a range is \[start:end\]"),
        ("const qubit q;", "a type"),
        ("uint n = -1;", "a number of this type"),
        ("int n = 1.5;", "a number of this type"),
        ("let a = 3;", "only qubits or bits"),
        ("sxdg $0;", "unknown gate 'sxdg'"),
        ("qubit[2] q; x q[0:1:2:3];", "at most three"),
        ("for int i in [0:1] { gate g a { x a; } }", "outside of blocks"),
        ("qubit[2] q; h q[0]; x $0;", "physical qubit, and registers are declared"),
        ("x $0; qubit q; h q;", "'q' is a register, and physical qubits are used"),
        ("gate x a { h a; }", "gate 'x' is defined already"),
        ("gate U(a, b, c) q { h q; }", "'U' is defined already"),
        ("gate u2(a, b) q { h q; }", "'u2' is defined already"),
        ("gate mine a { h a; } gate mine a { x a; }", "gate 'mine' is defined already"),
        ("{" * 3, "is not closed"),
        ("}", "a statement cannot begin"),
        ("const int n = 3; n = 4;", "'n' is a constant and cannot be assigned to"),
        ("bit c; qubit q; while (c == 0) { break; }", "'break' cannot depend on measurements"),
        ("bit c; qubit q; int n; while (!c) { c = measure q; n += 1; }", "only bits can \\(declare it as bit"),
        ("bit c; def f() -> int { if (c) { return 1; } return 2; }  int n = f();", "'c' is not declared"),
        ("def f(bit c) -> int { if (c) { return 1; } return 2; } bit c; int n = f(c);", "'return' cannot depend"),
        ("def f(qubit[2] q) { } qubit q; f(q);", "'q' needs 2 qubits, got 1"),
        ("def f() { f(); } f();", "must not be nested more than 40 deep"),
        ("int n = f(2);", "'f' is not a function"),
        ("array[int, 2] a = {1, 2, 3};", "2 elements are needed, got 3"),
        ("array[int, 2] a; int b = a[2];", "the index of 'a' must be from 0 to 1, got 2"),
        ('bit[2] c; c = "011";', "2 bits are needed, got 3"),
        ("switch (1) { case 1 { } case 2, 1 { } }", "the case 1 occurs twice"),
        ("int n = 5; int m = ~n;", "whose number of bits is known"),
        ("bit c; qubit q; if (c) { end; }", "'end' cannot depend"),
        ("continue;", "'continue' is outside of a loop"),
        ("int[-3] n = 1;", "int: a type has from 1 to 1024 bits, got -3"),
        ("qubit q; switch (q) { case 1 { } }", "a whole number is needed"),
        ("def f(mutable array[int, #dim=1] a) { } array[int, 2, 2] b; f(b[0]);", "'a' needs a whole array"),
        ("bit[30] c; qubit q; rx(int(c)) q;", "depends on too many measured bits"),
        ("if (1) " * 200, "nested too deeply"),
    ],
)
def test_errors_have_a_place(body, message):
    with pytest.raises(QASMError, match=message) as caught:
        from_qasm(HEAD + body)
    assert caught.value.line >= 3


# -- written -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", sorted(CIRCUITS))
def test_circuits_come_back(name, version):
    circuit = circuit_of(CIRCUITS[name])
    back = from_qasm(circuit.to_qasm(version))
    assert equal(back, circuit, up_to_phase=version == 2, atol=1e-12)


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("name", gates.names())
def test_every_registered_gate_comes_back(name, version):
    gate = gates.find(name)
    params = np.random.default_rng(0).uniform(-3, 3, gate.num_params).tolist()
    for controls in (0, 1):
        n = gate.num_qubits + controls
        circuit = U(n).append(gate, range(controls, n), params, controls=range(controls))
        text = circuit.to_qasm(version)
        assert equal(from_qasm(text), circuit, up_to_phase=version == 2, atol=1e-12)


def test_parameters_are_written_exactly():
    circuit = (
        U(2)
        .rx("a", 0)
        .ry({"theta[0]": 1 / 3, "x.y": -1}, 1)
        .rz("-a + pi/4", 0)
        .fsim("a", "x.y", 0, 1)
        .crx("gate", 0, 1)
        .rv(0.1, 0.2, 0.3, 0)
    )
    text = circuit.to_qasm(3)
    assert (
        "input float theta_0;  // theta[0]" in text
        and "ry(0.3333333333333333*theta_0 - x_y) q[1];" in text
        and "rz(-a + pi/4) q[0];" in text
    )
    back = from_qasm(text).rename({"theta_0": "theta[0]", "x_y": "x.y", "gate_": "gate"})
    assert back.names == circuit.names and equal(back, circuit, up_to_phase=False, atol=1e-12)


def test_names_that_become_equal_stay_different():
    text = U(1).rx("a.b", 0).rx("a[b]", 0).rx("a_b", 0).to_qasm()
    assert len(set(from_qasm(text).parameters)) == 3


@pytest.mark.parametrize("version", [2, 3])
def test_dynamic_circuits_come_back(version):
    circuit = U(3, 5).h(0).barrier(0, 2).barrier().measure(0, 1).reset(2).measure([1, 2], [3, 4])
    for bits, value in (([0, 1], 2), ([3], 1), ([0, 1], 0)):
        with circuit.when(bits, value):
            circuit.x(0).cp(0.1, 0, 1).measure(1, 2)
    assert from_qasm(circuit.to_qasm(version)) == circuit


def test_what_version_2_cannot_say():
    circuit = U(1, 3)
    with circuit.when([0, 2], 1):
        circuit.x(0)
    assert from_qasm(circuit.to_qasm(3)) == circuit
    with pytest.raises(CircuitError, match="only has conditions on whole registers"):
        circuit.to_qasm(2)
    with pytest.raises(CircuitError, match="no parameters such as 'a'"):
        U(1).rx("a", 0).to_qasm(2)
    with pytest.raises(CircuitError, match="version must be 2 or 3"):
        U(1).to_qasm(1)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["rx", "p", "u", "cp", "rzz", "cu", "crz"]),
            st.lists(st.floats(-100, 100) | st.integers(-16, 16).map(lambda k: k * np.pi / 8), min_size=4, max_size=4),
            st.permutations(range(3)),
        ),
        max_size=8,
    )
)
@settings(max_examples=80, deadline=None)
def test_numbers_are_exact(steps):
    circuit = U(3)
    for name, params, wires in steps:
        controls, gate = resolve(name)
        circuit.append(name, wires[: gate.num_qubits + controls], params[: gate.num_params])
    for version in (2, 3):
        back = from_qasm(circuit.to_qasm(version))
        assert len(back) >= len(circuit)
        if not any(name == "rzz" for name, _, _ in steps):
            assert back == circuit


def test_gates_defined_before_the_library_has_them():
    text = 'OPENQASM 3; gate x a { U(0, 0, 0) a; } include "stdgates.inc"; qubit q; x q;'
    with pytest.raises(QASMError, match="line 1, column .*: gate 'x' is defined already"):
        from_qasm(text)
    assert from_qasm(text.replace('include "stdgates.inc";', "")).counts()["u"] == 1
