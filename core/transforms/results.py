"""Results that belong to the caller: each array of a transform's result is writeable and shares memory with nothing else."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core import tree
from triskele.core.tensor import Tensor


def own(leaves: list[Any]) -> list[Any]:
    """The leaves of a result, copied unless this list is all that refers to their memory."""
    return [_own_array(leaves, k) if type(x) is np.ndarray else x._handle() if isinstance(x, Tensor) else x for k, x in enumerate(leaves)]


def own_tensors(*values: Any) -> list[Any]:
    """The values, Tensors as handles that later assignments by their owners leave alone."""
    return [x._handle() if isinstance(x, Tensor) else x for x in values]


def own_tree(t: Any) -> Any:
    """A tree with leaves of its own, anything but arrays as it is."""
    leaves, structure = tree.flatten(t)
    t = None  # which refers to the leaves, too
    return tree.unflatten(structure, own(leaves))


def _own_array(leaves, k):
    if _references(lambda: leaves[k]) > _LISTED or not leaves[k].flags.writeable:
        return leaves[k].copy()
    base = leaves[k].base
    if base is None:
        return leaves[k]
    whole = type(base) is np.ndarray and base.base is None and base.nbytes == leaves[k].nbytes
    del base
    return leaves[k] if whole and _references(lambda: leaves[k].base) <= _VIEWED else leaves[k].copy()


def _references(get: Callable[[], Any]) -> int:
    x = get()
    return sys.getrefcount(x)


def _least():
    arrays = [np.zeros(2), np.zeros(2).reshape(1, 2)]
    return _references(lambda: arrays[0]), _references(lambda: arrays[1].base)


_LISTED, _VIEWED = _least()
