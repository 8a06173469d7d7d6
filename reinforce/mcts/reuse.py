"""Trees made larger, and cut down to what lies below one action."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, kernel

from .memory import Memory
from .tree import EDGES, NODES, PROVEN, row

__all__ = ["copy_trees", "keep_subtrees"]


def copy_trees(old: Memory, new: Memory) -> None:
    """Copy trees, positions and goals into a memory with more room in each tree."""
    tree, larger = old.tree, new.tree
    for t in range(len(tree.counts)):
        used, used_edges = tree.counts[t, NODES], tree.counts[t, EDGES]
        for name in ("stats", "totals", "links", "parents", "values", "rewards"):
            getattr(larger, name)[t, :used] = getattr(tree, name)[t, :used]
        for name in ("children", "actions", "priors"):
            getattr(larger, name)[t, :used_edges] = getattr(tree, name)[t, :used_edges]
        new.states[t, : max(used, 1)] = old.states[t, : max(used, 1)]
    larger.counts[:], larger.streams[:] = tree.counts, tree.streams
    new.copy_goals(old)


def keep_subtrees(old: Memory, actions: np.ndarray, new: Memory) -> None:
    """Fill `new`, in which there is room, with what lies below one of `actions` (trees,), or outcomes, of each root of
    `old`: nothing where that was never visited.
    """
    bytes_each = old.game.dtype.itemsize
    kept = np.empty(old.tree.totals.shape[1], np.int32)
    bytes_of = [m.states.view(np.uint8).reshape((*m.states.shape, bytes_each)) for m in (old, new)]
    _cut(old.tree, bytes_of[0], actions, kept, new.tree, bytes_of[1])


@kernel(nogil=True)
def _cut(tree, states, actions, kept, new, new_states):
    for t in range(len(actions)):
        root, root_link = -1, tree.links[t, 0]
        if tree.counts[t, NODES] > 0:
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
                    up.edge = (
                        new.links[t, parent].first_edge + edge - tree.links[t, tree.parents[t, node].parent].first_edge
                    )
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


@device
def _turn(tree, mover):
    """Let the root's sum of values, which is for who moved there, be for who is to move."""
    link, total = tree.links[0], tree.totals[0]
    if link.player >= 0 and link.player != mover:
        if link.flags & PROVEN:
            total = -total
        else:
            total, visits = 0.0, 0
            for k in range(link.first_edge, link.first_edge + link.num_edges):
                child = tree.children[k]
                if child >= 0:
                    total += tree.totals[child]
                    visits += np.int64(tree.stats[child].visits)  # type: ignore[assignment]
            # a simulation may have visited two children (see `solver.select_open`)
            total = tree.values[0] + total * min(1.0, (np.int64(tree.stats[0].visits) - 1) / max(visits, 1))
    tree.totals[0] = total
    tree.stats[0].mean = total / max(np.int64(tree.stats[0].visits), 1)
