"""MuZero's rule of selection: PUCT on values scaled to [0, 1] within each node.

References
----------
Schrittwieser et al., *Mastering Atari, Go, chess and shogi by planning with a learned model*, Nature 588 (2020),
appendix B.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from triskele.core.extend import check

from ... import random
from ...errors import SearchError
from ..loops.gathered_edges import gather, lean
from ..loops.noise import add_noise

__all__ = ["MuZeroPUCT"]


@dataclass(frozen=True)
class MuZeroPUCT:
    """MuZero's rule of selection, for returns of any size.

    Attributes
    ----------
    c_init, c_base : float
        c1 and c2 of eq. 2.
    dirichlet : tuple of float
        (alpha, fraction) of the noise in the priors of the root; fraction 0 for none.
    temperature : float
        Actions are drawn in proportion to visits ** (1 / temperature); 0 for the most visited.

    References
    ----------
    Schrittwieser et al., Nature 588 (2020), appendix B, eq. 2 and 5.

    Examples
    --------
    >>> from triskele.reinforce import MuZeroPUCT
    >>> MuZeroPUCT(dirichlet=(0.3, 0.0), temperature=0.0)
    MuZeroPUCT(c_init=1.25, c_base=19652.0, dirichlet=(0.3, 0.0), temperature=0.0)
    """

    c_init: float = 1.25
    c_base: float = 19652.0
    dirichlet: tuple[float, float] = (0.3, 0.25)
    temperature: float = 1.0

    in_random_order = False

    def __post_init__(self):
        for name, least in (("c_init", 0.0), ("c_base", 1.0), ("temperature", 0.0)):
            value = getattr(self, name)
            check.number(value, f"MuZeroPUCT: {name}", least, error=SearchError)
        noise = self.dirichlet
        if (
            not isinstance(noise, tuple)
            or len(noise) != 2
            or not (noise[0] > 0 and 0 <= noise[1] <= 1 and noise[0] < math.inf)
        ):
            raise SearchError(f"MuZeroPUCT: dirichlet must be (alpha > 0, fraction in 0 ... 1), got {noise!r}")


def parameters(policy: MuZeroPUCT, simulations: int, num_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """(schedule, formula) for kernels; this policy has no schedule."""
    formula = np.zeros(16)
    formula[:5] = policy.c_init, policy.c_base, *policy.dirichlet, policy.temperature
    return np.zeros((1, 1), np.int32), formula


@lean
def scores(count, raw, edges, c_init, c_base):
    """Write edges.sigma[count]: Q scaled between the least and the greatest of node and children, 0 without visits,
    plus exploration.
    """
    visits, total = 1, raw
    for k in range(count):
        visits, total = visits + edges.visits[k], total + edges.visits[k] * edges.q[k]
    low = high = total / visits
    for k in range(count):
        if edges.visits[k] > 0:
            low, high = min(low, edges.q[k]), max(high, edges.q[k])
    scale = 1.0 / max(high - low, 1e-8)
    c = (c_init + math.log((visits + c_base + 1.0) / c_base)) * math.sqrt(visits)
    for k in range(count):
        score = (edges.q[k] - low) * scale if edges.visits[k] > 0 else 0.0
        edges.sigma[k] = score + c * edges.prior[k] / (1.0 + edges.visits[k])


@lean
def prepare_root(tree, noise, formula, edges):
    """Noise in the priors of the root. `formula` holds: c_init, c_base, alpha, fraction, temperature."""
    if formula[3] > 0.0:
        add_noise(tree, formula[2], formula[3], edges.sigma)


@lean
def choose(tree, node, formula, edges):
    """Place among the edges of a node of the one to go by."""
    count = gather(tree, node, edges)
    scores(count, tree.values[node], edges, formula[0], formula[1])
    best = 0
    for k in range(count):
        if edges.sigma[k] > edges.sigma[best]:
            best = k
    return best


@lean
def choose_root(tree, noise, schedule, formula, edges):
    """The same at the root."""
    return choose(tree, np.int64(0), formula, edges)


@lean
def conclude(tree, noise, formula, edges, policy):
    """Write policy[num_actions], the shares of visits, and return an action drawn by them."""
    first, count = tree.links[0].first_edge, gather(tree, np.int64(0), edges)
    best, visits, total = 0, 0, 0.0
    for k in range(count):
        visits += edges.visits[k]
        best = k if edges.visits[k] > edges.visits[best] else best
    policy[:] = 0.0
    for k in range(count):
        policy[tree.actions[first + k]] = edges.visits[k] / max(1, visits)
        edges.sigma[k] = 0.0
        if formula[4] > 0.0 and edges.visits[k] > 0:
            edges.sigma[k] = math.exp(math.log(edges.visits[k] / edges.visits[best]) / formula[4])
            total += edges.sigma[k]
    if total > 0.0:
        left = total * random.uniform(tree.streams)
        for k in range(count):
            if edges.sigma[k] > 0.0:
                best, left = k, left - edges.sigma[k]
                if left < 0.0:
                    break
    return tree.actions[first + best]
