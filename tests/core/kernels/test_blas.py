"""Matrix products in compiled programs against NumPy, over shapes, transposes, leading dimensions and threads."""

import ctypes
import platform
from functools import cache

import numpy as np
import pytest

from triskele.core.kernels import blas, threads

DTYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
_i64, _bool, _ptr = ctypes.c_int64, ctypes.c_bool, ctypes.c_void_p
_GEMM = ctypes.CFUNCTYPE(None, _i64, _i64, _i64, _ptr, _i64, _bool, _ptr, _i64, _bool, _ptr, _i64, _bool)
SHAPES = [
    (1, 1, 1), (2, 3, 5), (8, 8, 8), (7, 49, 13), (9, 17, 33), (1, 130, 70), (130, 1, 70), (32, 10, 128), (33, 100, 1),
    (65, 97, 300), (200, 50, 17), (4, 16, 4100), (37, 33, 400), (13, 300, 193), (250, 111, 200), (300, 1, 431),
    (1, 300, 431), (1601, 1, 400), (1, 1601, 400), (9, 1, 1200), (1, 9, 1200), (300, 5, 333), (2, 300, 500),
    (400, 3, 300), (3, 5, 20_000),
]  # fmt: skip


@pytest.fixture(autouse=True)
def one_blas_thread():
    with blas.set_blas_threads(1):
        yield


