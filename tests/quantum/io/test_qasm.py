"""OpenQASM 2 read: the language, gates of qelib1, definitions, errors with line and column."""

import gzip
import json
import pathlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum.errors import QASMError
from triskele.quantum.gates.instruction import Condition
from triskele.quantum.io.qasm.reader import from_qasm

DATA = pathlib.Path(__file__).parents[2] / "data" / "quantum"
CIRCUITS = {c["name"]: c for c in json.loads(gzip.open(DATA / "circuits" / "circuits.json.gz").read()) if c["qasm"]}
HEAD = 'OPENQASM 2.0;\ninclude "qelib1.inc";\n'


def unitary_of(body, n=1):
    return twin.unitary(from_qasm(f"{HEAD}qreg q[{n}];\n{body}"))


@pytest.mark.parametrize("name", sorted(CIRCUITS))
def test_circuits_of_other_programs(name):
    state = np.load(DATA / "circuits" / "states.npz")[name]
    mine = twin.statevector(from_qasm(CIRCUITS[name]["qasm"]))
    phase = np.vdot(mine, state)  # OpenQASM 2 has no global phase
    assert np.abs(mine * phase - state).max() < 1e-12 and abs(abs(phase) - 1) < 1e-12


@pytest.mark.parametrize(
    "gate, same",
    [
        ("u3(0.1,0.2,0.3) q[0];", "u(0.1,0.2,0.3) q[0];"),
        ("U(0.1,0.2,0.3) q[0];", "u(0.1,0.2,0.3) q[0];"),
        ("CX q[0],q[1];", "cx q[0],q[1];"),
        ("u1(0.7) q[0];", "p(0.7) q[0];"),
        ("cu1(0.7) q[0],q[1];", "cp(0.7) q[0],q[1];"),
        ("u0(3) q[0];", "id q[0];"),
        ("c3sqrtx q[0],q[1],q[2],q[3]; c3sqrtx q[0],q[1],q[2],q[3];", "c3x q[0],q[1],q[2],q[3];"),
        ("cu(0.1,0.2,0.3,0.4) q[0],q[1];", "p(0.4) q[0]; cu3(0.1,0.2,0.3) q[0],q[1];"),
        ("h q;", "h q[0]; h q[1]; h q[2]; h q[3];"),
        ("u2(0.3,0.4) q[1];", "u(pi/2,0.3,0.4) q[1];"),
        (
            "c4x q[0],q[1],q[2],q[3],r[0];",
            "h r[0]; ccx q[0],q[1],r[0]; ccx q[0],q[1],r[0]; h r; c4x q[3],q[2],q[1],q[0],r[0];",
        ),
    ],
)
def test_gates_of_the_library(gate, same):
    both = [twin.unitary(from_qasm(f"{HEAD}qreg q[4]; qreg r[1]; {body}")) for body in (gate, same)]
    np.testing.assert_allclose(*both, atol=1e-14)


@pytest.mark.parametrize(
    "text, value",
    [
        ("pi/2", np.pi / 2),
        ("-pi", -np.pi),
        ("2^3^0.5", 2**3**0.5),
        ("-2^2", -4),
        ("(1+2)*3/4", 2.25),
        ("1-2-3", -4),
        ("sin(pi/6)", 0.5),
        ("--1", 1),
        ("ln(exp(2.5))", 2.5),
        ("sqrt(2)*cos(0)", 2**0.5),
        ("tan(0.3)", np.tan(0.3)),
        ("1e-3", 1e-3),
        (".5", 0.5),
        ("3.", 3.0),
        ("7/2", 3.5),
        ("+4", 4),
    ],
)
def test_expressions(text, value):
    (instruction,) = from_qasm(f"{HEAD}qreg q[1]; rz({text}) q[0];")
    assert instruction.params[0] == pytest.approx(value, rel=1e-15)


def test_registers_are_numbered_in_order():
    circuit = from_qasm(HEAD + "qreg a[2]; creg c[1]; qreg b[3]; creg d[2]; cx a, b[2]; measure b[1] -> d[1]; x b;")
    assert (circuit.num_qubits, circuit.num_clbits) == (5, 3)
    assert circuit == quantum.Circuit(5, 3).cx(0, 4).cx(1, 4).measure(3, 2).x(2).x(3).x(4)


def test_definitions_are_expanded():
    text = """
    gate pair(t, s) a, b { rx(t/2) a; cx a, b; barrier a, b; rz(-s*t) b; }
    gate twice(t) b, a { pair(t, 2) a, b; pair(2*t, -t+1) b, a; }
    gate nothing a { }
    qreg q[3]; nothing q; twice(0.4) q[2], q[0];
    """
    pair = lambda c, t, s, a, b: c.rx(t / 2, a).cx(a, b).barrier(a, b).rz(-s * t, b)
    expected = pair(pair(quantum.Circuit(3), 0.4, 2, 0, 2), 0.8, 0.6, 2, 0)
    assert from_qasm(HEAD + text) == expected


