"""MindQuantum: `mqvector`, `mqmatrix`, and `mqchem` in the space of determinants."""

import numpy as np

from tests.benchmarks.quantum.bench import slopes

modules = ("mindquantum",)


def circuit_of(bench):
    from mindquantum.core import gates as g
    from mindquantum.core.circuit import Circuit

    def angle(a):
        return {f"p{k}": c for k, c in a} if isinstance(a, list) else a

    circuit, encoders = Circuit(), 0
    for name, qubits, a in bench.elementary:
        if name in ("h", "x"):
            gate = {"h": g.H, "x": g.X}[name].on(qubits[0])
        elif name == "cx":
            gate = g.X.on(qubits[1], qubits[0])
        elif name == "swap":
            gate = g.SWAP.on(list(qubits))
        elif name in ("rx", "ry", "rz"):
            gate = {"rx": g.RX, "ry": g.RY, "rz": g.RZ}[name](angle(a)).on(qubits[0])
        elif name == "rzz":
            gate = g.Rzz(angle(a)).on(list(qubits))
        elif name == "cp":
            gate = g.PhaseShift(angle(a)).on(qubits[1], qubits[0])
        elif name == "u4":
            gate = g.UnivMathGate("u", a).on(list(qubits))
        elif name == "pauli":
            gate = g.RotPauliString(a[0], angle(a[1])).on(list(qubits))
        elif name == "noise":
            gate = g.PauliChannel(a / 4, a / 4, a / 4).on(qubits[0])  # DepolarizingChannel of 0.12 does not return
        circuit += gate
        encoders += any(k >= len(bench.theta) for k, _ in slopes(a))
    if encoders:
        circuit = circuit[:encoders].as_encoder() + circuit[encoders:]
    return circuit


def operator(terms):
    from mindquantum.core.operators import QubitOperator

    total = QubitOperator()
    for text, c in terms:
        total += QubitOperator(text, c)
    return total


def prepare(bench, threads):
    from mindquantum.core.operators import Hamiltonian
    from mindquantum.simulator import Simulator

    if bench.kind == "subspace":
        return subspace(bench)
    circuit = circuit_of(bench)
    simulator = Simulator("mqmatrix" if bench.kind == "density" else "mqvector", bench.num_qubits)
    if bench.kind in ("state", "density"):

        def run():
            simulator.reset()
            simulator.apply_circuit(circuit)

        return run, lambda _: [simulator.get_qs() if bench.kind == "state" else np.diagonal(simulator.get_qs()).real]
    if bench.kind == "samples":
        simulator.apply_circuit(circuit)
        from mindquantum.core.circuit import Circuit

        measured = Circuit()
        for q in range(bench.num_qubits):
            measured.measure(q)
        return lambda: simulator.sampling(measured, shots=bench.shots), means
    hamiltonians = [Hamiltonian(operator(terms)) for terms in bench.hamiltonians]
    if len(bench.hamiltonians[0]) > 100:
        hamiltonians = [h.sparse(bench.num_qubits) for h in hamiltonians]
    workers = {} if bench.data is None else {"parallel_worker": threads}
    gradient = simulator.get_expectation_with_grad(hamiltonians, circuit, **workers)
    order = [int(name[1:]) for name in circuit.ansatz_params_name]
    arguments = (bench.theta[order],) if bench.data is None else (bench.data, bench.theta[order])

    def read(out):
        value, slope = out[0].real, out[-1].real[..., np.argsort(order)]
        return [value, slope] if bench.data is not None else [value[0, 0], slope[0, 0]]

    return lambda: gradient(*arguments), read


def means(result):
    counts = result.bit_string_data
    bits = np.array([[int(b) for b in reversed(key)] for key in counts])
    return [np.array(list(counts.values())) @ bits / sum(counts.values())]


def subspace(bench):
    from mindquantum.core.circuit import Circuit
    from mindquantum.core.operators import FermionOperator
    from mindquantum.simulator import mqchem

    simulator = mqchem.MQChemSimulator(bench.num_qubits, bench.electrons)
    circuit = Circuit()
    for name, modes, a in bench.gates:
        if name == "excite":
            source, target = modes
            text = " ".join([*(f"{t}^" for t in target), *(str(s) for s in reversed(source))])
            circuit += mqchem.UCCExcitationGate(FermionOperator(text, f"p{a[0][0]}"))
    h = FermionOperator()
    for text, c in bench.fermions:
        h += FermionOperator(text, c)
    gradient = simulator.get_expectation_with_grad(mqchem.CIHamiltonian(h.normal_ordered()), circuit)
    order = [int(name[1:]) for name in circuit.params_name]
    theta = bench.theta[order]
    return lambda: gradient(theta), lambda out: [
        np.asarray(out[0]).real.reshape(()),
        np.asarray(out[1]).real.ravel()[np.argsort(order)],
    ]
