"""jit as users meet it: trees, keys of programs, transforms around it, errors, the disk cache, random programs."""

import ctypes
import dataclasses
import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import core
from triskele.core.compile import engine
from triskele.core.errors import EscapedTensorError


class Pair(NamedTuple):
    left: object
    right: object


@dataclasses.dataclass
class Layer:
    weight: object
    name: str = dataclasses.field(metadata={"static": True})


def compiled(f):
    return len(f._entries)


def test_trees_go_in_and_come_out():
    @core.jit
    def f(p, rest):
        return {
            "sum": p["a"] + rest[0].left,
            "nothing": None,
            "layer": Layer(rest[1].weight * 2, rest[1].name),
            "list": [p["a"], (rest[0].right,)],
        }

    for _ in range(3):  # the table first, then the generated code
        out = f({"a": np.ones(2)}, [Pair(np.arange(2.0), 3.0), Layer(np.ones(1), "out")])
    np.testing.assert_array_equal(out["sum"], [1, 2])
    assert (
        out["nothing"] is None and out["layer"].name == "out" and out["layer"].weight == 2 and out["list"][1] == (3.0,)
    )
    assert compiled(f) == 1


def test_numbers_never_retrace_but_types_do():
    f = core.jit(lambda x, k: x * k)
    x = np.ones(3, np.float32)
    for k in (1.0, 2.5, -3.0):
        assert f(x, k).dtype == np.float32 and f(x, k)[0] == np.float32(k)
    assert compiled(f) == 1
    assert f(x, 2).dtype == np.float32 and f(x, np.float64(2)).dtype == np.float64
    assert compiled(f) == 3


def test_other_shapes_dtypes_and_layouts(rng):
    f = core.jit(lambda x: np.sin(x).sum(axis=0))
    a = rng.normal(size=(6, 8))
    for x in (a, a[::2], a.T, np.asfortranarray(a), a.astype("f4"), a.astype(">f8"), a[:, ::-1], a[:0]):
        got = f(x)
        np.testing.assert_allclose(got, np.sin(x).sum(axis=0), rtol=1e-5, atol=1e-5)

    class Tagged(np.ndarray):
        pass

    subclass = a.view(Tagged)
    np.testing.assert_allclose(f(subclass), np.sin(a).sum(axis=0), rtol=1e-14)


def test_read_only_and_overlapping_arguments(rng):
    x = rng.normal(size=10)
    x.flags.writeable = False
    f = core.jit(lambda a, b: a + 2 * b)
    np.testing.assert_array_equal(f(x, x), 3 * x)
    np.testing.assert_array_equal(f(x[1:], x[:-1]), x[1:] + 2 * x[:-1])


def test_results_are_new_arrays(rng):
    f = core.jit(lambda x: x * 2)
    a, b = f(np.ones(3)), f(np.full(3, 5.0))
    assert a[0] == 2 and b[0] == 10


def test_scalars_come_back_as_numpy_scalars():
    assert type(core.jit(np.sin)(1.0)) is np.float64
    assert type(core.jit(lambda x: x.sum())(np.ones(3, np.float32))) is np.float32


def test_keywords_and_static_arguments():
    traced = []

    @core.jit(static_argnames="power")
    def f(x, power, *, scale=1.0):
        traced.append(power)
        return scale * x**power

    assert f(2.0, 3) == 8 and f(3.0, power=3, scale=2.0) == 54 and f(2.0, 2) == 4 and f(5.0, 3) == 125
    assert traced == [3, 3, 2]


def test_methods():
    class Model:
        @core.jit
        def __call__(self, x):
            return x + 1

    with pytest.raises(TypeError, match="arrays and numbers"):
        Model()(1.0)


def test_explain_recompiles():
    def walk(x):
        return x + 1

    f = core.jit(walk)
    f(np.ones(2)), f(np.ones(3)), f(np.ones(3, np.float32))
    text = core.explain_recompiles()
    assert (
        "walk: compiled 3 times" in text
        and "float64[2] became float64[3]" in text
        and "float64[3] became float32[3]" in text
    )
    assert core.explain_recompiles(f) in text
    assert core.explain_recompiles(core.jit(walk)) == "nothing was compiled more than once"
    with pytest.raises(TypeError, match="expected a function under jit, got function"):
        core.explain_recompiles(walk)


