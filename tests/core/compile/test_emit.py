"""Emitted code against NumPy: every dtype, shape and kind of loop."""

import itertools

import numpy as np
import pytest

from triskele import core
from triskele.core.errors import IndexOutOfBoundsError

DTYPES = [
    np.float64,
    np.float32,
    np.complex128,
    np.complex64,
    np.int64,
    np.int32,
    np.int8,
    np.uint8,
    np.uint64,
    np.bool_,
]


def numbers(rng, shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 100, shape).astype(dtype)


def assert_agree(f, *args, ulp=8):
    """jit(f) gives what f gives: same shapes, same dtypes, same values to `ulp` of the largest."""
    with np.errstate(all="ignore"):
        want = f(*args)
    got = core.jit(f)(*args)
    for g, w in zip(
        got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
    ):
        w = np.asarray(w)
        assert np.shape(g) == w.shape and np.asarray(g).dtype == w.dtype
        if w.dtype.kind in "fc":
            eps = np.finfo(w.dtype).eps
            np.testing.assert_allclose(
                g, w, rtol=ulp * eps, atol=ulp * eps * np.max(np.abs(w[np.isfinite(w)]), initial=0)
            )
        else:
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_of_every_dtype(dtype, rng):
    x, y = numbers(rng, (4, 5), dtype), numbers(rng, 5, dtype)
    assert_agree(
        lambda x, y: (
            x + y,
            x * y,
            np.where(x == y, x, y),
            x.astype(np.float64) if np.dtype(dtype).kind != "c" else np.abs(x),
        ),
        x,
        y,
    )


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float64])
def test_division_as_numpy(dtype):
    values = np.array([-7, -3, -1, 0, 1, 2, 5, 100]).astype(dtype)
    x, y = (a.reshape(-1).copy() for a in np.meshgrid(values, values))
    assert_agree(lambda x, y: (x // y, x % y), x, y, ulp=0)


def test_lowest_integer_over_minus_one():
    assert_agree(lambda x, y: (x // y, x % y), np.array([np.iinfo(np.int64).min]), np.array([-1]))


def test_nan_and_infinity_stay_visible():
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])
    assert_agree(
        lambda x: (np.maximum(x, 0.0), np.minimum(x, 0.5), x - x, 1 / x, np.sqrt(x), np.max(x), np.min(x[1:])), x, ulp=0
    )


SHAPES = [(), (1,), (3, 1, 5), (2, 3, 4), (0, 3), (1, 17), (33, 7), (5, 9, 11)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reductions_over_every_subset_of_axes(shape, rng):
    x = rng.normal(size=shape)
    for n in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), n):
            assert_agree(
                lambda x, axes=axes: (
                    np.sum(x * 2, axis=axes),
                    np.prod(np.cos(x), axis=axes),
                    np.any(x > 1, axis=axes),
                ),
                x,
                ulp=64,
            )
            if x.size:
                assert_agree(
                    lambda x, axes=axes: (np.max(x, axis=axes), np.min(-x, axis=axes, keepdims=True)), x, ulp=0
                )


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.int32, np.uint8])
def test_reductions_of_other_dtypes(dtype, rng):
    assert_agree(lambda x: (np.sum(x, axis=0), np.sum(x)), numbers(rng, (13, 6), dtype), ulp=64)


@pytest.mark.parametrize("n", [1, 7, 64, 1000, 65_537, 1_000_003])
def test_long_sums_are_accurate(n, rng):
    x = rng.random(n)
    exact = float(np.sum(x.astype(np.longdouble)))
    assert abs(core.jit(np.sum)(x) - exact) <= 1e-14 * exact


def test_movement_of_elements(rng):
    x = rng.normal(size=(4, 5, 6))
    assert_agree(
        lambda x: (
            np.transpose(x, (2, 0, 1)) + 1,
            x[::-1, 1:4, ::2] * 2,
            np.concatenate([x, x * 3], axis=1),
            np.reshape(x.T, (10, 12)) - 1,
            np.pad(x, 2) + 1,
            np.stack([x[0], x[-1]], axis=-1),
            np.roll(x, 3, axis=1),
            np.reshape(x, (20, 6)).T,
        ),
        x,
        ulp=0,
    )


def test_broadcast_of_every_kind(rng):
    a, b, c = rng.normal(size=(4, 1, 6)), rng.normal(size=(5, 1)), rng.normal(size=6)
    assert_agree(lambda a, b, c: (a * b + c, np.sum(a * b, axis=(0, 2)), np.sum(np.exp(c) * b)), a, b, c, ulp=32)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (4, 5)),
        ((60, 70), (70, 80)),
        ((5, 30, 40), (40, 20)),
        ((5, 30, 40), (5, 40, 20)),
        ((40,), (40, 9)),
        ((9, 40), (40,)),
        ((7,), (7,)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64])
def test_products(shapes, dtype, rng):
    assert_agree(lambda a, b: (a @ b, np.matmul(a * 2, b)), *[numbers(rng, s, dtype) for s in shapes], ulp=256)


