"""One simulation of tree search, in parts: descend to a leaf, value it, back the value up.

These are templates over the functions of a game (`Rules`), of a policy, an evaluator and a backup, together a `search`
(see `functions.SearchFunctions`). All work on one tree (a `Tree` of rows), its states, and a `Work` of one thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from triskele.core.extend import device, template

from ... import random
from ..tree import (
    EDGES,
    ERROR_NODE,
    FREE,
    NODES,
    PROVEN,
    RAN,
    STATUS,
    TERMINAL,
    add_edge,
    add_node,
    link_edges,
)

__all__ = [
    "BAD_PLAYER",
    "BAD_PRIORS",
    "FULL",
    "KNOWN",
    "NEW",
    "NOT_FINITE",
    "NOT_ZERO_SUM",
    "NO_ACTION",
    "RAISED",
    "TOO_LONG",
    "Sizes",
    "Work",
    "descend",
    "draw_outcome",
    "expand",
    "expand_any",
    "expand_with",
    "finish",
    "finite",
    "forget",
    "grow",
    "keep_order",
    "know",
    "new_child",
    "new_root",
    "new_work",
    "run_tree",
    "select_any",
    "shuffle",
    "take_back",
]

# What became of a simulation or a part of it. From FULL on it ended before anything was backed up.
NEW, KNOWN, FULL, NO_ACTION, TOO_LONG, NOT_FINITE, BAD_PRIORS, RAISED, NOT_ZERO_SUM, BAD_PLAYER = range(10)
_LARGEST = 1e30  # of a value, so that sums of them in float32 are finite


class Work(NamedTuple):
    """Working memory of a thread."""

    path: np.ndarray  # (longest + 1,) int64, nodes from the root to the leaf
    movers: np.ndarray  # (longest + 1,) int64, who moved into each of them (at the root: who is to move)
    counted: np.ndarray  # (longest + 1,) int64, proven children that were visited besides, see `solver.select_open`
    mask: np.ndarray  # (actions,) bool
    probabilities: np.ndarray  # (outcomes,) float64
    values: np.ndarray  # (players,) float64
    outcome: np.ndarray  # (players,) float64
    priors: np.ndarray  # (actions,) float32
    scratch: np.ndarray  # (1,) states


class Sizes(NamedTuple):
    """Lengths of the arrays of `Work`; `longest` bounds the nodes of a path."""

    longest: int
    actions: int
    outcomes: int
    players: int


@device
def new_work(sizes, dtype):
    """A `Work`, for states of this dtype."""
    longest, actions, outcomes, players = sizes
    return Work(
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
        np.empty(actions, np.bool_),
        np.empty(outcomes, np.float64),
        np.empty(players, np.float64),
        np.empty(players, np.float64),
        np.empty(actions, np.float32),
        np.empty(1, dtype),
    )


@device
def keep_order(tree, node):
    """Leave the edges of a node in the order of their actions."""


@device
def shuffle(tree, node):
    """Put the edges of a node, none of which has been taken, into random order: then the first of equals is any of
    them.
    """
    link = tree.links[node]
    first = link.first_edge
    for k in range(link.num_edges - 1, 0, -1):
        a, b = first + k, first + random.below(tree.streams, k + 1)
        tree.actions[a], tree.actions[b] = tree.actions[b], tree.actions[a]
        tree.priors[a], tree.priors[b] = tree.priors[b], tree.priors[a]


@template
def expand(rules, order, tree, states, node, work):
    """Make the edges of a node where a player is to move, all of the same prior; `order(tree, node)` comes last.

    A status.
    """
    actions, first = len(work.mask), tree.counts[EDGES]
    if first + actions > len(tree.children):
        return FULL
    rules.legal_actions(states[node], work.mask)
    edge = first
    for a in range(actions):
        tree.actions[edge] = a  # written over by the next one where it is not legal
        edge += work.mask[a]
    if edge == first:
        return NO_ACTION
    prior = np.float32(1.0 / (edge - first))
    for k in range(first, edge):
        tree.children[k], tree.priors[k] = FREE, prior
    link_edges(tree, node, edge)
    order(tree, node)
    return NEW


@template
def expand_any(rules, order, tree, states, node, work):
    """`expand` for games with chance: there, an edge for each outcome that can happen."""
    if tree.links[node].player >= 0:
        return expand(rules, order, tree, states, node, work)
    outcomes = len(work.probabilities)
    if tree.counts[EDGES] + outcomes > len(tree.children):
        return FULL
    rules.chance(states[node], work.probabilities)
    total = 0.0
    for a in range(outcomes):
        if work.probabilities[a] > 0.0:
            add_edge(tree, node, a, np.float32(work.probabilities[a]))
            total += work.probabilities[a]
    return NEW if abs(total - 1.0) < 1e-6 else NO_ACTION


@template
def expand_with(rules, order, tree, states, node, work):
    """Make the edges of a node with priors in proportion to `work.priors`; a status."""
    actions, first = len(work.mask), tree.counts[EDGES]
    if first + actions > len(tree.children):
        return FULL
    rules.legal_actions(states[node], work.mask)
    edge, total, good = first, 0.0, True
    for a in range(actions):
        prior = work.priors[a]
        tree.actions[edge], tree.priors[edge] = a, prior
        if work.mask[a]:
            good &= 0.0 <= prior <= _LARGEST
            total += prior
            edge += 1
    if not good:
        return BAD_PRIORS
    if edge == first:
        return NO_ACTION
    # where all are 0, they say nothing
    scale, base = (1.0 / total, 0.0) if total > 0.0 else (0.0, 1.0 / (edge - first))
    for k in range(first, edge):
        tree.children[k], tree.priors[k] = FREE, np.float32(tree.priors[k] * scale + base)
    link_edges(tree, node, edge)
    order(tree, node)
    return NEW


@template
def select_any(select, draw, tree, node, parameters, stream):
    """`select` where a player moves, `draw(tree, node, stream)` at chance."""
    if tree.links[node].player < 0:
        return draw(tree, node, stream)
    return select(tree, node, parameters, stream)


@device
def draw_outcome(tree, node, stream):
    """An outcome of chance, by its probability."""
    link = tree.links[node]
    edge, u = np.int64(link.first_edge), random.uniform(stream)
    last = edge + link.num_edges - 1
    while edge < last:
        u -= tree.priors[edge]
        if u < 0.0:
            break
        edge += 1
    return edge


@template
def new_root(rules, tree, states):
    """The root of an empty tree, whose state is in states[0]."""
    return add_node(tree, FREE, FREE, rules.player(states[0]), 0)


@template
def new_child(rules, tree, states, node, edge, work):
    """The node that a free edge leads to, or FREE where the rules name a player who does not exist.

    There must be room.
    """
    number = tree.counts[NODES]
    states[number] = states[node]
    rules.step(states[number], tree.actions[edge])
    if rules.terminal(states[number]):
        return add_node(tree, node, edge, 0, TERMINAL)
    player = np.int64(rules.player(states[number]))
    if player >= len(work.values) or player < (-1 if len(work.probabilities) > 0 else 0):
        return FREE
    return add_node(tree, node, edge, player, 0)


@device
def grow(search, tree, states, node, work):
    """Make the edges of a node; a status."""
    return search.expand(search.rules, search.order, tree, states, node, work)


@template
def descend(search, tree, states, parameters, work):
    """Go from the root to a node that has not been valued (NEW) or is terminal or proven (KNOWN), making it where it is
    not there.

    Nodes of chance are passed through. Returns the depth of the node, work.path[depth], and a status.
    """
    node, depth, mover = np.int64(0), 0, np.int64(tree.links[0].player)
    work.path[0], work.movers[0] = 0, mover
    while True:
        link = tree.links[node]
        if link.flags != 0:
            return depth, KNOWN
        if link.first_edge < 0:
            status = grow(search, tree, states, node, work)
            if status != NEW:
                return depth, status
        if depth + 1 == len(work.path):
            return depth, TOO_LONG
        edge = search.select(tree, node, parameters, work, depth)
        if link.player >= 0:
            mover = np.int64(link.player)
        child = np.int64(tree.children[edge])
        made = child < 0
        if made:
            if tree.counts[NODES] == len(tree.totals) or tree.counts[EDGES] + len(work.mask) > len(tree.children):
                return depth, FULL
            child = np.int64(new_child(search.rules, tree, states, node, edge, work))
            if child < 0:
                return depth, BAD_PLAYER
        depth += 1
        work.path[depth], work.movers[depth] = child, mover
        node = child
        if made:
            link = tree.links[node]
            if link.flags != 0:
                return depth, KNOWN
            if link.player >= 0:
                return depth, NEW


@template
def know(rules, tree, states, node, mover, values):
    """Values of a terminal or proven node for all players; NaN where the rules leave them unwritten."""
    if tree.links[node].flags & TERMINAL:
        forget(values)
        rules.returns(states[node], values)
    else:  # of one player, or of two whose values sum to 0
        value = tree.totals[node] / tree.stats[node].visits
        for p in range(len(values)):
            values[p] = value if p == mover else -value


@device
def forget(values):
    """Fill values with NaN, so that those that a user's function leaves unwritten are not taken for what stood there
    before.
    """
    for p in range(len(values)):
        values[p] = np.nan


@device
def finite(values):
    """Return True if all values are finite and of a sensible size."""
    for p in range(len(values)):
        if not abs(values[p]) <= _LARGEST:
            return False
    return True


@template
def finish(search, tree, states, depth, known, work):
    """Visit every node of the path, each with the value of who moved there; a status."""
    if not finite(work.values):
        return NOT_FINITE
    for d in range(depth, -1, -1):
        node = work.path[d]
        visits = np.int64(tree.stats[node].visits) + 1
        total = search.update(tree.totals[node], visits, work.values[work.movers[d]])
        tree.totals[node] = total
        mean = np.float32(total / visits).view(np.int32)
        tree.packed[node] = visits | np.int64(mean) << 32  # one write, which the next gather need not wait for
    return NEW


@device
def take_back(tree, node, nodes, edges):
    """Undo the changes of a simulation that has reached `node`; the counts of nodes and edges before it are given."""
    while node >= 0:
        link, up = tree.links[node], tree.parents[node]
        if link.first_edge >= edges:
            link.first_edge, link.num_edges = FREE, 0
        if node >= nodes:
            tree.children[up.edge] = FREE
        node = up.parent
    tree.counts[NODES], tree.counts[EDGES] = nodes, edges


@template
def run_tree(simulate, search, tree, states, parameters, work, budget):
    """Simulations until `budget` have been run since the tree was begun, or the root is proven, or one fails."""
    tree.counts[STATUS] = NEW
    while tree.counts[RAN] < budget and not tree.links[0].flags & PROVEN:
        before, nodes, edges = tree.streams[0], tree.counts[NODES], tree.counts[EDGES]
        try:
            status = simulate(search, tree, states, parameters, work)
        except Exception:  # noqa: BLE001  the status says so, and the search raises it
            status = RAISED
        if status >= FULL:
            tree.counts[STATUS] = status
            if status == FULL:  # when there is room the simulation is run again, as if for the first time
                take_back(tree, tree.counts[ERROR_NODE], nodes, edges)
                tree.streams[0] = before
            break
        tree.counts[RAN] += 1
