"""Games on bitboards equal their twins, which look at every cell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins import games as twins
from triskele import reinforce as rl


def cells(text):
    """Read the stones on the board from a drawing."""
    rows = [line for line in text.splitlines() if not "abcdefghijklmnopqrstuvwxyz".startswith(line.replace(" ", ""))]
    return [[ch for ch in row if ch in "xo."] for row in rows]


@pytest.mark.parametrize(
    ("game", "twin"),
    [
        (lambda: rl.games.ConnectFour(8, 7, 5), lambda: twins.ConnectFour(8, 7, 5)),  # all 63 bits
        (lambda: rl.games.ConnectFour(2, 21, 3), lambda: twins.ConnectFour(2, 21, 3)),
        (lambda: rl.games.Othello(), twins.Othello),
        (lambda: rl.games.Breakthrough(8, 8), lambda: twins.Breakthrough(8, 8)),  # all 64 bits
        (lambda: rl.games.Breakthrough(5, 12), lambda: twins.Breakthrough(5, 12)),
        (lambda: rl.games.Hex(6), lambda: twins.Hex(6)),
    ],
    ids=[
        "connect four, 8 x 7",
        "connect four, 2 x 21",
        "othello",
        "breakthrough, 8 x 8",
        "breakthrough, 5 x 12",
        "hex, 6 x 6",
    ],
)
def test_games_equal_their_twins(game, twin):
    game = game()

    @settings(max_examples=15, deadline=None)
    @given(st.randoms(use_true_random=False))
    def play(random):
        state, plain = game.initial_state(), twin()
        while plain.winner is None:
            assert (state.terminal, state.player, state.legal_actions) == (False, plain.player, plain.legal())
            action = random.choice(plain.legal())
            state = state.play(action)
            plain.play(action)
            assert cells(str(state)) == plain.cells
        assert state.terminal and state.returns.tolist() == plain.returns()
        seen = np.array(
            [[[cell == stone for cell in row] for row in plain.cells] for stone in (plain.own, plain.other)]
        )
        assert np.array_equal(state.observation(plain.player)[:2], seen)
        assert np.array_equal(state.observation(1 - plain.player)[:2], seen[::-1])

    play()
