"""Searches of games whose rules are Python objects: trees, policies and backups are compiled, positions and values are
Python's.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import inner, load_module

from ...adapters.python_game import PythonState
from ...errors import EvaluatorError, GameError, ReinforceError, SearchError
from ...fingerprint import fingerprint
from ...game import CHANCE
from ..context import context_of
from ..evaluators import Compiled, RandomRollout
from ..loops.simulation import FULL, KNOWN, NEW
from ..network import Network
from ..policies.gumbel import Gumbel
from ..policies.muzero_puct import MuZeroPUCT
from ..tree import EDGES, ERROR_NODE, NODES, PROVEN, RAN, STATUS, TERMINAL
from .engine import Engine

if TYPE_CHECKING:
    from ..search import MCTS

__all__ = ["PythonEngine"]

_CHANCE, _PLAIN, _WITH_PRIORS = 0, 1, 2  # what the edges of a node are made of


class PythonEngine(Engine):
    """Simulations step by step: compiled code selects, Python plays and values. Serves one search.

    Evaluators are random rollouts, a `Network` or function of batches (called with one position), or a Python function
    ``evaluate(state, values)`` or ``evaluate(state, values, priors)`` as in compiled searches, where `state` is a
    `PythonState`.
    """

    def __init__(self, search: MCTS, backup: Any, leaves: int):
        game: Any = search.game
        policy, self._evaluator = search.policy, search.evaluator
        if leaves > 1 or isinstance(policy, (Gumbel, MuZeroPUCT)):
            what = f"parallel_leaves={leaves}" if leaves > 1 else f"policy {policy!r}"
            raise SearchError(f"MCTS: {what} is for games with compiled rules, {game.name} is played by Python")
        self._game, self._policy = game, policy
        self.nodes_each = 2 if game.num_outcomes else 1
        self._kept: dict[bytes, PythonState] = {}  # of all nodes
        names = {"policy": policy.function}
        if backup is not None:
            names["user_backup"] = inner(backup)
        source = _SOURCE.format(
            key=" ".join([policy.key, "" if backup is None else fingerprint(backup)]),
            order="shuffle(tree, node)" if policy.in_random_order else "pass",
            chosen="policy(tree, node, parameters, stream)"
            if policy.parameters
            else "select_scored(policy, tree, node)",
            update="total + value"
            if backup is None
            else "user_backup(total / max(visits - 1, 1), visits, value) * visits",
            solver=search.solver,
            back_up="back_up_proven" if search.solver else "back_up",
            select="select_open(chosen_any, tree, node, parameters, work, depth)"
            if search.solver
            else "chosen_any(tree, node, parameters, tree.streams)",
        )
        self._kernels = load_module(source, "python_search", names)
        self._solver, self._no_chances = search.solver, np.zeros((1, game.num_outcomes))
        self._parameters = np.zeros(16)
        self._parameters[: len(policy.parameters)] = policy.parameters
        self._mask, self._probabilities = np.zeros(game.num_actions, bool), np.zeros(game.num_outcomes)
        self._priors, self._values = np.zeros(game.num_actions, np.float32), np.zeros(game.num_players)
        self._batch = self._evaluator.batch(game, 1) if isinstance(self._evaluator, Network) else None

    def run(self, tree, states, budgets, seeds, begin):
        """See `Engine`."""
        if begin:
            used = {states[t, n].tobytes() for t,
                    count in enumerate(tree.counts[:, NODES]) for n in range(max(count, 1))}
            self._kept = {key: self._game.known[key] for key in used}
        longest = states.shape[1] + 2
        self._path, self._movers, self._counted = (np.zeros(longest, np.int64) for _ in range(3))
        self._tree, self._states = tree, states
        self._context = context_of(
            tree,
            states,
            self._parameters,
            self._mask,
            self._probabilities,
            self._priors,
            self._values,
            self._path,
            self._movers,
            self._counted,
            *(len(a) for a in (self._mask, self._probabilities, self._values)),
        )
        for t in range(len(budgets)):
            if begin:
                self._kernels.start(self._context, t, *seeds[t])
            tree.counts[t, STATUS] = self._begin(t, begin)
            while (
                tree.counts[t, STATUS] == NEW
                and tree.counts[t, RAN] < budgets[t]
                and not tree.links[t, 0]["flags"] & PROVEN
            ):
                before, (nodes, edges) = tree.streams[t, 0], tree.counts[t, [NODES, EDGES]]
                status = self._simulate(t)
                if status >= FULL:
                    tree.counts[t, STATUS] = status
                    if status == FULL:
                        self._kernels.undo(self._context, t, tree.counts[t, ERROR_NODE], nodes, edges)
                        tree.streams[t, 0] = before
                else:
                    tree.counts[t, RAN] += 1

    def _begin(self, t, begin):
        tree = self._tree
        self._path[0] = 0
        if tree.counts[t, NODES] == 0:
            state = self._state(t, 0)
            self._kernels.attach(self._context, t, -1, -1, state.player, 0)
            if self._evaluator.gives_priors:
                status = self._value(t, 0, state)
                if status != NEW:
                    return status
                self._movers[0] = state.player
                status = self._kernels.finish(self._context, t, 0, False, self._no_chances)
                if status != NEW:
                    return status
        if begin and self._policy.dirichlet is not None:
            if tree.links[t, 0]["first_edge"] < 0 and (status := self._grow(t, 0, self._state(t, 0))) != NEW:
                return status
            self._kernels.noise(self._context, t, *self._policy.dirichlet)
        return NEW

    def _simulate(self, t):
        tree, kernels, context, game, path = self._tree, self._kernels, self._context, self._game, self._path
        depth, path[0], self._movers[0] = 0, 0, tree.links[t, 0]["player"]
        while True:
            depth, edge, status = kernels.descend(context, t, depth)
            node = int(path[depth])
            tree.counts[t, ERROR_NODE] = node
            if status == KNOWN:
                break
            state = self._state(t, node)
            if edge < 0:
                if (status := self._grow(t, node, state)) != NEW:
                    return status
                continue
            if (
                tree.counts[t, NODES] == self._states.shape[1]
                or tree.counts[t, EDGES] + game.num_actions > tree.children.shape[1]
            ):
                return FULL
            try:
                state = state.child(int(tree.actions[t, edge]))
                player, flags = (0, TERMINAL) if state.terminal else (state.player, 0)
            except Exception as error:
                raise self._failure(state, error) from error
            if not (-1 if game.num_outcomes else 0) <= player < game.num_players:
                raise GameError(f"MCTS: {game.name} after {state.moves}: player must be 0 to {game.num_players - 1}, "
                                f"or CHANCE in a game with outcomes, got {player}")
            depth = kernels.attach(context, t, depth, edge, player, flags)
            node = int(path[depth])
            self._kept[state.data.tobytes()] = state
            self._states[t, node] = state.data[0]
            tree.counts[t, ERROR_NODE] = node
            if flags:
                status = KNOWN
                break
            if player != CHANCE:
                if (status := self._value(t, node, state)) != NEW:
                    return status
                break
        if status == KNOWN and tree.links[t, node]["flags"] & TERMINAL:
            self._values[:] = self._state(t, node).returns
        exact = self._no_chances
        if status == KNOWN and self._solver and game.num_outcomes:
            exact = np.array([self._chances(t, int(n)) for n in path[:depth]]).reshape(depth, game.num_outcomes)
        return kernels.finish(context, t, depth, status == KNOWN, exact)

    def _chances(self, t, node):
        """(num_outcomes,) probabilities of a node; 0 where a player is to move."""
        return self._state(t, node).chance if self._tree.links[t, node]["player"] < 0 else self._no_chances[0]

    def _state(self, t, node):
        return self._kept[self._states[t, node].tobytes()]

    def _grow(self, t, node, state):
        """Edges for what is legal, or can happen."""
        try:
            if state.player == CHANCE:
                self._probabilities[:] = state.chance
            else:
                self._mask[:] = state.legal_mask
        except Exception as error:
            raise self._failure(state, error) from error
        return self._kernels.grow(self._context, t, node, _CHANCE if state.player == CHANCE else _PLAIN)

    def _value(self, t, node, state):
        """Evaluate a node that is not terminal; return a status."""
        evaluator, player = self._evaluator, state.player
        try:
            if isinstance(evaluator, RandomRollout):
                self._roll_out(state, evaluator.n, random.Random(int(self._kernels.draw(self._context, t))))
            elif isinstance(evaluator, Compiled):
                # those that it leaves unwritten are not taken for what stood there before
                self._values[:] = self._priors[:] = np.nan
                evaluator.python(state, self._values, *[self._priors][: evaluator.gives_priors])
            else:
                self._mask[:] = state.legal_mask
                self._call(state, player)
        except Exception as error:
            raise self._failure(state, error) from error
        self._tree.values[t, node] = self._values[player]
        if not evaluator.gives_priors:
            return NEW
        self._mask[:] = state.legal_mask
        return self._kernels.grow(self._context, t, node, _WITH_PRIORS)

    def _call(self, state, player):
        """A network or a function of batches."""
        if self._batch is not None:
            batch = self._batch
            if batch.params is not self._evaluator.params:
                batch.set_params(self._evaluator.params)
            batch.inputs[0][0], batch.inputs[1][0] = state.observation(), self._mask
            batch.run()
            priors, values = (out[0] for out in batch.outputs)
        else:
            where = f"MCTS: {self._game.name} after {state.moves}: evaluator"
            priors, values = (out[0]
                              for out in self._evaluator.evaluate(where, self._game, state.observation()[None],
                                                                  self._mask[None].copy()))
        self._priors[:] = priors
        if len(values) == len(self._values):
            self._values[:] = values
        else:  # of two players: for who is to move
            self._values[player], self._values[1 - player] = values[0], -values[0]

    def _roll_out(self, state, count, rng):
        game = self._game
        self._values[:] = 0.0
        for _ in range(count):
            position, moves = game.copy(state.position), 0
            while not game.terminal(position):
                if game.player(position) == CHANCE:
                    outcomes, weights = zip(*game.chance(position), strict=True)
                    action = rng.choices(outcomes, weights)[0]
                else:
                    legal = game.legal_actions(position)
                    if not legal:
                        raise GameError(f"after {moves} more moves no action is legal, but the game is not over")
                    action = legal[int(rng.random() * len(legal))]
                game.step(position, action)
                moves += 1
                if moves > game.max_length:
                    raise GameError(f"a game from there had more than max_length = {game.max_length} moves")
            self._values += np.asarray(game.returns(position), float) / count

    def _failure(self, state, error):
        kind = type(error) if isinstance(error, ReinforceError) else EvaluatorError
        what = str(error) if isinstance(
            error, ReinforceError
        ) else f"the game, or evaluator {self._evaluator!r}, raised {type(error).__name__}: {error}"
        return kind(f"MCTS: {self._game.name} after {state.moves}: {what}")


_SOURCE = '''"""Search of games that Python plays. {key}"""
import numpy as np
from numba import carray

from triskele.core.extend import inner, kernel
from triskele.reinforce import random
from triskele.reinforce.game import Rules
from triskele.reinforce.mcts.context import FIRST_FREE, NODE_CAPACITY, at, tree_at
from triskele.reinforce.mcts.loops.simulation import (
    KNOWN, NEW, NOT_FINITE, NOT_ZERO_SUM, Work, add_noise, back_up, expand, expand_any, expand_with, finite, select_any, shuffle, take_back,
)
from triskele.reinforce.mcts.loops.select import draw_outcome, select_scored
from triskele.reinforce.mcts.loops.solver import back_up_proven, provable, prove, select_open
from triskele.reinforce.mcts.tree import PROVEN, TERMINAL, add_node


@inner
def written(state, out):  # mask and probabilities stand there already
    pass


rules = Rules(written, written, written, written, written, written, written, written, written)


@inner
def order(tree, node):
    {order}


@inner
def chosen(tree, node, parameters, stream):
    return {chosen}


@inner
def chosen_any(tree, node, parameters, stream):
    return select_any(chosen, draw_outcome, tree, node, parameters, stream)


@inner
def select(tree, node, parameters, work, depth):
    return {select}


@inner
def update(total, visits, value):
    return {update}


@inner
def parts(w, t):
    a, longest = FIRST_FREE, w[NODE_CAPACITY] + 2
    actions, outcomes, players = w[a + 8], w[a + 9], w[a + 10]
    values = carray(at(w[a + 4]), (players,), np.float64)
    work = Work(
        carray(at(w[a + 5]), (longest,), np.int64), carray(at(w[a + 6]), (longest,), np.int64), carray(at(w[a + 7]), (longest,), np.int64), carray(at(w[a + 1]), (actions,), np.bool_),
        carray(at(w[a + 2]), (outcomes,), np.float64), values, values, carray(at(w[a + 3]), (actions,), np.float32), carray(at(w[a + 5]), (longest,), np.int64),
    )
    return tree_at(w, t), carray(at(w[a]), (16,), np.float64), work


@kernel
def start(context, t, seed, number):
    random.start(parts(context, t)[0].streams, seed, number, 0)


@kernel
def draw(context, t):
    return random.bits(parts(context, t)[0].streams)


@kernel
def noise(context, t, alpha, fraction):
    tree, parameters, work = parts(context, t)
    add_noise(tree, alpha, fraction, work.priors)


@kernel
def descend(context, t, depth):
    """From path[depth] down to a node without edges, a free edge, or what is known: depth of the node, edge or -1, status."""
    tree, parameters, work = parts(context, t)
    while True:
        node = work.path[depth]
        link = tree.links[node]
        if link.flags != 0:
            return depth, np.int64(-1), KNOWN
        if link.first_edge < 0:
            return depth, np.int64(-1), NEW
        edge = np.int64(select(tree, node, parameters, work, depth))
        child = np.int64(tree.children[edge])
        if child < 0:
            return depth, edge, NEW
        work.movers[depth + 1] = link.player if link.player >= 0 else work.movers[depth]
        depth += 1
        work.path[depth] = child


@kernel
def attach(context, t, depth, edge, player, flags):
    """A node below path[depth], or the root; the depth of the new node. There must be room."""
    tree, parameters, work = parts(context, t)
    if depth < 0:
        work.path[0] = add_node(tree, -1, -1, player, flags)
        return depth + 1
    node = work.path[depth]
    mover = tree.links[node].player
    work.movers[depth + 1] = mover if mover >= 0 else work.movers[depth]
    work.path[depth + 1] = add_node(tree, node, edge, player, flags)
    return depth + 1


@kernel
def grow(context, t, node, kind):
    tree, parameters, work = parts(context, t)
    if kind == 2:
        return expand_with(rules, order, tree, work.scratch, node, work)
    return expand_any(rules, order, tree, work.scratch, node, work)


@inner
def chances(exact, work, d):
    for k in range(len(work.probabilities)):
        work.probabilities[k] = exact[d, k]


@kernel
def finish(context, t, depth, known, exact):
    """Back work.values up; a status. `exact` holds the probabilities of chance nodes on the path."""
    tree, parameters, work = parts(context, t)
    node = work.path[depth]
    flags = tree.links[node].flags
    if known and flags & PROVEN and not flags & TERMINAL:
        value = tree.totals[node] / tree.stats[node].visits
        for p in range(len(work.values)):
            work.values[p] = value if p == work.movers[depth] else -value
    if not finite(work.values):
        return NOT_FINITE
    if {solver} and known and not provable(work.values):
        return NOT_ZERO_SUM
    {back_up}(update, tree, work, depth)
    if {solver} and known:
        prove(chances, tree, exact, work, depth)
    return NEW


@kernel
def undo(context, t, node, nodes, edges):
    take_back(parts(context, t)[0], node, nodes, edges)
'''
