"""The fast caller of a compiled program: ndarrays in, ndarrays out, in tens of nanoseconds.

One C function (METH_FASTCALL), written in LLVM IR and shared by all programs, reads a table of specifications made by
`make_caller`: it checks each argument, allocates the results through NumPy's C API, lends the scratch arena, calls the
program, and returns. What it does not recognize at once (another dtype or shape, a subclass, a view with gaps) is not
an error but a `MISS`: the caller's slow path then converts, copies, or compiles.

It relies on the layout of ndarray and of CPython objects, which is probed once; where that does not hold (free-threaded
build, Windows, another interpreter) `make_caller` gives a slower caller through ctypes with the same results.
"""

import ctypes
import logging
import math
import platform
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from ..dtypes import kind_of
from . import engine, result_memory
from .call_ir import CALL

__all__ = ["MISS", "InputSpec", "OutputSpec", "make_caller", "miss_after"]

_log = logging.getLogger(__name__)


class _Miss:
    def __repr__(self):
        return "MISS"


MISS = _Miss()
"""Sentinel that a caller returns when its arguments are not exactly those the program was compiled for."""

_PYTHON_SCALARS = {
    np.dtype(np.float64): float,
    np.dtype(np.int64): int,
    np.dtype(bool): bool,
    np.dtype(np.complex128): complex,
}
_KIND_CODES = {float: 1, int: 2, bool: 3, complex: 4}
_NUMPY_SCALAR = 5


class InputSpec(NamedTuple):
    """The exact requirements on one argument."""

    shape: tuple[int, ...]
    dtype: np.dtype  # for a Python scalar that of its value in the program, such as float64 for float
    kind: Literal["ndarray", "python scalar", "numpy scalar"] = "ndarray"
    # The program may overwrite the argument, which must own its memory, be writeable, and share it with no other.
    donated: bool = False


class OutputSpec(NamedTuple):
    """One result; with `donor`, it is that (donated) argument itself, overwritten."""

    shape: tuple[int, ...]
    dtype: np.dtype
    donor: int | None = None


def make_caller(
    module: engine.NativeModule,
    inputs: Sequence[InputSpec],
    outputs: Sequence[OutputSpec],
    scratch_bytes: int,  # size of the arena that `main` gets, aligned to 64 bytes
    *,
    release_gil: bool,  # costs 50 ns: worth it from some 10 us on, needed for callbacks inside parallel regions
    scalar_outputs: Literal["numpy scalar", "ndarray0d"] = "numpy scalar",  # results of shape ()
) -> Callable[..., Any]:
    """Return ``caller(*flat)``, which returns the one result, a tuple where there are none or several, or `MISS`.

    Exceptions of the program's callbacks pass through. One arena of scratch memory is kept; a call that finds it in use
    (another thread, or a callback that calls the function again) gets one of its own.
    """
    inputs, outputs = tuple(map(_checked_input, inputs)), tuple(outputs)
    for i, spec in enumerate(outputs):
        if spec.donor is not None and (
            not inputs[spec.donor].donated or inputs[spec.donor][:2] != (tuple(spec.shape), np.dtype(spec.dtype))
        ):
            raise ValueError(
                f"make_caller: output {i} must have a donated donor of its shape and dtype, got {inputs[spec.donor]}"
            )
    arguments = (module, inputs, outputs, scratch_bytes, release_gil, scalar_outputs == "numpy scalar")
    if _layout_is_known():
        return _native_caller(*arguments)
    return _ctypes_caller(*arguments)


def _checked_input(spec: InputSpec) -> InputSpec:
    spec = spec._replace(shape=tuple(spec.shape), dtype=np.dtype(spec.dtype))
    if spec.kind == "python scalar" and (spec.shape or spec.dtype not in _PYTHON_SCALARS):
        raise ValueError(
            f"make_caller: a Python scalar must be float64, int64, bool or complex128 of shape (), got {spec}"
        )
    if spec.kind == "numpy scalar" and (spec.shape or kind_of(spec.dtype) not in "biufc" or spec.dtype.itemsize > 16):
        raise ValueError(f"make_caller: a NumPy scalar must be a number of at most 16 bytes and shape (), got {spec}")
    if spec.donated and spec.kind != "ndarray":
        raise ValueError(f"make_caller: only an ndarray can be donated, got {spec}")
    return spec


# ------------------------------------------------------------------------------------------ through ctypes: any
# platform


