"""Files of this package: trees of numbers, arrays, networks and named functions, whole or not there at all.

A value becomes text (JSON) and arrays, both kept in one file of `core.save`, which has a checksum. Dataclasses and
namedtuples are kept by the name of their class, functions by their name. Nothing that a file names is looked up or
imported unless it stands in the lists below or is given by the caller, so that no file decides what code runs.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import archive

from .errors import CheckpointError

__all__ = ["named", "pack", "read", "same", "unpack", "write"]

_VERSION = 2  # files of version 1 have a checksum of their own, which is no longer verified
_CLASSES = {
    "triskele.core.nn.attention": ("MultiHeadAttention",),
    "triskele.core.nn.convolution": ("Conv",),
    "triskele.core.nn.layers": ("Embedding", "Linear", "MLP"),
    "triskele.core.nn.normalization": ("BatchNorm", "LayerNorm"),
    "triskele.core.nn.recurrent": ("GRU", "LSTM"),
    "triskele.core.optim.base": ("Moments", "Momentum"),
    "triskele.reinforce.agents.muzero_network": ("MuZeroNetwork", "PolicyNetwork", "Support"),
    "triskele.reinforce.agents.networks": (
        "Convolutions",
        "Dueling",
        "Features",
        "Logits",
        "PolicyValue",
        "Sighted",
        "Tower",
    ),
    "triskele.reinforce.agents.ppo": ("ActorCritic",),
    "triskele.reinforce.agents.sac": ("Critic", "Model", "Moments"),
    "triskele.reinforce.mcts.policies.gumbel": ("Gumbel",),
    "triskele.reinforce.mcts.policies.muzero_puct": ("MuZeroPUCT",),
    "triskele.reinforce.mcts.policies.puct": ("PUCT",),
    "triskele.reinforce.mcts.policies.uct": ("UCT",),
    "triskele.reinforce.policy": (
        "Bytes",
        "Categorical",
        "Flat",
        "Gaussian",
        "Greedy",
        "MultiCategorical",
        "Normalizer",
        "Policy",
        "SquashedGaussian",
    ),
    "triskele.reinforce.training.episodes": ("Episodes",),
    "triskele.reinforce.training.normalize": ("ReturnScale", "RunningMoments"),
}
_FUNCTIONS = {"triskele.core.nn.functional": ("gelu", "log_softmax", "relu", "sigmoid", "silu", "softmax", "softplus")}
# modules whose ufuncs may be activations: they compute on arrays, and do nothing else
_UFUNCS = ("numpy", "scipy.special")


def write(path: str | os.PathLike, kind: str, value: Any) -> None:
    """Write a tree to a file of this kind; a process that is killed meanwhile leaves the old file or the new one.

    Trees hold None, bool, int, float, str, arrays (records too), dict with str keys, list, tuple, namedtuple, dataclass
    and functions that can be imported by name; TypeError is raised for other values.
    """
    arrays: dict[str, np.ndarray] = {}
    archive.write(path, kind, _VERSION, pack(value, arrays), arrays)


def read(path: str | os.PathLike, kind: str, known: Sequence[Any] = ()) -> Any:
    """Return the tree that `write` put into a file; raise CheckpointError if the file is damaged, of another kind or
    release, or names something that it may not: dataclasses, namedtuples and functions but those of this suite and
    `known`.
    """
    value, arrays = archive.read(path, kind, (1, _VERSION), CheckpointError)
    where = f"{kind} {os.fspath(path)!r}"
    try:
        return unpack(value, arrays, known)
    except FloatingPointError as error:
        raise FloatingPointError(f"{where}: {error}") from error
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        OverflowError,
        SyntaxError,
        RecursionError,
        MemoryError,
    ) as error:
        raise CheckpointError(f"{where}: {error}") from error


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
        return {
            "class": _name(type(value)),
            "fields": {k: pack(v, arrays) for k, v in zip(value._fields, value, strict=True)},
        }
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [pack(v, arrays) for v in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: pack(getattr(value, f.name), arrays) for f in dataclasses.fields(value) if f.init}
        return {"class": _name(type(value)), "fields": fields}
    if callable(value):
        return {"function": _name(value)}
    raise TypeError(
        f"storage: a file holds numbers, arrays, trees and functions with names, got "
        f"{type(value).__name__} {value!r:.80}"
    )


def same(a: Any, b: Any) -> bool:
    """Return True if a file would hold two values alike."""
    first: dict[str, np.ndarray] = {}
    second: dict[str, np.ndarray] = {}
    try:
        return pack(a, first) == pack(b, second) and all(
            x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(first.values(), second.values(), strict=True)
        )
    except TypeError:
        return False


def named(value: Any) -> list[Any]:
    """The classes and functions in a tree that a file of it names."""
    if isinstance(value, dict):
        return [x for v in value.values() for x in named(v)]
    if isinstance(value, (list, tuple)):
        own = [type(value)] if hasattr(value, "_fields") else []
        return own + [x for v in value for x in named(v)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [getattr(value, f.name) for f in dataclasses.fields(value) if f.init]
        return [type(value), *(x for v in fields for x in named(v))]
    return [value] if callable(value) and not isinstance(value, np.generic) else []


def unpack(packed: Any, arrays: dict[str, np.ndarray], known: Sequence[Any] = ()) -> Any:
    """The tree that `pack` described; each array is taken out of `arrays`, once. See `read` for `known`."""
    own = {_name(thing): thing for thing in known}

    def tree(packed):
        if not isinstance(packed, dict):
            if packed is None or isinstance(packed, (bool, int, float, str)):
                return packed
            raise TypeError(f"a value must be a number, a string or a description, got {type(packed).__name__}")
        body: Any
        kind, body = next(iter(packed.items()), ("nothing", None))
        if kind == "number":
            dtype = np.dtype(packed["dtype"])
            if dtype.kind not in "fiub" or not isinstance(body, (bool, int, float)):
                raise TypeError(f"a number must be one, got {body!r:.80} of type {dtype}")
            return dtype.type(body)
        if kind == "array":
            return arrays.pop(body)
        if kind == "records":
            dtype = np.lib.format.descr_to_dtype(ast.literal_eval(packed["dtype"]))
            if dtype.hasobject:
                raise TypeError(f"records must be of numbers, got {dtype}")
            return np.frombuffer(arrays.pop(body).tobytes(), dtype).reshape(packed["shape"]).copy()
        if kind == "dict":
            return {k: tree(v) for k, v in body.items()}
        if kind in ("list", "tuple"):
            return (list if kind == "list" else tuple)(tree(v) for v in body)
        if kind == "function":
            return own[body] if body in own else _function(body)
        if kind != "class":
            raise TypeError(f"a value must be described by its kind, got {kind!r:.80}")
        cls = own[body] if body in own else _listed(body, _CLASSES)
        return cls(**{k: tree(v) for k, v in packed["fields"].items()})

    return tree(packed)


def _function(name):
    """An activation of this suite, or a ufunc: nothing else that a file names."""
    module, _, path = name.partition(":")
    if module in _UFUNCS and isinstance(found := vars(importlib.import_module(module)).get(path), np.ufunc):
        return found
    return _listed(name, _FUNCTIONS)


def _listed(name, listed):
    module, _, path = name.partition(":")
    if path not in listed.get(module, ()):
        raise TypeError(
            f"it names {path!r} of the module {module!r}, which is none of the classes and functions that "
            f"a file may name "
            f"(if it is yours, and you trust the file: known=[{path}])"
        )
    return vars(importlib.import_module(module))[path]


def _name(thing):
    """``module:name``; NumPy's and SciPy's own functions have no module that says where they are."""
    name = getattr(thing, "__qualname__", getattr(thing, "__name__", ""))
    home = getattr(thing, "__module__", None)
    for module in [home, "numpy", "scipy.special"]:
        if module in sys.modules and _follow(sys.modules[module], name) is thing:
            return f"{module}:{name}"
    raise TypeError(
        f"storage: {thing!r:.80} must be a function or class that can be imported by name, so that a file "
        f"can name it "
        "(define it at the top of a module)"
    )


def _follow(module, path):
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
