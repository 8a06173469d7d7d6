"""Searches whose leaves are valued in batches: simulations are sent down, and what comes back is backed up.

A search is worked on in parts of some trees each (a row of a table, whose columns are named here): rows of arrays hold
the leaves of a part that wait for values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import carray

from triskele.core.extend import device, run_program, template

from ... import random
from ..context import FIRST_FREE, NODE_CAPACITY, STATES, TREES, at, tree_at
from ..tree import EDGES, ERROR_NODE, NODES, RAN, STATUS, add_edge
from .gathered_edges import lean, new_edges
from .noise import add_noise
from .simulation import (
    BAD_PLAYER,
    BAD_PRIORS,
    FULL,
    KNOWN,
    NEW,
    NO_ACTION,
    NOT_FINITE,
    TOO_LONG,
    Sizes,
    draw_outcome,
    expand_any,
    finite,
    keep_order,
    know,
    new_child,
    new_root,
    new_work,
)

__all__ = [
    "ALPHA",
    "COLUMNS",
    "FAILED",
    "LEFT",
    "PART",
    "UNDONE",
    "USED",
    "BatchedSearch",
    "add_dirichlet",
    "conclude",
    "fill",
    "finish",
    "grow_chance",
    "keep_root",
    "leave_root",
    "pick_by_formulas",
    "pick_by_policy",
    "refuse_chance",
    "run",
    "start",
    "take",
]

_WAITING = -1  # what became of a simulation that met a node without a value
ALPHA = 12  # place of Dirichlet's alpha among the parameters, after which its fraction comes
PART = 16  # columns of the table of parts
(
    _FIRST,
    _END,
    _ROWS,
    USED,
    _OBSERVATIONS,
    _MASKS,
    _PRIORS,
    _VALUES,
    _LEAVES,
    COLUMNS,
    _CALLS,
    _SIZE,
    _EACH,
    FAILED,
    LEFT,
    UNDONE,
) = range(PART)
# places in the context
(
    _PARAMETERS,
    _BUDGETS,
    _SEEDS,
    _BEGIN,
    _ITEM,
    _INFLIGHT,
    _NOISE,
    _SCHEDULE,
    _COUNTS,
    _TIMES,
    _TABLE,
    _ACTIONS,
    _POLICIES,
) = range(FIRST_FREE, FIRST_FREE + 13)


class BatchedSearch(NamedTuple):
    """Sizes and compiled functions of a search in batches, which the loops take as `search`."""

    sizes: Sizes
    observation_shape: tuple[int, ...]
    patience: int  # simulations that may meet a node that waits for its value, before a tree sends out no more
    rules: Any
    order: Callable  # (tree, node)
    pick: Callable  # (tree, node, noise, schedule, parameters, edges) -> edge
    update: Callable  # (total, visits, value) -> total
    grow_chance: Callable  # (search, tree, states, node, work) -> status
    prepare_root: Callable  # (tree, noise, parameters, edges)
    # (search, dtype, w, part, edges); writes actions and policies at the roots, for policies that find these themselves
    conclude: Callable


def pick_by_policy(choose: Callable, chance: bool) -> Callable:
    """Return `pick` for a policy's choose(tree, node, parameters, stream) -> edge."""

    @lean
    def pick(tree, node, noise, schedule, parameters, edges):
        return choose(tree, node, parameters, tree.streams)

    return _or_draw(pick) if chance else pick


def pick_by_formulas(choose_root: Callable, choose: Callable, chance: bool) -> Callable:
    """Return `pick` for formulas that give the place of an edge among those of its node."""

    @lean
    def pick(tree, node, noise, schedule, parameters, edges):
        first = np.int64(tree.links[node].first_edge)
        if node == 0:
            return first + choose_root(tree, noise, schedule, parameters, edges)
        return first + choose(tree, node, parameters, edges)

    return _or_draw(pick) if chance else pick


def _or_draw(pick):
    @lean
    def pick_any(tree, node, noise, schedule, parameters, edges):
        if tree.links[node].player < 0:
            return draw_outcome(tree, node, tree.streams)
        return pick(tree, node, noise, schedule, parameters, edges)

    return pick_any


@lean
def grow_chance(search, tree, states, node, work):
    """Make the edges of a chance node."""
    return expand_any(search.rules, keep_order, tree, states, node, work)


