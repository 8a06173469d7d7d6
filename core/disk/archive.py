"""Checkpoint files: a description and arrays, atomic, durable and checksummed, with the kind and version of the file.

The file is one of `save`: a JSON text that says what the file is, and the arrays by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any

import numpy as np

from .save import load, save

__all__ = ["read", "write"]


def write(path: str | os.PathLike, kind: str, version: int, value: Any, arrays: dict[str, np.ndarray]) -> None:
    """Write a description and arrays. If the process is killed, the file is either the old or the new one.

    Parameters
    ----------
    path : path-like
    kind : str
        Kind of file. `read` checks it.
    version : int
        Version of the description's form.
    value : JSON-like
        Description: None, bool, int, float, str, and lists and dictionaries of these.
    arrays : dict of str to array

    Raises
    ------
    OSError
        If the disk is full or the path cannot be written; an existing file stays untouched.
    """
    text = json.dumps({"kind": kind, "version": version, "value": value}).encode()
    save(path, {"text": np.frombuffer(text, np.uint8), "arrays": arrays})


def read(path: str | os.PathLike, kind: str, versions: Collection[int],
         error: type[Exception]) -> tuple[Any, dict[str, np.ndarray]]:
    """Read the description and the arrays of a file written by `write`.

    Parameters
    ----------
    path : path-like
    kind : str
        Kind of file that is expected.
    versions : collection of int
        Versions that can be read.
    error : type of exception
        Raised for a file that is damaged, of another kind or of another version.

    Returns
    -------
    value, arrays

    Raises
    ------
    FileNotFoundError
    error
    """
    path = os.fspath(path)
    where = f"{kind} {path!r}"
    if not os.path.exists(path):
        raise FileNotFoundError(f"{where}: no such file")
    try:
        found = load(path)
        arrays, head = found["arrays"], json.loads(found["text"].tobytes())
        value, version, is_kind = head["value"], head["version"], head["kind"]
        if not all(isinstance(a, np.ndarray) for a in arrays.values()):
            raise TypeError("the arrays must be arrays")
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError, MemoryError) as reason:
        raise error(f"{where}: must be a {kind} file, got another or a damaged one ({reason})") from reason
    if is_kind != kind:
        raise error(f"{where}: must be a {kind}, got a {is_kind}")
    if version not in versions:
        raise error(f"{where}: version must be {' or '.join(map(str, versions))}, got {version} (written by another "
                    f"release)")
    return value, arrays
