"""How a search values a new node: `evaluate(search, tree, states, node, parameters, work)`, which returns a status."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from triskele.core.extend import template

from ... import random
from .simulation import NEW, NO_ACTION, TOO_LONG, expand_with, forget

__all__ = ["ROLLOUTS", "any_move", "roll_out", "value", "value_with_priors"]

ROLLOUTS = 8  # place of the number of rollouts among the parameters of a search


@template
def value(search, tree, states, node, parameters, work):
    """Call a user's ``evaluator(state, values)``."""
    work.scratch[0] = states[node]
    forget(work.values)
    search.evaluator(work.scratch[0], work.values)
    return NEW


@template
def value_with_priors(search, tree, states, node, parameters, work):
    """Call a user's ``evaluator(state, values, priors)``, and make the edges of the node."""
    work.scratch[0] = states[node]
    forget(work.values)
    forget(work.priors)
    search.evaluator(work.scratch[0], work.values, work.priors)
    return expand_with(search.rules, search.order, tree, states, node, work)


@template
def roll_out(search, tree, states, node, parameters, work):
    """Average returns of random games from the node; ``evaluator(rules, state, work, stream)`` draws their moves."""
    rules, state, stream, count = search.rules, states[node], tree.streams, np.int64(parameters[ROLLOUTS])
    limit = len(work.path)  # longer than any game
    for i in range(count):
        work.scratch[0] = state
        moves = 0
        while not rules.terminal(work.scratch[0]):
            action = search.evaluator(rules, work.scratch[0], work, stream)
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


@template
def _legal_move(rules, state, work, stream):
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
def _own_move(rules, state, work, stream):
    """A legal action as the game itself draws it."""
    return np.int64(rules.random_action(state, stream))


@template
def _any_move(rules, move, state, work, stream):
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
def _any_legal_move(rules, state, work, stream):
    return _any_move(rules, _legal_move, state, work, stream)


@template
def _any_own_move(rules, state, work, stream):
    return _any_move(rules, _own_move, state, work, stream)


def any_move(own: bool, chance: bool) -> Callable:
    """Return move(rules, state, work, stream) -> action, drawn by the game itself or by the mask; -1 if none is legal.

    With `chance`, it draws an outcome where chance is to move.
    """
    if chance:
        return _any_own_move if own else _any_legal_move
    return _own_move if own else _legal_move
