"""OpenQASM 3 as its specification has it, as other readers take it, and within limits."""

import inspect
import sys

import numpy as np
import pytest

from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum import gates
from triskele.quantum.errors import QASMError
from triskele.quantum.gates.standard import CONTROLLED, resolve

U = quantum.Circuit
HEAD = 'OPENQASM 3.0; include "stdgates.inc";\n'
from_qasm = U.from_qasm


def unitary(text):
    return twin.unitary(from_qasm(HEAD + text))


# -- the phases of the specification: language/gates (built-in gates) and examples/stdgates.inc


def built_in(t, f, l):
    i = 1j
    return 0.5 * np.array(
        [
            [1 + np.exp(i * t), -i * np.exp(i * l) * (1 - np.exp(i * t))],
            [i * np.exp(i * f) * (1 - np.exp(i * t)), np.exp(i * (f + l)) * (1 + np.exp(i * t))],
        ]
    )


def phased(t, f, l):
    return np.exp(-0.5j * (f + l + t)) * built_in(t, f, l)


@pytest.mark.parametrize(
    ("name", "matrix", "angles"),
    [
        ("U", built_in, (0.3, 0.7, -1.1)),
        ("U", built_in, (5.0, -2.0, 4.0)),
        ("u3", phased, (0.3, 0.7, -1.1)),
        ("u2", lambda f, l: phased(np.pi / 2, f, l), (0.7, -1.1)),
    ],
)
def test_phases_of_the_specification(name, matrix, angles):
    call = f"{name}({', '.join(map(str, angles))})"
    wanted = matrix(*angles)
    controlled = np.eye(4, dtype=complex)
    controlled[2:, 2:] = wanted  # the control, q[1], is the high bit
    np.testing.assert_allclose(unitary(f"qubit q; {call} q;"), wanted, atol=1e-14)
    np.testing.assert_allclose(unitary(f"qubit[2] q; ctrl @ {call} q[1], q[0];"), controlled, atol=1e-14)
    np.testing.assert_allclose(unitary(f"qubit[2] q; ctrl @ inv @ {call} q[1], q[0];"), controlled.conj().T, atol=1e-14)
    np.testing.assert_allclose(unitary(f"qubit q; pow(3) @ {call} q;"), np.linalg.matrix_power(wanted, 3), atol=1e-13)
    root = unitary(f"qubit q; pow(1/2) @ {call} q;")
    np.testing.assert_allclose(root @ root, wanted, atol=1e-13)


@pytest.mark.parametrize(
    ("gate", "ours"),
    [
        ("gate my(t) a { gphase(-t/2); U(t, 0, 0) a; }", U(2).cry(0.4, 1, 0)),
        ("gate my(t) a { gphase(-t/2); U(t, -pi/2, pi/2) a; }", U(2).crx(0.4, 1, 0)),
        ("gate my(t) a { U(0, 0, t) a; }", U(2).cp(0.4, 1, 0)),
        ("gate my(t) a { gphase(-pi/2); U(pi, 0, pi) a; }", U(2).cx(1, 0)),
    ],
)
def test_definitions_of_the_standard_file_give_its_gates(gate, ours):
    np.testing.assert_allclose(
        unitary(f"{gate} qubit[2] q; ctrl @ my(0.4) q[1], q[0];"), twin.unitary(ours), atol=1e-14
    )


def test_cu_of_the_standard_file():
    text = (
        "gate my(t, f, l, g) a, b { p(g - t/2) a; ctrl @ U(t, f, l) a, b; } qubit[2] q; my(0.1, 0.2, 0.3, 0.4) q[1], "
        "q[0];"
    )
    np.testing.assert_allclose(unitary(text), unitary("qubit[2] q; cu(0.1, 0.2, 0.3, 0.4) q[1], q[0];"), atol=1e-14)


# -- what is written


