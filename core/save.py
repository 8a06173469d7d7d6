"""Trees of arrays on disk, in the safetensors format: fast, memory-mapped, no code in the file.

Leaves are stored under their path in the tree (``layers.0.weight``); the structure of dictionaries, lists, tuples and
None travels in the metadata. Dataclasses and namedtuples come back by `like`.
"""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from triskele.core import tree
from triskele.core.errors import TreeError
from triskele.core.files import atomic


def _safetensors():
    try:
        from safetensors import safe_open
        from safetensors.numpy import save as to_bytes
    except ImportError as error:
        raise ImportError("core.save and core.load want the safetensors package (pip install 'triskele[io]')") from error
    return safe_open, to_bytes


def _walk(value, path, arrays):
    """JSON description of the tree; arrays are put into `arrays` by path."""
    if value is None:
        return None
    inner = tree.inner(value)
    if inner is None:
        if isinstance(value, (bool, int, float)):
            return {"number": value}
        array = np.asarray(value)
        if array.dtype.kind not in "fiubc":
            raise TypeError(f"save: leaf {path or 'root'} must be an array or a number, got {type(value).__name__}")
        name = path or "root"
        if array.dtype.kind == "c":  # the format has no complex numbers: real and imaginary part become a last axis
            arrays[name] = np.ascontiguousarray(array).view(array.real.dtype).reshape(*array.shape, 2)
            return {"complex": name}
        arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
        return {"array": name}
    kind, keys, children = inner
    described = [_walk(c, f"{path}.{k}" if path else str(k), arrays) for k, c in zip(keys, children, strict=True)]
    if kind is dict and not all(isinstance(k, str) for k in keys):
        raise TypeError(f"save: dictionary keys must be strings, got {list(keys)} at {path or 'root'}")
    return {"kind": {dict: "dict", list: "list", tuple: "tuple"}.get(kind, kind.__name__), "keys": [str(k) for k in keys], "children": described}


def save(path: str | os.PathLike, value: Any) -> None:
    """Write a tree of arrays and numbers, atomically: a killed process leaves the old file or the new one.

    Parameters
    ----------
    path : path-like
        By custom ending in ``.safetensors``.
    value : tree
        Dictionaries need string keys.
    """
    _, to_bytes = _safetensors()
    arrays: dict[str, np.ndarray] = {}
    description = _walk(value, "", arrays)
    with atomic(path) as file:
        file.write(to_bytes(arrays, metadata={"triskele.tree": json.dumps(description)}))


def load(path: str | os.PathLike, like: Any = None) -> Any:
    """Read a tree written by `save`.

    Parameters
    ----------
    path : path-like
    like : tree, optional
        A tree of the same structure, whose classes (dataclasses, namedtuples) are then used; shapes and dtypes of its
        leaves must agree with the file's.

    Raises
    ------
    TreeError
        If the file's structure is not that of `like`.
    """
    safe_open, _ = _safetensors()
    with safe_open(os.fspath(path), framework="numpy") as file:
        metadata = (file.metadata() or {}).get("triskele.tree")
        if metadata is None:
            names = list(file.keys())
            description: Any = {"kind": "dict", "keys": names, "children": [{"array": n} for n in names]}
        else:
            description = json.loads(metadata)
        values: list[Any] = []
        found = _read(description, file, values)
    if like is None:
        return found
    leaves, structure = tree.flatten(like)
    if len(values) != len(leaves):
        raise TreeError(f"load: {os.fspath(path)} has {len(values)} leaves, `like` has {len(leaves)}: {structure}")
    for v, x in zip(values, leaves, strict=True):
        if np.shape(v) != np.shape(x) or np.result_type(v) != np.result_type(x):
            raise TreeError(f"load: a leaf of the file has shape {np.shape(v)} {np.result_type(v)}, `like` has {np.shape(x)} {np.result_type(x)}")
    return tree.unflatten(structure, values)


def _read(d, file, leaves):
    """The tree of description `d`; its leaves are also appended to `leaves`, in the order in which they were saved."""
    if d is None:
        return None
    if "kind" not in d:
        if "number" in d:
            leaf = d["number"]
        elif "array" in d:
            leaf = file.get_tensor(d["array"])
        else:
            pairs = file.get_tensor(d["complex"])
            leaf = np.ascontiguousarray(pairs).view(np.result_type(pairs, np.complex64))[..., 0]
        leaves.append(leaf)
        return leaf
    children = [_read(c, file, leaves) for c in d["children"]]
    if d["kind"] == "list":
        return children
    if d["kind"] == "tuple":
        return tuple(children)
    return dict(zip(d["keys"], children, strict=True))
