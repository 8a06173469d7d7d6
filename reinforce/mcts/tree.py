"""Search trees in memory: a struct of arrays, a batch of trees the first axis, one row of each array a tree.

What a selection reads of a node's children is kept small and together (8 bytes a child), so that a tree of 100,000
nodes stays in the second cache. A node takes 40 bytes and 12 for each action that is legal there; its position is kept
in an array beside. Node 0 is the root. A node has edges once it is *expanded*: one for each legal action (or each
possible outcome of chance), in consecutive places. Nodes and edges are handed out in order and are never freed one by
one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from triskele.core.extend import device

from ..errors import SearchError

__all__ = [
    "COUNTS",
    "EDGES",
    "ERROR_NODE",
    "FREE",
    "LINKS",
    "NAN_NODE",
    "NODES",
    "PARENTS",
    "PROVEN",
    "RAN",
    "STATS",
    "STATUS",
    "STREAM",
    "TERMINAL",
    "Tree",
    "add_edge",
    "add_node",
    "check_limits",
    "link_edges",
    "new_tree",
    "reset",
    "row",
]

TERMINAL, PROVEN = 1, 2  # flags of a node
# of an edge that no simulation has taken; of `first_edge` in a node that is not expanded; of the root's parent
FREE = -1
STATS = np.dtype([("visits", np.int32), ("mean", np.float32)], align=True)
LINKS = np.dtype(
    [("first_edge", np.int32), ("num_edges", np.int16), ("player", np.int8), ("flags", np.int8)], align=True
)
PARENTS = np.dtype([("parent", np.int32), ("edge", np.int32)], align=True)
NODES, EDGES, RAN, STATUS, ERROR_NODE, NAN_NODE, COUNTS = 0, 1, 2, 3, 4, 5, 8  # columns of `counts`, and their number
# words of memory for a stream, of which the first is used: threads that wrote to one line of the cache would wait for
# each other
STREAM = 8


def check_limits(where: str, name: str, players: int, actions: int, outcomes: int = 0) -> None:
    """Raise SearchError unless a tree can hold a game: `LINKS` counts players and edges in few bits."""
    for what, count, kind in (("players", players, "i1"), ("actions", actions, "i2"), ("outcomes", outcomes, "i2")):
        if count > np.iinfo(kind).max:
            raise SearchError(
                f"{where}: a search tree holds at most {np.iinfo(kind).max} {what} of a position, {name} has {count}"
            )


class Tree(NamedTuple):
    """Arrays of trees; in kernels, their rows of one tree (see `row`)."""

    # (trees, nodes) STATS: the mean value, rounded from `totals`, is for the player who moved here (at the root: who is
    # to move)
    stats: np.ndarray
    packed: np.ndarray  # (trees, nodes) int64, the memory of `stats`, for gathers
    totals: np.ndarray  # (trees, nodes) float64, sum of the values that were backed up, for the same player
    links: np.ndarray  # (trees, nodes) LINKS: `player` is to move here (or CHANCE); flags are TERMINAL and PROVEN
    parents: np.ndarray  # (trees, nodes) PARENTS: the parent's edge that leads here is a place in `children`
    values: np.ndarray  # (trees, nodes) float32, value from the evaluator, for the player to move here
    rewards: np.ndarray  # (trees, nodes) float32, on the way here; for learned models
    children: np.ndarray  # (trees, edges) int32, the node that an edge leads to, or FREE
    actions: np.ndarray  # (trees, edges) int32, action or outcome of an edge
    priors: np.ndarray  # (trees, edges) float32, priors of actions, or probabilities of outcomes
    # (trees, COUNTS) int64: how many NODES and EDGES are in use, simulations RAN, STATUS and ERROR_NODE of the last
    # search; NAN_NODE is 1 more than the last node where a user's score was NaN
    counts: np.ndarray
    streams: np.ndarray  # (trees, STREAM) uint64, random numbers of each tree, see `reinforce.random`


def new_tree(trees: int, nodes: int, edges: int, make: Callable[..., np.ndarray] = np.empty) -> Tree:
    """Return empty trees with room for that many nodes and edges each; ``make(shape, dtype)`` makes the arrays.

    Memory that is never used is never touched. There is room for eight more `children` behind the last, which may be
    read.
    """
    of_nodes, of_edges = (trees, nodes), (trees, edges)
    stats = make(of_nodes, STATS)
    tree = Tree(
        stats,
        stats.view(np.int64),
        make(of_nodes, np.float64),
        make(of_nodes, LINKS),
        make(of_nodes, PARENTS),
        make(of_nodes, np.float32),
        make(of_nodes, np.float32),
        make(trees * edges + 8, np.int32)[:-8].reshape(of_edges),
        make(of_edges, np.int32),
        make(of_edges, np.float32),
        make((trees, COUNTS), np.int64),
        make((trees, STREAM), np.uint64),
    )
    tree.counts[:], tree.streams[:] = 0, 0
    return tree


@device
def row(tree, t):
    """Tree number `t`: the same tuple, of its rows."""
    return Tree(
        tree.stats[t],
        tree.packed[t],
        tree.totals[t],
        tree.links[t],
        tree.parents[t],
        tree.values[t],
        tree.rewards[t],
        tree.children[t],
        tree.actions[t],
        tree.priors[t],
        tree.counts[t],
        tree.streams[t],
    )


@device
def reset(tree):
    """Forget all nodes of one tree."""
    tree.counts[:] = 0


@device
def add_node(tree, parent, edge, player, flags):
    """Number of a new node of one tree: not visited, not expanded, linked from its parent's edge.

    There must be room.
    """
    node = tree.counts[NODES]
    tree.counts[NODES] = node + 1
    tree.packed[node] = 0  # no visits, mean 0.0
    tree.totals[node] = 0.0
    link, up = tree.links[node], tree.parents[node]
    link.first_edge, link.num_edges, link.player, link.flags = FREE, 0, player, flags
    up.parent, up.edge = parent, edge
    tree.values[node], tree.rewards[node] = 0.0, 0.0
    if edge >= 0:
        tree.children[edge] = node
    return node


@device
def add_edge(tree, node, action, prior):
    """One more edge of a node whose edges are being made (no other node's meanwhile). There must be room."""
    edge = tree.counts[EDGES]
    tree.counts[EDGES] = edge + 1
    link = tree.links[node]
    if link.num_edges == 0:
        link.first_edge = edge
    link.num_edges += 1
    tree.children[edge], tree.actions[edge], tree.priors[edge] = FREE, action, prior
    return edge


@device
def link_edges(tree, node, end):
    """Give a node all edges from the first that was free up to `end`, which have been written."""
    link, first = tree.links[node], tree.counts[EDGES]
    link.first_edge, link.num_edges = first, end - first
    tree.counts[EDGES] = end
