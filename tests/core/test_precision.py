"""float16 and bfloat16 as storage types: conversions, arithmetic, products, derivatives, files."""

import numpy as np
import pytest

from triskele import core
from triskele.core import nn, random
from triskele.core.kernels import native

ml_dtypes = pytest.importorskip("ml_dtypes")
BFLOAT16, FLOAT16 = np.dtype(ml_dtypes.bfloat16), np.dtype(np.float16)
NARROW = [BFLOAT16, FLOAT16]
ROUNDING = {BFLOAT16: 2.0**-8, FLOAT16: 2.0**-11}
PATTERNS = np.arange(65536, dtype=np.uint16)


def bits(x):
    return np.asarray(x).view(np.uint16)


def assert_same(got, want):
    """Equal bits, and NaN where there is NaN."""
    assert got.dtype == want.dtype
    with np.errstate(invalid="ignore"):  # ml_dtypes warns of signaling NaNs
        nan = np.isnan(want)
        np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(bits(got)[~nan], bits(want)[~nan])


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_conversions_of_all_bit_patterns(dtype):
    x = PATTERNS.view(dtype)
    wide = core.jit(lambda x: np.astype(x, np.float32))(x)
    want = x.astype(np.float32)
    np.testing.assert_array_equal(wide, want)
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(want))
    assert_same(core.jit(lambda x: np.astype(x, dtype))(want), x)


@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_rounding_is_that_of_numpy_and_ml_dtypes(dtype, source):
    """Also of numbers in the middle between two, and next to it; of subnormal ones, and beyond the largest."""
    with np.errstate(invalid="ignore"):
        exact = PATTERNS.view(dtype).astype(source)
    exact = np.sort(exact[np.isfinite(exact)])
    middle = exact[1:] / 2 + exact[:-1] / 2
    rng = np.random.default_rng(0)
    spread = rng.standard_normal(100_000) * 10.0 ** rng.integers(-45, 39, 100_000)
    with np.errstate(over="ignore"):
        near = [np.nextafter(middle, side, dtype=source) for side in (np.inf, -np.inf)]
        limits = np.array([np.inf, -np.inf, np.nan, 7e4, -7e4, 3.4e38], source)
        x = np.concatenate([middle, *near, spread.astype(source), limits])
        want = x.astype(dtype)
    assert_same(core.jit(lambda x: np.astype(x, dtype))(x), want)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_arithmetic_rounds_after_each_operation(dtype):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 1000)).astype(dtype)
    f = lambda x, y: np.maximum(x * y + x, y) / (np.abs(y) + x * x)
    assert_same(core.jit(f)(x, y), f(x, y))


def test_python_numbers_next_to_bfloat16():
    x = np.array([1.0, 3.0], BFLOAT16)
    got = core.jit(lambda x: (0.1 * x, x + 1, np.where(x > 2, x, 0.0), np.maximum(x, 2)))(x)
    assert [np.result_type(y) for y in got] == [BFLOAT16] * 4
    assert_same(got[0], np.array(0.1, BFLOAT16) * x)
    assert core.jit(lambda x, y: x + y)(x, np.ones(2, np.float32)).dtype == np.float32
    assert core.jit(lambda x, y: x + y)(x, np.ones(2)).dtype == np.float64


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_sums_accumulate_in_float32(dtype):
    x = np.full((3, 5000), 1.0, dtype)  # 5000 is a multiple of 4, and of 32 only after rounding
    total, mean, variance = core.jit(lambda x: (np.sum(x, axis=1), np.mean(x, axis=1), np.var(x, axis=1)))(x)
    np.testing.assert_array_equal(total, np.full(3, 5000.0).astype(dtype))
    np.testing.assert_array_equal(mean, np.ones(3, dtype))
    np.testing.assert_array_equal(variance, np.zeros(3, dtype))
    np.testing.assert_array_equal(core.jit(lambda x: np.cumsum(x))(x[0, :300]).astype(float)[[0, 255]], [1, 256])


