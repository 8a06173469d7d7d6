"""Layers and losses against PyTorch's numbers (tests/data/nn), their gradients against finite differences."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import signal, special

from triskele import core
from triskele.core import nn, random

REFERENCE = np.load(Path(__file__).parents[2] / "data" / "nn" / "torch_reference.npz")


def assert_same(ours, name, rtol=1e-12):
    np.testing.assert_allclose(ours, REFERENCE[name], rtol=rtol, atol=1e-12)


def test_lstm():
    layer = nn.LSTM(
        REFERENCE["lstm_w_input"], REFERENCE["lstm_w_hidden"], REFERENCE["lstm_b_input"] + REFERENCE["lstm_b_hidden"]
    )
    ys, (h, _) = layer(REFERENCE["x"])
    assert_same(ys, "lstm_y")
    np.testing.assert_array_equal(h, ys[-1])


def test_gru():
    n = 6
    own, recurrent = REFERENCE["gru_b_input"], REFERENCE["gru_b_hidden"]
    bias = np.concatenate([own[: 2 * n] + recurrent[: 2 * n], own[2 * n :]])
    ys, h = nn.GRU(REFERENCE["gru_w_input"], REFERENCE["gru_w_hidden"], bias, recurrent[2 * n :])(REFERENCE["x"])
    assert_same(ys, "gru_y")
    np.testing.assert_array_equal(h, ys[-1])


def test_causal_attention():
    w, b = np.split(REFERENCE["attention_w"], 3, axis=1), np.split(REFERENCE["attention_b"], 3)
    projections = [nn.Linear(wi, bi) for wi, bi in zip(w, b, strict=True)]
    layer = nn.MultiHeadAttention(
        *projections, nn.Linear(REFERENCE["attention_w_out"], REFERENCE["attention_b_out"]), heads=2
    )
    assert_same(layer(REFERENCE["attention_x"], mask=np.tri(7, dtype=bool)), "attention_y")


@pytest.mark.parametrize(
    "name, options",
    [
        ("plain", {"padding": "valid"}),
        ("strided", {"stride": (2, 1), "padding": ((1, 1), (2, 2))}),
        ("dilated", {"dilation": (2, 2), "padding": ((2, 2), (2, 2))}),
        ("grouped", {"groups": 2, "padding": "valid"}),
    ],
)
def test_convolution(name, options):
    layer = nn.Conv(REFERENCE[f"conv_{name}_w"], REFERENCE[f"conv_{name}_b"], **options)
    assert_same(layer(REFERENCE["image"]), f"conv_{name}_y")


def test_one_dimensional_convolution_is_a_sliding_sum_of_products():
    layer = nn.Conv1d(random.key(0), 2, 3, 3, padding="valid", dtype=np.float64)
    x = np.random.default_rng(0).normal(size=(4, 10, 2))
    expected = np.stack([np.einsum("bwc,wco->bo", x[:, i : i + 3], layer.weight) for i in range(8)], axis=1)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-12)


def test_three_dimensional_convolution_is_scipy_s(rng):
    layer, x = nn.Conv3d(random.key(0), 2, 3, 2, padding="valid", dtype=np.float64), rng.normal(size=(2, 4, 5, 3, 2))
    expected = np.stack(
        [
            [sum(signal.correlate(image[..., c], layer.weight[..., c, o], "valid") for c in range(2)) for o in range(3)]
            for image in x
        ]
    )
    np.testing.assert_allclose(layer(x), np.moveaxis(expected, 1, -1), rtol=1e-12)


def test_gelu_by_the_hyperbolic_tangent():
    """The sigmoid's form, x / (1 + exp(-2 u)); within 5e-4 of x times the normal distribution."""
    x = np.linspace(-6, 6, 121)
    u = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    np.testing.assert_allclose(nn.gelu_tanh(x), x / (1 + np.exp(-2 * u)), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(nn.gelu_tanh(x), x * special.ndtr(x), atol=5e-4)


def test_normalizations():
    scale, bias = REFERENCE["norm_scale"], REFERENCE["norm_bias"]
    assert_same(nn.LayerNorm(scale, bias)(REFERENCE["x"]), "layer_norm_y")
    y, updated = nn.BatchNorm(scale, bias, np.zeros(4), np.ones(4)).train(REFERENCE["x"])
    assert_same(y, "batch_norm_y")
    assert_same(updated.mean, "batch_norm_mean")
    assert_same(updated.variance, "batch_norm_variance")


def test_normalizations_within_a_sample():
    scale, bias, image = REFERENCE["group_norm_scale"], REFERENCE["group_norm_bias"], REFERENCE["image"]
    assert_same(nn.GroupNorm(scale, bias, groups=2)(image), "group_norm_y")
    assert_same(nn.GroupNorm(scale, bias, groups=4)(image), "instance_norm_y")
    assert_same(nn.RMSNorm(REFERENCE["norm_scale"])(REFERENCE["x"]), "rms_norm_y")


@pytest.mark.parametrize(
    "name, options",
    [
        ("doubling", {"stride": (2, 2)}),
        ("overlapping", {"stride": (2, 2), "padding": 1, "dilation": (1, 2)}),
        ("grouped", {"groups": 2, "padding": "valid"}),
    ],
)
def test_transposed_convolution(name, options):
    layer = nn.ConvTranspose(REFERENCE[f"conv_transpose_{name}_w"], REFERENCE[f"conv_transpose_{name}_b"], **options)
    assert_same(layer(REFERENCE["image"]), f"conv_transpose_{name}_y")


def test_pooling():
    image = REFERENCE["image"]
    for name, pool in (("max", nn.max_pool), ("mean", nn.mean_pool)):
        assert_same(pool(image, 2), f"{name}_pool_y")
        assert_same(pool(image, 3, 2, 1), f"{name}_pool_padded_y")
    np.testing.assert_array_equal(nn.global_max_pool(image), image.max((1, 2)))
    np.testing.assert_allclose(nn.global_mean_pool(image), image.mean((1, 2)))


def test_networks_of_networks():
    """Functions belong to the structure, arrays of layers are the leaves; compiled and eager results agree."""

    def make(key):
        first, second = random.split(key, 2)
        body = nn.Sequential(
            [
                nn.Conv2d(first, 4, 4, 3, groups=4, dtype=np.float64),
                nn.GroupNorm.init(4, groups=2, dtype=np.float64),
                np.tanh,
            ]
        )
        end = [nn.ConvTranspose.init(second, 2, 4, 2, 2, stride=2, dtype=np.float64), nn.global_mean_pool]
        return body, nn.Sequential(
            [nn.Residual(body), partial(nn.mean_pool, window=2), nn.Residual(np.sin, np.cos), *end]
        )

    body, net = make(random.key(0))
    image = REFERENCE["image"]
    assert len(core.tree.leaves(net)) == 6
    assert core.tree.structure(net) == core.tree.structure(make(random.key(1))[1])
    np.testing.assert_allclose(core.jit(lambda net: net(image))(net), net(image), rtol=1e-12)
    np.testing.assert_array_equal(core.tree.map(lambda a: a, net)(image), net(image))
    core.check_grads(lambda net: np.sum(net(image) ** 2), (net,), order=1)
    np.testing.assert_allclose(nn.Residual(body)(image), image + body(image))


def test_running_statistics_have_no_gradient():
    layer = nn.BatchNorm.init(4, dtype=np.float64)
    grads = core.grad(lambda m: np.sum(m(REFERENCE["x"]) ** 2))(layer)
    assert not np.any(grads.mean) and not np.any(grads.variance) and np.all(grads.scale)


def test_compiled_slopes_of_weighted_cross_entropy_are_finite():
    """Products that are computed again in the backward pass may round otherwise, and no longer equal their maximum."""

    def loss(layer, x, labels, weights):
        return np.mean(weights * core.vmap(lambda z, t: nn.cross_entropy(z[None], t[None]))(layer(x), labels))

    compiled = core.jit(core.grad(loss))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        args = (
            nn.Linear(rng.normal(size=(2, 3)), rng.normal(size=3)),
            rng.normal(size=(30, 2)),
            rng.integers(0, 3, 30),
            rng.uniform(size=30),
        )
        np.testing.assert_allclose(compiled(*args).weight, core.grad(loss)(*args).weight, rtol=1e-10, atol=1e-14)


def test_binary_cross_entropy():
    z, t = np.array([-800.0, -1.0, 0.5, 800.0]), np.array([0.0, 1.0, 0.3, 1.0])
    p = 1 / (1 + np.exp(-z[1:3]))
    expected = -np.sum(t[1:3] * np.log(p) + (1 - t[1:3]) * np.log(1 - p)) / 4  # the outer two are certain and right
    np.testing.assert_allclose(nn.binary_cross_entropy(z, t), expected, rtol=1e-14)
    core.check_grads(lambda z: nn.binary_cross_entropy(z, t[1:3]), (z[1:3],), order=2)
    with pytest.raises(ValueError, match=r"targets must have shape .4,., got .4, 1. .the shape of logits"):
        nn.binary_cross_entropy(z, t[:, None])


def test_activations_and_cross_entropy():
    x = REFERENCE["x"]
    assert_same(nn.gelu(x), "gelu_y")
    assert_same(nn.silu(x), "silu_y")
    assert_same(nn.softplus(x), "softplus_y")
    assert_same(nn.cross_entropy(x[0], REFERENCE["labels"]), "cross_entropy")
    assert_same(nn.cross_entropy(x[0], REFERENCE["labels"], smoothing=0.1), "cross_entropy_smooth")
    shares = nn.softmax(x[0][::-1])
    assert_same(nn.cross_entropy(x[0], shares), "cross_entropy_soft")
    assert_same(nn.cross_entropy(x[0], shares, smoothing=0.1), "cross_entropy_soft_smooth")
    np.testing.assert_allclose(np.sum(nn.softmax(1e4 * x), axis=-1), 1)


@pytest.mark.parametrize(
    "make",
    [
        lambda key: nn.MLP.init(key, [4, 5, 2], activation=np.tanh, dtype=np.float64),
        lambda key: nn.LSTM.init(key, 4, 3, dtype=np.float64),
        lambda key: nn.GRU.init(key, 4, 3, dtype=np.float64),
        lambda key: nn.MultiHeadAttention.init(key, 4, heads=2, dtype=np.float64),
        lambda key: nn.LayerNorm.init(4, dtype=np.float64),
        lambda key: nn.RMSNorm.init(4, dtype=np.float64),
        lambda key: nn.GroupNorm.init(4, groups=2, dtype=np.float64),
        lambda key: nn.Conv1d(key, 4, 2, 3, dtype=np.float64),
        lambda key: nn.Conv1d(key, 4, 8, 3, groups=4, dtype=np.float64),
        lambda key: nn.ConvTranspose.init(key, 1, 4, 2, 3, stride=2, dtype=np.float64),
    ],
    ids=[
        "mlp",
        "lstm",
        "gru",
        "attention",
        "layer_norm",
        "rms_norm",
        "group_norm",
        "conv1d",
        "depthwise",
        "conv_transpose",
    ],
)
def test_gradients_of_whole_layers_eager_and_compiled(make):
    layer = make(random.key(3))
    x = REFERENCE["x"]

    def loss(m):
        y = m(x)
        return np.sum((y[0] if isinstance(y, tuple) else y) ** 2)

    core.check_grads(loss, (layer,), order=1)
    eager, compiled = core.grad(loss)(layer), core.jit(core.grad(loss))(layer)
    for a, b in zip(core.tree.leaves(eager), core.tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_initializers_have_the_variance_of_their_paper():
    shape = (400, 300)
    for init, variance in (
        (nn.init.glorot_uniform, 2 / 700),
        (nn.init.lecun_normal, 1 / 400),
        (nn.init.he_normal, 2 / 400),
    ):
        w = init(random.key(1), shape)
        assert w.dtype == np.float32
        # 120,000 samples: the relative standard error of the variance is under 0.5 %
        assert abs(np.var(w) / variance - 1) < 0.02
    q = nn.init.orthogonal(random.key(2), (20, 8), np.float64)
    np.testing.assert_allclose(q.T @ q, np.eye(8), atol=1e-12)


def test_wrong_shapes_are_named():
    with pytest.raises(ValueError, match=r"Linear: the input must have shape \(..., 3\), got \(5, 4\)"):
        nn.Linear.init(random.key(0), 3, 2)(np.zeros((5, 4)))
    with pytest.raises(ValueError, match="labels must have the shape"):
        nn.cross_entropy(np.zeros((3, 4)), np.zeros((3, 1), int))
    with pytest.raises(ValueError, match="heads must divide"):
        nn.MultiHeadAttention.init(random.key(0), 6, heads=4)
    with pytest.raises(ValueError, match="GroupNorm: groups must divide the channels, got 3 for 4"):
        nn.GroupNorm.init(4, groups=3)
    with pytest.raises(ValueError, match=r"Residual: the shortcut must have shape \(5, 2\), got \(5, 3\) .that of the"):
        nn.Residual(nn.Linear.init(random.key(0), 3, 2))(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="max_pool: padding must be smaller than the window"):
        nn.max_pool(np.zeros((1, 4, 4, 1)), 2, padding=2)
    with pytest.raises(ValueError, match=r"conv_transpose: x must be .* got shapes \(1, 4, 3\) and \(2, 2, 4\)"):
        nn.conv_transpose(np.zeros((1, 4, 3)), np.zeros((2, 2, 4)))
    with pytest.raises(ValueError, match="the shape of prediction"):
        nn.mean_squared_error(np.zeros((3, 1)), np.zeros(3))


def test_indices_out_of_range_are_named():
    embedding = nn.Embedding(np.arange(8.0).reshape(4, 2))
    for bad in (-1, 4):
        tokens = np.array([[0, 1, 2], [3, bad, 0]])
        with pytest.raises(IndexError, match=rf"Embedding: indices must be .* below 4, got {bad} at \(1, 1\)"):
            embedding(tokens)
        with pytest.raises(IndexError, match=r"Embedding: indices .* is not at \(1, 1\) \(at .*test_layers"):
            core.jit(lambda e, i: e(i))(embedding, tokens)
        labels = tokens[1]
        with pytest.raises(IndexError, match=rf"cross_entropy: labels .* below 4, got {bad} at \(1,\)"):
            nn.cross_entropy(np.zeros((3, 4)), labels)
        for f in (nn.cross_entropy, core.grad(nn.cross_entropy)):
            with pytest.raises(IndexError, match=r"cross_entropy: labels .* below 4, got one that is not at \(1,\)"):
                core.jit(f)(np.zeros((3, 4)), labels)


@pytest.mark.parametrize("how", [lambda f: f, core.jit])
def test_ignored_labels_do_not_count(rng, how):
    x, labels = rng.normal(size=(2, 3, 5)), np.array([[0, -100, 4], [-100, 2, 1]])
    used = labels >= 0
    for smoothing in (0.0, 0.1):
        options = {"smoothing": smoothing, "ignore_index": -100}
        value, grad = how(core.value_and_grad(lambda x, t, o=options: nn.cross_entropy(x, t, **o)))(x, labels)
        want, slope = core.value_and_grad(nn.cross_entropy)(x[used], labels[used], smoothing=smoothing)
        np.testing.assert_allclose(value, want, rtol=1e-14)
        np.testing.assert_allclose(grad[used], slope, rtol=1e-12)
        assert not grad[~used].any()
    with pytest.raises(TypeError, match="ignore_index needs integer labels"):
        nn.cross_entropy(x, np.full(x.shape, 0.2), ignore_index=0)


def test_layers_made_of_sizes_name_init():
    x = np.ones((2, 3))
    for name, make in (
        ("Linear", lambda: nn.Linear(3, 4)(x)),
        ("MLP", lambda: nn.MLP([3, 4])(x)),
        ("Embedding", lambda: nn.Embedding(10)(np.ones(2, int))),
        ("Embedding", lambda: nn.Embedding(10, 4)),
        ("LayerNorm", lambda: nn.LayerNorm(3)(x)),
        ("Linear", lambda: core.jit(lambda x: nn.Linear(3, 4)(x))(x)),
    ):
        with pytest.raises(TypeError, match=rf"nn\.{name}\.init\(key, \.\.\.\) makes a layer"):
            make()
    with pytest.raises(ValueError, match="the input must have shape .*3., got"):
        nn.Linear.init(core.random.key(0), 3, 4)(np.ones((2, 5)))
