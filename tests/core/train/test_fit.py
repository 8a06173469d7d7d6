"""The training loop: it learns, resumes bit for bit, and says what is wrong with what it gets."""

import gc
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from triskele import core
from triskele.core import data, nn, optim, random, train, tree

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(np.int64)


def network(seed=0):
    k1, k2 = random.split(random.key(seed))
    return Net(nn.Linear.init(k1, 3, 8), nn.BatchNorm.init(8), nn.Dropout(0.25), nn.Linear.init(k2, 8, 2))


class Net(tuple):
    """A network of four layers in a row."""

    def __new__(cls, *layers):
        return super().__new__(cls, layers)

    def __call__(self, x):
        first, norm, drop, last = self
        return last(drop(nn.relu(norm(first(x)))))


tree.register(Net, lambda net: (tuple(net), None), lambda data, layers: Net(*layers))


def model(**options):
    return train.Model(network(), nn.cross_entropy, optim.Adam(0.02), metrics=["accuracy"], **options)


def batches(n=32):
    return data.arrays(X, Y).shuffle(seed=1).batch(n)


class Streamed:
    """The same source without its arrays: the loop takes it batch by batch."""

    def __init__(self, source):
        self.source = source

    def __len__(self):
        return len(self.source)

    def iterate(self, epoch, state):
        return self.source.iterate(epoch, state)


def assert_same(a, b):
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_it_learns_and_evaluates():
    trained = model(clip=1.0, average=0.9)
    history = trained.fit(batches(), epochs=40, validation=data.arrays(X, Y).batch(50))
    assert history["loss"][-1] < 0.5 * history["loss"][0] and history["validation/accuracy"][-1] > 0.9
    found = trained.evaluate(data.arrays(X, Y).batch(50))
    assert found == {name: history[f"validation/{name}"][-1] for name in found}
    assert np.mean(trained.predict(X, batch=50).argmax(1) == Y) == pytest.approx(found["accuracy"])


def test_compiled_epochs_are_those_of_single_steps():
    # not by Adam, which makes steps of the rounding errors that are the gradient of a bias before a normalization
    whole, single = (train.Model(network(), nn.cross_entropy, optim.SGD(0.1), metrics=["accuracy"]) for _ in range(2))
    a = whole.fit(batches(), epochs=3)
    b = single.fit(Streamed(batches()), epochs=3)
    for x, y in zip(tree.leaves(whole.state), tree.leaves(single.state), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=1e-6)


def test_mixed_images_train_on_probabilities():
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(48, 3, 3, 1)), rng.integers(0, 3, 48)
    x[np.arange(48), y] += 2
    net = nn.Sequential((lambda x: np.reshape(x, (len(x), -1)), nn.Linear(np.zeros((9, 3)), np.zeros(3))))
    source = data.arrays(x, y).shuffle(seed=0).batch(16).map(data.image.mixup(0.4, classes=3))
    mixed = train.Model(net, nn.cross_entropy, optim.SGD(0.1), metrics=["accuracy"])
    history = mixed.fit(source, epochs=40, validation=data.arrays(x, y).batch(16))
    weight, bias, right = np.zeros((9, 3)), np.zeros(3), 0
    for inputs, targets in source:  # the first epoch by hand
        inputs = inputs.reshape(16, -1)
        p = np.exp(inputs @ weight + bias)
        p /= p.sum(1, keepdims=True)
        right += np.sum(p.argmax(1) == targets.argmax(1))
        slope = (p - targets) / 16
        weight, bias = weight - 0.1 * inputs.T @ slope, bias - 0.1 * slope.sum(0)
    once = train.Model(net, nn.cross_entropy, optim.SGD(0.1), metrics=["accuracy"])
    once.fit(source, epochs=1)
    np.testing.assert_allclose(once.net.layers[1].weight, weight, atol=1e-7)
    assert history["accuracy"][0] == pytest.approx(right / 48) and history["validation/accuracy"][-1] > 0.85


