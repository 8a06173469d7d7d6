"""Classical bits mean the same on every simulator: results count them where the circuit writes them, and qubits where
it does not.
"""

import numpy as np
import pytest

from tests.twins import density_matrix as twin
from triskele import quantum
from triskele.quantum import noise
from triskele.quantum.errors import CircuitError, SimulatorError
from triskele.quantum.gates.instruction import Condition
from triskele.quantum.simulators.result import CountsResult
from triskele.quantum.simulators.trajectories.simulator import TrajectoriesResult

ALL = ["statevector", "density_matrix", "trajectories", "stabilizer"]
SHOTS = 2000


def bodies():
    yield "gates", quantum.Circuit(3, 2).x(0).h(1)
    yield "noise", quantum.Circuit(3, 2).x(0).depolarizing(0.3, 1).bit_flip(0.2, 2)
    yield "reset", quantum.Circuit(3, 2).x(0).h(1).reset(1)
    never = quantum.Circuit(3, 2).x(0)
    with never.when(0):
        never.x(1)
    with never.when([0, 1], 0):
        never.h(2)
    yield "conditions on bits that nothing writes", never
    one = quantum.Circuit(3, 2).x(0).h(1)
    one.measure(1, 1)
    yield "one measurement", one
    late = quantum.Circuit(3, 3).h(0).measure(0, 2)
    with late.when(2):
        late.x(1)
    yield "a measurement on the way", late
    yield "noise and a measurement", quantum.Circuit(3, 2).h(0).bit_flip(0.3, 0).measure(0, 1).depolarizing(0.3, 2)
    wired = quantum.Circuit(3, 4).x(0).h(1)
    yield "crossed wires", wired.measure([0, 1], [3, 0])
    model = noise.NoiseModel().readout(noise.ReadoutError(0.3, 0.1)).readout(noise.ReadoutError(0.05, 0.2), qubits=1)
    yield "errors in reading qubits", quantum.Circuit(3, 2).x(0).h(1).with_noise(model)
    yield "errors in reading bits", wired.with_noise(model)
    yield "measured after the noise model", quantum.Circuit(3, 4).x(0).h(1).with_noise(model).measure([0, 1], [3, 0])
    yield "noise and errors in reading qubits", quantum.Circuit(3, 2).x(0).bit_flip(0.3, 1).with_noise(model)


def expected(circuit):
    """Probability of each bit string that counts() may give."""
    found = twin.branches(circuit)
    writes = any(i.clbits for i in circuit)
    p: dict[str, float] = {}
    read = np.eye(1)
    for q in range(circuit.num_qubits):
        read = np.kron(circuit.readout[q].matrix if circuit.readout else np.eye(2), read)
    for bits, rho in found.items():
        if writes:
            p[f"{bits:0{circuit.num_clbits}b}"] = p.get(f"{bits:0{circuit.num_clbits}b}", 0) + np.trace(rho).real
        else:
            for k, q in enumerate(read @ np.diag(rho).real):
                p[f"{k:0{circuit.num_qubits}b}"] = p.get(f"{k:0{circuit.num_qubits}b}", 0) + q
    return {bits: q for bits, q in p.items() if q > 1e-12}


@pytest.mark.parametrize("simulator", ALL)
@pytest.mark.parametrize(("name", "circuit"), list(bodies()), ids=[name for name, _ in bodies()])
def test_counts_have_one_meaning(name, circuit, simulator):
    p = expected(circuit)
    result = quantum.run(circuit, simulator=simulator, shots=SHOTS, seed=4)
    found = [result.counts(), result.sample().counts()]
    try:
        found.append(quantum.run(circuit, simulator=simulator).sample(SHOTS, seed=5).counts())
    except SimulatorError as error:  # where every shot ends in its own state
        assert simulator != "density_matrix" and "shots" in str(error)
    for counts in found:
        assert set(counts) <= set(p) and sum(counts.values()) == SHOTS
        for bits, q in p.items():
            assert abs(counts.get(bits, 0) - q * SHOTS) <= 5 * np.sqrt(q * abs(1 - q) * SHOTS) + 1e-9, (bits, counts, p)


@pytest.mark.parametrize("declared", [0, 1, 5])
def test_declaring_bits_changes_nothing(declared):
    for shots in (None, 500):
        for build in (
            lambda c: c.h(0).cx(0, 1),
            lambda c: c.h(0).phase_flip(0.3, 1),
            lambda c: c.ry("a", 0).bit_flip(0.1, 0),
        ):
            theta = [0.3][: len(build(quantum.Circuit(2)).parameters)]
            for simulator in ("density_matrix", "trajectories", "statevector"):
                if shots is None and simulator != "density_matrix":
                    continue
                plain, with_bits = (
                    quantum.run(build(quantum.Circuit(2, n)), theta, simulator=simulator, shots=shots, seed=3)
                    for n in (0, declared)
                )
                assert type(plain) is type(with_bits)
                np.testing.assert_array_equal(plain.density_matrix(), with_bits.density_matrix())
                if shots:
                    assert plain.counts() == with_bits.counts()


