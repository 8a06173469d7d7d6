"""K-FAC against least squares, its formulas in NumPy, and its own restart."""

import functools

import numpy as np
import pytest

from triskele import core
from triskele.core import nn, optim, random, tree

RNG = np.random.default_rng(7)
X = RNG.normal(size=(20, 3)) @ np.array([[1, 2, 0], [0, 1, 3], [0, 0, 1]])  # correlated inputs
Y = RNG.normal(size=(20, 2))


def mean_squared(net, batch):
    return nn.mean_squared_error(net(batch[0]), batch[1])


def trained(opt, net, batch, steps, loss=mean_squared, state=None, start=0):
    state = opt.init(loss, net, batch) if state is None else state
    step = core.jit(functools.partial(opt.step, loss))
    infos = []
    for k in range(start, start + steps):
        net, state, info = step(net, batch, state, random.fold_in(random.key(0), k))
        infos.append({name: float(v) for name, v in info.items()})
    return net, state, infos


@pytest.mark.parametrize("exact", [True, False])
def test_one_step_solves_a_linear_regression(exact):
    """The block of a linear layer is exact up to the size of the sampled factor, and the step size is optimal."""
    net = nn.Linear.init(random.key(0), 3, 1, dtype=np.float64)
    opt = optim.KFAC(damping=1e-14, exact=exact)
    net, _, _ = trained(opt, net, (X, Y[:, :1]), 1)
    solution = np.linalg.lstsq(np.column_stack([X, np.ones(20)]), Y[:, :1], rcond=None)[0]
    np.testing.assert_allclose(np.vstack([net.weight, net.bias]), solution, rtol=1e-4)


def test_steps_are_those_of_the_formulas():
    """Averages, factored damping, inverses every few steps, learning rate and momentum, written out in NumPy."""
    sizes, damping, rate, momentum = [3, 4, 2], 0.3, 0.2, 0.7
    net = nn.MLP.init(random.key(0), sizes, dtype=np.float64)
    opt = optim.KFAC(rate, momentum, damping=damping, adaptive_damping=False, inverse_every=3, decay=0.6, exact=True)
    got, _, infos = trained(opt, net, (X, Y), 6)

    weights = [np.vstack([layer.weight, layer.bias]) for layer in net.layers]
    factors, velocity = [None, None], [0, 0]
    for k in range(6):
        first = np.column_stack([X, np.ones(20)])
        hidden = np.tanh(first @ weights[0])
        second = np.column_stack([hidden, np.ones(20)])
        residual = second @ weights[1] - Y
        assert infos[k]["loss"] == pytest.approx(np.mean(residual**2))
        grads, found = [0, second.T @ residual / 20], [None, None]
        slopes = (1 - hidden**2)[:, :, None] * weights[1][:-1]  # outputs by hidden sums
        grads[0] = first.T @ np.sum(slopes * residual[:, None], axis=2) / 20
        found[0] = first.T @ first / 20, np.einsum("rik,rjk->ij", slopes, slopes) * 2 / 40
        found[1] = second.T @ second / 20, 20 * np.eye(2) * 2 / 40
        past = min(1 - 1 / (k + 1), 0.6)
        factors = [
            new if old is None else tuple(past * a + (1 - past) * b for a, b in zip(old, new, strict=True))
            for old, new in zip(factors, found, strict=True)
        ]
        if k < 3 or k % 3 == 0:
            inverses = []
            for a, g in factors:
                pi = np.sqrt(np.trace(a) / len(a) / (np.trace(g) / len(g)))
                inverses.append(
                    (
                        np.linalg.inv(a + np.sqrt(damping) * pi * np.eye(len(a))),
                        np.linalg.inv(g + np.sqrt(damping) / pi * np.eye(len(g))),
                    )
                )
        for n, (a, g) in enumerate(inverses):
            velocity[n] = momentum * velocity[n] - rate * a @ grads[n] @ g
            weights[n] = weights[n] + velocity[n]
    for layer, w in zip(got.layers, weights, strict=True):
        np.testing.assert_allclose(np.vstack([layer.weight, layer.bias]), w, rtol=1e-9)


