"""Checkpoint files: a description and arrays, atomic, durable and checksummed, with the kind and version of the file.

The file is one of `save`: a JSON text that says what the file is, and the arrays by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from typing import Any

import numpy as np

from .. import check
from .save import load, save

__all__ = ["read", "write"]


def write(path: str | os.PathLike, kind: str, version: int, value: Any, arrays: dict[str, np.ndarray]) -> None:
    """Write a JSON-like `value` and `arrays`, all or nothing, even if the process is killed or the disk is full.

    `read` checks `kind`, the kind of file, and `version`, that of the form of `value`: None, bool, int, float, str, and
    lists and dictionaries of these.
    """
    text = json.dumps({"kind": kind, "version": version, "value": value}).encode()
    save(path, {"text": np.frombuffer(text, np.uint8), "arrays": arrays})


def read(
    path: str | os.PathLike, kind: str, versions: Collection[int], error: type[Exception]
) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the value and the arrays of a file that `write` wrote, of this `kind` and one of these `versions`.

    Raise FileNotFoundError if there is none, and `error` if it is damaged, of another kind or of another version.
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
    check.choice(version, versions, f"{where}: version", error=error, hint="written by another release")
    return value, arrays
