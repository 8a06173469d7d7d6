"""Cotangents of reads: a few elements of a large array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import Tensor
from .constant import constant_like

__all__ = ["Sparse"]


class Sparse:
    """A cotangent of given `shape` and `dtype` that is zero but for a few places.

    A thousand reads of one array give a thousand of these; adding them to one array costs what they touch, where a
    thousand dense cotangents would cost a thousand times the array.
    """

    __slots__ = ("shape", "dtype", "parts", "_add", "_add_in_place")

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype,
        parts: tuple[Any, ...],  # arrays and Tensors: values to add and, where they are data, their positions
        add: Callable,  # add(dense, *parts) -> the sum, as operations
        add_in_place: Callable,  # add_in_place(array, *parts): the same into an ndarray without other references
    ):
        self.shape, self.dtype, self.parts, self._add, self._add_in_place = shape, dtype, parts, add, add_in_place

    def add_to(self, dense: Any, owned: bool) -> Any:
        """``dense + self`` (`dense` None: zero); an `owned` ndarray is changed in place."""
        traced = next((p for p in self.parts if isinstance(p, Tensor)), None)
        if dense is None:
            dense, owned = constant_like(traced, 0, self.shape, self.dtype), True
        if owned and traced is None and type(dense) is np.ndarray:
            self._add_in_place(dense, *self.parts)
            return dense
        return self._add(dense, *self.parts)
