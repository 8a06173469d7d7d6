"""Games and positions, as users handle them."""

import numpy as np
import pytest

from triskele import reinforce as rl
from triskele.reinforce.rules.fingerprint import fingerprint


def test_a_game_is_played():
    state = rl.games.TicTacToe().initial_state().play(4, 0, 2, 1)
    assert state.player == 0 and state.legal_actions == [3, 5, 6, 7, 8] and not state.terminal
    over = state.play(6)
    assert over.terminal and over.returns.tolist() == [1.0, -1.0] and over.legal_actions == []
    assert str(over) == "  a b c\n1 o o x\n2 . x .\n3 x . ."
    assert state.moves == (4, 0, 2, 1)  # positions do not change


def test_positions_are_equal_by_what_is_on_the_board():
    start = rl.games.TicTacToe().initial_state()
    assert start.play(0, 4, 8) == start.play(8, 4, 0)
    assert start.play(0) != start.play(1)


def test_positions_have_no_gaps_that_copies_fill_with_anything():
    class Gaps(rl.games.TicTacToe):
        state = [("small", "i1"), ("own", "i8"), ("other", "i8"), ("tiny", "i2", 3), ("player", "i4"), ("last", "i1")]

    dtype = Gaps().dtype
    assert sum(dtype[name].itemsize for name in dtype.names) == dtype.itemsize == 40
    assert {name: dtype.fields[name][1] for name in ("own", "player", "last")} == {"own": 8, "player": 32, "last": 36}
    states = np.zeros(100, dtype)
    for value in range(5):
        np.full(states.nbytes, value + 7, np.uint8)  # what the copies' memory held before
        assert not (states.copy().view(np.uint8).any() or states[np.arange(100)].view(np.uint8).any())


@pytest.mark.parametrize(
    ("moves", "action", "message"),
    [
        ((3,), 3, r"TicTacToe: action 3 is not legal after \(3,\) \(legal: \[0, 1, 2, 4"),
        ((), 9, "action 9 is not legal"),
        ((), True, "action True is not legal"),
        ((0, 3, 1, 4, 2), 5, r"the game is over after \(0, 3, 1, 4, 2\)"),
    ],
)
def test_illegal_actions(moves, action, message):
    state = rl.games.TicTacToe().initial_state().play(*moves)
    with pytest.raises(rl.IllegalActionError, match=message):
        state.play(action)


def test_returns_before_the_end():
    with pytest.raises(rl.GameError, match="returns are known when the game is over"):
        _ = rl.games.TicTacToe().initial_state().returns


def test_a_game_without_its_rules():
    class Empty(rl.Game):
        num_players = num_actions = max_length = 1
        state = [("x", np.int64)]
        observation_shape = (1,)

        @staticmethod
        def initial(state):
            pass

    with pytest.raises(
        rl.GameError, match="Empty: a game needs the functions player, legal_actions, step, terminal, returns, observe"
    ):
        Empty().initial_state()


def test_fingerprints_follow_what_machine_code_depends_on():
    def made(constant, inside):
        def helper(x):
            return x * inside

        def function(x):
            return helper(x) + constant

        return function

    assert fingerprint(made(1, 2)) == fingerprint(made(1, 2))
    assert (
        len({fingerprint(made(1, 2)), fingerprint(made(2, 2)), fingerprint(made(1, 3)), fingerprint(made(1.0, 2))}) == 4
    )
    with pytest.raises(rl.GameError, match="'constant' is a dict, which compiled code cannot keep"):
        fingerprint(made({}, 2))


@pytest.mark.parametrize("player", [2, -1, True, "x"])
def test_observations_of_nobody(player):
    with pytest.raises(rl.GameError, match="TicTacToe: observation needs a player from 0 to 1, got"):
        rl.games.TicTacToe().initial_state().observation(player)


def test_at_chance_nobody_is_to_move():
    state = rl.games.Pig().initial_state().play(0)
    with pytest.raises(rl.GameError, match=r"got -1 \(chance\)"):
        state.observation()
    assert state.observation(0).shape == state.game.observation_shape


def take(state, number):  # neither Numba's nor ours: compiled with the rule that calls it
    state.heap -= number


def test_rules_call_plain_python_functions():
    def other(player):
        return 1 - player

    class Matches(rl.Game):
        num_players, num_actions, max_length, observation_shape = 2, 2, 7, (1,)
        state = [("heap", np.int64), ("turn", np.int64)]

        @staticmethod
        def initial(state):
            state.heap = 7

        @staticmethod
        def player(state):
            return state.turn

        @staticmethod
        def legal_actions(state, mask):
            mask[0], mask[1] = True, state.heap > 1

        @staticmethod
        def step(state, action):
            take(state, action + 1)
            state.turn = other(state.turn)

        @staticmethod
        def terminal(state):
            return state.heap == 0

        @staticmethod
        def returns(state, out):
            out[other(state.turn)], out[state.turn] = 1.0, -1.0

        @staticmethod
        def observe(state, player, out):
            out[0] = state.heap

    game = Matches()
    rl.check_game(game)
    assert rl.MCTS(game, simulations=500, solver=True)(game.initial_state()).action == 0  # leaves six
