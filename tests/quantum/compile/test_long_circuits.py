"""Circuits that fill every queue of the compiler many times over, against gate-by-gate NumPy."""

import numpy as np
import pytest

from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum.compile.lower import lower
from triskele.quantum.errors import SimulatorError
from triskele.quantum.simulators.statevector.blocks import Block
from triskele.quantum.simulators.statevector.engine import pack, simulate

LENGTHS = [63, 64, 65, 66, 130, 1100]
VALUES = {"a": 0.7, "b": -1.9}
DIAGONAL, REAL, IMAGINARY, GENERAL = ["rz", "p", "t", "s", "z"], ["ry", "h", "x"], ["rx"], ["sx", "y"]


def angle(random):
    return (
        float(random.uniform(-4, 4)) if random.integers(3) else f"{random.integers(1, 4)}*{random.choice(['a', 'b'])}"
    )


def single(circuit, random, names, qubit):
    name = str(random.choice(names))
    circuit.append(name, qubit, [angle(random)] if name in ("rz", "p", "ry", "rx") else [])


def global_phases(circuit, random, length):
    for _ in range(length):
        circuit.global_phase(angle(random))


def phases_among_gates(circuit, random, length):
    for _ in range(length):
        circuit.global_phase(angle(random))
        single(circuit, random, REAL + IMAGINARY + DIAGONAL, int(random.integers(circuit.num_qubits)))


def one_qubit(names):
    def fill(circuit, random, length):
        for _ in range(length):
            single(circuit, random, names, circuit.num_qubits - 1)

    return fill


def diagonal_runs(circuit, random, length):
    for _ in range(length):
        single(circuit, random, DIAGONAL, int(random.integers(circuit.num_qubits)))


def controlled_phases(circuit, random, length):
    for _ in range(length):
        a, b = random.choice(circuit.num_qubits, 2, replace=False).tolist() if circuit.num_qubits > 1 else (0, None)
        circuit.cp(angle(random), a, b) if b is not None and random.integers(3) else single(
            circuit, random, DIAGONAL, a
        )


def conditions(circuit, random, length):
    """Gates that wait on a qubit under conditions, whose control now and then changes."""
    n = circuit.num_qubits
    for _ in range(length):
        target, control = 0, n - 1 if random.integers(20) else max(n - 2, 0)
        if control > target and random.integers(2):
            name = str(random.choice(["x", "ry", "rx", "h"]))
            circuit.append(f"c{name}", [control, target], [angle(random)] if name.startswith("r") else [])
        else:
            single(circuit, random, REAL + IMAGINARY + DIAGONAL, target)
        if not random.integers(40):
            single(circuit, random, REAL + DIAGONAL, control)


def everything(circuit, random, length):
    parts = [phases_among_gates, one_qubit(REAL), one_qubit(DIAGONAL), diagonal_runs, controlled_phases, conditions]
    while len(circuit) < length:
        parts[int(random.integers(len(parts)))](circuit, random, int(random.integers(1, 80)))


REGIMES = {
    "global phases": global_phases,
    "phases among gates": phases_among_gates,
    "diagonal": one_qubit(DIAGONAL),
    "real": one_qubit(REAL),
    "imaginary": one_qubit(IMAGINARY),
    "general": one_qubit(GENERAL + REAL + IMAGINARY + DIAGONAL),
    "diagonal runs": diagonal_runs,
    "controlled phases": controlled_phases,
    "conditions": conditions,
    "everything": everything,
}


def made(regime, n, length, seed):
    circuit = quantum.Circuit(n)
    for q in range(n):
        circuit.ry(0.3 + q, q)
    REGIMES[regime](circuit, np.random.default_rng(seed), length)
    return circuit


def check(circuit):
    expected, names = twin.statevector(circuit, VALUES), circuit.parameters
    values = np.array([VALUES[name] for name in names])
    for fused in (True, False):
        program = lower(circuit, fused)
        np.testing.assert_allclose(simulate(program, values), expected, atol=1e-11)
    np.testing.assert_allclose(simulate(lower(circuit), values, np.complex64), expected, atol=2e-3)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("regime", REGIMES)