def _ctypes_caller(module, inputs, outputs, scratch_bytes, release_gil, scalars):
    prototype = (ctypes.CFUNCTYPE if release_gil else ctypes.PYFUNCTYPE)(ctypes.c_int32, *[ctypes.c_void_p] * 3)
    main = prototype(module.address("main"))
    in_table, out_table = ctypes.c_void_p * len(inputs), ctypes.c_void_p * len(outputs)
    donated = [i for i, spec in enumerate(inputs) if spec.donated]
    arena, in_use = _arena(scratch_bytes), threading.Lock()

    def caller(*flat):
        if len(flat) != len(inputs):
            return MISS
        arrays = [a for spec, value in zip(inputs, flat, strict=True) if (a := _as_argument(spec, value)) is not None]
        if len(arrays) < len(inputs) or any(
            _overlap(arrays[d], arrays[i]) for d in donated for i in range(len(inputs)) if i != d
        ):
            return MISS
        results = [np.empty(s.shape, s.dtype) if s.donor is None else flat[s.donor] for s in outputs]
        pointers = in_table(*(a.ctypes.data for a in arrays)), out_table(*(r.ctypes.data for r in results))
        lent = in_use.acquire(blocking=False)
        own = arena if lent else _arena(scratch_bytes)
        try:
            failed = main(*pointers, own[0])
        finally:
            if lent:
                in_use.release()
        if failed:
            module.raise_pending()
        # Every result of shape () is a fresh array, so that r[()] is a scalar of its own.
        results = [
            r[()] if scalars and s.shape == () and s.donor is None else r for s, r in zip(outputs, results, strict=True)
        ]
        return results[0] if len(results) == 1 else tuple(results)

    return caller


def _as_argument(spec: InputSpec, value) -> np.ndarray | None:
    if spec.kind == "python scalar":
        if type(value) is not _PYTHON_SCALARS[spec.dtype]:
            return None
        try:
            return np.array(value, spec.dtype)
        except OverflowError:
            return None
    if spec.kind == "numpy scalar":
        return np.array(value) if type(value) is spec.dtype.type and value.dtype == spec.dtype else None
    if type(value) is not np.ndarray or value.dtype is not spec.dtype or value.shape != spec.shape:
        return None
    flags = value.flags
    if not (flags.c_contiguous and flags.aligned):
        return None
    if spec.donated and not (flags.owndata and flags.writeable):
        return None
    return value


def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    return a.ctypes.data < b.ctypes.data + b.nbytes and b.ctypes.data < a.ctypes.data + a.nbytes


def _arena(size: int) -> tuple[int, Any]:
    """Address of `size` bytes aligned to 64, and what keeps them alive. Pages are touched only when used."""
    block = np.empty(size + 64, np.uint8)
    return (block.ctypes.data + 63) // 64 * 64, block


# ------------------------------------------------------------------------------------------------------ in machine code

_DATA, _RANK, _DIMS, _STRIDES, _BASE, _DESCR, _FLAGS = 16, 24, 32, 40, 48, 56, 64  # offsets within an ndarray, bytes
_C_CONTIGUOUS, _OWNS_DATA, _ALIGNED, _WRITEABLE = 0x1, 0x4, 0x100, 0x400  # NumPy's flags
_METH_FASTCALL = 0x80
_NUMPY_API = {
    "tsk_array_new": 94,
    "tsk_set_handler": 304,
    "tsk_array_scalar": 60,
    "tsk_array_scalar_value": 62,
}  # places in NumPy's C API table
_NEW_ARRAY, _SCALAR, _DONATED = range(3)


class _Input(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int64), ("type", ctypes.c_void_p), ("descr", ctypes.c_void_p), ("rank", ctypes.c_int64),
        ("dims", ctypes.c_void_p), ("nbytes", ctypes.c_int64), ("flags", ctypes.c_int64), ("donated", ctypes.c_int64),
    ]  # fmt: skip


class _Output(ctypes.Structure):
    _fields_ = [
        ("mode", ctypes.c_int64),
        ("descr", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.c_void_p),
        ("donor", ctypes.c_int64),
    ]


class _Table(ctypes.Structure):
    _fields_ = [
        ("main", ctypes.c_void_p), ("n_in", ctypes.c_int64), ("n_out", ctypes.c_int64), ("release_gil", ctypes.c_int64),
        ("arena", ctypes.c_void_p), ("arena_bytes", ctypes.c_int64), ("arena_in_use", ctypes.c_int64),
        ("miss", ctypes.c_void_p), ("raiser", ctypes.c_void_p), ("array_type", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p), ("outputs", ctypes.c_void_p), ("n_donated", ctypes.c_int64),
        ("handler", ctypes.c_void_p), ("due", ctypes.c_uint64), ("seen", ctypes.c_uint64),
    ]  # fmt: skip