@lean
def refuse_chance(search, tree, states, node, work):
    """Fail: the game has no chance."""
    return NO_ACTION


@lean
def add_dirichlet(tree, noise, parameters, edges):
    """Mix Dirichlet noise into the priors of the root."""
    add_noise(tree, parameters[ALPHA], parameters[ALPHA + 1], edges.sigma)


@lean
def leave_root(tree, noise, parameters, edges):
    """Leave the priors of the root as they are."""


@lean
def _pass_through(tree, inflight, node):
    tree.stats[node].visits += 1
    inflight[node] += 1


@lean
def _cancel(tree, inflight, node):
    while node >= 0:
        tree.stats[node].visits -= 1
        inflight[node] -= 1
        node = np.int64(tree.parents[node].parent)


@lean
def _mover(tree, node):
    """Who moved into a node; at the root, who is to move."""
    if node == 0:
        return max(np.int64(tree.links[0].player), 0)
    node = np.int64(tree.parents[node].parent)
    while tree.links[node].player < 0 and node > 0:
        node = np.int64(tree.parents[node].parent)
    return max(np.int64(tree.links[node].player), 0)


@lean
def _back_up(search, tree, inflight, node, values):
    while node >= 0:
        inflight[node] -= 1
        stats = tree.stats[node]
        visits = np.int64(stats.visits - inflight[node])
        total = search.update(tree.totals[node], visits, values[_mover(tree, node)])
        tree.totals[node] = total
        stats.mean = total / visits
        node = np.int64(tree.parents[node].parent)


@lean
def _descend(search, tree, states, inflight, noise, schedule, parameters, edges, work):
    """Go down to a new node, or one that is over; returns it and what it is. All on the way are passed through."""
    node, depth = np.int64(0), 0
    _pass_through(tree, inflight, node)
    while True:
        link = tree.links[node]
        if link.flags != 0:
            return node, KNOWN
        if link.first_edge < 0:
            if link.player >= 0:  # when no other simulation waits here, one has been here that found no room
                return node, NEW if inflight[node] == 1 else _WAITING
            status = search.grow_chance(search, tree, states, node, work)
            if status != NEW:
                return node, status
        depth += 1
        if depth == search.sizes.longest:
            return node, TOO_LONG
        tree.stats[node].visits -= 1  # formulas count what has gone by before
        edge = search.pick(tree, node, noise, schedule, parameters, edges)
        tree.stats[node].visits += 1
        child = np.int64(tree.children[edge])
        if child >= 0:
            _pass_through(tree, inflight, child)
        else:
            if tree.counts[NODES] == len(tree.totals):
                return node, FULL
            child = np.int64(new_child(search.rules, tree, states, node, edge, work))
            if child < 0:
                return node, BAD_PLAYER
            _pass_through(tree, inflight, child)
            tree.stats[child].mean = tree.values[node]
            if tree.links[child].flags == 0 and tree.links[child].player >= 0:
                return child, NEW
        node = child


@lean
def _expand(search, tree, node, mask, priors):
    """Edges for the legal actions; a status."""
    actions = search.sizes.actions
    if tree.counts[EDGES] + actions > len(tree.children):
        return FULL
    for a in range(actions):
        if mask[a] and not 0.0 <= priors[a] <= 1.0:
            return BAD_PRIORS
    for a in range(actions):
        if mask[a]:
            add_edge(tree, node, a, priors[a])
    search.order(tree, node)
    return NEW


@device
def _open_tree(search, dtype, w, t):
    nodes, size, actions = w[NODE_CAPACITY], w[_ITEM], search.sizes.actions
    return (
        tree_at(w, t),
        carray(at(w[STATES] + t * nodes * size), (nodes,), dtype),
        carray(at(w[_INFLIGHT] + t * nodes * 4), (nodes,), np.int32),
        carray(at(w[_NOISE] + t * actions * 8), (actions,), np.float64),
    )


@device
def _start_trees(search, dtype, w, part, edges):
    parameters = carray(at(w[_PARAMETERS]), (16,), np.float64)
    seeds = carray(at(w[_SEEDS]), (w[TREES], 2), np.int64)
    for t in range(part[_FIRST], part[_END]):
        tree, states, inflight, noise = _open_tree(search, dtype, w, t)
        if w[_BEGIN]:
            random.start(tree.streams, seeds[t, 0], seeds[t, 1], 0)
            if tree.counts[NODES] > 0 and tree.links[0].first_edge >= 0 and tree.links[0].player >= 0:
                search.prepare_root(tree, noise, parameters, edges)
        if tree.counts[NODES] == 0:
            new_root(search.rules, tree, states)