def test_weights_are_those_of_repeated_samples():
    weights = np.repeat([1.0, 2.0], 60)
    net = nn.MLP.init(random.key(0), [3, 4, 2], dtype=np.float64)
    x = X.astype(np.float64)
    twice = np.concatenate([np.arange(120), np.arange(60, 120)])
    found = []
    for source in ([(x, Y, weights)], [(x[twice], Y[twice])]):
        m = train.Model(net, nn.cross_entropy, optim.SGD(0.1), metrics=["accuracy"])
        found.append((m.fit(source, epochs=3).records, m.state.params))
    for a, b in zip(found[0][0], found[1][0], strict=True):
        assert a == pytest.approx(b)
    for a, b in zip(tree.leaves(found[0][1]), tree.leaves(found[1][1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_accumulated_gradients_are_those_of_the_large_batch():
    net = nn.MLP.init(random.key(0), [3, 4, 2], dtype=np.float64)
    source = [(X.astype(np.float64), Y, RNG.uniform(size=120))]
    found = []
    for k in (1, 4):
        m = train.Model(net, nn.cross_entropy, optim.SGD(0.1), accumulate=k)
        m.fit(source, epochs=4)
        found.append(m.net)
    for a, b in zip(tree.leaves(found[0]), tree.leaves(found[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [1, 3, 7, 9, 120])
def test_parts_need_not_divide_the_batch(n):
    net = nn.MLP.init(random.key(0), [3, 4, 2], dtype=np.float64)
    source = [(X[:n].astype(np.float64), Y[:n], RNG.uniform(size=n))]
    found = []
    for k in (1, 4):
        m = train.Model(net, nn.cross_entropy, optim.SGD(0.1), accumulate=k, metrics=["accuracy"])
        found.append((m.fit(source, epochs=2).records, tree.leaves(m.net)))
    for a, b in zip(found[0][0], found[1][0], strict=True):
        assert a == pytest.approx(b, rel=1e-12)
    for a, b in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("streamed", [False, True])
def test_two_runs_are_one_of_their_length(streamed):
    source = data.arrays(X, Y).shuffle(seed=0).batch(32)
    callbacks = [train.Lambda(step_end=lambda run: None)] if streamed else []
    found = []
    for runs in ((6,), (3, 3), (1, 4, 1)):
        m = train.Model(nn.MLP.init(random.key(0), [3, 4, 2]), nn.cross_entropy, optim.Adam(1e-2))
        for epochs in runs:
            history = m.fit(source, epochs, callbacks=callbacks)
        found.append([history["loss"][-1], *tree.leaves(m.state)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_averages_and_recomputed_activations():
    def loss(net, batch):
        return nn.mean_squared_error(net(batch), batch[:, :1])

    net = nn.MLP.init(random.key(0), [3, 4, 1], dtype=np.float64)
    x = X.astype(np.float64)
    plain = train.step(loss, optim.SGD(0.1), average=0.9)
    again = train.step(loss, optim.SGD(0.1), checkpoint=True)
    a, b, expected = plain.init(net), again.init(net), net
    for _ in range(5):
        (a, _), (b, _) = plain(a, x), again(b, x)
        expected = tree.map(lambda old, new: 0.9 * old + 0.1 * new, expected, a.net)
    for p, q, r, s in zip(*map(tree.leaves, (a.params, b.params, a.averaged, expected)), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-12)
        np.testing.assert_allclose(r, s, rtol=1e-12)


class Killed(Exception):
    pass


@pytest.mark.parametrize("as_stream", [False, True])
def test_a_killed_run_resumes_bit_for_bit(as_stream, tmp_path):
    def fit(folder, kill=None):
        m = model(average=0.95)
        callbacks = [train.EarlyStopping("accuracy", patience=50), train.ReduceLROnPlateau("loss", patience=1)]
        checkpoint = train.Checkpoint(folder, every=1 if as_stream else "epoch", best="loss")
        if kill is not None:

            def die(run):
                if run.step >= kill:
                    raise Killed

            callbacks.append(train.Lambda(step_end=die) if as_stream else train.Lambda(epoch_end=die))
        else:
            callbacks.append(train.Lambda())
        source = Streamed(batches()) if as_stream else batches()
        history = m.fit(source, epochs=4, validation=data.arrays(X, Y).batch(60), callbacks=[*callbacks, checkpoint])
        return m.state, history.records

    whole = fit(tmp_path / "whole")
    for kill in (1, 5, 8, 14):
        with pytest.raises(Killed):
            fit(tmp_path / str(kill), kill)
        again = fit(tmp_path / str(kill))
        assert_same(again, whole)


@pytest.mark.slow
def test_ctrl_c_and_sigterm_save_and_end(tmp_path):
    script = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_fit import *
def kick(run):
    if run.step == 6:
        os.kill(os.getpid(), int(sys.argv[1]))
model().fit(Streamed(batches()), epochs=4, checkpoint={str(tmp_path)!r} + sys.argv[1],
            callbacks=[train.Lambda(step_end=kick)])
"""
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, None)):
        done = subprocess.run(
            [sys.executable, "-c", script, str(int(number))], capture_output=True, text=True, env={**os.environ}
        )
        said = "KeyboardInterrupt: Model.fit: stopped in epoch 2 after step 6" in done.stderr
        assert done.returncode == status or status is None and said, done.stderr
        m = model()
        m.fit(Streamed(batches()), epochs=4, checkpoint=str(tmp_path) + str(int(number)), callbacks=[train.Lambda()])
        whole = model()
        whole.fit(Streamed(batches()), epochs=4)
        assert_same(m.state, whole.state)


class TestBadInput:
    def test_losses(self):
        for loss, message in (
            (lambda p, t: p, "the loss must have shape .., got .32, 2. .a scalar"),
            (lambda p, t: np.mean(t * 1.0), "depend on the parameters"),
        ):
            with pytest.raises(ValueError, match=message):
                train.Model(network(), loss).fit(batches(), epochs=1)

    def test_labels_out_of_range(self):
        for wrong in (2, -1):
            labels = np.where(Y == 0, wrong, Y)
            with pytest.raises(IndexError) as error:
                model().fit(data.arrays(X, labels).batch(32), epochs=1)
            assert "in epoch 1, after step 0" in error.value.__notes__[0]
            with pytest.raises(IndexError, match=rf"labels must be at least 0 and below 2, got {wrong} at"):
                nn.cross_entropy(np.zeros((len(Y), 2)), labels)

    def test_inputs_that_are_not_numbers(self):
        for wrong in (X.astype(object), X.astype(str)):
            with pytest.raises(TypeError, match=r"expected arrays of numbers, got dtype .* in batch\[0\]"):
                model().fit([(wrong, Y)], epochs=1)

    def test_sources(self):
        for source, message in (([], "at least one batch"), ([X], "a batch must be"), ([(X, Y, Y, Y)], "got 4 parts")):
            with pytest.raises(ValueError, match=message):
                model().fit(source, epochs=1)
        with pytest.raises(ValueError, match="got a single sample"):
            model().fit(data.arrays(X, Y).shuffle(seed=0), epochs=1)
        for source, message in ((iter([(X, Y)]), "got an iterator"), ((X, Y), r"got arrays \(use data.arrays")):
            with pytest.raises(TypeError, match=message):
                model().fit(source, epochs=1)

    def test_optimizers(self):
        for optimizer, message in ((optim.Adam, r"the class Adam \(make"), (optim.KFAC(), "got KFAC, whose")):
            with pytest.raises(TypeError, match=message):
                train.Model(network(), nn.cross_entropy, optimizer)

    def test_unknown_numbers(self):
        with pytest.raises(ValueError, match="monitor must be one of loss, accuracy, got 'acuracy'.*accuracy"):
            model().fit(batches(), epochs=1, callbacks=[train.EarlyStopping("acuracy")])
        with pytest.raises(ValueError, match="a metric must be one of accuracy, .*, got .acuracy"):
            train.Model(network(), nn.cross_entropy, metrics=["acuracy"])

    def test_a_callback_that_raises_is_named(self):
        with pytest.raises(ZeroDivisionError) as error:
            model().fit(batches(), epochs=1, callbacks=[train.Lambda(epoch_end=lambda run: 1 / 0)])
        assert "the callback Lambda in epoch_end, epoch 1, step 4" in error.value.__notes__[0]

    def test_a_checkpoint_of_another_network(self, tmp_path):
        model().fit(batches(), epochs=1, checkpoint=tmp_path)
        other = train.Model(nn.MLP.init(random.key(0), [3, 9, 2]), nn.cross_entropy, metrics=["accuracy"])
        with pytest.raises(core.errors.CheckpointError, match=r"but has .* for params.*float32\[3, 9\] in this"):
            other.fit(batches(), epochs=2, checkpoint=tmp_path)
        with pytest.raises(core.errors.CheckpointError, match=r"differ: seed .0 in the file, 3 here"):
            model().fit(batches(), epochs=2, checkpoint=tmp_path, seed=3)

    def test_two_runs_in_one_folder(self, tmp_path):
        def second(run):
            model().fit(batches(), epochs=1, checkpoint=tmp_path)

        with pytest.raises(core.errors.CheckpointError, match="another run uses it"):
            model().fit(batches(), epochs=1, checkpoint=tmp_path, callbacks=[train.Lambda(epoch_end=second)])

    def test_a_damaged_checkpoint(self, tmp_path):
        model().fit(batches(), epochs=1, checkpoint=tmp_path)
        file = tmp_path / "last.safetensors"
        file.write_bytes(file.read_bytes()[:-40])
        with pytest.raises(ValueError, match="last.safetensors"):
            model().fit(batches(), epochs=2, checkpoint=tmp_path)

    def test_statistics_that_cannot_leave_a_scan(self):
        def loss(net, x):
            return core.scan(lambda carry, row: (carry, net(row)), 0.0, x[None])[1].mean()

        step = train.step(loss, optim.SGD(0.1))
        with pytest.raises(ValueError, match="BatchNorm: its statistics cannot leave the scan"):
            step(step.init(network()), X)


def test_nan_is_traced_to_its_operation():
    x = X.copy()
    x[70] = 0

    def loss(prediction, target):
        return np.mean(np.log(np.abs(prediction)))

    net = nn.Linear(np.ones((3, 1), np.float32))
    m = train.Model(net, loss, optim.SGD(0.0))
    with pytest.raises(FloatingPointError) as error:
        m.fit([(x[:60], Y[:60]), (x[60:], Y[60:])], epochs=1, callbacks=[train.StopOnNaN()])
    assert "log" in str(error.value) and "test_fit.py" in str(error.value)
    assert "in epoch 1, step 2" in error.value.__notes__[0]
    assert m.state.count == 1


def test_a_second_fit_over_a_source_traces_nothing():
    trained, source = model(), batches()
    trained.fit(source, epochs=1)
    before = trained._epochs
    trained.fit(source, epochs=2)
    assert trained._epochs is before and len(before.steps._history) == 1
    other = data.arrays(X[:60], Y[:60]).batch(30)
    trained.fit(other, epochs=1)
    assert trained._epochs is not before
    kept = weakref.ref(other)
    del other
    gc.collect()
    assert kept() is None


@pytest.mark.parametrize("as_stream", [False, True])
def test_what_a_user_holds_is_never_overwritten(as_stream):
    net = network()
    trained = train.Model(net, nn.cross_entropy, optim.Adam(0.02), average=0.9)
    seen = [(net, tree.map(np.array, net))]

    def look(run):
        seen.extend((x, tree.map(np.array, x)) for x in (run.net, run.state))

    source = Streamed(batches()) if as_stream else batches()
    for _ in range(2):
        trained.fit(source, epochs=2, callbacks=[train.Lambda(epoch_begin=look, epoch_end=look)])
        seen.append((trained.net, tree.map(np.array, trained.net)))
    for held, copy in seen:
        assert_same(held, copy)


def test_steps_in_place_are_those_of_watched_ones():
    plain, watched = model(average=0.9), model(average=0.9)
    plain.fit(Streamed(batches()), epochs=2)
    watched.fit(Streamed(batches()), epochs=2, callbacks=[train.StopOnNaN()])
    assert_same(plain.state, watched.state)


def test_a_step_that_raises_leaves_the_state_before_it():
    rows = [(X[:40], Y[:40]), (X[40:80], Y[40:80]), (X[80:], np.full(40, 2))]
    stopped, expected = model(), model()
    with pytest.raises(core.errors.IndexOutOfBoundsError):
        stopped.fit(rows, epochs=1)
    expected.fit(rows[:2], epochs=1)
    assert_same(stopped.state, expected.state)


def test_a_donating_step_keeps_its_memory():
    def loss(net, batch):
        return nn.mean_squared_error(net(batch[0]), batch[1])

    net = nn.Linear.init(random.key(0), 3, 1)
    batch = X, X[:, :1]
    plain, in_place = train.step(loss, optim.Adam(0.1)), train.step(loss, optim.Adam(0.1), donate=True)
    a, b = plain.init(net), in_place.init(tree.map(np.array, net))
    (a, _), (kept, _) = plain(a, batch), in_place(b, batch)
    b = kept
    for _ in range(3):
        (a, u), (b, v) = plain(a, batch), in_place(b, batch)
        assert u == v
    assert_same(a, b)
    assert b.params.weight is kept.params.weight and b.optimizer.first.weight is kept.optimizer.first.weight
