"""Blocks of the Fisher matrix: found for every layer, and equal to the exact matrix where theory says so."""

import numpy as np
import pytest

from triskele import core
from triskele.core import nn, optim, random, tree
from triskele.core.ops.convolve_nd import conv_general
from triskele.core.optim.curvature import Curvature

KEY = random.key(3)
RNG = np.random.default_rng(5)
X = RNG.normal(size=(6, 3))


def mean_squared(forward):
    """A loss of a network on (inputs, targets)."""
    return lambda params, batch: nn.mean_squared_error(forward(params, batch[0]), batch[1])


def batch_for(forward, params, x):
    return x, RNG.normal(size=np.shape(forward(params, x)))


def estimate(loss, params, batch, exact=True, key=KEY):
    curvature = Curvature("test", loss, params, batch)
    return curvature, curvature.estimate(params, batch, key, exact)


def exact_fisher(forward, params, x, weight):
    """J^T H J of a mean squared error, H = 2 weight, as blocks [i][j] of leaves."""
    jacobian = tree.leaves(core.jacrev(lambda p: np.ravel(forward(p, x)))(params))
    flat = [np.reshape(j, (np.shape(j)[0], -1)) for j in jacobian]
    return [[2 * weight * a.T @ b for b in flat] for a in flat]


def test_kronecker_factors_are_the_fisher_matrix_of_a_linear_network():
    sizes = [3, 4, 2, 5]
    net = nn.MLP.init(random.key(0), sizes, activation=lambda x: x, dtype=np.float64)
    forward = lambda net, x: net(x)
    batch = batch_for(forward, net, X)
    curvature, found = estimate(mean_squared(forward), net, batch)
    fisher = exact_fisher(forward, net, X, 1 / batch[1].size)
    for k in range(3):
        left, right = found.factors[k]
        block = np.block([[fisher[i][j] for j in (2 * k, 2 * k + 1)] for i in (2 * k, 2 * k + 1)])
        np.testing.assert_allclose(np.kron(left, right), block, atol=1e-14)
        assert curvature.blocks[k].sizes == (sizes[k] + 1, sizes[k + 1])


def test_factors_of_a_softmax_regression_with_one_input_are_exact():
    """For one row, A ⊗ G is exact whatever the Hessian of the output."""
    net = nn.Linear.init(random.key(0), 3, 4, dtype=np.float64)
    _, found = estimate(lambda net, b: nn.cross_entropy(net(b[0]), b[1]), net, (X[:1], np.array([2])))
    p = nn.softmax(net(X[:1]))[0]
    x = np.append(X[0], 1)
    np.testing.assert_allclose(
        np.kron(*found.factors[0]), np.kron(np.outer(x, x), np.diag(p) - np.outer(p, p)), atol=1e-15
    )


@pytest.mark.parametrize("distribution", ["categorical", "bernoulli", "normal"])
def test_sampled_factors_have_the_exact_mean(distribution):
    def loss(w, x):
        z = x @ w
        losses = {"categorical": -nn.log_softmax(z)[:, 0], "bernoulli": nn.softplus(z), "normal": z**2}[distribution]
        return np.sum(optim.likelihood(losses, z, distribution))

    w = RNG.normal(size=(3, 4))
    curvature, exact = estimate(loss, w, X)
    keys = random.split(KEY, 4000)
    samples = core.jit(core.vmap(lambda key: curvature.estimate(w, X, key).factors[0][1]))(keys)
    error = np.std(samples, axis=0) / np.sqrt(len(keys))
    assert np.all(np.abs(np.mean(samples, axis=0) - exact.factors[0][1]) < 5 * error + 1e-12)


