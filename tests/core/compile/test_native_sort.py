"""Sorting and binary search in compiled programs against NumPy."""

import numpy as np
import pytest

from triskele import core
from triskele.core.testing import check_grads

DTYPES = [np.float64, np.float32, np.int64, np.int8, np.uint16, np.bool_]
LENGTHS = [1, 2, 5, 16, 17, 32, 33, 64, 100, 257, 1000]


def awkward(rng, n, dtype):
    x = (3 * rng.normal(size=(3, n))).astype(dtype)
    if x.dtype.kind == "f":
        x[0, ::3], x[1, ::2], x[1, 1::4], x[2, ::5] = np.nan, -0.0, 0.0, np.inf
    return x


@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts_are_stable(dtype, rng, no_python):
    cases = [awkward(rng, n, dtype) for n in LENGTHS]
    want = [(np.sort(x, kind="stable"), np.argsort(x, kind="stable")) for x in cases]
    no_python("sort")
    for x, (values, order) in zip(cases, want, strict=True):
        got = core.jit(lambda x: (np.sort(x), np.argsort(x)))(x)
        np.testing.assert_array_equal(got[0], values)
        np.testing.assert_array_equal(got[1], order)


@pytest.mark.parametrize("n", [3, 40, 300])
def test_several_keys(n, rng):
    first, second = rng.integers(0, 4, n), rng.normal(size=n)
    np.testing.assert_array_equal(core.jit(lambda a, b: np.lexsort((a, b)))(second, first), np.lexsort((second, first)))


def test_sort_along_another_axis(rng):
    x = rng.normal(size=(4, 40, 5))
    np.testing.assert_array_equal(core.jit(lambda x: np.sort(x, axis=1))(x), np.sort(x, axis=1))


def test_complex_numbers_are_sorted_as_numpy_does(rng):
    z = np.round(rng.normal(size=20)) + 1j * rng.normal(size=20)
    np.testing.assert_array_equal(core.jit(np.sort)(z), np.sort(z))


def test_nothing_to_sort():
    assert core.jit(np.sort)(np.zeros((3, 0))).shape == (3, 0)


def test_gradient_of_a_compiled_sort(rng):
    check_grads(
        core.jit(lambda x: np.sum(np.sort(x, axis=0) * np.arange(20.0)[:, None] ** 2)), (rng.normal(size=(20, 2)),)
    )


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_binary_search(side, dtype, rng, no_python):
    cases = []
    for n in (1, 2, 3, 8, 9, 100):
        table, values = np.sort(awkward(rng, n, dtype)[0]), awkward(rng, n, dtype)
        cases.append((table, values, np.searchsorted(table, values, side)))
    no_python("searchsorted")
    for table, values, want in cases:
        got = core.jit(lambda a, v: np.searchsorted(a, v, side))(table, values)
        assert got.dtype == np.intp
        np.testing.assert_array_equal(got, want)


def test_binary_search_among_numbers_of_another_type():
    table, values = np.array([1, 3, 5]), np.array([0.5, 3.0, 4.5, np.nan, np.inf])
    np.testing.assert_array_equal(
        core.jit(lambda a, v: np.searchsorted(a, v))(table, values), np.searchsorted(table, values)
    )


def test_binary_search_in_a_formula(rng):
    table, values = np.sort(rng.normal(size=30)), rng.normal(size=50)
    f = lambda a, v: np.searchsorted(2 * a + 1, v) * 2 - 1
    np.testing.assert_array_equal(core.jit(f)(table, values), f(table, values))


def test_an_empty_table():
    np.testing.assert_array_equal(core.jit(lambda a, v: np.searchsorted(a, v))(np.zeros(0), np.ones(3)), [0, 0, 0])
