"""Mitigated values are nearer to the truth than those they come from."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins.statevector import unitary
from triskele import quantum
from triskele.quantum import mitigation, noise
from triskele.quantum.errors import CircuitError, SimulatorError

H = "Z0 Z1 + X1 X2 + 0.5 Z2"


def ansatz(n=3, seed=0):
    rng = np.random.default_rng(seed)
    circuit = quantum.Circuit(n)
    for _ in range(3):
        for q in range(n):
            circuit.ry(rng.normal(), q).rz(rng.normal(), q)
        for q in range(n - 1):
            circuit.cx(q, q + 1)
    return circuit


def noisy(model, h=H):
    return lambda circuit: quantum.run(circuit.with_noise(model), simulator="density_matrix").expectation(h)


@pytest.mark.parametrize("scale", [1, 1.5, 2, 3, 4.2, 5])
def test_folded_circuits_do_the_same_with_more_gates(scale):
    circuit = ansatz()
    folded = mitigation.fold(circuit, scale)
    np.testing.assert_allclose(unitary(folded), unitary(circuit), atol=1e-13)
    assert abs(len(folded) - scale * len(circuit)) <= 1
    for name, number in circuit.counts().items():  # within one fold: inverses of rotations have their names
        assert abs(folded.counts()[name] - scale * number) <= 2


@given(st.lists(st.sampled_from(["x", "h", "cx", "rz", "t"]), min_size=1, max_size=12), st.floats(1, 9))
def test_any_scale_is_reached_to_within_a_gate(names, scale):
    circuit = quantum.Circuit(2)
    for name in names:
        circuit.append(name, (0, 1)[: 1 + (name == "cx")], [0.3] * (name == "rz"))
    circuit.barrier()
    again = circuit.repeat(2)  # which has the same instructions twice
    for c in (circuit, again):
        folded = mitigation.fold(c, scale)
        n = len(names) * len(c) // len(circuit)
        assert abs((len(folded) - len(c) + n) / n - scale) <= 1 / n + 1e-12
        np.testing.assert_allclose(unitary(folded), unitary(c), atol=1e-11)


@pytest.mark.parametrize("scales", [(1, 2, 3), (1, 1.5, 2), (1, 2), (1, 2, 3, 4), (4, 2.2, 1)])
def test_extrapolation_uses_the_scales_that_were_reached(scales):
    """Gates of one kind with depolarizing noise: values decay exponentially with the number of gates."""
    model = noise.NoiseModel().add(noise.depolarizing(0.05))
    circuit = quantum.Circuit(1)
    for angle in (0.3, 0.5, -0.2):
        circuit.ry(angle, 0)
    seen = []

    def evaluate(c):
        seen.append(len(c) / 3)
        return noisy(model, "Z0")(c)

    found = mitigation.zero_noise(circuit, evaluate, scales, mitigation.exponential)
    assert found == pytest.approx(np.cos(0.6), abs=1e-9)
    assert len(seen) == len(set(seen)) and all(min(abs(s - r) for r in seen) <= 1 / 3 + 1e-12 for s in scales)
    with pytest.raises(CircuitError, match="different numbers of gates, got .1, 1.1. for 3 gates"):
        mitigation.zero_noise(circuit, evaluate, (1, 1.1))


def test_scales_that_fold_all_gates_equally_are_better_for_few_gates_of_different_noise():
    model = noise.NoiseModel().add(noise.depolarizing(0.02)).add(noise.depolarizing(0.06, 2))
    circuit, h = quantum.Circuit(2).ry(0.9, 0).cx(0, 1).rz(0.3, 1), "Z0 Z1 + 0.5 X0 X1"
    exact = quantum.run(circuit).expectation(h)

    def error(*scales):
        return abs(mitigation.zero_noise(circuit, noisy(model, h), scales) - exact)

    assert error(1, 3, 5) < 0.02 < abs(noisy(model, h)(circuit) - exact) / 5 < error(1, 2, 3, 4) / 5


def test_folding_keeps_parameters_and_measurements():
    circuit = quantum.Circuit(2).rx("a", 0).cx(0, 1).measure_all()
    folded = mitigation.fold(circuit, 3)
    assert (
        folded.parameters == ("a",)
        and [i.gate.name for i in folded][-2:] == ["measure", "measure"]
        and len(folded) == 8
    )


@pytest.mark.parametrize(
    "model",
    [
        noise.NoiseModel().add(noise.depolarizing(0.002)).add(noise.depolarizing(0.01, 2), "cx"),
        noise.NoiseModel().add(noise.amplitude_damping(0.003)).add(noise.phase_damping(0.004)),
    ],
    ids=["depolarizing", "damping"],
)
@pytest.mark.parametrize("extrapolate", [mitigation.richardson, mitigation.linear, mitigation.exponential])
def test_extrapolated_values_are_nearer(model, extrapolate):
    circuit = ansatz()
    exact = quantum.run(circuit).expectation(H)
    found = mitigation.zero_noise(circuit, noisy(model), (1, 3, 5), extrapolate)
    assert abs(found - exact) < abs(noisy(model)(circuit) - exact) / 3


def test_extrapolation_from_shots():
    """Estimates with their statistical errors are values too."""
    model = noise.NoiseModel().add(noise.depolarizing(0.02))
    circuit = quantum.Circuit(2).h(0).cx(0, 1)

    def sampled(c):
        return quantum.run(c.with_noise(model), simulator="trajectories", shots=4000, seed=len(c)).expectation("Z0 Z1")

    assert abs(mitigation.zero_noise(circuit, sampled, (1, 3, 5), mitigation.linear) - 1) < abs(
        sampled(circuit).value - 1
    )


@given(st.lists(st.floats(-2, 2), min_size=3, max_size=3), st.floats(0.01, 0.5), st.floats(0.2, 2))
def test_each_extrapolation_is_exact_for_its_own_functions(c, rate, size):
    x = np.array([1.0, 2.0, 3.0, 4.0])
    assert mitigation.richardson(x, c[0] + c[1] * x + c[2] * x**2) == pytest.approx(c[0], abs=1e-11)
    assert mitigation.linear(x, c[0] + c[1] * x) == pytest.approx(c[0], abs=1e-12)
    assert mitigation.exponential(x, -size * np.exp(-rate * x)) == pytest.approx(-size, abs=1e-8)
    assert mitigation.exponential(x, 0.3 + size * np.exp(-rate * x), 0.3) == pytest.approx(0.3 + size, abs=1e-8)
    # from below the asymptote
    assert mitigation.exponential(x, 0.3 - size * np.exp(-rate * x), 0.3) == pytest.approx(0.3 - size, abs=1e-8)


def test_fitted_asymptote():
    x = np.array([1.0, 2.0, 3.0, 5.0])
    assert mitigation.exponential(x, 0.25 + 0.5 * np.exp(-0.4 * x), None) == pytest.approx(0.75, abs=1e-6)


def bad_readout(n):
    model = noise.NoiseModel()
    for q in range(n):
        model.readout(noise.ReadoutError(0.05 + 0.01 * q, 0.02 + 0.005 * q), q)
    return model


@pytest.mark.parametrize("method", ["inverse", "least_squares"])
def test_corrected_readings_are_nearer(method):
    n, shots = 4, 50_000
    model = bad_readout(n)

    def run(circuit):
        return quantum.run(circuit.with_noise(model), simulator="density_matrix", shots=shots, seed=7)

    readout = mitigation.Readout.calibrated(run, n)
    circuit = ansatz(n)
    exact = quantum.run(circuit).probabilities()
    samples = run(circuit.measure_all()).sample()
    read = np.bincount(samples.indices, minlength=1 << n) / shots
    corrected = getattr(readout, method)(read)
    assert np.abs(corrected - exact).sum() < np.abs(read - exact).sum() / 3
    assert corrected.sum() == pytest.approx(1.0, abs=1e-12)
    truth = quantum.run(ansatz(n)).expectation("Z0 Z2 Z3")
    plain = samples.expectation("Z0 Z2 Z3").value
    assert abs(readout.expectation(samples, [0, 2, 3]) - truth) < abs(plain - truth) / 3


@given(st.integers(0, 2**32))
def test_least_squares_gives_probabilities(seed):
    """Exact readings come back; others give probabilities that no other probabilities beat."""
    rng = np.random.default_rng(seed)
    readout = mitigation.Readout([[[1 - a, b], [a, 1 - b]] for a, b in rng.uniform(0, 0.2, (3, 2))])
    p = rng.dirichlet(np.ones(8) * 0.3)
    np.testing.assert_allclose(readout.least_squares(readout.apply(p)), p, atol=1e-9)
    np.testing.assert_allclose(readout.inverse(readout.apply(p)), p, atol=1e-12)
    read = rng.dirichlet(np.ones(8) * 0.3)
    best = readout.least_squares(read)
    assert best.min() >= 0 and best.sum() == pytest.approx(1.0, abs=1e-12)
    slope = readout.apply(best) - read
    for k, matrix in enumerate(readout.matrices):
        slope = np.einsum("ba,hbl->hal", matrix, slope.reshape(-1, 2, 1 << k)).reshape(-1)
    assert slope @ best <= slope.min() + 1e-7  # the minimum over the simplex: no direction inside goes down


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: mitigation.fold(ansatz(), 0.5), CircuitError, "at least 1, got 0.5"),
        (lambda: mitigation.fold(quantum.Circuit(1).bit_flip(0.1, 0), 3), CircuitError, "bit_flip on qubits .0."),
        (lambda: mitigation.richardson([1, 1], [2, 3]), SimulatorError, "different scales"),
        (lambda: mitigation.linear([1], [2]), SimulatorError, "at least 2"),
        (lambda: mitigation.linear([1, 2], [2, np.nan]), SimulatorError, "finite"),
        (lambda: mitigation.Readout([[[0.5, 0.5], [0.5, 0.5]]]), SimulatorError, "determinant 0"),
        (lambda: mitigation.Readout([[[0.5, 0.5], [0.4, 0.5]]]), SimulatorError, "sum to 1"),
        (
            lambda: mitigation.Readout(np.eye(3)),
            SimulatorError,
            r"matrices must have shape \(bits, 2, 2\), got \(3, 3\)",
        ),
        (
            lambda: mitigation.Readout([np.eye(2)]).inverse(np.ones(4)),
            SimulatorError,
            r"probabilities must have shape \(2,\), got \(4,\) \(of 1 bits",
        ),
    ],
)
def test_errors(make, error, message):
    with pytest.raises(error, match=message):
        make()
