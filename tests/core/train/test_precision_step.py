"""Mixed precision in the training step: dtypes of policies, loss scaling, resume."""

import numpy as np
import pytest

from triskele import core
from triskele.core import data, nn, optim, random, train

pytest.importorskip("ml_dtypes")


def loss(net, batch):
    x, y = batch
    return nn.mean_squared_error(net(x), y)


def regression():
    x = random.normal(random.key(1), (64, 3), dtype=np.float32)
    return x, x @ np.array([[1.0], [-2.0], [0.5]], np.float32)


def names(values):
    return {str(np.result_type(x)) for x in core.tree.leaves(values)}


@pytest.mark.parametrize(
    "precision, stored",
    [
        ("bfloat16", "float32"),
        ("float16", "float32"),
        (train.Policy(parameters="bfloat16"), "bfloat16"),
        (train.Policy(computation="float16", scale=train.StaticScale(256.0)), "float32"),
    ],
)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_training_with_policies(precision, stored, accumulate):
    seen = []

    def watched(net, batch):
        seen.append(net.weight.dtype)
        return loss(net, batch)

    step = train.step(watched, optim.SGD(0.2), precision=precision, accumulate=accumulate)
    state = step.init(nn.Linear.init(random.key(0), 3, 1))
    for _ in range(60):
        state, value = step(state, regression())
    assert names(state.params) == {stored}
    assert {str(d) for d in seen} == {str(step.precision.computation)}
    assert np.result_type(value) == (np.float64 if accumulate > 1 else np.float32)
    np.testing.assert_allclose(state.net.weight.astype(float).ravel(), [1, -2, 0.5], atol=0.02)


def test_dynamic_scale_by_hand():
    """Overflow in steps 3 and 4; growth after two good steps."""
    scale = train.DynamicScale(initial=8.0, growth=4.0, interval=2)
    state, found = scale.init(), []
    for finite in (True, True, False, False, True, True, True, False):
        state = scale.update(state, finite)
        found.append((float(state.factor), int(state.good)))
    assert found == [(8, 1), (32, 0), (16, 0), (8, 0), (8, 1), (32, 0), (32, 1), (16, 0)]
    low = train.DynamicScale(initial=1.0).update(train.ScaleState(np.float32(1), np.int64(5)), False)
    assert (float(low.factor), int(low.good)) == (1, 0)
    high = train.DynamicScale(interval=1).update(train.ScaleState(np.float32(2.0**100), np.int64(0)), True)
    assert float(high.factor) == 2.0**100


def test_an_overflow_skips_the_step():
    policy = train.Policy(computation="float16", scale=train.DynamicScale(initial=1024.0, interval=3))
    step = train.step(loss, optim.Adam(0.1), precision=policy, average=0.9)
    state, _ = step(step.init(nn.Linear.init(random.key(0), 3, 1)), regression())
    x, y = regression()
    after, value = step(state, (np.full_like(x, 3e4), y))
    assert value > 1e4
    for new, old in zip(core.tree.leaves(after[:4]), core.tree.leaves(state[:4]), strict=True):
        np.testing.assert_array_equal(new, old)
    assert (float(after.loss_scale.factor), int(after.loss_scale.good), int(after.count)) == (512.0, 0, 2)
    for factor in (512.0, 512.0, 1024.0):
        after, _ = step(after, (x, y))
        assert float(after.loss_scale.factor) == factor
    assert not np.array_equal(after.params.weight, state.params.weight)


@pytest.mark.parametrize(
    "scale, learns",
    [(None, False), (train.DynamicScale(), True), (train.StaticScale(4096.0), True)],
    ids=["none", "dynamic", "static"],
)
def test_small_gradients_of_float16_need_a_scale(scale, learns):
    """Gradients of 3e-8 and less are 0 in float16, whose smallest number is 6e-8."""

    def small(net, batch):
        x, y = batch
        return np.mean((np.astype(net(x), np.float32) - y) * np.float32(1e-8))

    step = train.step(small, optim.SGD(1e6), precision=train.Policy(computation="float16", scale=scale))
    state = step.init(nn.MLP.init(random.key(0), [3, 4, 1]))
    moved, _ = step(state, regression())
    change = max(
        np.abs(a - b).max() for a, b in zip(core.tree.leaves(moved.params), core.tree.leaves(state.params), strict=True)
    )
    assert (change > 1e-4) == learns


def test_resume_is_bit_for_bit(tmp_path):
    x, y = regression()
    source = data.arrays(x, y).shuffle(seed=0).batch(16)

    def model():
        policy = train.Policy(computation="float16", scale=train.DynamicScale(initial=2.0**30, interval=3))
        return train.Model(
            nn.MLP.init(random.key(0), [3, 8, 1]), nn.mean_squared_error, optim.Adam(0.01), precision=policy
        )

    whole, part = model(), model()
    whole.fit(source, epochs=4)
    part.fit(source, epochs=2, checkpoint=tmp_path)
    resumed = model()
    resumed.fit(source, epochs=4, checkpoint=tmp_path)
    assert float(part.state.loss_scale.factor) < 2.0**30
    for a, b in zip(core.tree.leaves(resumed.state), core.tree.leaves(whole.state), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert resumed.predict(x).dtype == np.float32


def test_batch_statistics_stay_float32():
    first, last = nn.Linear.init(random.key(0), 3, 4), nn.Linear.init(random.key(1), 4, 1)
    net = nn.Sequential((first, nn.BatchNorm.init(4), last))
    step = train.step(loss, optim.SGD(0.1), precision="bfloat16")
    state, _ = step(step.init(net), regression())
    assert names(state) <= {"float32", "float64", "int64", "uint32"}
    assert np.abs(state.net.layers[1].mean).max() > 0


@pytest.mark.slow
def test_digits_as_accurate_as_float32():
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    x, y = (digits.data[order] / 16).astype(np.float32), digits.target[order]
    source, accuracy = data.arrays(x[:1200], y[:1200]).shuffle(seed=0).batch(50), {}
    for precision in ("float32", "bfloat16", "float16"):
        found = []
        for seed in range(3):
            model = train.Model(
                nn.MLP.init(random.key(seed), [64, 64, 10], activation=nn.relu),
                nn.cross_entropy,
                optim.Adam(3e-3),
                metrics=["accuracy"],
                precision=precision,
            )
            model.fit(source, epochs=15, progress=False)
            found.append(model.evaluate(data.arrays(x[1200:], y[1200:]).batch(597))["accuracy"])
        accuracy[precision] = np.mean(found)
    assert accuracy["float32"] > 0.95
    assert accuracy["bfloat16"] > accuracy["float32"] - 0.003
    assert accuracy["float16"] > accuracy["float32"] - 0.003


@pytest.mark.parametrize(
    "precision, message",
    [
        ("float64", "float32, bfloat16, float16"),
        ("int8", "float64, float32, bfloat16, float16"),
        (7, "must be one of"),
    ],
)
def test_refusals(precision, message):
    with pytest.raises(ValueError, match=message):
        train.step(loss, optim.SGD(0.1), precision=precision)


def test_options_are_checked():
    with pytest.raises(TypeError, match="scale must be"):
        train.Policy(scale=2.0)
    for make in (
        lambda: train.StaticScale(0.0),
        lambda: train.DynamicScale(initial=0.5),
        lambda: train.DynamicScale(interval=0),
    ):
        with pytest.raises(ValueError, match="Scale: "):
            make()
