"""Callers of compiled programs: the one in machine code and the one through ctypes must behave the same."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from triskele.core.compile import wrapper
from triskele.core.compile.engine import ArraySpec, compile_module
from triskele.core.compile.wrapper import MISS, InputSpec, OutputSpec, make_caller

F8 = np.dtype(np.float64)
ROUTINE = """
@tsk_context = external global ptr
declare i32 @tsk_callback(ptr, i64, ptr)
define i32 @main(ptr %inputs, ptr %outputs, ptr %scratch) {{
  %context = load ptr, ptr @tsk_context
  %pointers = alloca [{total} x ptr]
  call void @llvm.memcpy.p0.p0.i64(ptr %pointers, ptr %inputs, i64 {in_bytes}, i1 false)
  %rest = getelementptr i8, ptr %pointers, i64 {in_bytes}
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %outputs, i64 {out_bytes}, i1 false)
  {store}
  %status = call i32 @tsk_callback(ptr %context, i64 0, ptr %pointers)
  ret i32 %status
}}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


@pytest.fixture(params=["machine code", "ctypes"], autouse=True)
def kind(request, monkeypatch, tmp_path_factory):
    if request.param == "machine code" and not wrapper._layout_is_known():
        pytest.skip("only the ctypes caller on this platform")
    if request.param == "ctypes":
        monkeypatch.setattr(wrapper, "_layout_is_known", lambda: False)
    return request.param


def caller(function, inputs, outputs, *, scratch=0, in_place=False, **options):
    """A program whose only operation is the Python `function`."""
    text = ROUTINE.format(
        total=len(inputs) + len(outputs) + 1,
        in_bytes=8 * len(inputs),
        out_bytes=8 * len(outputs),
        store="store double 1.0, ptr %scratch" if scratch else "",
    )
    module = compile_module(text)
    specs = [[ArraySpec(s.shape, s.dtype) for s in group] for group in (inputs, outputs)]
    module.register_callback(0, function, *specs, in_place=in_place)
    return make_caller(module, inputs, outputs, scratch, **{"release_gil": False, **options})


@pytest.mark.parametrize("release_gil", [False, True])
def test_arrays_in_arrays_out(release_gil):
    f = caller(
        lambda a, b: (a + b, a.sum(axis=0)),
        [InputSpec((2, 3), F8), InputSpec((2, 3), np.dtype("f4"))],
        [OutputSpec((2, 3), F8), OutputSpec((3,), F8)],
        release_gil=release_gil,
    )
    a, b = np.arange(6.0).reshape(2, 3), np.ones((2, 3), np.float32)
    total, columns = f(a, b)
    np.testing.assert_array_equal(total, a + 1)
    np.testing.assert_array_equal(columns, [3, 5, 7])
    assert type(total) is np.ndarray and total.flags.owndata and total.flags.writeable
    again, _ = f(a, b)
    assert not np.shares_memory(total, again)


def test_anything_but_the_specified_argument_is_a_miss():
    f = caller(np.negative, [InputSpec((2, 3), F8)], [OutputSpec((2, 3), F8)])
    good = np.zeros((2, 3))
    assert f(good) is not MISS

    class Sub(np.ndarray):
        pass

    unaligned = np.zeros(49, np.uint8)[1:].view(F8).reshape(2, 3)
    bad = [
        good.astype(np.float32),
        good.astype(">f8"),
        np.zeros((3, 2)),
        np.zeros(6),
        np.zeros((2, 3, 1)),
        np.zeros((2, 4)),
        np.zeros((3, 2)).T,
        np.zeros((2, 6))[:, ::2],
        good.view(Sub),
        np.ma.masked_array(good),
        unaligned,
        good.tolist(),
        1.0,
        None,
        np.float64(1),
    ]
    for value in bad:
        assert f(value) is MISS, value
    assert f() is MISS
    assert f(good, good) is MISS
    assert repr(MISS) == "MISS"


