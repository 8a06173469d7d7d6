"""The compiled parts of searches in which Python plays and values: what happens in a tree between two calls of Python.

The context of a kernel holds one set of arrays for all trees, since only one of them is worked on at a time.
"""

import numpy as np
from numba import carray

from triskele.core.extend import device, kernel, template

from ... import random
from ..context import FIRST_FREE, NODE_CAPACITY, at, tree_at
from ..tree import PROVEN, TERMINAL, add_node
from .noise import add_noise
from .simulation import KNOWN, NEW, Work, expand_with, take_back

__all__ = [
    "CHANCE",
    "PLAIN",
    "WITH_PRIORS",
    "attach",
    "descend",
    "draw",
    "finish",
    "given_chances",
    "grow",
    "noise",
    "start",
    "undo",
    "written",
]

CHANCE, PLAIN, WITH_PRIORS = range(3)  # what the edges of a node are made of
# places in the context, from FIRST_FREE on: arrays, and the lengths of some
_PARAMETERS, _MASK, _PROBABILITIES, _PRIORS, _VALUES, _PATH, _MOVERS, _COUNTED, _ACTIONS, _OUTCOMES, _PLAYERS = range(
    FIRST_FREE, FIRST_FREE + 11
)


@device
def written(state, out):
    """The rule of a game that has written its mask or its probabilities already."""


@template
def given_chances(rules, exact, work, d):
    """Probabilities of the chance node path[d], which Python has given."""
    for k in range(len(work.probabilities)):
        work.probabilities[k] = exact[d, k]


@device
def _parts(w, t):
    """Tree number `t`, the parameters of the policy, and the `Work` of all trees."""
    longest, actions, outcomes, players = w[NODE_CAPACITY] + 2, w[_ACTIONS], w[_OUTCOMES], w[_PLAYERS]
    path, values = carray(at(w[_PATH]), (longest,), np.int64), carray(at(w[_VALUES]), (players,), np.float64)
    work = Work(
        path,
        carray(at(w[_MOVERS]), (longest,), np.int64),
        carray(at(w[_COUNTED]), (longest,), np.int64),
        carray(at(w[_MASK]), (actions,), np.bool_),
        carray(at(w[_PROBABILITIES]), (outcomes,), np.float64),
        values,
        values,
        carray(at(w[_PRIORS]), (actions,), np.float32),
        path,
    )
    return tree_at(w, t), carray(at(w[_PARAMETERS]), (16,), np.float64), work


@kernel
def start(context, t, seed, number):
    """Start the random stream of a tree."""
    random.start(tree_at(context, t).streams, seed, number, 0)


@kernel
def draw(context, t):
    """64 random bits of a tree's stream."""
    return random.bits(tree_at(context, t).streams)


@kernel
def noise(context, t, alpha, fraction):
    """Mix Dirichlet noise into the priors of a root."""
    tree, _, work = _parts(context, t)
    add_noise(tree, alpha, fraction, work.priors)


@kernel
def attach(context, t, depth, edge, player, flags):
    """A node below path[depth], or the root; the depth of the new node. There must be room."""
    tree, _, work = _parts(context, t)
    if depth < 0:
        work.path[0] = add_node(tree, -1, -1, player, flags)
        return depth + 1
    node = work.path[depth]
    mover = tree.links[node].player
    work.movers[depth + 1] = mover if mover >= 0 else work.movers[depth]
    work.path[depth + 1] = add_node(tree, node, edge, player, flags)
    return depth + 1


@kernel
def undo(context, t, node, nodes, edges):
    """See `simulation.take_back`."""
    take_back(tree_at(context, t), node, nodes, edges)


@template
def descend(search, context, t, depth):
    """From path[depth] down to a node without edges, a free edge, or what is known.

    Returns the depth of the node, the edge or -1, and a status.
    """
    tree, parameters, work = _parts(context, t)
    while True:
        node = work.path[depth]
        link = tree.links[node]
        if link.flags != 0:
            return depth, np.int64(-1), KNOWN
        if link.first_edge < 0:
            return depth, np.int64(-1), NEW
        edge = np.int64(search.select(tree, node, parameters, work, depth))
        child = np.int64(tree.children[edge])
        if child < 0:
            return depth, edge, NEW
        work.movers[depth + 1] = link.player if link.player >= 0 else work.movers[depth]
        depth += 1
        work.path[depth] = child


@template
def grow(search, context, t, node, kind):
    """Make the edges of a node of what Python has written; a status."""
    tree, _, work = _parts(context, t)
    if kind == WITH_PRIORS:
        return expand_with(search.rules, search.order, tree, work.scratch, node, work)
    return search.expand(search.rules, search.order, tree, work.scratch, node, work)


@template
def finish(search, context, t, depth, known, exact):
    """Back work.values up; a status. `exact` holds the probabilities of chance nodes on the path."""
    tree, _, work = _parts(context, t)
    node = work.path[depth]
    flags = tree.links[node].flags
    if known and flags & PROVEN and not flags & TERMINAL:
        value = tree.totals[node] / tree.stats[node].visits
        for p in range(len(work.values)):
            work.values[p] = value if p == work.movers[depth] else -value
    return search.finish(search, tree, exact, depth, known, work)
