"""The state of Python objects, as a tree of numbers, strings and arrays that a file may hold: environments with all
their wrappers.

Only what is known to be plain is read: numbers, strings, arrays, generators of NumPy, and attributes of objects, lists
and dictionaries of these. Anything else, such as a simulator in C, ends in `UnknownState`: half a state is worse than
none.
"""

from __future__ import annotations

import enum
import types
from collections import deque
from typing import Any

import numpy as np

__all__ = ["UnknownState", "read", "write"]

_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_PLAIN = (bool, int, float, str, type(None))
_FIXED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
# spaces, names and windows
_FIXED_MODULES = ("gymnasium.spaces", "gymnasium.envs.registration", "gymnasium.vector.utils", "pygame")


class UnknownState(Exception):
    """There is something whose state is not known; the message says where."""


def _is_fixed(value):
    return isinstance(value, (*_FIXED, staticmethod, classmethod, enum.Enum)) or type(value).__module__.startswith(
        _FIXED_MODULES
    )


def _is_object(value):
    return hasattr(value, "__dict__") and type(value).__module__ not in ("builtins", "numpy", "collections")


def read(value: Any, where: str = "", seen: set[int] | None = None) -> Any:
    """Return a tree that `write` takes; raise UnknownState where a part of the object, which messages call `where`, is
    not known. `seen` holds the ids of objects that were read already.
    """
    seen = set() if seen is None else seen
    if type(value) in _PLAIN or isinstance(value, np.generic):
        return str(value) if isinstance(value, np.str_) else value
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "SU":  # a map of letters: its bytes
            return {"text": np.frombuffer(value.tobytes(), np.uint8)}
        if value.dtype.hasobject or value.dtype.kind not in "iufcbV":
            raise UnknownState(f"{where} is an array of {value.dtype}")
        return value.copy()
    if isinstance(value, np.random.Generator):
        return {"generator": _words(value.bit_generator.state)}
    if isinstance(value, np.random.RandomState):
        return {"generator": _words(value.get_state(legacy=False))}
    if type(value) in (list, tuple, deque):
        return {"items": [read(v, f"{where}[{k}]", seen) for k, v in enumerate(value)]}
    if type(value) is dict:
        if all(_is_fixed(v) for v in value.values()):
            return {"fixed": True}
        return {
            "keys": [read(k, f"a key of {where}", seen) for k in value],
            "values": [read(v, f"{where}[{k!r}]", seen) for k, v in value.items()],
        }
    if _is_fixed(value) or id(value) in seen:
        return {"fixed": True}
    if not _is_object(value):
        raise UnknownState(f"{where} is a {type(value).__name__}")
    seen.add(id(value))
    return {"object": {name: read(v, f"{where}.{name}".removeprefix("."), seen) for name, v in vars(value).items()}}


def write(tree: Any, value: Any, where: str = "") -> Any:
    """Return the replacement of `value`, an object of the same making, in the state that was read; objects and arrays
    are changed in place, and UnknownState is raised if an object is not there to be changed.
    """
    if isinstance(tree, np.ndarray):
        if (
            type(value) is np.ndarray
            and value.shape == tree.shape
            and value.dtype == tree.dtype
            and value.flags.writeable
        ):
            value[...] = tree  # others may look at the same memory
            return value
        return tree.copy()
    if not isinstance(tree, dict):
        return tree
    if "fixed" in tree:
        return value
    if "text" in tree:
        if not isinstance(value, np.ndarray) or value.nbytes != tree["text"].size or not value.flags.writeable:
            raise UnknownState(f"{where} is text of another size")
        value[...] = np.frombuffer(tree["text"].tobytes(), value.dtype).reshape(value.shape)
        return value
    if "generator" in tree:
        state = _numbers(tree["generator"])
        if isinstance(value, np.random.RandomState):
            value.set_state(state)
            return value
        if not isinstance(value, np.random.Generator):
            if state["bit_generator"] not in _GENERATORS:
                raise UnknownState(f"{where} is a generator of the kind {state['bit_generator']!r}")
            value = np.random.Generator(getattr(np.random, state["bit_generator"])())
        value.bit_generator.state = state
        return value
    if "items" in tree:
        items = list(value) if isinstance(value, (list, tuple, deque)) else []
        new = [write(t, items[k] if k < len(items) else None, f"{where}[{k}]") for k, t in enumerate(tree["items"])]
        return deque(new, value.maxlen) if isinstance(value, deque) else tuple(new) if isinstance(value, tuple) else new
    if "keys" in tree:
        old = value if isinstance(value, dict) else {}
        keys = [write(k, None) for k in tree["keys"]]
        return {k: write(t, old.get(k), f"{where}[{k!r}]") for k, t in zip(keys, tree["values"], strict=True)}
    if not _is_object(value):
        raise UnknownState(f"{where} is an object that is not there now")
    for name in set(vars(value)) - set(tree["object"]):
        delattr(value, name)
    for name, t in tree["object"].items():
        if name.startswith("__"):  # Python's own, such as the class of the object
            raise UnknownState(f"{where}.{name} is no state")
        place = f"{where}.{name}".removeprefix(".")
        new = write(t, vars(value).get(name), place)
        if new is not vars(value).get(name) or name not in vars(value):
            object.__setattr__(value, name, new)
    return value


def _words(state):
    """The state of a generator, its large integers as strings: numbers in files may have 64 bits."""
    return {k: _words(v) if isinstance(v, dict) else str(v) if isinstance(v, int) else v for k, v in state.items()}


def _numbers(state):
    return {
        k: _numbers(v) if isinstance(v, dict) else int(v) if isinstance(v, str) and k != "bit_generator" else v
        for k, v in state.items()
    }
