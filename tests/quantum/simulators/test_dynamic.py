"""Circuits that measure, reset and decide on their way, shot by shot and as exact distributions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.density_matrix import branches
from triskele import quantum
from triskele.quantum import noise
from triskele.quantum.compile.readings import read, split
from triskele.quantum.errors import SimulatorError

SIMULATORS = ["statevector", "trajectories", "density_matrix"]


def frequencies(circuit, shots=20_000, simulator="statevector", seed=3):
    counts = quantum.run(circuit, simulator=simulator, shots=shots, seed=seed).counts()
    return {int(bits, 2): n / shots for bits, n in counts.items()}


def agree(found, circuit, shots):
    """Chi-square of frequencies against the twin's probabilities of the classical bits."""
    expected = {bits: np.trace(rho).real for bits, rho in branches(circuit).items()}
    assert all(expected.get(bits, 0) > 1e-12 for bits in found)
    kept = [b for b, p in expected.items() if p > 1e-12]
    chi2 = sum(shots * (found.get(b, 0) - expected[b]) ** 2 / expected[b] for b in kept)
    return chi2 < len(kept) + 6 * np.sqrt(2 * len(kept)) + 10


def teleport(a, b):
    """The state of qubit 0, ry(a) rz(b)|0>, goes to qubit 2, and is undone there."""
    circuit = quantum.Circuit(3, 3).ry(a, 0).rz(b, 0).h(1).cx(1, 2).cx(0, 1).h(0).measure([0, 1], [0, 1])
    with circuit.when(1):
        circuit.x(2)
    with circuit.when(0):
        circuit.z(2)
    return circuit.rz(-b, 2).ry(-a, 2).measure(2, 2)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_teleportation(simulator):
    found = frequencies(teleport(1.1, 0.7), 4000, simulator)
    assert sum(p for bits, p in found.items() if bits & 0b100) == 0  # what was sent arrives, whatever was measured
    assert found == pytest.approx({b: 0.25 for b in range(4)}, abs=0.04)


@pytest.mark.parametrize("simulator", SIMULATORS)
@pytest.mark.parametrize("flipped", [None, 0, 1, 2])
def test_bit_flip_code(simulator, flipped):
    """Two syndrome bits say which of three qubits was flipped; the encoded state comes back."""
    circuit = quantum.Circuit(5, 3).ry(0.9, 0).cx(0, 1).cx(0, 2)
    if flipped is not None:
        circuit.x(flipped)
    circuit.cx(0, 3).cx(1, 3).cx(1, 4).cx(2, 4).measure([3, 4], [0, 1])
    for syndrome, qubit in ((0b01, 0), (0b11, 1), (0b10, 2)):
        with circuit.when((0, 1), syndrome):
            circuit.x(qubit)
    circuit.cx(0, 2).cx(0, 1).ry(-0.9, 0).measure(0, 2)
    syndrome = {None: 0b00, 0: 0b01, 1: 0b11, 2: 0b10}[flipped]
    assert frequencies(circuit, 500, simulator) == {syndrome: 1.0}


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_repeat_until_success(simulator):
    """Each round succeeds half the time; whoever is not done tries again."""
    circuit = quantum.Circuit(1, 3).h(0).measure(0, 0)
    for k in (1, 2):
        with circuit.when(k - 1, 0):
            circuit.reset(0).h(0).measure(0, k)
        with circuit.when(k - 1, 1):
            circuit.measure(0, k)
    found = frequencies(circuit, 20_000, simulator)
    assert found == pytest.approx({0b000: 1 / 8, 0b100: 1 / 8, 0b110: 1 / 4, 0b111: 1 / 2}, abs=0.02)


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_reset_in_an_entangled_state(simulator):
    circuit = quantum.Circuit(2).h(0).cx(0, 1).reset(0).measure_all()
    assert frequencies(circuit, 10_000, simulator) == pytest.approx({0b00: 0.5, 0b10: 0.5}, abs=0.03)


