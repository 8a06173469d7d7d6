"""The kernel of a search: generated for a game, a policy, an evaluator and a backup, and run on a batch of trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import inner, load_module, threads

from ...errors import SearchError
from ...fingerprint import fingerprint
from ...game import Game
from ...testing.first_use import check_evaluator_once
from ..context import FIRST_FREE, context_of, run_chunks
from ..tree import Tree
from .engine import Engine

__all__ = ["CompiledEngine"]

_POLICY, _EVALUATOR, _NOISE, _PARAMETERS = 0, 8, 12, 16  # places in the array of parameters


class CompiledEngine(Engine):
    """Everything is compiled into one kernel."""

    def __init__(self, game: Game, policy: Any, evaluator: Any, backup: Any, solver: bool):
        self.nodes_each = 2 if game.num_outcomes else 1
        chance = bool(game.num_outcomes)
        names = {"rules": game.compiled, "STATE": game.dtype, "policy": policy.function}
        if backup is not None:
            names["user_backup"] = inner(backup)
        if evaluator.key == "rollout":
            move = "own_move" if game.compiled.random_action else "legal_move"
            evaluate = _ROLL_OUT.format(call=f"any_move(rules, {move}, " if chance else f"{move}(rules, ")
        else:
            check_evaluator_once(game, evaluator)
            names["user_evaluate"] = evaluator.function
            evaluate = _EVALUATE_WITH_PRIORS if evaluator.gives_priors else _EVALUATE
        source = _SOURCE.format(
            name=game.name,
            longest=game.max_length + 2,
            actions=game.num_actions,
            outcomes=game.num_outcomes,
            players=game.num_players,
            key=" ".join([game.key, policy.key, evaluator.key, "" if backup is None else fingerprint(backup)]),
            order="shuffle(tree, node)" if policy.in_random_order else "pass",
            expand="expand_any" if chance else "expand",
            chosen="policy(tree, node, parameters, stream)"
            if policy.parameters
            else "select_scored(policy, tree, node)",
            chosen_any="select_any(chosen, draw_outcome, tree, node, parameters, stream)"
            if chance
            else "chosen(tree, node, parameters, stream)",
            select="select_open(chosen_any, tree, node, parameters, work, depth)"
            if solver
            else "chosen_any(tree, node, parameters, tree.streams)",
            update="total + value"
            if backup is None
            else "user_backup(total / max(visits - 1, 1), visits, value) * visits",
            evaluate=evaluate,
            priors=evaluator.gives_priors,
            noise="    pass" if policy.dirichlet is None else _NOISE_AT_ROOT,
            solver=solver,
            back_up="back_up_proven" if solver else "back_up",
            chances="rules.chance(states[work.path[d]], work.probabilities)" if chance else "pass",
        )
        self._what = (
            f"the search of {game.name} with policy {policy!r}, evaluator "
            f"{evaluator!r}{'' if backup is None else f' and backup {backup.__name__}'}"
        )
        self._kernel = load_module(source, "search", names).run
        self._made: tuple[Tree, np.ndarray] | None = None  # the context of the last tree
        self._parameters = np.zeros(_PARAMETERS)
        self._parameters[_POLICY : _POLICY + len(policy.parameters)] = policy.parameters
        self._parameters[_EVALUATOR : _EVALUATOR + len(evaluator.parameters)] = evaluator.parameters
        if policy.dirichlet is not None:
            self._parameters[_NOISE : _NOISE + 2] = policy.dirichlet

    def _compile(self):
        try:
            threads.body(self._kernel)
        except Exception as error:  # Numba's errors have many classes
            reason = next((line.strip() for line in str(error).splitlines() if line.strip()
                           and "Failed in" not in line), repr(error))
            raise SearchError(
                f"MCTS: {self._what} cannot be compiled, Numba says: {type(error).__name__}: {reason:.200}"
            ) from error

    def run(self, tree, states, budgets, seeds, begin):
        """See `Engine`."""
        made = self._made
        if made is None or made[0] is not tree:
            self._compile()
            made = self._made = tree, context_of(tree, states, self._parameters, budgets, seeds, 0,
                                                 states.dtype.itemsize)
        made[1][FIRST_FREE + 3] = begin
        run_chunks(self._kernel, made[1], min(len(budgets), 8 * threads.get_threads()))


_ROLL_OUT = """\
    return roll_out(rules, next_move, states[node], work, tree.streams, np.int64(parameters[8]))


