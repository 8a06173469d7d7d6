"""`summary`: the layers of a network as a table."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["summary"]


def summary(network: Any) -> str:
    """Return a table of the layers of a network, with the shapes of their arrays and the number of parameters.

    Parameters
    ----------
    network : tree
        A layer, or any tree of layers and arrays: dataclasses, lists, tuples and dicts.

    Returns
    -------
    str

    Examples
    --------
    >>> from triskele import core
    >>> print(core.nn.summary(core.nn.MLP.init(core.random.key(0), [4, 16, 2])))
    layer     type    arrays                       parameters
    layers.0  Linear  weight (4, 16), bias (16,)           80
    layers.1  Linear  weight (16, 2), bias (2,)            34
    total                                                 114
    """
    rows = [
        (path or "-", kind, ", ".join(f"{name} {shape}" for name, shape, _ in arrays), sum(n for *_, n in arrays))
        for path, kind, arrays in _layers(network, "")
    ]
    texts = [
        ("layer", "type", "arrays", "parameters"),
        *[(*row[:3], f"{row[3]:,}") for row in rows],
        ("total", "", "", f"{sum(row[3] for row in rows):,}"),
    ]
    widths = [max(len(row[k]) for row in texts) for k in range(4)]
    return "\n".join(
        "  ".join([*(row[k].ljust(widths[k]) for k in range(3)), row[3].rjust(widths[3])]) for row in texts
    )


def _layers(value: Any, path: str) -> Iterator[tuple[str, str, list[tuple[str, tuple[int, ...], int]]]]:
    """(path, type, [(name, shape, size)]) of everything that holds arrays itself."""
    children = _children(value)
    arrays = [(name, np.shape(child), int(np.size(child))) for name, child in children if hasattr(child, "shape")]
    if arrays:
        yield path, type(value).__name__, arrays
    for name, child in children:
        if not hasattr(child, "shape"):
            yield from _layers(child, f"{path}.{name}" if path else name)


def _children(value: Any) -> list[tuple[str, Any]]:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    if isinstance(value, dict):
        return [(str(k), v) for k, v in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, (list, tuple)):
        return [(str(k), v) for k, v in enumerate(value)]
    return []
