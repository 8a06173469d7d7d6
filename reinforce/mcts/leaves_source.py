"""The generated kernels of `leaves`: text, with what differs between games and policies in braces."""

__all__ = ["CHOOSE", "CONCLUDE", "DRAW", "SCORED", "SELECT", "SOURCE"]

DRAW = """if tree.links[node].player < 0:
        return draw_outcome(tree, node, tree.streams)
    """
CHOOSE = """{chance}first = np.int64(tree.links[node].first_edge)
    if node == 0:
        return first + choose_root(tree, noise, schedule, parameters, edges)
    return first + choose(tree, node, parameters, edges)"""
SELECT = "{chance}return policy(tree, node, parameters, tree.streams)"
SCORED = "{chance}return select_scored(policy, tree, node)"

CONCLUDE = """parameters = carray(at(w[FIRST_FREE]), (16,), np.float64)
    actions, policies = carray(at(w[FIRST_FREE + 11]), (w[TREES],), np.int64), carray(at(w[FIRST_FREE + 12]), (w[TREES], {actions}), np.float64)
    for t in range(part[FIRST], part[END]):
        tree, states, inflight, noise = open_tree(w, t)
        before = tree.streams[0]
        actions[t] = conclude(tree, noise, parameters, edges, policies[t])
        tree.streams[0] = before"""

