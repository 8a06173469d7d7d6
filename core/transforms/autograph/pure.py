"""Tests for code without side effects: the body of such a loop can be recorded an additional time on trial.

While a body is rehearsed, a function is looked at before it is called (`autograph.call`), and an object before it is
assigned into (`assign.put`): what might change something that is not a variable of the loop, or depend on
what a call before has changed, ends the rehearsal.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...tensor import Tensor

__all__ = ["OnlyCopies", "check_call", "check_target", "codes", "is_pure", "rehearsed"]

_PURE_MODULES = ("numpy", "scipy", "math", "cmath", "operator", "functools", "itertools", "dataclasses", "triskele")
_PURE_BUILTINS = {abs, all, any, bool, complex, dict, divmod, enumerate, float, int, len, list, max, min, pow, range,
                  reversed, round, set, slice, sorted, sum,
                  tuple, zip}  # fmt: skip
_VALUES = (Tensor, np.ndarray, np.generic, int, float, complex, str, bytes, tuple)
# a handler may take the error that a traced value raises for one of the user's
_NEVER = {"STORE_GLOBAL", "DELETE_GLOBAL", "DELETE_SUBSCR", "YIELD_VALUE", "PUSH_EXC_INFO"}
_OF_OTHERS = {"STORE_DEREF", "DELETE_DEREF"}
# what tells a traced value from a number
_TELLS = {"isinstance", "issubclass", "type", "hasattr", "callable", "id", "repr", "str", "dir", "vars", "locals",
          "globals", "eval", "exec"}  # fmt: skip


class OnlyCopies(Exception):
    """A loop of the graph may not mean what copies of the body do; says why."""


class _Rehearsal(threading.local):
    active = False
    # what the code changes, with its content before; None: it may change none
    containers: dict[int, Any] | None = None


_rehearsal = _Rehearsal()


@contextmanager
def rehearsed(*functions: types.FunctionType, containers: bool = False) -> Iterator[dict[int, Any]]:
    """Raise `OnlyCopies` before code in this context, which runs `functions`, does more than compute.

    With `containers` it may change lists and dictionaries: the context gives these by id, with their content before.
    """
    if not all(_code_is_pure(f.__code__, body=True) for f in functions):
        raise OnlyCopies("its body has a `try`, asks for a type, or changes what is not its own")
    before = _rehearsal.active, _rehearsal.containers
    if before[0] and before[1] is None:
        containers = False
    found: dict[int, Any] = {}
    _rehearsal.active, _rehearsal.containers = True, found if containers else None
    try:
        yield found
    finally:
        _rehearsal.active, _rehearsal.containers = before
    if containers and before[1] is not None:
        before[1].update({k: v for k, v in found.items() if k not in before[1]})


def _may_change(x: Any) -> bool:
    """Return True if a rehearsal can undo a change of `x`."""
    if _rehearsal.containers is None or type(x) not in (list, dict, set):
        return False
    _rehearsal.containers.setdefault(id(x), (x, x.copy()))
    return True


def check_call(f: Callable[..., Any], converted: Callable[..., Any]) -> None:
    """Raise `OnlyCopies` in a rehearsal if a call of `f`, which runs `converted`, might do more than compute."""
    if _rehearsal.active and not is_pure(f, converted):
        if isinstance(f, types.BuiltinFunctionType) and _may_change(f.__self__):
            return
        raise OnlyCopies(f"{getattr(f, '__name__', f)!s:.60} may have side effects")


def check_target(x: Any, owned: bool = True) -> None:
    """Raise `OnlyCopies` in a rehearsal if `x`, which other names may know, is about to be assigned into. A variable
    `owned` by the function may be an array.
    """
    if _rehearsal.active and not (owned and isinstance(x, _VALUES)) and not _may_change(x):
        raise OnlyCopies(f"an object of type {type(x).__name__} is assigned into")


def is_pure(f: Callable[..., Any], converted: Callable[..., Any] | None = None) -> bool:
    """Return True if `f` itself has no side effects; the functions that it calls are checked when it calls them."""
    converted = f if converted is None else converted
    if isinstance(f, functools.partial):
        return is_pure(f.func, getattr(converted, "func", f.func))
    if isinstance(f, types.MethodType):
        return is_pure(f.__func__, getattr(converted, "__func__", f.__func__))
    if isinstance(f, types.FunctionType):
        return _of_pure_module(f) or _code_is_pure(
            f.__code__, subscripts=converted is not f or "__triskele_converted__" in f.__dict__
        )
    if isinstance(f, types.BuiltinFunctionType):
        owner = f.__self__
        if isinstance(owner, (np.ndarray, np.generic, str, int, float, complex, tuple)):
            return f.__name__ not in (
                "sort",
                "fill",
                "resize",
                "put",
                "partition",
                "setflags",
                "setfield",
                "byteswap",
                "itemset",
            )
        return f in _PURE_BUILTINS or (isinstance(owner, (types.ModuleType, type(None))) and _of_pure_module(f))
    if isinstance(f, type):
        plain_class = dataclasses.is_dataclass(f) and not hasattr(f, "__post_init__")
        return f in _PURE_BUILTINS or _of_pure_module(f) or plain_class or issubclass(f, (tuple, BaseException))
    call = type(f).__call__ if callable(f) else None
    return (
        isinstance(call, types.FunctionType)
        and is_pure(call, getattr(converted, "__func__", call))
        or _of_pure_module(type(f))
    )


def _of_pure_module(f):
    module = getattr(f, "__module__", None) or ""
    return module.split(".")[0] in _PURE_MODULES and not module.startswith("numpy.random")


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a code object and those of the functions defined in it."""
    yield code
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from codes(c)


@functools.lru_cache(1024)
def _code_is_pure(code: types.CodeType, subscripts: bool = True, body: bool = False) -> bool:
    """Return True if a function with this code changes only its own variables and treats traced values and numbers
    alike.

    Assignments ``x[i] = v`` are looked at as they come if `subscripts`; the variables of a `body` are those around it.
    """
    outside = set() if body else set(code.co_freevars)
    never = _NEVER if body else _NEVER | {"STORE_ATTR", "DELETE_ATTR"}
    if any(not _TELLS.isdisjoint(c.co_names) for c in codes(code)):
        return False
    lazy = never - {"YIELD_VALUE"}
    return not any(
        i.opname in (lazy if c.co_name == "<genexpr>" else never)
        or (i.opname in _OF_OTHERS and i.argval in outside)
        or (i.opname == "STORE_SUBSCR" and not subscripts)
        for c in codes(code)
        for i in dis.get_instructions(c)
    )
