"""Training step of a small convolutional network on 32 images 28 x 28: conv 16, pool, conv 32, pool, dense 10; plain
SGD.
"""

import math

import numpy

from tests.benchmarks.case import Case

BATCH, RATE = 32, 1e-6


def data():
    """Kernels are [out, in, 3, 3] and images [n, channel, row, column]; each tool turns them to the layout it likes."""
    rng = numpy.random.default_rng(8)

    def normal(*shape, fan):
        return (rng.standard_normal(shape) / math.sqrt(fan)).astype(numpy.float32)

    p = {
        "b1": normal(16, fan=16),
        "b2": normal(32, fan=32),
        "b3": normal(10, fan=10),
        "k1": normal(16, 1, 3, 3, fan=9),
        "k2": normal(32, 16, 3, 3, fan=144),
        "w3": normal(32 * 49, 10, fan=32 * 49),
    }
    x = rng.random((BATCH, 1, 28, 28), dtype=numpy.float32)
    return p, x, numpy.eye(10, dtype=numpy.float32)[rng.integers(0, 10, BATCH)]


FLOPS = 2 * BATCH * (28 * 28 * 16 * 9 * 2 + 14 * 14 * 32 * 144 * 3 + 32 * 49 * 10 * 3)
case = Case("cnn_step", data, "float32", 2e-4, flops=FLOPS, bytes=4 * BATCH * 28 * 28 * 16 * 4)


def training_step(np, value_and_grad, layers):
    """`layers(p, x)` gives the features [n, 32 * 49] in the order channel, row, column."""

    def loss(p, x, y):
        z = np.matmul(layers(p, x), p["w3"]) + p["b3"]
        z = z - np.max(z, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(y * z, axis=1))

    def step(p, x, y):
        value, g = value_and_grad(loss)(p, x, y)
        return value, {k: p[k] - RATE * g[k] for k in p}, g

    return step


def channels_last(p, x):
    """Kernels [3, 3, in, out] and images [n, row, column, channel]."""
    turned = {k: v.transpose(2, 3, 1, 0) if k in ("k1", "k2") else v for k, v in p.items()}
    return {k: numpy.ascontiguousarray(v) for k, v in turned.items()}, x.transpose(0, 2, 3, 1).copy()


def pooled(np, x):
    """Largest of every 2 x 2 square of relu(x)."""
    n, rows, columns, channels = x.shape
    squares = np.reshape(np.maximum(x, 0), (n, rows // 2, 2, columns // 2, 2, channels))
    return np.max(squares, axis=(2, 4))


def layers(np, convolve):
    def features(p, x):
        x = pooled(np, convolve(x, p["k1"], p["b1"]))
        x = pooled(np, convolve(x, p["k2"], p["b2"]))
        return np.reshape(np.transpose(x, (0, 3, 1, 2)), (BATCH, -1))

    return features


def turned_back(result):
    value, *trees = result
    return value, *({k: v.transpose(3, 2, 0, 1) if v.ndim == 4 else v for k, v in tree.items()} for tree in trees)


@case.by_hand("triskele")
def triskele_step(p, x, y):
    from triskele import core
    from triskele.core import nn

    step = core.jit(training_step(numpy, core.value_and_grad, layers(numpy, lambda x, k, b: nn.Conv(k, b)(x))))
    p, x = channels_last(p, x)
    return lambda: turned_back(step(p, x, y))


@case.by_hand("jax")
def jax_step(p, x, y):
    import jax
    import jax.numpy as np

    def convolve(x, kernel, bias):
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout) + bias

    step = jax.jit(training_step(np, jax.value_and_grad, layers(np, convolve)))
    p, x, y = jax.tree.map(np.asarray, (*channels_last(p, x), y))

    def run():
        value, new, g = jax.block_until_ready(step(p, x, y))
        return turned_back((value, *({k: numpy.asarray(v) for k, v in tree.items()} for tree in (new, g))))

    return run


@case.by_hand("torch")
def torch_step(p, x, y):
    import torch
    import torch.nn.functional as f

    p = {k: torch.from_numpy(v).requires_grad_() for k, v in p.items()}
    x, labels = torch.from_numpy(x), torch.from_numpy(y.argmax(1))
    optimizer = torch.optim.SGD(p.values(), lr=RATE)

    def run():
        optimizer.zero_grad()
        h = f.max_pool2d(f.relu(f.conv2d(x, p["k1"], p["b1"], padding=1)), 2)
        h = f.max_pool2d(f.relu(f.conv2d(h, p["k2"], p["b2"], padding=1)), 2)
        value = f.cross_entropy(h.flatten(1) @ p["w3"] + p["b3"], labels)
        value.backward()
        optimizer.step()
        return value, p, {k: a.grad for k, a in p.items()}

    return run
