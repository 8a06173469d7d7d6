"""Dirichlet noise in the priors of a root. `PUCT` and `MuZeroPUCT` say how much of it."""

from triskele.core.extend import device

from ... import random

__all__ = ["add_noise"]


@device
def add_noise(tree, alpha, fraction, noise):
    """Mix Dirichlet noise into the priors at the root, which is expanded; `noise` is (actions,) memory to work in."""
    first, count, total = tree.links[0].first_edge, tree.links[0].num_edges, 0.0
    for k in range(count):
        noise[k] = random.gamma(tree.streams, alpha)
        total += noise[k]
    for k in range(count):
        share = noise[k] / total if total > 0.0 else 1.0 / count
        tree.priors[first + k] = (1.0 - fraction) * tree.priors[first + k] + fraction * share
