"""`fingerprint_of`: a hash of values and of functions, with everything that a function reads besides its arguments.

Compiled code holds the numbers that a function of the user's had captured, and the globals that it read, when it was
compiled. The fingerprint changes when one of them does.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from triskele.core.extend import Elementwise

__all__ = ["fingerprint_of"]

_PLAIN = frozenset({type(None), type(...), bool, int, float, complex, str, bytes, range, slice})
_NONE: frozenset[str] = frozenset()

# functions of these packages read nothing that changes: their own names stand for what they do
_LIBRARIES = frozenset(sys.stdlib_module_names - {"__main__"}) | {"numpy", "scipy", "numba", "triskele"}


def fingerprint_of(*values: Any) -> bytes:
    """A hash of arrays, numbers, strings, trees of them, objects and functions.

    A function counts with its code, its defaults, the values that it has captured, and the globals that it reads, down
    through the functions that it calls. Of an object that a function uses, the attributes count that the function
    names; of any other, all whose names have no underscore in front.
    An elementwise function that now reads something else forgets what has been made of it.
    """
    walk = _Walk()
    for value in values:
        walk.value(value)
    return walk.hash.digest()


def _is_library(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _LIBRARIES


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class _Walk:
    """Goes through values once, and puts what they are into a hash."""

    def __init__(self):
        self.hash = hashlib.blake2b(digest_size=16)
        self._seen: dict[Any, int] = {}  # by identity: functions call themselves and each other
        self._alive: list[Any] = []  # an object made on the way must not leave its identity to the next one

    def text(self, *parts: str) -> None:
        self.hash.update("\0".join(parts).encode())

    def value(self, value: Any, names: frozenset[str] = _NONE) -> None:
        """Take in a value; of an object or a module, the attributes `names`."""
        kind = type(value)
        if kind is np.ndarray:
            self.hash.update(f"\1{value.dtype.char}{value.shape}".encode())
            if value.dtype.hasobject:
                self.value(value.ravel().tolist(), names)
            else:
                self.hash.update(value.tobytes())
        elif kind in _PLAIN or isinstance(value, (np.generic, np.dtype)):
            self.hash.update(f"\2{value!r}".encode())
        elif kind is dict or isinstance(value, Mapping):
            self.hash.update(f"\3{len(value)}".encode())
            if not self._known(value, names):
                for key, item in value.items():
                    self.hash.update(f"\4{key}".encode() if type(key) is str else b"\5")
                    if type(key) is not str:
                        self.value(key)
                    self.value(item, names)
        elif self._known(value, names):
            pass
        elif isinstance(value, (list, tuple)):
            self.hash.update(f"\6{len(value)}".encode())
            for item in value:
                self.value(item, names)
        elif isinstance(value, (set, frozenset)):
            self.text("set", *sorted(map(repr, value)))
        else:
            self._object(value, names)

    def _known(self, value, names) -> bool:
        key = id(value), names
        if key in self._seen:
            self.text("again", str(self._seen[key]))
            return True
        self._seen[key] = len(self._seen)
        self._alive.append(value)
        return False

    def _object(self, value, names):
        if isinstance(value, FunctionType):
            self._function(value)
        elif isinstance(value, Elementwise):
            state = fingerprint_of(value.function, list(value.overrides.items()), list(value.names))
            if state != value.read:
                value.forget()
                value.read = state
            self.hash.update(state)
        elif isinstance(value, MethodType):
            self._function(value.__func__)
            self.value(
                value.__self__,
                frozenset(_names(value.__func__.__code__)) if isinstance(value.__func__, FunctionType) else names,
            )
        elif isinstance(value, functools.partial):
            self.text("partial")
            self.value([value.func, value.args, value.keywords])
        elif isinstance(value, CodeType):
            self._code(value)
        elif isinstance(value, ModuleType):
            self.text("module", value.__name__)
            self._attributes(value, names, library=_is_library(value.__name__))
        elif isinstance(value, type):
            self.text("class", value.__module__, value.__qualname__)
            self._attributes(value, names, library=_is_library(value.__module__))
        elif hasattr(value, "__wrapped__"):
            self.text("wrapper")
            self.value(value.__wrapped__)
        elif is_dataclass(value):
            self.text("dataclass", type(value).__qualname__)
            for f in fields(value):
                self.value(getattr(value, f.name, None), names)
        elif callable(value) and not isinstance(getattr(type(value), "__call__", None), FunctionType):  # noqa: B004
            self.text(
                "callable",
                getattr(value, "__module__", None) or "",
                getattr(value, "__qualname__", type(value).__qualname__),
            )
        else:
            self._instance(value, names)

    def _instance(self, value, names):
        cls = type(value)
        self.text("object", cls.__module__, cls.__qualname__)
        if callable(value):
            call = cls.__call__
            self._function(call)
            names = names | frozenset(_names(call.__code__)) if isinstance(call, FunctionType) else names
        # what no function has led to is data, of which all counts
        self._attributes(
            value, names or frozenset(k for k in getattr(value, "__dict__", ()) if not k.startswith("_")), library=False
        )

    def _attributes(self, owner, names, library):
        own = getattr(owner, "__dict__", {})
        for name in sorted(names):
            if name in own:
                found = own[name]
            elif isinstance(owner, (ModuleType, type)):
                continue
            else:
                found = getattr(type(owner), name, None)
                if isinstance(found, FunctionType):
                    found = MethodType(found, owner)
                elif isinstance(found, property):
                    found = MethodType(found.fget, owner) if isinstance(found.fget, FunctionType) else None
                elif hasattr(found, "__get__") or found is None:  # slots and other descriptors, methods in C
                    found = getattr(owner, name, None) if hasattr(found, "__set__") else None
            if found is None or (library and (callable(found) or isinstance(found, ModuleType))):
                continue
            self.text(name)
            self.value(found, names)

    def _function(self, function):
        if not isinstance(function, FunctionType):
            self.text("callable", getattr(function, "__qualname__", repr(type(function))))
            return
        code = function.__code__
        names = frozenset(_names(code))
        self.text("function", function.__qualname__)
        self._code(code)
        self.value([function.__defaults__, function.__kwdefaults__])
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self.text(name)
            try:
                self.value(cell.cell_contents, names)
            except ValueError:  # not yet filled
                self.text("empty")
        if _is_library(function.__module__):
            return
        space = function.__globals__
        for name in sorted(names & space.keys()):
            self.text(name)
            self.value(space[name], names)

    def _code(self, code):
        self.hash.update(code.co_code)
        self.text(*code.co_names, *code.co_varnames)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._code(constant)
            else:
                self.text(repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant))
