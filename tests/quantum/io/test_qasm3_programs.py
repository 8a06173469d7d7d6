"""OpenQASM 3 programs with variables, loops and subroutines, carried out by another interpreter and by ours."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from triskele import quantum
from triskele.quantum import noise
from triskele.quantum.errors import ChannelError, QASMError, SimulatorError

U = quantum.Circuit
HEAD = 'OPENQASM 3.0; include "stdgates.inc";\n'
EXAMPLES = Path(__file__).parents[2] / "data" / "quantum" / "openqasm"


def read(text):
    return U.from_qasm(HEAD + text)


def bits(text, shots=200):
    """What the classical bits of a program are at its end, where that is certain."""
    (found,) = quantum.run(read(text), shots=shots, seed=1).counts()
    return found


# -- random programs, whose statements and expressions are pairs of OpenQASM and Python ------------------------------

NUMBERS = st.recursive(
    st.sampled_from(
        [
            ("0", "0"),
            ("1", "1"),
            ("3", "3"),
            ("int[16](k)", "k"),  # wide enough for all that is made of it
            ("int[16](uint[2](c))", "(c[0] + 2 * c[1])"),
        ]
    ),
    lambda inner: st.builds(
        lambda a, b, sign: (f"({a[0]} {sign} {b[0]})", f"({a[1]} {sign} {b[1]})"),
        inner,
        inner,
        st.sampled_from("+*&|^"),
    ),
    max_leaves=4,
)
CONDITIONS = st.recursive(
    st.sampled_from([("c[0]", "c[0]"), ("!c[1]", "not c[1]"), ("c == 2", "c == [0, 1]"), ("k[0]", "k & 1")])
    | st.builds(
        lambda a, b, sign: (f"{a[0]} {sign} {b[0]}", f"{a[1]} {sign} {b[1]}"),
        NUMBERS,
        NUMBERS,
        st.sampled_from(["==", "!=", "<", ">="]),
    ),
    lambda inner: st.builds(
        lambda a, b, sign: (f"({a[0]}) {sign[0]} ({b[0]})", f"({a[1]}) {sign[1]} ({b[1]})"),
        inner,
        inner,
        st.sampled_from([("&&", "and"), ("||", "or")]),
    ),
    max_leaves=3,
)
QUBIT = st.integers(0, 1)


def lines(python):
    return ["    " + line for line in python] or ["    pass"]


def joined(body):
    return " ".join(qasm for qasm, _ in body), [line for _, python in body for line in python]


def branch(condition, then, otherwise):
    (a, first), (b, second) = joined(then), joined(otherwise)
    return (
        f"if ({condition[0]}) {{ {a} }} else {{ {b} }}",
        [f"if {condition[1]}:", *lines(first), "else:", *lines(second)],
    )


def loop(number, body):
    text, python = joined(body)
    return (
        f"for uint i in [1:{number[0]}] {{ if (i == 3) break; {text} }}",
        [f"for i in range(1, {number[1]} + 1):", "    if i == 3:", "        break", *lines(python)],
    )


def until(condition, body):
    """It ends with an even chance in each round; what is in it must not assign to k."""
    text, python = joined(body)
    return (
        f"reset q[0]; while (({condition[0]}) && c[0]) {{ {text} reset q[0]; h q[0]; c[0] = measure q[0]; }}",
        [
            "x(0) if measure(0) else None",
            f"while ({condition[1]}) and c[0]:",
            *lines([*python, "x(0) if measure(0) else None", "h(0)", "c[0] = measure(0)"]),
        ],
    )


def switch(number, cases):
    text, python = "", ["value = " + number[1]]
    for k, body in enumerate(cases):
        inner, code = joined(body)
        text += (f"case {k}, {k + 2} " if k < len(cases) - 1 else "default ") + f"{{ {inner} }} "
        test = f"{'el' * (k > 0)}if value in ({k}, {k + 2}):" if k < len(cases) - 1 else "else:"
        python += [test if len(cases) > 1 else "if True:", *lines(code)]
    return f"switch ({number[0]}) {{ {text}}}", python


OUTSIDE_OF_K = st.one_of(
    st.builds(lambda q: (f"h q[{q}];", [f"h({q})"]), QUBIT),
    st.builds(lambda q, n: (f"rx(0.7 * {n[0]}) q[{q}];", [f"rx(0.7 * {n[1]}, {q})"]), QUBIT, NUMBERS),
    st.builds(lambda q, b: (f"c[{b}] = measure q[{q}];", [f"c[{b}] = measure({q})"]), QUBIT, QUBIT),
    st.builds(lambda b, x: (f"c[{b}] = {x[0]};", [f"c[{b}] = int(bool({x[1]}))"]), QUBIT, CONDITIONS),
    st.sampled_from(
        [
            ("c = ~c;", ["c[0], c[1] = 1 - c[0], 1 - c[1]"]),
            ("c <<= 1;", ["c[0], c[1] = 0, c[0]"]),
            ("c = rotl(c, 1);", ["c[0], c[1] = c[1], c[0]"]),
            ("swap_bits(q);", ["cx(0, 1)", "cx(1, 0)", "cx(0, 1)"]),
            ("c[0] ^= parity(q);", ["cx(0, 1)", "c[0] ^= measure(1)"]),
            ("reset q[1];", ["x(1) if measure(1) else None"]),
        ]
    ),
)
STATEMENTS = st.recursive(
    OUTSIDE_OF_K
    | st.builds(lambda n: (f"k = {n[0]};", [f"k = {n[1]} & 7"]), NUMBERS)
    | st.builds(lambda n: (f"k += {n[0]};", [f"k = k + {n[1]} & 7"]), NUMBERS),
    lambda inner: st.one_of(
        st.builds(branch, CONDITIONS, st.lists(inner, max_size=3), st.lists(inner, max_size=2)),
        st.builds(loop, NUMBERS, st.lists(inner, max_size=2)),
        st.builds(switch, NUMBERS, st.lists(st.lists(inner, max_size=2), min_size=1, max_size=3)),
        st.builds(until, CONDITIONS, st.lists(OUTSIDE_OF_K, max_size=3)),
    ),
    max_leaves=8,
)
DEFINITIONS = (
    "def swap_bits(qubit[2] p) { cx p[0], p[1]; cx p[1], p[0]; cx p[0], p[1]; } "
    "def parity(qubit[2] p) -> bit { cx p[0], p[1]; return measure p[1]; } "
)
LEAST = 1e-6  # probability of outcomes that are left out


HADAMARD, FLIP = np.array([[1, 1], [1, -1]]) / math.sqrt(2), np.array([[0, 1], [1, 0]])


def turn(t):
    return np.array([[math.cos(t / 2), -1j * math.sin(t / 2)], [-1j * math.sin(t / 2), math.cos(t / 2)]])


class Twin:
    """Carries out a program for one list of outcomes; what they are not enough for is 0, and noted."""

    def __init__(self, outcomes):
        self.state, self.outcomes, self.probability, self.alternatives = np.eye(4)[0] + 0j, outcomes, 1.0, []
        self.count = 0

    def apply(self, matrix, q):
        self.state = (np.kron(matrix, np.eye(2)) if q else np.kron(np.eye(2), matrix)) @ self.state

    def measure(self, q):
        one = np.array([k >> q & 1 for k in range(4)], bool)
        weight = float(np.sum(np.abs(self.state[one]) ** 2))
        if self.count == len(self.outcomes):
            self.alternatives.append([*self.outcomes, 1])
            self.outcomes = [*self.outcomes, 0]
        outcome = self.outcomes[self.count]
        self.count += 1
        weight = weight if outcome else 1 - weight
        self.probability *= weight
        if self.probability < LEAST:
            raise StopIteration
        self.state = np.where(one == bool(outcome), self.state, 0) / np.sqrt(weight)
        return outcome


def distribution(python):
    """Probabilities of (c, k, qubits) at the end, by all lists of outcomes."""
    source = "\n".join(["def program(h, x, rx, cx, measure):", *lines(["c, k = [0, 0], 0", *python, "return c, k"])])
    names: dict = {}
    exec(source, names)
    found, waiting, paths = np.zeros(128), [[]], 0
    while waiting:
        assume((paths := paths + 1) < 3000)
        twin = Twin(waiting.pop())

        def cx(a, b, twin=twin):
            order = [k ^ ((k >> a & 1) << b) for k in range(4)]
            twin.state = twin.state[order]

        try:
            c, k = names["program"](
                lambda q, twin=twin: twin.apply(HADAMARD, q),
                lambda q, twin=twin: twin.apply(FLIP, q),
                lambda t, q, twin=twin: twin.apply(turn(t), q),
                cx,
                twin.measure,
            )
            for state, weight in enumerate(np.abs(twin.state) ** 2):
                found[c[0] | c[1] << 1 | k << 2 | state << 5] += twin.probability * weight
        except StopIteration:
            pass
        waiting += twin.alternatives
    assume(found.sum() > 0.999)
    return found


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.lists(STATEMENTS, min_size=1, max_size=5))
def test_random_programs(program):
    qasm, python = joined(program)
    text = f"{DEFINITIONS} qubit[2] q; bit[2] c; uint[3] k; {qasm} bit[3] number = k; bit[2] last = measure q;"
    try:
        check(text, distribution(python))
    except QASMError as error:  # k may depend on any number of bits
        assume("too many measured bits" not in str(error))
        raise


def check(text, wanted, shots=2000):
    circuit = read(text)
    for ours in (circuit, read(circuit.to_qasm(3).split("\n", 2)[2])):
        counts = np.zeros(len(wanted))
        for outcome, count in quantum.run(ours, shots=shots, seed=3).counts().items():
            counts[int(outcome, 2) % len(wanted)] += count
        possible = wanted > 1e-9
        assert counts[~possible].sum() <= shots * 10 * (1 - wanted.sum()), text
        expected = shots * wanted[possible] / wanted.sum()
        large = expected > 5
        observed = np.append(counts[possible][large], counts.sum() - counts[possible][large].sum())
        expected = np.append(expected[large], shots - expected[large].sum())
        keep = expected > 1e-6
        if keep.sum() > 1:
            expected = expected[keep] * observed[keep].sum() / expected[keep].sum()
            assert stats.chisquare(observed[keep], expected).pvalue > 1e-9, text


# -- the language's own description, and its examples ----------------------------------------------------------------


@pytest.mark.parametrize(
    "declared, expression, value",
    [  # language/classical.rst of the specification
        ('bit[8] a = "10001111";', "a << 1", 0b00011110),
        ('bit[8] a = "10001111";', "rotl(a, 2)", 0b00111110),
        ('bit[8] a = "10001111"; bit[8] b = "01110000";', "a | b", 0b11111111),
        ('bit[8] a = "10001111"; bit[8] b = "01110000";', "a & b", 0),
        ("uint[6] b = 37;", "popcount(b)", 3),
        ("uint[6] b = 37;", "rotl(b, 3)", 44),
        ("uint[6] b = 37;", "~b", 26),
        ("int[32] a = 2; int[32] b = 3;", "b / a + 10 * (b % a) + 100 * (a ** b)", 811),
        ('bit[4] a = "1110";', "int[4](a)", -2),
        ('bit[4] a = "1110";', "uint[4](a[1:2])", 3),
        ("int[4] a = 9;", "a", -7),
        ("uint[4] a = 9; a *= 3; a -= 1;", "a", 10),
        (
            "array[int[8], 2, 3] a = {{1, 2, 3}, {4, 5, 6}}; a[0] = a[1]; a[1, 0:1] = {7, 8};",
            "a[0][2] + 10 * a[1, 1]",
            86,
        ),
        ("array[uint[8], 4, 2] a;", "10 * sizeof(a) + sizeof(a, 1)", 42),
        ("int n = 0; for int i in [0:5] { if (i == 1) continue; if (i == 4) break; n += i; }", "n", 5),
        ("int n = 0; for int i in {1, 5, 10} { n += i; }", "n", 16),
        ("int n = 10; while (n > 3) { n -= 4; }", "n", 2),
        ("def f(int n) -> int { if (n < 2) return 1; return n * f(n - 1); }", "f(5)", 120),
        ("def f(mutable array[int, 2] a) { a[1] = 7; } array[int, 2] b; f(b);", "b[1]", 7),
        ("int n = 1; { int n = 2; n = 3; }", "n", 1),
        ("uint[4] a = 15; uint[4] b = 1;", "int(a + b == 0) + 2 * int(b - a == 2) + 4 * int(-b == 15)", 7),
        ("int[8] a = -7;", "10 * (a % 3) + a / 3", -12),
        ("int n = 0o17;", "n", 15),
    ],
)
def test_arithmetic(declared, expression, value):
    assert read(f"qubit q; {declared} rx({expression}) q;").instructions[-1].params[0] == value


@pytest.mark.parametrize(
    "declared, expression, value",
    [
        ("angle[4] a = 9 * (pi / 8);", "a << 2", np.pi / 2),
        ("angle[4] a = 9 * (pi / 8);", "a >> 2", np.pi / 4),
        ("angle[3] a; a[2] = 1; a[0] = 1;", "a", np.pi * 5 / 4),
        ("angle[4] a = 7 * (pi / 8); angle[4] b = pi / 8;", "a + b", np.pi),
        ("angle[4] a = 7 * (pi / 8); angle[4] b = pi / 8;", "b - a", 5 * np.pi / 4),
        ("angle[4] a = 7 * (pi / 8); uint[4] two = 2;", "a / two", 3 * np.pi / 8),
        ("angle[4] c = 5 * (pi / 4); uint[4] two = 2;", "two * c", np.pi / 2),
        ("angle[4] c = 5 * (pi / 4); angle[4] b = pi / 8;", "c / b", 10),
        ("angle[4] a = pi / 4;", "-a", 7 * np.pi / 4),
        ("angle[4] a = 3 * pi;", "int(a == pi) + 2 * int(a * 2 > a)", 1),
        ('bit[2] b = "10"; angle[2] a = angle[2](b);', "a", np.pi),
        ("angle[20] a = pi / 3;", "a", np.pi / 3),
    ],
)
def test_bits_of_angles(declared, expression, value):
    assert read(f"qubit q; {declared} rx({expression}) q;").instructions[-1].params[0] == pytest.approx(
        value, abs=1e-15
    )


REFUSED = {  # those of the examples that are no circuits, or have mistakes of their own
    "arrays": "the index of 'my_defined_uints' must be from 0 to 3, got 4",
    "cphase": "'q' is not declared",
    "dd": "u has 3 parameters, got 0",
    "defcal": "'defcalgrammar' is not supported",
    "gateteleport": "'extern' is not supported",
    "msd": "the index of 'scratch' must be from 0 to 2, got 3",
    "scqec": "'extern' is not supported",
    "t1": "'extern' is not supported",
    "vqe": "'extern' is not supported",
}


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.qasm")), ids=lambda path: path.stem)
def test_examples_of_the_specification(path):
    if path.stem in REFUSED:
        with pytest.raises(QASMError, match=REFUSED[path.stem]):
            U.from_qasm(path)
        return
    circuit = U.from_qasm(path)
    assert U.from_qasm(circuit.to_qasm(3)) == circuit


def test_repeat_until_success():
    """Nielsen and Chuang, Problem 4.2: the ancillas give 0 with a chance of 5/8, whatever the qubit."""
    text = (EXAMPLES / "rus.qasm").read_text().replace("3 / 5", "3.0 / 5")  # whole numbers have whole quotients
    counts = quantum.run(U.from_qasm(text), shots=2000, seed=0).counts()
    assert all(outcome[-3:] == "000" for outcome in counts)
    first = sum(count for outcome, count in counts.items() if outcome[-5:-3] == "00") / 2000
    assert abs(first - 5 / 8) < 5 * math.sqrt(15 / 64 / 2000)


def test_phase_estimation_finds_the_bits_of_a_phase():
    """One bit after the other, the lowest first; those that are known turn the qubit back."""
    text = (
        "const int n = 6; qubit q; qubit r; angle[n] c; x r; for int i in [0:n - 1] { reset q; h q; "
        "ctrl @ pow(2 ** (n - 1 - i)) @ p(2 * pi * 45.0 / 64) q, r; inv @ p(c) q; h q; measure q -> c[n - 1]; "
        "if (i < n - 1) c >>= 1; } bit[n] result = c;"
    )
    assert bits(text)[-6:] == f"{45:06b}"


def test_syndrome_of_a_subroutine():
    """The casts of the example make 2 and 3 negative, so that it corrects one error of three."""
    text = (EXAMPLES / "qec.qasm").read_text().replace("int[2](syn)", "uint[2](syn)")
    for q, syndrome in ((0, "01"), (1, "11"), (2, "10")):
        (outcome,) = quantum.run(
            U.from_qasm(text.replace("x q[0]; // insert", f"x q[{q}]; // insert")), shots=50
        ).counts()
        assert outcome[-5:] == syndrome + "000"


def test_a_bit_is_what_it_was_where_that_is_needed():
    count = "int n = 0; for int i in [0:3] { reset q; if (i != 2) x q; c = measure q; if (c) n += 1; } bit[3] k = n;"
    assert bits(f"qubit q; bit c; {count}")[-4:] == "0111"
    assert bits("qubit[2] q; bit c = 1; bit d; if (c) { c = measure q[0]; x q[1]; } d = measure q[1];")[-2:] == "10"


def test_conditions_of_loops_are_those_of_each_round():
    """Bits that are known at first may change in the loop."""
    text = "qubit q; bit failed; bit tried = 0; x q; failed = measure q; while (failed && !tried) { tried = 1; h q; "
    counts = quantum.run(read(text + "failed = measure q; }"), shots=1000, seed=0).counts()
    assert {outcome[-2:] for outcome in counts} == {"10", "11"}
    assert abs(sum(n for outcome, n in counts.items() if outcome[-2:] == "11") - 500) < 5 * math.sqrt(250)
    text = (
        "qubit q; bit go; bit[2] n; x q; go = measure q; n = 0; while (go && n != 3) { n = uint[2](n) + uint[2](1); }"
    )
    assert bits(text)[-3:] == "111"


def test_what_follows_a_loop_is_done_once_and_always():
    assert bits("qubit q; bit[2] o; while (o[0]) { if (o[1]) x q; } o = 3;") == "11"


def test_readings_in_a_loop_err():
    """0 is read as 1 in half of the rounds, each of which flips the other qubit: an odd number of times in 2 of 3."""
    text = (
        "qubit[2] q; bit[2] o; x q[0]; o[0] = measure q[0]; while (o[0]) { reset q[0]; x q[1]; o[0] = measure q[0]; } "
    )
    noisy = read(text + "o[1] = measure q[1];").with_noise(noise.NoiseModel().readout(noise.ReadoutError(0, 0.5), 0))
    odd = sum(n for outcome, n in quantum.run(noisy, shots=5000, seed=0).counts().items() if outcome[-2] == "1")
    assert abs(odd / 5000 - 2 / 3) < 5 * math.sqrt(2 / 9 / 5000)
    with pytest.raises(ChannelError, match="has a condition on that bit"):
        read("qubit q; bit c = measure q; if (c) { c = measure q; }").with_noise(
            noise.NoiseModel().readout(noise.ReadoutError(0, 0.3))
        )


def test_angles_follow_the_bits():
    text = "qubit q; bit c; c = 1; rx(pi * c) q; c = 0; rx(pi * c) q;"
    assert [i.params for i in read(text) if i.gate.name == "rx"] == [(math.pi,), (0.0,)]


def test_loops_that_do_not_end_are_named():
    circuit = read("qubit q; bit c; x q; c = measure q; bit d = 0; while (c) { d = measure q; }")
    with pytest.raises(SimulatorError, match="loops of trajectory 0 do not end within 131072 rounds"):
        quantum.run(circuit, shots=8, seed=0)


def test_each_round_of_a_loop_takes_its_time():
    """A qubit beside a loop relaxes in each of its shot's rounds, the last one included."""
    loop = read("qubit[2] q; bit c; x q[1]; while (c == 0) { h q[0]; c = measure q[0]; } bit last = measure q[1];")
    noisy = loop.with_noise(noise.NoiseModel().relaxation(1.0, 2.0, {"h": 0.4}))
    kept = math.exp(-0.4)
    ends = kept / 2  # the chance that a round is the last, as its qubit relaxes, too
    found = sum(n for outcome, n in quantum.run(noisy, shots=20_000, seed=0).counts().items() if outcome[-2] == "1")
    assert abs(found / 20_000 - ends * kept / (1 - (1 - ends) * kept)) < 5 * math.sqrt(0.25 / 20_000)


def test_timing_changes_nothing():
    text = "qubit q; duration d = 100ns; stretch s; box[2 * d] { delay[d / 2] q; x q; nop q; } delay[1.5us]; y q;"
    assert read(text) == U(1).x(0).y(0)
