"""The kernel of a search: generated for a game, a policy, an evaluator and a backup, and run on a batch of trees."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from triskele.core.extend import threads

from ...errors import SearchError
from ...game import Game
from ...rules.discounted import values_ahead
from ...rules.fingerprint import fingerprint, plain
from ...rules.rule_function import rule_function
from ...rules.uncompilable import essence
from ...rules.wiring import wire
from ...testing.first_use import check_evaluator_once
from ..context import FIRST_FREE, context_of, run_chunks
from ..evaluators import RandomRollout
from ..loops import functions
from ..loops.compiled import ALPHA, PARAMETERS, add_dirichlet, leave_root, run_trees, value_root
from ..loops.evaluate import ROLLOUTS, any_move, roll_out, value, value_with_priors
from ..loops.functions import SearchFunctions, selection, update_of
from ..loops.horizon import Horizon, nothing, roll_out_to_horizon
from ..loops.simulation import Sizes, expand, expand_any, finish, keep_order, shuffle
from ..loops.solver import ask_chances, finish_proving, no_chances
from ..policies import puct, scored, uct
from ..policies.scaled import finish_of
from ..tree import Tree
from .engine import Engine

__all__ = ["CompiledEngine"]


class CompiledEngine(Engine):
    """Everything is compiled into one kernel."""

    def __init__(self, game: Game, policy: Any, evaluator: Any, backup: Any, solver: bool):
        self.nodes_each = 2 if game.num_outcomes else 1
        chance, priors = bool(game.num_outcomes), evaluator.gives_priors
        sizes = Sizes(game.max_length + 2, game.num_actions, game.num_outcomes, game.num_players)
        function, evaluate = _valued(game, evaluator, chance)
        search = SearchFunctions(
            rules=game.compiled,
            order=shuffle if policy.in_random_order else keep_order,
            expand=expand_any if chance else expand,
            select=selection(policy.function, chance, solver),
            update=update_of(backup),
            evaluate=evaluate,
            evaluator=function,
            finish=finish_of(policy, finish_proving if solver else finish),
            chances=ask_chances if chance else no_chances,
            value_root=value_root if priors else leave_root,
            add_noise=leave_root if policy.dirichlet is None else add_dirichlet,
        )
        key = " ".join(
            [
                game.key,
                policy.key,
                evaluator.key,
                "" if backup is None else fingerprint(backup),
                f"{solver}",
                f"{policy.dirichlet is not None}",
            ]
        )
        self._what = (
            f"the search of {game.name} with policy {policy!r}, evaluator "
            f"{evaluator!r}{'' if backup is None else f' and backup {backup.__name__}'}"
        )
        self._kernel = wire(
            "search",
            f"Search of {game.name}. {key}",
            [run_trees],
            {"search": search, "sizes": sizes, "dtype": game.dtype},
            [functions, puct, scored, uct],
            nogil=True,
        ).run_trees
        self.clear()
        self._parameters = np.zeros(PARAMETERS)
        self._parameters[: len(policy.parameters)] = policy.parameters
        self._parameters[ROLLOUTS : ROLLOUTS + len(evaluator.parameters)] = evaluator.parameters
        if policy.dirichlet is not None:
            self._parameters[ALPHA : ALPHA + 2] = policy.dirichlet

    def clear(self):
        """See `Engine`."""
        self._made: tuple[Tree, np.ndarray] | None = None  # the context of the last tree

    def _compile(self):
        try:
            threads.body(self._kernel)
        except Exception as error:  # Numba's errors have many classes
            raise SearchError(f"MCTS: {self._what} cannot be compiled: {essence(error) or repr(error)}") from error

    def run(self, tree, states, budgets, seeds, begin):
        """See `Engine`."""
        made = self._made
        if made is None or made[0] is not tree:
            self._compile()
            made = self._made = (
                tree,
                context_of(tree, states, self._parameters, budgets, seeds, 0, states.dtype.itemsize),
            )
        made[1][FIRST_FREE + 3] = begin
        run_chunks(self._kernel, made[1], min(len(budgets), 8 * threads.get_threads()))


def _valued(game, evaluator, chance):
    """Return the function of an evaluator and the template that calls it."""
    ahead = None if game.reward is None else functools.partial(values_ahead, num_players=game.num_players)
    if not isinstance(evaluator, RandomRollout):
        check_evaluator_once(game, evaluator)
        priors = evaluator.gives_priors
        function = evaluator.function if ahead is None else rule_function(ahead(evaluator.python, priors=priors))
        return function, value_with_priors if priors else value
    move = any_move(game.compiled.random_action is not None, chance)
    if evaluator.depth is None:
        return move, roll_out
    rest = nothing if evaluator.value is None else plain(evaluator.value)
    rest = rest if ahead is None else ahead(getattr(rest, "py_func", rest), priors=False)
    return Horizon(move, rest if rest is nothing else rule_function(rest, _nrt=True)), roll_out_to_horizon