def test_long_runs_agree_with_the_twin(regime, length):
    for n in (1, 2, 6):
        check(made(regime, n, length, length + n))


@pytest.mark.slow
@pytest.mark.parametrize("regime", REGIMES)
def test_many_long_runs_agree_with_the_twin(regime):
    random = np.random.default_rng(7)
    for seed in range(60):
        check(made(regime, int(random.integers(1, 9)), int(random.integers(1, 3000)), seed))


@pytest.mark.parametrize("regime", REGIMES)
def test_gradients_of_long_runs(regime):
    circuit, observable = made(regime, 6, 200, 3), quantum.PauliSum("X0 Y5 + 0.5 Z1 X2 + Z0 + Y3")
    matrix, names, step = observable.matrix(6), circuit.parameters, 1e-5
    energy = quantum.Expectation(circuit, observable)

    def value(values):
        psi = twin.statevector(circuit, values)
        return np.vdot(psi, matrix @ psi).real

    found, gradient = energy.value_and_grad(np.array([VALUES[name] for name in names]))
    assert found == pytest.approx(value(VALUES), abs=1e-11)
    for k, name in enumerate(names):
        slope = (value(VALUES | {name: VALUES[name] + step}) - value(VALUES | {name: VALUES[name] - step})) / (2 * step)
        assert gradient[k] == pytest.approx(slope, abs=1e-3 * max(1.0, abs(slope)))


def test_global_phases_of_no_qubits():
    circuit = quantum.Circuit(0)
    for _ in range(100):
        circuit.global_phase(0.01)
    np.testing.assert_allclose(quantum.run(circuit).statevector(), [np.exp(1j)], atol=1e-13)


def test_trotter_steps_of_a_hamiltonian_with_a_constant():
    h = quantum.PauliSum("1.5 + Z1 Z2 + 0.4 Z1")  # its terms commute: every number of steps is exact
    psi = quantum.run(quantum.trotter(h, 1.0, steps=300, num_qubits=3), initial=np.full(8, 8**-0.5)).statevector()
    np.testing.assert_allclose(psi, np.exp(-1j * h.matrix(3).diagonal()) * 8**-0.5, atol=1e-12)


@pytest.mark.parametrize("width", [1, 5, 8])
def test_the_widest_matrices_fit_the_buffers(width):
    """Matrices on the highest qubits make the largest blocks that are copied, in both directions."""
    n = 14
    circuit = quantum.Circuit(n)
    for q in range(n):
        circuit.ry(f"t{q % 3}", q)
    unitary = np.linalg.qr(np.random.default_rng(width).normal(size=(1 << width,) * 2))[0]
    circuit.unitary(unitary, list(range(n - width, n)))
    values = {f"t{k}": 0.4 * k + 0.3 for k in range(3)}
    expected = twin.statevector(circuit, values)
    theta = np.array(list(values.values()))
    for dtype, tolerance in ((np.complex128, 1e-12), (np.complex64, 1e-5)):
        np.testing.assert_allclose(quantum.run(circuit, theta, dtype=dtype).statevector(), expected, atol=tolerance)
        energy, step = quantum.Expectation(circuit, "Z13 + X6", dtype=dtype), 1e-5
        gradient = energy.value_and_grad(theta)[1]
        if dtype is np.complex128:
            exact = quantum.Expectation(circuit, "Z13 + X6")
            slopes = [(exact(theta + e) - exact(theta - e)) / (2 * step) for e in step * np.eye(3)]
        np.testing.assert_allclose(gradient, slopes, atol=1e-4)


def test_blocks_that_do_not_fit_are_refused():
    circuit = quantum.Circuit(20)
    for q in range(7, 20):
        circuit.h(q)
    program = lower(circuit)
    with pytest.raises(SimulatorError, match="does not fit the buffer"):
        simulate(program, np.zeros(0), block=Block(19, 4))
    pack(program, False, Block(13, 4))  # fits, but not twice: that it was packed for one state says nothing of two
    with pytest.raises(SimulatorError, match="a block of 13 qubits does not fit the buffer"):
        pack(program, False, Block(13, 4), states=2)