def test_products_of_transposed_operands(rng):
    a, b = rng.normal(size=(50, 30)), rng.normal(size=(20, 50))
    assert_agree(lambda a, b: (a.T @ b.T, (b @ a).T, np.einsum("ki,jk->ij", a, b)), a, b, ulp=256)


def test_gather_and_scatter(rng):
    x, i = rng.normal(size=(6, 3)), np.array([0, -1, 2, 2])
    assert_agree(
        lambda x, i: (x[i], x[i, 1], core.index_add(x, i, 1.0), core.index_update(x, i[:3], x[:3] * 2)), x, i, ulp=1
    )


def test_indices_out_of_bounds_are_errors(rng):
    x = rng.normal(size=5)
    for f in (lambda x, i: x[i] * 2, lambda x, i: core.index_add(x, i, 1.0)):
        assert core.jit(f)(x, np.array([0, -5])) is not None
        compiled = core.jit(f)
        for _ in range(2):  # by the slow path, and by the fast one
            with pytest.raises(IndexOutOfBoundsError, match=r"index 5 is out of bounds .* at \(1,\) .*test_emit.py"):
                compiled(x, np.array([0, 5]))
        with pytest.raises(IndexOutOfBoundsError, match=r"index -6 is out of bounds for axis 0 with size 5 at \(0,\)"):
            compiled(x, np.array([-6, 0]))


def test_updates_in_place_leave_the_argument_alone(rng):
    x = rng.normal(size=1000)
    kept = x.copy()

    def f(x):
        for k in range(3):
            x[k] = x[k + 1] * 2
        return x

    want = f(x.copy())
    np.testing.assert_array_equal(core.jit(f)(x), want)
    np.testing.assert_array_equal(x, kept)


def test_results_that_are_arguments_or_each_other(rng):
    x = rng.normal(size=(3, 4))
    a, b, c, d = core.jit(lambda x: (x, x, x.reshape(4, 3), np.ones(3)))(x)
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(c, x.reshape(4, 3))
    assert not any(np.shares_memory(p, q) for p, q in itertools.combinations((a, b, c, x), 2)) and d.sum() == 3


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.sin(x), axis=0),
        lambda x: np.sum(x),
        lambda x: np.exp(x) * 2,
        lambda x: np.max(x, axis=1),
        lambda x: x @ x.T,
    ],
    ids=["columns", "all", "elements", "rows", "product"],
)
def test_results_do_not_depend_on_threads(f, rng):
    x = rng.normal(size=(1201, 601))
    compiled = core.jit(f)
    before = core.get_threads()
    try:
        core.set_threads(1)
        one = compiled(x)
        core.set_threads(2)
        two = compiled(x)
    finally:
        core.set_threads(before)
    assert np.array_equal(one, two)


def test_sums_over_middle_axes_of_large_arrays(rng):
    """Results that are added to in memory, each chunk of the outer loop to its own rows."""
    assert_agree(
        lambda x: (
            np.sum(np.sin(x), axis=2),
            np.sum(np.cos(x), axis=(1, 3)),
            np.max(x, axis=2),
            np.sum(x * 2, axis=(0, 2)),
        ),
        rng.normal(size=(8, 4, 64, 64)),
        ulp=64,
    )


def test_pieces_of_loops_at_chunk_borders(rng):
    """Shifted reads and paddings in a loop that is long enough to be cut into chunks."""
    x = rng.normal(size=300_000)
    assert_agree(lambda x: np.exp(np.pad(x[1:] - x[:-1], (1, 2))) * np.sin(np.concatenate([x, x[:2]])), x, ulp=16)


@pytest.mark.parametrize("length", [1, 2, 5])
def test_scan_runs_its_body(length, rng):
    w, xs = rng.normal(size=(3, 3)), rng.normal(size=(length, 3))

    def f(w, xs):
        (h, n), ys = core.scan(
            lambda c, x: ((np.tanh(w @ c[0] + x), c[1] + 1), (c[0] * 2, x.sum())), (np.zeros(3), 0), xs
        )
        return h, n, *ys

    def by_hand(w, xs):
        h, ys, zs = np.zeros(3), [], []
        for x in xs:
            ys.append(h * 2)
            zs.append(x.sum())
            h = np.tanh(w @ h + x)
        return h, length, np.stack(ys), np.stack(zs)

    for got, want in zip(core.jit(f)(w, xs), by_hand(w, xs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13)


def test_while_and_cond(rng):
    def collatz(n):
        return core.while_loop(
            lambda c: c[0] > 1,
            lambda c: (core.cond(c[0] % 2 == 0, lambda m: m // 2, lambda m: 3 * m + 1, c[0]), c[1] + 1),
            (n, 0),
        )[1]

    compiled = core.jit(collatz)
    assert [int(compiled(n)) for n in (1, 6, 27)] == [0, 8, 111]


def test_a_carry_that_is_updated_stays_in_place(rng):
    n = 50

    def f(x):
        return core.fori_loop(0, n, lambda i, x: core.index_update(x, i, x[i] * 2), x)

    x = rng.normal(size=n)
    np.testing.assert_array_equal(core.jit(f)(x), 2 * x)