@lean
def _fill_tree(
    search,
    t,
    tree,
    states,
    inflight,
    noise,
    budget,
    schedule,
    parameters,
    edges,
    work,
    met,
    part,
    leaves,
    observations,
    masks,
):
    """Send simulations down one tree; note the leaves that wait for values, after the part[USED] that are noted."""
    actions, nodes_each = search.sizes.actions, 2 if search.sizes.outcomes > 0 else 1
    waiting, meetings, each, used = 0, 0, len(met), part[USED]
    # simulations of this round: room for all is made before, so that it does not matter when
    left = min(2 * each, budget - tree.counts[RAN])
    edges_of_all = min(each, left) * actions + left * search.sizes.outcomes
    if tree.counts[NODES] + nodes_each * left > len(tree.totals) or tree.counts[EDGES] + edges_of_all > len(
        tree.children
    ):
        tree.counts[STATUS] = FULL
    patience = min(each, search.patience)
    while tree.counts[STATUS] == NEW and left > 0 and waiting < each and meetings < patience:
        before = tree.streams[0]
        left -= 1
        if tree.links[0].first_edge < 0 and tree.links[0].player >= 0:  # the root itself, which is no simulation
            if waiting > 0:
                break
            node, status = np.int64(0), NEW
            _pass_through(tree, inflight, node)
        else:
            node, status = _descend(search, tree, states, inflight, noise, schedule, parameters, edges, work)
        if status == NEW:
            search.rules.observe(states[node], tree.links[node].player, observations[used])
            search.rules.legal_actions(states[node], masks[used])
            legal = False
            for a in range(actions):
                legal |= masks[used, a]
            if legal:
                leaves[used, 0], leaves[used, 1] = t, node
                used, waiting = used + 1, waiting + 1
            else:
                status = NO_ACTION
        elif status == KNOWN:
            know(search.rules, tree, states, node, _mover(tree, node), work.values)
            if finite(work.values):
                _back_up(search, tree, inflight, node, work.values)
                tree.counts[RAN] += 1
            else:
                status = NOT_FINITE
        elif status == _WAITING:
            met[meetings] = node
            meetings, left = meetings + 1, left + 1
        if status >= FULL:
            tree.counts[STATUS], tree.counts[ERROR_NODE], tree.streams[0] = status, node, before
            _cancel(tree, inflight, node)
    for k in range(meetings):
        _cancel(tree, inflight, met[k])
    part[USED] = used
    part[UNDONE] += tree.counts[STATUS] == NEW and tree.counts[RAN] < budget


@device
def _fill_rows(search, dtype, w, part, work, edges, met):
    """Send simulations down all trees of a part."""
    parameters, budgets = carray(at(w[_PARAMETERS]), (16,), np.float64), carray(at(w[_BUDGETS]), (w[TREES],), np.int64)
    schedule = carray(at(w[_SCHEDULE]), (w[_COUNTS], w[_TIMES]), np.int32)
    rows = part[_ROWS]
    observations = carray(at(part[_OBSERVATIONS]), (rows,) + search.observation_shape, np.float32)
    masks = carray(at(part[_MASKS]), (rows, search.sizes.actions), np.bool_)
    leaves = carray(at(part[_LEAVES]), (rows, 2), np.int64)
    part[USED] = part[UNDONE] = 0
    for t in range(part[_FIRST], part[_END]):
        tree, states, inflight, noise = _open_tree(search, dtype, w, t)
        _fill_tree(
            search,
            t,
            tree,
            states,
            inflight,
            noise,
            budgets[t],
            schedule,
            parameters,
            edges,
            work,
            met,
            part,
            leaves,
            observations,
            masks,
        )


