"""Running totals, recurrences, argmax and argmin in compiled programs against NumPy."""

import numpy as np
import pytest

from triskele import core
from triskele.core.graph.trace import bind
from triskele.core.ops.scan import recurrence_p
from triskele.core.testing import check_grads

DTYPES = [np.float64, np.float32, np.complex128, np.int64, np.int8, np.uint8, np.bool_]
SHAPES = [(1,), (5,), (3, 4), (6, 17), (2, 3, 4), (3, 2, 1100), (1, 1)]  # 1100: more than one block behind the axis
SCANS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}


def numbers(rng, shape, dtype):
    if np.dtype(dtype).kind == "c":
        return np.exp(1j * rng.uniform(-3, 3, shape)).astype(dtype)
    return (3 * rng.normal(size=shape)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SCANS)
def test_scans_along_every_axis(name, dtype, rng, no_python):
    if np.dtype(dtype).kind == "c" and name in ("cummax", "cummin"):
        pytest.skip("complex numbers have no order")
    ufunc = SCANS[name]
    cases = [(numbers(rng, shape, dtype), axis) for shape in SHAPES for axis in range(len(shape))]
    with np.errstate(all="ignore"):
        want = [ufunc.accumulate(x, axis, x.dtype) for x, axis in cases]
    no_python(name)
    for (x, axis), w in zip(cases, want, strict=True):
        got = core.jit(lambda x, axis=axis: ufunc.accumulate(x, axis, x.dtype))(x)
        assert got.dtype == w.dtype
        np.testing.assert_allclose(got, w, rtol=1e-4 if dtype is np.float32 else 1e-10)


def test_a_nan_stays_in_running_extremes():
    x = np.array([[1.0, np.nan, 3.0], [0.0, np.inf, -np.inf]])
    for f in (np.maximum.accumulate, np.minimum.accumulate):
        for axis in (0, 1):
            np.testing.assert_array_equal(core.jit(lambda x, f=f, axis=axis: f(x, axis=axis))(x), f(x, axis=axis))


@pytest.mark.parametrize("shape", [(7,), (5, 3), (2, 4, 1030), (0, 3)])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrences(shape, reverse, rng):
    a, b = rng.normal(size=shape), rng.normal(size=shape)
    for axis in range(len(shape)):
        f = lambda a, b, axis=axis: bind(recurrence_p, a, b, axis=axis, reverse=reverse)
        np.testing.assert_allclose(core.jit(f)(a, b), f(a, b), rtol=1e-9, atol=1e-12)


def test_gradients_of_compiled_scans(rng):
    f = core.jit(
        lambda x: (
            np.sum(np.sin(np.cumsum(x, axis=0)) * np.cumprod(x, axis=1)) + np.sum(np.maximum.accumulate(x, axis=1) ** 2)
        )
    )
    check_grads(f, (rng.normal(size=(3, 4)),))


def test_a_scan_does_not_depend_on_the_threads(rng):
    x = rng.normal(size=(3000, 200))
    f = core.jit(lambda x: (np.cumsum(x, axis=0), np.cumsum(x, axis=1)))
    first, second = f(x), f(x)
    for a, b, axis in zip(first, second, (0, 1), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, np.cumsum(x, axis=axis))  # in NumPy's order


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not np.complex128] + [np.uint64])
def test_argmax_and_argmin(dtype, rng, no_python):
    cases = [(numbers(rng, shape, np.int64).astype(dtype), axis) for shape in SHAPES for axis in range(len(shape))]
    want = [(np.argmax(x, axis), np.argmin(x, axis)) for x, axis in cases]
    no_python("argmax", "argmin")
    for (x, axis), w in zip(cases, want, strict=True):
        got = core.jit(lambda x, axis=axis: (np.argmax(x, axis), np.argmin(x, axis)))(x)
        for g, v in zip(got, w, strict=True):
            assert np.asarray(g).dtype == np.intp
            np.testing.assert_array_equal(g, v)


@pytest.mark.parametrize(
    "row",
    [
        [1, np.nan, 3, np.nan],
        [0.0, -0.0, 0.0],
        [np.inf, -np.inf, np.inf, -np.inf],
        [np.nan] * 3,
        [-1e-320, -0.0, 1e-320],
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_argmax_takes_the_first_nan_and_the_first_of_equal_ones(row, dtype):
    x = np.array(row, dtype)
    for f in (np.argmax, np.argmin):
        assert core.jit(lambda x, f=f: f(x))(x) == f(x)
        columns = np.stack([x, x[::-1]], axis=1)
        np.testing.assert_array_equal(core.jit(lambda x, f=f: f(x, axis=0))(columns), f(columns, axis=0))
