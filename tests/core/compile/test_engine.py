"""Programs in LLVM IR: compiled, cached, called, calling back, failing."""

import ctypes
import os
import subprocess
import sys
import threading
import traceback

import numpy as np
import pytest

from triskele.core.compile import engine
from triskele.core.compile.engine import ArraySpec, compile_module
from triskele.core.disk import disk_cache

F8 = np.dtype(np.float64)
CALLBACK = """
@tsk_context = external global ptr
declare i32 @tsk_callback(ptr, i64, ptr)
define i32 @main(ptr %inputs, ptr %outputs, ptr %scratch) {
  %context = load ptr, ptr @tsk_context
  %pointers = alloca [2 x ptr]
  %in = load ptr, ptr %inputs
  %out = load ptr, ptr %outputs
  store ptr %in, ptr %pointers
  %second = getelementptr ptr, ptr %pointers, i64 1
  store ptr %out, ptr %second
  %status = call i32 @tsk_callback(ptr %context, i64 3, ptr %pointers)
  ret i32 %status
}
"""
SINE = """
declare double @sin(double)
define double @f(double %x) {
  %y = call double @sin(double %x)
  ret double %y
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(tmp_path))
    return tmp_path


def sine(module):
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(module.address("f"))


def run(module, x, out):
    pointer = ctypes.c_void_p * 1
    main = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(module.address("main"))
    return main(pointer(x.ctypes.data), pointer(out.ctypes.data), None)


def test_compiles_once_then_loads():
    first, second = compile_module(SINE), compile_module(SINE)
    assert (first.cached, second.cached) == (False, True)
    assert set(first.seconds) == {"parse", "optimize", "emit", "load"}
    assert set(second.seconds) == {"load"}
    assert sine(first)(0.5) == sine(second)(0.5) == np.sin(0.5)


@pytest.mark.parametrize("change", ["text", "level", "processor", "sources"])
def test_whatever_decides_the_code_decides_the_key(change, monkeypatch):
    before = compile_module(SINE)
    if change == "processor":
        monkeypatch.setenv("TRISKELE_CPU", "x86-64-v3" if os.uname().machine == "x86_64" else "generic")
    if change == "sources":
        monkeypatch.setattr(disk_cache, "source_stamp", lambda: "other sources")
    text = SINE + "\n; another line" if change == "text" else SINE
    after = compile_module(text, opt=1 if change == "level" else 3)
    assert not after.cached and after.key != before.key
    assert sine(after)(0.5) == np.sin(0.5)


def test_damaged_object_is_compiled_again(folder):
    module = compile_module(SINE)
    path = disk_cache._path(module.key)
    path.write_bytes(path.read_bytes()[:-10] + b"0123456789")
    again = compile_module(SINE)
    assert not again.cached
    assert sine(again)(0.5) == np.sin(0.5)
    assert compile_module(SINE).cached


def test_unusable_cache_folder_still_compiles(folder, monkeypatch):
    (folder / "file").write_text("")
    monkeypatch.setenv("TRISKELE_CACHE_DIR", str(folder / "file" / "inside"))
    for _ in range(2):
        module = compile_module(SINE)
        assert not module.cached
        assert sine(module)(0.5) == np.sin(0.5)


def test_two_processes_compile_the_same_thing(folder):
    program = f"""
import ctypes, sys
from triskele.core.compile.engine import compile_module
sys.stdin.readline()
module = compile_module({SINE!r})
print(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(module.address("f"))(0.5).hex())
"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    both = [subprocess.Popen([sys.executable, "-c", program], **pipes) for _ in range(2)]
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in both:
        assert process.communicate(timeout=60)[0].strip() == float(np.sin(0.5)).hex()
        assert process.returncode == 0
    assert compile_module(SINE).cached


def test_objects_hold_no_addresses(folder):
    """An object made in one process is right in another, where everything lies elsewhere."""
    program = f"""
import ctypes, sys, numpy as np
from triskele.core.compile.engine import ArraySpec, compile_module
module = compile_module({CALLBACK!r})
spec = ArraySpec((3,), np.dtype(float))
module.register_callback(3, np.sort, [spec], [spec])
x, out = np.array([3.0, 1.0, 2.0]), np.empty(3)
pointer = ctypes.c_void_p * 1
main = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 3)(module.address("main"))
assert main(pointer(x.ctypes.data), pointer(out.ctypes.data), None) == 0
print(module.cached, out.tolist())
"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    lines = [
        subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment
        ).stdout
        for _ in range(2)
    ]
    assert lines == ["False [1.0, 2.0, 3.0]\n", "True [1.0, 2.0, 3.0]\n"]


def test_lower_processor_changes_nothing_but_rounding(monkeypatch):
    text = """
define void @f(ptr %x, i64 %n, ptr %out) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%next, %head]
  %sum = phi double [0.0, %entry], [%total, %head]
  %p = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %p
  %w = fmul contract double %v, %v
  %total = fadd reassoc contract double %sum, %w
  %next = add i64 %i, 1
  %done = icmp eq i64 %next, %n
  br i1 %done, label %exit, label %head