@pytest.mark.parametrize(
    ("dtype", "value", "misses"),
    [
        (F8, 2.5, [1, True, np.float64(2.5), "x", np.array(2.5), 1j]),
        (np.dtype(np.int64), -7, [True, 1.0, np.int64(1), 2**63, -(2**63) - 1]),
        (np.dtype(bool), True, [1, np.True_, None]),
        (np.dtype(np.complex128), 1 - 2j, [1.0, np.complex128(1)]),
    ],
)
def test_python_scalars(dtype, value, misses):
    f = caller(lambda x: x, [InputSpec((), dtype, "python scalar")], [OutputSpec((), dtype)])
    got = f(value)
    assert got == value and type(got) is dtype.type
    for bad in misses:
        assert f(bad) is MISS, bad


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u2", "i8", "?", "c8", "c16"])
def test_numpy_scalars(dtype):
    dtype = np.dtype(dtype)
    f = caller(lambda x: x, [InputSpec((), dtype, "numpy scalar")], [OutputSpec((), dtype)])
    value = dtype.type(1)
    assert f(value) == value and type(f(value)) is dtype.type
    assert f(1.0) is MISS and f(np.float16(1)) is MISS and f(np.array(value)) is MISS


@pytest.mark.parametrize(("asked", "kind_of_result"), [("numpy scalar", np.float64), ("ndarray0d", np.ndarray)])
def test_results_without_axes(asked, kind_of_result):
    f = caller(np.sum, [InputSpec((3,), F8)], [OutputSpec((), F8)], scalar_outputs=asked)
    got = f(np.arange(3.0))
    assert type(got) is kind_of_result and got == 3 and got.shape == ()


def test_no_inputs_no_outputs_and_empty_arrays():
    assert caller(tuple, [], [])() == ()
    got = caller(lambda: np.full(2, 7.0), [], [OutputSpec((2,), F8)])()
    np.testing.assert_array_equal(got, [7, 7])
    assert caller(lambda x: (), [InputSpec((1,), F8)], [])(np.zeros(1)) == ()
    got = caller(lambda x: x, [InputSpec((0, 3), F8)], [OutputSpec((0, 3), F8)])(np.empty((0, 3)))
    assert got.shape == (0, 3)


def test_exception_passes_through_and_the_caller_stays_usable():
    fail = [True]

    def sometimes(x):
        if fail[0]:
            raise LookupError("once")
        return x

    spec = InputSpec((2,), F8)
    f = caller(sometimes, [spec], [OutputSpec((2,), F8)], scratch=64)
    x = np.ones(2)
    with pytest.raises(LookupError, match="once"):
        f(x)
    fail[0] = False
    np.testing.assert_array_equal(f(x), x)


def test_donated_argument_is_overwritten_and_returned():
    spec = InputSpec((3,), F8, donated=True)
    f = caller(
        lambda x, y, out: np.add(x, y, out=out),
        [spec, InputSpec((3,), F8)],
        [OutputSpec((3,), F8, donor=0)],
        in_place=True,
    )
    x, y = np.ones(3), np.arange(3.0)
    got = f(x, y)
    assert got is x
    np.testing.assert_array_equal(x, [1, 2, 3])
    before = x.copy()
    frozen = np.ones(3)
    frozen.flags.writeable = False
    for first, second in [(x, x), (x, x[:]), (np.ones(4)[:3], y), (frozen, y)]:
        assert f(first, second) is MISS, "the memory is shared, borrowed or read-only"
    np.testing.assert_array_equal(x, before)


def test_arena_is_aligned_and_lent_once():
    """A call from inside a call gets an arena of its own."""
    text = """
@tsk_context = external global ptr
declare i32 @tsk_callback(ptr, i64, ptr)
define i32 @main(ptr %inputs, ptr %outputs, ptr %scratch) {
  %context = load ptr, ptr @tsk_context
  %pointers = alloca [2 x ptr]
  %in = load ptr, ptr %inputs
  %depth = load i64, ptr %in
  store i64 %depth, ptr %scratch
  store ptr %in, ptr %pointers
  %out = load ptr, ptr %outputs
  %address = ptrtoint ptr %scratch to i64
  store i64 %address, ptr %out
  %p1 = getelementptr ptr, ptr %pointers, i64 1
  store ptr %out, ptr %p1
  %status = call i32 @tsk_callback(ptr %context, i64 0, ptr %pointers)
  %kept = load i64, ptr %scratch
  %p2 = getelementptr i64, ptr %out, i64 1
  store i64 %kept, ptr %p2
  ret i32 %status
}
"""
    module, seen = compile_module(text), []
    spec = ArraySpec((), np.dtype(np.int64))
    pair = ArraySpec((2,), np.dtype(np.int64))

    def again(depth, out):
        seen.append(int(out[0]))
        if depth < 3:
            inner = f(int(depth) + 1)
            assert inner[1] == depth + 1

    module.register_callback(0, again, [spec], [pair], in_place=True)
    f = make_caller(
        module,
        [InputSpec((), np.dtype(np.int64), "python scalar")],
        [OutputSpec((2,), np.dtype(np.int64))],
        4096,
        release_gil=False,
    )
    for _ in range(3):
        assert f(0)[1] == 0, "what the outer call stored must survive the inner calls"
    assert all(address % 64 == 0 for address in seen)
    assert len(set(seen[:4])) == 4 and seen[0] == seen[4] == seen[8]


