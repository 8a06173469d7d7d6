"""Results of a search, and views of its trees."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import dataframe, html_table, plots

from ..errors import SearchError
from ..game import Game, State
from .tree import EDGES, NODES, PROVEN, TERMINAL, Tree

if TYPE_CHECKING:
    from .memory import Memory

__all__ = ["Node", "SearchResult", "SearchTree"]

_SHOWN = 10  # actions in a notebook's table


class SearchResult:
    """Result of a search from one root. For a batch, arrays have a leading batch axis, and `line` and `tree` are lists.

    Attributes
    ----------
    action : int
        The action to play.
    visits : (num_actions,) int64
        Number of visits of each action. (With a solver, a simulation may try a proven action besides another one.)
    values : (num_actions,) float64
        Mean value of each action for who is to move (proven values exactly); NaN where it was not tried.
    priors : (num_actions,) float64
        Priors as the policy used them, including noise.
    policy : (num_actions,) float64
        Share of the visits of each action.
    root_value : float
        Mean value for who is to move.
    proven : bool
        True if `root_value` is exact.
    simulations : int
        Number of simulations run.
    line : list of int
        Principal variation: the most visited actions from the root on, `action` the first.
    tree : SearchTree
        With root-parallel threads, the first of the trees.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> game = rl.games.ConnectFour()
    >>> search = rl.MCTS(game, simulations=200, policy=rl.UCT(c=1.4), evaluator=rl.RandomRollout(), seed=0)
    >>> found = search(game.initial_state())
    >>> found.visits.shape, int(found.visits.sum())
    ((7,), 200)
    """

    def __init__(
        self,
        game: Game,
        numbers: np.ndarray,
        memory: Memory,
        moves: Sequence[tuple[int, ...]],
        single: bool,
        concluded: tuple[np.ndarray, np.ndarray] | None,
    ):
        self.single, self._game, self._numbers, self._moves, self._concluded = single, game, numbers, moves, concluded
        self._tree, self._states, self._replicas = memory.tree, memory.states, memory.replicas
        self._block = memory.block  # held, so that no other search takes this memory

    def __getstate__(self):
        """Nodes and edges in use, without the memory of the search around them."""
        nodes, edges = self._tree.counts[:, [NODES, EDGES]].max(axis=0)
        rows = {name: edges if name in ("children", "actions", "priors") else nodes for name in self._tree._fields}
        cut = {
            name: x if name in ("counts", "streams") else x[:, : rows[name]].copy()
            for name, x in self._tree._asdict().items()
        }
        kept = {name: value for name, value in vars(self).items() if name not in ("trees", "_block")}
        return {**kept, "_tree": Tree(**cut), "_states": self._states[:, :nodes].copy()}

    def _per_action(self, place):
        n, actions = len(self._moves), self._game.num_actions
        found = self._numbers[place * n * actions : (place + 1) * n * actions]
        return found if self.single else found.reshape(n, actions)

    def _per_root(self, place, kind):
        n = len(self._moves)
        start = 4 * n * self._game.num_actions + place * n
        return kind(self._numbers[start]) if self.single else self._numbers[start : start + n].astype(kind)

    @functools.cached_property
    def action(self) -> Any:
        if self._concluded is not None:
            return int(self._concluded[0][0]) if self.single else self._concluded[0]
        return self._per_root(0, int)

    @functools.cached_property
    def visits(self) -> np.ndarray:
        return self._per_action(0).astype(np.int64)

    @functools.cached_property
    def values(self) -> np.ndarray:
        return self._per_action(1)

    @functools.cached_property
    def priors(self) -> np.ndarray:
        return self._per_action(2)

    @functools.cached_property
    def policy(self) -> np.ndarray:
        if self._concluded is not None:
            return self._concluded[1][0] if self.single else self._concluded[1]
        return self._per_action(3)

    @functools.cached_property
    def root_value(self) -> Any:
        return self._per_root(1, float)

    @functools.cached_property
    def proven(self) -> Any:
        return self._per_root(2, bool)

    @functools.cached_property
    def simulations(self) -> Any:
        return self._per_root(3, int)

    @functools.cached_property
    def trees(self) -> list[SearchTree]:
        return [
            SearchTree(self._game, self._tree, self._states, k * self._replicas, m) for k, m in enumerate(self._moves)
        ]

    @property
    def tree(self) -> Any:
        return self.trees[0] if self.single else self.trees

    @property
    def line(self) -> Any:
        lines = [t.line(int(a)) for t, a in zip(self.trees, np.atleast_1d(self.action), strict=True)]
        return lines[0] if self.single else lines

    def to_dataframe(self) -> Any:
        """Return a pandas DataFrame with a row for each action; of a batch, for each action of each position."""
        columns = {"visits": self.visits, "value": self.values, "prior": self.priors, "policy": self.policy}
        table = dataframe(
            {name: np.ravel(x) for name, x in columns.items()},
            "action",
            np.tile(np.arange(self._game.num_actions), len(self._moves)),
        )
        if not self.single:
            table.insert(0, "position", np.repeat(np.arange(len(self._moves)), self._game.num_actions))
        return table

    def plot(self, ax: Any = None, **bars: Any) -> Any:
        """Draw the visits of each action; the action to play is darker.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Defaults to new axes.
        **bars
            Options of Matplotlib's ``bar``.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        SearchError
            If the result is that of a batch of positions.
        """
        if not self.single:
            raise SearchError(
                f"SearchResult.plot: the result of one position can be drawn, got a batch of "
                f"{len(self._moves)} (see to_dataframe)"
            )
        with plots.axes(ax, xlabel="action", ylabel="visits") as ax:
            drawn = ax.bar(np.arange(len(self.visits)), self.visits, **{"color": plots.COLORS[0], "alpha": 0.5, **bars})
            drawn[self.action].set_alpha(1.0)
            plots.whole_ticks(ax.xaxis)
        return ax

    def _repr_html_(self) -> str:
        if not self.single:
            return html_table(
                f"Search of {len(self._moves)} positions of {self._game.name}",
                {
                    "position": range(len(self._moves)),
                    "action": self.action,
                    "value": self.root_value,
                    "proven": self.proven,
                    "simulations": self.simulations,
                },
            )
        chosen = np.arange(len(self.visits)) == self.action
        order = np.lexsort((~chosen, -self.visits))[: min(_SHOWN, np.count_nonzero(self.visits))]
        root = self.tree.root.state
        title = f"Search of {self._game.name}: action {self.action}, value {self.root_value:.4g}"
        moves = [root.action_name(int(a)) for a in order]
        return html_table(
            title + " (proven)" * self.proven,
            {
                "action": order,
                "move": moves,
                "visits": self.visits[order],
                "share": self.policy[order],
                "value": self.values[order],
                "prior": self.priors[order],
            },
            note=f"{len(order)} of {len(self.visits)} actions; {self.simulations:,} simulations; "
            f"principal variation {' '.join(map(str, self.line[:_SHOWN]))}",
        )

    def __repr__(self) -> str:
        return f"<SearchResult: action {self.action}, value {self.root_value}, {self.simulations} simulations>"


class SearchTree:
    """One tree of a search, for inspection.

    Attributes
    ----------
    game : Game
    root : Node
    arrays : Tree
        Arrays of the nodes and edges in use (see `reinforce.mcts.tree.Tree`).
    states : (nodes,) records

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> game = rl.games.ConnectFour()
    >>> search = rl.MCTS(game, simulations=200, policy=rl.UCT(c=1.4), evaluator=rl.RandomRollout(), seed=0)
    >>> found = search(game.initial_state())
    >>> tree = found.tree
    >>> type(tree).__name__, tree.root.visits
    ('SearchTree', 200)
    """

    def __init__(self, game: Game, tree: Tree, states: np.ndarray, number: int, moves: tuple[int, ...]):
        self.game, self.moves, self._batch, self._number, self.states = game, moves, tree, number, states[number]

    @functools.cached_property
    def arrays(self) -> Tree:
        return Tree(*(a[self._number] for a in self._batch))

    @property
    def root(self) -> Node:
        return Node(self, 0)

    def __len__(self) -> int:
        return int(self.arrays.counts[NODES])

    def line(self, action: int | None = None) -> list[int]:
        """The most visited actions from the root on (outcomes of chance among them), after `action` if it is given."""
        found: list[int] = []
        node: Node | None = self.root
        while node is not None and (children := node.children):
            action = (
                max(children, key=lambda a: (children[a].visits, children[a].value))
                if found or action is None
                else action
            )
            found.append(int(action))
            node = children.get(action)
        return found if found or action is None else [int(action)]

    def draw(self, depth: int = 2, most: int = 5) -> str:
        """Return the tree as text: the `most` visited children of each node, down to `depth`."""
        from .show import draw_tree

        return draw_tree(self, depth, most)

    def save(self, path: str | os.PathLike) -> None:
        """Write the tree to a file."""
        from .show import save_tree

        save_tree(self, path)

    @staticmethod
    def load(path: str | os.PathLike, game: Any) -> SearchTree:
        """Read a tree that `save` wrote.

        Parameters
        ----------
        path : path-like
        game : Game
            Game of the tree; its rules must be those of the game that was searched.

        Raises
        ------
        SearchError
            If the file holds something else, or the tree of another game.
        """
        from .show import load_tree

        return load_tree(path, game)

    def __repr__(self) -> str:
        return f"<SearchTree: {self.game.name} after {list(self.moves)}, {len(self)} nodes>"


class Node:
    """One node of a tree.

    Attributes
    ----------
    number : int
        Place in the arrays of the tree.
    visits : int
    value : float
        Mean value for the player who moved here (at the root: who is to move); NaN if it was never visited.
    evaluation : float
        Value from the evaluator, for the player to move.
    player : int
        The player to move, or CHANCE.
    action, prior : int, float
        Action that leads to this node, and its prior or probability; None at the root.
    moves : tuple of int
        Moves since the first position of the game, or since the root if that was given as a record.
    terminal, proven : bool
    parent : Node or None
    children : dict of action: Node
        Visited children, by action.
    state : State
    """

    __slots__ = ("_tree", "number")

    def __init__(self, tree: SearchTree, number: int):
        self._tree, self.number = tree, number

    visits = property(lambda self: int(self._tree.arrays.stats[self.number]["visits"]))
    evaluation = property(lambda self: float(self._tree.arrays.values[self.number]))
    player = property(lambda self: int(self._tree.arrays.links[self.number]["player"]))
    terminal = property(lambda self: bool(self._tree.arrays.links[self.number]["flags"] & TERMINAL))
    proven = property(lambda self: bool(self._tree.arrays.links[self.number]["flags"] & (TERMINAL | PROVEN)))

    @property
    def value(self) -> float:
        return float(self._tree.arrays.totals[self.number]) / self.visits if self.visits else float("nan")

    @property
    def _edge(self) -> int:
        return int(self._tree.arrays.parents[self.number]["edge"])

    @property
    def action(self) -> int | None:
        return int(self._tree.arrays.actions[self._edge]) if self.number else None

    @property
    def prior(self) -> float | None:
        return float(self._tree.arrays.priors[self._edge]) if self.number else None

    @property
    def parent(self) -> Node | None:
        return Node(self._tree, int(self._tree.arrays.parents[self.number]["parent"])) if self.number else None

    @property
    def priors(self) -> dict[int, float]:
        """Priors of all legal actions, or probabilities of the outcomes; empty before the node is expanded."""
        edges = self._edges()
        return dict(
            sorted(
                zip(self._tree.arrays.actions[edges].tolist(), self._tree.arrays.priors[edges].tolist(), strict=True)
            )
        )

    @property
    def children(self) -> dict[int, Node]:
        edges = self._edges()
        pairs = zip(self._tree.arrays.actions[edges].tolist(), self._tree.arrays.children[edges].tolist(), strict=True)
        return {a: Node(self._tree, c) for a, c in sorted(pairs) if c >= 0}

    @property
    def moves(self) -> tuple[int, ...]:
        found: list[int] = []
        node: Node | None = self
        while node is not None and node.action is not None:
            found.append(node.action)
            node = node.parent
        return (*self._tree.moves, *reversed(found))

    @property
    def state(self) -> State:
        return self._tree.game.at(self._tree.states[self.number : self.number + 1].copy(), self.moves)

    def walk(self) -> Iterator[Node]:
        """Iterate over this node and all nodes below it, parents first."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children.values()))

    def _edges(self):
        link = self._tree.arrays.links[self.number]
        first = max(int(link["first_edge"]), 0)
        return slice(first, first + int(link["num_edges"]))

    def __repr__(self) -> str:
        return f"<Node {self.number}: {self.visits} visits, value {self.value:.3g}, moves {list(self.moves)}>"
