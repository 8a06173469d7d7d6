"""Gumbel search: actions at the root by sequential halving, inside the tree by the improved policy.

Formulas work on the edges of one node, gathered into flat arrays: `visits`, `q` (mean return for who moves at the node;
anything where there are no visits) and `prior` (probabilities).

References
----------
Danihelka, Guez, Schrittwieser and Silver, *Policy improvement by planning with Gumbel*, ICLR 2022.
Karnin, Koren and Somekh, *Almost optimal exploration in multi-armed bandits*, ICML 2013 (sequential halving).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from triskele.core.extend import check

from ... import random
from ...errors import SearchError
from ..loops.gathered_edges import gather, lean

__all__ = ["Gumbel"]

TINY = 1.1754944e-38  # smallest normal float32: visited edges of prior 0 still have a weight in the mixed value
LOWEST = -1e9  # of a score at the root, so that the only action considered can be visited whatever its prior


@dataclass(frozen=True)
class Gumbel:
    """Gumbel search, which improves the policy with any number of simulations.

    Attributes
    ----------
    max_considered_actions : int
        Actions sampled without replacement at the root, among which sequential halving finds the best.
    gumbel_scale : float
        Scale of the noise at the root; 0 plays deterministically.
    value_scale, maxvisit_init : float
        c_scale and c_visit of eq. 8: Q, scaled to [0, 1] within a node, counts (maxvisit_init + most visits) *
        value_scale.

    References
    ----------
    Danihelka, Guez, Schrittwieser and Silver, *Policy improvement by planning with Gumbel*, ICLR 2022.

    Examples
    --------
    >>> from triskele.reinforce import Gumbel
    >>> Gumbel(max_considered_actions=8)
    Gumbel(max_considered_actions=8, gumbel_scale=1.0, value_scale=0.1, maxvisit_init=50.0)
    """

    max_considered_actions: int = 16
    gumbel_scale: float = 1.0
    value_scale: float = 0.1
    maxvisit_init: float = 50.0

    in_random_order = False

    def __post_init__(self):
        check.integer(self.max_considered_actions, "Gumbel: max_considered_actions", 1, error=SearchError)
        for name in ("gumbel_scale", "value_scale", "maxvisit_init"):
            value = getattr(self, name)
            check.number(value, f"Gumbel: {name}", 0, error=SearchError)


def considered_visits(max_considered_actions: int, simulations: int) -> np.ndarray:
    """Return the schedule of sequential halving, (max_considered_actions + 1, simulations) int32.

    Entry [m, t]: with m actions considered, simulation t goes to one with this many visits. Each of the ceil(log2 m)
    phases halves the actions and shares the simulations equally among those left; then two remain.

    >>> considered_visits(4, 8)[4]
    array([0, 0, 0, 0, 1, 1, 2, 2], dtype=int32)
    """
    table = np.zeros((max_considered_actions + 1, simulations), np.int32)
    table[:2] = np.arange(simulations)
    for m in range(2, max_considered_actions + 1):
        phases, left, done, t = math.ceil(math.log2(m)), m, 0, 0
        while t < simulations:
            for _ in range(max(1, simulations // (phases * left))):
                end = min(simulations, t + left)
                table[m, t:end] = done
                done, t = done + 1, end
            left = max(2, left // 2)
    return table


def parameters(policy: Gumbel, simulations: int, num_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """(schedule, formula) for kernels."""
    schedule = considered_visits(min(policy.max_considered_actions, num_actions), simulations)
    formula = np.zeros(16)
    formula[:4] = policy.gumbel_scale, policy.value_scale, policy.maxvisit_init, num_actions
    return schedule, formula


@lean
def completed_q(count, whole, raw, visits, q, prior, value_scale, maxvisit_init, out):
    """Write out[count]: Q completed by the mixed value (appendix D), scaled to [0, 1] within the node, times sigma's
    factor (eq. 8).

    `raw` is the evaluator's value of the node; without `whole` there are illegal actions, which count as not visited.
    Returns the sum of visits.
    """
    total, most, weight, weighted = 0, 0, 0.0, 0.0
    low, high = math.inf, -math.inf
    for k in range(count):
        if visits[k] > 0:
            p = max(prior[k], TINY)
            total, most = total + visits[k], max(most, visits[k])
            weight, weighted = weight + p, weighted + p * q[k]
            low, high = min(low, q[k]), max(high, q[k])
        else:
            whole = False
    mixed = raw if total == 0 else (raw + total * (weighted / weight)) / (total + 1)
    if not whole:
        low, high = min(low, mixed), max(high, mixed)
    scale = (maxvisit_init + most) * value_scale / max(high - low, 1e-8)
    for k in range(count):
        out[k] = ((q[k] if visits[k] > 0 else mixed) - low) * scale
    return total


@lean
def improved(count, prior, sigma, out):
    """Write out[count]: the improved policy softmax(logits + sigma(completed Q)), eq. 11.

    `sigma` and `out` may be the same.
    """
    top, total = 0.0, 0.0
    for k in range(count):
        top = max(top, sigma[k])
    for k in range(count):
        out[k] = prior[k] * math.exp(sigma[k] - top)
        total += out[k]
    if total == 0.0:  # all mass of the prior lies where exp vanished
        for k in range(count):
            out[k] = prior[k]
        return
    for k in range(count):
        out[k] /= total


@lean
def interior_edge(count, whole, raw, visits, q, prior, value_scale, maxvisit_init, work):
    """The edge by which visits come closest to the improved policy (eq. 14)."""
    total = completed_q(count, whole, raw, visits, q, prior, value_scale, maxvisit_init, work)
    improved(count, prior, work, work)
    best, best_score = 0, -math.inf
    for k in range(count):
        score = work[k] - visits[k] / (1.0 + total)
        if score > best_score:
            best, best_score = k, score
    return best


@lean
def root_edge(count, visits, considered, prior, noise, sigma):
    """Among the edges with `considered` visits, or the nearest number that occurs, select the greatest noise + logit +
    sigma (section 3).
    """
    top, nearest = 0.0, visits[0]
    for k in range(count):
        top = max(top, prior[k])
        if abs(visits[k] - considered) < abs(nearest - considered):
            nearest = visits[k]
    best, best_score = 0, -math.inf
    for k in range(count):
        if visits[k] == nearest:
            score = max(LOWEST, noise[k] + math.log(prior[k] / top) + sigma[k])
            if score > best_score:
                best, best_score = k, score
    return best


@lean
def prepare_root(tree, noise, formula, edges):
    """Draw the Gumbel noise of the root's edges.

    `formula` holds: gumbel_scale, value_scale, maxvisit_init, num_actions.
    """
    for k in range(np.int64(tree.links[0].num_edges)):
        noise[k] = formula[0] * random.gumbel(tree.streams) if formula[0] > 0.0 else 0.0


@lean
def choose_root(tree, noise, schedule, formula, edges):
    """Place among the root's edges of the one to go by, by sequential halving; `schedule` is `considered_visits`."""
    count = gather(tree, np.int64(0), edges)
    total = completed_q(
        count,
        count == formula[3],
        tree.values[0],
        edges.visits,
        edges.q,
        edges.prior,
        formula[1],
        formula[2],
        edges.sigma,
    )
    considered = np.int64(schedule[min(count, len(schedule) - 1), min(total, schedule.shape[1] - 1)])
    return root_edge(count, edges.visits, considered, edges.prior, noise, edges.sigma)


@lean
def choose(tree, node, formula, edges):
    """Place among the edges of any other node of the one to go by."""
    count = gather(tree, node, edges)
    return interior_edge(
        count,
        count == formula[3],
        tree.values[node],
        edges.visits,
        edges.q,
        edges.prior,
        formula[1],
        formula[2],
        edges.sigma,
    )


@lean
def conclude(tree, noise, formula, edges, policy):
    """Write policy[num_actions], the improved one, and return the action found best at the root."""
    first, count = tree.links[0].first_edge, gather(tree, np.int64(0), edges)
    completed_q(
        count,
        count == formula[3],
        tree.values[0],
        edges.visits,
        edges.q,
        edges.prior,
        formula[1],
        formula[2],
        edges.sigma,
    )
    most = edges.visits[0]
    for k in range(count):
        most = max(most, edges.visits[k])
    best = root_edge(count, edges.visits, most, edges.prior, noise, edges.sigma)
    improved(count, edges.prior, edges.sigma, edges.sigma)
    policy[:] = 0.0
    for k in range(count):
        policy[tree.actions[first + k]] = edges.sigma[k]
    return tree.actions[first + best]
