"""Indices that name entries, such as labels and tokens: at least 0, and not counted from the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import IndexOutOfBoundsError
from ..graph.graph import Source
from ..graph.trace import asked_by, user_source
from ..tensor import Tensor

__all__ = ["check_entries", "pick_entries"]


def check_entries(where: str, indices: Any, n: int) -> None:
    """Raise IndexOutOfBoundsError unless the plain integers `indices` lie in 0 ... n - 1.

    `where` is the beginning of the error: the function and the name of the indices. Tensors are not looked at.
    """
    if isinstance(indices, Tensor):
        return
    indices = np.asarray(indices)
    if indices.dtype.kind in "iu" and np.any(wrong := (indices < 0) | (indices >= n)):
        place = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise IndexOutOfBoundsError(f"{where} must be at least 0 and below {n}, got {indices[place]} at {place}")


def pick_entries(where: str, indices: Any, n: int, pick: Callable[[Any], Any]) -> Any:
    """``pick(indices)`` for indices in 0 ... n - 1; others raise IndexOutOfBoundsError, compiled code when it runs."""
    if not isinstance(indices, Tensor):
        check_entries(where, indices, n)
        return pick(indices)
    source = user_source() or Source("", 0, "")
    if not source.indices:  # of the outermost layer that names them
        source = source._replace(indices=f"{where} must be at least 0 and below {n}, got one that is not")
    with asked_by(source):
        return pick(np.where(np.less(indices, 0), n, indices) if indices.dtype.kind == "i" else indices)
