"""Compiled pooling against NumPy's, with derivatives: native, whatever windows, strides, paddings and types."""

import numpy as np
import pytest

from triskele.core import grad, jit, jvp, nn

CASES = [((2, 7, 9, 5), 2, None, "valid", np.float32), ((2, 7, 8, 16), 3, 2, 1, np.float64),
         ((1, 6, 4, 1), (3, 2), 1, "same", np.float64), ((2, 11, 3), 2, 3, ((0, 1),), np.float32),
         ((2, 5, 4, 6, 3), 2, (2, 1, 2), "same", np.float64)]  # fmt: skip


@pytest.mark.parametrize("pool", [nn.max_pool, nn.mean_pool])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_derivatives(rng, pool, case):
    shape, *options, dtype = case
    # ties, too: the first of the largest elements takes the cotangent
    x, t = rng.integers(0, 50, shape).astype(dtype), rng.normal(size=shape).astype(dtype)
    ct = rng.normal(size=np.shape(pool(x, *options))).astype(dtype)

    def all_of_it(x, t, ct):
        f = lambda x: pool(x, *options)
        return jvp(f, (x,), (t,)), grad(lambda x: np.sum(f(x) * ct))(x)

    compiled = jit(all_of_it)
    assert "host call" not in compiled.lower(x, t, ct).kernels
    (y, dy), g = compiled(x, t, ct)
    (y2, dy2), g2 = all_of_it(x, t, ct)
    for ours, reference in ((y, y2), (dy, dy2), (g, g2)):
        np.testing.assert_allclose(ours, reference, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)


def test_a_view_and_integers_and_nan(rng):
    pool = jit(lambda x: nn.max_pool(x, 2))
    x = rng.normal(size=(2, 8, 3, 6)).transpose(0, 3, 1, 2)[:, ::-1]
    np.testing.assert_array_equal(pool(x), nn.max_pool(x, 2))
    whole = rng.integers(-9, 9, (2, 4, 4, 3))
    np.testing.assert_array_equal(pool(whole), nn.max_pool(whole, 2))
    x = np.array([0.0, np.nan, 1.0, 2.0]).reshape(1, 4, 1)
    f = lambda x: nn.max_pool(x, 2)
    np.testing.assert_array_equal(jit(f)(x)[0, :, 0], [np.nan, 2])
    np.testing.assert_array_equal(jit(grad(lambda x: np.sum(f(x))))(x)[0, :, 0], [0, 1, 0, 1])


def test_empty_batches():
    f = lambda x: nn.max_pool(x, 9)
    np.testing.assert_array_equal(jit(f)(np.zeros((0, 18, 18, 2))), np.zeros((0, 2, 2, 2)))


@pytest.mark.parametrize(("window", "stride", "padding"), [((9, 9), None, "valid"), ((17, 16), (5, 16), 3)])
@pytest.mark.parametrize("pool", [nn.max_pool, nn.mean_pool])
def test_long_windows(rng, pool, window, stride, padding):
    x = rng.integers(0, 99, (2, 32, 36, 3)).astype(float)
    x[0, 3, 4, 1] = np.nan
    f = lambda x: pool(x, window, stride, padding)
    ct = rng.normal(size=f(x).shape)
    both = lambda x: (f(x), grad(lambda x: np.sum(f(x) * ct))(x))
    assert "host call" not in jit(both).lower(x).kernels
    for ours, reference in zip(jit(both)(x), both(x), strict=True):
        np.testing.assert_allclose(ours, reference, rtol=1e-12, atol=1e-14)
