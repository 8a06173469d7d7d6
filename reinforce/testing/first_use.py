"""Checks of what users write that run once, before it is first compiled into loops, where a write out of range would
destroy memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import template

from ..errors import EvaluatorError
from ..game import CHANCE
from ..rules.rule_function import rule_function
from ..rules.shipped import is_shipped
from ..rules.wiring import wire

__all__ = ["check_env_once", "check_evaluator_once", "check_game_once"]

_MOVES, _STEPS, _POSITIONS = 60, 60, 20
_GUARD, _PATTERN = 64, 0xA5  # elements on either side of an array, and what their bytes are
_checked: set[tuple[str, ...]] = set()  # in this process, by the keys of what was checked


def check_game_once(game: Any) -> None:
    """Play some moves of a game that is not ours under guard, as `check_game` does, unless its rules have passed
    before.
    """
    from .game import check_description, play_rules
    from .probe import Probe

    if is_shipped(game):
        return
    check_description(game)
    if (game.key,) in _checked:
        return
    probe, rng = Probe(game), np.random.default_rng(0)
    for _ in range(2):
        play_rules(probe, rng, most=_MOVES)
    _checked.add((game.key,))


def check_env_once(env: Any) -> None:
    """Take some steps of an environment that is not ours under guard, as `check_env` does, unless its rules have passed
    before.
    """
    from .env import check_rules

    if (env.key,) not in _checked:
        check_rules(env, _STEPS, 0, may_raise=True)  # what it raises will be reported when it does
        _checked.add((env.key,))


def check_evaluator_once(game: Any, evaluator: Any) -> None:
    """Call a compiled evaluator with bounds checked on positions of random games, unless it has passed before."""
    key = game.key, evaluator.key
    if key in _checked:
        return
    body = value_with_priors if evaluator.gives_priors else value
    title = f"An evaluator of {game.name} with bounds checked. {' '.join(key)}"
    module = wire(
        "evaluator_check",
        title,
        [body],
        {"evaluator": rule_function(evaluator.python, boundscheck=True)},
        boundscheck=True,
    )
    call = getattr(module, body.__name__)
    states, rng, state = np.zeros(3, game.dtype), np.random.default_rng(0), game.initial_state()
    outside = states.view(np.uint8).reshape(3, -1)
    values, priors = (
        np.zeros(n + 2 * _GUARD, dtype) for n, dtype in ((game.num_players, np.float64), (game.num_actions, np.float32))
    )
    for _ in range(_POSITIONS):
        while state.terminal or state.player == CHANCE:
            state = (
                game.initial_state()
                if state.terminal
                else state.play(
                    int(rng.choice(state.legal_actions, p=state.chance[state.legal_actions] / state.chance.sum()))
                )
            )
        for a in (outside, values.view(np.uint8), priors.view(np.uint8)):
            a[:] = _PATTERN
        states[1] = state.data[0]
        where = f"MCTS: {game.name} after {state.moves}: evaluator {evaluator!r}"
        try:
            call(states, values[_GUARD:-_GUARD], priors[_GUARD:-_GUARD])
        except IndexError as error:
            raise EvaluatorError(f"{where} must stay within its arrays, but raised {error}") from error
        except Exception:  # noqa: BLE001  whatever else it raises will be reported when it does, and that it cannot be compiled, too
            return
        for what, a in (("values", values), ("priors", priors)):
            if (np.delete(a, slice(_GUARD, -_GUARD)).view(np.uint8) != _PATTERN).any():
                raise EvaluatorError(f"{where} writes outside of {what}, which has {len(a) - 2 * _GUARD} elements")
        if (outside[::2] != _PATTERN).any():
            raise EvaluatorError(f"{where} writes outside of the state")
        state = state.play(int(rng.choice(state.legal_actions)))
    _checked.add(key)


@template
def value(evaluator, states, values, priors):
    """Call an evaluator of values alone."""
    evaluator(states[1], values)


@template
def value_with_priors(evaluator, states, values, priors):
    """Call an evaluator of values and priors."""
    evaluator(states[1], values, priors)