SOURCE = '''"""Batched search of {name}. {key}"""
import numpy as np
from numba import carray

from triskele.core.extend import inner, kernel, run_program
from triskele.reinforce import random
from triskele.reinforce.mcts.policies import gumbel, muzero_puct
from triskele.reinforce.mcts.context import CHUNKS, FIRST_FREE, NODE_CAPACITY, STATES, TREES, at, tree_at
from triskele.reinforce.mcts.loops.edges import new_edges
from triskele.reinforce.mcts.loops.simulation import (
    BAD_PLAYER, BAD_PRIORS, FULL, KNOWN, NEW, NO_ACTION, NOT_FINITE, TOO_LONG, Work, add_noise, expand_any, finite, know, new_child, new_root, shuffle,
)
from triskele.reinforce.mcts.loops.select import draw_outcome, select_scored
from triskele.reinforce.mcts.tree import EDGES, ERROR_NODE, NODES, RAN, STATUS, add_edge

lean = inner(_nrt=False)  # where no array is made, references need not be counted, which would take half the time
WAITING = -1  # what became of a simulation that met a node without a value
PART = 16  # columns of the table of parts
FIRST, END, ROWS, USED, OBSERVATIONS, MASKS, PRIORS, VALUES, LEAVES, COLUMNS, CALLS, SIZE, EACH, FAILED, LEFT, UNDONE = range(PART)


@lean
def pick(tree, node, noise, schedule, parameters, edges):
    {pick}


@lean
def update(total, visits, value):
    return {update}


@lean
def plainly(tree, node):
    pass


@lean
def grow_chance(tree, states, node, work):
    return {outcomes}


@inner
def new_work():
    return Work(
        np.empty({longest}, np.int64), np.empty({longest}, np.int64), np.empty(0, np.int64), np.empty({actions}, np.bool_),
        np.empty({outcome_count}, np.float64), np.empty({players}, np.float64), np.empty({players}, np.float64), np.empty({actions}, np.float32), np.empty(1, STATE),
    )


@lean
def pass_through(tree, inflight, node):
    tree.stats[node].visits += 1
    inflight[node] += 1


@lean
def cancel(tree, inflight, node):
    while node >= 0:
        tree.stats[node].visits -= 1
        inflight[node] -= 1
        node = np.int64(tree.parents[node].parent)


@lean
def mover(tree, node):
    """Return the player who moved into a node; at the root, the player to move."""
    if node == 0:
        return max(np.int64(tree.links[0].player), 0)
    node = np.int64(tree.parents[node].parent)
    while tree.links[node].player < 0 and node > 0:
        node = np.int64(tree.parents[node].parent)
    return max(np.int64(tree.links[node].player), 0)


@lean
def back_up(tree, inflight, node, values):
    while node >= 0:
        inflight[node] -= 1
        stats = tree.stats[node]
        visits = np.int64(stats.visits - inflight[node])
        total = update(tree.totals[node], visits, values[mover(tree, node)])
        tree.totals[node] = total
        stats.mean = total / visits
        node = np.int64(tree.parents[node].parent)


@lean
def descend(tree, states, inflight, noise, schedule, parameters, edges, work):
    """Go down to a new node, or one that is over; returns it and what it is. All on the way are passed through."""
    node, depth = np.int64(0), 0
    pass_through(tree, inflight, node)
    while True:
        link = tree.links[node]
        if link.flags != 0:
            return node, KNOWN
        if link.first_edge < 0:
            if link.player >= 0:  # when no other simulation waits here, one has been here that found no room
                return node, NEW if inflight[node] == 1 else WAITING
            status = grow_chance(tree, states, node, work)
            if status != NEW:
                return node, status
        depth += 1
        if depth == {longest}:
            return node, TOO_LONG
        edge = pick(tree, node, noise, schedule, parameters, edges)
        child = np.int64(tree.children[edge])
        if child >= 0:
            pass_through(tree, inflight, child)
        else:
            if tree.counts[NODES] == len(tree.totals):
                return node, FULL
            child = np.int64(new_child(rules, tree, states, node, edge, work))
            if child < 0:
                return node, BAD_PLAYER
            pass_through(tree, inflight, child)
            tree.stats[child].mean = tree.values[node]
            if tree.links[child].flags == 0 and tree.links[child].player >= 0:
                return child, NEW
        node = child


@lean
def expand(tree, node, mask, priors):
    """Edges for the legal actions; a status."""
    if tree.counts[EDGES] + {actions} > len(tree.children):
        return FULL
    for a in range({actions}):
        if mask[a] and not 0.0 <= priors[a] <= 1.0:
            return BAD_PRIORS
    for a in range({actions}):
        if mask[a]:
            add_edge(tree, node, a, priors[a])
    {order}
    return NEW


@inner
def open_tree(w, t):
    nodes, size = w[NODE_CAPACITY], w[FIRST_FREE + 4]
    return (
        tree_at(w, t), carray(at(w[STATES] + t * nodes * size), (nodes,), STATE),
        carray(at(w[FIRST_FREE + 5] + t * nodes * 4), (nodes,), np.int32), carray(at(w[FIRST_FREE + 6] + t * {actions} * 8), ({actions},), np.float64),
    )


@inner
def start_trees(w, part, edges):
    parameters = carray(at(w[FIRST_FREE]), (16,), np.float64)
    seeds = carray(at(w[FIRST_FREE + 2]), (w[TREES], 2), np.int64)
    for t in range(part[FIRST], part[END]):
        tree, states, inflight, noise = open_tree(w, t)
        if w[FIRST_FREE + 3]:
            random.start(tree.streams, seeds[t, 0], seeds[t, 1], 0)
            if tree.counts[NODES] > 0 and tree.links[0].first_edge >= 0 and tree.links[0].player >= 0:
                {prepare}
        if tree.counts[NODES] == 0:
            new_root(rules, tree, states)


@lean
def fill_tree(t, tree, states, inflight, noise, budget, schedule, parameters, edges, work, met, part, leaves, observations, masks):
    """Send simulations down one tree, and note the leaves that wait for values, after the part[USED] that are noted already."""
    waiting, meetings, each, used = 0, 0, len(met), part[USED]
    left = min(2 * each, budget - tree.counts[RAN])  # simulations of this round: room for all is made before, so that it does not matter when
    if tree.counts[NODES] + {nodes_each} * left > len(tree.totals) or tree.counts[EDGES] + min(each, left) * {actions} + left * {outcome_count} > len(tree.children):
        tree.counts[STATUS] = FULL
    while tree.counts[STATUS] == NEW and left > 0 and waiting < each and meetings < {patience}:
        before = tree.streams[0]
        left -= 1
        if tree.links[0].first_edge < 0 and tree.links[0].player >= 0:  # the root itself, which is no simulation
            if waiting > 0:
                break
            node, status = np.int64(0), NEW
            pass_through(tree, inflight, node)
        else:
            node, status = descend(tree, states, inflight, noise, schedule, parameters, edges, work)
        if status == NEW:
            rules.observe(states[node], tree.links[node].player, observations[used])
            rules.legal_actions(states[node], masks[used])
            legal = False
            for a in range({actions}):
                legal |= masks[used, a]
            if legal:
                leaves[used, 0], leaves[used, 1] = t, node
                used, waiting = used + 1, waiting + 1
            else:
                status = NO_ACTION
        elif status == KNOWN:
            know(rules, tree, states, node, mover(tree, node), work.values)
            if finite(work.values):
                back_up(tree, inflight, node, work.values)
                tree.counts[RAN] += 1
            else:
                status = NOT_FINITE
        elif status == WAITING:
            met[meetings] = node
            meetings, left = meetings + 1, left + 1
        if status >= FULL:
            tree.counts[STATUS], tree.counts[ERROR_NODE], tree.streams[0] = status, node, before
            cancel(tree, inflight, node)
    for k in range(meetings):
        cancel(tree, inflight, met[k])
    part[USED] = used
    part[UNDONE] += tree.counts[STATUS] == NEW and tree.counts[RAN] < budget


@inner
def fill_rows(w, part, work, edges, met):
    """Send simulations down all trees of a part."""
    parameters, budgets = carray(at(w[FIRST_FREE]), (16,), np.float64), carray(at(w[FIRST_FREE + 1]), (w[TREES],), np.int64)
    schedule = carray(at(w[FIRST_FREE + 7]), (w[FIRST_FREE + 8], w[FIRST_FREE + 9]), np.int32)
    rows = part[ROWS]
    observations, masks = carray(at(part[OBSERVATIONS]), (rows, {shape}), np.float32), carray(at(part[MASKS]), (rows, {actions}), np.bool_)
    leaves = carray(at(part[LEAVES]), (rows, 2), np.int64)
    part[USED] = part[UNDONE] = 0
    for t in range(part[FIRST], part[END]):
        tree, states, inflight, noise = open_tree(w, t)
        fill_tree(t, tree, states, inflight, noise, budgets[t], schedule, parameters, edges, work, met, part, leaves, observations, masks)


@lean
def take_value(tree, inflight, noise, node, parameters, edges, work, mask, priors, values):
    """Expand a leaf that has got its values, and back these up."""
    player = np.int64(tree.links[node].player)
    for p in range({players}):
        if len(values) == 1:
            work.values[p] = values[0] if p == player else -values[0]
        else:
            work.values[p] = values[p]
    status = expand(tree, node, mask, priors) if finite(work.values) else NOT_FINITE
    if status != NEW:
        tree.counts[STATUS], tree.counts[ERROR_NODE] = status, node
        cancel(tree, inflight, node)
        return
    tree.values[node] = work.values[player]
    back_up(tree, inflight, node, work.values)
    if node > 0 or tree.stats[0].visits > 1:
        tree.counts[RAN] += 1
    else:
        {prepare}


@inner
def take_values(w, part, work, edges):
    """`take_value` of all leaves of a part."""
    parameters = carray(at(w[FIRST_FREE]), (16,), np.float64)
    rows, columns = part[ROWS], part[COLUMNS]
    masks, priors = carray(at(part[MASKS]), (rows, {actions}), np.bool_), carray(at(part[PRIORS]), (rows, {actions}), np.float32)
    values, leaves = carray(at(part[VALUES]), (rows, columns), np.float32), carray(at(part[LEAVES]), (rows, 2), np.int64)
    for r in range(part[USED]):
        tree, states, inflight, noise = open_tree(w, leaves[r, 0])
        take_value(tree, inflight, noise, leaves[r, 1], parameters, edges, work, masks[r], priors[r], values[r])


@inner
def finish_trees(w, part, edges):
    """Write actions and policies at the roots, where the policy has its own way to find them."""
    {conclude}


@inner
def part_at(w, chunk):
    return carray(at(w[FIRST_FREE + 10] + chunk * PART * 8), (PART,), np.int64)


@kernel(nogil=True)
def run(context, chunk):
    w = carray(context, (32,))
    part, work, edges = part_at(w, chunk), new_work(), new_edges({actions})
    met = np.empty(part[EACH], np.int64)
    start_trees(w, part, edges)
    calls = carray(at(part[CALLS]), ((part[ROWS] + part[SIZE] - 1) // part[SIZE], 4), np.int64)
    part[UNDONE] = 1
    while part[LEFT] > 0:
        part[LEFT] -= 1
        fill_rows(w, part, work, edges, met)
        if part[UNDONE] + part[USED] == 0:
            finish_trees(w, part, edges)
            break
        for k in range((part[USED] + part[SIZE] - 1) // part[SIZE]):
            if run_program(calls[k]) != 0:
                part[FAILED] = 1
                return
        take_values(w, part, work, edges)


@kernel(nogil=True)
def start(w):
    start_trees(w, part_at(w, 0), new_edges({actions}))


@kernel(nogil=True)
def fill(w):
    part = part_at(w, 0)
    fill_rows(w, part, new_work(), new_edges({actions}), np.empty(part[EACH], np.int64))


@kernel(nogil=True)
def take(w):
    take_values(w, part_at(w, 0), new_work(), new_edges({actions}))


@kernel(nogil=True)
def finish(w):
    finish_trees(w, part_at(w, 0), new_edges({actions}))
'''