@pytest.mark.parametrize("n", [1, 3, 12])
def test_trajectories_without_noise_give_the_same_kind_of_result(n):
    circuit = quantum.Circuit(n, 2).ry(0.7, 0)
    result = quantum.run(circuit, simulator="trajectories", shots=100, seed=1)
    assert type(result) is TrajectoriesResult
    assert result.expectation("Z0") == (pytest.approx(np.cos(0.7)), pytest.approx(0, abs=1e-12))
    assert result.sample(300, seed=2).array.shape == (300, n)
    np.testing.assert_allclose(result.probabilities(0), [np.cos(0.35) ** 2, np.sin(0.35) ** 2], atol=1e-12)
    assert (
        type(quantum.run(quantum.Circuit(n).measure_all(), simulator="trajectories", shots=10, seed=1)) is CountsResult
    )
    assert (
        type(quantum.run(circuit.copy().bit_flip(0.1, 0), simulator="trajectories", shots=10, seed=1))
        is TrajectoriesResult
    )
    start = np.zeros(1 << n)
    start[-1] = 1.0
    result = quantum.run(quantum.Circuit(n), simulator="trajectories", shots=10, seed=1, initial=start)
    start[:] = 0.0  # what was handed in is copied
    assert result.counts() == {"1" * n: 10}


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("shots", [None, 100])
def test_a_conditional_measurement_after_one_whose_outcome_is_certain(n, shots):
    for excited in (False, True):
        circuit = quantum.Circuit(n)
        if excited:
            circuit.x(n - 1)
        circuit.measure(n - 1, 0)
        with circuit.when(0, int(excited)):
            circuit.measure(n - 1, 1)
        result = quantum.run(circuit, simulator="density_matrix", shots=shots, seed=1)
        if shots:
            assert result.counts() == {"11" if excited else "00": shots}
        else:
            assert result.expectation(f"Z{n - 1}") == pytest.approx(-1.0 if excited else 1.0)


@pytest.mark.parametrize("simulator", ALL)
def test_conditions_on_more_bits_than_an_integer_has(simulator):
    circuit = quantum.Circuit(2, 80).x(0)
    for c in range(0, 80, 3):
        circuit.measure(0, c)
    value = sum(1 << c for c in range(0, 80, 3))
    with circuit.when(range(80), value):
        circuit.x(1)
    with circuit.when(range(80), value ^ 1 << 79):
        circuit.x(0)
    circuit.measure([0, 1], [1, 2])
    counts = quantum.run(circuit, simulator=simulator, shots=20, seed=1).counts()
    assert counts == {f"{value | 6:080b}": 20}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda c: c.when(0, 2).__enter__(), "from 0 to 1, got 2"),
        (lambda c: c.when([0, 1], -1).__enter__(), "from 0 to 3, got -1"),
        (lambda c: c.when([0, 0], 3).__enter__(), "different ones from 0 to 1"),
        (lambda c: c.when([]).__enter__(), "on 0 bits"),
        (lambda c: c.append("x", 0, condition=Condition((0,), 5)), "from 0 to 1, got 5"),
        (lambda c: c.append("x", 0, condition=Condition((0,), 1.0)), "from 0 to 1, got 1.0"),
        (lambda c: c.__setattr__("num_clbits", 1), ">= 2"),
    ],
)
def test_conditions_that_can_never_hold_are_refused(make, message):
    circuit = quantum.Circuit(2, 1).measure(1, 1)
    with pytest.raises(CircuitError, match=message):
        make(circuit)
    assert len(circuit) == 1


def test_circuits_added_under_a_condition_are_conditional():
    circuit = quantum.Circuit(2).measure(0, 0)
    with circuit.when(0):
        circuit.extend(quantum.Circuit(2).x(1).barrier().bit_flip(1.0, 0))
        with pytest.raises(CircuitError, match="nested"):
            circuit.append("x", 0, condition=Condition((0,), 1))
        with pytest.raises(CircuitError, match="nested"):
            circuit.extend(circuit)
    assert [i.condition is not None for i in circuit] == [False, True, False, True]
    assert quantum.run(circuit.measure(1, 1), shots=10, seed=1).counts() == {"00": 10}


def test_errors_in_reading_count_as_writing():
    circuit = quantum.Circuit(1, 1).append(noise.ReadoutError(0.0, 1.0), (), clbits=[0])
    for simulator in ALL:
        assert quantum.run(circuit, simulator=simulator, shots=10, seed=1).counts() == {"1": 10}


