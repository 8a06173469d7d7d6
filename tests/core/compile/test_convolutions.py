"""Compiled convolutions against the definition and against NumPy's, in bands, groups and both types; any threads."""

import numpy as np
import pytest

from tests.core.ops.test_conv import CASES, plain_conv
from triskele.core import get_threads, jit, set_threads, value_and_grad
from triskele.core.compile.primitives import convolutions
from triskele.core.graph.trace import bind
from triskele.core.ops import convolve_nd

CHANNELS = [(1, 16, 1), (3, 5, 1), (16, 48, 1), (8, 16, 2), (20, 50, 1), (6, 9, 3)]


def compiled_and_plain(p, args, params):
    """The compiled result, which must not come from a host call, and that of NumPy."""
    f = jit(lambda *args: bind(p, *args, **params))
    assert "host call" not in f.lower(*args).kernels
    return f(*args), bind(p, *args, **params)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("channels", CHANNELS, ids=str)
@pytest.mark.parametrize("case", CASES[:3], ids=str)
def test_all_three_products_match_numpy(rng, case, channels, dtype):
    n_in, n_out, groups = channels
    params = {**case, "stride": (case["stride"],) * 2, "dilation": (case["dilation"],) * 2, "groups": groups}
    x, k = rng.normal(size=(3, 9, 11, n_in)).astype(dtype), rng.normal(size=(3, 2, n_in // groups, n_out)).astype(dtype)
    tolerance = 2e-4 if dtype == np.float32 else 1e-11
    y, reference = compiled_and_plain(convolve_nd.conv_p, (x, k), params)
    np.testing.assert_allclose(y, reference, atol=tolerance)
    np.testing.assert_allclose(y, plain_conv(x, k, **params), atol=tolerance)
    for p, args, extra in (
        (convolve_nd.conv_input_p, (y, k), {"shape": x.shape}),
        (convolve_nd.conv_kernel_p, (x, y), {"window": k.shape[:2]}),
    ):
        np.testing.assert_allclose(*compiled_and_plain(p, args, params | extra), atol=20 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES[:3], ids=str)
@pytest.mark.parametrize("band", [1 << 18, 1 << 10])
def test_three_axes(rng, monkeypatch, case, dtype, band):
    monkeypatch.setattr(convolutions, "BAND", band)
    params = {
        "stride": (case["stride"],) * 3,
        "dilation": (1, 1, 1),
        "groups": case["groups"],
        "padding": ((1, 2), *case["padding"]),
    }
    if case is CASES[1]:
        params |= {"stride": (3, 1, 1), "dilation": (2, 1, 2)}
    x = rng.normal(size=(2, 7, 8, 6, 8)).astype(dtype)
    k = rng.normal(size=(3, 2, 3, 8 // params["groups"], 12)).astype(dtype)
    tolerance = 2e-4 if dtype == np.float32 else 1e-11
    y, reference = compiled_and_plain(convolve_nd.conv_p, (x, k), params)
    np.testing.assert_allclose(y, reference, atol=tolerance)
    np.testing.assert_allclose(y, plain_conv(x, k, **params), atol=tolerance)
    for p, args, extra in (
        (convolve_nd.conv_input_p, (y, k), {"shape": x.shape}),
        (convolve_nd.conv_kernel_p, (x, y), {"window": k.shape[:3]}),
    ):
        np.testing.assert_allclose(*compiled_and_plain(p, args, params | extra), atol=20 * tolerance)


@pytest.mark.parametrize(
    ("shape", "window", "stride", "padding"),
    [
        ((2, 5, 8, 3), (1, 1), (2, 2), ((0, 0), (0, 0))),
        ((2, 9, 4, 3), (2, 1), (3, 1), ((1, 0), (0, 0))),
        ((2, 7, 3), (1,), (3,), ((0, 0),)),
    ],
)
def test_pixels_that_no_window_sees(rng, shape, window, stride, padding):
    """The projections of residual networks are such: 1 x 1 with stride 2."""
    params = {"stride": stride, "padding": padding, "dilation": (1,) * len(window), "groups": 1}
    k = rng.normal(size=(*window, shape[-1], 4))
    y = rng.normal(size=convolve_nd.conv_p.spec(rng.normal(size=shape), k, **params).shape)
    ours, reference = compiled_and_plain(convolve_nd.conv_input_p, (y, k), {**params, "shape": shape})
    np.testing.assert_allclose(ours, reference, atol=1e-12)


def test_depthwise_with_a_long_window(rng):
    params = {"stride": (1, 1), "padding": ((4, 4), (4, 4)), "dilation": (1, 1), "groups": 5}
    x, k = rng.normal(size=(2, 10, 12, 5)), rng.normal(size=(9, 9, 1, 5))
    y, reference = compiled_and_plain(convolve_nd.conv_p, (x, k), params)
    np.testing.assert_allclose(y, reference, atol=1e-11)
    for p, args, extra in (
        (convolve_nd.conv_input_p, (y, k), {"shape": x.shape}),
        (convolve_nd.conv_kernel_p, (x, y), {"window": (9, 9)}),
    ):
        np.testing.assert_allclose(*compiled_and_plain(p, args, params | extra), atol=1e-9)


def test_one_axis_and_padding_beyond_the_window(rng):
    params = {"stride": (1,), "padding": ((4, 3),), "dilation": (1,), "groups": 1}
    x, k = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 3, 4))
    y, reference = compiled_and_plain(convolve_nd.conv_p, (x, k), params)
    np.testing.assert_allclose(y, reference, atol=1e-12)
    # the transpose cuts zeros off instead of putting them around
    np.testing.assert_allclose(
        *compiled_and_plain(convolve_nd.conv_input_p, (y, k), {**params, "shape": x.shape}), atol=1e-12
    )


@pytest.mark.parametrize("rank", [1, 2])
def test_bands_of_zeros_alone(rng, monkeypatch, rank):
    monkeypatch.setattr(convolutions, "BAND", 1 << 9)
    params = {"stride": (1,) * rank, "padding": ((50, 60), (0, 0))[:rank], "dilation": (1,) * rank, "groups": 1}
    x, k = rng.normal(size=(2, *(7, 4)[:rank], 3)), rng.normal(size=(*(3, 2)[:rank], 3, 4))
    y, reference = compiled_and_plain(convolve_nd.conv_p, (x, k), params)
    np.testing.assert_allclose(y, reference, atol=1e-12)
    np.testing.assert_allclose(
        *compiled_and_plain(convolve_nd.conv_kernel_p, (x, y), {**params, "window": k.shape[:rank]}), atol=1e-12
    )
    np.testing.assert_allclose(
        *compiled_and_plain(convolve_nd.conv_input_p, (y, k), {**params, "shape": x.shape}), atol=1e-12
    )


def test_nothing_behind_the_data_is_read(rng, monkeypatch):
    monkeypatch.setattr(convolutions, "BAND", 1 << 11)
    x = np.full((40, 5, 4), np.nan)
    image = x[:23].reshape(1, 23, 5, 4)
    image[...] = rng.normal(size=image.shape)
    params = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    k = rng.normal(size=(3, 3, 4, 8))
    y, reference = compiled_and_plain(convolve_nd.conv_p, (image, k), params)
    np.testing.assert_allclose(y, reference, atol=1e-12)
    np.testing.assert_allclose(
        *compiled_and_plain(convolve_nd.conv_kernel_p, (image, y), {**params, "window": (3, 3)}), atol=1e-12
    )


def test_pixels_that_no_window_reaches_get_zero(rng):
    params = {"stride": (3, 3), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
    x, k = rng.normal(size=(2, 9, 8, 4)), rng.normal(size=(2, 2, 4, 4))
    f = jit(lambda y, k: bind(convolve_nd.conv_input_p, y, k, **params, shape=x.shape))
    y = bind(convolve_nd.conv_p, x, k, **params)
    np.testing.assert_allclose(f(y, k), bind(convolve_nd.conv_input_p, y, k, **params, shape=x.shape), atol=1e-12)


def test_large_images_go_in_bands_and_threads_change_nothing(rng, monkeypatch):
    monkeypatch.setattr(convolutions, "BAND", 1 << 13)

    def loss(k, x):
        return np.sum(np.tanh(convolve_nd.conv_general(x, k, padding="same")))

    x, k = rng.normal(size=(3, 23, 20, 8)), rng.normal(size=(3, 3, 8, 16))
    step = jit(value_and_grad(loss, argnums=(0, 1)))
    value, gradients = value_and_grad(loss, argnums=(0, 1))(k, x)
    results = []
    before = get_threads()
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            results.append(step(k, x))
    finally:
        set_threads(before)
    np.testing.assert_allclose(results[0][0], value, rtol=1e-12)
    for own, reference in zip(results[0][1], gradients, strict=True):
        np.testing.assert_allclose(own, reference, atol=1e-11)
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0][1], other[1], strict=True))
