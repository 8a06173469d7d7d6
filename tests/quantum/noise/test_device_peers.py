"""Noise of Qiskit's backends, against the channels, states and shots of Qiskit Aer."""

import numpy as np
import pytest

pytest.importorskip("qiskit")
pytest.importorskip("qiskit_aer")
pytestmark = [pytest.mark.peer, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

from qiskit import QuantumCircuit, transpile  # noqa: E402
from qiskit.circuit import Measure, Parameter, Reset  # noqa: E402
from qiskit.circuit.library import CCXGate, CXGate, RZGate, SXGate, XGate  # noqa: E402
from qiskit.providers.fake_provider import GenericBackendV2  # noqa: E402
from qiskit.quantum_info import DensityMatrix, SuperOp  # noqa: E402
from qiskit.transpiler import InstructionProperties, PassManager, QubitProperties, Target  # noqa: E402
from qiskit.transpiler.passes import ALAPScheduleAnalysis, ASAPScheduleAnalysis, PadDelay  # noqa: E402
from qiskit_aer import AerSimulator  # noqa: E402
from qiskit_aer.noise import NoiseModel as AerModel  # noqa: E402

from triskele import quantum  # noqa: E402
from triskele.quantum.errors import ChannelError  # noqa: E402
from triskele.quantum.noise import NoiseModel  # noqa: E402

LINE = [[0, 1], [1, 0], [1, 2], [3, 2]]


def edges_of_what_is_possible():
    """A backend whose numbers are missing, beyond what relaxation allows, or too large."""
    target = Target(
        dt=1e-9,
        qubit_properties=[
            QubitProperties(t1=50e-6, t2=130e-6, frequency=5.0e9),  # more than 2 t1
            QubitProperties(t1=None, t2=20e-6, frequency=4.8e9),
            QubitProperties(t1=30e-6, t2=None, frequency=None),
            QubitProperties(t1=None, t2=None),
        ],
    )
    one = [(40e-9, 1e-3), (40e-9, 1e-7), (None, 0.02), (1e-3, 0.9)]  # 1e-7 is below relaxation's own error
    numbers = {(q,): InstructionProperties(duration=t, error=e) for q, (t, e) in enumerate(one)}
    target.add_instruction(XGate(), numbers)
    target.add_instruction(SXGate(), numbers | {(1,): InstructionProperties(duration=1.0, error=1.0), (3,): None})
    target.add_instruction(RZGate(Parameter("t")), {(q,): InstructionProperties(0.0, 0.0) for q in range(4)})
    two = {(0, 1): (3e-7, 0.01), (1, 0): (4e-7, 0.015), (1, 2): (5e-7, 1.0), (3, 2): (0.0, None)}
    target.add_instruction(CXGate(), {q: InstructionProperties(duration=t, error=e) for q, (t, e) in two.items()})
    target.add_instruction(CCXGate(), {(2, 0, 1): InstructionProperties(duration=1e-6, error=0.05)})
    target.add_instruction(Reset(), {(q,): InstructionProperties(duration=2e-6) for q in range(4)})
    target.add_instruction(Measure(), {(q,): InstructionProperties(duration=1e-6, error=0.02 * q) for q in range(4)})
    backend = GenericBackendV2(4, seed=1)
    backend._target = target
    return backend


BACKENDS = {
    "seed 1": lambda: GenericBackendV2(4, seed=1, coupling_map=LINE),
    "seed 2": lambda: GenericBackendV2(4, seed=2, coupling_map=LINE, basis_gates=["ecr", "id", "rz", "sx", "x"]),
    "edges": edges_of_what_is_possible,
}


def reference_channels(backend, **options):
    """(name, qubits, superoperator) of all noise in Aer's model."""
    model = AerModel.from_backend(backend, **options)
    for name, rows in model._local_quantum_errors.items():
        for qubits, error in rows.items():
            yield name, qubits, SuperOp(error).data


def our_channel(model, name, qubits):
    """Superoperator of what follows an instruction."""
    circuit = quantum.Circuit(4).reset(*qubits) if name == "reset" else quantum.Circuit(4).append(name, qubits)
    total = SuperOp(np.eye(4 ** len(qubits)))
    for i in circuit.with_noise(model).instructions[1:]:
        total = total.compose(SuperOp(i.gate.superoperator()), qargs=[qubits.index(q) for q in i.qubits])
    return total.data


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("temperature", [0.0, 0.05])
def test_channels_are_those_of_aer(name, temperature):
    backend = BACKENDS[name]()
    model = NoiseModel.from_device(backend, temperature=temperature)
    # Aer's h/k_B has seven digits; its temperatures are in mK
    atol = 1e-12 if temperature == 0 else 1e-9
    count = 0
    for gate, qubits, reference in reference_channels(backend, temperature=1e3 * temperature):
        np.testing.assert_allclose(our_channel(model, gate, qubits), reference, atol=atol)
        count += 1
    assert count >= 14
    assert len(quantum.Circuit(4).rz(0.3, 2).with_noise(model)) == 1  # a virtual gate
    theirs = AerModel.from_backend(backend)._local_readout_errors
    for q, error in NoiseModel.from_device(backend.target)._readout.items():
        np.testing.assert_allclose(error.matrix.T, theirs[(q,)].probabilities, atol=1e-15)


def random_circuit(backend, seed, measured=False):
    """A Qiskit circuit in the gates of a backend, with resets and idle qubits."""
    rng = np.random.default_rng(seed)
    circuit = QuantumCircuit(4)
    for _ in range(30):
        names = [n for n in backend.target.operation_names if n not in ("measure", "delay")]
        name = names[rng.integers(len(names))]
        places = sorted(backend.target[name])
        op = backend.target.operation_from_name(name)
        if op.params:
            op = type(op)(rng.uniform(-3, 3))
        circuit.append(op, places[rng.integers(len(places))])
    if measured:
        circuit.measure_all(add_bits=True)
    return circuit


def evolved(circuit, errors):
    """Density matrix of a Qiskit circuit with Aer's channels, one after the other."""
    rho = DensityMatrix.from_label("0000")
    for item in circuit.data:
        qubits = tuple(circuit.find_bit(b).index for b in item.qubits)
        name = item.operation.name
        rho = rho.reset(qubits) if name == "reset" else rho.evolve(item.operation, qubits)
        if (error := errors.get(name, {}).get(qubits)) is not None:
            rho = rho.evolve(SuperOp(error), qubits)
    return rho.data


@pytest.mark.parametrize("seed", range(20))
def test_density_matrices_are_those_of_aer(seed):
    backend = list(BACKENDS.values())[seed % 3]()
    circuit, theirs = random_circuit(backend, seed), AerModel.from_backend(backend)
    mine = quantum.Circuit.from_qiskit(circuit).with_noise(NoiseModel.from_device(backend))
    rho = quantum.run(mine, simulator="density_matrix").density_matrix()
    np.testing.assert_allclose(rho, evolved(circuit, theirs._local_quantum_errors), atol=1e-12)
    circuit.save_density_matrix()
    simulator = AerSimulator(method="density_matrix", noise_model=theirs)
    # the simulator's density matrices differ from the product of its channels by up to 1e-9
    np.testing.assert_allclose(rho, simulator.run(circuit).result().data()["density_matrix"].data, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_shots_are_those_of_aer(seed):
    backend, shots = GenericBackendV2(4, seed=seed, coupling_map=LINE), 200_000
    circuit = random_circuit(backend, seed, measured=True)
    mine = quantum.Circuit.from_qiskit(circuit).with_noise(NoiseModel.from_device(backend))
    ours = quantum.run(mine, simulator="density_matrix").sample(shots, seed=1).counts()
    simulator = AerSimulator(method="density_matrix", noise_model=AerModel.from_backend(backend))
    theirs = simulator.run(circuit, shots=shots, seed_simulator=1).result().get_counts()
    for bits in ours | theirs:
        a, b = ours.get(bits, 0), theirs.get(bits, 0)
        assert abs(a - b) < 5 * np.sqrt(a + b) + 1  # five standard deviations


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("idle", ["alap", "asap"])
def test_idle_qubits_relax_as_on_qiskit_schedules(idle, seed):
    backend = GenericBackendV2(4, seed=seed, coupling_map=LINE)
    circuit = random_circuit(backend, seed)
    circuit.barrier()  # all wait for the last, which Qiskit's padding always lets them do
    analysis = {"alap": ALAPScheduleAnalysis, "asap": ASAPScheduleAnalysis}[idle]
    scheduled = PassManager([analysis(target=backend.target), PadDelay(target=backend.target)]).run(circuit)
    assert scheduled.count_ops()["delay"] > 3
    scheduled.save_density_matrix()
    simulator = AerSimulator(method="density_matrix", noise_model=AerModel.from_backend(backend, temperature=80))
    reference = simulator.run(scheduled).result().data()["density_matrix"].data
    model = NoiseModel.from_device(backend, idle=idle, temperature=0.08)
    mine = quantum.Circuit.from_qiskit(circuit).with_noise(model)
    rho = quantum.run(mine, simulator="density_matrix").density_matrix()
    np.testing.assert_allclose(rho, reference, atol=1e-8)  # of Aer's h/k_B


def test_transpiled_circuits_run_and_others_are_refused():
    backend = GenericBackendV2(5, seed=3, coupling_map=[[0, 1], [1, 2], [2, 3], [3, 4]])
    ghz = quantum.ghz(5)
    model = NoiseModel.from_device(backend)
    with pytest.raises(ChannelError, match=r"the device has no h, but cx, id, rz, sx, x \(quantum.decompose"):
        ghz.with_noise(model)
    star = quantum.decompose(quantum.Circuit(5).h(0).cx(0, 4), ["rz", "sx", "cx"])
    with pytest.raises(ChannelError, match=r"no cx on \[0, 4\], but on \[0, 1\], .*qiskit.transpile"):
        star.with_noise(model)
    routed = quantum.Circuit.from_qiskit(transpile(star.to_qiskit(), backend, seed_transpiler=1))
    assert routed.with_noise(model).counts()["thermal_relaxation"] > 3
    with pytest.raises(ChannelError, match="a number for each of 6 qubits, got 5"):
        quantum.Circuit(6).x(0).with_noise(model)


def test_backends_without_numbers_are_refused():
    with pytest.raises(ChannelError, match="reports no errors"):
        NoiseModel.from_device(AerSimulator())
