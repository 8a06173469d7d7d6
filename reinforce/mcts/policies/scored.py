"""Tree policies from a user's function that scores actions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core.extend import device, template

from ...errors import GameError, SearchError
from ...rules.fingerprint import fingerprint, plain, required
from ...rules.rule_function import rule_function
from ..tree import NAN_NODE
from .children import INFINITY

__all__ = ["Scored", "as_policy"]


class Scored:
    """A policy that takes the action of the highest ``score(mean, visits, prior, parent_visits)``, a user's function;
    `mean` is the mean value that the action has had for who moves, 0 if it has never been taken.
    """

    parameters: tuple[float, ...] = ()
    dirichlet = None
    in_random_order = True

    def __init__(self, score: Callable):
        try:
            python = plain(score)
        except GameError as error:
            raise SearchError(
                f"MCTS: policy must be UCT(...), PUCT(...), Gumbel(...), MuZeroPUCT(...) or a function, "
                f"got {score!r:.80}"
            ) from error
        if required(python) != 4:
            raise SearchError(
                f"MCTS: a policy is a function (mean, visits, prior, parent_visits) -> score, got "
                f"{python.__name__}{inspect.signature(python)}"
            )
        self.score, self.function = python, _highest(rule_function(python))
        self.key = fingerprint(python)

    def __repr__(self) -> str:
        return self.score.__name__


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
            if tree.stats[child].mean == -INFINITY:
                continue
            mean = tree.totals[child] / visits
        s = score(mean, visits, np.float64(tree.priors[at]), parent_visits)
        if s > highest:
            edge, highest = at, s  # type: ignore[assignment]
        elif s != s:
            tree.counts[NAN_NODE] = node + 1
    return edge


def _highest(score):
    @device
    def select(tree, node, parameters, stream):
        return select_scored(score, tree, node)

    return select


def as_policy(policy: Any) -> Any:
    """A policy object of what a user gives."""
    if isinstance(policy, type):
        raise SearchError(f"MCTS: policy must be an object, got the class {policy.__name__} (call it)")
    return policy if hasattr(policy, "in_random_order") else Scored(policy)