def examples():
    random = np.random.default_rng(5)
    for name in gates.names():
        gate = gates.find(name)
        if gate.num_qubits <= 4:
            for controls in (0, 1, 2):
                n = gate.num_qubits + controls
                yield (
                    f"{'c' * controls}{name}",
                    U(max(n, 1)).append(
                        gate,
                        list(range(controls, n)),
                        random.uniform(-3, 3, gate.num_params).tolist(),
                        controls=list(range(controls)),
                    ),
                )
    for name in CONTROLLED:
        number, gate = resolve(name)
        n = number + gate.num_qubits
        yield name, U(n).append(name, list(range(n)), random.uniform(-3, 3, gate.num_params).tolist())
    yield "unitary", U(3).unitary(twin.unitary(U(2).h(0).cx(0, 1).rx(0.3, 1)), [2, 0])
    yield "controlled unitary", U(2).unitary(twin.unitary(U(1).h(0).rx(0.3, 0)), 1, controls=0)
    yield "diagonal", U(2).diagonal([0.1, 0.2, 0.3, 0.4], [1, 0])
    yield "excitation", U(4).excitation(0.3, [0, 1], [2, 3])
    yield "rotation", U(4).pauli_rotation("XYZ", 0.3, [0, 2, 3], controls=1)
    yield "global phases", U(2).global_phase(0.3).append("global_phase", (), [0.4], controls=[1, 0])


EXAMPLES = list(examples())


