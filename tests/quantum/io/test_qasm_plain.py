"""Statements that are read without their tokens are what the reader makes of their tokens."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import quantum
from triskele.quantum.errors import QASMError
from triskele.quantum.io.qasm.plain import PlainGates

TWO = """OPENQASM 2.0;
include "qelib1.inc";
gate pair(a, b) x, y { rx(a/2) x; cx x, y; rz(a + b) y; u2(-b, pi/4) x; barrier x, y; }
gate thirds(a) x { rx(a/3) x; rz(a + pi/8 + pi/16) x; }
gate square(a) x { rz(a*a) x; }
gate outer(a) x, y { pair(2*a, pi/2) y, x; h x; pair(0.1, a) x, y; }
gate nothing x { }
opaque secret(a) x;
qreg q[3]; qreg r[2]; creg c[3]; creg d[2];
"""
THREE = """OPENQASM 3;
include "stdgates.inc";
input float t;
const float k = 0.3;
gate pair(a, b) x, y { U(a, b, a/2) x; cx x, y; u3(b, 0, a) y; ctrl @ u2(a, b) x, y; rz(k*a) x; }
gate looped(a) x { for uint i in [1:3] { rx(a*i) x; } }
qubit[3] q; qubit[2] r; bit[3] c; bit[2] d;
"""


def outcome(program):
    """The circuit, or the error with its place."""
    try:
        return quantum.Circuit.from_qasm(program)
    except QASMError as error:
        return str(error)


def assert_read_alike(program):
    found = outcome(program)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PlainGates, "read", lambda self, stream, builder: None)
        assert outcome(program) == found
    return found


ANGLES = ["0.25", "-1", "pi", "-pi/2", "3*pi/4", "0.1*pi", "-2.5e-1*pi*3", "pi/2 + 1", "2*(1 + pi)", "sin(0.3)/2",
          "cos(pi/3)*sqrt(2)", "1/2*pi", "1e400", "1e308", "pi/0", "7/2", "x", "1 // why\n + 2", ""]  # fmt: skip
GAPS = ["\n", "\n\n  ", " // h q[9];\n", "\n// one\n// two\n\t", " /* not; */ "]
STATEMENTS_2 = [
    "h q[{i}]{s};", "cx q[{i}]{s}, r[{j}];", "rx({a}) q[{i}];", "u({a},{b},0.5) {s} r[{j}];",
    "pair({a}, {b}) q[{i}],q[{k}];",
    "thirds({a}) q[{i}];", "outer({a}) q[{i}], r[{j}];", "nothing q[{i}];", "square({a}) q[0];", "secret(1) q[0];",
    "measure q[{i}]{s}-> c[{k}];", "measure r -> d;", "reset q[{i}];", "barrier q[{i}], q[{k}];", "barrier q;", "h q;",
    "if (d == 1) x q[{i}];", "measure q[{i}] -> d[{k}];", "nothing() q[{i}];", "h() q[{i}];",
    "rx q[{i}];", "id q[{k}];",
]  # fmt: skip
STATEMENTS_3 = [
    "h q[{i}];", "U({a}, {b}, 1) q[{i}];", "rx(t/2 + {a}) q[{k}];", "rx(k) q[{i}];", "pair({a}, {b}) q[{i}], r[{j}];",
    "pair(t, {b}) q[{i}], r[{j}];", "looped({a}) q[{i}];", "c[{i}] = measure{s} q[{k}];", "measure q[{i}] -> d[{j}];",
    "reset q[{i}];", "barrier r[0], r[1];", "ctrl @ x q[{i}], q[{k}];", "c = measure q;", "if (c[0]) {{ x q[{i}]; }}",
]  # fmt: skip


@st.composite
def programs(draw):
    head, statements = draw(st.sampled_from([(TWO, STATEMENTS_2), (THREE, STATEMENTS_3)]))
    text = head
    for _ in range(draw(st.integers(1, 8))):
        text += draw(st.sampled_from(statements)).format(
            i=draw(st.integers(0, 3)), j=draw(st.integers(0, 1)), k=draw(st.integers(0, 2)),
            a=draw(st.sampled_from(ANGLES)), b=draw(st.sampled_from(ANGLES[:6])), s=draw(st.sampled_from("\n ")),
        )  # fmt: skip
        text += draw(st.sampled_from(GAPS))
    return text


@settings(max_examples=150)
@given(programs())
def test_programs_are_read_alike(program):
    assert_read_alike(program)


@pytest.mark.parametrize("head, statements", [(TWO, STATEMENTS_2), (THREE, STATEMENTS_3)])
@pytest.mark.parametrize("angle", ANGLES)
def test_every_statement_is_read_alike(head, statements, angle):
    for statement in statements:
        assert_read_alike(head + statement.format(i=1, j=0, k=2, a=angle, b="pi/8", s=" ") + "\n")


def test_definitions_that_grow_without_bound_are_refused(monkeypatch):
    monkeypatch.setattr("triskele.quantum.io.qasm.statements._STEPS", 5000)
    lines = ["OPENQASM 2.0;", 'include "qelib1.inc";', "gate g0 a { h a; h a; }"]
    lines += [f"gate g{k} a {{ g{k - 1} a; g{k - 1} a; }}" for k in range(1, 6)]
    program = "\n".join([*lines, "qreg q[1];", *["g5 q[0];"] * 100])
    with pytest.raises(QASMError, match="more than 5000 steps") as error:
        quantum.Circuit.from_qasm(program)
    assert error.value.line > len(lines) + 1  # in the calls


def test_redefined_gates_are_those_of_their_time():
    program = TWO + "gate z x { h x; }\nz q[0];\ngate z x { s x; }\nz q[0];\n"
    assert assert_read_alike(program).counts() == {"h": 1, "s": 1}