def test_samples_of_qubits_that_the_circuit_does_not_ask_for():
    model = noise.NoiseModel().readout(noise.ReadoutError(1.0, 0.0), qubits=1)
    circuit = quantum.Circuit(3).x(0).x(1).measure(0, 2).with_noise(model)
    for simulator in ("statevector", "density_matrix", "stabilizer", "subspace"):
        result = quantum.run(circuit, simulator=simulator)
        assert result.sample(5).counts() == {"100": 5}
        assert result.sample(5, qubits=[1, 0]).counts() == {"10": 5}  # qubit 1 is always read as 0
        assert result.sample(5, qubits=[2]).counts() == {"0": 5}
        np.testing.assert_allclose(result.probabilities([1, 0]), [0, 0, 0, 1], atol=1e-14)  # exact: no errors


@pytest.mark.parametrize("change", ["copy", "json", "remap", "extend", "add", "decompose", "bind", "twice"])
def test_circuits_keep_the_errors_of_their_qubits(change):
    model = noise.NoiseModel().readout(noise.ReadoutError(0.0, 1.0), qubits=0)  # 0 is read as 1
    circuit = quantum.Circuit(2).x(1).with_noise(model)
    changed = {
        "copy": lambda c: c.copy(),
        "json": lambda c: quantum.Circuit.from_json(c.to_json()),
        "remap": lambda c: c.remap([1, 0]).remap([1, 0]),
        "extend": lambda c: quantum.Circuit(2).extend(c),
        "add": lambda c: c + quantum.Circuit(2),
        "decompose": lambda c: quantum.decompose(c, {"u", "cx"}),
        "bind": lambda c: c.bind({}),
        "twice": lambda c: c.with_noise(noise.NoiseModel().readout(noise.ReadoutError(0.0, 0.5))),
    }[change](circuit)
    assert (changed == circuit) == (change not in ("decompose", "twice"))
    assert quantum.run(changed).sample(9, seed=1).counts() == {"11": 9}
    for measured in (changed.copy().measure_all(), changed + quantum.Circuit(2).measure_all()):
        assert quantum.run(measured, shots=9).counts() == quantum.run(measured).sample(9).counts() == {"11": 9}


def read_operator(h, errors):
    """The operator whose exact values are those of `h` read with errors: each letter P on a qubit becomes a + b P."""
    total = 0.0
    for text, c in quantum.PauliSum(h):
        product = quantum.PauliSum(c)
        for letter in text.split():
            e = errors.get(int(letter[1:]), noise.ReadoutError(0.0, 0.0)).matrix
            product = product * (quantum.PauliSum(e[0, 1] - e[1, 0]) + (e[1, 1] - e[1, 0]) * quantum.PauliSum(letter))
        total = total + product
    return total


@pytest.mark.parametrize("simulator", [*ALL, "subspace"])
def test_expectation_values_from_shots_are_read_with_errors(simulator):
    h = "Z0 Z1 - 0.7 X0 X2 + 0.4 Y1 + 0.3 Z2 + 0.2"
    body = {
        "subspace": quantum.Circuit(3).x(0).givens(0.4, 0, 1),
        "stabilizer": quantum.Circuit(3).h(0).s(0).cx(0, 1).h(2),
    }.get(simulator, quantum.Circuit(3).ry(0.4, 0).cx(0, 1).rx(-0.8, 1).cx(1, 2))
    if simulator in ("density_matrix", "trajectories"):
        body.amplitude_damping(0.2, 0)
    errors = {0: noise.ReadoutError(0.3, 0.1), 2: noise.ReadoutError(0.05, 0.2)}
    model = noise.NoiseModel()
    for q, error in errors.items():
        model.readout(error, qubits=q)
    circuit, shots = body.with_noise(model), 20_000
    plain = "density_matrix" if simulator in ("density_matrix", "trajectories") else "statevector"
    exact = quantum.run(body, simulator=plain).expectation(read_operator(h, errors))
    without = quantum.run(body, simulator=plain).expectation(h)
    assert abs(exact - without) > 0.1  # five errors are less than half of it
    found = quantum.run(circuit, simulator=simulator, shots=shots, seed=2).expectation(h, shots=shots)
    assert found.error < 0.01 and abs(found.value - exact) < 5 * found.error
    value = quantum.Expectation(circuit, h, simulator=simulator, shots=shots, seed=3)()
    assert abs(value - exact) < 5 * found.error
    if simulator != "trajectories":
        assert quantum.run(circuit, simulator=simulator).expectation(h) == pytest.approx(without, abs=1e-12)


def test_gradients_and_energies_from_shots_are_read_with_errors():
    error = noise.ReadoutError(0.25, 0.05)
    circuit = quantum.Circuit(1).ry("a", 0).with_noise(noise.NoiseModel().readout(error))
    energy = quantum.Expectation(circuit, "Z0", shots=40_000, seed=1)
    (slope,) = energy.gradient(np.array([0.9]))
    assert abs(slope + 0.7 * np.sin(0.9)) < 5 / np.sqrt(2 * 40_000)  # half the difference of two means of +-1
    found = quantum.VQE("Z0", circuit, initial=np.array([3.0]), shots=40_000, optimizer="rotosolve").run()
    assert abs(found.energy - (0.2 - 0.7)) < 5 / np.sqrt(40_000) + 0.01  # the error of the angle is of second order
