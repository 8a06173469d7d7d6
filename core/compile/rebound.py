"""Names and attributes that a compiled function read from outside while it was traced, and whether they changed since.

Looked at are globals, variables of functions around it, attributes of objects behind these, elements of lists and
dictionaries of numbers, and the same of the functions that it calls. Libraries are not followed.
"""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ..transforms.autograph.convert import is_library
from ..transforms.autograph.pure import codes

__all__ = ["Reading", "changed", "readings", "snapshot"]

_MISSING = object()
_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic)
_MOST = 1000  # names of one function, elements of one list


class Reading(NamedTuple):
    """A value that was read: `get` reads it again."""

    what: str
    get: Callable[[], Any]
    value: Any
    state: Any  # what `value` was, for values that can change themselves


def readings(f: Any, fixed: dict[str, Any]) -> list[Reading]:
    """What `f` reads from outside; attributes of its static arguments `fixed` are read, too."""
    found: dict[Any, Reading] = {}
    _follow(f, fixed, found, set())
    return list(found.values())


def changed(reading: Reading) -> bool:
    """Return True if the value is another one now. Equal numbers, and functions of equal code, are the same."""
    value = reading.get()
    return (
        value is not _MISSING
        and (value is not reading.value or reading.state is not None)
        and (_state(value) != (_state(reading.value) if reading.state is None else reading.state))
    )


def snapshot(f: Any) -> tuple[list[Any], list[Any]]:
    """States of what `f` reads from outside, equal until it has changed, and the values, which must outlive them."""
    read = readings(f, {})
    data = [r.state is not None or type(r.value) not in (list, dict) for r in read]
    states = [(r.what, _state(r.value, whole=True) if d else id(r.value)) for r, d in zip(read, data)]
    return states, [r.value for r in read]


def _state(x, whole=False):
    """Equal for values that programs cannot tell apart."""
    if isinstance(x, _PLAIN):
        return type(x), repr(x)
    if isinstance(x, types.FunctionType):
        return x.__code__, repr(x.__defaults__), repr(x.__kwdefaults__)
    if isinstance(x, np.ndarray):
        small = x.nbytes <= 1 << 16
        return x.dtype, x.shape, x.tobytes() if small else blake2b(x.tobytes()).digest() if whole else id(x)
    if type(x) in (list, tuple, dict):
        items = list(x.values()) if type(x) is dict else list(x)
        return type(x), list(x) if type(x) is dict else None, [_state(v, whole) for v in items[:_MOST]]
    return id(x)


def _follow(f, fixed, found, seen):
    """Note what `f` reads from outside and from its arguments `fixed` (by name), and what functions it calls read."""
    f, owner = _function(f)
    if f is None or id(f) in seen or len(seen) > _MOST:
        return
    seen.add(id(f))
    own, code = not is_library(f), f.__code__
    roots = {
        n: (f"the variable {n!r} of a function around it", functools.partial(_content, cell))
        for n, cell in zip(code.co_freevars, f.__closure__ or (), strict=True)
    }
    if not own:  # functions that it wraps
        for _, get in roots.values():
            _follow(get(), {}, found, seen)
        return
    if owner is not None and code.co_argcount:
        fixed = {code.co_varnames[0]: owner, **fixed}
    for path in _paths(code):
        name = path[0]
        if name in roots:
            what, get = roots[name]
        elif name in fixed:
            what, get = "", functools.partial(fixed.get, name)
        elif name in f.__globals__:
            what, get = f"the global {name!r}", functools.partial(f.__globals__.get, name, _MISSING)
        else:
            continue
        value = get()
        if what:
            _note(found, what, get, value)
        for attribute in path[1:]:
            _follow(value, {}, found, seen)
            if _of_library(value):
                break
            get, before = functools.partial(_attribute, value, attribute), value
            value = get()
            if value is _MISSING:
                break
            _note(found, f"the attribute {attribute!r} of {_kind(before)}", get, value)
        _follow(value, {}, found, seen)


def _attribute(x, name):
    """An attribute as it stands in an object or its class; no descriptor is run."""
    for i, values in enumerate([_vars(x), *map(vars, type(x).__mro__)]):
        if name in values:
            v = values[name]
            if i and isinstance(v, types.FunctionType):
                return types.MethodType(v, x)
            return _MISSING if i and hasattr(v, "__get__") else v
    return _MISSING


def _vars(x):
    """The attributes of an object itself; its ``__getattr__`` is not asked."""
    try:
        return object.__getattribute__(x, "__dict__")
    except AttributeError:
        return {}


def _note(found, what, get, value):
    if isinstance(value, (types.ModuleType, types.MethodType)) or value is _MISSING:
        return
    items = list(value.values()) if type(value) is dict else value if type(value) in (list, tuple) else ()
    if all(isinstance(v, _PLAIN) for v in items):  # lists of other things may grow without being data
        mutable = type(value) in (list, dict) and 0 < len(items) <= _MOST
        found.setdefault((what, id(value)), Reading(what, get, value, _state(value) if mutable else None))


def _kind(x):
    return f"the module {x.__name__}" if isinstance(x, types.ModuleType) else type(x).__name__


def _of_library(x):
    name = x.__name__ if isinstance(x, types.ModuleType) else getattr(type(x), "__module__", "")
    return is_library(types.SimpleNamespace(__module__=name))


def _function(f):
    """(the Python function behind a callable, the object it is bound to)."""
    owner = None
    for _ in range(8):
        if isinstance(f, types.FunctionType):
            return f, owner
        if isinstance(f, functools.partial):
            f = f.func
        elif isinstance(f, types.MethodType):
            f, owner = f.__func__, f.__self__
        elif isinstance(f, (type, types.ModuleType)):
            break
        elif isinstance(wrapped := _vars(f).get("__wrapped__"), types.FunctionType):
            f = wrapped
        else:
            call = vars(type(f)).get("__call__")
            return (call, f) if isinstance(call, types.FunctionType) else (None, None)
    return None, None


@functools.lru_cache(1024)
def _paths(code: types.CodeType) -> tuple[tuple[str, ...], ...]:
    """Names that a code object and those inside it load, with the attributes that are taken of them."""
    found: dict[tuple[str, ...], None] = {}
    for c in codes(code):
        path: tuple[str, ...] = ()
        for i in dis.get_instructions(c):
            if i.opname in ("LOAD_ATTR", "LOAD_METHOD") and path:
                path = (*path, i.argval)
                continue
            if len(path) > 1 or (path and path[0] not in c.co_varnames):
                found[path] = None
            loads = i.opname.startswith(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST", "STORE_FAST_LOAD_FAST"))
            pair = loads and isinstance(i.argval, tuple)  # one instruction may load two
            path = (i.argval[-1] if pair else i.argval,) if loads else ()
    return tuple(found)


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not assigned, or no longer
        return _MISSING