@pytest.mark.parametrize(
    "shape", [(1, 300, 7), (5, 17, 300), (33, 49, 17), (64, 128, 64), (100, 10, 1023), (37, 1, 65)]
)
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_products_within_the_bound(dtype, shape):
    """k roundings of a float32 sum (see `kernels.gemm.bfloat16`), and that of the result."""
    m, n, k = shape
    rng = np.random.default_rng(m)
    u = 2.0**-24
    for transposed in (False, True):
        a, b = (rng.normal(size=s).astype(dtype) for s in ((m, k), (k, n)))
        x, y = (np.ascontiguousarray(a.T), np.ascontiguousarray(b.T)) if transposed else (a, b)
        f = (lambda x, y: x.T @ y.T) if transposed else (lambda x, y: x @ y)
        narrow, wide = core.jit(lambda x, y, f=f: (f(x, y), np.astype(f(x * 1, y), np.float32)))(x, y)
        exact = a.astype(float) @ b.astype(float)
        size = np.abs(a.astype(float)) @ np.abs(b.astype(float))
        error = k * u / (1 - k * u) * size
        assert narrow.dtype == dtype
        assert np.all(np.abs(narrow.astype(float) - exact) <= error + ROUNDING[dtype] * (np.abs(exact) + error))
        assert np.all(np.abs(wide - exact) <= error + ROUNDING[dtype] * (np.abs(exact) + error))


