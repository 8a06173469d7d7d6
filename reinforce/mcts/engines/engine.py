"""Base class of the engines that run the simulations of a search."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np

from ..tree import Tree

__all__ = ["Engine"]


class Engine:
    """Runs simulations; `MCTS` does the rest. Abstract. An engine serves one search at a time, because it keeps working
    memory from call to call.
    """

    sliced: bool = True  # `run` must be called often, so that Python can interrupt a search; else it takes care of that
    nodes_each: int = 1  # nodes that a simulation usually makes at most; more are found room for
    reserve: tuple[int, int] = (0, 0)  # nodes and edges that must be free, or a tree is FULL

    def another(self) -> Self:
        """Return an engine for a search that runs at the same time. Both share what is compiled."""
        other = copy.copy(self)
        other.clear()
        return other

    def clear(self) -> None:
        """Make working memory of its own."""
        raise NotImplementedError

    def results(self, tree: Tree) -> tuple[np.ndarray, np.ndarray] | None:
        """(actions, policies) at the roots, where the tree's policy has its own way to find them."""
        return None

    def run(
        self,
        tree: Tree,  # where ``tree.counts[t, NODES] == 0``, a tree is begun
        states: np.ndarray,  # (trees, nodes) records; those at [:, 0] are the roots
        budgets: np.ndarray,  # (trees,) int64
        seeds: np.ndarray,  # (trees, 2) int64, seed and number; the other trees and threads do not matter
        begin: bool,  # True in the first call of a search, which starts random streams and draws noise
    ) -> None:
        """Run simulations until ``tree.counts[t, RAN] == budgets[t]`` in each tree, or its root is proven.

        With one tree, states, budgets and seeds always come in the same arrays. What stops a tree early goes into its
        ``counts[STATUS]`` and ``counts[ERROR_NODE]`` (see `loops`); where that is FULL, the call is repeated with
        larger arrays.
        """
        raise NotImplementedError
