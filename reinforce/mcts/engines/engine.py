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

    Attributes
    ----------
    sliced : bool
        True if `run` must be called often, so that Python can interrupt a search; otherwise it takes care of that.
    nodes_each : int
        Nodes that a simulation may make at most, usually; more are found room for.
    reserve : tuple of int
        Nodes and edges that must be free, or a tree is FULL.
    """

    sliced: bool = True
    nodes_each: int = 1
    reserve: tuple[int, int] = (0, 0)

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

    def run(self, tree: Tree, states: np.ndarray, budgets: np.ndarray, seeds: np.ndarray, begin: bool) -> None:
        """Run simulations until ``tree.counts[t, RAN] == budgets[t]`` in each tree, or its root is proven.

        Parameters
        ----------
        tree : Tree
            Where ``tree.counts[t, NODES] == 0`` a tree is begun.
        states : (trees, nodes) records
            Those at [:, 0] are the roots.
        budgets : (trees,) int64
        seeds : (trees, 2) int64
            Seed and number; the other trees and threads do not matter. With one tree, states, budgets and seeds
            always come in the same arrays.
        begin : bool
            True in the first call of a search, which starts random streams and draws noise.

        What stops a tree early goes into its ``counts[STATUS]`` and ``counts[ERROR_NODE]`` (see `loop`); where that is
        FULL, the call is repeated with larger arrays.
        """
        raise NotImplementedError