@pytest.mark.skipif(not native.has_feature("avx512bf16"), reason="the processor has no AVX512-BF16")
def test_products_of_the_processor():
    """A gradient of float32 parameters is not rounded to bfloat16; subnormal numbers are taken for 0, as documented."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(64, 96)).astype(BFLOAT16), rng.normal(size=(96, 64)).astype(BFLOAT16)
    f = core.jit(lambda a, b: np.astype(a @ b, np.float32))
    assert "product" in f.lower(a, b).graph
    exact = a.astype(float) @ b.astype(float)
    error = 96 * 2.0**-24 / (1 - 96 * 2.0**-24) * (np.abs(a.astype(float)) @ np.abs(b.astype(float)))
    assert np.all(np.abs(f(a, b) - exact) <= error)
    tiny = np.full((64, 96), 1e-39, BFLOAT16)
    lost = 96 * 1e-39 * np.abs(b.astype(float)).max()
    assert np.all(np.abs(f(tiny, b) - tiny.astype(float) @ b.astype(float)) <= lost)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_derivatives_are_near_those_in_float64(dtype):
    rng = np.random.default_rng(3)
    w, x = rng.normal(size=(8, 5)), rng.normal(size=(4, 8))
    f = lambda w, x: np.sum(np.tanh(x @ w) ** 2)
    arrays = w.astype(dtype), x.astype(dtype)
    exact = core.grad(f)(*(a.astype(float) for a in arrays))
    got = core.jit(core.grad(f))(*arrays)
    assert got.dtype == dtype
    np.testing.assert_allclose(got.astype(float), exact, rtol=0, atol=20 * ROUNDING[dtype] * np.abs(exact).max())
    value, tangent = core.jit(lambda *a: core.jvp(f, a, a))(*arrays)
    assert value.dtype == tangent.dtype == dtype
    per_row = core.jit(core.vmap(lambda x: np.sum(x * x)))(arrays[1])
    np.testing.assert_allclose(per_row.astype(float), np.sum(arrays[1].astype(float) ** 2, axis=1), rtol=0.02)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_the_derivative_of_relu_sees_the_rounded_values(dtype):
    """A kernel that computes the activation again must find the number that was stored."""
    rng = np.random.default_rng(4)
    w, b, x = rng.normal(size=(40, 40)).astype(dtype), rng.normal(size=40).astype(dtype), rng.normal(size=(64, 40))

    def loss(b, w, x):
        h = nn.relu(x @ w + b)
        return np.sum(np.astype(h @ w, np.float32)), h

    got, h = core.jit(core.grad(loss, has_aux=True))(b, w, x.astype(dtype))
    slope = np.sum(w.astype(float), axis=1)
    want = np.sum((h.astype(float) > 0) * slope, axis=0)
    np.testing.assert_allclose(got.astype(float), want, rtol=0, atol=4 * ROUNDING[dtype] * np.abs(want).max())


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_operations_that_move_elements(dtype):
    x = np.arange(24).reshape(4, 6).astype(dtype)

    def f(x):
        return (
            np.concatenate([x, -x]),
            x[::2, 1:].T,
            np.pad(x, 1),
            x[np.array([2, 0])],
            np.sort(-x, axis=1),
            np.argmax(x, axis=1),
            np.max(x, axis=0),
            core.index_add(x, (1, 2), 3),
            np.stack([x, x]),
        )

    for got, want in zip(core.jit(f)(x), f(x), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_loops_carry_bfloat16():
    x = np.array([1.0, 2.0], BFLOAT16)
    final, ys = core.jit(lambda x: core.scan(lambda c, _: (c * 0.5, c), x, None, length=4))(x)
    assert final.dtype == ys.dtype == BFLOAT16
    np.testing.assert_array_equal(ys[:, 1], np.array([2, 1, 0.5, 0.25], BFLOAT16))


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear.init(random.key(0), 6, 4),
        nn.Conv.init(random.key(0), 1, 6, 4, 3),
        nn.LayerNorm.init(6),
        nn.RMSNorm.init(6),
        nn.BatchNorm.init(6),
        nn.GroupNorm.init(6, groups=2),
        nn.MultiHeadAttention.init(random.key(1), 6, 2),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_compute_in_the_dtype_of_their_parameters(layer):
    params, rest = nn.split(layer)
    narrow = nn.merge(core.tree.map(lambda p: p.astype(BFLOAT16), params), rest)
    x = random.normal(random.key(2), (3, 5, 6), dtype=np.float32)
    want = layer(x)
    got = core.jit(lambda layer, x: layer(x))(narrow, x.astype(BFLOAT16))
    assert got.dtype == BFLOAT16
    np.testing.assert_allclose(got.astype(float), want, rtol=0, atol=0.03 * np.abs(want).max())


def test_files_keep_the_bits(tmp_path):
    value = {"a": PATTERNS.view(BFLOAT16).reshape(256, 256), "b": PATTERNS.view(FLOAT16), "c": np.ones(3)}
    path = tmp_path / "x.safetensors"
    core.save(path, value)
    found = core.load(path)
    for name, array in value.items():
        assert found[name].dtype == array.dtype
        assert found[name].tobytes() == array.tobytes()


def test_files_are_those_of_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    core.save(tmp_path / "x.safetensors", {"a": np.array([1.5, -2.0], BFLOAT16), "b": np.array([3.0], FLOAT16)})
    found = dict(safetensors.deserialize((tmp_path / "x.safetensors").read_bytes()))
    assert found["a"]["dtype"] == "BF16" and found["b"]["dtype"] == "F16"
    assert bytes(found["a"]["data"]) == np.array([1.5, -2.0], BFLOAT16).tobytes()


@pytest.mark.parametrize(
    "function", [np.linalg.inv, np.linalg.cholesky, np.linalg.eigvalsh, np.fft.fft], ids=lambda f: f.__name__
)
def test_decompositions_refuse_by_name(function):
    with pytest.raises(TypeError, match="bfloat16"):
        core.jit(function)(np.eye(2, dtype=BFLOAT16))


def test_repr_names_the_dtype():
    layer = nn.Linear(np.ones((3, 2), BFLOAT16))
    assert "bfloat16[3, 2]" in repr(layer)
    assert str(core.Spec((2,), BFLOAT16)) == "bfloat16[2]"


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_products_outside_of_jit_accumulate_in_float32(dtype):
    w = np.ones((600, 2), dtype)
    value, slope = core.value_and_grad(lambda w: np.sum(w.T @ w))(w)
    assert slope.dtype == dtype and value == 2400
    np.testing.assert_array_equal(slope, np.full((600, 2), 4, dtype))
