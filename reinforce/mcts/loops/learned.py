"""MuZero's search: trees over a learned model, in step, so that the model is evaluated once a simulation for all."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import carray

from triskele.core.extend import device, template

from ... import random
from ...rules.program import run_all
from ..context import FIRST_FREE, NODE_CAPACITY, STATES, TREES, at, tree_at
from ..tree import ERROR_NODE, FREE, RAN, STATUS, add_edge, add_node, reset, row
from .gathered_edges import gather, lean, new_edges

__all__ = [
    "ADDRESSES",
    "FAILED",
    "PART",
    "LearnedArrays",
    "LearnedSearch",
    "results",
    "search_functions",
    "search_programs",
]

PART = 18  # columns of the table of parts; from ADDRESSES on, those of arrays
(
    _FIRST,
    _ROWS,
    _WIDTH,
    FAILED,
    ADDRESSES,
    _DISCOUNTS,
    _ROOT_EMBEDDING,
    _ROOT_PRIOR,
    _ROOT_VALUE,
    _EMBEDDING,
    _ACTION,
    _NEXT_EMBEDDING,
    _REWARD,
    _DISCOUNT,
    _PRIOR,
    _VALUE,
    _ROOT_CALLS,
    _STEP_CALLS,
) = range(PART)
# places in the context
_TABLE, _LEGAL, _SCHEDULE, _COUNTS, _TIMES, _FORMULA, _SIMULATIONS, _SEED, _ACTIONS = range(FIRST_FREE, FIRST_FREE + 9)


class LearnedSearch(NamedTuple):
    """Compiled functions of a search with a learned model: the formulas of its policy, and the model."""

    prepare_root: Callable
    choose_root: Callable
    choose: Callable
    conclude: Callable
    representation: Callable | None = None
    dynamics: Callable | None = None
    prediction: Callable | None = None


class LearnedArrays(NamedTuple):
    """Embeddings and discounts of all nodes, and what the model is given and gives, a row for each tree."""

    embeddings: np.ndarray
    discounts: np.ndarray
    root_embedding: np.ndarray
    root_prior: np.ndarray
    root_value: np.ndarray
    embedding: np.ndarray
    action: np.ndarray
    next_embedding: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    prior: np.ndarray
    value: np.ndarray


@device
def _softmax(logits, legal, out):
    top, total = -math.inf, 0.0
    for a in range(len(out)):
        if legal[a]:
            top = max(top, logits[a])
    for a in range(len(out)):
        out[a] = math.exp(logits[a] - top) if legal[a] else 0.0
        total += out[a]
    for a in range(len(out)):
        out[a] /= total


@device
def _copy(out, x):
    out[...] = x


@device
def _copy_bytes(out, x):
    for j in range(len(x)):
        out[j] = x[j]


@lean
def _expand(tree, node, legal, prior):
    """Make edges of the legal actions. Return False, and make none, if their priors are not numbers."""
    for a in range(len(prior)):
        if legal[a] and not math.isfinite(prior[a]):
            return False
    for a in range(len(prior)):
        if legal[a]:
            add_edge(tree, node, a, prior[a])
    return True


@lean
def _add_value(tree, node, value):
    """One more visit of a node, with this value for who moved there."""
    stats = tree.stats[node]
    stats.visits += 1
    tree.totals[node] += value
    stats.mean = tree.totals[node] / stats.visits


@lean
def _begin_tree(search, one, seed, number, legal, prior, value, noise, formula, edges):
    reset(one)
    random.start(one.streams, seed, number, 0)
    add_node(one, FREE, FREE, 0, 0)
    one.values[0] = value
    _add_value(one, 0, value)
    if not math.isfinite(value) or not _expand(one, 0, legal, prior):
        one.counts[STATUS] = 1
        return False
    search.prepare_root(one, noise, formula, edges)
    return True


@lean
def _descend(search, one, noise, schedule, formula, edges):
    """A new leaf."""
    node, edge = 0, one.links[0].first_edge + search.choose_root(one, noise, schedule, formula, edges)
    while one.children[edge] >= 0:
        node = one.children[edge]
        edge = one.links[node].first_edge + search.choose(one, node, formula, edges)
    return add_node(one, node, edge, 0, 0)


@lean
def _back_up(one, node, reward, discount, value, legal, prior, discounts):
    total = np.float64(value)
    one.values[node], one.rewards[node], discounts[node] = value, reward, discount
    if not math.isfinite(total + reward + discount) or not _expand(one, node, legal, prior):
        one.counts[STATUS], one.counts[ERROR_NODE] = 1, node
        return False
    while node > 0:
        total = one.rewards[node] + discounts[node] * total
        _add_value(one, node, total)
        node = one.parents[node].parent
    _add_value(one, 0, total)
    one.counts[RAN] += 1
    return True


@template
def _simulate(
    search,
    tree,
    trees,
    start,
    copy,
    evaluate,
    model,
    legal,
    noise,
    schedule,
    formula,
    simulations,
    seed,
    x,
    edges,
    everything,
    leaves,
):
    """Simulations of all trees in step, `tree(trees, t)` being number t; False if the model could not be evaluated."""
    (
        embeddings,
        discounts,
        root_embedding,
        root_prior,
        root_value,
        embedding,
        action,
        next_embedding,
        reward,
        discount,
        prior,
        value,
    ) = x
    for b in range(len(leaves)):
        copy(embeddings[b, 0], root_embedding[b])
        if not _begin_tree(
            search,
            tree(trees, start + b),
            seed,
            start + b,
            legal[start + b],
            root_prior[b],
            root_value[b],
            noise[start + b],
            formula,
            edges,
        ):
            return True
    for _ in range(simulations):
        for b in range(len(leaves)):
            one = tree(trees, start + b)
            node = leaves[b] = _descend(search, one, noise[start + b], schedule, formula, edges)
            copy(embedding[b], embeddings[b, one.parents[node].parent])
            action[b] = one.actions[one.parents[node].edge]
        if not evaluate(search, model, x, edges, everything):
            return False
        for b in range(len(leaves)):
            copy(embeddings[b, leaves[b]], next_embedding[b])
            if not _back_up(
                tree(trees, start + b), leaves[b], reward[b], discount[b], value[b], everything, prior[b], discounts[b]
            ):
                return True
    return True


@template
def _call_functions(search, params, x, edges, everything):
    for b in range(len(x.action)):
        x.reward[b], x.discount[b] = search.dynamics(params, x.embedding[b], x.action[b], x.next_embedding[b])
        x.value[b] = search.prediction(params, x.next_embedding[b], edges.sigma)
        _softmax(edges.sigma, everything, x.prior[b])
    return True


@template
def _call_programs(search, steps, x, edges, everything):
    return run_all(steps) == 0


@template
def search_functions(search, tree, noise, schedule, formula, simulations, seed, observations, legal, params, x):
    """Search with a model of Numba functions; `x` is a `LearnedArrays`."""
    trees, actions = legal.shape
    edges, everything = new_edges(actions), np.ones(actions, np.bool_)
    for b in range(trees):
        search.representation(params, observations[b], x.root_embedding[b])
        x.root_value[b] = search.prediction(params, x.root_embedding[b], edges.sigma)
        _softmax(edges.sigma, legal[b], x.root_prior[b])
    _simulate(
        search,
        row,
        tree,
        0,
        _copy,
        _call_functions,
        params,
        legal,
        noise,
        schedule,
        formula,
        simulations,
        seed,
        x,
        edges,
        everything,
        np.empty(trees, np.int64),
    )


@template
def search_programs(search, context, chunk):
    """Search in the trees of a part with a model of compiled programs."""
    w = carray(context, (32,))
    p = carray(at(w[_TABLE] + 8 * PART * chunk), (PART,), np.int64)
    start, trees, width, nodes, actions = p[_FIRST], p[_ROWS], p[_WIDTH], w[NODE_CAPACITY], w[_ACTIONS]
    noise = carray(at(w[STATES]), (w[TREES], actions), np.float64)
    legal = carray(at(w[_LEGAL]), (w[TREES], actions), np.bool_)
    schedule = carray(at(w[_SCHEDULE]), (w[_COUNTS], w[_TIMES]), np.int32)
    formula = carray(at(w[_FORMULA]), (16,), np.float64)
    x = LearnedArrays(
        carray(at(p[ADDRESSES]), (trees, nodes, width), np.uint8),
        carray(at(p[_DISCOUNTS]), (trees, nodes), np.float32),
        carray(at(p[_ROOT_EMBEDDING]), (trees, width), np.uint8),
        carray(at(p[_ROOT_PRIOR]), (trees, actions), np.float32),
        carray(at(p[_ROOT_VALUE]), (trees,), np.float32),
        carray(at(p[_EMBEDDING]), (trees, width), np.uint8),
        carray(at(p[_ACTION]), (trees,), np.int64),
        carray(at(p[_NEXT_EMBEDDING]), (trees, width), np.uint8),
        carray(at(p[_REWARD]), (trees,), np.float32),
        carray(at(p[_DISCOUNT]), (trees,), np.float32),
        carray(at(p[_PRIOR]), (trees, actions), np.float32),
        carray(at(p[_VALUE]), (trees,), np.float32),
    )
    roots = carray(at(p[_ROOT_CALLS]), (1, 4), np.int64)
    steps = carray(at(p[_STEP_CALLS]), (1, 4), np.int64)
    edges, everything = new_edges(actions), np.ones(actions, np.bool_)
    if run_all(roots) != 0:
        p[FAILED] = 1
    elif not _simulate(
        search,
        tree_at,
        w,
        start,
        _copy_bytes,
        _call_programs,
        steps,
        legal,
        noise,
        schedule,
        formula,
        w[_SIMULATIONS],
        w[_SEED],
        x,
        edges,
        everything,
        np.empty(trees, np.int64),
    ):
        p[FAILED] = 2


@template
def results(search, tree, noise, formula, action, policy, visits, values, priors, root_value):
    """Sum up what the trees have found, each into a row of all arrays after `formula`."""
    edges = new_edges(policy.shape[1])
    for b in range(len(action)):
        one = row(tree, b)
        count, first = gather(one, 0, edges), one.links[0].first_edge
        for k in range(count):
            a = one.actions[first + k]
            visits[b, a], values[b, a], priors[b, a] = edges.visits[k], edges.q[k], edges.prior[k]
        root_value[b] = one.totals[0] / one.stats[0].visits
        action[b] = search.conclude(one, noise[b], formula, edges, policy[b])
