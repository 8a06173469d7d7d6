"""Trees made larger, and cut down to what lies below one action."""

from __future__ import annotations

import numpy as np

from triskele.core.kernels.njit import inner, kernel
from triskele.reinforce.mcts.tree import EDGES, NODES, PROVEN, Tree, new_tree, row

__all__ = ["grown", "subtrees"]


def grown(tree: Tree, states: np.ndarray, nodes: int, edges: int) -> tuple[Tree, np.ndarray]:
    """Copies of trees and their states with room for so many nodes and edges each."""
    count = len(tree.counts)
    larger, larger_states = new_tree(count, nodes, edges), np.empty((count, nodes), states.dtype)
    for t in range(count):
        used, used_edges = tree.counts[t, NODES], tree.counts[t, EDGES]
        for name in ("stats", "totals", "links", "parents", "values", "rewards"):
            getattr(larger, name)[t, :used] = getattr(tree, name)[t, :used]
        for name in ("children", "actions", "priors"):
            getattr(larger, name)[t, :used_edges] = getattr(tree, name)[t, :used_edges]
        larger_states[t, :used] = states[t, :used]
    larger.counts[:], larger.streams[:] = tree.counts, tree.streams
    return larger, larger_states


def subtrees(tree: Tree, states: np.ndarray, actions: np.ndarray, nodes: int, edges: int) -> tuple[Tree, np.ndarray]:
    """Trees of what lies below one action (or outcome) of each root; empty where that was never visited.

    Parameters
    ----------
    tree, states
        A batch of trees.
    actions : (trees,) int64
    nodes, edges : int
        Room in each of the new trees, enough for what the old ones hold.
    """
    count, bytes_each = len(tree.counts), states.dtype.itemsize
    new, new_states = new_tree(count, nodes, edges), np.empty((count, nodes), states.dtype)
    kept = np.empty(tree.totals.shape[1], np.int32)
    shape = (*states.shape, bytes_each)
    _cut(tree, states.view(np.uint8).reshape(shape), actions, kept, new, new_states.view(np.uint8).reshape((count, nodes, bytes_each)))
    return new, new_states


@kernel(nogil=True)
def _cut(tree, states, actions, kept, new, new_states):
    for t in range(len(actions)):
        root, root_link = -1, tree.links[t, 0]
        for k in range(root_link.first_edge, root_link.first_edge + root_link.num_edges):
            if tree.actions[t, k] == actions[t]:
                root = tree.children[t, k]
        nodes, edges = 0, 0
        if root >= 0 and tree.stats[t, root].visits > 0:
            kept[:root] = -1
            for node in range(root, tree.counts[t, NODES]):  # parents come before their children
                parent = kept[tree.parents[t, node].parent]
                if node != root and parent < 0:
                    kept[node] = -1
                    continue
                kept[node] = nodes
                new.packed[t, nodes], new.totals[t, nodes] = tree.packed[t, node], tree.totals[t, node]
                new.values[t, nodes], new.rewards[t, nodes] = tree.values[t, node], tree.rewards[t, node]
                link, old = new.links[t, nodes], tree.links[t, node]
                link.first_edge, link.num_edges, link.player, link.flags = -1, old.num_edges, old.player, old.flags
                up = new.parents[t, nodes]
                up.parent, up.edge = -1, -1
                if node != root:
                    edge = tree.parents[t, node].edge
                    up.parent = parent
                    up.edge = new.links[t, parent].first_edge + edge - tree.links[t, tree.parents[t, node].parent].first_edge
                    new.children[t, up.edge] = nodes
                new_states[t, nodes] = states[t, node]
                if old.first_edge >= 0:
                    link.first_edge = edges
                    for k in range(old.num_edges):
                        new.children[t, edges + k] = -1
                        new.actions[t, edges + k] = tree.actions[t, old.first_edge + k]
                        new.priors[t, edges + k] = tree.priors[t, old.first_edge + k]
                    edges += old.num_edges
                nodes += 1
            _turn(row(new, t), root_link.player)
        new.counts[t, :] = 0
        new.counts[t, NODES], new.counts[t, EDGES] = nodes, edges


@inner
def _turn(tree, mover):
    """Let the root's sum of values, which is for who moved there, be for who is to move, and let its proven children be selected."""
    link, total = tree.links[0], tree.totals[0]
    turned = link.player >= 0 and link.player != mover
    if turned:
        total = -total if link.flags & PROVEN else np.float64(tree.values[0])
    for k in range(link.first_edge, link.first_edge + link.num_edges):
        child = tree.children[k]
        if child >= 0:
            if turned and not link.flags & PROVEN:
                total += tree.totals[child]
            n = np.int64(tree.stats[child].visits)
            if tree.links[child].flags & PROVEN and tree.totals[child] > -n:
                tree.stats[child].mean = tree.totals[child] / n
    tree.totals[0] = total
    tree.stats[0].mean = total / max(np.int64(tree.stats[0].visits), 1)
