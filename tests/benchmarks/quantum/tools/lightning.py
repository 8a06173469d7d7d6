"""PennyLane's lightning.qubit, given tapes directly: what its QNodes add is not counted.

Its wire 0 is the highest bit.
"""

import numpy as np

from tests.benchmarks.quantum.bench import slopes, value

modules = ("pennylane", "pennylane_lightning")


def prepare(bench, threads):
    import pennylane as qml
    from pennylane.devices import ExecutionConfig

    n, values, chain, trainable, count, operations = bench.num_qubits, bench.theta, [], [], 0, []
    simple = {"h": qml.Hadamard, "x": qml.PauliX, "cx": qml.CNOT, "swap": qml.SWAP}
    turned = {"rx": qml.RX, "ry": qml.RY, "rz": qml.RZ, "rzz": qml.IsingZZ, "cp": qml.ControlledPhaseShift}
    for name, qubits, a in bench.elementary:
        wires, angle = [n - 1 - q for q in qubits], a[1] if name == "pauli" else a
        if name in simple:
            operations.append(simple[name](wires=wires))
            continue
        if name == "u4":
            operations.append(qml.QubitUnitary(a, wires=wires[::-1]))
        elif name == "pauli":  # its adjoint method gives PauliRot no slope, and knows the same in the eigenbasis
            bases = [(p, w) for p, w in zip(a[0], wires, strict=True) if p != "Z"]
            operations += [qml.Hadamard(w) if p == "X" else qml.RX(np.pi / 2, w) for p, w in bases]
            count += sum(p == "Y" for p, _ in bases)
            operations.append(qml.MultiRZ(value(angle, values), wires=wires))
        else:
            operations.append(turned[name](value(angle, values), wires=wires))
        if name != "u4" and slopes(angle):
            chain.append(angle)
            trainable.append(count)
        count += 1
        if name == "pauli":
            operations += [qml.Hadamard(w) if p == "X" else qml.RX(-np.pi / 2, w) for p, w in bases]
            count += sum(p == "Y" for p, _ in bases)
    device = qml.device("lightning.qubit", wires=n, c_dtype=np.dtype(bench.dtype).type)
    if bench.kind == "state":
        tape = qml.tape.QuantumScript(operations, [qml.state()])
        return lambda: device.execute(tape), lambda state: [np.asarray(state)]
    words = [qml.pauli.PauliWord({n - 1 - int(s[1:]): s[0] for s in text.split()}) for text, _ in bench.hamiltonians[0]]
    h = qml.pauli.PauliSentence({w: c for w, (_, c) in zip(words, bench.hamiltonians[0], strict=True)}).operation(
        wire_order=range(n)
    )
    tape = qml.tape.QuantumScript(operations, [qml.expval(h)], trainable_params=trainable)
    matrix = np.zeros((len(chain), len(values)))
    for row, angle in enumerate(chain):
        for k, c in angle:
            matrix[row, k] += c
    config = ExecutionConfig(gradient_method="adjoint", use_device_gradient=True)

    def run():
        (energy,), (slope,) = device.execute_and_compute_derivatives((tape,), config)
        return energy, np.array(slope).ravel() @ matrix

    return run, lambda out: [np.array(out[0]), out[1]]
