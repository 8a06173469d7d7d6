"""Sine, cosine and tangent of arguments beyond the range of vector math: compiled code gives what NumPy gives."""

import numpy as np
import pytest

from triskele import core

FAR = [1e14, -3e15, 7.7e18, 2.0**100, -(2.0**120)]


def angles(rng, n, dtype):
    x = rng.normal(size=n)
    x[rng.permutation(n)[:5]] = FAR
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [5, 1000, 300_000])  # once, a loop, a loop in chunks
@pytest.mark.parametrize("f", [np.sin, np.cos, np.tan])
def test_far_angles(f, n, dtype, rng):
    x = angles(rng, n, dtype)
    np.testing.assert_allclose(core.jit(f)(x), f(x), rtol=1e-6 if dtype == np.float32 else 1e-14)


def test_infinities_are_not_far(rng):
    x = np.array([np.inf, 1.0, -np.inf, np.nan])
    np.testing.assert_array_equal(np.isnan(core.jit(np.sin)(x)), [True, False, True, True])


def test_sums_of_chunks(rng):
    x = angles(rng, 400_000, float)
    f = core.jit(lambda x: (np.sum(np.sin(x) ** 2), np.max(np.cos(x))))
    np.testing.assert_allclose(f(x), [np.sum(np.sin(x) ** 2), np.max(np.cos(x))], rtol=1e-12)


def test_what_the_nest_reads_is_still_there(rng):
    """A loop's carry would be computed in its own buffer."""
    x = angles(rng, 50, float)
    f = core.jit(lambda x: core.scan(lambda c, _: (np.sin(c) + c, None), x, None, length=3)[0])
    want = x
    for _ in range(3):
        want = np.sin(want) + want
    np.testing.assert_allclose(f(x), want, rtol=1e-14)


def test_nests_that_run_block_by_block(rng):
    x = angles(rng, 2000 * 300, float).reshape(2000, 300)

    def f(x):
        y = np.cos(x)
        z = y - np.mean(y, axis=1, keepdims=True)
        return z / np.sqrt(np.mean(z * z, axis=1, keepdims=True))

    assert "blocks of" in core.jit(f).lower(x).kernels
    np.testing.assert_allclose(core.jit(f)(x), f(x), rtol=1e-9, atol=1e-12)


def test_indices_that_were_wrong_only_for_want_of_the_sine(rng):
    table = rng.normal(size=10)

    def f(table, x):
        return table[(5 + 4 * np.sin(x)).astype(int)]

    x = angles(rng, 30, float)
    np.testing.assert_array_equal(core.jit(f)(table, x), f(table, x))
    with pytest.raises(IndexError):
        core.jit(f)(table[:8], np.append(x, np.pi / 2))


def test_gradients(rng):
    x = angles(rng, 20, float)
    gradient = core.jit(core.grad(lambda x: np.sum(np.sin(x) * np.cos(2 * x))))(x)
    np.testing.assert_allclose(gradient, np.cos(x) * np.cos(2 * x) - 2 * np.sin(x) * np.sin(2 * x), rtol=1e-10)