@lean
def _take_value(search, tree, inflight, noise, node, parameters, edges, work, mask, priors, values):
    """Expand a leaf that has got its values, and back these up."""
    player = np.int64(tree.links[node].player)
    for p in range(search.sizes.players):
        if len(values) == 1:
            work.values[p] = values[0] if p == player else -values[0]
        else:
            work.values[p] = values[p]
    status = _expand(search, tree, node, mask, priors) if finite(work.values) else NOT_FINITE
    if status != NEW:
        tree.counts[STATUS], tree.counts[ERROR_NODE] = status, node
        _cancel(tree, inflight, node)
        return
    tree.values[node] = work.values[player]
    _back_up(search, tree, inflight, node, work.values)
    if node > 0 or tree.stats[0].visits > 1:
        tree.counts[RAN] += 1
    else:
        search.prepare_root(tree, noise, parameters, edges)


@device
def _take_values(search, dtype, w, part, work, edges):
    """`_take_value` of all leaves of a part."""
    parameters = carray(at(w[_PARAMETERS]), (16,), np.float64)
    rows, columns, actions = part[_ROWS], part[COLUMNS], search.sizes.actions
    masks = carray(at(part[_MASKS]), (rows, actions), np.bool_)
    priors = carray(at(part[_PRIORS]), (rows, actions), np.float32)
    values = carray(at(part[_VALUES]), (rows, columns), np.float32)
    leaves = carray(at(part[_LEAVES]), (rows, 2), np.int64)
    for r in range(part[USED]):
        tree, states, inflight, noise = _open_tree(search, dtype, w, leaves[r, 0])
        _take_value(
            search, tree, inflight, noise, leaves[r, 1], parameters, edges, work, masks[r], priors[r], values[r]
        )


def conclude(formula: Callable) -> Callable:
    """Return `BatchedSearch.conclude` for a formula (tree, noise, parameters, edges, policy) -> action."""

    @device
    def conclude_trees(search, dtype, w, part, edges):
        parameters = carray(at(w[_PARAMETERS]), (16,), np.float64)
        actions = carray(at(w[_ACTIONS]), (w[TREES],), np.int64)
        policies = carray(at(w[_POLICIES]), (w[TREES], search.sizes.actions), np.float64)
        for t in range(part[_FIRST], part[_END]):
            tree, states, inflight, noise = _open_tree(search, dtype, w, t)
            before = tree.streams[0]
            actions[t] = formula(tree, noise, parameters, edges, policies[t])
            tree.streams[0] = before

    return conclude_trees


@device
def keep_root(search, dtype, w, part, edges):
    """Write nothing: actions and policies come from the visits."""


@device
def _part_at(w, chunk):
    return carray(at(w[_TABLE] + chunk * PART * 8), (PART,), np.int64)


@template
def run(search, dtype, context, chunk):
    """Search in the trees of a part, whose leaves a compiled program values."""
    w = carray(context, (32,))
    part, work, edges = _part_at(w, chunk), new_work(search.sizes, dtype), new_edges(search.sizes.actions)
    met = np.empty(part[_EACH], np.int64)
    _start_trees(search, dtype, w, part, edges)
    calls = carray(at(part[_CALLS]), ((part[_ROWS] + part[_SIZE] - 1) // part[_SIZE], 4), np.int64)
    part[UNDONE] = 1
    while part[LEFT] > 0:
        part[LEFT] -= 1
        _fill_rows(search, dtype, w, part, work, edges, met)
        if part[UNDONE] + part[USED] == 0:
            search.conclude(search, dtype, w, part, edges)
            break
        for k in range((part[USED] + part[_SIZE] - 1) // part[_SIZE]):
            if run_program(calls[k]) != 0:
                part[FAILED] = 1
                return
        _take_values(search, dtype, w, part, work, edges)


@template
def start(search, dtype, w):
    """Begin the trees of the only part, whose leaves Python values."""
    _start_trees(search, dtype, w, _part_at(w, 0), new_edges(search.sizes.actions))


@template
def fill(search, dtype, w):
    """Find the next leaves."""
    part = _part_at(w, 0)
    work, edges = new_work(search.sizes, dtype), new_edges(search.sizes.actions)
    _fill_rows(search, dtype, w, part, work, edges, np.empty(part[_EACH], np.int64))


@template
def take(search, dtype, w):
    """Back up the values of the last leaves."""
    work, edges = new_work(search.sizes, dtype), new_edges(search.sizes.actions)
    _take_values(search, dtype, w, _part_at(w, 0), work, edges)


@template
def finish(search, dtype, w):
    """See `BatchedSearch.conclude`."""
    search.conclude(search, dtype, w, _part_at(w, 0), new_edges(search.sizes.actions))
