"""Files of this package: trees of numbers, arrays, networks and named functions, whole or not there at all.

A value becomes text (JSON) and arrays, both kept in one safetensors file with a checksum. Dataclasses and namedtuples are
kept by the name of their class, functions by their name: no code is in the file, and none but these names is looked up.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import importlib
import json
import os
import sys
from typing import Any

import numpy as np

from triskele import core
from triskele.reinforce.errors import CheckpointError

__all__ = ["pack", "read", "unpack", "write"]

_VERSION = 1
_TRUSTED = ("triskele.", "numpy", "scipy.special", "math")  # modules that a file may have imported


def write(path: str | os.PathLike, kind: str, value: Any) -> None:
    """Write a tree to a file; a process that is killed meanwhile leaves the old file or the new one.

    Parameters
    ----------
    path : path-like
    kind : str
        What the file is, which `read` asks for again.
    value : tree
        None, bool, int, float, str, arrays (records too), dict with str keys, list, tuple, namedtuple, dataclass and functions
        that can be imported by name.

    Raises
    ------
    TypeError
        For a value that is none of these.
    OSError
        If it cannot be written; what was there is untouched.
    """
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps({"kind": kind, "version": _VERSION, "value": pack(value, arrays)}).encode()
    core.save(path, {"text": np.frombuffer(text, np.uint8), "arrays": arrays, "digest": np.frombuffer(_digest(text, arrays), np.uint8)})


def read(path: str | os.PathLike, kind: str) -> Any:
    """The tree that `write` put into a file.

    Raises
    ------
    FileNotFoundError
    CheckpointError
        If the file is damaged, of another kind or release, or names a class that is not there.
    """
    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{kind} {path!r}: there is no such file")
    try:
        found = core.load(path)
        text, arrays, digest = found["text"].tobytes(), found["arrays"], found["digest"].tobytes()
    except Exception as error:
        raise CheckpointError(f"{kind} {path!r}: must be a file written by triskele.reinforce, got another or a damaged one ({error})") from error
    if _digest(text, arrays) != digest:
        raise CheckpointError(f"{kind} {path!r}: the checksum does not fit (the file is damaged)")
    head = json.loads(text)
    if head["kind"] != kind:
        raise CheckpointError(f"{kind} {path!r}: must be a {kind}, got a {head['kind']}")
    if head["version"] != _VERSION:
        raise CheckpointError(f"{kind} {path!r}: version must be {_VERSION}, got {head['version']} (written by another release)")
    try:
        return unpack(head["value"], arrays)
    except (ImportError, AttributeError, TypeError, KeyError) as error:
        raise CheckpointError(f"{kind} {path!r}: {error}") from error


def _digest(text, arrays):
    state = hashlib.sha256(text)
    for name in sorted(arrays, key=int):
        state.update(np.ascontiguousarray(arrays[name]).view(np.uint8).data if arrays[name].ndim else arrays[name].tobytes())
    return state.digest()


def pack(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """A tree as JSON, its arrays put into `arrays` under running numbers."""
    if value is None or isinstance(value, (bool, int, float, str)) and not isinstance(value, np.generic):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "fiub":
        return {"number": value.item(), "dtype": value.dtype.str}
    if isinstance(value, np.ndarray):
        name = str(len(arrays))
        if value.dtype.names is not None:  # records: their bytes
            arrays[name] = np.frombuffer(value.tobytes(), np.uint8)
            return {"records": name, "dtype": repr(np.lib.format.dtype_to_descr(value.dtype)), "shape": value.shape}
        arrays[name] = value
        return {"array": name}
    if isinstance(value, dict):
        if not all(isinstance(k, str) for k in value):
            raise TypeError(f"storage: keys of a dictionary must be strings, got {list(value)}")
        return {"dict": {k: pack(v, arrays) for k, v in value.items()}}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"class": _name(type(value)), "fields": {k: pack(v, arrays) for k, v in zip(value._fields, value, strict=True)}}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [pack(v, arrays) for v in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: pack(getattr(value, f.name), arrays) for f in dataclasses.fields(value) if f.init}
        return {"class": _name(type(value)), "fields": fields}
    if callable(value):
        return {"function": _name(value)}
    raise TypeError(f"storage: a file holds numbers, arrays, trees and functions with names, got {type(value).__name__} {value!r:.80}")


def unpack(packed: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree that `pack` described."""
    if not isinstance(packed, dict):
        return packed
    kind = next(iter(packed))
    body = packed[kind]
    if kind == "number":
        return np.dtype(packed["dtype"]).type(body)
    if kind == "array":
        return arrays[body]
    if kind == "records":
        dtype = np.lib.format.descr_to_dtype(ast.literal_eval(packed["dtype"]))
        return np.frombuffer(arrays[body].tobytes(), dtype).reshape(packed["shape"]).copy()
    if kind == "dict":
        return {k: unpack(v, arrays) for k, v in body.items()}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(unpack(v, arrays) for v in body)
    if kind == "function":
        return _named(body)
    cls = _named(body)
    if not (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")):
        raise TypeError(f"{body} must be a dataclass or a namedtuple")
    return cls(**{k: unpack(v, arrays) for k, v in packed["fields"].items()})


def _name(thing):
    """``module:name``; NumPy's and SciPy's own functions have no module that says where they are."""
    name = getattr(thing, "__qualname__", getattr(thing, "__name__", ""))
    home = getattr(thing, "__module__", None)
    for module in [home, "numpy", "scipy.special"]:
        if module in sys.modules and _follow(sys.modules[module], name) is thing:
            return f"{module}:{name}"
    raise TypeError(f"storage: {thing!r:.80} must be a function or class that can be imported by name, so that a file can name it "
                    "(define it at the top of a module)")


def _named(name):
    module, _, path = name.partition(":")
    if module not in sys.modules:
        if not (module + ".").startswith(_TRUSTED):
            raise ImportError(f"it uses {path} of the module {module!r}, which is not of this suite (import that module first)")
        importlib.import_module(module)
    found = _follow(sys.modules[module], path)
    if found is None:
        raise AttributeError(f"it uses {path}, which the module {module!r} does not have")
    return found


def _follow(module, path):
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