@inner
def next_move(_, state, work, stream):
    return {call}state, work, stream)"""

_EVALUATE = """\
    work.scratch[0] = states[node]
    forget(work.values)
    user_evaluate(work.scratch[0], work.values)
    return NEW"""

_EVALUATE_WITH_PRIORS = """\
    work.scratch[0] = states[node]
    forget(work.values)
    forget(work.priors)
    user_evaluate(work.scratch[0], work.values, work.priors)
    return expand_with(rules, order, tree, states, node, work)"""

_NOISE_AT_ROOT = """\
    if noise:
        if tree.links[0].first_edge < 0:
            status = grow(rules, tree, states, 0, work)
            if status != NEW:
                return status
        add_noise(tree, parameters[12], parameters[13], work.priors)"""

_SOURCE = '''"""Search of {name}. {key}"""
import numpy as np
from numba import carray

from triskele.core.extend import inner, kernel
from triskele.reinforce import random
from triskele.reinforce.mcts.context import CHUNKS, FIRST_FREE, NODE_CAPACITY, STATES, TREES, at, tree_at
from triskele.reinforce.mcts.evaluators import any_move, legal_move, own_move, roll_out
from triskele.reinforce.mcts.loops.simulation import (
    FULL, KNOWN, NEW, NOT_FINITE, NOT_ZERO_SUM, Work, add_noise, back_up, descend, expand, expand_any, expand_with, finite, forget, know, new_root, run_tree, select_any, shuffle,
)
from triskele.reinforce.mcts.loops.select import draw_outcome, select_scored
from triskele.reinforce.mcts.loops.solver import back_up_proven, provable, prove, select_open
from triskele.reinforce.mcts.tree import ERROR_NODE, NODES, STATUS


@inner
def order(tree, node):
    {order}


@inner
def grow(_, tree, states, node, work):
    return {expand}(rules, order, tree, states, node, work)


@inner
def chosen(tree, node, parameters, stream):
    return {chosen}


@inner
def chosen_any(tree, node, parameters, stream):
    return {chosen_any}


@inner
def select(tree, node, parameters, work, depth):
    return {select}


@inner
def update(total, visits, value):
    return {update}


@inner
def evaluate(tree, states, node, parameters, work):
{evaluate}


@inner
def chances(states, work, d):
    {chances}


@inner
def value_and_back_up(tree, states, node, depth, known, parameters, work):
    if known:
        know(rules, tree, states, node, work.movers[depth], work.values)
    else:
        status = evaluate(tree, states, node, parameters, work)
        if status != NEW:
            return status
        tree.values[node] = work.values[tree.links[node].player]
    if not finite(work.values):
        return NOT_FINITE
    if {solver} and known and not provable(work.values):
        return NOT_ZERO_SUM
    {back_up}(update, tree, work, depth)
    return NEW


@inner
def simulate(tree, states, parameters, work):
    depth, status = descend(rules, grow, select, tree, states, parameters, work)
    node = work.path[depth]
    tree.counts[ERROR_NODE] = node
    if status >= FULL:
        return status
    known = status == KNOWN
    status = value_and_back_up(tree, states, node, depth, known, parameters, work)
    if {solver} and known and status == NEW:
        prove(chances, tree, states, work, depth)
    return status


@inner
def start(tree, states, noise, parameters, work):
    if tree.counts[NODES] == 0:
        new_root(rules, tree, states)
        if {priors}:
            work.path[0], work.movers[0] = 0, tree.links[0].player
            status = value_and_back_up(tree, states, 0, 0, False, parameters, work)
            if status != NEW:
                return status
{noise}
    return NEW


@inner(_nrt=False)  # no array is made in here: without counted references a simulation takes half the time
def run_one(tree, states, seed, begin, parameters, work, budget):
    if begin:
        random.start(tree.streams, seed[0], seed[1], 0)
    tree.counts[STATUS] = start(tree, states, begin, parameters, work)
    if tree.counts[STATUS] == NEW:
        run_tree(simulate, tree, states, parameters, work, budget)


@kernel(nogil=True)
def run(context, chunk):
    w = carray(context, (32,))
    trees, chunks, nodes = w[TREES], w[CHUNKS], w[NODE_CAPACITY]
    parameters = carray(at(w[FIRST_FREE]), (16,), np.float64)
    budgets, seeds = carray(at(w[FIRST_FREE + 1]), (trees,), np.int64), carray(at(w[FIRST_FREE + 2]), (trees, 2), np.int64)
    begin, size = w[FIRST_FREE + 3], w[FIRST_FREE + 4]
    work = Work(
        np.empty({longest}, np.int64), np.empty({longest}, np.int64), np.empty({longest}, np.int64), np.empty({actions}, np.bool_),
        np.empty({outcomes}, np.float64), np.empty({players}, np.float64), np.empty({players}, np.float64), np.empty({actions}, np.float32), np.empty(1, STATE),
    )
    for t in range(trees * chunk // chunks, trees * (chunk + 1) // chunks):
        tree, states = tree_at(w, t), carray(at(w[STATES] + t * nodes * size), (nodes,), STATE)
        run_one(tree, states, seeds[t], begin, parameters, work, budgets[t])
'''
