"""Scalars of compiled programs: their types, constants, and affine forms of indices."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ..dtypes import is_bfloat16, is_narrow
from ..kernels.native import has_feature

__all__ = ["BOOL", "I64", "NotEmittable", "Value", "literal", "llvm_type", "real_of", "supported"]

BOOL, I64 = np.dtype(bool), np.dtype(np.int64)
_FLOAT = {4: "float", 8: "double"}
_REAL: dict[int, np.dtype] = {8: np.dtype(np.float32), 16: np.dtype(np.float64)}


class NotEmittable(Exception):
    """This operation on these dtypes has no native code: it is called back."""


def supported(dtype: np.dtype) -> bool:
    """Return True if values of `dtype` can live in native code."""
    if is_narrow(dtype):  # LLVM calls functions of a C library where the processor does not convert float16
        return is_bfloat16(dtype) or has_feature("f16c") or has_feature("neon")
    return (
        dtype.kind in "biu"
        or (dtype.kind == "f" and dtype.itemsize in (4, 8))
        or (dtype.kind == "c" and dtype.itemsize in (8, 16))
    )


def llvm_type(dtype: np.dtype) -> str:
    """Type of a value in registers: bool is i1."""
    kind = dtype.kind
    if kind == "b":
        return "i1"
    if kind in "iu":
        return f"i{8 * dtype.itemsize}"
    if kind == "f":
        return _FLOAT[dtype.itemsize]
    raise NotEmittable(str(dtype))


def real_of(dtype: np.dtype) -> np.dtype:
    """The real dtype that a complex one is a pair of."""
    return _REAL[dtype.itemsize]


def literal(value: Any, dtype: np.dtype) -> str:
    """A constant in LLVM's notation."""
    kind = dtype.kind
    if kind == "b":
        return "true" if value else "false"
    if kind in "iu":
        return str(int(np.array(value).astype(dtype)))
    x = float(dtype.type(value))  # LLVM writes float literals as the double of the same value
    return f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}"


class Value:
    """A scalar in a program under construction."""

    __slots__ = ("name", "dtype", "level", "terms", "offset", "low", "high", "parts", "const")

    def __init__(self, name, dtype, level=0, parts=None, const=None):
        # name: SSA name or literal, None for an affine form that has none yet; level: depth of the deepest loop that
        # it depends on; parts: real and imaginary Value of a complex one; const: Python value of a constant
        self.name, self.dtype, self.level, self.parts, self.const = name, dtype, level, parts, const
        # an index in the affine form sum(coefficient * atom) + offset, from low to high
        self.terms: dict[str, int] | None = None
        self.offset = 0
        self.low: Any = None
        self.high: Any = None

    def __repr__(self):
        return f"<{self.name or self.terms} {self.dtype}>"
