"""Indices of atoms as kernels take them: 32-bit integers, none of which wraps round."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_indices"]

_MOST = np.iinfo(np.int32).max


def as_indices(values: Any, where: str) -> np.ndarray:
    """An array of indices as int32.

    Parameters
    ----------
    values : array_like of int
        Indices of any shape; floats with integral values are accepted, as text files give them.
    where : str
        Begins the error message.

    Returns
    -------
    int32 array

    Raises
    ------
    ValueError
        If a value is not an integer or does not fit into 32 bits.

    Examples
    --------
    >>> as_indices([[0, 1]], "bonds")
    array([[0, 1]], dtype=int32)
    >>> as_indices([2**32 + 1], "bonds")
    Traceback (most recent call last):
    ValueError: bonds: indices must be integers below 2147483648, got 4294967297
    """
    given = np.asarray(values)
    if given.dtype == np.int32 or not given.size:
        return np.ascontiguousarray(given, np.int32)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"{where}: indices must be integers, got {given.dtype} values such as {given.flat[0]!r}")
    bad = (given > _MOST) | (given < -_MOST) | ~np.isfinite(given)
    if given.dtype.kind == "f":
        bad |= given != np.floor(given)
    if bad.any():
        raise ValueError(f"{where}: indices must be integers below {_MOST + 1}, got {given[bad].flat[0]}")
    return np.ascontiguousarray(given, np.int32)