# -- transforms --------------------------------------------------------------------------------------------------------


def g(x):
    return np.sum(np.tanh(x) * x**2)


X = np.linspace(-1, 2, 5)


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: core.grad(f)(X),
        lambda f: core.jvp(f, (X,), (np.ones(5),)),
        lambda f: core.vmap(f)(np.stack([X, 2 * X])),
        lambda f: core.hessian(f)(X),
        lambda f: core.jacfwd(core.grad(f))(X),
        lambda f: core.vmap(core.grad(f))(np.stack([X, 2 * X])),
        lambda f: core.grad(lambda x: np.sum(core.vmap(f)(np.stack([x, x * 2]))))(X),
        lambda f: core.grad(lambda s: core.grad(lambda t: f(t * X * s))(1.5))(0.5),
        lambda f: core.jit(core.grad(f))(X),
        lambda f: core.jit(core.vmap(core.jit(core.grad(core.jit(f)))))(np.stack([X, 2 * X])),
    ],
    ids=[
        "grad",
        "jvp",
        "vmap",
        "hessian",
        "jacfwd of grad",
        "vmap of grad",
        "grad of vmap",
        "grad of grad",
        "jit of grad",
        "nested",
    ],
)
def test_transforms_of_jitted_functions(transform):
    def flat(t):
        return t if isinstance(t, tuple) else (t,)

    for got, want in zip(flat(transform(core.jit(g))), flat(transform(g)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_gradient_with_respect_to_some_of_the_arguments(rng):
    x, w, n = rng.normal(size=(5, 3)), rng.normal(size=3), np.arange(5)
    f = lambda w, x, n: (np.sum(np.sin(x @ w) * n), n + 1)
    want = core.grad(lambda w: f(w, x, n)[0])(w)
    np.testing.assert_allclose(core.grad(lambda w: core.jit(f)(w, x, n)[0])(w), want, rtol=1e-13)


def test_values_closed_over_from_a_transform():
    np.testing.assert_allclose(
        core.grad(lambda s: core.jit(lambda x: np.sum(x * s**2))(X))(3.0), 6 * X.sum(), rtol=1e-14
    )


# -- errors ------------------------------------------------------------------------------------------------------------


def test_arguments_and_results_must_be_arrays():
    with pytest.raises(TypeError, match="'abc'.*static_argnames"):
        core.jit(lambda x: x)("abc")
    with pytest.raises(TypeError, match="must return trees of arrays"):
        core.jit(lambda x: "abc")(1.0)
    with pytest.raises(TypeError, match="must be hashable"):
        core.jit(lambda x, n: x, static_argnames="n")(1.0, [2])
    with pytest.raises(ValueError, match="static_argnames must name parameters.*'m'"):
        core.jit(lambda x: x, static_argnames="m")
    with pytest.raises(TypeError, match="expected arrays of numbers"):
        core.jit(lambda x: x)(np.array(["a"]))


def test_values_kept_from_a_call_are_refused():
    kept = []
    core.jit(lambda x: (kept.append(x), x)[1])(1.0)
    with pytest.raises(EscapedTensorError):
        kept[0] + 1
    with pytest.raises(EscapedTensorError):
        core.jit(lambda x: x + kept[0])(1.0)


def test_errors_of_called_back_operations_name_the_line():
    f = core.jit(lambda a: np.linalg.cholesky(a))
    with pytest.raises(np.linalg.LinAlgError) as info:
        f(-np.eye(3))
    assert any("cholesky(float64[3,3])" in n and "test_jit.py" in n for n in info.value.__notes__)
    np.testing.assert_array_equal(f(np.eye(3)), np.eye(3))


def test_debug_names_the_operation_and_the_line():
    f = core.jit(lambda x: np.sum(np.log(x) * 2), debug=True)
    assert f(np.ones(2)) == 0
    with pytest.raises(FloatingPointError, match=r"log\(float64\[2\]\) gave NaN at index \(1,\), at .*test_jit.py"):
        f(np.array([1.0, -1.0]))


def test_shape_errors_name_the_line():
    with pytest.raises(ValueError, match="could not be broadcast") as info:
        core.jit(lambda x, y: x + y)(np.ones(2), np.ones(3))
    assert any("test_jit.py" in n for n in info.value.__notes__)


def test_programs_are_freed():
    f = core.jit(lambda x: np.linalg.inv(x))
    f(np.eye(2))
    module = weakref.ref(f.program(np.eye(2)).module)
    loaded = weakref.ref(module()._loaded)
    assert module() in engine._modules.values()  # it may call back into Python
    del f
    gc.collect()
    assert module() is None and loaded() is None


def test_primitives_of_user_functions_are_freed():
    def define():
        @core.elementwise
        def square(x):
            return x * x

        @square.derivative("x")
        def _(x):
            return 2 * x

        op = core.custom_op(lambda x: 2 * x, out=lambda x: x, mode="python", name="twice")
        core.jit(core.grad(lambda x: np.sum(square(x))))(np.ones(3)), core.jit(op)(np.ones(3))
        return weakref.ref(square), weakref.ref(op)

    kept = define()
    gc.collect()
    assert [r() for r in kept] == [None, None]


def _allocated():
    """Bytes that the process has from malloc."""
    fields = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    kind = type("mallinfo2", (ctypes.Structure,), {"_fields_": [(n, ctypes.c_size_t) for n in fields]})
    function = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if function is None:
        pytest.skip("the C library does not say how much memory is allocated")
    function.restype = kind
    gc.collect()
    info = function()
    return info.uordblks + info.hblkhd


def _known_program(k):
    core.jit(lambda x: np.sin(x) + x)(np.ones(3))


def _new_program(k):
    core.jit(lambda x: np.sin(x) + (1 + k * 1e-6) * x)(np.ones(3))


def _elementwise(k):
    @core.elementwise
    def f(x, y):
        return x * x + y * (2 + k * 1e-6)

    core.jit(core.grad(lambda x: np.sum(f(x, 2.0))))(np.ones(3))


@pytest.mark.parametrize(
    ("once", "rounds"),
    [(_known_program, 256), (_new_program, 64), (_elementwise, 64)],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_memory_is_flat(once, rounds):
    """A program that is compiled leaves 1.5 KiB in LLVM's pass builder; one that is loaded nothing once its linker is
    closed.
    """
    for k in range(64):
        once(k)
    before = _allocated()
    for k in range(64, 64 + rounds):
        once(k)
    assert (_allocated() - before) / rounds < 4 * 1024


# -- inside Numba ------------------------------------------------------------------------------------------------------


def test_numba_form():
    import numba

    wave = core.jit(lambda x, k: (np.sum(np.sin(x)) * k, x + k)).numba(np.ones(4), 2.0)

    @numba.njit
    def total(n):
        s = 0.0
        for i in range(n):
            s += wave(np.full(4, float(i)), 0.5)[0]
        return s

    np.testing.assert_allclose(total(5), sum(2 * np.sin(i) for i in range(5)), rtol=1e-14)
    with pytest.raises(ValueError, match="must have shape"):
        wave(np.ones(3), 1.0)


# -- the disk cache ----------------------------------------------------------------------------------------------------


def test_a_second_process_takes_the_object_from_disk(tmp_path):
    script = textwrap.dedent("""
        import numpy as np
        from triskele import core
        f = core.jit(core.grad(lambda x: np.sum(np.exp(x) * x)))
        print(f(np.ones(3))[0], f._entry((np.ones(3),), {}).function.program.module.cached)
    """)
    environment = {**os.environ, "TRISKELE_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    ]
    assert [r[1] for r in runs] == ["False", "True"] and runs[0][0] == runs[1][0]


# -- random programs ---------------------------------------------------------------------------------------------------

SHAPES = [(), (1,), (5,), (4, 1), (4, 5), (3, 4, 5), (3, 1, 5), (17,), (4, 17), (0, 5), (2, 3, 4, 3)]


def step(op, u, v, a, b):
    """One operation of a random program; the identity where it does not apply."""
    s = np.shape(a)
    fits = all(n == m or 1 in (n, m) for n, m in zip(s[::-1], np.shape(b)[::-1], strict=False))
    full = s and 0 not in s
    axis = int(u * len(s))
    choices = {
        0: lambda: a + b if fits else a,
        1: lambda: a * b if fits else a,
        2: lambda: np.where(a > b, a, b * 2) if fits else a,
        3: lambda: np.sin(a),
        4: lambda: np.tanh(a) * 2,
        5: lambda: np.sum(a, axis=axis, keepdims=v > 0.5) if s else a,
        6: lambda: np.transpose(a),
        7: lambda: a[1:] - a[:-1] if s and s[0] > 2 else a,
        8: lambda: np.reshape(a, (s[-1], -1)) if full else a,
        9: lambda: np.max(a, axis=axis) if full else a,
        10: lambda: np.concatenate([a, a * 2], axis=axis) if s else a,
        11: lambda: a @ np.swapaxes(a, 0, 1) / 10 if len(s) == 2 else a,
        12: lambda: a[::-1] if s else a,
        13: lambda: np.stack([a[0], a[-1]], axis=int(v * len(s))) if s and s[0] > 1 else a,
        14: lambda: a / np.sqrt(1 + np.sum(a * a, axis=-1, keepdims=True)) if full else a,
        15: lambda: np.pad(a, 1) if s else a,
    }
    return choices[op]()


@settings(max_examples=60, deadline=None)
@given(
    program=st.lists(st.tuples(st.integers(0, 15), *[st.floats(0, 0.99)] * 4), min_size=2, max_size=10),
    places=st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3),
    dtype=st.sampled_from([np.float64, np.float32]),
    seed=st.integers(0, 2**16),
)
def test_random_programs_and_their_gradients(program, places, dtype, seed):
    rng = np.random.default_rng(seed)
    xs = [rng.normal(size=s).astype(dtype) for s in places]

    def f(*xs):
        values = list(xs)
        for op, i, j, u, v in program:
            values.append(step(op, u, v, values[int(i * len(values))], values[int(j * len(values))]))
        return tuple(values[-2:])

    def loss(*xs):
        return sum(np.sum(o * o) for o in f(*xs))

    tolerance = 1e-10 if dtype is np.float64 else 1e-3
    nums = tuple(range(len(xs)))
    with np.errstate(all="ignore"):
        pairs = [
            *zip(core.jit(f)(*xs), f(*xs), strict=True),
            *zip(core.jit(core.grad(loss, nums))(*xs), core.grad(loss, nums)(*xs), strict=True),
        ]
    for got, want in pairs:
        want = np.asarray(want)
        assert np.shape(got) == want.shape and got.dtype == want.dtype
        if np.isfinite(want).all():
            np.testing.assert_allclose(
                got, want, rtol=tolerance, atol=tolerance * (1 + np.max(np.abs(want), initial=0))
            )


def test_threads_that_make_the_first_call_together_share_one_program():
    """A program that a second thread replaced would be unloaded while the first thread runs it."""
    x = np.linspace(0.0, 1.0, 100)
    for _ in range(5):
        f, start, found = core.jit(lambda x: np.sum(np.sin(x) * x)), threading.Barrier(8), []

        def call(f=f, start=start, found=found):
            start.wait()
            found.append(f.program(x))

        threads = [threading.Thread(target=call) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert len(found) == 8
        assert all(program is found[0] for program in found)


def test_products_and_sums_round_separately_without_contraction(rng):
    x = rng.normal(size=1000)
    f = core.jit(lambda x, y: x * x - y, contract=False)
    assert not f(x, x * x).any()
    assert not core.jit(lambda x, y: np.sum((x * x - y) ** 2), contract=False)(x, x * x)
    assert not core.vmap(f)(x, x * x).any() and not f.again()(x, x * x).any()
    pull = core.vjp(core.jit(lambda x, y: np.sin(x) * (x * x - y), contract=False), x, x * x)[1]
    np.testing.assert_allclose(pull(np.ones_like(x))[1], -np.sin(x), rtol=1e-14)
