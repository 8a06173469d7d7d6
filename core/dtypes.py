"""Kinds of dtypes: those of NumPy, and bfloat16, which the package ml_dtypes defines."""

from __future__ import annotations

from functools import cache

import numpy as np

__all__ = ["FLOAT32", "is_bfloat16", "is_narrow", "kind_of", "spelled", "widened"]

FLOAT32 = np.dtype(np.float32)


def is_bfloat16(dtype: np.dtype) -> bool:
    """Return True for bfloat16. The package ml_dtypes need not be imported for the question."""
    return dtype.kind == "V" and dtype.type.__name__ == "bfloat16"


@cache
def kind_of(dtype: np.dtype) -> str:
    """Return NumPy's letter for the kind of a dtype, and "f" for bfloat16, whose own letter is "V".

    >>> kind_of(np.dtype(np.int8)), kind_of(np.dtype(np.float16))
    ('i', 'f')
    """
    return "f" if is_bfloat16(dtype) else dtype.kind


@cache
def is_narrow(dtype: np.dtype) -> bool:
    """Return True for float16 and bfloat16, which are stored in 16 bits and computed in float32.

    >>> is_narrow(np.dtype(np.float16)), is_narrow(np.dtype(np.float32))
    (True, False)
    """
    return dtype.itemsize == 2 and kind_of(dtype) == "f"


def widened(dtype: np.dtype) -> np.dtype:
    """Return the dtype of arithmetic on elements of `dtype`: float32 for float16 and bfloat16.

    >>> widened(np.dtype(np.float16)), widened(np.dtype(np.int16))
    (dtype('float32'), dtype('int16'))
    """
    return FLOAT32 if is_narrow(dtype) else dtype


def spelled(dtype: np.dtype) -> str:
    """Return a name that tells dtypes apart: ``dtype.str``, or "bfloat16", which has no letters of its own.

    >>> spelled(np.dtype(np.float32))
    '<f4'
    """
    return dtype.name if is_bfloat16(dtype) else dtype.str