def test_learning_rate_and_momentum_minimize_the_quadratic_model():
    """For a linear network the damped model is the loss plus half the damping times the squared step."""
    net = nn.Linear.init(random.key(0), 3, 2, dtype=np.float64)
    opt = optim.KFAC(damping=0.5, adaptive_damping=False)
    before, state, _ = trained(opt, net, (X, Y), 3)
    after, state_after, (info,) = trained(opt, before, (X, Y), 1, state=state, start=3)
    flat = [np.concatenate([np.ravel(p) for p in tree.leaves(t)]) for t in (state.velocity, state_after.velocity)]
    direction = (flat[1] - info["momentum"] * flat[0]) / info["learning_rate"]

    def model(coefficients):
        move = coefficients[0] * direction + coefficients[1] * flat[0]
        parts = np.split(move, [net.weight.size])
        moved = nn.Linear(before.weight + parts[0].reshape(3, 2), before.bias + parts[1])
        return mean_squared(moved, (X, Y)) + 0.25 * np.sum(move**2)

    slope = core.grad(model)(np.array([info["learning_rate"], info["momentum"]]))
    np.testing.assert_allclose(slope, 0, atol=1e-10)
    np.testing.assert_allclose(after.weight - before.weight, flat[1][:6].reshape(3, 2), atol=1e-15)


def test_damping_follows_the_levenberg_marquardt_rule():
    net = nn.MLP.init(random.key(0), [3, 4, 2], dtype=np.float64)
    opt = optim.KFAC(damping=2.0, damping_every=2)
    _, _, infos = trained(opt, net, (X, Y), 8)
    damping = 2.0
    for k, info in enumerate(infos, 1):
        ratio = info["reduction_ratio"]
        assert np.isnan(ratio) == (k % 2 != 0)
        if k % 2 == 0:
            damping *= 0.95**2 if ratio > 0.75 else 1 / 0.95**2 if ratio < 0.25 else 1
        assert info["damping"] == pytest.approx(damping)


def test_a_step_that_is_far_too_long_raises_the_damping():
    net = nn.MLP.init(random.key(0), [3, 4, 2], dtype=np.float64)
    _, _, infos = trained(optim.KFAC(1e3, 0.0, damping=1.0, damping_every=1), net, (X, Y), 1)
    assert infos[0]["damping"] == pytest.approx(1 / 0.95) and infos[0]["reduction_ratio"] < 0.25


def test_classifier_with_normalization_convolution_and_embedding_learns():
    key = random.split(random.key(0), 4)
    net = {
        "embedding": nn.Embedding.init(key[0], 8, 4),
        "convolution": nn.Conv1d(key[1], 4, 8, 3),
        "norm": nn.BatchNorm.init(8),
        "out": nn.Linear.init(key[2], 8, 3),
    }

    def loss(net, batch):
        h = nn.relu(net["norm"].train(net["convolution"](net["embedding"](batch[0])))[0])
        return nn.cross_entropy(net["out"](np.mean(h, axis=1)), batch[1])

    words = RNG.integers(0, 8, (64, 6))
    batch = words, np.sum(words == 3, axis=1).clip(0, 2)
    trained_net, state, infos = trained(optim.KFAC(damping=0.1), net, batch, 40, loss)
    assert infos[-1]["loss"] < 0.1 < 0.5 < infos[0]["loss"]
    np.testing.assert_array_equal(trained_net["norm"].mean, net["norm"].mean)
    assert {np.result_type(x) for x in tree.leaves(trained_net)} == {np.dtype(np.float32)}
    assert tree.structure(state) == tree.structure(optim.KFAC().init(loss, net, batch))


def test_training_resumes_from_a_saved_state_bit_for_bit(tmp_path):
    net = nn.MLP.init(random.key(0), [3, 8, 2])
    opt = optim.KFAC(damping=0.1)
    batch = X.astype(np.float32), Y.astype(np.float32)
    whole, _, _ = trained(opt, net, batch, 8)
    half, state, _ = trained(opt, net, batch, 4)
    core.save(tmp_path / "half", (half, state))
    half, state = core.load(tmp_path / "half", like=(half, state))
    resumed, _, _ = trained(opt, half, batch, 4, state=state, start=4)
    for a, b in zip(tree.leaves(whole), tree.leaves(resumed), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"damping": 0.0}, "damping must be a positive"),
        ({"decay": 1.0}, "decay must be"),
        ({"inverse_every": 0}, "inverse_every must be an integer >= 1"),
        ({"learning_rate": 0.1}, "given together"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        optim.KFAC(**options)


def test_another_network_is_refused():
    opt = optim.KFAC()
    net = nn.MLP.init(random.key(0), [3, 4, 2], dtype=np.float64)
    state = opt.init(mean_squared, net, (X, Y))
    with pytest.raises(ValueError, match="KFAC: the state must belong to these parameters"):
        opt.step(mean_squared, nn.Linear.init(random.key(0), 3, 2, dtype=np.float64), (X, Y), state, random.key(0))
