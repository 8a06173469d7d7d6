"""`MCTS`: tree search for any game, with any policy, evaluator and backup."""

from __future__ import annotations

import inspect
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..adapters.python_game import PythonGame
from ..errors import SearchError
from ..game import Game, State, as_records, look
from ..policy import Policy
from ..rules.discounted import from_here
from ..rules.fingerprint import plain, required
from .engines.batched import batched_engine
from .engines.compiled import CompiledEngine
from .engines.engine import Engine
from .engines.python import PythonEngine
from .evaluators import RandomRollout, as_evaluator
from .failures import check_backup, check_scores, raise_failure
from .loops.simulation import FULL
from .memory import MOST, Memory, room
from .network import BatchFunction, Network
from .policies.gumbel import Gumbel
from .policies.muzero_puct import MuZeroPUCT
from .policies.puct import PUCT
from .policies.scored import Scored, as_policy
from .policies.uct import UCT
from .result import SearchResult
from .reuse import copy_trees, keep_subtrees
from .tree import NODES, RAN, STATUS, check_limits

__all__ = ["MCTS"]

_SLICE = 0.1  # seconds that compiled code runs before Python may interrupt it


def _fixed(name: str) -> Any:
    """An attribute that is compiled into a search."""

    def refuse(self, value):
        raise SearchError(f"MCTS: {name} is compiled into the search and cannot be changed (make another MCTS)")

    return property(operator.attrgetter(f"_{name}"), refuse)


