"""Batched leaves: simulations go down to leaves, one evaluator values them all at once, and their values are backed up.

Many leaves of one tree can be under way. A simulation under way counts among the visits of the nodes that it went
through, but not in their means, so that the next one turns to where fewer have gone (the "unobserved samples" of [1]_);
a new node that has no value yet takes the one of its parent. Where a simulation meets a node that another waits for, it
is taken back once its tree has sent out all others.

References
----------
.. [1] Liu, Chen, Yu, Zhai, Zhou and Liu, *Watch the unobserved: a simple approach to parallelizing Monte Carlo tree
   search*, ICLR 2020, eq. 4.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import GameError, SearchError
from ...game import Game
from ...rules.fingerprint import fingerprint
from ...rules.uncompilable import essence
from ...rules.wiring import wire
from ...vector.failures import Raised
from ..context import FIRST_FREE, context_of, run_chunks
from ..loops import batched as loop
from ..loops import functions
from ..loops.batched import COLUMNS, FAILED, LEFT, UNDONE, USED
from ..loops.functions import update_of
from ..loops.simulation import Sizes, keep_order, shuffle
from ..network import Network
from ..paths import moves_to
from ..policies import gumbel, muzero_puct, puct, scored, uct
from ..policies.gumbel import Gumbel
from ..policies.muzero_puct import MuZeroPUCT
from ..tree import STATUS, Tree
from .engine import Engine

if TYPE_CHECKING:
    from ..search import MCTS

__all__ = ["BatchedEngine", "batched_engine"]

SLICE = 0.1  # seconds that compiled code runs before Python may interrupt it


class BatchedEngine(Engine):
    """Searches whose evaluator takes many positions at once, with up to `leaves` leaves of one tree under way.

    `simulations` is the number of simulations of a whole search, for Gumbel's schedule.
    """

    sliced = False

    def __init__(self, game: Game, policy: Any, evaluator: Any, backup: Any, leaves: int, simulations: int):
        self.game, self.policy, self.evaluator, self.leaves = game, policy, evaluator, leaves
        self.nodes_each = 2 if game.num_outcomes else 1
        self.reserve = 2 * leaves * self.nodes_each, leaves * (game.num_actions + 2 * game.num_outcomes)
        self._rounds = 32
        self.clear()
        chance, schedule, formula = bool(game.num_outcomes), np.zeros((1, 1), np.int32), np.zeros(16)
        if isinstance(policy, (Gumbel, MuZeroPUCT)):
            formulas = gumbel if isinstance(policy, Gumbel) else muzero_puct
            schedule, formula = formulas.parameters(policy, simulations, game.num_actions)
            key, pick = formulas.__name__, loop.pick_by_formulas(formulas.choose_root, formulas.choose, chance)
            prepare = formulas.prepare_root
            conclude = loop.conclude(gumbel.conclude) if isinstance(policy, Gumbel) else loop.keep_root
        else:
            formula[: len(policy.parameters)] = policy.parameters
            key, pick = policy.key, loop.pick_by_policy(policy.function, chance)
            prepare, conclude = loop.leave_root, loop.keep_root
            if policy.dirichlet is not None:
                formula[loop.ALPHA : loop.ALPHA + 2] = policy.dirichlet
                key, prepare = f"{key} dirichlet", loop.add_dirichlet
        self._schedule, self._formula = schedule, formula
        made_of = loop.BatchedSearch(
            sizes=Sizes(game.max_length + 2, game.num_actions, game.num_outcomes, game.num_players),
            observation_shape=tuple(map(int, game.observation_shape)),
            patience=1 if isinstance(policy, Gumbel) else 2**31,
            rules=game.compiled,
            order=shuffle if policy.in_random_order else keep_order,
            pick=pick,
            update=update_of(backup),
            grow_chance=loop.grow_chance if chance else loop.refuse_chance,
            prepare_root=prepare,
            conclude=conclude,
        )
        key = f"{game.key} {key} {'' if backup is None else fingerprint(backup)}"
        self.kernels = wire(
            "leaves",
            f"Batched search of {game.name}. {key}",
            [loop.run, loop.start, loop.fill, loop.take, loop.finish],
            {"search": made_of, "dtype": game.dtype},
            [functions, gumbel, muzero_puct, puct, scored, uct],
            nogil=True,
        )

    def clear(self):
        """See `Engine`."""
        self.noise: np.ndarray | None = None
        self._found = np.zeros(0, np.int64), np.zeros((0, self.game.num_actions))
        self._parts: dict[int, list[_Part]] = {}

    def run(self, tree, states, budgets, seeds, begin):
        """See `Engine`."""
        trees, nodes = tree.totals.shape
        if self.noise is None or begin or len(self.noise) != trees:
            self.noise = np.zeros((trees, self.game.num_actions))
        inflight = np.zeros((trees, nodes), np.int32)
        self._found = np.zeros(trees, np.int64), np.zeros((trees, self.game.num_actions))
        tree.counts[:, STATUS] = 0
        python = not isinstance(self.evaluator, Network)
        size = trees if python else part_size(trees)
        made = self._parts.setdefault(size, [])
        made += [_Part(self, size) for _ in range(len(made) * size, trees, size)]
        parts = made[: -(-trees // size)]
        table = np.array([p.numbers(k * size, min((k + 1) * size, trees)) for k, p in enumerate(parts)], np.int64)
        context = context_of(
            tree,
            states,
            self._formula,
            budgets,
            seeds,
            int(begin),
            states.dtype.itemsize,
            inflight,
            self.noise,
            self._schedule,
            *self._schedule.shape,
            table,
            *self._found,
        )
        while not python:
            began = time.perf_counter()
            table[:, LEFT] = self._rounds
            try:
                with Raised() as raised:
                    run_chunks(self.kernels.run, context, len(parts))
            except Exception as error:  # noqa: BLE001  of Numba, or of a rule, which may raise anything
                self._failed(error)
            if raised.errors:
                self._failed(raised.errors[0])
            for part, row in zip(parts, table, strict=True):
                if row[FAILED] and part.batch is not None:
                    part.batch.failed()
            if not table[:, [USED, UNDONE]].any():
                return
            context[FIRST_FREE + 3] = False
            self._rounds = int(max(self._rounds * min(SLICE / max(time.perf_counter() - began, 1e-9), 8.0), 1))
        try:
            self.kernels.start(context)
        except Exception as error:  # noqa: BLE001
            self._failed(error)
        while True:
            try:
                self.kernels.fill(context)
            except Exception as error:  # noqa: BLE001
                self._failed(error)
            if not table[0, [USED, UNDONE]].any():
                self.kernels.finish(context)
                return
            if used := int(table[0, USED]):
                table[0, COLUMNS] = parts[0].call(tree, used)
                self.kernels.take(context)

    def _failed(self, error):
        """Raise what a rule of the game has raised in compiled code, or why the search cannot be compiled."""
        from numba.core.errors import NumbaError

        if isinstance(error, NumbaError):
            raise SearchError(
                f"MCTS: the search of {self.game.name} with policy {self.policy!r} cannot be compiled: {essence(error)}"
            ) from error
        raise GameError(f"MCTS: {self.game.name}: a rule raised {type(error).__name__}: {error}") from error

    def results(self, tree: Tree) -> tuple[np.ndarray, np.ndarray] | None:
        """(actions, policies) at the roots where the policy has its own way to find them, else None."""
        return self._found if isinstance(self.policy, Gumbel) else None


def part_size(trees: int) -> int:
    """Trees that a thread works on at a time.

    A few sizes, which do not depend on the threads: a network is compiled for each, and its last bits may depend on it.
    """
    return 1 if trees == 1 else 4 if trees < 64 else 16 if trees < 512 else 32


class _Part:
    """Working memory of a thread: the leaves of `trees` trees, and the network's program on them."""

    def __init__(self, engine, trees):
        self.engine, game, self.rows = engine, engine.game, trees * engine.leaves
        self.batch = None
        if isinstance(engine.evaluator, Network):
            self.batch = engine.evaluator.batch(game, self.rows)
            (self.observations, self.masks), (self.priors, self.values) = self.batch.inputs, self.batch.outputs
            self.columns = self.values.shape[1]
        else:
            self.observations, self.masks = (
                np.zeros((self.rows, *game.observation_shape), np.float32),
                np.zeros((self.rows, game.num_actions), bool),
            )
            self.priors, self.values = (
                np.zeros((self.rows, game.num_actions), np.float32),
                np.zeros(self.rows * game.num_players, np.float32),
            )
            self.columns = 1
        self.leaves = np.zeros((self.rows, 2), np.int64)

    def numbers(self, first, end):
        """A row of the table, for trees `first` ... `end` - 1."""
        arrays = [a.ctypes.data for a in (self.observations, self.masks, self.priors, self.values, self.leaves)]
        calls, size = 0, 1
        if self.batch is not None:
            if self.batch.params is not self.engine.evaluator.params:
                self.batch.set_params(self.engine.evaluator.params)
            self.batch.refresh()
            calls, size = self.batch.calls.ctypes.data, self.batch.size
        return [first, end, self.rows, 0, *arrays, self.columns, calls, size, self.engine.leaves, 0, 0, 0]

    def call(self, tree, used):
        """Have the Python evaluator value the first `used` rows; returns how many values it gives for each."""
        t, node = self.leaves[0]
        where = (
            f"{self.engine.game.name}: evaluator, called with {used} position{'s' * (used > 1)}, the first of which is "
            f"{moves_to(tree, t, node)} from the root"
        )
        priors, values = self.engine.evaluator.evaluate(
            where, self.engine.game, self.observations[:used].copy(), self.masks[:used].copy()
        )
        self.priors[:used], self.values[: values.size] = priors, values.ravel()
        return values.shape[1]


def batched_engine(search: MCTS, backup: Any, leaves: int) -> BatchedEngine:
    """The engine of a search whose evaluator takes batches."""
    own = isinstance(search.policy, (Gumbel, MuZeroPUCT))
    if search.solver:
        raise SearchError(f"MCTS: solver needs an evaluator that is compiled into the search, got {search.evaluator!r}")
    if isinstance(search.policy, Gumbel) and (
        search.simulations is None or search.seconds is not None or search.memory is not None
    ):
        raise SearchError(
            "MCTS: Gumbel divides a number of simulations among actions, it needs simulations=, and "
            "neither seconds nor memory"
        )
    if own and search.threads > 1:
        raise SearchError(
            f"MCTS: {type(search.policy).__name__} grows one tree for each root, got threads={search.threads}"
        )
    return BatchedEngine(search.game, search.policy, search.evaluator, backup, leaves, search.simulations or 1)
