"""Source of the kernels of a search with a learned model, for `load_module`.

Filled in are the formulas of selection, and what differs between models of Numba functions and of compiled programs:
how a search begins, how leaves are evaluated, where a tree is found.
"""

__all__ = ["FUNCTIONS", "PROGRAMS", "SEARCH"]

FUNCTIONS = {
    "copy": "out[...] = x",
    "begin": """@kernel(nogil=True)
def search(tree, noise, schedule, formula, simulations, seed, observations, legal, params, embeddings, discounts,
           root_embedding, root_prior, root_value, embedding, action, next_embedding, reward, discount, prior, value):
    start, (trees, actions) = 0, legal.shape
    edges, everything = new_edges(actions), np.ones(actions, np.bool_)
    for b in range(trees):
        representation(params, observations[b], root_embedding[b])
        root_value[b] = prediction(params, root_embedding[b], edges.sigma)
        softmax(edges.sigma, legal[b], root_prior[b])""",
    "evaluate": """for b in range(trees):
            reward[b], discount[b] = dynamics(params, embedding[b], action[b], next_embedding[b])
            value[b] = prediction(params, next_embedding[b], edges.sigma)
            softmax(edges.sigma, everything, prior[b])""",
    "tree": "row(tree, b)",
}
PROGRAMS = {
    "copy": """for j in range(len(x)):
        out[j] = x[j]""",
    "begin": """@kernel(nogil=True)
def search(context, chunk):
    w = carray(context, (32,))
    p = carray(at(w[FIRST_FREE] + 160 * chunk), (20,), np.int64)
    start, trees, width, nodes, actions = p[0], p[1], p[2], w[NODE_CAPACITY], w[FIRST_FREE + 8]
    noise = carray(at(w[STATES]), (w[TREES], actions), np.float64)
    legal = carray(at(w[FIRST_FREE + 1]), (w[TREES], actions), np.bool_)
    schedule = carray(at(w[FIRST_FREE + 2]), (w[FIRST_FREE + 3], w[FIRST_FREE + 4]), np.int32)
    formula, simulations, seed = carray(at(w[FIRST_FREE + 5]), (16,), np.float64), w[FIRST_FREE + 6], w[FIRST_FREE + 7]
    embeddings, discounts = carray(at(p[4]), (trees, nodes, width), np.uint8), carray(at(p[5]), (trees, nodes), np.float32)
    root_embedding, root_prior, root_value = carray(at(p[6]), (trees, width), np.uint8), carray(at(p[7]), (trees, actions), np.float32), carray(at(p[8]), (trees,), np.float32)
    embedding, action = carray(at(p[9]), (trees, width), np.uint8), carray(at(p[10]), (trees,), np.int64)
    next_embedding, reward, discount = carray(at(p[11]), (trees, width), np.uint8), carray(at(p[12]), (trees,), np.float32), carray(at(p[13]), (trees,), np.float32)
    prior, value = carray(at(p[14]), (trees, actions), np.float32), carray(at(p[15]), (trees,), np.float32)
    roots, steps = carray(at(p[16]), (1, 4), np.int64), carray(at(p[17]), (1, 4), np.int64)
    edges, everything = new_edges(actions), np.ones(actions, np.bool_)
    if run_all(roots) != 0:
        p[3] = 1
        return""",
    "evaluate": """if run_all(steps) != 0:
            p[3] = 2
            return""",
    "tree": "tree_at(w, start + b)",
}
SEARCH = '''"""MuZero's search by the formulas of {formulas}. {key}"""
import math

import numpy as np
from numba import carray

from triskele.core.extend import inner, kernel
from triskele.reinforce import random
from triskele.reinforce.mcts.policies import gumbel, muzero_puct
from triskele.reinforce.mcts.context import FIRST_FREE, NODE_CAPACITY, STATES, TREES, at, tree_at
from triskele.reinforce.mcts.loops.edges import add_value, expand, gather, new_edges
from triskele.reinforce.mcts.tree import ERROR_NODE, FREE, RAN, STATUS, add_node, reset, row
from triskele.reinforce.program import run_all


@inner
def softmax(logits, legal, out):
    top, total = -math.inf, 0.0
    for a in range(len(out)):
        if legal[a]:
            top = max(top, logits[a])
    for a in range(len(out)):
        out[a] = math.exp(logits[a] - top) if legal[a] else 0.0
        total += out[a]
    for a in range(len(out)):
        out[a] /= total


@inner
def copy(out, x):
    {copy}


@inner(_nrt=False)
def begin_tree(one, seed, number, legal, prior, value, noise, formula, edges):
    reset(one)
    random.start(one.streams, seed, number, 0)
    add_node(one, FREE, FREE, 0, 0)
    one.values[0] = value
    add_value(one, 0, value)
    if not math.isfinite(value) or not expand(one, 0, legal, prior):
        one.counts[STATUS] = 1
        return False
    prepare_root(one, noise, formula, edges)
    return True


@inner(_nrt=False)
def descend(one, noise, schedule, formula, edges):
    """A new leaf."""
    node, edge = 0, one.links[0].first_edge + choose_root(one, noise, schedule, formula, edges)
    while one.children[edge] >= 0:
        node = one.children[edge]
        edge = one.links[node].first_edge + choose(one, node, formula, edges)
    return add_node(one, node, edge, 0, 0)


@inner(_nrt=False)
def back_up(one, node, reward, discount, value, legal, prior, discounts):
    total = np.float64(value)
    one.values[node], one.rewards[node], discounts[node] = value, reward, discount
    if not math.isfinite(total + reward + discount) or not expand(one, node, legal, prior):
        one.counts[STATUS], one.counts[ERROR_NODE] = 1, node
        return False
    while node > 0:
        total = one.rewards[node] + discounts[node] * total
        add_value(one, node, total)
        node = one.parents[node].parent
    add_value(one, 0, total)
    one.counts[RAN] += 1
    return True


{begin}
    leaves = np.empty(trees, np.int64)
    for b in range(trees):
        copy(embeddings[b, 0], root_embedding[b])
        if not begin_tree({tree}, seed, start + b, legal[start + b], root_prior[b], root_value[b], noise[start + b], formula, edges):
            return
    for t in range(simulations):
        for b in range(trees):
            one = {tree}
            node = leaves[b] = descend(one, noise[start + b], schedule, formula, edges)
            copy(embedding[b], embeddings[b, one.parents[node].parent])
            action[b] = one.actions[one.parents[node].edge]
        {evaluate}
        for b in range(trees):
            copy(embeddings[b, leaves[b]], next_embedding[b])
            if not back_up({tree}, leaves[b], reward[b], discount[b], value[b], everything, prior[b], discounts[b]):
                return


@kernel(nogil=True)
def results(tree, noise, formula, action, policy, visits, values, priors, root_value):
    edges = new_edges(policy.shape[1])
    for b in range(len(action)):
        one = row(tree, b)
        count, first = gather(one, 0, edges), one.links[0].first_edge
        for k in range(count):
            a = one.actions[first + k]
            visits[b, a], values[b, a], priors[b, a] = edges.visits[k], edges.q[k], edges.prior[k]
        root_value[b] = one.totals[0] / one.stats[0].visits
        action[b] = conclude(one, noise[b], formula, edges, policy[b])
'''
