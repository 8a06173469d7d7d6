"""Clipping of gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import check, tree
from ..tensor import Tensor
from .base import in_precision, squared

__all__ = ["clip_by_global_norm", "clip_by_value", "global_norm"]


def clip_by_value(grads: Any, limit: float) -> Any:
    """Cut every entry to [-limit, limit].

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> optim.clip_by_value({'a': np.array([3.0, -0.5])}, 1.0)
    {'a': array([ 1. , -0.5])}
    """
    _check(limit, "clip_by_value")
    return tree.map(lambda g: np.clip(g, -limit, limit), grads)


def global_norm(grads: Any) -> Any:
    """Root of the sum of squares of all entries of a tree.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> float(optim.global_norm({'a': np.array([3.0]), 'b': np.array([4.0])}))
    5.0
    """
    return np.sqrt(sum(np.sum(squared(g)) for g in tree.leaves(grads)))


def clip_by_global_norm(grads: Any, limit: float) -> Any:
    """Scale the whole tree so that its `global_norm` is at most `limit` (Pascanu et al. 2013, algorithm 1).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import optim
    >>> optim.clip_by_global_norm({'a': np.array([3.0, 4.0])}, 1.0)
    {'a': array([0.6, 0.8])}
    """
    _check(limit, "clip_by_global_norm")
    norm = global_norm(grads)
    scale = limit / np.maximum(norm, limit)
    return tree.map(lambda g: g * in_precision(scale, np.result_type(g)), grads)


def _check(limit, where):
    if not isinstance(limit, Tensor):
        check.positive(limit, f"{where}: limit")