def product(name, a, b, c, *, transpose_a=False, transpose_b=False, accumulate=False):
    """Run the compiled product on 2-d arrays whose rows may be apart."""
    (m, n), k = c.shape, a.shape[0] if transpose_a else a.shape[1]
    step = [max(x.strides[0] // x.itemsize, 1) for x in (a, b, c)]
    call = _GEMM(blas.address(f"tsk.gemm.{name}"))
    call(
        m,
        n,
        k,
        a.ctypes.data,
        step[0],
        transpose_a,
        b.ctypes.data,
        step[1],
        transpose_b,
        c.ctypes.data,
        step[2],
        accumulate,
    )
    return c


def random(rng, shape, dtype, *, padding=0):
    values = rng.standard_normal((shape[0], shape[1] + padding))
    if np.issubdtype(dtype, np.complexfloating):
        values = values + 1j * rng.standard_normal(values.shape)
    return values.astype(dtype)[:, : shape[1]]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_equals_numpy(name, transpose_a, transpose_b):
    rng, dtype = np.random.default_rng(1), DTYPES[name]
    for m, n, k in SHAPES:
        for padding in (0, 3):
            a = random(rng, (k, m) if transpose_a else (m, k), dtype, padding=padding)
            b = random(rng, (n, k) if transpose_b else (k, n), dtype, padding=padding)
            expected = (a.T if transpose_a else a) @ (b.T if transpose_b else b)
            wide = np.full((m, n + padding), np.nan, dtype)
            got = product(name, a, b, wide[:, :n], transpose_a=transpose_a, transpose_b=transpose_b)
            bound = 4 * k * np.finfo(dtype).eps * np.abs(a).max() * np.abs(b).max()
            np.testing.assert_allclose(got, expected, rtol=0, atol=bound, err_msg=f"{m} x {n} x {k}")
            assert np.isnan(wide[:, n:]).all(), "columns beyond the matrix must stay untouched"
            product(name, a, b, got, transpose_a=transpose_a, transpose_b=transpose_b, accumulate=True)
            np.testing.assert_allclose(got, 2 * expected, rtol=0, atol=2 * bound)


@pytest.mark.parametrize("name", DTYPES)
def test_empty_sizes(name):
    dtype = DTYPES[name]
    out = product(name, np.empty((3, 0), dtype), np.empty((0, 4), dtype), np.full((3, 4), np.nan, dtype))
    assert (out == 0).all(), "a product over nothing is zero, whatever the memory held"
    kept = product(name, np.empty((3, 0), dtype), np.empty((0, 4), dtype), np.ones((3, 4), dtype), accumulate=True)
    assert (kept == 1).all()
    product(name, np.empty((0, 2), dtype), np.empty((2, 4), dtype), np.empty((0, 4), dtype))
    product(name, np.empty((3, 2), dtype), np.empty((2, 0), dtype), np.empty((3, 0), dtype))


@pytest.mark.parametrize("name", DTYPES)
def test_nan_and_infinity_pass_through(name):
    a, b = np.zeros((9, 20), DTYPES[name]), np.ones((20, 30), DTYPES[name])
    a[4, 7], a[5, 0] = np.nan, np.inf
    with np.errstate(invalid="ignore"):
        got = product(name, a, b, np.empty((9, 30), DTYPES[name]))
    assert np.isnan(got[4]).all()
    assert not np.isfinite(got[5]).any()
    assert (got[:4] == 0).all()


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_large_product_does_not_depend_on_threads(name, transpose_b, restore_threads):
    rng, dtype = np.random.default_rng(2), DTYPES[name]
    a, b = random(rng, (150, 300), dtype), random(rng, (170, 300) if transpose_b else (300, 170), dtype)
    results = []
    for n in (1, 2, 3):
        threads.set_threads(n)
        results.append(product(name, a, b, np.empty((150, 170), dtype), transpose_b=transpose_b))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("name", ["f32", "f64"])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("shape", [(5, 16, 3), (32, 130, 400), (33, 256, 300)], ids=str)
def test_a_packed_matrix_gives_the_same(name, transpose_b, shape, restore_threads):
    rng, dtype = np.random.default_rng(3), DTYPES[name]
    m, n, k = shape
    a, b = random(rng, (m, k), dtype), random(rng, (n, k) if transpose_b else (k, n), dtype)
    columns, size = blas.packed(name, n, k)
    panels = np.empty(size + 16, dtype)
    panels = panels[-panels.ctypes.data % 64 // panels.itemsize :]
    pack = ctypes.CFUNCTYPE(None, _i64, _i64, _ptr, _i64, _bool, _ptr)(blas.address(f"tsk.pack.{name}"))
    pack(n, k, b.ctypes.data, b.shape[1], transpose_b, panels.ctypes.data)
    call = _GEMM(blas.address(f"tsk.gemm.{name}"))
    for count in (1, 2):
        threads.set_threads(count)
        c = np.empty((m, n), dtype)
        call(m, n, k, a.ctypes.data, k, False, panels.ctypes.data, -columns, False, c.ctypes.data, n, False)
        np.testing.assert_allclose(c, a @ (b.T if transpose_b else b), rtol=0, atol=k * 4 * np.finfo(dtype).eps)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="levels of x86-64")
@pytest.mark.parametrize("cpu", ["x86-64", "x86-64-v3"])
def test_on_a_lower_processor(cpu, monkeypatch):
    """Other vector widths and tiles: the same numbers to rounding."""
    monkeypatch.setenv("TRISKELE_CPU", cpu)
    monkeypatch.setattr(blas, "_library", cache(blas._library.__wrapped__))
    test_equals_numpy("f32", False, True)
    test_equals_numpy("f64", True, False)


@pytest.fixture
def restore_threads():
    before = threads.get_threads()
    yield
    threads.set_threads(before)


def test_lapack_by_address():
    """Cholesky through the pointer that a program would get: 32-bit integers, everything by reference."""
    assert blas.signature("lapack.dpotrf").startswith("void (char *, int *")
    a = np.array([[4.0, 2.0], [2.0, 3.0]])
    n, info = ctypes.c_int32(2), ctypes.c_int32(-9)
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(blas.address("lapack.dpotrf"))
    call(
        ctypes.cast(ctypes.c_char_p(b"U"), _ptr),
        ctypes.addressof(n),
        a.ctypes.data,
        ctypes.addressof(n),
        ctypes.addressof(info),
    )
    assert info.value == 0
    np.testing.assert_allclose(np.tril(a), np.linalg.cholesky([[4.0, 2.0], [2.0, 3.0]]), rtol=1e-15)


def test_unknown_routine_is_named():
    with pytest.raises(KeyError, match="blas.dgemmm"):
        blas.address("blas.dgemmm")
    with pytest.raises(KeyError, match="tsk.gemm.f16"):
        blas.address("tsk.gemm.f16")


def test_blas_threads_are_restored_after_an_error():
    counts = [get() for get, _ in blas._openblas_threads()]
    with pytest.raises(RuntimeError, match="stop"), blas.set_blas_threads(2):
        assert all(get() == 2 for get, _ in blas._openblas_threads())
        raise RuntimeError("stop")
    assert [get() for get, _ in blas._openblas_threads()] == counts
