"""Search trees as text, and in files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .. import storage
from ..errors import CheckpointError, SearchError
from ..game import CHANCE, Game
from .result import SearchTree
from .tree import COUNTS, EDGES, FREE, LINKS, NODES, PARENTS, STATS, STREAM, Tree

__all__ = ["draw_tree", "load_tree", "save_tree"]

_OF_NODES, _OF_EDGES = ("stats", "totals", "links", "parents", "values", "rewards"), ("children", "actions", "priors")
_KIND = "search tree"


def draw_tree(tree: SearchTree, depth: int = 2, most: int = 5) -> str:
    """Lines of text: the `most` visited children of each node, down to `depth`.

    Values are for the player who moved there, at the root for who is to move.
    """
    root = tree.root
    lines = [f"{tree.game.name} after {list(tree.moves)}: {root.visits} visits, value {root.value:+.3f}"]
    _add_children(lines, root, "", depth, most)
    return "\n".join(lines)


def _add_children(lines, node, indent, depth, most):
    if depth == 0:
        return
    children = sorted(node.children.values(), key=lambda c: -c.visits)
    shown, state = children[:most], node.state
    for k, child in enumerate(shown):
        last = k == len(shown) - 1 and len(children) <= most
        name = f"outcome {child.action}" if node.player == CHANCE else state.action_name(child.action)
        mark = ", end" if child.terminal else ", proven" if child.proven else ""
        lines.append(
            f"{indent}{'└─' if last else '├─'} {name}: {child.visits} visits, value {child.value:+.3f}, prior "
            f"{child.prior:.3f}{mark}"
        )
        _add_children(lines, child, indent + ("   " if last else "│  "), depth - 1, most)
    if len(children) > most:
        lines.append(f"{indent}└─ and {len(children) - most} more")


def save_tree(tree: SearchTree, path: str | os.PathLike) -> None:
    """Write a tree, with the positions of its nodes, to a file."""
    a, nodes, edges = tree.arrays, len(tree), int(tree.arrays.counts[EDGES])
    arrays = {n: getattr(a, n)[:nodes] for n in _OF_NODES} | {n: getattr(a, n)[:edges] for n in _OF_EDGES}
    storage.write(
        path,
        _KIND,
        {
            "game": tree.game.name,
            "key": tree.game.key,
            "moves": np.array(tree.moves, np.int64),
            "states": tree.states[:nodes],
            "counts": a.counts,
            "streams": a.streams,
            **arrays,
        },
    )


def load_tree(path: str | os.PathLike, game: Game) -> SearchTree:
    """Read a tree that `save_tree` wrote; see `SearchTree.load`."""
    where = f"SearchTree.load: {os.fspath(path)!r}"
    try:
        data = storage.read(path, _KIND)
    except (CheckpointError, FloatingPointError) as error:
        raise SearchError(
            f"SearchTree.load: {error} (must be a file written by SearchTree.save, which files of "
            f"release 0.5 and older are not)"
        ) from error
    try:
        name, key, moves = str(data["game"]), str(data["key"]), data["moves"].tolist()
        reason = _defect(data, game) if key == game.key and data["states"].dtype == game.dtype else None
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        raise SearchError(
            f"{where} must be a file written by this version of SearchTree.save ({type(error).__name__}: {error})"
        ) from error
    if key != game.key or data["states"].dtype != game.dtype:
        raise SearchError(f"{where} holds a tree of {name} (with other rules or another size), got {game.name}")
    if reason is not None:
        raise SearchError(f"{where} must be a whole tree, but {reason} (the file is damaged)")
    data["packed"] = data["stats"].view(np.int64)
    return SearchTree(game, Tree(*(data[name][None] for name in Tree._fields)), data["states"][None], 0, tuple(moves))


def _defect(data: dict[str, np.ndarray], game: Game) -> str | None:
    """Describe why the arrays of a file are not a tree, so that following links is safe; None if
    nothing does.
    """
    dtypes: dict[str, Any] = {
        "stats": STATS,
        "totals": np.float64,
        "links": LINKS,
        "parents": PARENTS,
        "values": np.float32,
        "rewards": np.float32,
        "children": np.int32,
        "actions": np.int32,
        "priors": np.float32,
        "counts": np.int64,
        "streams": np.uint64,
        "states": game.dtype,
        "moves": np.int64,
    }
    nodes, edges = (int(data["counts"][k]) for k in (NODES, EDGES))
    shapes = {
        **{n: (nodes,) for n in (*_OF_NODES, "states")},
        **{n: (edges,) for n in _OF_EDGES},
        "counts": (COUNTS,),
        "streams": (STREAM,),
        "moves": data["moves"].shape[:1],
    }
    for name, dtype in dtypes.items():
        if data[name].dtype != dtype or data[name].shape != shapes[name]:
            return (
                f"{name} must be {np.dtype(dtype)} of shape {shapes[name]}, got {data[name].dtype} of shape "
                f"{data[name].shape}"
            )
    links, up, children = data["links"], data["parents"][1:], data["children"].astype(np.int64)
    first, count, parent, edge = (
        links["first_edge"].astype(np.int64),
        links["num_edges"].astype(np.int64),
        up["parent"].astype(np.int64),
        up["edge"],
    )
    checks = {
        "there is no root": lambda: nodes >= 1 and data["parents"][0]["parent"] == FREE,
        "edges of a node lie outside of it": lambda: np.all(
            (count >= 0) & np.where(count > 0, (first >= 0) & (first + count <= edges), first >= FREE)
        ),
        "a parent does not come before its child": lambda: np.all((parent >= 0) & (parent < np.arange(1, nodes))),
        "an edge does not lead to its child": lambda: (
            np.all((edge >= first[parent]) & (edge < first[parent] + count[parent]))
            and np.all(children[edge] == np.arange(1, nodes))
        ),
        "an edge leads to a child of another": lambda: (
            np.all((children >= FREE) & (children < nodes)) and np.count_nonzero(children != FREE) == nodes - 1
        ),
        "a player is none of the game's": lambda: np.all(
            (links["player"] >= CHANCE) & (links["player"] < game.num_players)
        ),
        "an action is none of the game's": lambda: np.all(
            (data["actions"] >= 0) & (data["actions"] < max(game.num_actions, game.num_outcomes))
        ),
        "a move is none of the game's": lambda: np.all(
            (data["moves"] >= 0) & (data["moves"] < max(game.num_actions, game.num_outcomes))
        ),
        "a number of visits is negative": lambda: np.all(data["stats"]["visits"] >= 0),
    }
    return next((reason for reason, holds in checks.items() if not holds()), None)
