"""Quantum kernels and the classifier."""

import numpy as np
import pytest
from scipy import stats

from tests.reporting import stop_at
from triskele import core, quantum
from triskele.core import optim
from triskele.quantum.errors import CircuitError, ParameterError


def moons(number, seed):
    rng = np.random.default_rng(seed)
    y = np.arange(number) % 2
    angle = np.pi * rng.random(number)
    x = np.where(
        y[:, None], np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], 1), np.stack([np.cos(angle), np.sin(angle)], 1)
    )
    return x + 0.1 * rng.standard_normal(x.shape) - [0.5, 0.25], y


def encoder():
    circuit = quantum.Circuit(3)
    for q in range(3):
        circuit.h(q).rz({f"x{q}": 1.5}, q)
    return circuit.rzz({"x0": 0.5, "x1": 0.7}, 0, 1).cx(1, 2).ry("x2", 2).as_encoder()


def uploading(layers=3):
    circuit = quantum.Circuit(2)
    for layer in range(layers):
        circuit += quantum.Circuit(2).ry({"x0": 2.0}, 0).ry({"x1": 2.0}, 1).as_encoder()
        circuit += (
            quantum.Circuit(2).rz(f"a{layer}", 0).ry(f"b{layer}", 0).rz(f"c{layer}", 1).ry(f"d{layer}", 1).cz(0, 1)
        )
    return circuit


# -- kernel -----------------------------------------------------------------------------------------------------------


def test_kernel_is_a_gram_matrix_of_fidelities():
    x = np.random.default_rng(0).uniform(-2, 2, (20, 3))
    kernel = quantum.FidelityKernel(encoder())(x)
    np.testing.assert_array_equal(kernel, kernel.T)
    np.testing.assert_array_equal(np.diagonal(kernel), 1.0)
    assert np.linalg.eigvalsh(kernel).min() > -1e-12
    states = [quantum.run(encoder(), data=row) for row in x[:4]]
    for i in range(4):
        for j in range(4):
            assert kernel[i, j] == pytest.approx(states[i].fidelity(states[j]), abs=1e-13)


def test_kernel_of_product_states_is_a_product_of_cosines():
    circuit = quantum.Circuit(2).ry("x0", 0).ry("x1", 1).as_encoder()
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((5, 2)), rng.standard_normal((7, 2))
    expected = np.prod(np.cos((x[:, None] - y[None]) / 2) ** 2, axis=-1)
    np.testing.assert_allclose(quantum.FidelityKernel(circuit)(x, y), expected, atol=1e-14)
    np.testing.assert_allclose(quantum.FidelityKernel(circuit, dtype=np.complex64)(x, y), expected, atol=1e-6)


