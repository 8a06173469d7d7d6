"""Channels: definitions, forms, reference density matrices of Qiskit and Cirq, and bad input."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.density_matrix import density_matrix
from triskele import quantum
from triskele.quantum import noise
from triskele.quantum.errors import ChannelError
from triskele.quantum.noise.channel import kraus_of_choi, pauli_strings
from triskele.quantum.noise.channels import CHANNELS

DATA = Path(__file__).parents[2] / "data" / "quantum" / "noise"
CASES = json.loads((DATA / "noise_cases.json").read_text())
DENSITY_MATRICES = np.load(DATA / "noise_density_matrices.npz")
EXAMPLES = {
    "bit_flip": (0.2,),
    "phase_flip": (0.15,),
    "bit_phase_flip": (0.12,),
    "depolarizing": (0.1,),
    "pauli_depolarizing": (0.1,),
    "pauli_channel": ({"X": 0.05, "Y": 0.1, "Z": 0.2},),
    "amplitude_damping": (0.3,),
    "generalized_amplitude_damping": (0.3, 0.7),
    "phase_damping": (0.25,),
    "thermal_relaxation": (50.0, 70.0, 20.0),
    "kraus": ([[[1, 0], [0, 0.8]], [[0, 0.6], [0, 0]]],),
}


def reference_circuit(case):
    """A stored case as a circuit, its channels made by our constructors (Kraus operators for the one that has none)."""
    circuit = quantum.Circuit(case["n"])
    for name, qubits, params in case["ops"]:
        kind = name.removeprefix("channel:")
        if kind == name:
            circuit.append(name, qubits, params)
        elif kind == "pauli":
            circuit.pauli_channel(dict(zip("XYZ", params, strict=True)), *qubits)
        elif kind == "reset":
            operators = np.array(CASES["kraus"]["reset"]["ops"])
            circuit.kraus(operators[..., 0] + 1j * operators[..., 1], *qubits)
        else:
            kind = {
                "depolarizing_pauli": "pauli_depolarizing",
                "depolarizing2_pauli": "pauli_depolarizing",
                "depolarizing_mix": "depolarizing",
            }.get(kind, kind)
            getattr(circuit, kind)(*params, *qubits)
    return circuit


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda c: c["name"])
def test_reference_density_matrices(case):
    rho = density_matrix(reference_circuit(case))
    np.testing.assert_allclose(rho, DENSITY_MATRICES[case["name"]], atol=1e-13)


def test_every_channel_has_an_example():
    assert set(EXAMPLES) == set(CHANNELS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_forms_of_a_channel_agree(name):
    channel = getattr(noise, name)(*EXAMPLES[name])
    size = 1 << channel.num_qubits
    completeness = sum(k.conj().T @ k for k in channel.kraus)
    np.testing.assert_allclose(completeness, np.eye(size), atol=1e-12)
    rng = np.random.default_rng(1)
    a = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
    rho = a @ a.conj().T
    rho /= np.trace(rho)
    after = channel(rho)
    np.testing.assert_allclose(channel.superoperator() @ rho.T.reshape(-1), after.T.reshape(-1), atol=1e-14)
    choi = channel.choi()
    assert np.linalg.eigvalsh(choi).min() > -1e-14  # completely positive
    np.testing.assert_allclose(np.einsum("iajb,ij->ab", choi.reshape((size,) * 4), rho), after, atol=1e-14)
    strings = pauli_strings(channel.num_qubits)
    vector = np.einsum("sij,ji->s", strings, rho).real
    np.testing.assert_allclose(
        channel.transfer_matrix() @ vector, np.einsum("sij,ji->s", strings, after).real, atol=1e-14
    )
    np.testing.assert_allclose(noise.Channel("again", kraus_of_choi(choi))(rho), after, atol=1e-14)
    if channel.mixture is not None:
        probabilities, unitaries = channel.mixture
        assert probabilities.sum() == pytest.approx(1.0, abs=1e-15)
        np.testing.assert_allclose(
            np.einsum("k,kij,jl,kml->im", probabilities, unitaries, rho, unitaries.conj()), after, atol=1e-14
        )
    if (pauli := channel.pauli_probabilities) is not None:
        np.testing.assert_allclose(
            np.einsum("s,sij,jl,sml->im", pauli, strings, rho, strings.conj()), after, atol=1e-14
        )


def test_which_channels_are_mixtures():
    mixtures = {name for name in EXAMPLES if getattr(noise, name)(*EXAMPLES[name]).mixture is not None}
    assert mixtures == {
        "bit_flip",
        "phase_flip",
        "bit_phase_flip",
        "depolarizing",
        "pauli_depolarizing",
        "pauli_channel",
    }
    half = np.sqrt(0.5)
    hadamard_half_the_time = noise.kraus([half * np.eye(2), half * half * np.array([[1, 1], [1, -1]])])
    assert hadamard_half_the_time.mixture is not None and hadamard_half_the_time.pauli_probabilities is None
    dephasing_in_disguise = noise.kraus(half * np.array([np.diag([1, 1j]), np.diag([1, -1j])]))  # Z half the time
    np.testing.assert_allclose(dephasing_in_disguise.pauli_probabilities, [0.5, 0, 0.5, 0], atol=1e-15)


@given(st.floats(0, 1), st.integers(1, 3))
def test_two_conventions_of_depolarizing(p, q):
    ours, other = noise.depolarizing(p, q), noise.pauli_depolarizing(p * (1 - 0.25**q), q)
    np.testing.assert_allclose(ours.pauli_probabilities, other.pauli_probabilities, atol=1e-15)
    rho = np.zeros((1 << q, 1 << q))
    rho[0, 0] = 1.0
    np.testing.assert_allclose(ours(rho), (1 - p) * rho + p * np.eye(1 << q) / (1 << q), atol=1e-14)


def test_largest_depolarizing_has_no_identity():
    assert noise.depolarizing(4 / 3).pauli_probabilities[0] == pytest.approx(0.0, abs=1e-15)


@settings(max_examples=30)
@given(st.floats(0.1, 100), st.floats(0.01, 2), st.floats(0, 200), st.floats(0, 1))
def test_thermal_relaxation_is_exponential(t1, ratio, time, excited):
    channel = noise.thermal_relaxation(t1, ratio * t1, time, excited)
    after = channel(np.array([[0.25, 0.4], [0.4, 0.75]]))
    assert after[1, 1].real == pytest.approx(excited + (0.75 - excited) * np.exp(-time / t1), abs=1e-12)
    assert after[0, 1] == pytest.approx(0.4 * np.exp(-time / (ratio * t1)), abs=1e-12)
    twice = channel.then(channel)
    np.testing.assert_allclose(
        twice.transfer_matrix(),
        noise.thermal_relaxation(t1, ratio * t1, 2 * time, excited).transfer_matrix(),
        atol=1e-12,
    )


def test_composition_and_tensor_product():
    a, b = noise.amplitude_damping(0.3), noise.bit_flip(0.2)
    np.testing.assert_allclose(a.then(b).superoperator(), b.superoperator() @ a.superoperator(), atol=1e-14)
    np.testing.assert_allclose(
        a.tensor(b).transfer_matrix(), np.kron(b.transfer_matrix(), a.transfer_matrix()), atol=1e-14
    )
    depolarized = noise.depolarizing(0.1, 2)
    assert len(depolarized.then(depolarized).kraus) <= 16
    with pytest.raises(ChannelError, match="same number of qubits, got 1 and 2"):
        a.then(depolarized)


def test_methods_of_circuits():
    circuit = (
        quantum.Circuit(3)
        .h(0)
        .depolarizing(0.1, 0)
        .depolarizing(0.1, 0, 2)
        .thermal_relaxation(50, 70, 10, 1, excited_population=0.1)
    )
    assert [(i.gate.name, i.gate.num_qubits, i.qubits) for i in circuit][1:] == [
        ("depolarizing", 1, (0,)),
        ("depolarizing", 2, (0, 2)),
        ("thermal_relaxation", 1, (1,)),
    ]
    assert not circuit.is_unitary
    assert circuit == circuit.copy() and noise.bit_flip(0.1) != noise.bit_flip(0.2)
    assert noise.depolarizing(0.01, 10).pauli_probabilities.size == 4**10  # no matrix is made


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: noise.bit_flip(1.5), "bit_flip: p must be a number from 0 to 1, got 1.5"),
        (lambda: noise.bit_flip("a"), "bit_flip: p must be a number"),
        (lambda: noise.bit_flip(float("nan")), "bit_flip: p must be a number from 0 to 1, got nan"),
        (lambda: noise.depolarizing(1.2, 2), "depolarizing: p must be a number from 0 to 1.0666"),
        (lambda: noise.pauli_depolarizing(1.2), "from 0 to 1, got 1.2"),
        (lambda: noise.amplitude_damping(-0.1), "gamma must be a number from 0 to 1, got -0.1"),
        (lambda: noise.pauli_channel({"X": 0.6, "Y": 0.6}), "must sum to at most 1, got 1.2"),
        (lambda: noise.pauli_channel({"X": 0.1, "YY": 0.1}), "keys must be strings"),
        (lambda: noise.pauli_channel({"A": 0.1}), "letters I, X, Y or Z"),
        (lambda: noise.thermal_relaxation(10, 21, 1), "t2 must be at most 2 t1, got t1 = 10, t2 = 21"),
        (lambda: noise.thermal_relaxation(0, 1, 1), "t1 must be above 0"),
        (lambda: noise.thermal_relaxation(1, 1, -1), "time must be a number >= 0"),
        (lambda: noise.kraus([[[1, 0], [0, 0.9]]]), "preserve the trace, but sum K.* differs from 1 by 0.19"),
        (lambda: noise.kraus([np.eye(3)]), r"size 2\*\*q, got 3"),
        (lambda: noise.kraus([np.eye(2), np.eye(4)]), "matrices of one size"),
        (lambda: noise.kraus([]), "matrices of one size"),
        (lambda: noise.kraus([[[np.inf, 0], [0, 1]]]), "must be finite"),
        (lambda: noise.depolarizing(0.1, 8).kraus, "on 8 qubits are too large"),
        (lambda: noise.Channel.pauli("p", [0.5, 0.4, 0, 0]), "must sum to 1, got 0.9"),
        (lambda: noise.Channel.pauli("p", [0.5, 0.5]), r"4\*\*q probabilities"),
        (lambda: quantum.Circuit(2).bit_flip(0.1, 0, 1), "acts on 1 qubits, got 2"),
        (lambda: quantum.Circuit(2).depolarizing(0.1), "1 numbers and then qubits"),
        (lambda: quantum.Circuit(2).kraus([np.eye(2)], 0, 1), "acts on 1 qubits"),
    ],
)
def test_bad_channels_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def names(circuit):
    return [("c" * len(i.controls) + i.gate.name, (*i.controls, *i.qubits)) for i in circuit]


def test_noise_model_by_gate_and_qubit():
    model = noise.NoiseModel()
    model.add(noise.depolarizing(0.01, 2), gates=["cx"]).add(noise.bit_flip(0.1), gates="h", qubits=0).add(
        noise.phase_flip(0.2), "rz", before=True
    )
    circuit = quantum.Circuit(3).h(0).h(1).cx(1, 2).rz("a", 2).cz(0, 1).barrier().measure(0)
    assert names(circuit.with_noise(model)) == [
        ("h", (0,)),
        ("bit_flip", (0,)),
        ("h", (1,)),
        ("cx", (1, 2)),
        ("depolarizing", (1, 2)),
        ("phase_flip", (2,)),
        ("rz", (2,)),
        ("cz", (0, 1)),
        ("barrier", (0, 1, 2)),
        ("measure", (0,)),
    ]
    assert names(circuit) == names(circuit.with_noise(noise.NoiseModel()))
    assert circuit.with_noise(model).parameters == ("a",)


def test_noise_model_on_every_gate_and_its_pairs():
    model = (
        noise.NoiseModel()
        .add(noise.bit_flip(0.1))
        .add(noise.depolarizing(0.1, 2), qubits=[1, 0])
        .add(noise.phase_flip(0.1), "measure", before=True)
    )
    noisy = quantum.Circuit(2).x(0).cx(0, 1).cx(1, 0).measure(1).with_noise(model)
    assert [n for n in names(noisy) if n[0] not in ("x", "cx")] == [
        ("bit_flip", (0,)),
        ("bit_flip", (0,)),
        ("bit_flip", (1,)),
        ("bit_flip", (1,)),
        ("bit_flip", (0,)),
        ("depolarizing", (1, 0)),
        ("phase_flip", (1,)),
        ("measure", (1,)),
    ]


def test_controlled_gates_are_found_by_any_of_their_names():
    for gate in ("cx", "cnot"):
        assert (
            "bit_flip"
            in quantum.Circuit(2).cx(0, 1).with_noise(noise.NoiseModel().add(noise.bit_flip(0.1), gate)).counts()
        )
    model = noise.NoiseModel().add(noise.bit_flip(0.1), "x")
    assert "bit_flip" not in quantum.Circuit(2).cx(0, 1).with_noise(model).counts()
    conditional = quantum.Circuit(1).measure(0)
    with conditional.when(0):
        conditional.x(0)
    assert conditional.with_noise(model).instructions[-1].condition is not None  # no gate, no noise


def test_relaxation_during_gates_and_while_waiting():
    model = noise.NoiseModel().relaxation(50.0, [70.0, 60.0], {"x": 1.0, "cx": 4.0})
    noisy = quantum.Circuit(2).x(0).x(0).cx(0, 1).barrier().x(1).barrier().with_noise(model)
    total = {0: 0.0, 1: 0.0}
    for i in noisy:
        if i.gate.name == "thermal_relaxation":
            total[i.qubits[0]] -= np.log(i.gate(np.full((2, 2), 0.5))[0, 1].real * 2) * (70.0, 60.0)[i.qubits[0]]
    # 2 + 4 + 1 of waiting at the last barrier; 2 of waiting + 4 + 1
    assert total == pytest.approx({0: 7.0, 1: 7.0}, abs=1e-10)


def test_readout_errors_follow_measurements():
    model = noise.NoiseModel().readout(noise.ReadoutError(0.1, 0.2)).readout(noise.ReadoutError(0.3, 0.4), 1)
    noisy = quantum.Circuit(2).measure_all().with_noise(model)
    assert [(i.gate, i.clbits) for i in noisy if i.gate.name == "readout_error"] == [
        (noise.ReadoutError(0.1, 0.2), (0,)),
        (noise.ReadoutError(0.3, 0.4), (1,)),
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: noise.NoiseModel().add(0.1), "channel must be a Channel, got float 0.1"),
        (lambda: noise.NoiseModel().add(noise.bit_flip(0.1), "nothing"), "unknown gate 'nothing'"),
        (
            lambda: noise.NoiseModel().add(noise.depolarizing(0.1, 2), qubits=[0]),
            "depolarizing acts on 2 qubits, got 1",
        ),
        (
            lambda: quantum.Circuit(1).x(0).with_noise(noise.NoiseModel().add(noise.depolarizing(0.1, 2), "x")),
            "acts on 2 qubits, but x on 1",
        ),
        (lambda: noise.NoiseModel().readout(0.1), "error must be a ReadoutError, got float 0.1"),
        (lambda: noise.ReadoutError(1.1, 0), "p01 must be a number from 0 to 1, got 1.1"),
        (lambda: noise.NoiseModel().relaxation(10, 30, {"x": 1}), "t2 must be at most 2 t1"),
        (
            lambda: noise.NoiseModel().relaxation([10, 10], [5], {"x": 1}),
            "all sequences must have a value for each qubit",
        ),
        (
            lambda: quantum.Circuit(2).x(0).with_noise(noise.NoiseModel().relaxation([10], [5], {"x": 1})),
            "each of 2 qubits, got 1",
        ),
    ],
)
def test_bad_models_say_what_is_wrong(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("name", EXAMPLES)
def test_noisy_circuits_as_json(name):
    circuit = (
        quantum.Circuit(3).h(0).append(getattr(noise, name)(*EXAMPLES[name]), 1).depolarizing(0.1, 0, 2).measure_all()
    )
    circuit = circuit.with_noise(noise.NoiseModel().readout(noise.ReadoutError(0.1, 0.2)))
    again = quantum.Circuit.from_json(circuit.to_json())
    assert again == circuit and again.draw() == circuit.draw()


def test_gates_wider_than_the_channels_are_refused():
    model = noise.NoiseModel().add(noise.depolarizing(0.001)).add(noise.depolarizing(0.01, 2))
    molecule = quantum.molecules.load("H2")
    ansatz = quantum.uccsd(2, 4)
    for circuit, name in (
        (ansatz, "single_excitation_1"),
        (quantum.Circuit(3).ccx(0, 1, 2), "ccx"),
        (quantum.Circuit(3).cswap(0, 1, 2), "cswap"),
    ):
        with pytest.raises(ChannelError, match=f"depolarizing acts on 2 qubits, but {name} on .*decompose"):
            circuit.with_noise(model)
    # what the message says to do
    theta = np.full(len(ansatz.parameters), 0.1)
    noisy = quantum.decompose(ansatz, ["u", "cx"]).with_noise(model)
    assert noisy.parameters == ansatz.parameters
    ideal, found = (
        quantum.run(c, theta, simulator="density_matrix").expectation(molecule.hamiltonian) for c in (ansatz, noisy)
    )
    assert abs(found - ideal) > 0.01
    ccx = quantum.Circuit(3).ccx(0, 1, 2)
    three = noise.depolarizing(0.02, 3)
    assert ccx.with_noise(noise.NoiseModel().add(noise.depolarizing(0.01, 2)).add(three)).counts() == {
        "ccx": 1,
        three.name: 1,
    }
    assert ccx.with_noise(
        noise.NoiseModel().add(noise.depolarizing(0.01, 2)).add(noise.bit_flip(0.1), gates=["ccx"])
    ).counts() == {"ccx": 1, "bit_flip": 3}
    # channels on one qubit act on each of any gate's; channels on a pair concern the gates that act on it
    assert ccx.with_noise(noise.NoiseModel().add(noise.bit_flip(0.1))).counts() == {"ccx": 1, "bit_flip": 3}
    assert ccx.with_noise(noise.NoiseModel().add(noise.depolarizing(0.01, 2), qubits=(3, 4))).counts() == {"ccx": 1}
    with pytest.raises(ChannelError, match="acts on 2 qubits"):
        ccx.with_noise(noise.NoiseModel().add(noise.depolarizing(0.01, 2), qubits=(1, 0)))


def test_noise_keeps_parameters_data_and_bits():
    circuit = (
        quantum.Circuit(2, 3)
        .ry("b", 0)
        .rz("a", 1)
        .inverse()
        .extend(quantum.Circuit(2).rx("x", 0).as_encoder())
        .measure(0, 2)
    )
    noisy = circuit.with_noise(noise.NoiseModel().add(noise.bit_flip(0.1)).readout(noise.ReadoutError(0.1, 0.1)))
    assert (
        (noisy.parameters, noisy.data, noisy.num_clbits)
        == (circuit.parameters, circuit.data, circuit.num_clbits)
        == (("b", "a"), ("x",), 3)
    )