@pytest.mark.parametrize(("name", "circuit"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_no_gate_is_written_that_readers_disagree_about(name, circuit):
    text = circuit.to_qasm(3)
    called = {line.split("(")[0].split()[0] for line in text.splitlines()[2:]}
    assert not called & {"U", "u2", "u3", "cu3"}
    assert "u" not in called or "gate u(" in text
    np.testing.assert_allclose(twin.unitary(from_qasm(text)), twin.unitary(circuit), atol=1e-12)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore:.*annotated:DeprecationWarning")  # between Qiskit and its reader
@pytest.mark.parametrize(("name", "circuit"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_qiskit_reads_every_gate(name, circuit):
    qasm3 = pytest.importorskip("qiskit_qasm3_import")
    from qiskit.quantum_info import Operator

    np.testing.assert_allclose(Operator(qasm3.parse(circuit.to_qasm(3))).data, twin.unitary(circuit), atol=1e-10)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore:.*annotated:DeprecationWarning")
def test_qiskit_reads_parameters_and_conditions():
    qasm3 = pytest.importorskip("qiskit_qasm3_import")
    from qiskit.quantum_info import Operator

    circuit = U(2).u("b", "a", "x", 0)
    circuit.crx({"a": 2, "theta[0]": -0.5}, 0, 1).rz("t", 1).global_phase("a")
    theirs = qasm3.parse(circuit.to_qasm(3))
    values = dict(zip(circuit.parameters, (0.3, -0.8, 1.1, 0.2, 2.1), strict=False))
    renamed = {"theta[0]": "theta_0", "x": "x_", "t": "t_"}
    bound = theirs.assign_parameters({renamed.get(n, n): v for n, v in values.items()})
    np.testing.assert_allclose(Operator(bound).data, twin.unitary(circuit, values), atol=1e-12)

    circuit = U(2, 3).h(0).measure(0, 0).measure(1, 2)
    with circuit.when([0, 2], 0b10):
        circuit.x(1).u(0.1, 0.2, 0.3, 0).global_phase(0.1).measure(1, 1).reset(0)
    with circuit.when(1, 0):
        circuit.crz(0.3, 0, 1).barrier()
    theirs = qasm3.parse(circuit.to_qasm(3))
    back = U.from_qiskit(theirs)
    conditions = {
        frozenset((c, i.condition.value >> k & 1) for k, c in enumerate(i.condition.clbits))
        for i in back
        if i.condition
    }
    assert conditions == {frozenset({(0, 0), (2, 1)}), frozenset({(1, 0)})}
    for seed in range(3):
        ours, other = (
            quantum.run(c, simulator="density_matrix", shots=4000, seed=seed).counts() for c in (circuit, back)
        )
        assert ours == other


def test_circuits_with_conditions_come_back():
    circuit = U(2, 4).measure(0, 0)
    with circuit.when([3, 0, 1], 0b011):
        circuit.x(1).measure(1, 3)
    with circuit.when(2):
        circuit.rx("a", 0)
    assert from_qasm(circuit.to_qasm(3)) == circuit


# -- the order of parameters


def test_parameters_come_in_the_order_of_their_declaration():
    circuit = from_qasm(
        HEAD + "input float c; input float a; input float unused; input float b; qubit q; rx(a) q; ry(b + c) q;"
    )
    assert circuit.parameters == ("c", "a", "b")


# -- limits


BOMBS = {
    "loop": "qubit q; for int i in [0:1000000000000] { x q; }",
    "empty loop": "qubit q; for int i in [0:1000000000000] { }",
    "loops in loops": "qubit q; for int i in [0:10000] { for int j in [0:10000] { for int k in [0:10000] { x q; } } }",
    "doublings": "gate d0 a { x a; } "
    + "".join(f"gate d{k} a {{ d{k - 1} a; d{k - 1} a; }} " for k in range(1, 40))
    + "qubit q; d39 q;",
    "empty doublings": "gate d0 a { } "
    + "".join(f"gate d{k} a {{ d{k - 1} a; d{k - 1} a; }} " for k in range(1, 40))
    + "qubit q; d39 q;",
    "powers": "qubit q; pow(1000000000000) @ x q;",
    "powers of powers": "qubit q; " + "pow(1000) @ " * 5 + "x q;",
    "nested definitions": "gate d0 a { x a; } "
    + "".join(f"gate d{k} a {{ d{k - 1} a; }} " for k in range(1, 500))
    + "qubit q; d499 q;",
    "nested modifiers": "qubit q; " + "inv @ " * 3000 + "x q;",
    "aliases": "qubit[2] q; let a0 = q; " + "".join(f"let a{k} = a{k - 1} ++ a{k - 1}; " for k in range(1, 60)),
    "blocks": "qubit q; " + "if (true) { " * 2000 + "x q;" + " }" * 2000,
    "else": "bit c; qubit q; " + "if (c) { x q; } else " * 2000 + "x q;",
    "parentheses": "qubit q; rx(" + "(" * 3000 + "1" + ")" * 3000 + ") q;",
    "powers in expressions": "qubit q; rx(" + "1 ** " * 3000 + "1) q;",
    "long number": "qubit q; rx(" + "9" * 399 + ") q;",
    "registers": "qubit[1000000000] q;",
    "qubits": "x $100000000;",
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_end_with_an_error_that_says_where(name, monkeypatch):
    monkeypatch.setattr("triskele.quantum.io.qasm.statements._STEPS", 50_000)
    with pytest.raises(QASMError, match="line 2, column"):
        from_qasm(HEAD + BOMBS[name])


def test_long_expressions_are_no_deep_ones():
    assert from_qasm(HEAD + "qubit q; rx(" + "0.001 + " * 5000 + "0) q;").instructions[0].params[0] == pytest.approx(
        5.0
    )
    assert from_qasm(HEAD + "qubit q; rx(" + "-" * 5000 + "1) q;").instructions[0].params[0] == 1.0
    assert from_qasm(HEAD + "input float a; qubit q; rx(" + "a - " * 3000 + "a) q;").instructions[0].params[
        0
    ].terms == (("a", -2999.0),)


def test_powers_of_nothing_are_nothing():
    assert len(from_qasm(HEAD + "gate d a { } qubit q; pow(1e300) @ d q; pow(0.5) @ d q;")) == 0


def test_a_stack_that_is_used_up_is_said():
    """Hypothesis and other libraries raise the limit, so that the test sets its own."""
    program = HEAD + "qubit q; rx(" + "(" * 50 + "1" + ")" * 50 + ") q;"
    assert from_qasm(program).instructions[0].params[0] == 1.0
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 120)
    try:
        with pytest.raises(QASMError, match="nested too deeply"):
            from_qasm(program)
    finally:
        sys.setrecursionlimit(limit)
