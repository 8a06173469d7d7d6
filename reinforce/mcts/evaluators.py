"""Evaluators: what a position is worth that the tree has just reached."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check, inner, template

from .. import random
from ..errors import EvaluatorError, GameError
from ..fingerprint import fingerprint, plain, required
from .loops.simulation import NEW, NO_ACTION, TOO_LONG, forget
from .network import BatchFunction

__all__ = ["Compiled", "RandomRollout", "any_move", "as_evaluator", "legal_move", "own_move", "roll_out"]


@template
def legal_move(rules, state, work, stream):
    """A legal action drawn by the mask, or -1 where none is."""
    rules.legal_actions(state, work.mask)
    legal = 0
    for a in range(len(work.mask)):
        legal += work.mask[a]
    if legal == 0:
        return -1
    left = random.below(stream, legal)
    for a in range(len(work.mask)):
        left -= work.mask[a]
        if left < 0:
            return a
    return -1


@template
def own_move(rules, state, work, stream):
    """A legal action as the game itself draws it."""
    return np.int64(rules.random_action(state, stream))


@template
def any_move(rules, move, state, work, stream):
    """`move` where a player is to move, else an outcome by its probability."""
    if rules.player(state) >= 0:
        return move(rules, state, work, stream)
    rules.chance(state, work.probabilities)
    outcome, u = -1, random.uniform(stream)
    for a in range(len(work.probabilities)):
        if work.probabilities[a] > 0.0:
            outcome = a
            u -= work.probabilities[a]
            if u < 0.0:
                break
    return outcome


@template
def roll_out(rules, move, state, work, stream, count):
    """Into work.values: mean returns of `count` games that are played on at random from `state`. A status."""
    limit = len(work.path)  # longer than any game
    for i in range(count):
        work.scratch[0] = state
        moves = 0
        while not rules.terminal(work.scratch[0]):
            action = move(rules, work.scratch[0], work, stream)
            if action < 0:
                return NO_ACTION
            if moves == limit:
                return TOO_LONG
            rules.step(work.scratch[0], action)
            moves += 1
        if count == 1:
            forget(work.values)
            rules.returns(work.scratch[0], work.values)
            break
        forget(work.outcome)
        rules.returns(work.scratch[0], work.outcome)
        for p in range(len(work.values)):
            work.values[p] = work.outcome[p] / count + (work.values[p] if i else 0.0)
    return NEW


@dataclass(frozen=True)
class RandomRollout:
    """A position is worth what random play from it gets.

    Attributes
    ----------
    n : int
        Games played from each position, whose results are averaged.

    Examples
    --------
    >>> RandomRollout(n=4)
    RandomRollout(n=4)
    """

    n: int = 1

    gives_priors = False
    key = "rollout"

    def __post_init__(self):
        check.integer(self.n, "RandomRollout: n", 1, error=EvaluatorError)

    @property
    def parameters(self) -> tuple[float, ...]:
        """For the kernel."""
        return (float(self.n),)


class Compiled:
    """An evaluator that is a user's function ``evaluate(state, values)`` or ``evaluate(state, values, priors)``.

    Parameters
    ----------
    function : function
        Writes all of values[num_players] (float64), and of priors[num_actions] (float32) all that are legal, numbers of
        at least 0, which are scaled to sum to 1. `state` is a copy, where somebody is to move. Parameters with a
        default are not given anything: they hold captured values.
    """

    parameters: tuple[float, ...] = ()

    def __init__(self, function: Callable):
        self.python = plain(function)
        count = required(self.python)
        if count not in (2, 3):
            raise EvaluatorError(f"MCTS: an evaluator is a function (state, values) or (state, values, priors), got "
                                 f"{self.python.__name__}{inspect.signature(self.python)}")
        self.gives_priors, self.function = count == 3, inner(self.python, _nrt=True)
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
    if callable(evaluator) and not hasattr(evaluator, "py_func") and _takes_one(evaluator):
        return BatchFunction(evaluator)
    try:
        return Compiled(evaluator)
    except GameError as error:
        raise EvaluatorError(
            f"MCTS: evaluator must be RandomRollout(...), Network(...) or a function, {error}"
        ) from error
