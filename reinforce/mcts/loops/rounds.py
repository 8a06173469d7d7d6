"""Frame of the simulations of a batch of trees: start, budgets, counts and results."""

from __future__ import annotations

import math

import numpy as np
from numba import carray

from triskele.core.extend import device, kernel

from ... import random
from ..context import FIRST_FREE, NODE_CAPACITY, STATES, TREES, at, counts_at, tree_at
from ..tree import NAN_NODE, PROVEN, RAN, STATUS
from .simulation import FULL
from .solver import bounded, worst_value

__all__ = [
    "BEGIN",
    "CONCLUDE",
    "PLAN",
    "RESULTS",
    "SEED",
    "SIMULATIONS",
    "STEP",
    "TALLY",
    "TEMPERATURE",
    "manage",
    "width",
]

BEGIN, PLAN, TALLY, CONCLUDE = range(4)
# places in the context: addresses of arrays, numbers of the batch, numbers of the search, and what a tally gives
(
    _GOALS,
    _BUDGETS,
    _WAITS,
    _SEEDS,
    _OUT,
    _SCRATCH,
    _ITEM,
    _REPLICAS,
    _ACTIONS,
    _PLAYERS,
    SEED,
    SIMULATIONS,
    STEP,
    TEMPERATURE,
    RESULTS,
) = range(FIRST_FREE, FIRST_FREE + 15)
_ARRAYS, _NUMBERS = 4, 4  # of a root's results, see `conclude`
_COARSE = 8 * 2.0**-24  # eight times what the means that a selection compares are rounded by


def width(actions: int) -> int:
    """Return the number of values in the results of a root."""
    return _ARRAYS * actions + _NUMBERS


@device
def _per_tree(w, place):
    """The integers, one for each tree, whose address is at a place of the context."""
    return carray(at(w[place]), (w[TREES],), np.int64)


