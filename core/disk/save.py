"""Trees of arrays on disk, in the safetensors format: no code in the file, a checksum over all of it.

Leaves are stored under their path in the tree (``layers.0.weight``); the structure of dictionaries, lists, tuples and
None travels in the metadata. Dataclasses and namedtuples come back by `like`.
"""

from __future__ import annotations

import json
import os
from typing import Any, TypeVar, overload

import numpy as np

from .. import check, tree
from ..dtypes import kind_of
from ..errors import FileFormatError, TreeError
from . import safetensors

__all__ = ["load", "save"]

_TREE = "triskele.tree"

T = TypeVar("T")


def save(path: str | os.PathLike[str], value: Any) -> None:
    """Write a tree of arrays and numbers, atomically: a killed process leaves the old file or the new one.

    Parameters
    ----------
    path : path-like
        Usually ends in ``.safetensors``.
    value : tree
        Dictionaries need string keys.

    Raises
    ------
    TypeError
        If a leaf is not an array or number of a type that the format supports, or a key is not a string.
    OSError
        If the disk is full or the path cannot be written; an existing file stays untouched.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from triskele import core
    >>> path = os.path.join(tempfile.mkdtemp(), "params.safetensors")
    >>> core.save(path, {"w": np.ones(2), "b": 0.5})
    >>> core.load(path)
    {'b': 0.5, 'w': array([1., 1.])}
    """
    arrays: dict[str, np.ndarray] = {}
    description = _walk(value, "", arrays)
    safetensors.write(path, arrays, {_TREE: json.dumps(description)})


def _walk(value, path, arrays):
    """JSON description of the tree; arrays are put into `arrays` by path."""
    if value is None:
        return None
    inner = tree.inner(value)
    if inner is None:
        if isinstance(value, (bool, int, float)):
            return {"number": value}
        array = np.asarray(value)
        if kind_of(array.dtype) not in "fiubc":
            raise TypeError(f"save: leaf {path or 'root'} must be an array or a number, got {type(value).__name__}")
        name = path or "root"
        while name in arrays or name == "__metadata__":  # two paths can read the same: "a.b", and "b" in "a"
            name += "'"
        if array.dtype.kind == "c":  # the format has no complex numbers: real and imaginary part become a last axis
            arrays[name] = np.ascontiguousarray(array).view(array.real.dtype).reshape(*array.shape, 2)
            return {"complex": name}
        arrays[name] = array
        return {"array": name}
    kind, keys, children = inner
    if kind is dict and not all(isinstance(k, str) for k in keys):
        raise TypeError(f"save: dictionary keys must be strings, got {list(keys)} at {path or 'root'}")
    described = [_walk(c, f"{path}.{k}" if path else str(k), arrays) for k, c in zip(keys, children, strict=True)]
    found = {"kind": kind.__name__, "keys": [str(k) for k in keys], "children": described}
    names = getattr(value, "parameter_names", None)  # of a layer whose angles mean nothing in another circuit
    return found if names is None else found | {"names": list(names)}


@overload
def load(path: str | os.PathLike[str], like: None = None) -> Any: ...
@overload
def load(path: str | os.PathLike[str], like: T) -> T: ...
def load(path: str | os.PathLike[str], like: Any = None) -> Any:
    """Read a tree written by `save`, or the arrays of another program's safetensors file as a dictionary.

    The checksum that `save` writes is verified. Files of version 0.5 and of other programs have none, and are read
    without it.

    Parameters
    ----------
    path : path-like
    like : tree, optional
        A tree of the same structure, whose classes (dataclasses, namedtuples) are then used; shapes and dtypes of its
        leaves must agree with the file's.

    Raises
    ------
    FileNotFoundError
    FileFormatError
        If the file is damaged, cut off or of another kind.
    TreeError
        If the file's structure is not that of `like`.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from triskele import core
    >>> path = os.path.join(tempfile.mkdtemp(), "params.safetensors")
    >>> core.save(path, {"w": np.ones(2), "b": 0.5})
    >>> core.load(path)
    {'b': 0.5, 'w': array([1., 1.])}
    """
    arrays, metadata = safetensors.read(path)
    where = f"load: {os.fsdecode(path)!r}"
    if _TREE not in metadata and safetensors.CHECKSUM not in metadata:
        values, found = list(arrays.values()), arrays
    else:
        if not {_TREE} <= set(metadata) <= {_TREE, safetensors.CHECKSUM}:
            raise FileFormatError(
                f"{where}: must describe a tree, got metadata {sorted(metadata)} (the file is damaged)"
            )
        values = []
        try:
            found = _read(json.loads(metadata[_TREE]), arrays, values)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError) as error:
            raise FileFormatError(
                f"{where}: the description of the tree does not fit the arrays: {type(error).__name__} {error}"
            ) from error
        if arrays:
            raise FileFormatError(f"{where}: the description of the tree lacks the arrays {list(arrays)}")
    if like is None:
        return found
    leaves, structure = tree.flatten(like)
    if len(values) != len(leaves):
        raise TreeError(f"{where} has {len(values)} leaves, `like` has {len(leaves)}: {structure}")
    if _TREE in metadata:
        _compare(json.loads(metadata[_TREE]), like, "", where)
    for v, x in zip(values, leaves, strict=True):
        if np.shape(v) != np.shape(x) or np.result_type(v) != np.result_type(x):
            raise TreeError(
                f"{where}: a leaf of the file has shape {np.shape(v)} {np.result_type(v)}, `like` has "
                f"{np.shape(x)} {np.result_type(x)}"
            )
    return tree.unflatten(structure, values)


def _compare(d, like, path, where):
    """Raise TreeError if a node of description `d` has other children than that of `like`, or other parameters."""
    here, told = tree.inner(like), d or {}
    keys, names = here and [str(k) for k in here[1]], getattr(like, "parameter_names", None)
    found = {"keys": (told.get("keys"), keys)}
    if names is not None and "names" in told:
        found["parameters"] = told["names"], list(names)
    for what, (theirs, ours) in found.items():
        if theirs != ours:
            raise TreeError(
                f"{where}: {path or 'the root'} has the {what} {theirs!s:.200}, that of `like` {ours!s:.200}"
            )
    for key, child, x in zip(keys, d["children"], here[2], strict=False) if here else ():
        _compare(child, x, f"{path}.{key}" if path else key, where)


def _read(d, arrays, leaves):
    """The tree of description `d`, which takes each array once; its leaves are also appended to `leaves`, in their
    order.
    """
    if d is None:
        return None
    if "kind" not in d:
        if "number" in d:
            leaf = check.kind(d["number"], (bool, int, float), "the value of a number", "a number")
        elif "array" in d:
            leaf = arrays.pop(d["array"])
        else:
            pairs = arrays.pop(d["complex"])
            if pairs.dtype not in (np.float32, np.float64) or pairs.shape[-1:] != (2,):
                raise ValueError(f"complex numbers must be pairs of floats, got {pairs.dtype} {pairs.shape}")
            leaf = pairs.view(np.result_type(pairs, np.complex64))[..., 0]
        leaves.append(leaf)
        return leaf
    check.kind(d["children"], list, "children")
    children = [_read(c, arrays, leaves) for c in d["children"]]
    if d["kind"] == "list":
        return children
    if d["kind"] == "tuple":
        return tuple(children)
    if not isinstance(d["keys"], list) or len(set(d["keys"])) != len(children):
        raise ValueError(f"the {len(children)} children of a dictionary must have as many keys")
    return dict(zip(d["keys"], children, strict=True))
