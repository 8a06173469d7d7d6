"""One random stream in NumPy, compiled loops, SIMD vectors and IR text; its distribution; its errors."""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest

from triskele.core.kernels import philox, philox_ir, philox_kernels

# kat_vectors of the Random123 library: counter, key, answer
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]  # fmt: skip
KEY = (0x12345678, 0x9ABCDEF0)


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer):
    assert tuple(philox.philox4x32(counter, key)) == answer


def test_ir_text_has_the_known_answers():
    """Scalars and vectors: every lane of width 4 gets one known case and a spare."""
    scalar, vector = philox_ir.symbol(), philox_ir.symbol(4)
    bodies, _ = philox_ir.definitions([scalar, vector], linkage="external")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    words = ", ".join(["i32"] * 4)
    vectors = ", ".join(["<4 x i32>"] * 4)
    loads = "".join(
        f"  %p{i} = getelementptr [4 x i32], ptr %in, i64 {i}\n  %x{i} = load <4 x i32>, ptr %p{i}, align 4\n"
        for i in range(6)
    )
    stores = "".join(
        f"  %q{i} = getelementptr [4 x i32], ptr %out, i64 {i}\n  %y{i} = extractvalue {{ {vectors} }} %r, {i}\n"
        f"  store <4 x i32> %y{i}, ptr %q{i}, align 4\n"
        for i in range(4)
    )
    call = f"  %r = call {{ {vectors} }} {vector}({', '.join(f'<4 x i32> %x{i}' for i in range(6))})\n"
    text = "\n".join(bodies.values()) + f"\ndefine void @f(ptr %out, ptr %in) {{\n{loads}{call}{stores}  ret void\n}}"
    assert f"define external {{ {words} }} {scalar}" in text
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    cases = [*KNOWN, KNOWN[0]]
    given = np.array([[*counter, *key] for counter, key, _ in cases], np.uint32).T.copy()
    out = np.empty((4, 4), np.uint32)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(engine.get_function_address("f"))(
        out.ctypes.data, given.ctypes.data
    )
    np.testing.assert_array_equal(out.T, [answer for *_, answer in cases])


@pytest.mark.parametrize("start", [0, 3, 4 * (2**32 - 8) + 1])
def test_compiled_words_equal_numpy_words(start):
    """The third start lies where the low counter word overflows inside a vector."""
    n = philox._KERNEL_WORDS
    compiled = philox.bits(KEY, start, n)
    pieces = [philox.bits(KEY, start + i, min(5000, n - i)) for i in range(0, n, 5000)]
    np.testing.assert_array_equal(compiled, np.concatenate(pieces))


def test_single_blocks_in_compiled_code_equal_the_stream():
    from triskele.core.kernels.njit import kernel

    @kernel(cache=False)
    def take(b, k0, k1):
        return philox_kernels.block(b, k0, k1)

    block = take(np.uint64(2**32 + 5), np.uint32(KEY[0]), np.uint32(KEY[1]))
    np.testing.assert_array_equal(block, philox.bits(KEY, 4 * (2**32 + 5), 4))


def box_muller(key, start, n, dtype):
    """The twin: the same words through NumPy's logarithm, sine and cosine in float64."""
    if dtype == np.float32:
        w = philox.bits(key, start, n).reshape(-1, 2)
        u, v = (w[:, 0] + 0.5) * 2.0**-32, w[:, 1].view(np.int32) * 2.0**-31
        u = u.astype(np.float32).astype(np.float64)
    else:
        w = philox.bits(key, 2 * start, 2 * n).astype(np.uint64).reshape(-1, 2)
        x = (w[:, 0] | w[:, 1] << np.uint64(32)).reshape(-1, 2)
        u, v = ((x[:, 0] >> np.uint64(11)) + np.uint64(1)) * 2.0**-53, (x[:, 1].view(np.int64) >> 11) * 2.0**-52
    r = np.sqrt(-2 * np.log(u))
    return np.stack([r * np.cos(np.pi * v), r * np.sin(np.pi * v)], 1).reshape(-1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normals_are_box_mullers(dtype):
    expected = box_muller(KEY, 8, 4000, dtype)
    np.testing.assert_allclose(
        philox.normal(KEY, 8, 4000, dtype), expected, rtol=4 * np.finfo(dtype).eps, atol=8 * np.finfo(dtype).eps
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("draw", [philox.uniform, philox.normal])
def test_any_part_can_be_had_alone(draw, dtype):
    whole = draw(KEY, 0, 500, dtype)
    for start, n in ((0, 1), (1, 3), (5, 64), (127, 373), (499, 1), (500, 0)):
        np.testing.assert_array_equal(draw(KEY, start, n, dtype), whole[start : start + n])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments(dtype):
    """Fixed key, 10^6 numbers; each bound is five standard errors."""
    n = 10**6
    u, z = philox.uniform(KEY, 0, n, dtype).astype(float), philox.normal(KEY, 0, n, dtype).astype(float)
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 5 * (1 / 12 / n) ** 0.5
    for moment, variance in ((1, 1), (2, 2), (3, 15), (4, 96)):
        expected = {1: 0, 2: 1, 3: 0, 4: 3}[moment]
        assert abs((z**moment).mean() - expected) < 5 * (variance / n) ** 0.5
    pairs = z.reshape(-1, 2)
    assert abs((pairs[:, 0] * pairs[:, 1]).mean()) < 5 * (2 / n) ** 0.5


def test_derived_keys_differ_from_each_other_and_from_the_stream():
    keys = np.concatenate(
        [
            philox.split(KEY, 1000),
            [philox.fold_in(KEY, i) for i in range(100)],
            philox.bits(KEY, 0, 2000).reshape(-1, 2),
        ]
    )
    assert len(np.unique(keys, axis=0)) == len(keys)
    np.testing.assert_array_equal(philox.split(KEY, 3), philox.split(KEY, 10)[:3])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: philox.bits((1,), 0, 4), ValueError, "key must be two integers"),
        (lambda: philox.bits((1, 2**32), 0, 4), ValueError, "key must be two integers"),
        (lambda: philox.bits(KEY, -1, 4), ValueError, "words must lie in"),
        (lambda: philox.bits(KEY, 0, -4), ValueError, "words must lie in"),
        (lambda: philox.uniform(KEY, 0, 4, np.int32), TypeError, "dtype must be float32 or float64, got int32"),
        (lambda: philox.fold_in(KEY, -1), ValueError, "data must be in"),
        (lambda: philox.split(KEY, -1), ValueError, "n must be in"),
        (lambda: philox_ir.definitions(["@tsk.philox"]), ValueError, "symbol must look like"),
    ],
)
def test_errors_name_the_rule(call, error, message):
    with pytest.raises(error, match=message):
        call()
