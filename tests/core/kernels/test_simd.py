"""SIMD vectors in compiled functions against NumPy, lane by lane; on processors named lower too."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numba.core.errors import TypingError

from triskele.core.kernels import simd, vecmath
from triskele.core.kernels.njit import device, kernel

RNG = np.random.default_rng(3)
SWAP = (1, 0, 3, 2, 5, 4, 7, 6)


def compiled(function):
    return kernel(function, cache=False)


def numbers(dtype, n=8):
    if np.issubdtype(dtype, np.integer):
        return RNG.integers(1, 100, n).astype(dtype)
    return RNG.uniform(0.5, 3, n).astype(dtype)


@compiled
def _float_arithmetic(x, y, out):
    a, b = simd.load(x, 0, 8), simd.load(y, 0, 8)
    c = a
    c += b
    simd.store(out, 0, c)
    simd.store(out, 8, a - b)
    simd.store(out, 16, 2.0 * a * b)
    simd.store(out, 24, a / b)
    simd.store(out, 32, -a + 1)
    simd.store(out, 40, simd.fma(a, b, 1.0))
    simd.store(out, 48, simd.minimum(a, b))
    simd.store(out, 56, simd.maximum(a, 1.0))
    simd.store(out, 64, simd.abs(a - b))
    simd.store(out, 72, simd.floor(a) + simd.ceil(b) * 10 + simd.trunc(-a) * 100 + simd.rint(b) * 1000)
    simd.store(out, 80, simd.sqrt(a))
    simd.store(out, 88, simd.copysign(a, a - b))
    simd.store(out, 96, simd.select(a < b, a, 0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_float_arithmetic(dtype):
    a, b = numbers(dtype), numbers(dtype)
    out = np.empty(104, dtype)
    _float_arithmetic(a, b, out)
    whole = np.floor(a) + np.ceil(b) * 10 + np.trunc(-a) * 100 + np.rint(b) * 1000
    expected = [
        a + b,
        a - b,
        2 * a * b,
        a / b,
        -a + 1,
        a * b + 1,
        np.minimum(a, b),
        np.maximum(a, 1),
        abs(a - b),
        whole,
        np.sqrt(a),
        np.copysign(a, a - b),
        np.where(a < b, a, 0),
    ]
    np.testing.assert_allclose(out.reshape(-1, 8), expected, rtol=4 * np.finfo(dtype).eps)


@compiled
def _integer_arithmetic(x, y, out):
    a, b = simd.load(x, 0, 8), simd.load(y, 0, 8)
    simd.store(out, 0, a + b * 3 - 7)
    simd.store(out, 8, (a & b) | (a ^ 5))
    simd.store(out, 16, ~a << 2)
    simd.store(out, 24, -a >> 1)
    simd.store(out, 32, simd.maximum(-a, b))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_integer_arithmetic(dtype):
    a, b = numbers(dtype), numbers(dtype)
    out = np.empty(40, dtype)
    _integer_arithmetic(a, b, out)
    one, seven = dtype(1), dtype(7)
    minus_a = dtype(0) - a
    expected = [
        a + b * dtype(3) - seven,
        (a & b) | (a ^ dtype(5)),
        ~a << dtype(2),
        minus_a >> one,
        np.maximum(minus_a, b),
    ]
    np.testing.assert_array_equal(out.reshape(-1, 8), expected)


@compiled
def _masks(x, y):
    a, b = simd.load(x, 0, 8), simd.load(y, 0, 8)
    m = (a < b) & ~(a == 2.0) | (b >= 2.5)
    n = simd.from_bits(np.uint64(5), 8)
    return (
        simd.bits(m),
        simd.any(m),
        simd.all(m),
        simd.bits(n ^ m),
        simd.any(n & ~n),
        simd.all(n | ~n),
        simd.bits(a != b),
    )


def test_masks():
    a, b = numbers(np.float64), numbers(np.float64)
    a[3] = 2.0
    b[5] = a[5]
    m = ((a < b) & ~(a == 2.0)) | (b >= 2.5)
    as_bits = int((m << np.arange(8)).sum())
    unequal = int(((a != b) << np.arange(8)).sum())
    assert _masks(a, b) == (as_bits, m.any(), m.all(), as_bits ^ 5, False, True, unequal)


@compiled
def _nan_comparisons(x):
    a = simd.load(x, 0, 4)
    return simd.bits(a < a), simd.bits(a >= a), simd.bits(a == a), simd.bits(a != a)


def test_nan_compares_as_in_numpy():
    x = np.array([1.0, np.nan, 2.0, np.nan])
    assert _nan_comparisons(x) == (0, 0b0101, 0b0101, 0b1010)


@compiled
def _memory(x, where, out):
    i = simd.load(where, 0, 8)
    m = i < 6
    simd.store(out, 0, simd.gather(x, i))
    simd.store(out, 8, simd.gather_masked(x, i, m, simd.splat(x.dtype.type(-1), 8)))
    simd.store(out, 16, simd.load_masked(x, 3, m, simd.splat(x.dtype.type(-2), 8)))
    simd.store_masked(out, 24, simd.load(x, 0, 8), m)
    simd.scatter(out, i + 32, simd.load(x, 0, 8))
    simd.scatter_masked(out, i + 40, simd.load(x, 0, 8), m)
    simd.store(out, 48, simd.load_splat(x, 5, 8) + simd.load_scalar(x, 1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_memory(dtype, index):
    x = numbers(dtype, 16)
    where = RNG.permutation(8).astype(index)
    m = where < 6
    out, expected = np.zeros(56, dtype), np.zeros((7, 8), dtype)
    _memory(x, where, out)
    expected[0] = x[where]
    expected[1] = np.where(m, x[where], -1)
    expected[2] = np.where(m, x[3:11], -2)
    expected[3] = np.where(m, x[:8], 0)
    expected[4][where] = x[:8]
    expected[5][where[m]] = x[:8][m]
    expected[6] = x[5] + x[1]
    np.testing.assert_array_equal(out.reshape(-1, 8), expected)


@compiled
def _lanes(x, out):
    a = simd.load(x, 0, 8)
    simd.store(out, 0, simd.shuffle(a, SWAP))
    simd.store(out, 8, simd.shuffle2(a, a * 10, (0, 8, 1, 9, 2, 10, 3, 11)))
    simd.store(out, 16, simd.concat(simd.high(a), simd.low(a)))
    simd.store(out, 24, simd.insert(a, 2, simd.extract(a, 7)))
    return simd.sum(a), simd.min(a), simd.max(a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint64])
def test_moving_and_reducing_lanes(dtype):
    x = numbers(dtype)
    out = np.empty(32, dtype)
    total, smallest, largest = _lanes(x, out)
    inserted = x.copy()
    inserted[2] = x[7]
    interleaved = np.stack([x[:4], (x * 10)[:4]], 1).ravel()
    np.testing.assert_allclose(out.reshape(4, 8), [x[list(SWAP)], interleaved, np.roll(x, 4), inserted], rtol=1e-7)
    np.testing.assert_allclose([total, smallest, largest], [x.sum(), x.min(), x.max()], rtol=1e-6)


@compiled
def _convert(x, as_int, as_double, as_bits, wide):
    a = simd.load(x, 0, 8)
    simd.store(as_int, 0, simd.convert(a, np.int32))
    simd.store(as_double, 0, simd.convert(a, np.float64))
    simd.store(as_bits, 0, simd.bitcast(a, np.uint32))
    simd.store(wide, 0, simd.convert(simd.convert(a, np.int32), np.int64) + simd.convert(a < 0, np.int64))


def test_conversions():
    x = np.array([1.5, -2.5, 3.9, -0.1, 7, -8, 1e6, -1e6], np.float32)
    outs = np.empty(8, np.int32), np.empty(8), np.empty(8, np.uint32), np.empty(8, np.int64)
    _convert(x, *outs)
    for got, expected in zip(
        outs, (x.astype(np.int32), x.astype(float), x.view(np.uint32), x.astype(np.int64) + (x < 0)), strict=True
    ):
        np.testing.assert_array_equal(got, expected)


@device
def _step(state, v):
    total, count = state
    return total + v, count + simd.convert(v > 1.0, np.float64)


@compiled
def _carried(x):
    state = (simd.splat(0.0, 4), simd.splat(0.0, 4))
    for i in range(0, x.size, 4):
        v = simd.load(x, i, 4)
        if simd.any(v > 2.9):
            v = v * 0.5
        state = _step(state, v)
    return simd.sum(state[0]), simd.sum(state[1])


def test_vectors_pass_through_calls_tuples_loops_and_branches():
    x = numbers(np.float64, 64)
    v = x.reshape(-1, 4)
    v = np.where((v > 2.9).any(1, keepdims=True), v * 0.5, v)
    np.testing.assert_allclose(_carried(x), (v.sum(), (v > 1).sum()))


@compiled
def _fast32(x, out):
    a = simd.load(x, 0, 16)
    simd.store(out, 0, simd.rcp_fast(a, 1))
    simd.store(out, 16, simd.rsqrt_fast(a, 1))


@compiled
def _fast64(x, out):
    a = simd.load(x, 0, 16)  # two registers where there is an estimate: exact instead
    b = simd.load(x, 0, 8)
    simd.store(out, 0, simd.rcp_fast(a, 2))
    simd.store(out, 16, simd.concat(simd.rsqrt_fast(b, 2), simd.rsqrt_fast(simd.load(x, 8, 8), 2)))


@pytest.mark.parametrize(("function", "dtype", "bits"), [(_fast32, np.float32, 22), (_fast64, np.float64, 50)])
def test_estimates_and_newton_steps(function, dtype, bits):
    x = np.exp(RNG.uniform(-20, 20, 16)).astype(dtype)
    out = np.empty(32, dtype)
    function(x, out)
    np.testing.assert_allclose(out, np.concatenate([1 / x, 1 / np.sqrt(x)]), rtol=2.0**-bits)


@compiled
def _vector_math(x, out):
    for i in range(0, x.size, 8):
        a = simd.load(x, i, 8)
        simd.store(
            out, i, simd.exp(-a) + simd.log(a) * simd.sin(a) + simd.erf(a) + simd.pow(a, 0.3) + simd.atan2(a, 2.0)
        )


@compiled
def _scalar_math(x, out):
    for i in range(x.size):
        a = x[i]
        out[i] = (
            simd.exp(-a)
            + simd.log(a) * simd.sin(a)
            + simd.erf(a)
            + simd.pow(a, x.dtype.type(0.3))
            + simd.atan2(a, x.dtype.type(2))
        )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("function", [_vector_math, _scalar_math])
def test_vector_math(function, dtype):
    from scipy.special import erf

    x = numbers(dtype, 64)
    out = np.empty_like(x)
    function(x, out)
    d = x.astype(float)
    expected = np.exp(-d) + np.log(d) * np.sin(d) + erf(d) + d**0.3 + np.arctan2(d, 2)
    np.testing.assert_allclose(out, expected, rtol=8 * np.finfo(dtype).eps)


def test_every_function_of_vecmath_is_there():
    assert all(hasattr(simd, name) for name in vecmath.names())


# Each body must be refused, with a message that names the rule.
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x: simd.load(x, 0, x.size), "width must be a literal integer"),
        (lambda x: simd.load(x[::2], 0, 4), "array must be C-contiguous"),
        (lambda x: simd.load(x > 0, 0, 4), "view a bool array as uint8"),
        (lambda x: simd.load(x, 0, 4) + simd.load(x, 0, 8), "one dtype and width"),
        (lambda x: simd.load(x, 0, 4) & 1, "must be of integer or mask lanes"),
        (lambda x: simd.shuffle(simd.load(x, 0, 4), (0, 4)), "literal tuple of integers in 0..3"),
        (lambda x: simd.exp(simd.iota(4)), "must be a float vector"),
        (lambda x: simd.any(simd.load(x, 0, 4)), "must be a mask vector"),
        (lambda x: simd.rcp_fast(simd.load(x, 0, 4), 9), "steps must be a literal integer in 0..3"),
    ],
)
def test_misuse_names_the_rule(body, message):
    with pytest.raises(TypingError, match=message):
        compiled(body)(np.ones(16))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "uname") or os.uname().machine != "x86_64", reason="names x86 processors")
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v2"])
def test_lesser_processors_give_the_same(cpu, tmp_path):
    """This file's tests of arithmetic, memory and math again, with LLVM told of no AVX-512, and of no AVX or FMA."""
    environment = {**os.environ, "NUMBA_CPU_NAME": cpu, "NUMBA_CPU_FEATURES": "", "TRISKELE_CACHE_DIR": str(tmp_path)}
    chosen = "arithmetic and float32 or estimates or memory and float64 or vector_math and float32 or vectors_pass"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", chosen]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:]
