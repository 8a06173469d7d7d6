"""Tree policies from a user's function that scores actions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from triskele.core.extend import inner

from ...errors import GameError, SearchError
from ...fingerprint import fingerprint, plain, required
from ..loops.select import select_scored

__all__ = ["Scored", "as_policy"]


class Scored:
    """A policy that is a user's function ``score(mean, visits, prior, parent_visits)``: the action of highest score is
    taken.

    Parameters
    ----------
    score : function
        Of an action: the mean value that it has had for who moves (0 if it has never been taken), how often it has been
        taken, its prior, and how often the node has been visited.
    """

    parameters: tuple[float, ...] = ()
    dirichlet = None
    in_random_order = True

    def __init__(self, score: Callable):
        try:
            python = plain(score)
        except GameError as error:
            raise SearchError(f"MCTS: policy must be UCT(...), PUCT(...), Gumbel(...), MuZeroPUCT(...) or a function, "
                              f"got {score!r:.80}") from error
        if required(python) != 4:
            raise SearchError(f"MCTS: a policy is a function (mean, visits, prior, parent_visits) -> score, got "
                              f"{python.__name__}{inspect.signature(python)}")
        self.score, self.function = python, _highest(inner(python))
        self.key = fingerprint(python)

    def __repr__(self) -> str:
        return self.score.__name__


def _highest(score):
    @inner
    def select(tree, node, parameters, stream):
        return select_scored(score, tree, node)

    return select


def as_policy(policy: Any) -> Any:
    """A policy object of what a user gives."""
    if isinstance(policy, type):
        raise SearchError(f"MCTS: policy must be an object, got the class {policy.__name__} (call it)")
    return policy if hasattr(policy, "in_random_order") else Scored(policy)
