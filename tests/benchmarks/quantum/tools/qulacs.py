"""qulacs, its light optimizer on for circuits without parameters. Its rotations turn the other way."""

import numpy as np

from tests.benchmarks.quantum.bench import slopes, value

modules = ("qulacs",)
PAULIS = {"X": 1, "Y": 2, "Z": 3}


def add(circuit, name, qubits, a):
    """A gate without parameters."""
    import qulacs
    from qulacs import gate

    if name in ("h", "x"):
        getattr(circuit, f"add_{name.upper()}_gate")(qubits[0])
    elif name == "cx":
        circuit.add_CNOT_gate(*qubits)
    elif name == "swap":
        circuit.add_SWAP_gate(*qubits)
    elif name in ("rx", "ry", "rz"):
        getattr(circuit, f"add_{name.upper()}_gate")(qubits[0], -a)
    elif name == "cp":
        phase = gate.to_matrix_gate(gate.U1(qubits[1], a))
        phase.add_control_qubit(qubits[0], 1)
        circuit.add_gate(phase)
    elif name == "u4":
        circuit.add_gate(gate.DenseMatrix(list(qubits), a))
    elif name == "noise":
        circuit.add_gate(gate.DepolarizingNoise(qubits[0], 0.75 * a))
    else:
        raise ValueError(f"qulacs: no gate {name}, got it in {type(circuit).__name__} of {qulacs.__name__}")


def prepare(bench, threads):
    import qulacs

    n = bench.num_qubits
    if bench.kind == "gradient":
        return gradient(bench)
    circuit = qulacs.QuantumCircuit(n)
    for step in bench.elementary:
        add(circuit, *step)
    if bench.kind == "density":
        density = qulacs.DensityMatrix(n)

        def run():
            density.set_zero_state()
            circuit.update_quantum_state(density)

        return run, lambda _: [np.diagonal(density.get_matrix()).real]
    if bench.kind == "trajectories":
        simulator = qulacs.NoiseSimulator(circuit, qulacs.QuantumState(n))
        return lambda: simulator.execute(bench.shots), lambda found: [bits(found, n)]
    qulacs.circuit.QuantumCircuitOptimizer().optimize_light(circuit)
    state = qulacs.QuantumState(n)
    if bench.kind == "samples":
        circuit.update_quantum_state(state)
        return lambda: state.sampling(bench.shots), lambda found: [bits(found, n)]

    def run():
        state.set_zero_state()
        circuit.update_quantum_state(state)

    return run, lambda _: [state.get_vector()]


def bits(found, n):
    return (np.array(found)[:, None] >> np.arange(n) & 1).mean(0)


def gradient(bench):
    import qulacs

    n, chain = bench.num_qubits, []
    circuit = qulacs.ParametricQuantumCircuit(n)
    for name, qubits, a in bench.elementary:
        angle = a[1] if name == "pauli" else a
        if not slopes(angle):
            add(circuit, name, qubits, a)
            continue
        start = -value(angle, bench.theta)
        if name in ("rx", "ry", "rz"):
            getattr(circuit, f"add_parametric_{name.upper()}_gate")(qubits[0], start)
        else:
            letters = "ZZ" if name == "rzz" else a[0]
            circuit.add_parametric_multi_Pauli_rotation_gate(list(qubits), [PAULIS[p] for p in letters], start)
        chain.append(angle)
    observable = qulacs.Observable(n)
    for text, c in bench.hamiltonians[0]:
        observable.add_operator(c, " ".join(f"{s[0]} {s[1:]}" for s in text.split()))
    matrix = np.zeros((len(chain), len(bench.theta)))
    for row, angle in enumerate(chain):
        for k, c in angle:
            matrix[row, k] -= c
    state = qulacs.QuantumState(n)

    def run():
        for row, angle in enumerate((matrix @ bench.theta).tolist()):
            circuit.set_parameter(row, angle)
        state.set_zero_state()
        circuit.update_quantum_state(state)
        return observable.get_expectation_value(state), np.array(circuit.backprop(observable)) @ matrix

    return run, lambda out: [np.array(out[0]), out[1]]
