"""Donated arguments of `jit`: which leaves they are, and that no other argument shares their memory."""

from __future__ import annotations

import operator
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..graph.graph import Spec

__all__ = ["check_separate", "donated_leaves", "donated_positions"]


def donated_positions(donate: int | Sequence[int]) -> tuple[int, ...]:
    """Positions of the donated arguments, in order and each once."""
    given = (donate,) if isinstance(donate, (int, np.integer)) else donate
    try:
        found = sorted({operator.index(k) for k in given})
    except TypeError:
        raise TypeError(f"jit: donate must be positions of arguments, got {donate!r}") from None
    if found and found[0] < 0:
        raise ValueError(f"jit: donate must be positions of arguments, 0 or more, got {donate!r}")
    return tuple(found)


def donated_leaves(
    donate: Sequence[int], positions: Sequence[int], structure: tree.Structure, specs: Sequence[Spec], name: str
) -> list[int]:
    """Return the indices of the leaves that are arrays (not scalars) of donated arguments.

    `positions` and `structure` are those of the arguments that are not static; `name` is the jitted function's.
    """
    wrong = next((k for k in donate if k not in positions), None)
    if wrong is not None:
        raise ValueError(
            f"jit of {name}: donate must be positions of arguments that are arrays, got {wrong} for a "
            f"call with {', '.join(map(str, positions)) or 'none'} (not static ones or keywords)"
        )
    found, start = [], 0
    for k, child in zip(positions, structure.children, strict=True):
        if k in donate:
            found += [i for i in range(start, start + child.size) if specs[i].shape]
        start += child.size
    return found


def check_separate(leaves: Sequence[Any], donated: Collection[int], args: Any, name: str) -> None:
    """Refuse a donated array that shares memory with another leaf. `args` is the tree of `leaves`, for the error."""
    spans = sorted(
        (*np.lib.array_utils.byte_bounds(x), k) for k, x in enumerate(leaves) if isinstance(x, np.ndarray) and x.size
    )
    end, last = 0, -1
    for start, stop, k in spans:
        if start < end and (k in donated or last in donated):
            paths = [path for path, _ in tree.paths(args)]
            both = " and ".join(f"`{paths[i]}`" for i in sorted((last, k)))
            raise ValueError(
                f"jit of {name}: a donated array must not share memory with another argument, got {both} "
                f"(copy one of them)"
            )
        if stop > end:
            end, last = stop, k
