"""The memory of a search: trees, positions, and what is kept for each root, in one block that serves the next search
too. `room` says how large trees are at first, `Memory.larger` how they grow when they are full.
"""

from __future__ import annotations

import sys
import threading

import numpy as np

from ..errors import SearchError
from ..game import Game
from .context import call, context_of, pointer
from .loops.rounds import (
    BEGIN,
    CONCLUDE,
    PLAN,
    RESULTS,
    SEED,
    SIMULATIONS,
    STEP,
    TALLY,
    TEMPERATURE,
    manage,
    width,
)
from .tree import COUNTS, STREAM, Tree, new_tree

__all__ = ["MOST", "Memory", "room"]

MOST = 2**31 - 1  # nodes and edges are numbered by int32
_NODE_BYTES, _EDGE_BYTES = 40, 12
_FIRST_NODES = 1 << 24  # of all trees, for which room is made before a search, at most
_LINE = 64  # bytes of a line of the cache, at which arrays begin


def room(game: Game, trees: int, simulations: int, nodes_each: int, limit: int | None) -> tuple[int, int]:
    """Return the numbers of nodes and edges that a search usually needs in each tree, within `limit` bytes in all.

    Each tree runs `simulations`, which usually make up to `nodes_each` nodes.
    """
    widest = max(game.num_actions, game.num_outcomes)
    expected = min(simulations, max(_FIRST_NODES // trees, 4))
    nodes, edges = expected * nodes_each + 2, 2 * widest + expected * min(widest, 12)
    if limit is not None:
        least = _NODE_BYTES + game.dtype.itemsize + _EDGE_BYTES * widest
        each = limit // trees
        if each < 4 * least:
            raise SearchError(
                f"MCTS: memory must be at least {4 * least * trees} bytes for {trees} trees of {game.name}, got {limit}"
            )
        share = min(1.0, each / (nodes * (_NODE_BYTES + game.dtype.itemsize) + edges * _EDGE_BYTES))
        nodes, edges = max(int(nodes * share), 3), max(int(edges * share), 2 * widest)
    return nodes, edges


class Memory:
    """Room for a batch of trees with `nodes` and `edges` each; `replicas` trees in a row have the same root."""

    def __init__(self, game: Game, trees: int, nodes: int, edges: int, replicas: int):
        self.game, self.shape, self.replicas = game, (trees, nodes, edges), replicas
        actions, roots = game.num_actions, trees // replicas
        least = (
            trees * (nodes * (_NODE_BYTES + game.dtype.itemsize) + edges * _EDGE_BYTES + (COUNTS + STREAM) * 8 + 64)
            + roots * width(actions) * 8
            + actions * 16
        )
        self.block = np.empty(least + 24 * _LINE, np.uint8)
        self._used = -pointer(self.block) % _LINE
        self.tree: Tree = new_tree(trees, nodes, edges, self._carve)
        self.states = self._carve((trees, nodes), game.dtype)
        self.roots = self.states.view(np.uint8).reshape(trees, -1)[:, : game.dtype.itemsize]
        # budgets: what `tree.counts[:, RAN]` may reach in the next call of compiled code; waits: 1 if more are to come
        self.goals, self.budgets, self.waits = (self._carve(trees, np.int64) for _ in range(3))
        self.seeds = self._carve((trees, 2), np.int64)  # of each tree's random stream
        self._results, self._scratch = (
            self._carve(roots * width(actions), np.float64),
            self._carve(2 * actions, np.float64),
        )
        own = (
            self.goals,
            self.budgets,
            self.waits,
            self.seeds,
            self._results,
            self._scratch,
            game.dtype.itemsize,
            replicas,
            actions,
            game.num_players,
        )
        self._context = np.concatenate([context_of(self.tree, self.states, *own), np.zeros(8, np.int64)])
        self._address, self._floats = pointer(self._context), self._context.view(np.float64)
        self.lock = threading.Lock()  # held while a search runs here
        self._references = sys.getrefcount(self.block)

    def _carve(self, shape, dtype):
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        start, self._used = self._used, self._used + -(-size // _LINE) * _LINE
        return self.block[start : start + size].view(dtype).reshape(shape)

    @property
    def free(self) -> bool:
        """Return True if no array refers to this memory any more."""
        return sys.getrefcount(self.block) == self._references

    def begin(self, seed: int, simulations: int, temperature: float, step: int) -> None:
        """Set goals, seeds and budgets of a search of the positions in `roots`."""
        context = self._context
        context[SEED], context[SIMULATIONS], context[STEP], self._floats[TEMPERATURE] = (
            seed,
            simulations,
            step,
            temperature,
        )
        call(manage, self._address, BEGIN)

    def plan(self, step: int) -> None:
        """Set budgets of those that wait."""
        self._context[STEP] = step
        call(manage, self._address, PLAN)

    def tally(self) -> list[int]:
        """After a call of compiled code: how many simulations have been run in all trees, trees that failed, are full,
        wait for more.
        """
        call(manage, self._address, TALLY)
        return self._context[RESULTS : RESULTS + 4].tolist()

    def conclude(self) -> np.ndarray:
        """Return the results, as `result.SearchResult` takes them."""
        call(manage, self._address, CONCLUDE)
        return self._results.copy()

    @property
    def coarse(self) -> bool:
        """Return True if values at some root, as `conclude` found them, differ by hardly more than their float32 means
        are rounded by.
        """
        return bool(self._context[RESULTS])

    def larger(self, reserve: tuple[int, int], limit: int | None) -> tuple[int, int] | None:
        """Return the numbers of nodes and edges of larger trees that continue a search whose trees are full, or None
        where memory ends: `limit` bytes. `reserve` nodes and edges must be free in each tree.
        """
        count, nodes, edges = self.shape
        widest = max(self.game.num_actions, self.game.num_outcomes)
        used = self.tree.counts[:, :2].max(axis=0)
        few_nodes, few_edges = used[0] + max(reserve[0], 1) >= nodes, used[1] + max(reserve[1], widest) >= edges
        if not few_nodes and not few_edges:  # a simulation that has been taken back needed more than what is free
            few_nodes = few_edges = True
        more = 2 * nodes if few_nodes else nodes, 2 * edges if few_edges else edges
        if limit is not None:
            each = _NODE_BYTES + self.game.dtype.itemsize
            share = (limit // count - nodes * each - edges * _EDGE_BYTES) / max(
                (more[0] - nodes) * each + (more[1] - edges) * _EDGE_BYTES, 1
            )
            if share * (more[0] - nodes + more[1] - edges) < 64:
                return None
            more = nodes + int((more[0] - nodes) * min(share, 1.0)), edges + int((more[1] - edges) * min(share, 1.0))
        return None if max(more) > MOST else more

    def copy_goals(self, other: Memory) -> None:
        """Take over the state of a search, other than its trees, from another memory."""
        for name in ("goals", "budgets", "waits", "seeds"):
            getattr(self, name)[:] = getattr(other, name)
        self._context[SEED : RESULTS + 4] = other._context[SEED : RESULTS + 4]
