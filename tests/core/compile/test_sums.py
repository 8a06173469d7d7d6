"""Rounding of long sums in compiled programs: that of pairwise sums, not one that grows with the length."""

import numpy as np
import pytest

from triskele import core

LIMIT = {"float32": 2e-6, "complex64": 2e-6, "float64": 5e-15, "complex128": 5e-15}


def error(got, want):
    return np.max(np.abs(got - want) / np.abs(want))


@pytest.mark.parametrize("dtype", LIMIT)
@pytest.mark.parametrize("n", [5000, 77_777, 3_000_001])  # one loop, one with a rest, chunks
def test_sum_of_equal_numbers(n, dtype):
    """Equal numbers are the worst case: every addition to one running total rounds the same way."""
    x = np.full(n, 0.1 + (0.3j if np.dtype(dtype).kind == "c" else 0), dtype)
    want = n * np.asarray(x[0], np.clongdouble)
    assert error(core.jit(np.sum)(x), want) < LIMIT[dtype]
    assert error(core.jit(np.mean)(x) * n, want) < LIMIT[dtype]


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        ((3, 200_000), 1),
        ((200_000, 3), 0),
        ((40, 50, 2000), (1, 2)),
        ((50, 2000, 2), (0, 1)),
        ((2000, 1000), None),
        ((2000, 1000), (0, 1)),
    ],
)
def test_sums_along_axes_and_fused(shape, axis):
    x = np.full(shape, 0.1, np.float32)
    wide = x.astype(float)
    total, mean, squares = core.jit(lambda x: (np.sum(x, axis), np.mean(x, axis), np.sum(x * x + 1, axis)))(x)
    for got, want in (
        (total, np.sum(wide, axis)),
        (mean, np.mean(wide, axis)),
        (squares, np.sum(wide * wide + 1, axis)),
    ):
        assert error(got, want) < LIMIT["float32"]


def test_sums_of_rows_are_better_than_numpy():
    x = np.full((20_000, 100), 0.1, np.float32)
    want = np.sum(x, axis=0, dtype=float)
    assert error(core.jit(lambda x: np.sum(x, axis=0))(x), want) < error(np.sum(x, axis=0), want)


def test_broadcast_operands_and_several_sums(rng):
    """A nest whose loops do not merge, with sums over one and over both of them."""
    x, y = rng.random((3000, 1), dtype=np.float32), rng.random((1, 1700), dtype=np.float32)
    both, rows = core.jit(lambda x, y: (np.sum(x * y + 1), np.sum(x * y + 1, axis=1)))(x, y)
    full = x.astype(float) * y + 1
    assert error(both, full.sum()) < LIMIT["float32"]
    assert error(rows, full.sum(axis=1)) < LIMIT["float32"]


def test_variance_and_norm(rng):
    x = 3 + rng.random(2_000_000, dtype=np.float32)
    wide = x.astype(float)
    assert error(core.jit(np.var)(x), np.var(wide)) < 1e-5
    for f in (np.linalg.norm, lambda x: np.dot(x, x), lambda x: np.einsum("i,i", x, x), lambda x: np.trapezoid(x)):
        assert error(core.jit(f)(x), f(wide)) < LIMIT["float32"]


def test_infinities_and_overflow():
    x = np.zeros(5000, np.float32)
    x[3000] = np.inf
    assert core.jit(np.sum)(x) == np.inf
    x[100] = -np.inf
    assert np.isnan(core.jit(np.sum)(x))
    assert core.jit(np.sum)(np.full(5000, 1e38, np.float32)) == np.inf


def test_running_sums_are_numpys(rng):
    x = rng.random(300_000, dtype=np.float32)
    np.testing.assert_array_equal(core.jit(np.cumsum)(x), np.cumsum(x))
