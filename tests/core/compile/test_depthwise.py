"""Compiled depthwise convolutions against the definition and NumPy's; derivatives against finite differences."""

import numpy as np
import pytest

from tests.core.ops.test_conv import plain_conv
from tests.twins.derivatives import check_derivatives
from triskele.core import grad, jit, vmap
from triskele.core.compile.primitives import depthwise
from triskele.core.graph.trace import bind
from triskele.core.ops import convolve_nd
from triskele.core.ops.convolve_nd import conv_general

CASES = [((2, 9, 8), (3, 3), 1, ((1, 1), (1, 1)), 1, 1, np.float32),
         ((2, 9, 8), (3, 2), 2, ((1, 0), (4, 3)), 1, 2, float),
         ((1, 7, 9), (2, 3), (2, 3), ((1, 1), (2, 2)), 2, 1, float), ((3, 11), (5,), 3, ((2, 2),), 1, 3, np.float32),
         ((1, 5, 4, 6), (2, 2, 2), 1, ((0, 1), (1, 0), (0, 0)), 1, 1, float)]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_all_three_products(rng, case):
    shape, window, stride, padding, dilation, several, dtype = case
    rank, channels = len(window), 5
    p = {
        "stride": np.broadcast_to(stride, rank).tolist(),
        "padding": padding,
        "dilation": (dilation,) * rank,
        "groups": channels,
    }
    x, k = rng.normal(size=(*shape, channels)), rng.normal(size=(*window, 1, channels * several))
    y = plain_conv(x, k, **p)
    x, k, ct = x.astype(dtype), k.astype(dtype), rng.normal(size=y.shape).astype(dtype)
    p["stride"] = tuple(p["stride"])

    def products(x, k, ct):
        return (
            bind(convolve_nd.conv_p, x, k, **p),
            bind(convolve_nd.conv_input_p, ct, k, shape=x.shape, **p),
            bind(convolve_nd.conv_kernel_p, x, ct, window=window, **p),
        )

    compiled = jit(products)
    assert "host call" not in compiled.lower(x, k, ct).kernels
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    ours = compiled(x, k, ct)
    np.testing.assert_allclose(ours[0], y, atol=tolerance)
    for a, b in zip(ours, products(x, k, ct), strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance)
    extra = {**p, "window": window}
    terms = depthwise.depthwise_terms.impl(x, ct, **extra).sum(tuple(range(rank + 1)))
    np.testing.assert_allclose(terms.reshape(k.shape), ours[2], atol=tolerance)


def test_derivatives_of_the_compiled_function(rng):
    f = jit(lambda x, k: conv_general(x, k, groups=3, stride=2, padding=1))
    check_derivatives(f, rng.normal(size=(2, 5, 6, 3)), rng.normal(size=(3, 2, 1, 3)))


def test_views_batches_of_kernels_and_empty_batches(rng):
    f = lambda x, k: conv_general(x, k, groups=4, padding="same")
    x, k = rng.normal(size=(2, 4, 7, 6)).transpose(0, 2, 3, 1)[:, ::-1], rng.normal(size=(6, 3, 3, 1, 4))
    np.testing.assert_allclose(jit(f)(x, k[0]), f(x, k[0]), atol=1e-12)
    np.testing.assert_allclose(jit(vmap(f, (None, 0)))(x, k), np.stack([f(x, one) for one in k]), atol=1e-12)
    assert jit(f)(x[:0], k[0]).shape == (0, 7, 6, 4)
    assert not jit(grad(lambda k: np.sum(f(x[:0], k))))(k[0]).any()
