"""Messages of searches that failed: which game, which moves, which node."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import EvaluatorError, GameError, SearchError
from ..game import Game
from .evaluators import Compiled
from .loops.simulation import (
    BAD_PLAYER,
    BAD_PRIORS,
    FULL,
    NO_ACTION,
    NOT_FINITE,
    NOT_ZERO_SUM,
    RAISED,
    TOO_LONG,
)
from .result import Node, SearchTree
from .tree import ERROR_NODE, NAN_NODE, NODES, STATUS, Tree

__all__ = ["check_backup", "check_scores", "raise_failure"]


def raise_failure(game: Game, evaluator: Any, tree: Tree, states: np.ndarray, moves: list, replicas: int) -> None:
    """Raise the error that the first failed tree of a batch has noted."""
    t = int(np.argmax(tree.counts[:, STATUS] > FULL))
    status, number = int(tree.counts[t, STATUS]), int(tree.counts[t, ERROR_NODE])
    node = Node(SearchTree(game, tree, states, t, moves[t // replicas]), number)
    where = f"MCTS: {game.name} after {node.moves}, node {number}"
    if status == NO_ACTION:
        raise GameError(
            f"{where}: there or in a random game from there no action is legal (or chances do not sum to "
            f"1), but the game is not over"
        )
    if status == TOO_LONG:
        raise GameError(f"{where}: a game from there had more than max_length = {game.max_length} moves")
    if status == NOT_ZERO_SUM:
        raise SearchError(f"{where}: solver=True needs returns from -1 to 1 that sum to 0, got others")
    if status == BAD_PLAYER:
        raise GameError(
            f"{where}: player must be 0 to "
            f"{game.num_players - 1}{', or CHANCE' * bool(game.num_outcomes)}, got another one "
            f"{_bad_player(game, node)}"
        )
    what = f"evaluator {evaluator!r}"
    cause, values, priors = _again(game, evaluator, node)
    if status == NOT_FINITE:
        if node.terminal:
            raise GameError(f"{where}: returns must be finite numbers, got {_shown(node.state._returns())}")
        raise EvaluatorError(f"{where}: values must be finite numbers, {what} {_gave(values)}")
    if status == BAD_PRIORS:
        raise EvaluatorError(
            f"{where}: priors must be finite numbers of at least 0, {what} {_gave(priors, node.state.legal_mask)}"
        )
    if status == RAISED:
        raise EvaluatorError(
            f"{where}: {what}, or a rule of the game, raised an exception{f': {cause!r}' if cause else ''}"
        ) from cause
    raise SearchError(f"{where}: unknown status {status}")


def check_backup(game: Game, backup: Any, tree: Tree, states: np.ndarray, moves: list, replicas: int) -> None:
    """Raise an error if a user's backup function has returned a non-finite value."""
    for t, count in enumerate(tree.counts[:, NODES]):
        wrong = ~np.isfinite(tree.totals[t, :count])
        if wrong.any():
            node = Node(SearchTree(game, tree, states, t, moves[t // replicas]), int(np.argmax(wrong)))
            raise SearchError(
                f"MCTS: {game.name} after {node.moves}, node {node.number}: backup {backup.__name__} "
                f"must give finite numbers, got NaN or infinity"
            )


def check_scores(game: Game, policy: Any, tree: Tree, states: np.ndarray, moves: list, replicas: int) -> None:
    """Raise an error if a user's score function has returned NaN."""
    for t in np.flatnonzero(tree.counts[:, NAN_NODE]):
        node = Node(SearchTree(game, tree, states, int(t), moves[t // replicas]), int(tree.counts[t, NAN_NODE]) - 1)
        raise SearchError(
            f"MCTS: {game.name} after {node.moves}, node {node.number}: policy {policy!r} must give numbers, got NaN"
        )


def _bad_player(game, node):
    """Describe which player the rules named, and after which of the moves below a node."""
    state = node.state
    for action in state.legal_actions:
        child = state.play(action)
        if not child.terminal and not (-1 if game.num_outcomes else 0) <= child.player < game.num_players:
            return f"({child.player}, after {child.moves})"
    return "after one more move"


def _again(game, evaluator, node):
    """(exception, values, priors) of an evaluator called once more, by Python: compiled code does not hand exceptions
    out.
    """
    values, priors = np.full(game.num_players, np.nan), np.full(game.num_actions, np.nan, np.float32)
    if not isinstance(evaluator, Compiled) or node.terminal or node.player < 0:
        return None, None, None
    try:
        evaluator.python(
            node.state.data.view(np.recarray)[0] if isinstance(game, Game) else node.state,
            *(values, priors)[: 2 if evaluator.gives_priors else 1],
        )
    except Exception as error:  # noqa: BLE001  the caller reports it
        return error, None, None
    return None, values, priors


def _gave(found, legal=None):
    """Describe the output of an evaluator for a message; NaN marks what it did not write."""
    if found is None:
        return "gave others"
    legal = np.ones(len(found), bool) if legal is None else legal
    missing = np.flatnonzero(np.isnan(found) & legal)
    if len(missing):
        return f"left [{', '.join(map(str, missing[:8]))}{', ...' * (len(missing) > 8)}] unwritten, or wrote NaN there"
    return f"gave {_shown(found)}"


def _shown(numbers):
    return np.array2string(np.asarray(numbers), threshold=8, separator=", ")
