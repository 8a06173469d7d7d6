"""Constants that live where a traced value lives: the beginning of arrays that are assigned into."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..graph.graph import spec_of
from ..graph.trace import GraphTensor, bind
from ..tensor import Tensor
from .shape import broadcast_p

__all__ = ["constant_like", "zeros_of"]


def constant_like(t: Any, value: Any, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    """An array filled with `value`, traced like `t` (a plain ndarray when `t` is plain).

    In a graph it is a stretched scalar, which costs the compiled program no memory.
    """
    if isinstance(t, GraphTensor):
        scalar = t._trace.lift(np.asarray(value, dtype)[()])
        return bind(broadcast_p, scalar, shape=shape) if shape else scalar
    if isinstance(t, Tensor):
        return t._trace.lift(constant_like(t.value, value, shape, dtype))
    return np.full(shape, value, dtype)


def zeros_of(x: Any) -> Any:
    """Zeros of the shape and dtype of `x`, traced like it."""
    return constant_like(x, 0, np.shape(x), spec_of(x).dtype)
