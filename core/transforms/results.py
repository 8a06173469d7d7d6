"""Results that belong to the caller: each array of a transform's result is writeable and shares memory with nothing
else.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .. import tree
from ..tensor import Tensor

__all__ = ["own", "own_tensors", "own_tree"]


def own(leaves: list[Any]) -> list[Any]:
    """The leaves of a result, in the same list, copied unless this list is all that refers to their memory."""
    for k in range(len(leaves)):
        x = leaves[k]
        if type(x) is np.ndarray:
            if sys.getrefcount(x) > _LISTED or not x.flags.writeable or not (x.base is None or _is_whole(x)):
                leaves[k] = x.copy()
        elif isinstance(x, Tensor):
            leaves[k] = x._handle()
    return leaves


def own_tensors(*values: Any) -> list[Any]:
    """The values, Tensors as handles that later assignments by their owners leave alone."""
    return [x._handle() if isinstance(x, Tensor) else x for x in values]


def own_tree(t: Any) -> Any:
    """A tree with leaves of its own, anything but arrays as it is."""
    leaves, structure = tree.flatten(t)
    t = None  # which refers to the leaves, too
    return tree.unflatten(structure, own(leaves))


def _is_whole(x):
    """Return True if `x` is a view of all of an array that nothing else refers to."""
    base = x.base
    return (
        type(base) is np.ndarray and base.base is None and base.nbytes == x.nbytes and sys.getrefcount(base) <= _VIEWED
    )


def _least():
    leaves = [np.zeros(2), np.zeros(2).reshape(1, 2)]
    x = leaves[0]
    base = leaves[1].base
    return sys.getrefcount(x), sys.getrefcount(base)


_LISTED, _VIEWED = _least()
