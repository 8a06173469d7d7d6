"""A character GPT, as nanoGPT's recipe for laptops: loss and gradient of 12 windows of 64 characters.

4 layers of width 128 with 4 heads, tied embedding, 65 characters.
"""

import math

import numpy

from tests.benchmarks.case import Case

BATCH, LENGTH, WIDTH, HEADS, LAYERS, LETTERS = 12, 64, 128, 4, 4, 65
TOKENS = BATCH * LENGTH


def data():
    rng = numpy.random.default_rng(13)

    def normal(*shape):
        return (0.3 * rng.standard_normal(shape) / math.sqrt(shape[0])).astype(numpy.float32)

    def norm():
        return {"scale": 1 + normal(WIDTH), "shift": normal(WIDTH)}

    def block():
        return {
            "norm1": norm(),
            "norm2": norm(),
            "q": normal(WIDTH, WIDTH),
            "k": normal(WIDTH, WIDTH),
            "v": normal(WIDTH, WIDTH),
            "mix": normal(WIDTH, WIDTH),
            "up": normal(WIDTH, 4 * WIDTH),
            "down": normal(4 * WIDTH, WIDTH),
        }

    weights = {
        "letters": normal(LETTERS, WIDTH),
        "places": normal(LENGTH, WIDTH),
        "norm": norm(),
        "blocks": [block() for _ in range(LAYERS)],
    }
    return weights, *(rng.integers(0, LETTERS, (BATCH, LENGTH)) for _ in range(2))


PRODUCTS = 2 * TOKENS * WIDTH * (LAYERS * 12 * WIDTH + LETTERS) + LAYERS * 2 * TOKENS * LENGTH * WIDTH
case = Case("character_gpt", data, "float32", 2e-4, flops=3 * PRODUCTS, bytes=4 * LAYERS * TOKENS * WIDTH * 20)


def loss(weights, x, y, tools):
    """The loss; `tools` are the functions that differ in name."""
    normalize, attention, gelu, cross_entropy = tools
    h = weights["letters"][x] + weights["places"]
    for p in weights["blocks"]:
        z = normalize(h, p["norm1"])
        q, k, v = ((z @ p[name]).reshape(BATCH, LENGTH, HEADS, WIDTH // HEADS) for name in "qkv")
        h = h + attention(q, k, v).reshape(BATCH, LENGTH, WIDTH) @ p["mix"]
        h = h + gelu(normalize(h, p["norm2"]) @ p["up"]) @ p["down"]
    return cross_entropy((normalize(h, weights["norm"]) @ weights["letters"].T).reshape(TOKENS, LETTERS), y.reshape(-1))


@case.program("triskele")
def compiled(tool):
    from triskele.core import nn

    tools = (
        lambda h, p: nn.LayerNorm(p["scale"], p["shift"])(h),
        lambda *x: nn.attention(*x, causal=True),
        nn.gelu_tanh,
        nn.cross_entropy,
    )
    return tool.value_and_grad(lambda weights, x, y: loss(weights, x, y, tools))


@case.by_hand("torch")
def eager(weights, x, y):
    import torch
    import torch.nn.functional as f

    flat = []

    def leaf(value):
        if isinstance(value, dict):
            return {k: leaf(value[k]) for k in sorted(value)}
        if isinstance(value, list):
            return [leaf(v) for v in value]
        flat.append(torch.from_numpy(value).requires_grad_())
        return flat[-1]

    def attention(q, k, v):
        q, k, v = (a.transpose(1, 2) for a in (q, k, v))
        return f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    tools = (
        lambda h, p: f.layer_norm(h, (WIDTH,), p["scale"], p["shift"]),
        attention,
        lambda h: f.gelu(h, approximate="tanh"),
        f.cross_entropy,
    )
    weights, x, y = leaf(weights), torch.from_numpy(x), torch.from_numpy(y)

    def run():
        value = loss(weights, x, y, tools)
        return value, torch.autograd.grad(value, flat)

    return run
