"""Compiled matrix products against NumPy: operands and results as views, stacks, complex numbers, any threads."""

import numpy as np
import pytest

from triskele.core import get_threads, jit, set_threads
from triskele.core.kernels import blas


def steps(f, *args):
    """Return the program of `f` as text."""
    return jit(f).lower(*args).kernels


def check(f, *args, tolerance=1e-11):
    compiled, expected = jit(f)(*args), f(*args)
    assert compiled.dtype == expected.dtype
    np.testing.assert_allclose(compiled, expected, rtol=tolerance, atol=tolerance)


def normal(rng, *shape, dtype=float):
    values = rng.standard_normal(shape)
    return (
        (values + 1j * rng.standard_normal(shape)).astype(dtype)
        if np.dtype(dtype).kind == "c"
        else values.astype(dtype)
    )


def attention_scores(x):
    """Heads of one array are parts of its rows; scores of every head, then mixed back into rows."""
    q, k, v = (np.transpose(np.reshape(part, (3, 20, 4, 8)), (0, 2, 1, 3)) for part in np.split(x, 3, axis=-1))
    mixed = np.matmul(np.matmul(q, np.swapaxes(k, 2, 3)), v)
    return np.reshape(np.transpose(mixed, (0, 2, 1, 3)), (3, 20, 32))


def test_slices_and_transpositions_are_read_and_written_in_place(rng):
    x = normal(rng, 3, 20, 96)
    check(attention_scores, x)
    assert "store" not in steps(attention_scores, x)  # no loop nest that copies


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: a @ b,
        lambda a, b: a[:, ::2] @ b[::2],
        lambda a, b: a[3:30] @ b[:, 5:25],
        lambda a, b: a.T[::-1].T @ b[::-1],
        lambda a, b: b.T @ a.T,
        lambda a, b: (2 * a).T[:10].T @ b[:10],
        lambda a, b: np.einsum("ik,kj->ji", a, b),
    ],
)
def test_parts_of_matrices(rng, f):
    check(f, normal(rng, 40, 36), normal(rng, 36, 30))


def test_stacks_of_many_axes(rng):
    a, b = normal(rng, 2, 3, 17, 4, 12), normal(rng, 3, 2, 12, 4, 19)
    check(lambda a, b: np.einsum("xyimk,yxkmj->mxyij", a, b), a, b)
    check(lambda a, b: np.einsum("xyimk,yxkmj->imxjy", a, b), a, b)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.complex64, 2e-4), (np.complex128, 1e-11)])
@pytest.mark.parametrize(
    ("f", "left", "right"),
    [
        (lambda a, b: a @ b, (70, 50), (50, 45)),
        (lambda a, b: np.conj(a).T @ b, (50, 70), (50, 45)),
        (lambda a, b: a @ np.conj(b.T), (70, 50), (45, 50)),
        (lambda a, b: np.swapaxes(a, 1, 2) @ b, (5, 64, 33), (5, 64, 20)),
        (lambda a, b: a @ b, (400, 10), (10, 60)),
        (lambda a, b: np.tensordot(a.reshape(8, 16, 16), b, ((1,), (0,))), (128, 16), (16, 64)),
    ],
)
def test_large_complex_products(rng, f, left, right, dtype, tolerance):
    check(f, normal(rng, *left, dtype=dtype), normal(rng, *right, dtype=dtype), tolerance=tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.complex64])
def test_results_depend_neither_on_our_threads_nor_on_those_of_blas(rng, dtype):
    shapes = [((300, 90), (90, 200)), ((3, 4000), (4000, 300)), ((2, 150_000), (150_000, 3)),
              ((16, 64, 64), (16, 64, 40)), ((500, 10), (10, 300))]  # fmt: skip
    operands = [(normal(rng, *l, dtype=dtype), normal(rng, *r, dtype=dtype)) for l, r in shapes]
    multiply = jit(lambda a, b: a @ b)
    before, results = get_threads(), []
    try:
        for threads in (1, 2):
            set_threads(threads)
            with blas.set_blas_threads(threads):
                results.append([multiply(a, b) for a, b in operands])
    finally:
        set_threads(before)
    assert all(np.array_equal(x, y) for x, y in zip(*results, strict=True))
    for c, (a, b) in zip(results[0], operands, strict=True):
        np.testing.assert_allclose(
            c, a @ b, rtol=1e-3 if dtype == np.complex64 else 1e-9, atol=1e-3 if dtype == np.complex64 else 1e-9
        )
