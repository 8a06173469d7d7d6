"""Qiskit's primitives on our simulators, compared with Qiskit's own."""

import numpy as np
import pytest
from scipy.stats import chi2

from triskele.quantum.errors import SimulatorError

pytest.importorskip("qiskit")
pytestmark = pytest.mark.peer

from qiskit import ClassicalRegister, QuantumCircuit, QuantumRegister  # noqa: E402
from qiskit.circuit import Parameter, ParameterVector  # noqa: E402
from qiskit.primitives import BaseEstimatorV2, BaseSamplerV2, StatevectorEstimator, StatevectorSampler  # noqa: E402
from qiskit.quantum_info import Pauli, SparseObservable, SparsePauliOp  # noqa: E402

from triskele.quantum.io import Estimator, Sampler  # noqa: E402


def two_registers():
    """Three qubits, parameters whose alphabetical order is not that of their appearance, bits in a mixed order."""
    a, b = ClassicalRegister(2, "alpha"), ClassicalRegister(1, "beta")
    circuit = QuantumCircuit(QuantumRegister(3), a, b)
    circuit.ry(Parameter("z"), 0)
    circuit.ry(2 * Parameter("a") + 0.3, 2)
    circuit.cx(0, 1)
    circuit.measure(2, b[0])
    circuit.measure([0, 1], [a[1], a[0]])
    return circuit


def test_samples_have_the_distribution_of_qiskit():
    circuit = two_registers()
    values = np.array([[[0.3, 1.0], [2.0, -0.5]]])  # (1, 2) points
    ours, theirs = (
        sampler.run([(circuit, values)], shots=4000).result()[0].data
        for sampler in (Sampler(seed=1), StatevectorSampler(seed=2))
    )
    for name in ("alpha", "beta"):
        x, y = ours[name], theirs[name]
        assert (x.shape, x.num_shots, x.num_bits) == (y.shape, y.num_shots, y.num_bits)
        for at in np.ndindex(x.shape):
            p, q = x.get_counts(at), y.get_counts(at)
            keys = sorted(set(p) | set(q))
            n, m = (np.array([c.get(k, 0) for k in keys]) for c in (p, q))
            assert np.sum((n - m) ** 2 / (n + m)) < chi2.ppf(0.9999, len(keys))
    joint = ours["beta"].get_int_counts((0, 0))
    assert joint[1] / 4000 == pytest.approx(np.sin((2 * 0.3 + 0.3) / 2) ** 2, abs=0.04)  # sorted: a is the first


def test_shots_seeds_and_default_shots():
    circuit = QuantumCircuit(1)
    circuit.h(0)
    circuit.measure_all()
    sampler = Sampler(seed=3, default_shots=50)
    first, second = (sampler.run([circuit, (circuit, None, 7)]).result() for _ in range(2))
    assert [r.data.meas.num_shots for r in first] == [50, 7]
    assert not np.array_equal(first[0].data.meas.array, second[0].data.meas.array)
    again = Sampler(seed=3, default_shots=50).run([circuit]).result()
    np.testing.assert_array_equal(again[0].data.meas.array, first[0].data.meas.array)
    assert sampler.run([circuit], shots=9).result()[0].data.meas.num_shots == 9
    assert isinstance(sampler, BaseSamplerV2)


def test_mid_circuit_measurements_and_conditions():
    circuit = QuantumCircuit(2, 2)
    circuit.h(0)
    circuit.measure(0, 0)
    with circuit.if_test((circuit.clbits[0], 1)):
        circuit.x(1)
    circuit.measure(1, 1)
    assert set(Sampler().run([circuit], shots=200).result()[0].data.c.get_counts()) == {"00", "11"}


def test_bits_that_are_not_measured_are_zero():
    circuit = QuantumCircuit(2, 3)
    circuit.x(1)
    assert Sampler().run([circuit], shots=4).result()[0].data.c.get_counts() == {"000": 4}
    circuit.measure(1, 2)
    assert Sampler().run([circuit], shots=4).result()[0].data.c.get_counts() == {"100": 4}


def expectation_circuit():
    theta = ParameterVector("t", 12)  # t[10] and t[11] come after t[9], not after t[1]
    circuit = QuantumCircuit(3)
    for k in range(12):
        (circuit.ry if k % 2 else circuit.rx)(theta[11 - k], k % 3)
        circuit.cx(k % 3, (k + 1) % 3)
    return circuit


OBSERVABLES = [SparsePauliOp(["XYZ", "ZII"], [0.5, -2]), "IIZ", Pauli("YIX"), {"XXI": 1.5, "III": 2}]


@pytest.mark.parametrize(
    "observables, shape",
    [
        (OBSERVABLES, ()),
        (OBSERVABLES[0], (5,)),
        (OBSERVABLES, (4,)),
        ([[o] for o in OBSERVABLES], (3,)),
        (OBSERVABLES, (2, 1)),
        ([OBSERVABLES[:2]], (2, 1)),
    ],
)
def test_values_are_those_of_qiskit(observables, shape):
    circuit, rng = expectation_circuit(), np.random.default_rng(0)
    pub = circuit, observables, rng.normal(size=(*shape, 12))
    ours, theirs = (estimator.run([pub]).result()[0].data for estimator in (Estimator(), StatevectorEstimator()))
    np.testing.assert_allclose(ours.evs, theirs.evs, atol=1e-12)
    assert np.shape(ours.evs) == np.shape(theirs.evs)
    assert not ours.stds.any()


def test_projectors():
    circuit, theta = expectation_circuit(), np.linspace(-1, 2, 12)
    sparse = SparseObservable.from_list([("01+", 1.5), ("r-l", -0.5), ("III", 2)])
    ours = Estimator().run([(circuit, sparse, theta)]).result()[0].data.evs
    theirs = StatevectorEstimator().run([(circuit, sparse.as_paulis(), theta)]).result()[0].data.evs
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_parameters_that_are_not_linear():
    a = Parameter("a")
    circuit = QuantumCircuit(1)
    circuit.ry(a * a, 0)
    values = np.array([[0.3], [1.2]])
    evs = Estimator().run([(circuit, "Z", values)]).result()[0].data.evs
    np.testing.assert_allclose(evs, np.cos(values[:, 0] ** 2))


def test_measured_values_come_with_their_errors():
    circuit = QuantumCircuit(2)
    circuit.ry(0.7, 0)
    circuit.cx(0, 1)
    result = Estimator(seed=5).run([(circuit, ["ZZ", "XX", "IZ"])], precision=0.01).result()[0].data
    exact = Estimator().run([(circuit, ["ZZ", "XX", "IZ"])]).result()[0].data.evs
    assert (result.stds[1:] > 0.003).all()
    assert (result.stds <= 0.0101).all()
    assert (np.abs(result.evs - exact) <= 4 * result.stds + 1e-12).all()


def test_refusals():
    with pytest.raises(SimulatorError, match="default_shots must be an integer >= 1"):
        Sampler(default_shots=0)
    with pytest.raises(SimulatorError, match="default_precision must be a number"):
        Estimator(default_precision=-1)
    with pytest.raises(SimulatorError):
        Estimator(simulator="no such")
    measured = QuantumCircuit(1)
    measured.measure_all()
    with pytest.raises(ValueError, match="measure"):
        Estimator().run([(measured, "Z")]).result()
    assert isinstance(Estimator(), BaseEstimatorV2)
