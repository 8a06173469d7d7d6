"""The fast caller of a compiled program: ndarrays in, ndarrays out, in tens of nanoseconds.

One C function (METH_FASTCALL), written in LLVM IR and shared by all programs, reads a table of specifications made by
`make_caller`: it checks each argument, allocates the results through NumPy's C API, lends the scratch arena, calls the
program, and returns. What it does not recognise at once (another dtype or shape, a subclass, a view with gaps) is not
an error but a `MISS`: the caller's slow path then converts, copies, or compiles.

It relies on the layout of ndarray and of CPython objects, which is probed once; where that does not hold (free-threaded
build, Windows, another interpreter) `make_caller` gives a slower caller through ctypes with the same results.
"""

import ctypes
import logging
import math
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from triskele.core.compile import engine
from triskele.core.kernels import native

__all__ = ["MISS", "InputSpec", "OutputSpec", "make_caller"]

_log = logging.getLogger(__name__)


class _Miss:
    def __repr__(self):
        return "MISS"


MISS = _Miss()
"""What a caller returns when its arguments are not exactly what the program was compiled for."""

_PYTHON_SCALARS = {np.dtype(np.float64): float, np.dtype(np.int64): int, np.dtype(bool): bool, np.dtype(np.complex128): complex}
_KIND_CODES = {float: 1, int: 2, bool: 3, complex: 4}
_NUMPY_SCALAR = 5


class InputSpec(NamedTuple):
    """What one argument must be, exactly.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
        For a Python scalar the dtype in which the program gets its value: float64 for float, int64 for int, bool for
        bool, complex128 for complex.
    kind : {"ndarray", "python scalar", "numpy scalar"}
    donated : bool
        The program may overwrite the argument. It must then own its memory, be writeable, and share it with no other
        argument.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    kind: Literal["ndarray", "python scalar", "numpy scalar"] = "ndarray"
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
    scratch_bytes: int,
    *,
    release_gil: bool,
    scalar_outputs: Literal["numpy scalar", "ndarray0d"] = "numpy scalar",
) -> Callable[..., Any]:
    """A function of the program's flat arguments.

    Parameters
    ----------
    module : NativeModule
        Defines ``main`` (see `engine`).
    inputs, outputs : sequence of InputSpec, OutputSpec
    scratch_bytes : int
        Size of the arena that `main` gets, aligned to 64 bytes. One is kept; a call that finds it in use (another
        thread, or a callback that calls the function again) gets one of its own.
    release_gil : bool
        Let other Python threads run meanwhile: worth its 50 ns from some 10 us on, and needed when callbacks run inside
        parallel regions.
    scalar_outputs : {"numpy scalar", "ndarray0d"}
        What results of shape () are; NumPy's own functions return scalars.

    Returns
    -------
    callable
        ``caller(*flat)`` returns the one result, or a tuple of results when there are none or several, or `MISS`.
        An exception raised by a callback of the program passes through.

    Raises
    ------
    ValueError
        If a specification cannot be met.
    """
    inputs, outputs = tuple(map(_checked_input, inputs)), tuple(outputs)
    for i, spec in enumerate(outputs):
        if spec.donor is not None and (
            not inputs[spec.donor].donated or inputs[spec.donor][:2] != (tuple(spec.shape), np.dtype(spec.dtype))
        ):
            raise ValueError(f"make_caller: output {i} must have a donated donor of its shape and dtype, got {inputs[spec.donor]}")
    arguments = (module, inputs, outputs, scratch_bytes, release_gil, scalar_outputs == "numpy scalar")
    if _layout_is_known():
        return _native_caller(*arguments)
    return _ctypes_caller(*arguments)


def _checked_input(spec: InputSpec) -> InputSpec:
    spec = spec._replace(shape=tuple(spec.shape), dtype=np.dtype(spec.dtype))
    if spec.kind == "python scalar" and (spec.shape or spec.dtype not in _PYTHON_SCALARS):
        raise ValueError(f"make_caller: a Python scalar must be float64, int64, bool or complex128 of shape (), got {spec}")
    if spec.kind == "numpy scalar" and (spec.shape or spec.dtype.kind not in "biufc" or spec.dtype.itemsize > 16):
        raise ValueError(f"make_caller: a NumPy scalar must be a number of at most 16 bytes and shape (), got {spec}")
    if spec.donated and spec.kind != "ndarray":
        raise ValueError(f"make_caller: only an ndarray can be donated, got {spec}")
    return spec


# ------------------------------------------------------------------------------------------ through ctypes: any platform


def _ctypes_caller(module, inputs, outputs, scratch_bytes, release_gil, scalars):
    prototype = (ctypes.CFUNCTYPE if release_gil else ctypes.PYFUNCTYPE)(ctypes.c_int32, *[ctypes.c_void_p] * 3)
    main = prototype(module.address("main"))
    in_table, out_table = ctypes.c_void_p * len(inputs), ctypes.c_void_p * len(outputs)
    donated = [i for i, spec in enumerate(inputs) if spec.donated]
    arena, in_use = _arena(scratch_bytes), threading.Lock()

    def caller(*flat):
        if len(flat) != len(inputs):
            return MISS
        arrays = [_as_argument(spec, value) for spec, value in zip(inputs, flat, strict=True)]
        if any(a is None for a in arrays) or any(
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
        results = [r[()] if scalars and s.shape == () and s.donor is None else r for s, r in zip(outputs, results, strict=True)]
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
