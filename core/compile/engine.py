"""Compile LLVM IR text to a module that is loaded in this process, through the disk cache.

A program is one function ``define i32 @main(ptr %inputs, ptr %outputs, ptr %scratch)``: `inputs` and `outputs` are
arrays of pointers to C-contiguous buffers (aligned to their element, no more), `scratch` is one 64-byte-aligned arena.
It returns 0, or nonzero when a host callback raised.

Operations without native code call back into Python: the text says ::

    @tsk_context = external global ptr
    declare i32 @tsk_callback(ptr, i64, ptr)

loads the context and calls ``@tsk_callback(context, op_index, pointers)``, where `pointers` is an array of the
operation's input pointers followed by its output pointers; a nonzero return must end `main` with that value. A callback
takes the GIL: it must not run inside a parallel region of a program that holds the GIL meanwhile. Long loops call ::

    declare i32 @tsk_poll()

now and then and end with what it returns: 1 after a signal handler has raised, whose exception `raise_pending` raises.
Only the main thread has handlers; other threads could wait for the interpreter forever.

No address is ever written into an object: everything external is resolved by name when it is loaded.
"""

import ctypes
import itertools
import math
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..disk import disk_cache
from ..kernels import blas, native, threads

__all__ = ["ArraySpec", "NativeModule", "compile_module", "load_module"]

# What the text declares, defined as part of each program. The host is called through Python's own interface: it alone
# tells of an exception that a signal handler raises before the first line of a Python function.
_RUNTIME = {
    "@tsk_context = external global ptr": "@tsk_context = global ptr null",
    "declare i32 @tsk_callback(ptr, i64, ptr)": """declare void @tsk_host()
@tsk_formats = private constant [4 x i8] c"LLL\\00"
declare ptr @PyObject_CallFunction(ptr, ptr, ...)
declare i32 @PyLong_AsLong(ptr)
declare void @Py_DecRef(ptr)
define internal i32 @tsk_callback(ptr %context, i64 %operation, ptr %pointers) noinline {
  %state = call i32 @PyGILState_Ensure()
  %first = ptrtoint ptr %context to i64
  %third = ptrtoint ptr %pointers to i64
  %result = call ptr (ptr, ptr, ...) @PyObject_CallFunction(ptr @tsk_host, ptr @tsk_formats, i64 %first,
    i64 %operation, i64 %third)
  %raised = icmp eq ptr %result, null
  br i1 %raised, label %keep, label %returned
keep:
  call void @tsk_keep()
  br label %release
returned:
  %status = call i32 @PyLong_AsLong(ptr %result)
  call void @Py_DecRef(ptr %result)
  br label %release
release:
  %failed = phi i32 [ 1, %keep ], [ %status, %returned ]
  call void @PyGILState_Release(i32 %state)
  ret i32 %failed
}""",
    "declare i32 @tsk_poll()": """@tsk_main_thread = global i64 0
declare i64 @pthread_self()
declare i32 @PyErr_CheckSignals()
define internal i32 @tsk_poll() noinline cold {
  %mine = call i64 @pthread_self()
  %main = load i64, ptr @tsk_main_thread
  %is.main = icmp eq i64 %mine, %main
  br i1 %is.main, label %look, label %go
look:
  %state = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %bad = icmp ne i32 %raised, 0
  br i1 %bad, label %keep, label %release
keep:
  call void @tsk_keep()
  br label %release
release:
  call void @PyGILState_Release(i32 %state)
  ret i32 %raised
go:
  ret i32 0
}""",
}
_KEEP = """@tsk_interrupt = global [3 x ptr] zeroinitializer
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Fetch(ptr, ptr, ptr)
define internal void @tsk_keep() noinline cold {
  %value = getelementptr ptr, ptr @tsk_interrupt, i64 1
  %trace = getelementptr ptr, ptr @tsk_interrupt, i64 2
  call void @PyErr_Fetch(ptr @tsk_interrupt, ptr %value, ptr %trace)
  ret void
}
"""


class ArraySpec(NamedTuple):
    """Shape and dtype of a C-contiguous array that a program reads or writes."""

    shape: tuple[int, ...]
    dtype: np.dtype


class NativeModule:
    """A compiled program: addresses of its functions, its Python callbacks, and what compiling it took."""

    def __init__(
        self,
        key: str,  # in the disk cache
        code: bytes,
        names: native.Symbols,  # that the module defines and needs
        imports: Mapping[str, int],
        seconds: dict[str, float],  # to parse, optimize and emit; empty if the object came from the disk cache
    ):
        self.key, self.cached, self.seconds, self.object_size = key, not seconds, seconds, len(code)
        self.names = names
        start = time.perf_counter()
        self._loaded = native.LoadedObject(code, names.exports, imports)
        self._operations: dict[int, Callable[[int], None]] = {}
        self._errors: list[tuple[int, BaseException]] = []
        self._context = 0
        if "tsk_main_thread" in names.exports:
            ctypes.c_int64.from_address(self.address("tsk_main_thread")).value = threading.main_thread().ident or 0
        seconds["load"] = time.perf_counter() - start

    def address(self, name: str) -> int:
        """Address of a function or global of the module; KeyError when it defines none of that name."""
        return self._loaded.address(name)

    def register_callback(
        self,
        op_index: int,
        function: Callable[..., Any],
        inputs: Sequence[ArraySpec],
        outputs: Sequence[ArraySpec],
        *,
        in_place: bool = False,
    ) -> None:
        """Let operation `op_index` call `function` with ndarray views of its inputs, valid during the call only.

        `function` returns one array, or a tuple with one per output. With `in_place` it also fills views of the
        outputs.
        """
        if not self._context:
            self._context = next(_context_numbers)
            _modules[self._context] = self
            ctypes.c_void_p.from_address(self.address("tsk_context")).value = self._context
        self._operations[op_index] = _operation(function, tuple(inputs), tuple(outputs), in_place)

    def raise_pending(self) -> None:
        """Raise the exception, with its traceback, of the callback or signal handler that made `main` fail."""
        mine = threading.get_ident()
        with _lock:
            own = next((i for i, (thread, _) in enumerate(self._errors) if thread == mine), None)
            error = None if own is None else self._errors.pop(own)[1]
        error = error or self._interrupt()
        with _lock:  # of a callback that another thread has made for this one
            error = error or (self._errors.pop(0)[1] if self._errors else None)
        if error is None:
            raise RuntimeError("compiled program: must return 0, got a failure that no callback reported")
        raise error

    def _interrupt(self) -> BaseException | None:
        """Return the exception that a signal handler raised while a loop of the program ran."""
        if "tsk_interrupt" not in self.names.exports:
            return None
        slots = (ctypes.c_void_p * 3).from_address(self.address("tsk_interrupt"))
        found = [ctypes.cast(p, ctypes.py_object).value if p else None for p in slots]
        for k, p in enumerate(slots):
            if p:
                slots[k] = None
                ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(p))
        kind, value, _ = found
        return value if isinstance(value, BaseException) else kind and kind(*[] if value is None else [value])