def random_dynamic(seed, noisy):
    rng = np.random.default_rng(seed)
    circuit = quantum.Circuit(3, 3)
    for _ in range(14):
        p, q = rng.permutation(3)[:2].tolist()
        kind = rng.integers(8 if noisy else 6)
        if kind == 0:
            circuit.measure(p, int(rng.integers(3)))
        elif kind == 1:
            with circuit.when([0, 2], int(rng.integers(4))):
                circuit.ry(rng.normal(), p).cx(p, q)
        elif kind == 2:
            circuit.reset(p)
        elif kind in (3, 4):
            circuit.u(*rng.normal(size=3), p).cx(p, q)
        elif kind == 5:
            with circuit.when(1):
                circuit.measure(q, 0).reset(p).h(p)
        elif kind == 6:
            circuit.amplitude_damping(0.3, p).depolarizing(0.1, p, q)
        else:
            circuit.append(noise.ReadoutError(0.2, 0.1), (), clbits=(int(rng.integers(3)),))
    return (
        circuit.measure(0, 0).append(noise.ReadoutError(0.1, 0.3), (), clbits=(0,)) if noisy else circuit.measure(0, 0)
    )


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_random_dynamic_circuits(seed):
    for noisy, simulators in ((False, SIMULATORS), (True, SIMULATORS[1:])):
        circuit = random_dynamic(seed, noisy)
        for simulator in simulators:
            assert agree(frequencies(circuit, 4000, simulator, seed), circuit, 4000)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_shots_that_share_states(seed):
    """What is done for large circuits, on small ones: branches instead of one state a shot."""
    circuit = random_dynamic(seed, False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("triskele.quantum.simulators.trajectories.simulator.BRANCH", 0)
        shots = max(4000, 4 << sum(i.gate.name in ("measure", "reset") for i in circuit))
        assert agree(frequencies(circuit, shots, "statevector", seed), circuit, shots)


def test_large_circuits_that_measure_on_their_way():
    """Teleportation of a state, twice, among 14 qubits, with errors in reading at the end, and parameters on both
    sides.
    """
    circuit = quantum.Circuit(14).ry("a", 0)
    for q in range(2):
        circuit.h(q + 1).cx(q + 1, q + 2).cx(q, q + 1).h(q).measure([q, q + 1], [0, 1]).reset(q + 1)
        with circuit.when(1):
            circuit.x(q + 2)
        with circuit.when(0):
            circuit.z(q + 2)
        circuit.swap(q + 1, q + 2)
    circuit.ry({"a": -1.0}, 2).measure(2, 2).append(noise.ReadoutError(0.0, 0.25), (), clbits=(2,))
    counts = quantum.run(circuit, [0.9], simulator="trajectories", shots=1000, seed=1).counts()
    assert sum(n for bits, n in counts.items() if bits[0] == "1") == pytest.approx(250, abs=70)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_measurements_that_end_a_circuit_can_be_read_together(seed):
    """Splitting them off, and reading them from the state's probabilities, changes nothing."""
    circuit = random_dynamic(seed, True)
    body, readings = split(circuit)
    qubits = [r.qubit for r in readings]
    found: dict[int, float] = {}
    for bits, rho in branches(circuit._with(body)).items():
        p = np.zeros(1 << len(readings))
        for j, weight in enumerate(np.diag(rho).real):
            p[sum((j >> q & 1) << k for k, q in enumerate(qubits))] += weight
        for outcome, weight in enumerate(read(p, readings)):
            out = bits
            for k, r in enumerate(readings):
                out = out & ~(1 << r.clbit) | (outcome >> k & 1) << r.clbit
            found[out] = found.get(out, 0.0) + weight
    expected = {bits: np.trace(rho).real for bits, rho in branches(circuit).items()}
    for bits in set(found) | set(expected):
        assert found.get(bits, 0) == pytest.approx(expected.get(bits, 0), abs=1e-12)


def test_only_what_ends_a_circuit_is_split_off():
    circuit = quantum.Circuit(2).h(0).measure(0, 0).cx(0, 1).measure(0, 0).measure(1, 1)
    body, readings = split(circuit)
    assert [i.gate.name for i in body] == ["h", "measure", "x"]
    assert [(r.qubit, r.clbit) for r in readings] == [(0, 0), (1, 1)]
    circuit = quantum.Circuit(1).measure(0, 0).barrier().measure(0, 1)  # the first decides the second
    assert [(r.qubit, r.clbit) for r in split(circuit)[1]] == [(0, 1)]


def test_one_run_and_samples_where_only_the_end_is_measured():
    circuit = quantum.Circuit(3).ry(0.7, 0).cx(0, 2).measure([2, 0], [0, 3])
    found = frequencies(circuit, 50_000)
    assert set(found) == {0b0000, 0b1001}
    assert found[0b1001] == pytest.approx(np.sin(0.35) ** 2, abs=0.01)
    assert quantum.run(circuit, shots=10, seed=1).counts() == quantum.run(circuit, shots=10, seed=1).counts()


@pytest.mark.parametrize("simulator", ["trajectories", "density_matrix"])
def test_errors_in_reading(simulator):
    model = noise.NoiseModel().readout(noise.ReadoutError(0.2, 0.1), 0).readout(noise.ReadoutError(0.0, 0.3), 1)
    circuit = quantum.Circuit(2).x(0).measure_all().with_noise(model)
    assert frequencies(circuit, 50_000, simulator) == pytest.approx(
        {0b00: 0.14, 0b01: 0.56, 0b10: 0.06, 0b11: 0.24}, abs=0.01
    )


def test_shots_are_needed():
    circuit = teleport(0.1, 0.2)
    with pytest.raises(SimulatorError, match="shots"):
        quantum.run(circuit)
    with pytest.raises(SimulatorError, match="statevector: the circuit measures or has noise"):
        quantum.run(circuit, shots=10).statevector()


def test_reset_needs_no_classical_bits():
    circuit = quantum.Circuit(2).h(0).cx(0, 1).reset(0)
    assert quantum.run(circuit, shots=4000, seed=1).sample().frequencies() == pytest.approx(
        {"00": 0.5, "10": 0.5}, abs=0.04
    )


def test_gates_before_anything_random_are_done_once():
    """A prefix without noise or measurements is one run of the state-vector simulator, with its parameters and data."""
    circuit = quantum.Circuit(3).rx("x", 1).as_encoder() + quantum.Circuit(3).ry("a", 0).cx(0, 1).measure(1, 0).rz(
        "b", 0
    ).ry({"a": 2.0}, 2).measure(0, 1)
    body = quantum.run(circuit, [0.3, 0.7], [0.4], simulator="trajectories", shots=20_000, seed=2)
    exact = quantum.run(circuit, [0.3, 0.7], [0.4], simulator="density_matrix", shots=20_000, seed=3)
    for bits, count in exact.counts().items():
        assert abs(body.counts().get(bits, 0) - count) < 6 * np.sqrt(2 * count) + 5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: quantum.Circuit(2).append(noise.bit_flip(0.1), 0, controls=[1]), "bit_flip: only gates have controls"),
        (lambda: quantum.Circuit(2).measure(0, -1), "classical bits must be integers >= 0, got .-1."),
        (
            lambda: quantum.Circuit(2).append("x", 0, condition=quantum.circuit.Condition((3,), 1)),
            "must be there .measure into them first., got .3.",
        ),
    ],
)
def test_bad_instructions(make, message):
    with pytest.raises(ValueError, match=message):
        make()
