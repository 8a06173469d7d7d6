"""A hash of everything that a function's machine code depends on, so that generated kernels can be kept on disk."""

from __future__ import annotations

import hashlib
import inspect
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core.extend import Compiled, check, source_stamp

from ..errors import GameError

__all__ = ["fingerprint", "names_of", "plain", "required"]


def plain(function: Any) -> Callable:
    """Return the Python function of a function, of a Numba function, or of a kernel."""
    function = getattr(function, "py_func", function)
    return check.kind(
        function,
        types.FunctionType,
        "a function for compiled code",
        "a Python function or a Numba function",
        error=GameError,
    )


def required(function: Callable) -> int:
    """Return the number of required arguments: those with a default hold what was bound to them, as in ``lambda x,
    k=k: ...``.
    """
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return sum(p.kind in positional and p.default is p.empty for p in inspect.signature(function).parameters.values())


def fingerprint(*parts: Any) -> str:
    """Return a hash of functions (their code, constants, closures, and the globals they use, functions among them) and
    of constants; raise GameError for a global that compiled code cannot keep.
    """
    state = hashlib.blake2b(digest_size=16)
    seen: set[int] = set()
    for part in parts:
        _add(state, part, "", seen)
    return state.hexdigest()


def _add(state, value, where, seen):
    state.update(f"{type(value).__name__}:".encode())
    if isinstance(value, np.ndarray):
        state.update(f"{value.dtype.descr}{value.shape}".encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.dtype):
        state.update(repr((value.descr, value.itemsize)).encode())
    elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        state.update(repr(value).encode())
    elif isinstance(value, (tuple, list)):
        for item in value:
            _add(state, item, where, seen)
    elif isinstance(value, (types.ModuleType, types.BuiltinFunctionType, type)):
        state.update(f"{getattr(value, '__module__', '')}.{value.__name__}".encode())
    elif isinstance(value, types.FunctionType) or hasattr(value, "py_func"):
        if isinstance(value, Compiled):
            state.update(repr(value.options).encode())
        _add_function(state, plain(value), seen)
    elif (home := getattr(value, "__module__", "")) and (home.startswith("triskele.") or home.startswith("numba.")):
        # an intrinsic, an external function
        state.update(f"{home}.{getattr(value, '__name__', type(value).__name__)}".encode())
        if hasattr(value, "_defn"):
            state.update(source_stamp(value._defn.__code__.co_filename))
    elif isinstance(value, np.ufunc):
        state.update(value.__name__.encode())
    else:
        raise GameError(
            f"{where} is a {type(value).__name__}, which compiled code cannot keep (numbers, tuples of "
            f"numbers, arrays and functions can)"
        )


def _add_function(state, function, seen):
    if id(function) in seen:
        return
    seen.add(id(function))
    code = function.__code__
    _add_code(state, code)
    _add(state, function.__defaults__, f"default of {function.__name__}", seen)
    for name, value in sorted((function.__kwdefaults__ or {}).items()):
        state.update(name.encode())
        _add(state, value, f"default of {function.__name__}", seen)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        state.update(name.encode())
        _add(state, cell.cell_contents, f"{function.__name__}: {name!r}", seen)
    for name in sorted(names_of(code)):
        if name in function.__globals__:
            state.update(name.encode())
            _add(state, function.__globals__[name], f"{function.__name__}: global {name!r}", seen)


def _add_code(state, code):
    state.update(code.co_code + repr((code.co_varnames, code.co_names)).encode())
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(state, constant)
        else:
            state.update(repr(constant).encode())


def names_of(code: types.CodeType) -> set[str]:
    """Names that code looks up: globals and attributes, those of functions inside it too."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= names_of(constant)
    return found
