"""The functions that a search is made of, and how they are put together from a policy, a backup and a solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from triskele.core.extend import device

from ...rules.rule_function import rule_function
from .simulation import draw_outcome, select_any
from .solver import select_open

__all__ = ["SearchFunctions", "selection", "update_of"]


class SearchFunctions(NamedTuple):
    """Compiled functions of a search, which the loops take as `search`."""

    rules: Any
    order: Callable  # (tree, node); puts new edges into order
    expand: Callable  # (rules, order, tree, states, node, work) -> status
    select: Callable  # (tree, node, parameters, work, depth) -> edge
    update: Callable  # (total, visits, value) -> total
    # (search, tree, states, depth, known, work) -> status; backs up the values of a simulation, and proves what follows
    finish: Callable
    chances: Callable  # (rules, states, work, d); writes the probabilities of the chance node path[d]
    evaluate: Callable | None = None  # (search, tree, states, node, parameters, work) -> status
    evaluator: Callable | None = None  # a user's, or what draws the moves of rollouts; `evaluate` calls it
    # (search, tree, states, parameters, work) -> status, at a new root, and at the root when a search begins
    value_root: Callable | None = None
    add_noise: Callable | None = None


def selection(choose: Callable, chance: bool, solver: bool) -> Callable:
    """Return select(tree, node, parameters, work, depth) for a policy's choose(tree, node, parameters, stream)."""

    @device
    def choose_any(tree, node, parameters, stream):
        return select_any(choose, draw_outcome, tree, node, parameters, stream)

    pick = choose_any if chance else choose

    @device
    def select(tree, node, parameters, work, depth):
        return pick(tree, node, parameters, tree.streams)

    @device
    def select_unproven(tree, node, parameters, work, depth):
        return select_open(pick, tree, node, parameters, work, depth)

    return select_unproven if solver else select


@device
def _add(total, visits, value):
    return total + value


def update_of(backup: Callable | None) -> Callable:
    """Return update(total, visits, value) -> total for a user's backup(mean, visits, value) -> mean."""
    if backup is None:
        return _add
    mean_of = rule_function(backup)

    @device
    def update(total, visits, value):
        return mean_of(total / max(visits - 1, 1), visits, value) * visits

    return update