# Every possible caller of main holds the module; without callers it is freed, with its callbacks.
_modules: weakref.WeakValueDictionary[int, NativeModule] = weakref.WeakValueDictionary()
_context_numbers = itertools.count(1)
_lock = threading.Lock()


def compile_module(ir_text: str, *, symbols: Mapping[str, int] = {}, opt: int = 3) -> NativeModule:
    """Compile a module of LLVM assembly, or take it from the disk cache, and load it.

    `symbols` are the addresses of external functions beyond those of libm, Python's C API, `tsk_callback`, `tsk_poll`,
    `tsk_parallel_for` and the names of `kernels.blas`.

    >>> module = compile_module("define i64 @next(i64 %x) { %y = add i64 %x, 1 ret i64 %y }")
    >>> ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(module.address("next"))(41)
    42
    """
    text = ir_text
    for declaration, definition in _RUNTIME.items():
        text = text.replace(declaration, definition)
    if "@tsk_keep()" in text:
        text = _KEEP + text
    key, code, seconds = native.object_of(text, opt=opt)
    return _linked(key, code, native.symbols_of(text), symbols, seconds)


def load_module(key: str, names: native.Symbols, symbols: Mapping[str, int]) -> NativeModule | None:
    """The module whose object `compile_module` stored under `key`; None if it has been removed."""
    code = disk_cache.get(key)
    return None if code is None else _linked(key, code, names, symbols, {})


def _linked(key, code, names, symbols, seconds):
    imports = {}
    for name in names.imports:
        found = symbols.get(name) or _provided(name)
        if found:
            imports[name] = found
    try:
        return NativeModule(key, code, names, imports, seconds)
    except RuntimeError as error:
        process = ctypes.CDLL(None)
        missing = sorted(name for name in names.imports - imports.keys() if not hasattr(process, name))
        raise RuntimeError(f"compile_module: external names must have an address, got none for {missing}") from error


def _provided(name: str) -> int | None:
    """Address of what every program may call; None for what the process itself exports (libm, libc)."""
    if name == "tsk_host":
        return id(_callback)
    if name == "tsk_parallel_for":
        return threads.address()
    if name.startswith(blas.PREFIXES):
        return blas.address(name)
    if name.startswith("Py"):
        return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
    return None


def _callback(context, op_index, pointers):
    module = _modules.get(context)
    try:
        if module is None:
            raise RuntimeError("compiled program: its callbacks must be registered before it runs, got none")
        module._operations[op_index](pointers)
    except BaseException as error:  # noqa: BLE001  KeyboardInterrupt too: it is raised again by the caller of main
        if module is not None:
            with _lock:
                module._errors.append((threading.get_ident(), error))
        return 1
    return 0


def _operation(function, inputs: tuple[ArraySpec, ...], outputs: tuple[ArraySpec, ...], in_place: bool):
    """`run(pointers)`: views of the buffers, the call, and the copy of its results."""
    specs = tuple((tuple(s.shape), np.dtype(s.dtype)) for s in inputs + outputs)
    # A ctypes array type per buffer: from_address makes a buffer object of the right length in 0.1 us.
    kinds = [(ctypes.c_char * max(1, math.prod(shape) * dtype.itemsize), shape, dtype) for shape, dtype in specs]
    table = ctypes.c_void_p * len(specs)
    n_inputs = len(inputs)
    name = getattr(function, "__name__", type(function).__name__)

    def run(pointers):
        views = [
            np.ndarray(shape, dtype, kind.from_address(pointer)) if pointer else np.empty(shape, dtype)
            for (kind, shape, dtype), pointer in zip(kinds, table.from_address(pointers), strict=True)
        ]
        if in_place:
            function(*views)
            return
        results = function(*views[:n_inputs])
        if not isinstance(results, tuple):
            results = (results,)
        if len(results) != len(outputs):
            raise ValueError(f"{name}: must return {len(outputs)} array(s), got {len(results)}")
        for view, result in zip(views[n_inputs:], results, strict=True):
            result = np.asarray(result)
            if result.shape != view.shape:
                raise ValueError(f"{name}: must return shape {view.shape}, got {result.shape}")
            np.copyto(view, result, casting="same_kind")

    return run
