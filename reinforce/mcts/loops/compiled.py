"""A search that is compiled as a whole: `run_trees` is all that its kernel does."""

import numpy as np
from numba import carray

from triskele.core.extend import device, template

from ... import random
from ..context import CHUNKS, FIRST_FREE, NODE_CAPACITY, STATES, TREES, at, tree_at
from ..tree import ERROR_NODE, NODES, STATUS
from .noise import add_noise
from .simulation import (
    FULL,
    KNOWN,
    NEW,
    descend,
    grow,
    know,
    new_root,
    new_work,
    run_tree,
)

__all__ = ["ALPHA", "PARAMETERS", "add_dirichlet", "leave_root", "run_trees", "value_root"]

ALPHA, PARAMETERS = 12, 16  # place of Dirichlet's alpha, after which its fraction comes, and number of parameters


@device
def _value_and_back_up(search, tree, states, node, depth, known, parameters, work):
    if known:
        know(search.rules, tree, states, node, work.movers[depth], work.values)
    else:
        status = search.evaluate(search, tree, states, node, parameters, work)
        if status != NEW:
            return status
        tree.values[node] = work.values[tree.links[node].player]
    return search.finish(search, tree, states, depth, known, work)


@device
def _simulate(search, tree, states, parameters, work):
    depth, status = descend(search, tree, states, parameters, work)
    node = work.path[depth]
    tree.counts[ERROR_NODE] = node
    if status >= FULL:
        return status
    return _value_and_back_up(search, tree, states, node, depth, status == KNOWN, parameters, work)


@template
def value_root(search, tree, states, parameters, work):
    """Value a new root whose evaluator gives priors."""
    work.path[0], work.movers[0] = 0, tree.links[0].player
    return _value_and_back_up(search, tree, states, 0, 0, False, parameters, work)


@template
def add_dirichlet(search, tree, states, parameters, work):
    """Mix Dirichlet noise into the priors of the root."""
    if tree.links[0].first_edge < 0:
        status = grow(search, tree, states, 0, work)
        if status != NEW:
            return status
    add_noise(tree, parameters[ALPHA], parameters[ALPHA + 1], work.priors)
    return NEW


@template
def leave_root(search, tree, states, parameters, work):
    """Neither value the root nor add noise."""
    return NEW


@device
def _start(search, tree, states, begin, parameters, work):
    if tree.counts[NODES] == 0:
        new_root(search.rules, tree, states)
        status = search.value_root(search, tree, states, parameters, work)
        if status != NEW:
            return status
    if begin:
        return search.add_noise(search, tree, states, parameters, work)
    return NEW


@device(_nrt=False)  # no array is made in here: without counted references a simulation takes half the time
def _run_one(search, tree, states, seed, begin, parameters, work, budget):
    if begin:
        random.start(tree.streams, seed[0], seed[1], 0)
    tree.counts[STATUS] = _start(search, tree, states, begin, parameters, work)
    if tree.counts[STATUS] == NEW:
        run_tree(_simulate, search, tree, states, parameters, work, budget)


@template
def run_trees(search, sizes, dtype, context, chunk):
    """Run simulations in the trees of a chunk; `dtype` is that of states."""
    w = carray(context, (32,))
    trees, chunks, nodes = w[TREES], w[CHUNKS], w[NODE_CAPACITY]
    parameters = carray(at(w[FIRST_FREE]), (PARAMETERS,), np.float64)
    budgets = carray(at(w[FIRST_FREE + 1]), (trees,), np.int64)
    seeds = carray(at(w[FIRST_FREE + 2]), (trees, 2), np.int64)
    begin, size = w[FIRST_FREE + 3], w[FIRST_FREE + 4]
    work = new_work(sizes, dtype)
    for t in range(trees * chunk // chunks, trees * (chunk + 1) // chunks):
        tree, states = tree_at(w, t), carray(at(w[STATES] + t * nodes * size), (nodes,), dtype)
        _run_one(search, tree, states, seeds[t], begin, parameters, work, budgets[t])
