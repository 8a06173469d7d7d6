"""Messages of searches that failed: which game, which moves, which node."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.reinforce.errors import EvaluatorError, GameError, SearchError
from triskele.reinforce.game import Game
from triskele.reinforce.mcts.evaluators import Compiled
from triskele.reinforce.mcts.loop import BAD_PRIORS, FULL, NO_ACTION, NOT_FINITE, NOT_ZERO_SUM, RAISED, TOO_LONG
from triskele.reinforce.mcts.result import Node, SearchTree
from triskele.reinforce.mcts.tree import ERROR_NODE, NODES, STATUS, Tree

__all__ = ["check_backup", "raise_failure"]


def raise_failure(game: Game, evaluator: Any, tree: Tree, states: np.ndarray, moves: list, replicas: int) -> None:
    """Raise the error that the first failed tree of a batch has noted."""
    t = int(np.argmax(tree.counts[:, STATUS] > FULL))
    status, number = int(tree.counts[t, STATUS]), int(tree.counts[t, ERROR_NODE])
    node = Node(SearchTree(game, tree, states, t, moves[t // replicas]), number)
    where = f"MCTS: {game.name} after {node.moves}, node {number}"
    if status == NO_ACTION:
        raise GameError(f"{where}: there or in a random game from there no action is legal (or chances do not sum to 1), but the game is not over")
    if status == TOO_LONG:
        raise GameError(f"{where}: a game from there had more than max_length = {game.max_length} moves")
    if status == NOT_ZERO_SUM:
        raise SearchError(f"{where}: solver=True needs returns from -1 to 1 that sum to 0 (with one player: from -1 to 1), got others")
    what = f"evaluator {evaluator!r}"
    if status == NOT_FINITE:
        raise EvaluatorError(f"{where}: values must be finite numbers, {what} or the game's returns gave others")
    if status == BAD_PRIORS:
        raise EvaluatorError(f"{where}: priors must be finite numbers of at least 0, {what} gave others")
    if status == RAISED:
        cause = _again(game, evaluator, node)
        raise EvaluatorError(f"{where}: {what}, or a rule of the game, raised an exception{f': {cause!r}' if cause else ''}") from cause
    raise SearchError(f"{where}: unknown status {status}")


def check_backup(game: Game, backup: Any, tree: Tree, states: np.ndarray, moves: list, replicas: int) -> None:
    """Raise an error where a user's backup has given what is no number."""
    for t, count in enumerate(tree.counts[:, NODES]):
        wrong = ~np.isfinite(tree.totals[t, :count])
        if wrong.any():
            node = Node(SearchTree(game, tree, states, t, moves[t // replicas]), int(np.argmax(wrong)))
            raise SearchError(f"MCTS: {game.name} after {node.moves}, node {node.number}: backup {backup.__name__} must give finite numbers, got NaN or infinity")


def _again(game, evaluator, node):
    """The exception of an evaluator, called once more by Python, for compiled code does not hand it out."""
    if not isinstance(evaluator, Compiled):
        return None
    arguments = node.state.data.view(np.recarray)[0], np.zeros(game.num_players), np.zeros(game.num_actions, np.float32)
    try:
        evaluator.python(*arguments[: 3 if evaluator.gives_priors else 2])
    except Exception as error:
        return error
    return None
