"""Tree search told plainly, on nodes that are Python objects: twin of `reinforce.mcts`, down to its random numbers.

Scores are float32, as there, so that equal ones are equal in both.
"""

from __future__ import annotations

import math

import numpy as np

from triskele.core.random import numba as draws
from triskele.reinforce import CHANCE

MASK = 2**64 - 1


class Stream:
    """SplitMix64, started as `reinforce.random` does."""

    def __init__(self, seed, a, b=0):
        w = draws.block(seed & 0xFFFFFFFF, seed >> 32, a & 0xFFFFFFFF, a >> 32, b, 7)
        self.state = int(w[0]) | int(w[1]) << 32

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        return mix(self.state)

    def below(self, n):
        return (self.bits() >> 32) * n >> 32

    def uniform(self):
        return (self.bits() >> 11) * 2.0**-53


def mix(z):
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
    return z ^ z >> 31


def stream_of(state, seed, number=0):
    """Of a search that begins here."""
    data, mixed = state.data.tobytes(), seed
    whole = len(data) // 8 * 8
    for word in (*(data[k : k + 8] for k in range(0, whole, 8)), *(data[k : k + 1] for k in range(whole, len(data)))):
        mixed = (mix(mixed ^ int.from_bytes(word, "little")) + 1) & MASK
    return Stream(mixed, number)


class Node:
    def __init__(self, state, mover):
        self.state, self.mover, self.visits, self.total, self.edges = state, mover, 0, 0.0, []

    def mean(self):
        return self.total / self.visits


def uct(c):
    def score(parent, child, prior):
        wide = np.float32(c) * np.float32(math.sqrt(math.log(max(parent.visits, 1))))
        return np.float32(child.mean()) + wide / np.sqrt(np.float32(child.visits)) if child else np.float32(np.inf)

    return score


def puct(c, base, fpu):
    def score(parent, child, prior):
        below = max(parent.visits - 1, 0)
        weight = (c + math.log((1 + below + base) / base)) * math.sqrt(max(below, 1))
        wide = np.float32(weight) * np.float32(prior)
        return np.float32(child.mean()) + wide / np.float32(1 + child.visits) if child else np.float32(fpu) + wide

    return score


def random_rollout(state, stream):
    while not state.terminal:
        state = state.play(
            outcome(state, stream)
            if state.player == CHANCE
            else state.legal_actions[stream.below(len(state.legal_actions))]
        )
    return list(state.returns), None


def outcome(state, stream):
    u, k = stream.uniform() - state.chance[0], 0
    while u >= 0 and k + 1 < len(state.chance):
        k += 1
        u -= state.chance[k]
    return k


def search(
    state,
    simulations,
    score,
    evaluate,
    stream,
    in_random_order=True,
    backup=lambda mean, visits, value: mean + (value - mean) / visits,
):
    """The root after so many simulations; edges are [action, prior, node or None]."""
    root = Node(state, state.player)
    values, priors = evaluate(state, stream) if not in_random_order else (None, None)
    if priors is not None:  # the root is valued first
        expand(root, priors, stream, in_random_order)
        back_up([root], values, backup)
    for _ in range(simulations):
        node, path, new = root, [root], False
        while not node.state.terminal and (not new or node.state.player == CHANCE):
            if not node.edges:
                expand(node, None, stream, in_random_order)
            if node.state.player == CHANCE:
                u, edge = stream.uniform(), node.edges[-1]
                for e in node.edges[:-1]:
                    u -= e[1]
                    if u < 0:
                        edge = e
                        break
            else:
                scores = [score(node, e[2], e[1]) for e in node.edges]
                edge = node.edges[scores.index(max(scores))]
            new = edge[2] is None
            if new:
                edge[2] = Node(
                    node.state.play(edge[0]), node.mover if node.state.player == CHANCE else node.state.player
                )
            node = edge[2]
            path.append(node)
        if node.state.terminal:
            values = node.state.returns
        else:
            values, priors = evaluate(node.state, stream)
            if priors is not None:
                expand(node, priors, stream, in_random_order)
        back_up(path, values, backup)
    return root


def expand(node, priors, stream, in_random_order):
    state = node.state
    if state.player == CHANCE:
        node.edges = [[k, float(state.chance[k]), None] for k in state.legal_actions]
        return
    legal = state.legal_actions
    total = sum(priors[a] for a in legal) if priors is not None else len(legal)
    node.edges = [[a, (priors[a] if priors is not None else 1.0) / total, None] for a in legal]
    if in_random_order:
        for k in range(len(legal) - 1, 0, -1):
            j = stream.below(k + 1)
            node.edges[k], node.edges[j] = node.edges[j], node.edges[k]


def back_up(path, values, backup):
    for node in reversed(path):
        node.visits += 1
        node.total = backup((node.total / max(node.visits - 1, 1)), node.visits, values[node.mover]) * node.visits