def test_kernel_classifies_what_no_line_can():
    """Concentric rings by kernel ridge regression."""
    rng = np.random.default_rng(2)
    y = np.arange(80) % 2
    angle, radius = rng.uniform(0, 2 * np.pi, 80), np.where(y, 1.3, 0.5) + 0.08 * rng.standard_normal(80)
    x = radius[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
    circuit = (
        quantum.Circuit(2)
        .ry({"x0": 2.0}, 0)
        .ry({"x1": 2.0}, 1)
        .cz(0, 1)
        .ry({"x1": 1.0}, 0)
        .ry({"x0": 1.0}, 1)
        .as_encoder()
    )
    kernel = quantum.FidelityKernel(circuit)
    weights = np.linalg.solve(kernel(x[:40]) + 1e-3 * np.eye(40), 2.0 * y[:40] - 1)
    assert np.mean((kernel(x[40:], x[:40]) @ weights > 0) == y[40:]) > 0.95


def test_kernel_of_no_data_is_empty():
    assert quantum.FidelityKernel(encoder())(np.zeros((0, 3)), np.zeros((2, 3))).shape == (0, 2)


def test_kernel_fits_scikit_learn():
    svm = pytest.importorskip("sklearn.svm")
    x, y = moons(80, 0)
    kernel = quantum.FidelityKernel(
        quantum.Circuit(2).ry({"x0": 2.0}, 0).ry({"x1": 2.0}, 1).cz(0, 1).rx("x1", 0).rx("x0", 1).as_encoder()
    )
    called = svm.SVC(kernel=kernel, C=10.0).fit(x, y)
    given = svm.SVC(kernel="precomputed", C=10.0).fit(kernel(x), y)
    np.testing.assert_array_equal(called.predict(x), given.predict(kernel(x)))
    assert called.score(x, y) > 0.9


def test_kernel_of_circuits_that_encode_nothing():
    with pytest.raises(ParameterError, match="trainable parameters .*as_encoder"):
        quantum.FidelityKernel(quantum.Circuit(1).ry("a", 0))
    with pytest.raises(ParameterError, match="no data parameters"):
        quantum.FidelityKernel(quantum.Circuit(1).h(0))
    with pytest.raises(CircuitError, match="must be a Circuit"):
        quantum.FidelityKernel(np.eye(2))
    with pytest.raises(CircuitError, match="gates alone"):
        quantum.FidelityKernel(quantum.Circuit(1).ry("a", 0).as_encoder().measure(0))


@pytest.mark.parametrize("x", [np.zeros(3), np.zeros((4, 2)), np.full((1, 3), np.nan)])
def test_kernel_of_data_that_do_not_fit(x):
    with pytest.raises(ParameterError, match="FidelityKernel: data must"):
        quantum.FidelityKernel(encoder())(x)


# -- classifier -------------------------------------------------------------------------------------------------------


def test_classifier_learns_two_moons():
    (x, y), (unseen, answers) = moons(120, 0), moons(200, 1)
    trained = quantum.Classifier(uploading(), epochs=40, seed=1)
    assert trained.fit(x, y, progress=False) is trained
    assert trained.score(unseen, answers) > 0.92
    losses = trained.history_["loss"]
    assert losses[-1] < 0.5 * losses[0] and len(losses) == 40
    probabilities = trained.predict_proba(unseen)
    np.testing.assert_allclose(probabilities.sum(1), 1.0, atol=1e-12)
    np.testing.assert_array_equal(trained.predict(unseen), probabilities.argmax(1))


def test_classifier_of_three_classes_and_other_observables():
    x = np.linspace(-1, 1, 45)[:, None]
    y = np.array(["left", "middle", "right"])[np.digitize(x[:, 0], [-0.35, 0.35])]
    circuit = quantum.Circuit(1).ry({"x": 1.5}, 0).as_encoder() + quantum.Circuit(1).rz("a", 0).ry("b", 0)
    classifier = quantum.Classifier(
        circuit,
        epochs=60,
        batch=15,
        optimizer=optim.Adam(0.1),
        observables=[quantum.PauliSum("Z0"), quantum.PauliSum("X0")],
    )
    assert classifier.fit(x, y, progress=False).score(x, y) > 0.9
    assert classifier.net_.layers[1].weight.shape == (2, 3)
    assert classifier.predict([[1.0]]).tolist() == ["right"]


def test_gradient_of_the_training_loss():
    x, y = moons(6, 3)
    classifier = quantum.Classifier(uploading(1), epochs=1).fit(x, y, progress=False)
    core.check_grads(lambda net: core.nn.cross_entropy(net(x), y), (classifier.net_,), order=1)


def test_training_is_deterministic_and_goes_on():
    x, y = moons(40, 0)
    first = [quantum.Classifier(uploading(1), epochs=3, seed=s).fit(x, y, progress=False) for s in (5, 5, 6)]
    angles = [c.net_.layers[0].theta for c in first]
    np.testing.assert_array_equal(angles[0], angles[1])
    assert not np.array_equal(angles[0], angles[2])
    before = first[0].history_["loss"]
    more = first[0].set_params(warm_start=True, epochs=10).fit(x, y, progress=False).history_["loss"]
    assert len(more) == 10 and more[0] < before[0] and more[-1] < before[-1]
    with pytest.raises(ParameterError, match="labels must be those of the last fit"):
        first[0].fit(x, y + 1, progress=False)


def test_a_reporter_sees_each_epoch_and_may_stop():
    x, y = moons(20, 0)
    seen = []
    trained = quantum.Classifier(uploading(1), epochs=9).fit(x, y, report=[seen.append, stop_at(3)])
    assert trained.history_.records == seen and [r["epoch"] for r in seen] == [1, 2, 3]


def test_classifier_of_circuits_that_cannot_be_trained():
    with pytest.raises(ParameterError, match="no data parameters .*as_encoder"):
        quantum.Classifier(quantum.Circuit(1).ry("a", 0))
    with pytest.raises(ParameterError, match="no trainable parameters .*add an ansatz"):
        quantum.Classifier(quantum.Circuit(1).ry("a", 0).as_encoder())
    with pytest.raises(CircuitError, match="circuit must be a Circuit or a function that makes one, got str"):
        quantum.Classifier("ry")
    with pytest.raises(CircuitError, match="circuit must be a Circuit, got int"):
        quantum.Classifier(lambda features: features).fit(*moons(4, 0), progress=False)


@pytest.mark.parametrize(
    "x, y, why",
    [
        (np.zeros((4, 3)), [0, 1, 0, 1], r"shape \(N, 2\).*got 3 columns"),
        (np.zeros((4, 2)), np.zeros(5, int), "labels must have shape \\(4,\\), got \\(5,\\) \\(one for each sample"),
        (np.zeros((4, 2)), np.zeros(4, int), "got one class, .*0"),
        (np.zeros((4, 2)), np.array([0.5, 1.0, 0, 0]), "Unknown label type"),
        (np.zeros((4, 2)), np.array([np.nan, 1.0, 0, 0]), "labels must be finite"),
        (np.full((4, 2), np.inf), np.zeros(4, int), "finite"),
        (np.zeros((0, 2)), np.zeros(0, int), "no data"),
        ([[1.0], [2.0, 3.0]], [0, 1], "array of real numbers"),
    ],
)
def test_data_that_do_not_fit(x, y, why):
    with pytest.raises(ParameterError, match=why):
        quantum.Classifier(uploading(1)).fit(x, y, progress=False)


def test_options_that_make_no_sense_and_prediction_before_training():
    x, y = moons(10, 0)
    with pytest.raises(ParameterError, match="not trained yet"):
        quantum.Classifier(uploading(1)).predict(x)
    with pytest.raises(ParameterError, match="epochs must be an integer >= 1, got 0"):
        quantum.Classifier(uploading(1), epochs=0).fit(x, y)
    with pytest.raises(TypeError, match="optimizer must be one of core.optim"):
        quantum.Classifier(uploading(1), optimizer="adam").fit(x, y)
    with pytest.raises(ParameterError, match="a parameter must be one of .*, got 'epoch'.*epochs"):
        quantum.Classifier(uploading(1)).set_params(epoch=3)


def test_the_first_weights_of_a_classifier():
    """Angles from -pi to pi, weights of variance 1/m for m observables, so that logits start below 1, and no bias."""
    m, outputs = 3, 1000
    encoder, ansatz = quantum.Circuit(m), quantum.Circuit(m)
    for q in range(m):
        encoder.ry("x", q)
        for k in range(200):
            ansatz.rz(f"a{q}_{k}", q)
    still = quantum.Classifier(encoder.as_encoder() + ansatz, epochs=1, batch=outputs, optimizer=optim.SGD(1e-30))
    angles, last = still.fit(np.zeros((outputs, 1)), np.arange(outputs), progress=False).net_.layers
    assert last.weight.shape == (m, outputs) and last.weight.dtype == np.float64
    assert abs(np.var(last.weight) * m - 1) < 4 * np.sqrt(2 / last.weight.size)
    assert abs(np.mean(last.weight)) < 4 / np.sqrt(m * last.weight.size)
    assert np.all(np.abs(last.bias) < 1e-20)
    assert stats.kstest(angles.theta, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
