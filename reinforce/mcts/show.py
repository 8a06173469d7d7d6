"""Search trees as text, and in files."""

from __future__ import annotations

import os
import zipfile

import numpy as np

from triskele.core.files import atomic
from triskele.reinforce.errors import SearchError
from triskele.reinforce.game import CHANCE, Game
from triskele.reinforce.mcts.result import SearchTree
from triskele.reinforce.mcts.tree import EDGES, NODES, Tree

__all__ = ["draw_tree", "load_tree", "save_tree"]

_OF_NODES, _OF_EDGES = ("stats", "totals", "links", "parents", "values", "rewards"), ("children", "actions", "priors")
_FORMAT = 1


def draw_tree(tree: SearchTree, depth: int = 2, most: int = 5) -> str:
    """Lines of text: the `most` visited children of each node, down to `depth`.

    Values are for the player who moved there, at the root for who is to move.
    """
    root = tree.root
    lines = [f"{tree.game.name} after {list(tree.moves)}: {root.visits} visits, value {root.value:+.3f}"]
    _add_children(lines, tree.game, root, "", depth, most)
    return "\n".join(lines)


def _add_children(lines, game, node, indent, depth, most):
    if depth == 0:
        return
    children = sorted(node.children.values(), key=lambda c: -c.visits)
    shown, state = children[:most], node.state
    for k, child in enumerate(shown):
        last = k == len(shown) - 1 and len(children) <= most
        name = f"outcome {child.action}" if node.player == CHANCE else game.action_name(state, child.action)
        mark = ", end" if child.terminal else ", proven" if child.proven else ""
        lines.append(f"{indent}{'└─' if last else '├─'} {name}: {child.visits} visits, value {child.value:+.3f}, prior {child.prior:.3f}{mark}")
        _add_children(lines, game, child, indent + ("   " if last else "│  "), depth - 1, most)
    if len(children) > most:
        lines.append(f"{indent}└─ and {len(children) - most} more")


def save_tree(tree: SearchTree, path: str | os.PathLike) -> None:
    """Write a tree, with the positions of its nodes, to an npz file."""
    a, nodes, edges = tree.arrays, len(tree), int(tree.arrays.counts[EDGES])
    arrays = {n: getattr(a, n)[:nodes] for n in _OF_NODES} | {n: getattr(a, n)[:edges] for n in _OF_EDGES}
    with atomic(path) as file:
        np.savez_compressed(file, format=_FORMAT, game=tree.game.name, key=tree.game.key, moves=np.array(tree.moves, np.int64),
                            states=tree.states[:nodes], counts=a.counts, streams=a.streams, **arrays)  # fmt: skip


def load_tree(path: str | os.PathLike, game: Game) -> SearchTree:
    """A tree from a file that `SearchTree.save` wrote.

    Parameters
    ----------
    path : path
    game : Game
        Whose rules are those of the game that the tree is of.

    Raises
    ------
    SearchError
        If the file holds something else, or the tree of another game.
    """
    try:
        with open(path, "rb") as opened, np.load(opened) as file:
            data = {name: file[name] for name in file.files}
        nodes, edges = (int(data["counts"][k]) for k in (NODES, EDGES))
        lengths = {n: nodes for n in (*_OF_NODES, "states")} | {n: edges for n in _OF_EDGES}
        good = data["format"] == _FORMAT and all(len(data[n]) == length for n, length in lengths.items())
    except (ValueError, KeyError, IndexError, EOFError, TypeError, zipfile.BadZipFile) as error:
        raise SearchError(f"load_tree: {os.fspath(path)!r} must be a file written by SearchTree.save ({error})") from error
    if not good:
        raise SearchError(f"load_tree: {os.fspath(path)!r} must be a whole file written by this version of SearchTree.save")
    if str(data["key"]) != game.key or data["states"].dtype != game.dtype:
        raise SearchError(f"load_tree: {os.fspath(path)!r} holds a tree of {data['game']} (with other rules or another size), got {game.name}")
    data["packed"] = data["stats"].view(np.int64)
    return SearchTree(game, Tree(*(data[name][None] for name in Tree._fields)), data["states"][None], 0, tuple(data["moves"].tolist()))