class MCTS:
    """Monte-Carlo tree search.

    The search is one compiled kernel; only another game, policy, evaluator or backup requires a new one. Several Python
    threads may call one search; `advance` is for one thread.

    Parameters
    ----------
    game : Game
        Or a game of an adapter, whose rules Python plays; then an evaluator is Python's too (see `python_engine`).
    simulations : int, optional
        Number of simulations in each search; 1,000 if neither `seconds` nor `memory` is given.
    seconds : float, optional
        Time after which a search starts no further simulation, approximately.
    memory : int, optional
        Largest size of trees and their positions, in bytes; a search ends when it is reached.
    policy : UCT, PUCT, Gumbel, MuZeroPUCT or function
        A function ``score(mean, visits, prior, parent_visits)`` makes the search take the action of the highest score.
        Defaults to UCT, or to PUCT if the evaluator is a Policy.
    evaluator : RandomRollout, Network, Policy, or function
        Of a policy, such as ``agent.policy``, the search uses the probabilities as priors, and the values where its
        network has them (`AlphaZero`'s); otherwise positions that are not over count as 0. Functions are
        ``evaluate(state, values)`` or ``evaluate(state, values, priors)``, see `evaluators.Compiled`; or a Python
        function ``evaluate(observations) -> (logits, values)`` of a batch, see `network.BatchFunction`.
    parallel_leaves : int
        With a Network or a function of batches: how many leaves of one tree may wait for their values at once.
    backup : function, optional
        ``backup(mean, visits, value)``: new mean of a node whose `visits`-th visit returned `value`. Defaults to
        the mean of all values.
    solver : bool
        Prove wins, losses and draws (MCTS-Solver), for two players whose returns sum to 0, from -1 to 1; for one
        player, prove the best of any returns, once nothing is left that could be better.
    seed : int
        The same seed gives the same search, independent of the number of other roots and threads.
    threads : int
        Number of trees grown for each root. They share the simulations, and their visits are summed.
    temperature : float, optional
        If 0, play the most visited action; otherwise draw actions in proportion to visits ** (1 / temperature).
        Defaults to 0, or to the temperature of a MuZeroPUCT. Gumbel chooses by its own rule.

    Raises
    ------
    SearchError, EvaluatorError, GameError
        If the combination of arguments is not supported.

    References
    ----------
    Kocsis and Szepesvári, *Bandit based Monte-Carlo planning*, ECML 2006. Silver et al., Science 362 (2018) 1140.
    Winands, Björnsson and Saito, *Monte-Carlo tree search solver*, CG 2008.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> game = rl.games.TicTacToe()
    >>> search = rl.MCTS(game, simulations=1000, policy=rl.UCT(c=1.4), seed=0)
    >>> state = game.initial_state().play(0, 3, 1, 4)  # x wins by 2, as o would by 5
    >>> search(state).action
    2
    """

    seconds: float | None
    memory: int | None
    _simulations: int | None
    _policy: Any
    game, policy, evaluator, backup, solver, threads = map(
        _fixed, ("game", "policy", "evaluator", "backup", "solver", "threads")
    )

    @property
    def simulations(self) -> int | None:
        """Number of simulations in each search. It may be changed, except with `Gumbel`, whose schedule is fixed."""
        return self._simulations

    @simulations.setter
    def simulations(self, value: int | None) -> None:
        _check("simulations", value, 1, int, optional=self.seconds is not None or self.memory is not None)
        if isinstance(self._policy, Gumbel):
            raise SearchError("MCTS: simulations of a Gumbel search cannot be changed (make another MCTS)")
        self._simulations = value

    @property
    def temperature(self) -> float:
        """Temperature of the choice of actions."""
        return self._temperature

    @temperature.setter
    def temperature(self, value: float) -> None:
        _check("temperature", value, 0, float)
        if value > 0 and isinstance(self._policy, Gumbel):
            raise SearchError(
                f"MCTS: temperature must be 0 with Gumbel, which draws actions by its own rule, got "
                f"{value!r} (Gumbel(gumbel_scale=...) is the scale of its noise)"
            )
        self._temperature = value

    def __init__(
        self,
        game: Game,
        simulations: int | None = None,
        *,
        seconds: float | None = None,
        memory: int | None = None,
        policy: Any = None,
        evaluator: Any = None,
        backup: Callable | None = None,
        solver: bool = False,
        seed: int = 0,
        threads: int = 1,
        temperature: float | None = None,
        parallel_leaves: int = 1,
    ):
        self._given = {k: v for k, v in locals().items() if k != "self"}
        check.kind(
            game,
            (Game, PythonGame),
            "MCTS: game",
            "a Game",
            error=SearchError,
            hint="rl.games has some; rl.from_openspiel and others take those of other libraries",
        )
        check_limits("MCTS", game.name, game.num_players, game.num_actions, game.num_outcomes)
        _check("simulations", simulations, 1, int, optional=True)
        _check("seconds", seconds, 0, float, optional=True)
        _check("memory", memory, 1, int, optional=True)
        _check("threads", threads, 1, int)
        _check("parallel_leaves", parallel_leaves, 1, int)
        _check("seed", seed, -(2**63), int)
        if simulations is None and seconds is None and memory is None:
            simulations = 1000
        if backup is not None and required(backup := plain(backup)) != 3:
            raise SearchError(
                f"MCTS: a backup is a function (mean, visits, value) -> mean, got "
                f"{backup.__name__}{inspect.signature(backup)}"
            )
        if solver and game.num_players > 2:
            raise SearchError(f"MCTS: solver is for games of one or two players, {game.name} has {game.num_players}")
        self._game, self._simulations = game, simulations
        self.seconds, self.memory = seconds, memory
        if policy is None:
            policy = PUCT() if isinstance(evaluator, Policy) else UCT()
        self._policy, self._evaluator = (
            as_policy(policy),
            as_evaluator(RandomRollout() if evaluator is None else evaluator),
        )
        self._backup, self._solver, self.seed, self._threads = backup, solver, seed, threads
        self.temperature = getattr(self._policy, "temperature", 0.0) if temperature is None else temperature
        if isinstance(game, PythonGame):
            self._engine: Engine = PythonEngine(self, backup, parallel_leaves)
        elif isinstance(self._evaluator, (Network, BatchFunction)):
            if game.reward is not None:
                raise SearchError(
                    f"MCTS: {game.name} has rewards, for which evaluators are rollouts or compiled functions, got "
                    f"{self._evaluator!r}"
                )
            if getattr(self._policy, "normalize", False):
                raise SearchError("MCTS: normalize is not for networks and functions of batches (MuZeroPUCT scales)")
            self._engine = batched_engine(self, backup, parallel_leaves)
        elif parallel_leaves > 1 or isinstance(self._policy, (Gumbel, MuZeroPUCT)):
            what = f"parallel_leaves={parallel_leaves}" if parallel_leaves > 1 else f"policy {self._policy!r}"
            raise SearchError(
                f"MCTS: {what} needs a Network or a function of batches as evaluator, got {self._evaluator!r}"
            )
        else:
            self._engine = CompiledEngine(game, self._policy, self._evaluator, backup, solver)
        self._engines: list[Engine] = [self._engine]  # that are not at work: each search takes one
        self._step = 256  # simulations of all trees together in the next call of compiled code
        self._memories: list[Memory] = []  # that serve again
        self._last: Memory | None = None  # of the last search
        self._kept: Memory | None = None  # what `advance` has left of it

    def __call__(self, states: State | Sequence[State] | np.ndarray, seed: int | None = None) -> SearchResult:
        """Search from one position, or from several at once.

        Parameters
        ----------
        states : State, sequence of State, or (N,) records of `game.dtype`
        seed : int, optional
            Overrides the seed of the search. Position k of several is number k of the seed.

        Raises
        ------
        SearchError
            If a game is over, if chance is to move, or if there is no room for a simulation.
        EvaluatorError, GameError
            If evaluator or rules fail on a position; its moves are named.
        """
        start, game = time.perf_counter(), self._game
        if seed is not None:
            _check("seed", seed, -(2**63), int)
        check.kind(
            states,
            (State, np.ndarray, Sequence),
            "MCTS: states",
            "a State, several of them, or records",
            error=SearchError,
        )
        if not isinstance(states, State) and getattr(states, "ndim", 1) > 0 and not len(states):
            raise SearchError("MCTS: there must be at least one position to search, got none")
        roots, single = as_records(game, states, "MCTS")
        if game.reward is not None:
            from_here(roots)
        if isinstance(states, State):
            moves = [states.moves]
        elif isinstance(states, np.ndarray):
            moves = [()] * len(roots)
        else:
            moves = [s.moves for s in states]
        self._check_roots(roots, moves, states)
        memory = self._prepare(np.repeat(roots, self._threads) if self._threads > 1 else roots)
        try:
            engine: Engine = self._engines.pop()
        except IndexError:  # other Python threads search
            engine = self._engine.another()
        try:
            memory = self._last = self._run(engine, memory, moves, self.seed if seed is None else seed, start)
            if isinstance(self._policy, Scored):
                check_scores(game, self._policy, memory.tree, memory.states, moves, self._threads)
            if self._backup is not None:
                check_backup(self._game, self._backup, memory.tree, memory.states, moves, self._threads)
            numbers = memory.conclude()
            if memory.coarse:
                self._check_resolution(
                    np.nanmax(np.abs(numbers[len(moves) * game.num_actions : 2 * len(moves) * game.num_actions]))
                )
            return SearchResult(game, numbers, memory, moves, single, engine.results(memory.tree))
        finally:
            self._engines.append(engine)
            memory.lock.release()

    def advance(self, actions: Any) -> None:
        """Keep the subtree of the last search below an action (or an outcome of chance), for the next search.

        `Gumbel`, whose sequential halving shares out the visits from the first on, keeps nothing, and neither do games
        with rewards, whose values count from the root on.

        Parameters
        ----------
        actions : int, or (N,) int
            One for each root of the last search. The next search takes the kept tree where it asks for that position,
            and starts from scratch if it asks for another.

        Raises
        ------
        SearchError
            If there has been no search, or an action is not legal at its root.
        """
        old = self._kept if self._kept is not None else self._last
        if old is None:
            raise SearchError("MCTS.advance: there has been no search to keep a tree of")
        given = np.atleast_1d(np.asarray(actions))
        if given.ndim != 1 or given.dtype.kind not in "iu" or len(given) * self._threads != old.shape[0]:
            raise SearchError(
                f"MCTS.advance: actions must be {old.shape[0] // self._threads} integers, one for each "
                f"root, got {actions!r}"
            )
        given = np.repeat(given, self._threads).astype(np.int64)
        self._check_moves(old, given)
        if isinstance(self._policy, Gumbel) or self._game.reward is not None:
            return
        nodes, edges = self._room(old.shape[0])
        used = old.tree.counts[:, :2].max(axis=0)
        new = self._take(old.shape[0], int(used[0]) + nodes, int(used[1]) + edges, old)
        keep_subtrees(old, given, new)
        new.lock.release()
        self._kept = new

    def _check_resolution(self, largest):
        """Raise an error unless the exploration of the policy is wider than the steps between float32 numbers as large
        as the values.
        """
        parameters = getattr(self._policy, "parameters", (0.0,))
        if (
            not parameters or getattr(self._policy, "normalize", False) or parameters[0] > 100 * 2.0**-24 * largest
        ):  # a user's score is given float64
            return
        raise SearchError(
            f"MCTS: values of about {largest:.3g} in {self._game.name} differ by hardly more than their "
            f"float32 means are rounded by, which the selection "
            "compares (subtract what all returns have in common, or divide them)"
        )

    def _check_moves(self, memory, moves):
        """Raise an error unless each of these can be played at the root of its tree."""
        held = np.flatnonzero(memory.tree.counts[:, NODES] > 0)  # of the others even the position is not known
        game, (players, over, masks, probabilities) = self._game, look(self._game, memory.states[held, 0])
        for k, move in enumerate(moves[held]):
            allowed = probabilities[k] > 0 if players[k] < 0 else masks[k]
            if over[k] or not 0 <= move < len(allowed) or not allowed[move]:
                where = f" {held[k] // self._threads}" if len(memory.tree.counts) > self._threads else ""
                raise SearchError(
                    f"MCTS.advance: an action must be allowed at the root, but {move} is not in "
                    f"position{where} of {game.name}"
                )

    def _check_roots(self, roots, moves, states):
        """Raise an error where there is nothing to search."""
        n, game = len(roots), self._game
        if isinstance(states, State):
            if not states.terminal and 0 <= states.player < game.num_players and True in states.legal_mask:
                return
            players, over, masks = np.array([states.player]), np.array([states.terminal]), states.legal_mask[None]
        else:
            players, over, masks, _ = look(game, roots)
        for bad, what in (
            (over, "the game is over"),
            (~over & (players < 0), "chance is to move (play an outcome first)"),
            (~over & (players >= game.num_players), f"the player to move is not one of {game.num_players}"),
            (~over & (players >= 0) & ~masks.any(axis=1), "no action is legal"),
        ):
            if bad.any():
                k = int(np.argmax(bad))
                raise SearchError(
                    f"MCTS: {game.name} after {moves[k]}{f' (position {k})' if n > 1 else ''}: {what}, "
                    f"there is nothing to search"
                )

    def _room(self, trees):
        """Return the numbers of nodes and edges that a search usually needs in each of that many trees."""
        simulations = -(-(self._simulations or 1000) // self._threads)
        return room(self._game, trees, simulations, self._engine.nodes_each, self.memory)

    def _take(self, trees, nodes, edges, source=None):
        """Return locked memory for that many trees: that of an earlier search whose results are no longer in use,
        or a new one.
        """
        for memory in self._memories:
            fits = memory.shape[0] == trees and memory.shape[1] >= nodes and memory.shape[2] >= edges
            if self.memory is not None:  # its size decides when a search ends
                fits = memory.shape == (trees, nodes, edges)
            if fits and memory is not source and memory.lock.acquire(blocking=False):
                if memory.free:  # of a result too, which a search in another thread may just have given
                    memory.tree.counts[:] = 0
                    return memory
                memory.lock.release()
        try:
            memory = Memory(self._game, trees, nodes, edges, self._threads)
        except MemoryError as error:
            raise SearchError(
                f"MCTS: no memory for {trees} trees of {nodes} nodes (bound the search by memory=)"
            ) from error
        memory.lock.acquire()
        self._memories = [memory] if source is None else [memory, source]
        return memory

    def _prepare(self, roots):
        """A locked memory with trees for these roots, those that were kept among them."""
        count, kept = len(roots), self._kept
        roots = roots.view(np.uint8).reshape(count, -1)
        if kept is not None and not (kept.shape[0] == count and kept.lock.acquire(blocking=False)):
            kept = None
        if kept is not None and self._kept is not kept:  # a search in another thread has taken it
            kept.lock.release()
            kept = None
        self._kept = None
        if kept is None:
            memory = self._take(count, *self._room(count))
        else:
            memory = kept
            memory.tree.counts[(memory.roots != roots).any(axis=1)] = 0
        memory.roots[:] = roots
        return memory

    def _run(self, engine, memory, moves, seed, start):
        """Simulations in slices, between which larger arrays are made, time is looked at, and Python can interrupt."""
        sliced, before, waiting, begin = engine.sliced or self.seconds is not None, 0, memory.shape[0], True
        while True:
            step = max(self._step // waiting, 1) if sliced else MOST
            if begin:
                memory.begin(
                    seed,
                    MOST * self._threads if self._simulations is None else self._simulations,
                    self.temperature,
                    step,
                )
            else:
                memory.plan(step)
            began = time.perf_counter()
            engine.run(memory.tree, memory.states, memory.budgets, memory.seeds, begin)
            now = time.perf_counter()
            ran, failed, full, waiting = memory.tally()
            begin, done, before = False, ran - before, ran
            if failed:
                raise_failure(self._game, self._evaluator, memory.tree, memory.states, moves, self._threads)
            if done:
                self._step = int(min(max(done * min(_SLICE / max(now - began, 1e-9), 8.0), 32), 1 << 24))
            if self.seconds is not None:
                left = start + self.seconds - now
                if left <= 0:
                    return memory
                self._step = max(min(self._step, int(done * left / max(now - began, 1e-9))), 1)
            if full:
                larger = memory.larger(self._engine.reserve, self.memory)
                if larger is None:
                    memory.waits[memory.tree.counts[:, STATUS] == FULL] = 0
                    waiting = int(memory.waits.sum())
                    if not memory.tree.counts[:, RAN].all():
                        raise SearchError(
                            f"MCTS: memory of {self.memory} bytes must have room for at least one "
                            f"simulation of each of {memory.shape[0]} trees"
                        )
                else:
                    small, memory = memory, self._take(memory.shape[0], *larger)
                    copy_trees(small, memory)
                    small.lock.release()
            if not waiting:
                return memory

    def __reduce__(self):
        now = {name: getattr(self, name) for name in ("simulations", "seconds", "memory", "seed", "temperature")}
        return _again, ({**self._given, **now},)

    def __repr__(self) -> str:
        return (
            f"MCTS({self._game!r}, simulations={self._simulations}, policy={self._policy!r}, "
            f"evaluator={self._evaluator!r}, seed={self.seed})"
        )


def _again(given):
    """Make a search for `copy` and `pickle`: the same one, without its trees."""
    return MCTS(**given)


def _check(name, value, low, kind, optional=False):
    if value is None and optional:
        return
    if kind is int:
        check.integer(value, f"MCTS: {name}", low, 2**63 - 1, error=SearchError)
    else:
        check.number(value, f"MCTS: {name}", low, error=SearchError)
