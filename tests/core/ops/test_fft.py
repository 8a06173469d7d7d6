"""Fourier transforms: NumPy's values and dtypes, transposes with the half spectrum counted right."""

import numpy as np
import pytest

import triskele.core.ops  # noqa: F401
from tests.twins.derivatives import check_batched, check_derivatives
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.transforms.grad import grad


def traced(f, *args):
    graph, _ = make_graph(lambda *xs: [f(*xs)], [spec_of(a) for a in args])
    (out,) = evaluate(graph, *args)
    assert graph.out_specs[0].shape == np.shape(out) and graph.out_specs[0].dtype == np.result_type(out)
    return out


def data(rng, shape, real):
    x = rng.normal(size=shape)
    return x if real else x + 1j * rng.normal(size=shape)


ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
REAL = ("rfft", "ihfft", "rfft2", "rfftn")


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("n", [None, 3, 4, 7])
@pytest.mark.parametrize("name", ONE)
def test_transforms_of_one_axis(rng, name, n, norm):
    x = data(rng, (2, 5, 3), name in REAL)
    f = lambda x: getattr(np.fft, name)(x, n=n, axis=1, norm=norm)
    np.testing.assert_allclose(traced(f, x), f(x), atol=1e-14)
    check_derivatives(f, x, order=1)
    check_batched(f, x)


@pytest.mark.parametrize("how", [{}, {"s": (4, 3)}, {"axes": (0, 1)}, {"s": (3, 6), "axes": (2, 0), "norm": "ortho"}])
@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
def test_transforms_of_several_axes(rng, name, how):
    x = data(rng, (3, 4, 5), name in REAL)
    if "s" in how and "axes" not in how:
        how = {**how, "axes": (-2, -1)}
    f = lambda x: getattr(np.fft, name)(x, **how)
    np.testing.assert_allclose(traced(f, x), f(x), atol=1e-14)
    check_derivatives(f, x)
    check_batched(f, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.int32, bool, np.float16])
@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "rfft"])
def test_dtypes_are_numpys(name, dtype):
    x = np.arange(6).astype(dtype)
    if name == "rfft" and x.dtype.kind == "c":
        with pytest.raises(TypeError, match="real input"):
            traced(np.fft.rfft, x)
        return
    want, got = getattr(np.fft, name)(x), traced(getattr(np.fft, name), x)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("n", [5, 6])
def test_real_input_of_the_complex_transform(rng, n):
    x = rng.normal(size=n)
    check_derivatives(np.fft.fft, x)
    np.testing.assert_allclose(
        grad(lambda x: np.sum(np.abs(np.fft.rfft(x)) ** 2))(x),
        grad(lambda x: np.sum(np.abs(np.fft.fft(x)[: n // 2 + 1]) ** 2))(x),
    )


def test_parseval(rng):
    x = rng.normal(size=8)
    np.testing.assert_allclose(grad(lambda x: np.sum(np.abs(np.fft.fft(x, norm="ortho")) ** 2))(x), 2 * x)


@pytest.mark.parametrize("shape", [(5,), (4, 3)])
def test_shifts(rng, shape):
    x = rng.normal(size=shape)
    for f in (np.fft.fftshift, np.fft.ifftshift, lambda x: np.fft.fftshift(x, axes=0)):
        np.testing.assert_array_equal(traced(f, x), f(x))
        check_derivatives(f, x)


def test_wrong_arguments_are_refused(rng):
    x = rng.normal(size=(3, 4))
    for f, message in [
        (lambda x: np.fft.fft(x, 0), "number of data points"),
        (lambda x: np.fft.fft(x, norm="other"), "norm"),
        (lambda x: np.fft.fftn(x, (2, 2), (0,)), "same length"),
    ]:
        with pytest.raises(ValueError, match=message):
            traced(f, x)
    with pytest.raises(np.exceptions.AxisError):
        traced(lambda x: np.fft.fft(x, axis=2), x)
