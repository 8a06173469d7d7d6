"""Two transformer blocks: loss and gradient of all weights; 8 sequences of 128 tokens, width 128, 4 heads."""

import math

import numpy

from tests.benchmarks.case import Case

BATCH, LENGTH, WIDTH, HEADS, INNER, BLOCKS = 8, 128, 128, 4, 512, 2
HEAD = WIDTH // HEADS


def data():
    rng = numpy.random.default_rng(7)

    def normal(*shape):
        return (rng.standard_normal(shape) / math.sqrt(shape[0])).astype(numpy.float32)

    def block():
        return {
            "mix": normal(WIDTH, WIDTH),
            "qkv": normal(WIDTH, 3 * WIDTH),
            "scale1": 1 + 0.1 * normal(WIDTH),
            "scale2": 1 + 0.1 * normal(WIDTH),
            "shift1": normal(WIDTH),
            "shift2": normal(WIDTH),
            "w1": normal(WIDTH, INNER),
            "w2": normal(INNER, WIDTH),
        }

    x = rng.standard_normal((BATCH, LENGTH, WIDTH)).astype(numpy.float32)
    return [block() for _ in range(BLOCKS)], x, rng.standard_normal(x.shape).astype(numpy.float32)


TOKENS = BATCH * LENGTH
PRODUCTS = 2 * TOKENS * WIDTH * (4 * WIDTH + 2 * INNER) + 4 * TOKENS * LENGTH * WIDTH
case = Case(
    "transformer_2_blocks", data, "float32", 2e-4, flops=3 * BLOCKS * PRODUCTS, bytes=4 * BLOCKS * TOKENS * WIDTH * 20
)


@case.program("triskele", "jax", "autograd")
def loss_and_gradient(tool):
    np = tool.np

    def normalize(x, scale, shift):
        x = x - np.mean(x, axis=-1, keepdims=True)
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-5) * scale + shift

    def attend(x, p):
        q, k, v = (
            np.transpose(np.reshape(part, (BATCH, LENGTH, HEADS, HEAD)), (0, 2, 1, 3))
            for part in np.split(np.matmul(x, p["qkv"]), 3, axis=-1)
        )
        scores = np.matmul(q, np.swapaxes(k, 2, 3)) * (1 / math.sqrt(HEAD))
        weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        weights = weights / np.sum(weights, axis=-1, keepdims=True)
        mixed = np.transpose(np.matmul(weights, v), (0, 2, 1, 3))
        return np.matmul(np.reshape(mixed, (BATCH, LENGTH, WIDTH)), p["mix"])

    def gelu(x):
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))

    def loss(blocks, x, target):
        for p in blocks:
            x = x + attend(normalize(x, p["scale1"], p["shift1"]), p)
            x = x + np.matmul(gelu(np.matmul(normalize(x, p["scale2"], p["shift2"]), p["w1"])), p["w2"])
        return np.mean((x - target) ** 2)

    return tool.value_and_grad(loss)


@case.by_hand("torch")
def functional(blocks, x, target):
    import torch
    import torch.nn.functional as f

    blocks = [{k: torch.from_numpy(v).requires_grad_() for k, v in p.items()} for p in blocks]
    x, target = torch.from_numpy(x), torch.from_numpy(target)
    flat = [p[k] for p in blocks for k in sorted(p)]

    def attend(y, p):
        q, k, v = ((y @ p["qkv"]).view(BATCH, LENGTH, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)).unbind(0)
        mixed = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)
        return mixed @ p["mix"]

    def run():
        y = x
        for p in blocks:
            y = y + attend(f.layer_norm(y, (WIDTH,), p["scale1"], p["shift1"]), p)
            inner = f.layer_norm(y, (WIDTH,), p["scale2"], p["shift2"]) @ p["w1"]
            y = y + f.gelu(inner, approximate="tanh") @ p["w2"]
        value = ((y - target) ** 2).mean()
        return value, torch.autograd.grad(value, flat)

    return run
