"""Pickled and deep-copied objects do what the originals do."""

import copy
import pickle

import numpy as np
import pytest

from triskele import quantum
from triskele.quantum import gates, mitigation, noise
from triskele.quantum.gates.instruction import BARRIER, MEASURE, RESET

COPY = {"pickle": lambda x: pickle.loads(pickle.dumps(x)), "deepcopy": copy.deepcopy}
every_copy = pytest.mark.parametrize("copied", COPY.values(), ids=COPY)


CIRCUIT = quantum.Circuit(2).ry("a", 0).cx(0, 1)
H = quantum.tfim(2, 1.0, 0.5)


def dynamic():
    circuit = quantum.Circuit(3, 3).h(0).barrier().u(0.1, 0.2, 0.3, 1).measure(0, 0)
    with circuit.when(0, 1):
        circuit.x(1)
        circuit.reset(0)
    return circuit.bit_flip(0.2, 2).measure_all()


@every_copy
def test_every_gate_and_operation_is_found_by_its_name(copied):
    known = [gates.find(name) for name in [*gates.names(), "rxyz", "double_excitation_3"]]
    for gate in [*known, BARRIER, MEASURE, RESET]:
        assert copied(gate) is gate
    own = quantum.Circuit(1).unitary(np.diag([1, 1j]), 0).instructions[0].gate
    assert copied(own) == own


@every_copy
@pytest.mark.parametrize("simulator", ["statevector", "trajectories", "density_matrix", "stabilizer"])
def test_circuits_that_measure_reset_and_decide(copied, simulator):
    circuit = dynamic()
    if simulator == "stabilizer":
        circuit = circuit._with(i for i in circuit if i.gate.name != "u")
    found = {True: None, False: None}
    for again in found:
        other = copied(circuit)
        assert other == circuit and other.depth() == circuit.depth() and other.is_unitary == circuit.is_unitary
        # the second copy is one of a circuit that has run
        found[again] = quantum.run(other, simulator=simulator, shots=50, seed=3).counts()
        assert found[again] == quantum.run(circuit, simulator=simulator, shots=50, seed=3).counts()
    assert quantum.decompose(copied(circuit)) == quantum.decompose(circuit)
    assert copied(circuit).to_json() == circuit.to_json()


@every_copy
def test_circuits_of_one_simulator_alone(copied):
    circuit = copied(quantum.uccsd(2, 4))
    theta = np.full(len(circuit.parameters), 0.1)
    value = quantum.run(circuit, theta, simulator="subspace").expectation("Z0")
    assert value == pytest.approx(quantum.run(circuit, theta).expectation("Z0"), abs=1e-12)


@every_copy
def test_noise_models_keep_rules_for_measurements_and_resets(copied):
    model = noise.NoiseModel().add(noise.bit_flip(0.25), gates=["measure", "reset"], before=True)
    model.relaxation(50.0, 60.0, {"measure": 10.0, "reset": 20.0}).readout(noise.ReadoutError(0.1, 0.2))
    circuit = quantum.Circuit(2).x(0).reset(0).measure_all()
    noisy = circuit.with_noise(model)
    # flips before reset and both measurements, relaxation during each of the three and while qubit 1 waits for none
    assert noisy.counts() == {
        "x": 1,
        "reset": 1,
        "measure": 2,
        "bit_flip": 3,
        "thermal_relaxation": 3,
        "readout_error": 2,
    }
    assert circuit.with_noise(copied(model)) == noisy == copied(noisy)


THINGS = {
    **{
        simulator: (
            lambda s=simulator: quantum.run(CIRCUIT, [np.pi], simulator=s, shots=20),
            lambda r: (r.counts(), r.expectation("Z0 Z1")),
        )
        for simulator in ("statevector", "density_matrix", "trajectories", "stabilizer")
    },
    "subspace": (
        lambda: quantum.run(quantum.Circuit(2).x(0).givens("a", 0, 1), [0.3], simulator="subspace", shots=20),
        lambda r: (r.counts(), r.expectation("Z0")),
    ),
    "counts": (lambda: quantum.run(dynamic(), shots=20), lambda r: r.counts()),
    "samples": (lambda: quantum.run(CIRCUIT, [0.3]).sample(20), lambda s: s.counts()),
    **{
        f"expectation, {simulator}": (
            lambda s=simulator, n=shots: quantum.Expectation(CIRCUIT, H, simulator=s, shots=n),
            lambda e: e(np.array([0.3])),
        )
        for simulator, shots in (("statevector", None), ("density_matrix", None), ("trajectories", 20))
    },
    "VQE": (lambda: quantum.VQE(H, CIRCUIT, initial="random"), lambda v: v.run().energy),
    "result of VQE": (lambda: quantum.VQE(H, CIRCUIT, initial="random").run(), lambda r: r.theta.tolist()),
    "QAOA": (lambda: quantum.QAOA(quantum.maxcut([(0, 1), (1, 2)]), layers=1), lambda q: q.run().bits),
    "kernel": (
        lambda: quantum.FidelityKernel(quantum.Circuit(1).ry("x", 0).as_encoder()),
        lambda k: k(np.array([[0.1], [0.4]])).tolist(),
    ),
    "molecule": (lambda: quantum.molecules.load("H2"), lambda m: (m.fci_energy, m.hamiltonian)),
    "readout": (lambda: mitigation.Readout([[[0.9, 0.2], [0.1, 0.8]]]), lambda r: r.matrices.tolist()),
}


@every_copy
@pytest.mark.parametrize(("make", "ask"), THINGS.values(), ids=THINGS)
def test_what_a_copy_answers(copied, make, ask):
    thing = make()
    other = copied(thing)  # before the original is asked: shots continue a stream
    assert repr(ask(other)) == repr(ask(thing))
