"""Training step of a perceptron of four layers of 1024, in float32 and in bfloat16 with float32 parameters."""

from importlib.util import find_spec

import numpy

from tests.benchmarks.case import Case

WIDTH, LAYERS, RATE = 1024, 4, 1e-6


def data(batch):
    rng = numpy.random.default_rng(7)

    def normal(*shape):
        return (rng.standard_normal(shape) / numpy.sqrt(shape[0])).astype(numpy.float32)

    p = {f"{kind}{k}": normal(WIDTH, WIDTH) if kind == "w" else normal(WIDTH) for k in range(LAYERS) for kind in "bw"}
    return p, rng.standard_normal((batch, WIDTH), dtype=numpy.float32), normal(batch, WIDTH)


def training_step(tool, name):
    np = tool.np

    def loss(p, x, y):
        dtype = numpy.float32
        if name == "bfloat16":
            from ml_dtypes import bfloat16 as dtype
        p, h = {k: v.astype(dtype) for k, v in p.items()}, x.astype(dtype)
        for k in range(LAYERS):
            h = np.matmul(h, p[f"w{k}"]) + p[f"b{k}"]
            h = np.maximum(h, np.zeros_like(h)) if k < LAYERS - 1 else h
        return np.mean((h.astype(numpy.float32) - y) ** 2)

    def step(p, x, y):
        value, g = tool.value_and_grad(loss)(p, x, y)
        return value, {k: p[k] - RATE * g[k] for k in p}

    return step


TOLERANCES = {"float32": 2e-4, **({"bfloat16": 2e-2} if find_spec("ml_dtypes") else {})}
for name, tolerance in TOLERANCES.items():
    for batch in (128, 512):
        case = Case(
            f"mlp_1024_{name}_{batch}",
            lambda batch=batch: data(batch),
            "float32",
            tolerance,
            flops=2 * batch * WIDTH**2 * (3 * LAYERS - 1),
            bytes=4 * (2 * LAYERS * WIDTH**2 + 2 * WIDTH * batch),
        )
        case.program("triskele", "jax")(lambda tool, name=name: training_step(tool, name))
