"""Random games, played here and in OpenSpiel side by side."""

import numpy as np
import pytest

from triskele import reinforce as rl

pyspiel = pytest.importorskip("pyspiel")
pytestmark = pytest.mark.peer

GAMES = {
    "tic_tac_toe": rl.games.TicTacToe,
    "connect_four": rl.games.ConnectFour,
    "hex(board_size=5)": lambda: rl.games.Hex(size=5),
    "othello": rl.games.Othello,
}


@pytest.mark.parametrize("games", [30, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", GAMES)
def test_random_games(name, games):
    ours, theirs, rng = GAMES[name](), pyspiel.load_game(name), np.random.default_rng(7)
    for _ in range(games):
        state, other = ours.initial_state(), theirs.new_initial_state()
        while not other.is_terminal():
            assert not state.terminal and state.player == other.current_player()
            assert state.legal_actions == other.legal_actions(), state.moves
            action = int(rng.choice(other.legal_actions()))
            state = state.play(action)
            other.apply_action(action)
        assert state.terminal and state.returns.tolist() == other.returns(), state.moves
