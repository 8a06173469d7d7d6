"""The edges of one node, gathered into flat arrays: inputs of the formulas of Gumbel and MuZero."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from triskele.core.extend import device

__all__ = ["Edges", "gather", "lean", "new_edges"]

# for functions that make no array: references are not counted, which would take half the time
lean = device(_nrt=False)


class Edges(NamedTuple):
    """The edges of a node, gathered; all of them arrays with room for `num_actions` edges."""

    visits: np.ndarray  # int64
    q: np.ndarray  # float64, mean return by that edge, for who moves at the node; 0 without visits
    prior: np.ndarray  # float64, probabilities
    sigma: np.ndarray  # float64, room to work in


@device
def new_edges(num_actions):
    """Allocate room for that many edges."""
    return Edges(np.empty(num_actions, np.int64), np.empty(num_actions), np.empty(num_actions), np.empty(num_actions))


@lean
def gather(tree, node, edges):
    """Fill `edges` from a node of one tree; returns how many they are."""
    first, count = tree.links[node].first_edge, np.int64(tree.links[node].num_edges)
    for k in range(count):
        child = tree.children[first + k]
        visits = np.int64(tree.stats[child].visits) if child >= 0 else 0
        edges.visits[k] = visits
        edges.q[k] = tree.stats[child].mean if visits > 0 else 0.0
        edges.prior[k] = tree.priors[first + k]
    return count
