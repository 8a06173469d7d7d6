"""Ways through a search tree."""

from __future__ import annotations

from .tree import Tree

__all__ = ["moves_to"]


def moves_to(tree: Tree, t: int, node: int) -> tuple[int, ...]:
    """Actions and outcomes from the root of tree number `t` to a node."""
    moves = []
    while node > 0:
        up = tree.parents[t, node]
        moves.append(int(tree.actions[t, up["edge"]]))
        node = int(up["parent"])
    return tuple(reversed(moves))