def test_own_definition_goes_before_the_library():
    assert from_qasm(HEAD + "gate h a { x a; } qreg q[1]; h q[0];") == quantum.Circuit(1).x(0)


def test_measurement_reset_and_conditions():
    text = (
        "qreg q[2]; creg a[1]; creg c[3]; h q[0]; measure q[0] -> c[2]; if (c == 4) x q[1]; if(a==0) measure "
        "q[1]->c[0]; reset q; measure q[0] -> a[0];"
    )
    circuit = from_qasm(HEAD + text)
    expected = quantum.Circuit(2, 4).h(0).measure(0, 3)
    with expected.when([1, 2, 3], 4):
        expected.x(1)
    with expected.when(0, 0):
        expected.measure(1, 1)
    assert circuit == expected.reset(0, 1).measure(0, 0)
    assert circuit.instructions[2].condition == Condition((1, 2, 3), 4)


def test_condition_on_a_value_that_the_bits_cannot_have_is_never_fulfilled():
    assert len(from_qasm(HEAD + "qreg q[1]; creg c[2]; if (c == 4) x q[0];")) == 0


def test_comments_and_spaces():
    text = '// first\nOPENQASM 2.0;/* a\n * b */ include\t"qelib1.inc" ;qreg q [ 1 ] ;\r\n  x q\n[0];// last'
    assert from_qasm(text) == quantum.Circuit(1).x(0)


def test_files(tmp_path):
    (tmp_path / "gates.inc").write_text("gate flip a { x a; }\n")
    (tmp_path / "program.qasm").write_text(HEAD + 'include "gates.inc"; qreg q[2]; flip q[1];')
    assert from_qasm(tmp_path / "program.qasm") == from_qasm(str(tmp_path / "program.qasm")) == quantum.Circuit(2).x(1)
    (tmp_path / "loop.qasm").write_text('include "loop.qasm";')
    with pytest.raises(QASMError, match="includes itself"):
        from_qasm(tmp_path / "loop.qasm")
    with pytest.raises(QASMError, match=r"line 1, column 9: include: file 'gates.inc' not found \(known: qelib1.inc"):
        from_qasm('include "gates.inc";')  # a text has no folder
    with pytest.raises(FileNotFoundError):
        from_qasm(tmp_path / "none.qasm")


@pytest.mark.parametrize(
    "body, message",
    [
        ("hh q[0];", r"line 4, column 1: unknown gate 'hh' \(did you mean .*h"),
        ("h q[2];", "line 4, column 3: the index of 'q' must be from 0 to 1, got 2"),
        ("h r[0];", "line 4, column 3: 'r' is not declared"),
        ("cx q[0], q[0];", "line 4, column 1: cx: qubits must differ"),
        ("cx q[0];", "cx acts on 2 qubits, got 1"),
        ("rx q[0];", "rx has 1 parameters, got 0"),
        ("h(0.1) q[0];", "h has 0 parameters, got 1"),
        ("h q[0]", "line 4, column 7: h: ';' is missing before the end of the text"),
        ("h q[0]\nx q[1];", "line 5, column 1: h: ';' is missing before 'x'"),
        ("rx(1/0) q[0];", r"line 4, column 5: '/' of 1, 0 does not exist"),
        ("rx(ln(-1)) q[0];", "'ln' of -1 does not exist"),
        ("rx(10^400) q[0];", "does not exist"),
        ("rx(1e999) q[0];", "does not fit in 64 bits"),
        ("rx((-8)^(1/3)) q[0];", "not a finite real number"),
        ("rx(a) q[0];", "'a' is not declared"),
        ("rx(q) q[0];", "parameters must be numbers"),
        ("rx(1,) q[0];", "a number, a name or"),
        ("rx(1 q[0];", r"'\)' is missing"),
        ("rx(sin(1,2)) q[0];", "sin has 1 argument, got 2"),
        ("rx(" + "(" * 300 + "1", "nested too deeply"),
        ("qreg q[1];", "line 4, column 6: 'q' is already declared"),
        ("qreg r[0];", "at least 1 element"),
        ("qreg r;", r"a size such as r\[2\]"),
        ("qreg r[99999999];", "1000000 qubits"),
        ("qreg gate[2];", "reserved word"),
        ("qreg r[1.5];", "a whole number is needed, got 1.5"),
        ("measure q -> d;", "the numbers of bits and qubits must be equal, got 1 and 2"),
        ("measure q[0];", "'->' and a bit are missing"),
        ("measure q[0] -> q[1];", "the result must be assigned to a bit"),
        ("if (d = 1) x q[0];", r"if: '\)' is missing before '='"),
        ("if (q == 1) x q[0];", "needs numbers"),
        ("if d == 1 x q[0];", r"'\(' is missing"),
        ("if (2) x q[0];", "a condition is needed"),
        ("gate g a, a { x a; }", "'a' occurs twice"),
        ("gate g a { x b; } g q[0];", "'b' is not declared"),
        ("gate g a { g a; }", "unknown gate 'g'"),
        ("gate g a { x a; ", "is not closed"),
        ("gate g a { measure a -> d; }", "'measure' cannot be in the body"),
        ("gate g a x a;", "'{' is missing before 'x'"),
        ("gate g a { x a[0]; } g q[0];", "is not a register"),
        ("gate g a { x q[0]; } g q[0];", "'q' is not declared"),
        ("opaque g a; g q[0];", "'g' is opaque"),
        ("cx q, r3;", "'r3' is not declared"),
        (
            "qreg r[3]; cx q, r;",
            r"registers must have the "
            r"same size, got \[2, "
            r"3\]",
        ),
        ("barrier q, q[0];", "barrier: qubits must differ"),
        ("x q[0]; }", "a statement cannot begin with '}'"),
        ("include qelib1;", "in quotation marks is missing"),
        ("# x", "line 4, column 1: unexpected character '#'"),
        ('include "a', "a quotation mark is missing"),
        ("/* x", "line 4, column 1: this comment is not closed"),
        ("while (d) x q[0];", "unknown gate 'while'"),
    ],
)
def test_errors_have_a_place(body, message):
    with pytest.raises(QASMError, match=message):
        from_qasm(f"{HEAD}qreg q[2]; creg d[1];\n{body}")


