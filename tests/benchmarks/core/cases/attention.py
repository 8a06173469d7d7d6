"""Scaled dot-product attention: result and gradients of queries, keys and values, heads of usual sizes."""

import numpy

from tests.benchmarks.case import Case


def define(name, length, heads, depth, causal):
    def data():
        rng = numpy.random.default_rng(11)
        return tuple(rng.standard_normal((1, length, heads, depth)).astype(numpy.float32) for _ in range(4))

    products = 4 * heads * length**2 * depth * (0.5 if causal else 1)
    case = Case(
        name,
        data,
        "float32",
        2e-4,
        flops=3.5 * products + 40 * heads * length**2 * (0.5 if causal else 1),
        bytes=4 * 8 * heads * length * depth,
    )

    @case.program("triskele")
    def compiled(tool):
        from triskele.core import nn, vjp

        def run(q, k, v, ct):
            y, pull = vjp(lambda *x: nn.attention(*x, causal=causal), q, k, v)
            return y, *pull(ct)

        return run

    @case.program("jax")
    def by_jax(tool):
        import jax

        def run(q, k, v, ct):
            y, pull = jax.vjp(lambda *x: jax.nn.dot_product_attention(*x, is_causal=causal), q, k, v)
            return y, *pull(ct)

        return run

    @case.by_hand("torch")
    def fused(*arrays):
        import torch

        # as torch wants them, (batch, heads, length, depth)
        q, k, v, ct = (torch.from_numpy(a.swapaxes(1, 2).copy()).requires_grad_(i < 3) for i, a in enumerate(arrays))

        def run():
            y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
            return [a.transpose(1, 2) for a in (y, *torch.autograd.grad(y, (q, k, v), ct))]

        return run


define("attention_1k", 1024, 4, 64, False)
define("attention_2k_causal", 2048, 4, 32, True)