@device
def begin(w, t):
    """The position of its root goes into the seed of a tree: two moves of a game do not draw the same numbers."""
    size, replicas, replica = w[_ITEM], w[_REPLICAS], t % w[_REPLICAS]
    place = w[STATES] + t * w[NODE_CAPACITY] * size
    words, rest = carray(at(place), (size // 8,), np.uint64), carray(at(place + size // 8 * 8), (size % 8,), np.uint8)
    seeds, goals, waits = carray(at(w[_SEEDS]), (w[TREES], 2), np.int64), _per_tree(w, _GOALS), _per_tree(w, _WAITS)
    mixed = np.uint64(w[SEED])
    for k in range(size // 8):
        mixed = random.mix(mixed ^ words[k]) + np.uint64(1)
    for k in range(size % 8):
        mixed = random.mix(mixed ^ np.uint64(rest[k])) + np.uint64(1)
    seeds[t, 0], seeds[t, 1] = np.int64(mixed), t // replicas + (replica << 32)
    goals[t], waits[t] = w[SIMULATIONS] // replicas + (replica < w[SIMULATIONS] % replicas), 1


@device
def plan(w, t, counts):
    """The budget of a tree in the next call of compiled code."""
    goals, budgets, waits = _per_tree(w, _GOALS), _per_tree(w, _BUDGETS), _per_tree(w, _WAITS)
    budgets[t] = min(counts[RAN] + w[STEP], goals[t]) if waits[t] else counts[RAN]


@device
def tally(w, t, counts):
    """Count a tree among those that failed, are full, or wait; one that stopped below its budget is proven."""
    goals, budgets, waits = _per_tree(w, _GOALS), _per_tree(w, _BUDGETS), _per_tree(w, _WAITS)
    full = counts[STATUS] == FULL
    waits[t] = full or (waits[t] and budgets[t] <= counts[RAN] < goals[t])
    w[RESULTS] += counts[RAN]
    w[RESULTS + 1] += counts[STATUS] > FULL
    w[RESULTS + 2] += full
    w[RESULTS + 3] += waits[t]


@device
def conclude(w, r):
    """Sum up the trees of root number `r`.

    The results of R roots are, one after the other: visits, values, priors and policy (R, actions); action, value of
    the root, whether it is proven, and simulations (R,).
    """
    n, actions, replicas = w[TREES] // w[_REPLICAS], w[_ACTIONS], w[_REPLICAS]
    out, scratch = (
        carray(at(w[_OUT]), (n * width_of(actions),), np.float64),
        carray(at(w[_SCRATCH]), (2, actions), np.float64),
    )
    a, b = r * actions, (r + 1) * actions
    visits, values, priors, policy = (
        out[a:b],
        out[n * actions + a : n * actions + b],
        out[2 * n * actions + a : 2 * n * actions + b],
        out[3 * n * actions + a : 3 * n * actions + b],
    )
    exact, weights = scratch[0], scratch[1]
    for k in range(actions):
        visits[k], values[k], priors[k], exact[k], weights[k] = 0.0, 0.0, 0.0, np.nan, 1.0
    root_visits, root_total, proven, ran = 0.0, 0.0, False, 0
    for t in range(r * replicas, (r + 1) * replicas):
        tree = tree_at(w, t)
        link = tree.links[0]
        root_visits, root_total, ran = (
            root_visits + tree.stats[0].visits,
            root_total + tree.totals[0],
            ran + tree.counts[RAN],
        )
        if link.flags & PROVEN:
            proven = True
        for k in range(link.first_edge, link.first_edge + link.num_edges):
            action, child = tree.actions[k], tree.children[k]
            if t == r * replicas:
                priors[action] = tree.priors[k]
            if child >= 0:
                count = np.int64(tree.stats[child].visits)
                visits[action] += count
                values[action] += tree.totals[child]
                if tree.links[child].flags & PROVEN and count > 0:
                    exact[action] = tree.totals[child] / count
    total, best, low, high = 0.0, -math.inf, math.inf, -math.inf
    for k in range(actions):
        total += visits[k]
    for k in range(actions):
        values[k] = values[k] / visits[k] if visits[k] > 0 else np.nan
        if visits[k] > 0:
            low, high = min(low, values[k]), max(high, values[k])
        policy[k] = visits[k] / total if total > 0 else priors[k]
        if not math.isnan(exact[k]):
            values[k], best = exact[k], max(best, exact[k])
    worst = worst_value(w[_PLAYERS])
    if best > worst:  # actions bounded by the best proven value are not played
        for t in range(r * replicas, (r + 1) * replicas):
            tree = tree_at(w, t)
            link = tree.links[0]
            for k in range(link.first_edge, link.first_edge + link.num_edges):
                if tree.children[k] >= 0 and bounded(tree, link.player, tree.children[k], best):
                    weights[tree.actions[k]] = 0.0
    rounded = _COARSE * max(abs(low), abs(high))
    # means that differ, but hardly for the selection
    w[RESULTS] |= 1.0 < rounded < math.inf and 0.0 < high - low < rounded
    decided = best == -worst or (proven and best > -math.inf)
    top = 0.0
    for k in range(actions):
        if decided:
            weights[k] = policy[k] + 1e-9 if exact[k] == best else 0.0
        else:  # what is proven stands against what promises more: nothing else is played
            promising = values[k] > best and weights[k] > 0.0 if visits[k] > 0 else best <= worst
            weights[k] = policy[k] if promising or (exact[k] == best and best > worst) else 0.0
        top = max(top, weights[k])
    if top == 0.0:
        for k in range(actions):
            weights[k] = policy[k]
            top = max(top, weights[k])
    draw, temperature = random.uniform(tree_at(w, r * replicas).streams), np.int64(w[TEMPERATURE]).view(np.float64)
    numbers = out[_ARRAYS * n * actions :]
    numbers[r] = choose(weights, values, top, temperature, draw)
    numbers[n + r], numbers[2 * n + r], numbers[3 * n + r] = (
        best if decided else root_total / max(root_visits, 1.0),
        proven,
        ran,
    )


@device
def choose(weights, values, top, temperature, draw):
    """The action of the largest weight (of several, that of the best value), or one drawn in proportion to weights **
    (1 / temperature).
    """
    chosen, best, sums = -1, -math.inf, 0.0
    if temperature == 0.0:
        for k in range(len(weights)):
            value = -math.inf if math.isnan(values[k]) else values[k]
            if weights[k] == top and (chosen < 0 or value > best):
                chosen, best = k, value
        return chosen
    for k in range(len(weights)):
        weights[k] = math.exp(math.log(weights[k] / top) / temperature) if weights[k] > 0.0 else 0.0
        sums += weights[k]
    for k in range(len(weights)):
        if weights[k] > 0.0:
            chosen = k
            draw -= weights[k] / sums
            if draw < 0.0:
                break
    return chosen


@device
def width_of(actions):
    return _ARRAYS * actions + _NUMBERS


@kernel(nogil=True)
def manage(context, what):
    """Begin, plan, tally or conclude, for all trees of a context (see `memory`)."""
    w = carray(context, (RESULTS + 4,))
    if what == CONCLUDE:
        w[RESULTS] = 0
        for r in range(w[TREES] // w[_REPLICAS]):
            conclude(w, r)
        return
    if what == TALLY:
        w[RESULTS : RESULTS + 4] = 0
    for t in range(w[TREES]):
        counts = counts_at(w, t)
        if what == BEGIN:
            begin(w, t)
            counts[RAN] = counts[STATUS] = counts[NAN_NODE] = 0
        if what == TALLY:
            tally(w, t, counts)
        else:
            plan(w, t, counts)
