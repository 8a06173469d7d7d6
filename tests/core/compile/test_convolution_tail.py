"""What follows a compiled convolution element by element is done band by band; results as without compiling."""

import numpy as np
import pytest

from triskele.core import jit, nn, random
from triskele.core.compile.primitives import convolutions


def layers(window, n_out, rank, dtype, **options):
    conv = nn.Conv.init(random.key(0), rank, 8, n_out, window, dtype=dtype, **options)
    norm = nn.BatchNorm.init(n_out, dtype=dtype)
    values = np.random.default_rng(1)
    bias, scale, shift, mean = values.normal(size=(4, n_out)).astype(dtype)
    return nn.Conv(
        conv.weight, bias, *[getattr(conv, k) for k in ("stride", "padding", "dilation", "groups")]
    ), nn.BatchNorm(scale, shift, mean, np.abs(shift) + 1, norm.momentum, norm.epsilon)


@pytest.mark.parametrize("band", [1 << 18, 1 << 10])
@pytest.mark.parametrize(
    ("window", "rank", "options", "dtype"),
    [
        (3, 2, {}, np.float32),
        (1, 2, {"stride": 2}, np.float64),
        (3, 2, {"groups": 2, "padding": "valid"}, np.float64),
        (5, 1, {"dilation": 2}, np.float32),
        (2, 3, {"stride": (2, 1, 1)}, np.float64),
    ],
)
def test_bias_normalization_residual_and_activation(rng, monkeypatch, band, window, rank, options, dtype):
    monkeypatch.setattr(convolutions, "BAND", band)
    conv, norm = layers(window, 24, rank, dtype, **options)
    x = rng.normal(size=(3, *(9, 7, 6)[:rank], 8)).astype(dtype)
    other = rng.normal(size=np.shape(conv(x))).astype(dtype)
    f = lambda conv, norm, x, other: nn.relu(norm(conv(x)) + other)
    compiled = jit(f)
    assert "conv_tail" in compiled.lower(conv, norm, x, other).kernels
    np.testing.assert_allclose(
        compiled(conv, norm, x, other), f(conv, norm, x, other), atol=1e-4 if dtype == np.float32 else 1e-12
    )


def test_what_others_read_stays_as_it_is(rng):
    """A result that is also read before the activation is not changed in place; a NaN stays; constants fold in."""
    conv, _ = layers(3, 8, 2, np.float64)
    x = rng.normal(size=(2, 8, 8, 8))
    x[0, 0, 0] = np.nan

    def f(x):
        y = conv(x)
        z = nn.relu(conv(nn.relu(y)) + x)
        return y, z, conv(np.minimum(nn.relu(conv(z)), 6)), np.sum(nn.relu(conv(x[1:])))

    assert "conv_tail" in jit(f).lower(x).kernels
    for ours, reference in zip(jit(f)(x), f(x), strict=True):
        np.testing.assert_allclose(ours, reference, atol=1e-12)


def test_two_convolutions_that_are_added(rng):
    """Projection and body of a residual block end in one sum: it belongs to one of them."""
    (first, norm), (second, _) = layers(3, 16, 2, np.float64), layers(1, 16, 2, np.float64)
    x = rng.normal(size=(2, 6, 7, 8))
    f = lambda x: nn.relu(norm(first(x)) + norm(second(x)))
    np.testing.assert_allclose(jit(f)(x), f(x), atol=1e-12)