@pytest.mark.parametrize(
    "text, message",
    [
        ("OPENQASM 4.0;", "line 1, column 10: OPENQASM must be followed by version 2.0 or 3.0"),
        ("qreg q[1]; h q[0];", 'include "qelib1.inc"; is missing'),
        ("OPENQASM 2.0", "';' is missing"),
        (HEAD + "qubit q;", "unknown gate 'qubit'"),
    ],
)
def test_errors_of_the_header(text, message):
    with pytest.raises(QASMError, match=message):
        from_qasm(text)


def test_definitions_of_definitions_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("triskele.quantum.io.qasm.statements._STEPS", 5000)
    text = "gate g0 a { }\n" + "".join(f"gate g{k + 1} a {{ g{k} a; g{k} a; }}\n" for k in range(60))
    with pytest.raises(QASMError, match="more than 5000 steps"):
        from_qasm(HEAD + text + "qreg q[1]; g60 q[0];")


WORDS = st.sampled_from(
    'OPENQASM 2.0 3.0 ; include "qelib1.inc" "stdgates.inc" qreg creg q c r [ ] ( ) { } , 0 1 2 3 -1 pi + - * / ^ ** '
    "== && ! -> = : @ h cx rx u3 gate "
    "g a b measure reset barrier if else for in int float input const let qubit bit ctrl inv pow negctrl gphase sin "
    "opaque // /* */ \n $0 0.5 1e9 true".split(" ")
)


@given(st.one_of(st.text(), st.lists(WORDS, max_size=40).map(" ".join)))
@example("OPENQASM 3.0; qubit q; ctrl(0) @ gphase(1) q;")
@example("if(")
@example('OPENQASM 3; include "stdgates.inc"; qubit q; pow(1e300) @ x q;')
@example('OPENQASM 3; include "stdgates.inc"; qubit q; for int i in [0:100000000000] {}')
@settings(max_examples=400, deadline=None)
def test_any_text_is_read_or_refused_with_a_place(text):
    try:
        circuit = from_qasm(text + "\n")
        assert isinstance(circuit, quantum.Circuit)
    except QASMError as error:
        assert error.line >= 1 and error.column >= 1


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_programs_are_refused_with_a_place(data):
    """A character or word of a right program is removed, doubled or replaced."""
    text = data.draw(st.sampled_from([CIRCUITS["all_2q_gates_4"]["qasm"], PROGRAM_2, PROGRAM_3]))
    for _ in range(data.draw(st.integers(1, 3))):
        at, length = data.draw(st.integers(0, len(text) - 1)), data.draw(st.integers(0, 5))
        text = text[:at] + data.draw(st.one_of(WORDS, st.text(max_size=2), st.just(""))) + text[at + length :]
    try:
        from_qasm(text + "\n")
    except QASMError as error:
        assert 1 <= error.line <= text.count("\n") + 2


