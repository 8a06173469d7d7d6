"""The stabilizer simulator, against state vectors, and where these end."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.twins.statevector import apply, statevector
from triskele import quantum
from triskele.quantum import noise, states
from triskele.quantum.errors import ParameterError, SimulatorError
from triskele.quantum.gates import find, names
from triskele.quantum.gates.families import pauli_rotation
from triskele.quantum.gates.instruction import BARRIER, MEASURE, RESET
from triskele.quantum.operators.pauli import PauliSum
from triskele.quantum.simulators.stabilizer.clifford import action
from triskele.quantum.simulators.stabilizer.tableau_program import lower

run = functools.partial(quantum.run, simulator="stabilizer")
ONE = ["x", "y", "z", "h", "s", "sdg", "sx", "sxdg"]
TWO = ["cx", "cy", "cz", "swap", "iswap", "iswapdg", "ecr"]
ROTATIONS = ["rx", "ry", "rz", "p", "rxx", "ryy", "rzz", "rzx"]


@st.composite
def clifford_circuits(draw, most_qubits=5, most_gates=25):
    n = draw(st.integers(1, most_qubits))
    circuit = quantum.Circuit(n)
    for _ in range(draw(st.integers(0, most_gates))):
        name = draw(st.sampled_from(ONE + (TWO + ROTATIONS if n > 1 else [])))
        gate = find({"cx": "x", "cy": "y", "cz": "z"}.get(name, name))
        k = gate.num_qubits + (name in ("cx", "cy", "cz"))
        qubits = draw(st.permutations(range(n)))[:k]
        circuit.append(name, qubits, [draw(st.integers(-5, 5)) * np.pi / 2] * gate.num_params)
    return circuit


@given(clifford_circuits())
@settings(max_examples=60, deadline=None)
def test_states_are_those_of_the_state_vector(circuit):
    psi, result = statevector(circuit), run(circuit)
    n = circuit.num_qubits
    assert states.fidelity(psi, result.statevector()) == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(result.probabilities(), np.abs(psi) ** 2, atol=1e-12)
    few = list(range(n))[::-2]
    np.testing.assert_allclose(result.probabilities(few), states.probabilities(psi, few), atol=1e-12)
    assert result.entropy(few) == pytest.approx(states.entropy(psi, few), abs=1e-9)
    np.testing.assert_allclose(result.partial_trace(few), states.partial_trace(psi, few), atol=1e-12)


@given(clifford_circuits(most_qubits=3))
@settings(max_examples=30, deadline=None)
def test_every_pauli_string_has_the_expectation_of_the_state_vector(circuit):
    psi, result = statevector(circuit), run(circuit)
    for letters in itertools.product("IXYZ", repeat=circuit.num_qubits):
        h = PauliSum([(" ".join(f"{p}{q}" for q, p in enumerate(letters) if p != "I"), 1.0)])
        assert result.expectation(h) == pytest.approx(np.vdot(psi, h.matrix(circuit.num_qubits) @ psi).real, abs=1e-12)
        assert result.expectation(h) in (-1, 0, 1)


@given(clifford_circuits(most_qubits=4))
@settings(max_examples=30, deadline=None)
def test_stabilizers_stabilize(circuit):
    psi = statevector(circuit)
    for text in run(circuit).stabilizers():
        string = PauliSum(
            [(" ".join(f"{p}{q}" for q, p in enumerate(text[:0:-1]) if p != "I"), -1.0 if text[0] == "-" else 1.0)]
        )
        np.testing.assert_allclose(string.matrix(circuit.num_qubits) @ psi, psi, atol=1e-12)


@given(clifford_circuits(most_qubits=4), clifford_circuits(most_qubits=4))
@settings(max_examples=30, deadline=None)
def test_fidelity_without_amplitudes(a, b):
    n = max(a.num_qubits, b.num_qubits)
    a, b = quantum.Circuit(n).extend(a), quantum.Circuit(n).extend(b)
    found = run(a).fidelity(run(b))
    assert found == pytest.approx(states.fidelity(statevector(a), statevector(b)), abs=1e-12)
    assert run(a).fidelity(statevector(b)) == pytest.approx(found, abs=1e-12)


def test_reduced_states_of_many_qubits_are_those_of_few():
    circuit = quantum.Circuit(3).h(0).cx(0, 1).s(1).h(2).cz(2, 0).sx(1)
    many = quantum.Circuit(40).extend(circuit, [31, 5, 17])
    for keep in ([0], [1, 2], [2, 0, 1]):
        there = [[31, 5, 17][q] for q in keep]
        np.testing.assert_allclose(run(many).partial_trace(there), run(circuit).partial_trace(keep), atol=1e-14)


def test_every_registered_constant_clifford_gate_is_found_and_no_other():
    expected = {"id", "x", "y", "z", "h", "s", "sdg", "sx", "sxdg", "swap", "iswap", "iswapdg", "ecr", "dcx"}
    constants = {name for name in names() if find(name).constant is not None}
    found = {name for name in constants if action(find(name).constant) is not None}
    assert expected & constants <= found
    assert not found & {"t", "tdg"}


def test_generators_read_as_strings_with_qubit_0_rightmost():
    assert run(quantum.Circuit(2)).stabilizers() == ["+IZ", "+ZI"]
    assert run(quantum.Circuit(2).h(0).cx(0, 1)).stabilizers() == ["+XX", "+ZZ"]
    assert run(quantum.Circuit(2).x(0).h(1).s(1)).stabilizers() == ["+YI", "-IZ"]


def test_wide_pauli_rotations_and_global_phases(rng):
    for letters, quarters in (("XYZXYZ", 1), ("ZZZZZ", -1), ("YYXZX", 2), ("XXXXX", 4)):
        n = len(letters)
        circuit = quantum.Circuit(n).h(0).cx(0, 2).s(1).global_phase(0.3)
        circuit.append(pauli_rotation(letters), range(n), [quarters * np.pi / 2])
        assert states.fidelity(statevector(circuit), run(circuit).statevector()) == pytest.approx(1, abs=1e-12)


def test_no_qubits():
    result = run(quantum.Circuit(0))
    assert (
        result.stabilizers(),
        result.sample(5).counts(),
        result.probabilities().tolist(),
        result.expectation("2"),
    ) == ([], {"": 5}, [1.0], 2.0)


# -- measurement, reset, conditions, noise
# ------------------------------------------------------------------------------


def exact_counts(circuit):
    """Probability of every value of the classical bits, by following every branch with a state vector."""
    start = np.zeros(1 << circuit.num_qubits, complex)
    start[0] = 1
    branches = [(1.0, start, 0)]
    for i in circuit:
        new = []
        for p, psi, bits in branches:
            if (
                i.gate is BARRIER
                or i.condition
                and sum((bits >> c & 1) << k for k, c in enumerate(i.condition.clbits)) != i.condition.value
            ):
                new.append((p, psi, bits))
            elif i.gate in (MEASURE, RESET):
                for outcome in (0, 1):
                    half = apply(np.diag([1 - outcome, outcome]), i.qubits, psi)
                    weight = np.vdot(half, half).real
                    if weight > 1e-12:
                        half = half / np.sqrt(weight)
                        if i.gate is RESET:
                            new.append((p * weight, apply(np.eye(2)[::-1], i.qubits, half) if outcome else half, bits))
                        else:
                            new.append((p * weight, half, bits & ~(1 << i.clbits[0]) | outcome << i.clbits[0]))
            elif hasattr(i.gate, "kraus"):
                for k in i.gate.kraus:
                    part = apply(k, i.qubits, psi)
                    weight = np.vdot(part, part).real
                    if weight > 1e-12:
                        new.append((p * weight, part / np.sqrt(weight), bits))
            else:
                new.append((p, apply(i.matrix(), (*i.qubits, *i.controls), psi), bits))
        branches = new
    found = np.zeros(1 << circuit.num_clbits)
    for p, _, bits in branches:
        found[bits] += p
    return found


def agrees(circuit, shots, seed):
    p = exact_counts(circuit)
    counts = np.bincount(run(circuit, shots=shots, seed=seed).samples.indices, minlength=len(p))
    assert not counts[p < 1e-12].any()
    expected, counts = shots * p[p > 1e-12], counts[p > 1e-12]
    return len(counts) < 2 or stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(counts) - 1) > 1e-4


def teleportation(state):
    circuit = quantum.Circuit(3, 3).extend(state, [0]).h(1).cx(1, 2).cx(0, 1).h(0).measure([0, 1])
    with circuit.when(1):
        circuit.x(2)
    with circuit.when(0):
        circuit.z(2)
    return circuit


@pytest.mark.parametrize("gates", [[], ["x"], ["h"], ["h", "s"], ["sx"]])
def test_teleportation_brings_every_state(gates):
    state = quantum.Circuit(1)
    for name in gates:
        state.append(name, 0)
    circuit = teleportation(state).extend(state.inverse(), [2]).measure(2)
    samples = run(circuit, shots=500, seed=1).samples
    assert not samples.array[:, 2].any()
    assert samples.array[:, :2].mean(0) == pytest.approx(0.5, abs=0.1)


@st.composite
def dynamic_circuits(draw, conditioned):
    circuit = draw(clifford_circuits(most_qubits=3, most_gates=6))
    n = circuit.num_qubits
    qubit = st.integers(0, n - 1)
    for _ in range(draw(st.integers(1, 4))):
        what = draw(st.sampled_from(["measure", "reset", "gates", "noise", "when"]))
        if what == "measure":
            circuit.measure(draw(qubit), draw(st.integers(0, 2)))
        elif what == "reset":
            circuit.reset(draw(qubit))
        elif what == "noise":
            circuit.append(noise.Channel.pauli("any", [0.4, 0.1, 0.2, 0.3]), draw(qubit))
        elif what == "gates":
            circuit.h(draw(qubit)).s(draw(qubit))
        elif circuit.num_clbits:
            with circuit.when(0, draw(st.integers(0, 1))):
                circuit.append(draw(st.sampled_from(conditioned)), draw(qubit))
    return circuit.measure(range(n), range(circuit.num_clbits, circuit.num_clbits + n))


@given(dynamic_circuits(["x", "y", "z"]))
@settings(max_examples=40, deadline=None)
def test_frames_follow_the_exact_distribution(circuit):
    assert lower(circuit, {})[1]
    assert agrees(circuit, 4000, 3)


@given(dynamic_circuits(["h", "sx"]))
@settings(max_examples=25, deadline=None)
def test_shots_one_by_one_follow_the_exact_distribution(circuit):
    assert agrees(circuit, 500, 4)


def test_two_qubit_noise_and_a_reset_under_a_condition():
    circuit = quantum.Circuit(2).h(0).cx(0, 1).depolarizing(0.3, 0, 1).measure([0, 1])
    with circuit.when([0, 1], 3):
        circuit.reset(0)
    circuit.measure(0, 2)
    assert agrees(circuit, 4000, 5)


@pytest.mark.parametrize("conditioned", ["x", "h"])  # frames, and shots one by one
def test_measurements_that_are_read_wrongly(conditioned):
    circuit = quantum.Circuit(2).h(0).measure(0)
    circuit.append(noise.ReadoutError(0.3, 0.1), [], clbits=[0])
    with circuit.when(0):
        circuit.append(conditioned, 1)
    circuit.measure(1).measure(0, 2)
    share = {
        "x": {"000": 0.45, "010": 0, "011": 0.05, "100": 0.15, "111": 0.35},
        "h": {"000": 0.45, "001": 0.025, "011": 0.025, "100": 0.15, "101": 0.175, "111": 0.175},
    }[conditioned]
    counts = run(circuit, shots=4000, seed=2).counts()
    assert counts.keys() <= share.keys()
    for bits, p in share.items():
        assert counts.get(bits, 0) / 4000 == pytest.approx(p, abs=4 * np.sqrt(0.25 / 4000))


def test_a_seed_fixes_the_counts():
    circuit = quantum.Circuit(3).h(0).cx(0, 1).depolarizing(0.1, 1).measure_all()
    first = run(circuit, shots=100, seed=7)
    assert first.counts() == run(circuit, shots=100, seed=7).counts()
    assert np.any(first.samples.array != run(circuit, shots=100, seed=8).samples.array)
    np.testing.assert_array_equal(first.samples.array[:20], run(circuit, shots=20, seed=7).samples.array)


# -- many qubits -------------------------------------------------------------------------------------------------------


def test_a_thousand_qubits():
    n = 1000
    circuit = quantum.Circuit(n).h(0)
    for q in range(n - 1):
        circuit.cx(q, q + 1)
    result = run(circuit)
    assert result.stabilizers()[0] == "+" + n * "X"
    assert (
        result.expectation(PauliSum([(" ".join(f"X{q}" for q in range(n)), 2.0), ("Z3 Z997", 0.5), ("Z5", 9.0)])) == 2.5
    )
    assert result.entropy(range(300)) == 1
    samples = result.sample(2000, seed=1)
    assert set(samples.counts()) == {n * "0", n * "1"}
    assert samples.array.mean() == pytest.approx(0.5, abs=0.05)
    assert result.sample(50, seed=1, qubits=[999, 0]).counts().keys() <= {"00", "11"}
    assert result.expectation("Z0 Z999 + X5", shots=100, seed=2).value == pytest.approx(1, abs=0.5)
    assert result.fidelity(run(quantum.Circuit(n))) == 0.5
    np.testing.assert_allclose(result.partial_trace([7, 900]), np.diag([0.5, 0, 0, 0.5]), atol=1e-15)
    measured = run(circuit.measure_all(), shots=200, seed=2)
    assert set(measured.counts()) == {n * "0", n * "1"}


def test_a_random_circuit_and_its_inverse_on_two_words_of_qubits(rng):
    n = 100
    circuit = quantum.Circuit(n)
    for _ in range(2000):
        circuit.append(str(rng.choice(ONE)), int(rng.integers(n)))
        circuit.append(str(rng.choice(TWO)), rng.permutation(n)[:2].tolist())
    half = run(circuit)
    assert half.entropy(range(50)) > 40  # a random state is nearly maximally entangled
    assert half.entropy(range(20)) == half.entropy(range(20, 100))
    for text in half.stabilizers()[:3]:
        string = PauliSum([(" ".join(f"{p}{q}" for q, p in enumerate(text[:0:-1]) if p != "I"), 1.0)])
        assert half.expectation(string) == (-1 if text[0] == "-" else 1)
    back = run(circuit + circuit.inverse())
    assert back.stabilizers() == run(quantum.Circuit(n)).stabilizers()
    assert back.fidelity(run(quantum.Circuit(n))) == 1


def test_a_state_to_begin_with():
    bell = run(quantum.Circuit(2).h(0).cx(0, 1))
    assert run(quantum.Circuit(2).cx(0, 1), initial=bell).stabilizers() == ["+IX", "+ZI"]
    assert set(run(quantum.Circuit(2).measure_all().x(0), initial=bell, shots=50, seed=1).counts()) == {"00", "11"}
    with pytest.raises(SimulatorError, match="result of a stabilizer simulation of 3 qubits"):
        run(quantum.Circuit(3), initial=bell)


@pytest.mark.parametrize("way", ["frames", "one by one", "samples"])
def test_measured_bits_lie_in_the_support_and_fill_it(way, rng):
    n = 130  # three words
    state = quantum.Circuit(n).h(0).h(64).h(129)
    for _ in range(1500):  # these only permute basis states and change phases
        state.append(str(rng.choice(["x", "y", "z", "s"])), int(rng.integers(n)))
        state.append(str(rng.choice(["cx", "cy", "cz", "swap", "iswap"])), rng.permutation(n)[:2].tolist())
    result = run(state)
    origin, directions = result._support
    assert len(directions) == 3
    measured = quantum.Circuit(n, n + 1).extend(state).measure(range(n))
    if way == "one by one":
        with measured.when(n):
            measured.h(0)
    bits = (
        result.sample(300, seed=4).array if way == "samples" else run(measured, shots=300, seed=4).samples.array[:, :n]
    )
    seen = {row.tobytes() for row in bits}
    allowed = {
        (origin ^ (np.array(c, np.uint8) @ directions & 1)).tobytes()
        for c in itertools.product((0, 1), repeat=len(directions))
    }
    assert seen == allowed


# -- errors ------------------------------------------------------------------------------------------------------------


def test_what_is_no_clifford_circuit_is_named():
    with pytest.raises(SimulatorError, match=r"instruction 1, t on qubits \[2\], is not a Clifford gate"):
        run(quantum.Circuit(3).h(0).t(2))
    with pytest.raises(SimulatorError, match=r"instruction 0, rz\(1.57\) on qubits \[0\].*multiples of pi/2"):
        run(quantum.Circuit(1).rz(1.57, 0))
    with pytest.raises(SimulatorError, match="instruction 0, unitary on .*more than 4 qubits are not looked at"):
        run(quantum.Circuit(5).unitary(np.eye(32), range(5)))
    with pytest.raises(SimulatorError, match=r"ccx on qubits \[0, 1, 2\]"):
        run(quantum.Circuit(3).ccx(0, 1, 2))
    with pytest.raises(SimulatorError, match=r"amplitude_damping.* on qubits \[0\], must be .* Pauli channel"):
        run(quantum.Circuit(1).amplitude_damping(0.1, 0), shots=10)
    with pytest.raises(ParameterError, match="theta must have a value for a"):
        run(quantum.Circuit(1).rx("a", 0))
    assert run(quantum.Circuit(1).rx("a", 0), {"a": np.pi}).stabilizers() == ["-Z"]


def test_what_needs_shots_and_what_cannot_be_written_out():
    with pytest.raises(SimulatorError, match="needs shots"):
        run(quantum.Circuit(1).depolarizing(0.1, 0))
    with pytest.raises(SimulatorError, match="give shots"):
        run(quantum.Circuit(1).measure(0).x(0))
    # measurements at the end do not change the state
    assert run(quantum.Circuit(1).x(0).measure(0)).stabilizers() == ["-Z"]
    with pytest.raises(SimulatorError, match="shots must be an integer >= 1, got 0"):
        run(quantum.Circuit(1).measure(0), shots=0)
    with pytest.raises(SimulatorError, match="at most 24 qubits can be written out, got 30"):
        run(quantum.Circuit(30)).statevector()
    with pytest.raises(SimulatorError, match="same number of qubits"):
        run(quantum.Circuit(2)).fidelity(run(quantum.Circuit(3)))
