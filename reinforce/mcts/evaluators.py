"""Evaluators: the value of a position that a search has just reached."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from triskele.core.extend import check

from ..errors import EvaluatorError, GameError
from ..policy import Policy
from ..rules.fingerprint import fingerprint, plain, required
from ..rules.rule_function import rule_function
from .network import BatchFunction, PolicyPriors

__all__ = ["Compiled", "RandomRollout", "as_evaluator"]


@dataclass(frozen=True)
class RandomRollout:
    """The mean return of random games played from a position.

    Attributes
    ----------
    n : int
        Number of games played from each position.
    depth : int, optional
        Largest number of moves of each, those of chance included. By default, games are played to their end.
    value : function (state, values), optional
        Writes values (num_players,) float64 of a position in which `depth` ends a game: what is still to come. Nothing
        by default.

    Examples
    --------
    >>> from triskele.reinforce import RandomRollout
    >>> RandomRollout(n=4)
    RandomRollout(n=4, depth=None, value=None)
    """

    n: int = 1
    depth: int | None = None
    value: Callable | None = None

    gives_priors = False

    def __post_init__(self):
        check.integer(self.n, "RandomRollout: n", 1, error=EvaluatorError)
        if self.depth is not None:
            check.integer(self.depth, "RandomRollout: depth", 0, error=EvaluatorError)
        elif self.value is not None:
            raise EvaluatorError("RandomRollout: value is for games that depth ends (give a depth)")

    @property
    def key(self) -> str:
        """What is compiled."""
        horizon = "" if self.depth is None else " to a horizon"
        return "rollout" + horizon + ("" if self.value is None else f" {fingerprint(plain(self.value))}")

    @property
    def parameters(self) -> tuple[float, ...]:
        """For the kernel."""
        return (float(self.n),) if self.depth is None else (float(self.n), float(self.depth))


class Compiled:
    """An evaluator that is a user's function ``evaluate(state, values)`` or ``evaluate(state, values, priors)``.

    It writes all of values (num_players,) float64, and of priors (num_actions,) float32 all that are legal: numbers of
    at least 0, which are scaled to sum to 1. `state` is a copy, where somebody is to move. Parameters with a default
    hold captured values, and no arguments are passed to them.
    """

    parameters: tuple[float, ...] = ()

    def __init__(self, function: Callable):
        self.python = plain(function)
        count = required(self.python)
        if count not in (2, 3):
            raise EvaluatorError(
                f"MCTS: an evaluator is a function (state, values) or (state, values, priors), got "
                f"{self.python.__name__}{inspect.signature(self.python)}"
            )
        self.gives_priors, self.function = count == 3, rule_function(self.python, _nrt=True)
        self.key = fingerprint(self.python, count)

    def __repr__(self) -> str:
        return self.python.__name__


def _takes_one(function):
    try:
        return required(function) == 1
    except (TypeError, ValueError):
        return False


def as_evaluator(evaluator: Any) -> Any:
    """An evaluator object of what a user gives."""
    if isinstance(evaluator, type):
        raise EvaluatorError(f"MCTS: evaluator must be an object, got the class {evaluator.__name__} (call it)")
    if hasattr(evaluator, "gives_priors"):
        return evaluator
    if isinstance(evaluator, Policy):
        return PolicyPriors(evaluator)
    if callable(evaluator) and not hasattr(evaluator, "py_func") and _takes_one(evaluator):
        return BatchFunction(evaluator)
    try:
        return Compiled(evaluator)
    except GameError as error:
        raise EvaluatorError(
            f"MCTS: evaluator must be RandomRollout(...), Network(...), a Policy or a function, got {evaluator!r:.80}"
        ) from error