exit:
  store double %total, ptr %out
  ret void
}
"""
    x, results = np.random.default_rng(0).standard_normal(1001), []
    for cpu in ("", "x86-64", "x86-64-v3") if os.uname().machine == "x86_64" else ("", "generic"):
        monkeypatch.setenv("TRISKELE_CPU", cpu)
        out = ctypes.c_double()
        module = compile_module(text)
        f = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(module.address("f"))
        f(x.ctypes.data, 1001, ctypes.addressof(out))
        results.append(out.value)
    np.testing.assert_allclose(results, np.sum(x * x), rtol=1e-13)


def test_bad_text_and_missing_symbols_are_errors():
    with pytest.raises(RuntimeError, match="expected"):
        compile_module("define i32 @main( {")
    with pytest.raises(RuntimeError, match="tsk_no_such_function"):
        compile_module(
            "declare void @tsk_no_such_function()\ndefine void @f() { call void @tsk_no_such_function() ret void }"
        )
    with pytest.raises(KeyError, match="absent"):
        compile_module(SINE).address("absent")


@pytest.mark.parametrize("name", ["not a cpu", "pentium-9000"])
def test_unknown_processor_is_an_error_that_lists_the_known(monkeypatch, name):
    monkeypatch.setenv("TRISKELE_CPU", name)
    with pytest.raises(ValueError, match=f"TRISKELE_CPU: must be one of .*, got '{name}'"):
        compile_module(SINE)


def test_callback_sees_inputs_and_fills_outputs():
    module = compile_module(CALLBACK)
    module.register_callback(3, lambda x: x.sum(axis=0), [ArraySpec((2, 3), F8)], [ArraySpec((3,), F8)])
    x, out = np.arange(6.0).reshape(2, 3), np.empty(3)
    assert run(module, x, out) == 0
    np.testing.assert_array_equal(out, [3.0, 5.0, 7.0])


def test_callback_in_place():
    module = compile_module(CALLBACK)
    spec = ArraySpec((3,), F8)
    module.register_callback(3, lambda x, out: np.multiply(x, 2, out=out), [spec], [spec], in_place=True)
    out = np.empty(3)
    assert run(module, np.arange(3.0), out) == 0
    np.testing.assert_array_equal(out, [0.0, 2.0, 4.0])


def test_exception_of_a_callback_is_raised_with_its_traceback():
    def fails(x):
        raise ZeroDivisionError("in the callback")

    module = compile_module(CALLBACK)
    spec = ArraySpec((3,), F8)
    module.register_callback(3, fails, [spec], [spec])
    assert run(module, np.zeros(3), np.empty(3)) != 0
    with pytest.raises(ZeroDivisionError, match="in the callback") as caught:
        module.raise_pending()
    assert "fails" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    with pytest.raises(RuntimeError, match="no callback reported"):
        module.raise_pending()


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (np.zeros(4), ValueError, r"must return shape \(3,\), got \(4,\)"),
        ((np.zeros(3), np.zeros(3)), ValueError, r"must return 1 array\(s\), got 2"),
        (np.zeros(3, complex), TypeError, "same_kind"),
    ],
)
def test_wrong_result_of_a_callback_is_an_error(result, error, message):
    module = compile_module(CALLBACK)
    spec = ArraySpec((3,), F8)
    module.register_callback(3, lambda x: result, [spec], [spec])
    assert run(module, np.zeros(3), np.empty(3)) != 0
    with pytest.raises(error, match=message):
        module.raise_pending()


def test_callback_errors_of_threads_do_not_mix():
    module = compile_module(CALLBACK)
    spec = ArraySpec((1,), F8)

    def fails(x):
        raise ValueError(str(int(x[0])))

    module.register_callback(3, fails, [spec], [spec])
    wrong = []

    def work(i):
        for _ in range(50):
            run(module, np.full(1, float(i)), np.empty(1))
            try:
                module.raise_pending()
            except ValueError as error:
                if str(error) != str(i):
                    wrong.append((i, str(error)))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_callback_without_registration_is_an_error():
    module = compile_module(CALLBACK)
    assert run(module, np.zeros(1), np.empty(1)) != 0


def test_modules_with_one_text_keep_their_own_callbacks():
    first, second = compile_module(CALLBACK), compile_module(CALLBACK)
    spec, out = ArraySpec((2,), F8), np.empty(2)
    first.register_callback(3, np.cos, [spec], [spec])
    second.register_callback(3, np.sin, [spec], [spec])
    run(first, np.ones(2), out)
    np.testing.assert_array_equal(out, np.cos(np.ones(2)))
    run(second, np.ones(2), out)
    np.testing.assert_array_equal(out, np.sin(np.ones(2)))


def test_module_is_collected():
    module = compile_module(CALLBACK)
    spec = ArraySpec((2,), F8)
    module.register_callback(3, np.cos, [spec], [spec])
    number = module._context
    assert number in engine._modules
    del module
    assert number not in engine._modules


def test_programs_multiply_matrices():
    from triskele.core.kernels import blas

    text = (
        blas.definitions()
        + """
define void @f(ptr %a, ptr %b, ptr %c) {
  call void @tsk.gemm.f64(i64 3, i64 4, i64 5, ptr %a, i64 5, i1 false, ptr %b, i64 4, i1 false, ptr %c, i64 4, i1 false)
  ret void
}
"""  # noqa: E501
    )
    rng = np.random.default_rng(0)
    a, b, c = rng.random((3, 5)), rng.random((5, 4)), np.empty((3, 4))
    module = compile_module(text)
    f = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(module.address("f"))
    f(a.ctypes.data, b.ctypes.data, c.ctypes.data)
    np.testing.assert_allclose(c, a @ b, rtol=1e-14)


def test_programs_call_blas_by_name():
    text = """
declare double @blas.ddot(ptr, ptr, ptr, ptr, ptr)
define double @f(ptr %n, ptr %x, ptr %one) {
  %y = call double @blas.ddot(ptr %n, ptr %x, ptr %one, ptr %x, ptr %one)
  ret double %y
}
"""
    x, n, one = np.arange(5.0), np.array([5], np.int32), np.array([1], np.int32)
    module = compile_module(text)
    f = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_void_p] * 3)(module.address("f"))
    assert f(n.ctypes.data, x.ctypes.data, one.ctypes.data) == x @ x
