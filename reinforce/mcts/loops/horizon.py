"""Random rollouts of limited depth, with a value function at the horizon."""

from collections.abc import Callable
from typing import NamedTuple

from triskele.core.extend import device, template

from .evaluate import ROLLOUTS
from .simulation import NEW, NO_ACTION, forget

__all__ = ["Horizon", "nothing", "roll_out_to_horizon"]


class Horizon(NamedTuple):
    """The functions of such rollouts: ``move(rules, state, work, stream)`` draws moves, ``value(state, values)`` is for
    games that are not over.
    """

    move: Callable
    value: Callable


@device
def nothing(state, values):
    """Return 0 for all players: the default value at the horizon."""
    for p in range(len(values)):
        values[p] = 0.0


@template
def roll_out_to_horizon(search, tree, states, node, parameters, work):
    """Average the values of random rollouts of limited depth; `search.evaluator` is a `Horizon`."""
    rules, stream, count = search.rules, tree.streams, int(parameters[ROLLOUTS])
    move, value, depth = search.evaluator.move, search.evaluator.value, int(parameters[ROLLOUTS + 1])
    for i in range(count):
        work.scratch[0] = states[node]
        for _ in range(depth):
            if rules.terminal(work.scratch[0]):
                break
            action = move(rules, work.scratch[0], work, stream)
            if action < 0:
                return NO_ACTION
            rules.step(work.scratch[0], action)
        forget(work.outcome)
        if rules.terminal(work.scratch[0]):
            rules.returns(work.scratch[0], work.outcome)
        else:
            value(work.scratch[0], work.outcome)
        for p in range(len(work.values)):
            work.values[p] = work.outcome[p] / count + (work.values[p] if i else 0.0)
    return NEW