class _MethodDef(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("meth", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]


def _native_caller(module, inputs, outputs, scratch_bytes, release_gil, scalars):
    keep: list[Any] = [module, inputs, outputs, module.raise_pending]
    arena, block = _arena(scratch_bytes)
    in_records, out_records = (_Input * max(1, len(inputs)))(), (_Output * max(1, len(outputs)))()
    keep += [block, in_records, out_records]

    def dims(shape):
        array = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        keep.append(array)
        return ctypes.addressof(array)

    for record, spec in zip(in_records, inputs, strict=False):
        if spec.kind == "python scalar":
            kind, of_type = _KIND_CODES[_PYTHON_SCALARS[spec.dtype]], _PYTHON_SCALARS[spec.dtype]
        elif spec.kind == "numpy scalar":
            kind, of_type = _NUMPY_SCALAR, spec.dtype.type
        else:
            kind, of_type = 0, np.ndarray
        flags = _C_CONTIGUOUS | _ALIGNED | ((_OWNS_DATA | _WRITEABLE) if spec.donated else 0)
        nbytes = math.prod(spec.shape) * spec.dtype.itemsize
        fields = kind, id(of_type), id(spec.dtype), len(spec.shape), dims(spec.shape), nbytes, flags, spec.donated
        for field, value in zip(_Input._fields_, fields, strict=True):
            setattr(record, field[0], value)
    for record, spec in zip(out_records, outputs, strict=False):
        dtype, shape = np.dtype(spec.dtype), tuple(spec.shape)
        keep.append(dtype)
        mode = _DONATED if spec.donor is not None else _SCALAR if scalars and shape == () else _NEW_ARRAY
        record.mode, record.descr, record.rank, record.dims = mode, id(dtype), len(shape), dims(shape)
        record.donor = spec.donor or 0
    large = any(s.donor is None and math.prod(s.shape) * s.dtype.itemsize >= result_memory.LEAST for s in outputs)
    table = _Table(
        module.address("main"),
        len(inputs),
        len(outputs),
        release_gil,
        arena,
        scratch_bytes,
        0,
        id(MISS),
        id(keep[3]),
        id(np.ndarray),
        ctypes.addressof(in_records),
        ctypes.addressof(out_records),
        sum(s.donated for s in inputs),
        result_memory.handler() if large else None,
        0,
        0,
    )
    method = _method()  # kept below: of two threads that make it at once, one has its own, which the cache forgets
    # the C function's `self`: address first, then what must stay alive
    owner = (ctypes.addressof(table), table, method, *keep)
    return _new_function(ctypes.addressof(method), owner, None)


CYCLES = 3e9  # of the clock in a second, about


def miss_after(caller: Callable[..., Any], seconds: float) -> bool:
    """Let `caller` give a `MISS` on the first call that comes `seconds` after its last miss of this kind; 0: never.

    Returns False where the caller or the processor has no clock that programs may read.
    """
    if not hasattr(caller, "__self__") or platform.machine() not in ("x86_64", "AMD64"):
        return False
    table = caller.__self__[1]
    table.due = table.seen + int(seconds * CYCLES) if seconds else 0
    return True


_new_function = ctypes.pythonapi.PyCFunction_NewEx
_new_function.restype = ctypes.py_object
_new_function.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]


@cache
def _method() -> _MethodDef:
    table = ctypes.cast(_numpy_api(), ctypes.POINTER(ctypes.c_void_p))
    symbols = {name: table[place] or 0 for name, place in _NUMPY_API.items()}
    # branches and calls only: LLVM's passes would cost 10 ms of every first call of a machine and save nothing
    module = engine.compile_module(CALL, symbols=symbols, opt=0)
    method = _MethodDef(b"compiled", module.address("tsk_call"), _METH_FASTCALL, None)
    method.keep = module  # type: ignore[attr-defined]
    return method


def _numpy_api() -> int:
    capsule = ctypes.pythonapi.PyCapsule_GetPointer
    prototype = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return prototype(ctypes.cast(capsule, ctypes.c_void_p).value)(np._core._multiarray_umath._ARRAY_API, None)


@cache
def _layout_is_known() -> bool:
    """Return True if objects of this interpreter and this NumPy have the memory layout that `CALL` assumes."""
    if sys.implementation.name != "cpython" or sys.platform == "win32" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "gettotalrefcount"):
        return False  # objects then have a longer head
    try:
        return all(map(_lies_as_expected, (np.zeros((3, 5), np.float32), np.zeros((2, 3, 7), np.complex128)[:, 1:])))
    except Exception as error:  # noqa: BLE001  whatever a foreign platform does wrong must not stop the slower caller
        _log.debug("layout of ndarray cannot be probed: %s", error)
        return False


def _lies_as_expected(array: np.ndarray) -> bool:
    word, half = ctypes.c_int64, ctypes.c_int32
    start = id(array)
    dims, strides = word.from_address(start + _DIMS).value, word.from_address(start + _STRIDES).value
    n = array.ndim
    return (
        word.from_address(start + 8).value == id(type(array))
        and word.from_address(start + _DATA).value == array.ctypes.data
        and half.from_address(start + _RANK).value == n
        and tuple((word * n).from_address(dims)) == array.shape
        and tuple((word * n).from_address(strides)) == array.strides
        and word.from_address(start + _BASE).value == (0 if array.base is None else id(array.base))
        and word.from_address(start + _DESCR).value == id(array.dtype)
        and half.from_address(start + _FLAGS).value & 0xFFFF == array.flags.num
    )