def test_embedding_and_convolution_blocks_are_exact_for_linear_networks():
    embedding = {
        "rows": nn.Embedding.init(random.key(0), 5, 3, dtype=np.float64),
        "out": nn.Linear.init(random.key(1), 3, 2, bias=False, dtype=np.float64),
    }
    forward = lambda p, i: p["out"](p["rows"](i))
    indices = np.array([0, 3, 3, 1])
    batch = batch_for(forward, embedding, indices)
    _, found = estimate(mean_squared(forward), embedding, batch)
    fisher = exact_fisher(forward, embedding, indices, 1 / batch[1].size)  # leaves: out, rows
    np.testing.assert_allclose(np.kron(*found.factors[0]), fisher[0][0], atol=1e-14)
    np.testing.assert_allclose(np.kron(np.diag(found.factors[1][0]), found.factors[1][1]), fisher[1][1], atol=1e-14)

    # a window over the whole image is a product, and its patches are the image
    conv = nn.Conv2d(random.key(0), 2, 3, (4, 3), padding="valid", bias=True, dtype=np.float64)
    images = RNG.normal(size=(5, 4, 3, 2))
    forward = lambda p, x: p(x)
    batch = batch_for(forward, conv, images)
    _, found = estimate(mean_squared(forward), conv, batch)
    fisher = exact_fisher(forward, conv, images, 1 / batch[1].size)
    np.testing.assert_allclose(np.kron(*found.factors[0]), np.block(fisher), atol=1e-14)


def test_transposed_convolution_is_exact_at_one_position_and_the_convolution_with_places_changed():
    net = nn.ConvTranspose.init(random.key(0), 2, 2, 3, (4, 3), padding="valid", bias=False, dtype=np.float64)
    forward = lambda p, x: np.reshape(p(x), (5, -1))
    x = RNG.normal(size=(5, 1, 1, 2))
    batch = batch_for(forward, net, x)
    curvature, found = estimate(mean_squared(forward), net, batch)
    assert curvature.blocks[0].sizes == (2, 36)
    fisher = exact_fisher(forward, net, x, 1 / batch[1].size)[0][0]
    order = np.arange(72).reshape(36, 2).T.ravel()  # the kernel (window, out, in) as (in, window and out)
    np.testing.assert_allclose(np.kron(*found.factors[0]), fisher[np.ix_(order, order)], atol=1e-14)
    gradient = [RNG.normal(size=net.weight.shape)]
    out = [None]
    curvature.put_matrix(curvature.places[0], curvature.as_matrix(curvature.places[0], gradient), out)
    np.testing.assert_array_equal(out[0], gradient[0])


