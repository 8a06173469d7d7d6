"""qsim through Cirq; single precision, and its own fusion."""

import numpy as np

modules = ("cirq", "qsimcirq")


def prepare(bench, threads):
    import cirq
    import qsimcirq

    n = bench.num_qubits
    wires = cirq.LineQubit.range(n)[::-1]
    make = {
        "h": lambda _: cirq.H,
        "x": lambda _: cirq.X,
        "cx": lambda _: cirq.CNOT,
        "rx": cirq.rx,
        "ry": cirq.ry,
        "rz": cirq.rz,
        "u4": cirq.MatrixGate,
    }
    circuit = cirq.Circuit(
        make[name](a).on(*(wires[q] for q in (qubits[::-1] if name == "u4" else qubits)))
        for name, qubits, a in bench.elementary
    )
    simulator = qsimcirq.QSimSimulator(
        qsimcirq.QSimOptions(cpu_threads=threads, max_fused_gate_size=4 if n > 16 else 2)
    )
    order = wires[::-1]
    return (
        lambda: simulator.simulate(circuit, qubit_order=order),
        lambda result: [
            np.asarray(result.final_state_vector)
            if np.dtype(bench.dtype) == np.complex64
            else result.final_state_vector.astype(complex)
        ],
    )