PROGRAM_2 = (
    HEAD
    + "gate g(t) a, b { rx(t/2) a; cx a, b; }\nqreg q[3]; creg c[3];\ng(-pi^2) q[0], q[2];\nif (c == 2) h q;\nbarrier "
    "q;\nmeasure q -> c;\nreset q[1];\n"
)
PROGRAM_3 = """OPENQASM 3.0;
include "stdgates.inc";
input float t;
const int n = 3;
qubit[n] q; bit[n] c;
gate g(s) a, b { ctrl @ rx(s / 2) a, b; for int k in [0:1] { rz(k) a; } }
for uint i in [0:n - 2] { g(2 * t) q[i], q[i + 1]; inv @ pow(0.5) @ x q[i]; }
c[0] = measure q[0];
if (c[0] == 1 && !c[1]) { x q[1]; } else { }
let r = q[0:1] ++ q[2]; reset r;
"""


@pytest.mark.parametrize(
    "name",
    [
        "in",
        "input",
        "output",
        "box",
        "bit",
        "angle",
        "delay",
        "for",
        "int",
        "tau",
        "qubit",
        "const",
        "let",
        "ctrl",
        "true",
        "else",
    ],
)
def test_words_of_version_3_are_names_in_version_2(name):
    body = f"qreg {name}[2]; creg c[2]; h {name}[0]; /* slowly */ rx(0.5) {name}[1]; measure {name} -> c;"
    expected = quantum.Circuit(2).h(0).rx(0.5, 1).measure_all()
    assert from_qasm(f'OPENQASM 2.0; include "qelib1.inc"; {body}') == expected
    gate = f"gate {name}(a) q {{ rx(a) q; }} qreg r[1]; {name}(0.5) r[0]; {name}(1/2) r;"
    assert from_qasm(f'OPENQASM 2.0; include "qelib1.inc"; {gate}') == quantum.Circuit(1).rx(0.5, 0).rx(0.5, 0)


def test_delays_wait():
    text = 'OPENQASM 2.0; include "qelib1.inc"; opaque delay(t) q; qreg q[1]; h q[0]; delay(100) q[0]; x q[0];'
    assert from_qasm(text) == quantum.Circuit(1).h(0).x(0)


PLAIN = ("h q[0];", "cx q[0],q[2];", " cx\tq[1] , r[0] ;", "rz(0.25) r[1];", "rz ( -pi/4 ) q[0];",
         "rz(3*pi/8+1/2)q[1];", "u3(.5, -1.e-3,2)\nq[2];", "u2(pi,-pi) q[1];", "ccx q[0],q[1],r[1];", "U(0,0,pi) r[0];",
         "CX q[0],r[0];", "h q;", "barrier q;", "mine(0.5) q[0];", "rz(sin(pi/4)) q[0];", "rz(2^3) q[0];",
         "x q[0]; // x q[1];", "measure q -> c;")  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_plain_gates_are_read_as_all_others_are(seed):
    """Comments in statements keep them from being read as a whole."""
    random = np.random.default_rng(seed)
    head = 'OPENQASM 2.0;\ninclude "qelib1.inc";\ngate mine(a) q { rx(a) q; }\nqreg q[3]; qreg r[2]; creg c[3];\n'
    text = head + "\n".join(random.choice(PLAIN, 30))
    assert from_qasm(text) == from_qasm(text.replace(";", "/* */;"))


@pytest.mark.parametrize(
    "bad",
    [
        "h q[3];",
        "cx q[0],q[0];",
        "cx q[0];",
        "rz q[0];",
        "rz(1,2) q[0];",
        "h r[0];",
        "h c[0];",
        "rz(pi/0) q[0];",
        "rz(1e999) q[0];",
        "rz(a) q[0];",
        "rz() q[0];",
        "rz(1 2) q[0];",
        "rz(pi +) q[0];",
        "hh q[0];",
        "h q[0] q[1];",
        "h q[0],;",
        "rz(1.2.3) q[0];",
        "h q[0]",
    ],
)
def test_mistakes_in_plain_gates_have_their_place(bad):
    text = 'OPENQASM 2.0;\ninclude "qelib1.inc";\nqreg q[3]; creg c[3];\nx q[0]; x q[1];\n\n  x q[0]; ' + bad
    with pytest.raises(QASMError) as quick:
        from_qasm(text)
    with pytest.raises(QASMError) as slow:
        from_qasm(text.replace("x q[0];", "x q[0]; /**/"))
    assert quick.value.line == slow.value.line >= 6
    assert str(quick.value).split(": ", 1)[1] == str(slow.value).split(": ", 1)[1]