def test_patches_of_strided_dilated_padded_convolutions_are_those_of_the_kernel():
    kernel = RNG.normal(size=(3, 2, 2, 4))
    x = RNG.normal(size=(3, 8, 7, 2))
    options = {"stride": (2, 1), "padding": ((1, 2), (0, 1)), "dilation": (2, 1)}
    forward = lambda k, x: conv_general(x, k, **options)
    batch = batch_for(forward, kernel, x)
    curvature, found = estimate(mean_squared(forward), kernel, batch)
    columns = np.eye(kernel.size // 4).reshape(3, 2, 2, -1)
    patches = np.reshape(conv_general(x, columns, **options), (-1, kernel.size // 4))
    np.testing.assert_allclose(found.factors[0][0], patches.T @ patches / len(patches), atol=1e-14)


def test_diagonals_of_scales_and_gradients_of_other_parameters():
    params = {"scale": RNG.normal(size=3), "power": RNG.normal(size=3), "table": RNG.normal(size=(6, 3))}
    forward = lambda p, x: (x + p["table"]) * p["scale"] + x**2 * np.exp(p["power"])
    batch = batch_for(forward, params, X)
    curvature, found = estimate(mean_squared(forward), params, batch)
    assert [(b.kind, b.parameters) for b in curvature.blocks] == [
        ("gradient", ("power",)),
        ("diagonal", ("scale",)),
        ("diagonal", ("table",)),
    ]
    fisher = exact_fisher(forward, params, X, 1 / batch[1].size)
    for k in (1, 2):
        np.testing.assert_allclose(np.ravel(found.factors[k][0]), np.diag(fisher[k][k]), atol=1e-14)
    keys = random.split(KEY, 4000)
    samples = core.jit(core.vmap(lambda key: curvature.estimate(params, batch, key).factors[0][0]))(keys)
    error = np.std(samples, axis=0) / np.sqrt(len(keys))
    assert np.all(np.abs(np.mean(samples, axis=0) - np.diag(fisher[0][0])) < 5 * error)


def test_several_uses_are_summed():
    """Twice the same product has the factors of a batch with all rows; a tied embedding keeps the sum of traces."""
    w = RNG.normal(size=(3, 2))
    batch = (X, RNG.normal(size=(12, 2)))
    _, twice = estimate(lambda w, b: nn.mean_squared_error(np.concatenate([b[0] @ w, -b[0] @ w]), b[1]), w, batch)
    _, once = estimate(lambda w, b: nn.mean_squared_error(np.concatenate([b[0], -b[0]]) @ w, b[1]), w, batch)
    for a, b in zip(twice.factors[0], once.factors[0], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-14)

    e = RNG.normal(size=(5, 3))
    indices = np.array([0, 4, 4, 1])
    loss = lambda e, i: nn.cross_entropy(np.tanh(e[0][i]) @ e[1].T, i)
    _, apart = estimate(loss, [e, e.copy()], indices)
    curvature, tied = estimate(lambda e, i: loss([e, e], i), e, indices)
    assert curvature.blocks[0].uses == ("gather", "product")
    traces = [np.sum(a) if np.ndim(a) == 1 else np.trace(a) for f in apart.factors for a in f]
    np.testing.assert_allclose(
        np.prod([np.trace(a) for a in tied.factors[0]]), traces[0] * traces[1] + traces[2] * traces[3]
    )


LAYERS = {
    "Linear": (nn.Linear.init(KEY, 3, 2), lambda n, x: n(x), X, "product"),
    "MLP": (nn.MLP.init(KEY, [3, 4, 2]), lambda n, x: n(x), X, "product"),
    "Conv": (nn.Conv1d(KEY, 3, 2, 2), lambda n, x: n(x[None]), X, "convolution"),
    "ConvTranspose": (
        nn.ConvTranspose.init(KEY, 1, 3, 2, 2, stride=2),
        lambda n, x: n(x[None]),
        X,
        "convolution shift",
    ),
    "Embedding": (nn.Embedding.init(KEY, 4, 3), lambda n, x: n(x), np.arange(4), "gather"),
    "LayerNorm": (nn.LayerNorm.init(3), lambda n, x: n(x), X, "scale shift"),
    "GroupNorm": (nn.GroupNorm.init(4, groups=2), lambda n, x: n(np.concatenate([x, x[:, :1]], 1)), X, "scale shift"),
    "RMSNorm": (nn.RMSNorm.init(3), lambda n, x: n(x), X, "scale"),
    "BatchNorm": (nn.BatchNorm.init(3), lambda n, x: n.train(x)[0], X, "scale shift"),
    "LSTM": (nn.LSTM.init(KEY, 3, 2), lambda n, x: n(x[:, None])[0], X, "product"),
    "GRU": (nn.GRU.init(KEY, 3, 2), lambda n, x: n(x[:, None])[0], X, "product shift"),
    "MultiHeadAttention": (
        nn.MultiHeadAttention.init(KEY, 4, 2),
        lambda n, x: n(x),
        RNG.normal(size=(2, 5, 4)),
        "product",
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_has_blocks_and_its_gradient_is_unchanged(name):
    net, forward, x, uses = LAYERS[name]
    net = tree.map(lambda p: p.astype(float), net)
    batch = batch_for(forward, net, x)
    loss = mean_squared(forward)
    curvature, found = estimate(loss, net, batch, exact=False)
    assert sorted({u for b in curvature.blocks for u in b.uses}) == uses.split()
    constant = {b.parameters for b in curvature.blocks if b.kind == "constant"}
    assert constant == ({("mean",), ("variance",)} if name == "BatchNorm" else set())
    assert "gradient" not in {b.kind for b in curvature.blocks}
    assert sorted(p for b in curvature.blocks for p in b.parameters) == sorted(curvature.names)
    for a, b in zip(found.grads, tree.leaves(core.grad(loss)(net, batch)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)
    compiled = core.jit(lambda *a: curvature.estimate(*a).factors)(net, batch, KEY)
    for a, b, c in zip(*map(tree.leaves, (found.factors, compiled, curvature.zeros())), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
        assert np.shape(a) == np.shape(c)


def test_factors_inside_a_loop_are_those_of_the_unrolled_loop():
    cell = nn.LSTM.init(KEY, 3, 2, dtype=np.float64)
    xs = RNG.normal(size=(4, 5, 3))

    def unrolled(cell, xs):
        h = c = np.zeros((5, 2))
        out = []
        for x in xs:
            z = x @ cell.w_input + cell.bias + h @ cell.w_hidden
            i, f, g, o = (z[:, 2 * k : 2 * k + 2] for k in range(4))
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
            h = nn.sigmoid(o) * np.tanh(c)
            out.append(h)
        return np.stack(out)

    target = RNG.normal(size=(4, 5, 2))
    for forward in (lambda n, x: n(x)[0], lambda n, x: core.checkpoint(lambda n, x: n(x)[0])(n, x)):
        _, loop = estimate(mean_squared(forward), cell, (xs, target), exact=False)
        _, plain = estimate(mean_squared(unrolled), cell, (xs, target), exact=False)
        for a, b in zip(tree.leaves(loop.factors), tree.leaves(plain.factors), strict=True):
            np.testing.assert_allclose(a, b, atol=1e-13)


def test_products_with_the_exact_fisher_matrix():
    net = nn.MLP.init(random.key(0), [3, 4, 2], dtype=np.float64)
    forward = lambda net, x: net(x)
    batch = batch_for(forward, net, X)
    loss = mean_squared(forward)
    curvature, found = estimate(loss, net, batch)
    vectors = [[RNG.normal(size=np.shape(p)) for p in tree.leaves(net)] for _ in range(2)]
    flat = [np.concatenate([np.ravel(v) for v in vector]) for vector in vectors]
    fisher = np.block(exact_fisher(forward, net, X, 1 / batch[1].size))
    np.testing.assert_allclose(
        curvature.products(net, batch, found.weights, vectors), [[a @ fisher @ b for b in flat] for a in flat]
    )


def test_weights_of_samples_enter_the_curvature():
    """A sample of weight two counts as the sample twice."""

    def loss(w, batch):
        x, y, weight = batch
        z = x @ w
        losses = -np.take_along_axis(nn.log_softmax(z), y[:, None], axis=-1)[:, 0]
        return np.sum(weight * optim.likelihood(losses, z, "categorical"))

    w, y = RNG.normal(size=(3, 4)), np.arange(6) % 4
    weight = np.array([2.0, 1, 1, 1, 1, 0])
    order = [0, 0, 1, 2, 3, 4]
    _, a = estimate(loss, w, (X, y, weight))
    _, b = estimate(loss, w, (X[order], y[order], np.ones(6)))
    np.testing.assert_allclose(a.factors[0][1], b.factors[0][1], atol=1e-14)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda w, x: np.sum((x @ w) ** 2), "must contain a marked likelihood, got none"),
        (lambda w, x: nn.mean_squared_error(x @ w, x @ w) * np.ones(2), "must be a real scalar"),
        (lambda w, x: nn.mean_squared_error(x, 2 * x), "marked likelihood|depend on the parameters"),
        (lambda w, x: core.checkpoint(lambda w: nn.mean_squared_error(x @ w, x[:, :2]))(w), "outside of it"),
    ],
)
def test_bad_losses_are_refused(loss, message):
    with pytest.raises(ValueError, match=message):
        optim.curvature_blocks(loss, np.ones((3, 2)), X)


def test_bad_marks_are_refused():
    with pytest.raises(ValueError, match="distribution must be one of"):
        optim.likelihood(np.zeros(3), np.zeros(3), "poisson")
    with pytest.raises(ValueError, match="without its last axis"):
        optim.likelihood(np.zeros((3, 2)), np.zeros((3, 2)), "categorical")
    with pytest.raises(TypeError, match="must be real"):
        optim.curvature_blocks(lambda w, x: nn.mean_squared_error(np.real(x @ w), X[:, 0]), np.ones(3) + 0j, X)
