"""Searches of games whose rules are Python objects: trees, policies and backups are compiled, positions and values are
Python's.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from ...adapters.python_game import PythonState
from ...errors import EvaluatorError, GameError, ReinforceError, SearchError
from ...game import CHANCE, Rules
from ...rules.fingerprint import fingerprint
from ...rules.wiring import wire
from ..context import context_of
from ..evaluators import Compiled, RandomRollout
from ..loops import functions
from ..loops import python as loop
from ..loops.functions import SearchFunctions, selection, update_of
from ..loops.simulation import FULL, KNOWN, NEW, expand_any, finish, keep_order, shuffle
from ..loops.solver import finish_proving
from ..network import Network
from ..policies import puct, scored, uct
from ..policies.gumbel import Gumbel
from ..policies.muzero_puct import MuZeroPUCT
from ..policies.scaled import finish_of
from ..tree import EDGES, ERROR_NODE, NODES, PROVEN, RAN, STATUS, TERMINAL
from .engine import Engine

if TYPE_CHECKING:
    from ..search import MCTS

__all__ = ["PythonEngine"]


class PythonEngine(Engine):
    """Simulations step by step: compiled code selects, Python plays and values.

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
        if isinstance(self._evaluator, RandomRollout) and self._evaluator.depth is not None:
            raise SearchError(
                f"MCTS: a rollout's depth is for games with compiled rules, {game.name} is played by Python "
                f"(adapters of environments have a horizon)"
            )
        self._game, self._policy = game, policy
        self.nodes_each = 2 if game.num_outcomes else 1
        made_of = SearchFunctions(
            rules=Rules(*[loop.written] * len(Rules._fields)),
            order=shuffle if policy.in_random_order else keep_order,
            expand=expand_any,
            select=selection(policy.function, True, search.solver),
            update=update_of(backup),
            finish=finish_of(policy, finish_proving if search.solver else finish),
            chances=loop.given_chances,
        )
        key = f"{policy.key} {'' if backup is None else fingerprint(backup)} {search.solver}"
        self._kernels = wire(
            "python_search",
            f"Search of games that Python plays. {key}",
            [loop.descend, loop.grow, loop.finish],
            {"search": made_of},
            [functions, puct, scored, uct],
        )
        self._solver, self._no_chances = search.solver, np.zeros((1, game.num_outcomes))
        self._parameters = np.zeros(16)
        self._parameters[: len(policy.parameters)] = policy.parameters
        self.clear()

    def clear(self):
        """See `Engine`."""
        game = self._game
        self._kept: dict[bytes, PythonState] = {}  # of all nodes
        self._mask, self._probabilities = np.zeros(game.num_actions, bool), np.zeros(game.num_outcomes)
        self._priors, self._values = np.zeros(game.num_actions, np.float32), np.zeros(game.num_players)
        self._batch = self._evaluator.batch(game, 1) if isinstance(self._evaluator, Network) else None

    def run(self, tree, states, budgets, seeds, begin):
        """See `Engine`."""
        if begin:
            used = {
                states[t, n].tobytes() for t, count in enumerate(tree.counts[:, NODES]) for n in range(max(count, 1))
            }
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
                loop.start(self._context, t, *seeds[t])
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
                        loop.undo(self._context, t, tree.counts[t, ERROR_NODE], nodes, edges)
                        tree.streams[t, 0] = before
                else:
                    tree.counts[t, RAN] += 1

    def _begin(self, t, begin):
        tree = self._tree
        self._path[0] = 0
        if tree.counts[t, NODES] == 0:
            state = self._state(t, 0)
            loop.attach(self._context, t, -1, -1, state.player, 0)
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
            loop.noise(self._context, t, *self._policy.dirichlet)
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
                raise GameError(
                    f"MCTS: {game.name} after {state.moves}: player must be 0 to {game.num_players - 1}, "
                    f"or CHANCE in a game with outcomes, got {player}"
                )
            depth = loop.attach(context, t, depth, edge, player, flags)
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
        return self._kernels.grow(self._context, t, node, loop.CHANCE if state.player == CHANCE else loop.PLAIN)

    def _value(self, t, node, state):
        """Evaluate a node that is not terminal; return a status."""
        evaluator, player = self._evaluator, state.player
        try:
            if isinstance(evaluator, RandomRollout):
                self._roll_out(state, evaluator.n, random.Random(int(loop.draw(self._context, t))))
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
        return self._kernels.grow(self._context, t, node, loop.WITH_PRIORS)

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
            priors, values = (
                out[0]
                for out in self._evaluator.evaluate(
                    where, self._game, state.observation()[None], self._mask[None].copy()
                )
            )
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
        what = (
            str(error)
            if isinstance(error, ReinforceError)
            else f"the game, or evaluator {self._evaluator!r}, raised {type(error).__name__}: {error}"
        )
        return kind(f"MCTS: {self._game.name} after {state.moves}: {what}")
