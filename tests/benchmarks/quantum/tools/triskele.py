"""Triskele itself, through what a user calls."""

import numpy as np

modules = ("triskele.quantum",)


def angle(a):
    return {f"p{k}": c for k, c in a} if isinstance(a, list) else a


def circuit_of(bench):
    from triskele import quantum

    circuit = quantum.Circuit(bench.num_qubits)
    for name, qubits, a in bench.gates:
        if name == "u4":
            circuit.unitary(a, qubits)
        elif name == "excite":
            circuit.excitation(angle(a), *qubits)
        elif name == "noise":
            circuit.depolarizing(a, *qubits)
        elif a is None:
            getattr(circuit, name)(*qubits)
        else:
            getattr(circuit, name)(angle(a), *qubits)
    if bench.data is not None:
        data = {f"p{k}" for k in range(len(bench.theta), len(bench.theta) + bench.data.shape[1])}
        split = sum(bool(set(i.names) & data) for i in circuit)  # encoders come first
        encoder, rest = quantum.Circuit(bench.num_qubits), quantum.Circuit(bench.num_qubits)
        encoder._instructions, rest._instructions = list(circuit)[:split], list(circuit)[split:]
        circuit = encoder.as_encoder() + rest
    return circuit


def prepare(bench, threads):
    from triskele import core, quantum

    core.set_threads(threads)
    circuit = circuit_of(bench)
    if bench.kind in ("gradient", "subspace"):
        h = [quantum.PauliSum(terms) for terms in bench.hamiltonians]
        simulator = "subspace" if bench.kind == "subspace" else "statevector"
        energy = quantum.Expectation(circuit, h if len(h) > 1 else h[0], simulator=simulator)
        order = [int(name[1:]) for name in energy.parameters]
        theta = bench.theta[order]
        values = (theta,) if bench.data is None else (theta, bench.data)
        return lambda: energy.value_and_grad(*values), lambda out: [np.asarray(out[0]), out[1][..., np.argsort(order)]]
    if bench.kind == "state":
        dtype = np.dtype(bench.dtype)
        return lambda: quantum.run(circuit, dtype=dtype), lambda result: [result.statevector()]
    if bench.kind == "density":
        return lambda: quantum.run(circuit, simulator="density_matrix"), lambda result: [result.probabilities()]
    if bench.kind == "samples":
        result, seeds = quantum.run(circuit), iter(range(10**9))
        return lambda: result.sample(bench.shots, seed=next(seeds)), lambda samples: [samples.array.mean(0)]
    circuit.measure(range(bench.num_qubits), range(bench.num_qubits))
    seeds = iter(range(10**9))
    return (
        lambda: quantum.run(circuit, simulator="trajectories", shots=bench.shots, seed=next(seeds)),
        lambda result: [result.samples.array.mean(0)],
    )


def work(bench, threads):
    """Passes over memory, gates, flops and bytes of a case as we do it, as text, and the last two as numbers."""
    from triskele import core, quantum

    core.set_threads(threads)
    circuit = circuit_of(bench)
    if bench.kind == "subspace":
        energy = quantum.Expectation(circuit, quantum.PauliSum(bench.hamiltonians[0]), simulator="subspace")
        engine = energy._engine
        pairs, entries = len(engine.turns.pairs), len(engine.matrices[2])
        # a rotation: 6 flops forward, and backward 12 on two vectors and 4 for the slope; 8 bytes of places, twice; 12
        # bytes an entry of H
        flops, moved = 22.0 * pairs + 2.0 * entries, 16.0 * pairs + 12.0 * entries
        return f"{len(engine.turns.states)} states, {pairs} pairs, {entries} entries of H", flops, moved
    if bench.kind not in ("state", "gradient"):
        return "-", 0.0, 0.0
    dtype = np.dtype(bench.dtype)
    plan = quantum.plan(circuit if bench.data is None else circuit.bind(dict.fromkeys(circuit.names, 0.1)), dtype)
    flops, moved = plan.flops, plan.bytes_moved
    if bench.kind == "gradient":
        # back on two vectors and as much again for the moments; a pass of H reads one vector and writes another for
        # each kind of string
        size, kinds = (
            2.0**bench.num_qubits,
            len(
                {tuple(s[1:] for s in text.split() if s[0] != "Z") for terms in bench.hamiltonians for text, _ in terms}
            ),
        )
        points = 1 if bench.data is None else len(bench.data)
        sweeps = 1 + 3 * len(bench.hamiltonians)
        flops = points * (sweeps * flops + 4 * kinds * size)
        moved = points * sweeps * moved
    return f"{plan.passes} x {len(plan.ops_per_pass) and plan.ops / plan.passes:.0f}", flops, moved
