"""Fourier transforms in compiled programs against NumPy."""

import numpy as np
import pytest

from triskele import core
from triskele.core.testing import check_grads

LENGTHS = [1, 2, 3, 4, 6, 12, 13, 30, 64, 77, 128, 600]


def assert_near(f, x):
    want, got = f(x), core.jit(f)(x)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=20 * np.finfo(want.dtype).eps * np.max(np.abs(want)))


@pytest.mark.parametrize("head", [(), (3,), (9,), (2, 5)])
@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
def test_lengths_and_stacks(dtype, head, rng):
    for n in LENGTHS if head == (9,) else LENGTHS[::3]:
        z = (rng.normal(size=(*head, n)) + 1j * rng.normal(size=(*head, n))).astype(dtype)
        assert_near(np.fft.fft, z)
        assert_near(lambda z: np.fft.ifft(z, norm="ortho"), z)
        assert_near(np.fft.rfft, np.ascontiguousarray(z.real))
        assert_near(lambda z, n=n: np.fft.irfft(z[..., : n // 2 + 1], n, norm="forward"), z)


@pytest.mark.parametrize(
    "f",
    [
        lambda z: np.fft.fft(z, axis=0),
        np.fft.fft2,
        np.fft.fftn,
        lambda z: np.fft.ifftn(z, axes=(0, 2)),
        lambda z: np.fft.rfftn(z.real),
        np.fft.irfftn,
        lambda z: np.fft.irfft(z, axis=1),
        lambda z: np.fft.rfft2(z.real, axes=(0, 1)),
        lambda z: np.fft.irfftn(z, norm="ortho"),
    ],
)
def test_axes(f, rng):
    assert_near(f, rng.normal(size=(6, 10, 12)) + 1j * rng.normal(size=(6, 10, 12)))


def test_no_python(rng, no_python):
    no_python("fft", "rfft", "irfft")
    x = rng.normal(size=48)
    np.testing.assert_allclose(
        core.jit(lambda x: np.fft.irfft(np.fft.rfft(np.fft.ifft(np.fft.fft(x)).real)))(x), x, atol=1e-14
    )


def test_large_prime_factors_and_long_transforms_are_the_hosts(rng):
    assert_near(np.fft.fft, rng.normal(size=17) + 0j)
    assert_near(np.fft.rfft, rng.normal(size=5000))


def test_nan_goes_through():
    assert np.all(np.isnan(core.jit(np.fft.fft)(np.array([1.0, np.nan, 0.0, 2.0]))))


def test_gradients_under_jit(rng):
    check_grads(
        core.jit(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2) + np.sum(np.real(np.fft.fft(x)) ** 3)),
        (rng.normal(size=12),),
    )
