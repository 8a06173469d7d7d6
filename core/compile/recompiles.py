"""How the arguments of a compilation under `jit` differ from those before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..graph.graph import Spec

__all__ = ["difference"]

Key = tuple[Any, tuple[Any, ...], tuple[Any, ...]]  # tree, static arguments, and shape and dtype of each leaf


def difference(key: Key, history: Sequence[tuple[Key, str]]) -> str:
    """Describe the difference between `key` and the nearest earlier one."""
    if not history:
        return "first call"
    best = None
    for old, _ in history:
        found = []
        if old[0] != key[0]:
            found.append(f"tree {old[0]} became {key[0]}")
        if old[1] != key[1]:
            found.append(f"static arguments {dict(old[1])} became {dict(key[1])}")
        if old[0] == key[0]:
            found += [
                f"leaf {k}: {_show(a)} became {_show(b)}"
                for k, (a, b) in enumerate(zip(old[2], key[2], strict=True))
                if a != b
            ]
        if best is None or len(found) <= len(best):
            best = found
    return "; ".join(best) or "the function was traced under another transform"


def _show(leaf):
    if isinstance(leaf, type):
        return f"Python {leaf.__name__}"
    return str(leaf if isinstance(leaf, Spec) else Spec(*leaf))
