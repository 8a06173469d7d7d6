"""Games with rewards at each step, as games whose returns are the discounted sums of these rewards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["account_fields", "discounted", "from_here", "values_ahead"]


def account_fields(num_players: int) -> list[tuple[Any, ...]]:
    """Return the fields of a state that hold the rewards earned so far and the weight of the next one."""
    return [
        ("earned", np.float64, num_players),
        ("last_reward", np.float64, num_players),
        ("weight", np.float64),
        ("next_weight", np.float64),
    ]


def discounted(rules: Any, reward: Callable, num_players: int, discount: float) -> Any:
    """Return rules whose states accumulate the rewards that ``reward(state, out)`` writes after each step.

    What is earned from one decision to the next counts the same, whatever chance decides in between; each decision
    counts `discount` times as much as the one before.
    """
    begin, step_on, player, end = rules.initial, rules.step, rules.player, rules.returns

    def initial(state):
        """Set up the first position."""
        begin(state)
        state.weight = state.next_weight = 1.0

    def step(state, action):
        """Take a step and add its reward."""
        if player(state) >= 0:
            state.weight = state.next_weight
            state.next_weight = state.weight * discount
        step_on(state, action)
        reward(state, state.last_reward)
        for p in range(num_players):
            state.earned[p] += state.weight * state.last_reward[p]

    def returns(state, out):
        """Return the rewards earned and the value of the end."""
        end(state, out)
        for p in range(num_players):
            out[p] = state.earned[p] + state.weight * out[p]

    return rules._replace(initial=initial, step=step, returns=returns)


def from_here(states: np.ndarray) -> None:
    """Forget the rewards earned before these positions, and give the next reward full weight."""
    states["earned"], states["weight"], states["next_weight"] = 0.0, 1.0, 1.0


def values_ahead(evaluate: Callable, num_players: int, priors: bool) -> Callable:
    """Turn an evaluator of future rewards into one of all rewards since the root."""

    def account(state, values):
        """Add the rewards earned so far to discounted future values."""
        for p in range(num_players):
            values[p] = state.earned[p] + state.next_weight * values[p]

    def value(state, values):
        """Evaluate without priors."""
        evaluate(state, values)
        account(state, values)

    def value_with_priors(state, values, priors):
        """Evaluate with priors."""
        evaluate(state, values, priors)
        account(state, values)

    return value_with_priors if priors else value
