"""Qiskit Aer: density matrices and noisy shots."""

import numpy as np

modules = ("qiskit", "qiskit_aer")


def prepare(bench, threads):
    from qiskit import QuantumCircuit
    from qiskit_aer import AerSimulator
    from qiskit_aer.noise import depolarizing_error

    circuit, noise = QuantumCircuit(bench.num_qubits), {}
    for name, qubits, a in bench.elementary:
        if name == "noise":
            circuit.append(noise.setdefault(a, depolarizing_error(a, 1).to_instruction()), qubits)
        elif a is None:
            getattr(circuit, name)(*qubits)
        else:
            getattr(circuit, name)(a, *qubits)
    if bench.kind == "density":
        circuit.save_probabilities()
        simulator = AerSimulator(method="density_matrix", max_parallel_threads=threads)
        return lambda: simulator.run(circuit, shots=1).result(), lambda result: [
            np.asarray(result.data()["probabilities"])
        ]
    circuit.measure_all()
    simulator = AerSimulator(method="statevector", max_parallel_threads=threads)

    def read(result):
        counts = result.get_counts()
        bits = np.array([[int(b) for b in reversed(key)] for key in counts])
        return [np.array(list(counts.values())) @ bits / sum(counts.values())]

    return lambda: simulator.run(circuit, shots=bench.shots).result(), read
