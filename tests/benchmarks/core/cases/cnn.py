"""Training step of a small convolutional network on 32 images 28 x 28: conv 16, pool, conv 32, pool, dense 10; plain SGD."""

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
        "b1": normal(16, fan=16), "b2": normal(32, fan=32), "b3": normal(10, fan=10),
        "k1": normal(16, 1, 3, 3, fan=9), "k2": normal(32, 16, 3, 3, fan=144), "w3": normal(32 * 49, 10, fan=32 * 49),
    }  # fmt: skip
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


@case.by_hand("jax")
def jax_step(p, x, y):
    import jax
    import jax.numpy as np
    from jax import lax

    def convolve(x, kernel, bias):
        out = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "OIHW", "NHWC"))
        return lax.reduce_window(np.maximum(out + bias, 0), -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def layers(p, x):
        x = convolve(convolve(x, p["k1"], p["b1"]), p["k2"], p["b2"])
        return np.transpose(x, (0, 3, 1, 2)).reshape(BATCH, -1)

    step = jax.jit(training_step(np, jax.value_and_grad, layers))
    p, x, y = jax.tree.map(np.asarray, (p, x.transpose(0, 2, 3, 1), y))
    return lambda: jax.block_until_ready(step(p, x, y))


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