def test_other_threads_run_while_the_program_does():
    """The program waits for a lock that another Python thread must release: it can, since Python's lock is free."""
    text = """
define i32 @main(ptr %inputs, ptr %outputs, ptr %scratch) {
entry:
  %flag = load ptr, ptr %inputs
  br label %look
look:
  %value = load atomic i64, ptr %flag seq_cst, align 8
  %set = icmp ne i64 %value, 0
  br i1 %set, label %done, label %look
done:
  ret i32 0
}
"""
    f = make_caller(compile_module(text), [InputSpec((), np.dtype(np.int64))], [], 0, release_gil=True)
    flag = np.array(0)
    setter = threading.Timer(0.05, lambda: flag.__setitem__((), 1))
    setter.start()
    assert f(flag) == ()
    setter.join()


def test_several_threads_call_at_once():
    f = caller(np.sort, [InputSpec((50,), F8)], [OutputSpec((50,), F8)], scratch=128, release_gil=True)
    wrong = []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(100):
            x = rng.random(50)
            if not np.array_equal(f(x), np.sort(x)):
                wrong.append(seed)

    workers = [threading.Thread(target=work, args=(s,)) for s in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_no_references_leak():
    spec = InputSpec((3,), F8, donated=True)
    f = caller(
        lambda x, s, out, total: None,
        [spec, InputSpec((), F8, "python scalar")],
        [OutputSpec((3,), F8, donor=0), OutputSpec((), F8)],
        in_place=True,
    )
    x, scalar = np.ones(3), 12345.678
    watched = [x, scalar, F8, MISS, np.ndarray]
    f(x, scalar), f(x)
    gc.collect()
    gc.disable()  # what other tests left behind refers to the same dtypes, and must not be collected meanwhile
    try:
        before = [sys.getrefcount(w) for w in watched]
        for _ in range(100):
            f(x, scalar)
            f(x)
        after = [sys.getrefcount(w) for w in watched]
    finally:
        gc.enable()
    assert all(abs(a - b) < 10 for a, b in zip(after, before, strict=True))


def test_caller_owns_what_it_needs_and_nothing_else():
    f = caller(np.negative, [InputSpec((2,), F8)], [OutputSpec((2,), F8)], scratch=256)
    gc.collect()
    np.testing.assert_array_equal(f(np.ones(2)), [-1, -1])
    module = compile_module(ROUTINE.format(total=2, in_bytes=8, out_bytes=8, store=""))
    alive = weakref.ref(module)
    g = make_caller(module, [InputSpec((2,), F8)], [OutputSpec((2,), F8)], 0, release_gil=False)
    del module
    gc.collect()
    assert alive() is not None
    del g
    gc.collect()
    assert alive() is None


def test_caller_keeps_its_method_when_another_thread_made_one_as_well():
    """Of two threads that make the shared method at once, one has its own, which the cache does not hold."""
    f = caller(np.sort, [InputSpec((50,), F8)], [OutputSpec((50,), F8)])
    wrapper._method.cache_clear()
    gc.collect()
    if wrapper._layout_is_known():  # callers through ctypes have no method
        assert any(isinstance(item, wrapper._MethodDef) for item in f.__self__)
    assert np.array_equal(f(np.arange(50.0)[::-1].copy()), np.arange(50.0))


def test_specifications_that_cannot_be_met():
    module = compile_module("define i32 @main(ptr %i, ptr %o, ptr %s) { ret i32 0 }")

    def make(inputs, outputs=()):
        make_caller(module, inputs, outputs, 0, release_gil=False)

    with pytest.raises(ValueError, match="a Python scalar must be"):
        make([InputSpec((), np.dtype("f4"), "python scalar")])
    with pytest.raises(ValueError, match="a NumPy scalar must be"):
        make([InputSpec((2,), F8, "numpy scalar")])
    with pytest.raises(ValueError, match="only an ndarray can be donated"):
        make([InputSpec((), F8, "python scalar", donated=True)])
    with pytest.raises(ValueError, match="output 0 must have a donated donor"):
        make([InputSpec((2,), F8)], [OutputSpec((2,), F8, donor=0)])
