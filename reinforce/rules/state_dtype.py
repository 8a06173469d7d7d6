"""The dtype of the records that hold states of games and environments."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

__all__ = ["given", "record_dtype"]


def given(described: Any) -> dict[str, Any]:
    """Return the attributes of a game or environment for `copy` and `pickle`: all but what follows from the others."""
    return {
        k: v
        for k, v in vars(described).items()
        if not isinstance(getattr(type(described), k, None), functools.cached_property)
    }


def record_dtype(name: str, fields: Any, error: type[Exception]) -> np.dtype:
    """Return the aligned dtype of a list of fields; raise `error`, which begins with the `name` of the game or
    environment, where a field is not a number or an array of numbers.
    """
    try:
        dtype = np.dtype(fields, align=True)
    except (TypeError, ValueError) as wrong:
        raise error(f"{name}: state must be a list of fields as for np.dtype, got {fields!r:.80} ({wrong})") from wrong
    if dtype.names is None or dtype.hasobject:
        raise error(
            f"{name}: state must be a record of numbers, such as [('board', np.int8, 9), ('player', np.int8)], "
            f"got {dtype}"
        )
    for field in dtype.names:
        kind = dtype[field].base.kind
        if kind not in "iufcb" or kind == "b" and dtype[field].shape:
            raise error(
                f"{name}: a field of a state must be a number or an array of numbers, got {dtype[field]} for "
                f"{field!r} (arrays of bool: take np.uint8)"
            )
    return dtype
