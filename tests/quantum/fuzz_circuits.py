"""Random circuits of everything there is: every simulator against plain NumPy, every format there and back, every
gradient against differences.
"""

import numpy as np
import pytest

from tests.twins import density_matrix as mixed
from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum import gates, noise
from triskele.quantum.errors import SimulatorError
from triskele.quantum.gates.families import pauli_rotation, unitary
from triskele.quantum.gates.fermionic import excitation_gate
from triskele.quantum.gates.function import gate as from_function

NAMES = ("a", "b", "c", "d")
KICK = from_function(lambda t: np.cos(t**2) * np.eye(2) - 1j * np.sin(t**2) * np.array([[0, 1], [1, 0]]), 1, 1, "kick")
CLIFFORD = ["x", "y", "z", "h", "s", "sdg", "sx", "sxdg", "swap", "iswap", "ecr", "dcx"]
CONSERVING = [
    "givens",
    "xx_plus_yy",
    "fsim",
    "rz",
    "p",
    "rzz",
    "swap",
    "iswap",
    "single_excitation",
    "double_excitation",
    "global_phase",
]


class Maker:
    """Draws circuits from a seed."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def angle(self, symbolic=True):
        kind = self.random.integers(6)
        if kind == 0 and symbolic:
            return str(self.random.choice(NAMES))
        if kind == 1 and symbolic:
            chosen = self.random.choice(NAMES, 2, replace=False)
            return {str(chosen[0]): float(self.random.integers(-3, 4)) + 0.5, str(chosen[1]): -0.25}
        return (
            float(self.random.choice([0.0, np.pi / 2, np.pi, -np.pi / 4, 2 * np.pi]))
            if kind == 2
            else float(self.random.uniform(-7, 7))
        )

    def gate(self, n, symbolic, functions):
        kind = self.random.integers(12)
        if kind == 0:
            k = int(self.random.integers(1, min(n, 3) + 1))
            a = self.random.normal(size=(1 << k,) * 2) + 1j * self.random.normal(size=(1 << k,) * 2)
            return unitary(np.linalg.qr(a)[0])
        if kind == 1:
            return pauli_rotation("".join(self.random.choice(list("XYZ"), self.random.integers(1, n + 1))))
        if kind == 2 and n >= 3:
            return excitation_gate(1, int(self.random.integers(0, n - 1)))
        if kind == 3 and n >= 2:
            return gates.families.diagonal(int(self.random.integers(1, min(n, 3) + 1)))
        if kind == 4:
            return gates.find("global_phase")
        if kind == 5 and functions:
            return KICK
        known = [
            g
            for g in map(gates.find, gates.names())
            if g.num_qubits <= n and (functions or g.function is None or not symbolic)
        ]
        return known[self.random.integers(len(known))]

    def circuit(self, n, length, symbolic=True, functions=True, names=None):
        circuit = quantum.Circuit(n)
        while len(circuit) < length:
            gate = (
                gates.find(str(self.random.choice([m for m in names if gates.find(m).num_qubits <= n])))
                if names
                else self.gate(n, symbolic, functions)
            )
            order = self.random.permutation(n).tolist()
            k = gate.num_qubits
            controls = order[k : k + int(self.random.choice([0, 0, 0, 1, 2, 3]))] if not names else []
            circuit.append(gate, order[:k], [self.angle(symbolic) for _ in range(gate.num_params)], controls=controls)
            if not self.random.integers(15):
                circuit.barrier()
        return circuit

    def dynamic(self, circuit, noisy=True, pauli=False):
        """The circuit with measurements, resets, conditions, channels and errors in reading among its gates."""
        n, new = circuit.num_qubits, quantum.Circuit(circuit.num_qubits, 3)
        for i in circuit:
            condition = None
            if not self.random.integers(4):
                bits = tuple(self.random.permutation(3)[: self.random.integers(1, 4)].tolist())
                condition = quantum.circuit.Condition(bits, int(self.random.integers(1 << len(bits))))
            new.append(
                i.gate,
                i.qubits,
                i.params,
                controls=i.controls,
                condition=None if i.gate.name == "barrier" else condition,
            )
            q, c = int(self.random.integers(n)), int(self.random.integers(3))
            kind = self.random.integers(14)
            if kind < 2:
                new.measure(q, c)
            elif kind == 2:
                new.reset(q)
            elif kind == 3 and noisy:
                new.append(noise.depolarizing(0.1) if pauli else noise.amplitude_damping(0.3), q)
            elif kind == 4 and noisy and n > 1:
                new.append(noise.depolarizing(0.2, 2), self.random.permutation(n)[:2].tolist())
            elif kind == 5 and noisy:
                new.append(noise.ReadoutError(0.1, 0.2), (), clbits=[c])
        return new

    def values(self, circuit):
        return {name: float(self.random.uniform(-3, 3)) for name in circuit.names}

    def observable(self, n):
        rows = self.random.choice(list("IXYZ"), (5, n))
        return quantum.PauliSum(
            [(" ".join(f"{p}{q}" for q, p in enumerate(row) if p != "I"), self.random.normal()) for row in rows]
        )


# -- each check takes a seed


def pure(seed):
    maker = Maker(seed)
    n = int(maker.random.integers(1, 7))
    circuit = maker.circuit(n, int(maker.random.integers(0, 60)))
    values = maker.values(circuit)
    expected, h = twin.statevector(circuit, values), maker.observable(n)
    energy = np.vdot(expected, h.matrix(n) @ expected).real
    theta = np.array([values[name] for name in circuit.parameters])
    np.testing.assert_allclose(quantum.run(circuit, theta).statevector(), expected, atol=1e-11)
    np.testing.assert_allclose(quantum.run(circuit.bind(theta)).statevector(), expected, atol=1e-11)
    np.testing.assert_allclose(quantum.run(circuit, theta, dtype=np.complex64).statevector(), expected, atol=1e-4)
    assert quantum.Expectation(circuit, h)(theta) == pytest.approx(energy, abs=1e-10)
    if n <= 4:
        for simulator in ("density_matrix", "trajectories"):
            result = quantum.run(circuit, theta, simulator=simulator, shots=3, seed=seed)
            np.testing.assert_allclose(
                result.density_matrix(), np.outer(expected, expected.conj()), atol=1e-10, err_msg=simulator
            )
            assert float(result.expectation(h)) == pytest.approx(energy, abs=1e-10)


def clifford(seed):
    maker = Maker(seed)
    n = int(maker.random.integers(1, 6))
    circuit = maker.circuit(n, int(maker.random.integers(0, 40)), names=CLIFFORD)
    expected, h = twin.statevector(circuit), maker.observable(n)
    result = quantum.run(circuit, simulator="stabilizer")
    assert abs(np.vdot(expected, result.statevector())) == pytest.approx(1, abs=1e-10)
    assert result.expectation(h) == pytest.approx(np.vdot(expected, h.matrix(n) @ expected).real, abs=1e-10)
    counted(maker.dynamic(circuit, pauli=True), {}, ("stabilizer", "trajectories", "density_matrix"), seed)


def subspace(seed):
    maker = Maker(seed)
    n = int(maker.random.integers(2, 6))
    circuit = quantum.Circuit(n).x(0).extend(maker.circuit(n, int(maker.random.integers(0, 30)), names=CONSERVING))
    values = maker.values(circuit)
    theta, expected = [values[name] for name in circuit.parameters], twin.statevector(circuit, values)
    try:
        result = quantum.run(circuit, theta, simulator="subspace")
    except SimulatorError:  # of what this simulator has, all is real
        return
    np.testing.assert_allclose(result.statevector(), expected, atol=1e-11)


def counted(circuit, values, simulators, seed, shots=3000):
    """Counts of classical bits against their exact distribution."""
    p = {bits: np.trace(rho).real for bits, rho in mixed.branches(circuit, values).items()}
    theta = [values[name] for name in circuit.parameters]
    if not any(i.clbits for i in circuit):
        return
    for simulator in simulators:
        counts = quantum.run(circuit, theta, simulator=simulator, shots=shots, seed=seed).counts()
        for bits in {*p, *(int(b, 2) for b in counts)}:
            q, found = max(p.get(bits, 0.0), 0.0), counts.get(f"{bits:0{circuit.num_clbits}b}", 0)
            assert abs(found - q * shots) <= 6 * np.sqrt(q * abs(1 - q) * shots) + 3e-9 * shots + 1e-6, (
                simulator,
                bits,
                found,
                q * shots,
            )


def dynamic(seed):
    maker = Maker(seed)
    n = int(maker.random.integers(1, 5))
    circuit = maker.dynamic(maker.circuit(n, int(maker.random.integers(0, 25))))
    values = maker.values(circuit)
    theta = [values[name] for name in circuit.parameters]
    exact = mixed.density_matrix(circuit, values)
    np.testing.assert_allclose(
        quantum.run(circuit, theta, simulator="density_matrix").density_matrix(), exact, atol=1e-10
    )
    if not any(i.clbits for i in circuit):
        found = quantum.run(circuit, theta, simulator="trajectories", shots=3000, seed=seed).density_matrix()
        assert np.abs(found - exact).max() < 6 / np.sqrt(3000)
    counted(circuit, values, ("density_matrix", "trajectories"), seed)


def same(circuit, other, values, phase=True):
    """Two circuits are one unitary."""
    a, b = (twin.unitary(c, values) for c in (circuit, other))
    if not phase:
        overlap = np.vdot(b, a)
        b = b * overlap / abs(overlap)
    np.testing.assert_allclose(b, a, atol=1e-9)
    assert other.names == tuple(n for n in circuit.names if n in other.names)
    # what a format left out makes no difference but in the global phase
    for name in set(circuit.names) - set(other.names):
        changed = twin.unitary(circuit, values | {name: values[name] + 0.7})
        assert abs(abs(np.vdot(changed, a)) / len(a) - 1) < 1e-9


def transformed(seed):
    maker = Maker(seed)
    n = int(maker.random.integers(1, 5))
    circuit = maker.circuit(n, int(maker.random.integers(0, 15)), functions=False)
    values = maker.values(circuit)
    same(circuit, circuit.inverse().inverse(), values)
    same(quantum.Circuit(n), quantum.Circuit(n).extend(circuit).extend(circuit.inverse()).bind(values), {})
    assert circuit.inverse().names == circuit.names
    same(
        circuit,
        quantum.decompose(
            circuit,
            str(maker.random.choice(["u cx", "rz sx cx", "rz ry cz", "rx ry iswap", "rz h rzz", "u ecr"])).split(),
        ),
        values,
    )
    half = dict(list(values.items())[::2])
    np.testing.assert_allclose(twin.unitary(circuit.bind(half), values), twin.unitary(circuit, values), atol=1e-11)
    whole = quantum.Circuit(n + 1).extend(circuit.control(n))
    np.testing.assert_allclose(
        twin.unitary(whole, values)[1 << n :, 1 << n :], twin.unitary(circuit, values), atol=1e-11
    )
    assert circuit.copy() == circuit and circuit.remap(range(n)).names == circuit.names


def _unitary(seed):
    """Return a random circuit that every format can hold, with values of its parameters."""
    maker = Maker(seed)
    n = int(maker.random.integers(1, 5))
    symbolic = bool(maker.random.integers(2))
    circuit = maker.circuit(n, int(maker.random.integers(0, 12)), symbolic=symbolic, functions=False)
    return circuit, maker.values(circuit)


def read_back(seed):
    """There and back through our own formats."""
    circuit, values = _unitary(seed)
    assert quantum.Circuit.from_json(circuit.to_json()) == circuit
    same(circuit, quantum.Circuit.from_qasm(circuit.to_qasm(3)), values)
    same(
        circuit, quantum.Circuit.from_qasm(circuit.bind(values).to_qasm(2)), values, phase=False
    ) if not circuit.names else None


def qiskit_and_cirq(seed):
    """There and back through the circuits of other programs."""
    pytest.importorskip("qiskit")
    circuit, values = _unitary(seed)
    n = circuit.num_qubits
    same(circuit, quantum.Circuit.from_qiskit(circuit.to_qiskit()), values)
    pytest.importorskip("cirq")
    plain = quantum.Circuit(n)._ordered(circuit.names)
    for i in quantum.decompose(circuit) if circuit.names else circuit:  # Cirq has no global phase with parameters
        if i.gate.name != "global_phase" or not i.names:
            plain.append(i.gate, i.qubits, i.params, controls=i.controls)
    plain.id(0) if n else None
    other = quantum.Circuit.from_cirq(quantum.Circuit(n).extend(plain).to_cirq())
    if other.num_qubits == n:  # qubits that nothing acts on do not exist in Cirq
        same(plain, other, values, phase=not circuit.names)


def _dynamic(seed):
    """Return a random circuit with measurements, and one with noise too."""
    maker = Maker(seed)
    n = int(maker.random.integers(1, 4))
    circuit = maker.dynamic(
        maker.circuit(n, int(maker.random.integers(0, 10)), symbolic=False, functions=False), noisy=False
    )
    return circuit, maker.dynamic(maker.circuit(n, 5, functions=False))


def dynamic_read_back(seed):
    """Circuits with measurements, there and back through our own formats."""
    circuit, noisy = _dynamic(seed)
    assert quantum.Circuit.from_json(noisy.to_json()) == noisy
    _same_branches(
        circuit,
        {"qasm3": quantum.Circuit.from_qasm(circuit.to_qasm(3)), "json": quantum.Circuit.from_json(circuit.to_json())},
    )


def dynamic_qiskit(seed):
    """Circuits with measurements, there and back through Qiskit."""
    pytest.importorskip("qiskit")
    circuit, _ = _dynamic(seed)
    _same_branches(circuit, {"qiskit": quantum.Circuit.from_qiskit(circuit.to_qiskit())})


def _same_branches(circuit, others):
    """Compare the branches of measured bits and their states."""
    expected = mixed.branches(circuit)
    for name, other in others.items():
        found = mixed.branches(other)
        for bits in {*expected, *found}:
            np.testing.assert_allclose(
                found.get(bits, 0 * expected[0]), expected.get(bits, 0 * expected[0]), atol=1e-9, err_msg=name
            )


def gradients(seed):
    maker = Maker(seed)
    n = int(maker.random.integers(1, 5))
    circuit = maker.circuit(n, int(maker.random.integers(1, 25)))
    for name in NAMES:
        circuit.rx(name, 0)
    h, values = maker.observable(n), maker.values(circuit)
    theta = np.array([values[name] for name in circuit.parameters])
    matrix = h.matrix(n).toarray()

    def energy(theta):
        psi = twin.statevector(circuit, dict(zip(circuit.parameters, theta, strict=True)))
        return np.vdot(psi, matrix @ psi).real

    # fourth order: steps of 1e-3 leave some 1e-11 times the fifth derivative
    step = 1e-3
    slopes = np.array(
        [
            (8 * (energy(theta + e) - energy(theta - e)) - energy(theta + 2 * e) + energy(theta - 2 * e)) / (12 * step)
            for e in step * np.eye(len(theta))
        ]
    )
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(quantum.Expectation(circuit, h).value_and_grad(theta)[1], slopes, **close)
    np.testing.assert_allclose(
        quantum.Expectation(circuit, h, simulator="density_matrix").value_and_grad(theta)[1], slopes, **close
    )
    if all(i.gate.function is None for i in circuit if hasattr(i.gate, "function")):
        np.testing.assert_allclose(
            quantum.Expectation(circuit, h, gradient="parameter_shift").value_and_grad(theta)[1], slopes, **close
        )


def pennylane(seed):
    """Our PennyLane device against its own: values, and derivatives in the order of its parameters."""
    qml = pytest.importorskip("pennylane")
    from triskele.quantum.io.pennylane import TriskeleQubit

    random = np.random.default_rng(seed)
    n = int(random.integers(2, 5))
    plain, turning = (
        "Hadamard S T SX PauliY CNOT CZ SWAP ISWAP".split(),
        "RX RY RZ PhaseShift CRX CRY ControlledPhaseShift IsingXX IsingXY SingleExcitation GlobalPhase".split(),
    )
    steps = [
        (
            str(random.choice(plain if random.integers(2) else turning)),
            random.permutation(n).tolist(),
            int(random.integers(5)),
            int(random.integers(4)),
        )
        for _ in range(15)
    ]

    def circuit(theta):
        for name, order, k, how in steps:
            kind = getattr(qml, name)
            number = 1 if kind.num_wires is None else kind.num_wires
            arguments = (theta[k],) if name in turning else ()
            wires = {} if name == "GlobalPhase" else {"wires": order[:number]}
            if how == 0:
                qml.adjoint(kind)(*arguments, **wires)
            elif how == 1 and number < n:
                qml.ctrl(kind, order[number], control_values=[k % 2])(*arguments, **wires)
            else:
                kind(*arguments, **wires)
        return qml.expval(qml.PauliZ(0) @ qml.PauliX(1) + 0.3 * qml.PauliY(n - 1))

    theta = qml.numpy.array(random.uniform(-3, 3, 5), requires_grad=True)
    found, expected = (
        qml.QNode(circuit, device) for device in (TriskeleQubit(wires=n), qml.device("default.qubit", wires=n))
    )
    assert float(found(theta)) == pytest.approx(float(expected(theta)), abs=1e-9)
    np.testing.assert_allclose(qml.grad(found)(theta), qml.grad(expected)(theta), atol=1e-7)


CHECKS = [pure, clifford, subspace, dynamic, transformed, read_back, dynamic_read_back, gradients]
PEERS = [pennylane, qiskit_and_cirq, dynamic_qiskit]
