"""Edge selection: select(tree, node, parameters, stream) -> edge, once the edges of `node` exist.

Eight children are scored at a time, from the 8 bytes that each has in `tree.packed`. A child whose mean is -inf is not
taken (see `solver.select_open`).
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import inner, native, simd, template

from ... import random

__all__ = ["draw_outcome", "select_puct", "select_scored", "select_uct"]

_EVEN, _ODD = (0, 2, 4, 6, 8, 10, 12, 14), (1, 3, 5, 7, 9, 11, 13, 15)
_INFINITY = np.float32(np.inf)
_LOWEST = -(2**31)  # no score has it
_CHECKED = native.checked()


def _places(octaves, steps):
    """Return numbers from 1 on, equally many in each octave."""
    k = np.arange(octaves * steps + 2)
    return 2.0 ** (k // steps) * (1 + k % steps / steps)


# A logarithm takes longer than all else that a choice needs: it is read from tables, between whose places lines are
# drawn.
_STEPS, _LOG_STEPS, _LOG_OCTAVES = 128, 256, 7
_FEW = 2048
_ROOT_LOG = np.sqrt(np.log(np.maximum(np.arange(_FEW), 1))).astype(np.float32)
_ROOT_LOG_OF_MANY = np.sqrt(np.log(_FEW * _places(20, _STEPS))).astype(np.float32)
_LOG = np.log(_places(_LOG_OCTAVES, _LOG_STEPS)).astype(np.float32)


@inner
def _children(tree, at, count):
    """Eight edges from place `at`: which are edges, which have been visited, and visits and mean (float32) of their
    children.
    """
    lanes = simd.iota(8) < count
    if _CHECKED:
        child = simd.load_masked(tree.children, at, lanes, simd.splat(np.int32(0), 8))
    else:
        # a load with a mask would wait for `count`; there is room behind the last edge
        child = simd.load(tree.children, at, 8)
    taken = lanes & (child >= 0)
    pairs = simd.bitcast(simd.gather_masked(tree.packed, child, taken, simd.splat(np.int64(0), 8)), np.int32)
    visits = simd.convert(simd.shuffle(pairs, _EVEN), np.float32)
    return lanes, visits > np.float32(0), visits, simd.shuffle(simd.bitcast(pairs, np.float32), _ODD)


@inner
def _best(score):
    """The highest score (as an integer of the same order), and the first lane that has it.

    The highest of eight integers takes a fifth of the time that it takes for floats, where NaN is to be minded. The
    last three of its bits are given up for the lane, which is then known with it.
    """
    key = simd.bitcast(score, np.int32)
    key = key ^ ((key >> 31) & 0x7FFFFFFF)
    top = simd.max((key & -8) | (7 - simd.iota(8)))
    return top | 7, 7 - (np.int64(top) & 7)


@inner
def _root_log(n):
    """sqrt(log(n)), for n >= 1, with an error of at most 2e-6."""
    return _ROOT_LOG[n] if n < _FEW else _between(_ROOT_LOG_OF_MANY, np.float32(n) * np.float32(1 / _FEW), _STEPS)


@inner
def _log(x):
    """log(x), for x >= 1, with an error of at most 2e-6."""
    return _between(_LOG, x, _LOG_STEPS) if x < np.float32(2**_LOG_OCTAVES) else np.float32(simd.log(np.float64(x)))


@inner
def _between(table, x, steps):
    """Look up x in a table of `_places`."""
    place = np.float32(np.float32(x).view(np.int32) - 0x3F800000) * np.float32(steps / 2**23)
    k = np.int64(place)
    return np.float32(table[k] + (place - np.float32(k)) * (table[k + 1] - table[k]))


@inner
def select_uct(tree, node, parameters, stream):
    """Mean + c sqrt(log N / n), with N visits of the node and n of the child; parameters: c, score of an action never
    taken.
    """
    link = tree.links[node]
    first, count = np.int64(link.first_edge), np.int64(link.num_edges)
    wide = np.float32(parameters[0]) * _root_log(max(tree.stats[node].visits, 1))
    unknown, nothing = simd.splat(np.float32(parameters[1]), 8), simd.splat(-_INFINITY, 8)
    edge, highest = first, _LOWEST
    for at in range(first, first + count, 8):
        lanes, taken, visits, mean = _children(tree, at, first + count - at)
        score = mean + simd.splat(wide, 8) / simd.sqrt(visits)
        top, lane = _best(simd.select(taken, score, simd.select(lanes, unknown, nothing)))
        if top > highest:
            edge, highest = at + lane, top
    return edge


@inner
def select_puct(tree, node, parameters, stream):
    """Mean + C prior sqrt(N) / (1 + n), C = c + log((1 + N + base) / base), with N visits below the node and n of the
    child.

    Parameters: c, base, value of an action never taken, or NaN for the mean of those that have been.
    """
    link = tree.links[node]
    first, count = np.int64(link.first_edge), np.int64(link.num_edges)
    unknown = np.float32(parameters[2])
    if math.isnan(unknown):
        sums, counts = simd.splat(np.float32(0), 8), simd.splat(np.float32(0), 8)
        for at in range(first, first + count, 8):
            lanes, taken, visits, mean = _children(tree, at, first + count - at)
            known = simd.select(mean == -_INFINITY, simd.splat(np.float32(0), 8), visits)
            sums, counts = simd.select(known > np.float32(0), simd.fma(mean, known, sums), sums), counts + known
        n = simd.sum(counts)
        unknown = simd.sum(sums) / n if n > 0 else tree.values[node]
    below = np.float32(max(tree.stats[node].visits - 1, 0))
    growth = np.float32(parameters[0]) + _log(np.float32(1) + (np.float32(1) + below) / np.float32(parameters[1]))
    wide = np.float32(growth * np.float32(math.sqrt(max(below, np.float32(1)))))
    edge, highest = first, _LOWEST
    for at in range(first, first + count, 8):
        lanes, taken, visits, mean = _children(tree, at, first + count - at)
        prior = simd.load_masked(tree.priors, at, lanes, simd.splat(np.float32(0), 8))
        value = simd.select(taken, mean, simd.splat(unknown, 8))
        score = value + prior / (visits + np.float32(1)) * simd.splat(wide, 8)
        top, lane = _best(simd.select(lanes, score, simd.splat(-_INFINITY, 8)))
        if top > highest:
            edge, highest = at + lane, top
    return edge


@template
def select_scored(score, tree, node):
    """The edge for which ``score(mean, visits, prior, parent_visits)`` is highest, the first of equals; never taken:
    mean 0, visits 0.
    """
    link = tree.links[node]
    first, parent_visits = np.int64(link.first_edge), np.int64(tree.stats[node].visits)
    edge, highest = first, -np.inf
    for at in range(first, first + link.num_edges):
        child = tree.children[at]
        visits, mean = np.int64(0), 0.0
        if child >= 0 and tree.stats[child].visits > 0:
            visits = np.int64(tree.stats[child].visits)
            if tree.stats[child].mean == -_INFINITY:
                continue
            mean = tree.totals[child] / visits
        s = score(mean, visits, np.float64(tree.priors[at]), parent_visits)
        if s > highest:
            edge, highest = at, s
    return edge


@inner
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
