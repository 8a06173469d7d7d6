"""Games, positions, searches and results are pickled and copied, and go on as the originals do."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from triskele import reinforce as rl

TTT = rl.games.TicTacToe()
BOTH = pytest.mark.parametrize(
    "again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy], ids=["pickle", "deepcopy"]
)


def even(observations):
    return np.zeros((len(observations), 9)), np.zeros(len(observations))


def apply(params, observations):
    return observations.reshape(-1, 18) @ params, observations[:, 0, 0, 0]


@BOTH
@pytest.mark.parametrize("game", [rl.games.TicTacToe(), rl.games.Hex(size=2), TTT], ids=["new", "of a size", "used"])
def test_games_and_positions(again, game):
    state = TTT.initial_state().play(4) if game is TTT else None
    other = again(game)
    assert other.key == game.key and vars(other).get("size") == vars(game).get("size")
    if state is not None:
        same = again(state)
        assert same == state and same.play(0).legal_actions == state.play(0).legal_actions and same.moves == (4,)


@BOTH
def test_positions_of_openspiel(again):
    pytest.importorskip("pyspiel")
    state = rl.from_openspiel("tic_tac_toe").initial_state().play(4, 0)
    same = again(state)
    assert (same.moves, same.player, str(same)) == (state.moves, state.player, str(state))
    assert same.play(8).legal_actions == state.play(8).legal_actions


@BOTH
@pytest.mark.parametrize(
    "options",
    [
        {"policy": rl.UCT(c=1.0), "threads": 2},
        {"policy": rl.PUCT(), "evaluator": even},
        {"policy": rl.PUCT(), "evaluator": rl.Network(apply, np.linspace(-1, 1, 162, dtype=np.float32).reshape(18, 9))},
    ],
    ids=["rollouts", "function", "network"],
)
def test_searches_and_results(again, options):
    search, state = rl.MCTS(TTT, 40, seed=3, **options), TTT.initial_state().play(0, 3)
    search.temperature = 0.5
    found, other = search(state), again(search)
    assert other.temperature == 0.5
    for result in (other(state), again(found)):
        assert_array_equal(result.visits, found.visits)
        assert_array_equal(result.values, found.values)
        assert (result.action, result.line, result.tree.draw()) == (found.action, found.line, found.tree.draw())


def test_functions_without_a_name_are_said_so():
    search = rl.MCTS(TTT, 40, policy=rl.PUCT(), evaluator=lambda x: even(x))
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(search)
