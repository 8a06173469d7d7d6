"""MCTS-Solver: values of small games proven, against exhaustive search."""

import json
from pathlib import Path

import pytest

from triskele import reinforce as rl

DATA = Path(__file__).parents[2] / "data" / "reinforce"
VALUES = json.loads((DATA / "small_game_values.json").read_text())
TTT = rl.games.TicTacToe()


@pytest.mark.parametrize(
    ("name", "game", "simulations"),
    [
        ("tic_tac_toe", TTT, 300_000),
        ("hex(board_size=2)", rl.games.Hex(size=2), 1_000),
        ("hex(board_size=3)", rl.games.Hex(size=3), 100_000),
        ("breakthrough(rows=4,columns=3)", rl.games.Breakthrough(rows=4, columns=3), 100_000),
    ],
)
def test_small_games_are_proven(name, game, simulations):
    search = rl.MCTS(game, simulations=simulations, solver=True)
    state, known = game.initial_state(), VALUES[name]
    result = search(state)
    assert result.proven and result.root_value == known["value_p0"]
    assert result.simulations < simulations  # what is proven is not searched on
    if name != "breakthrough(rows=4,columns=3)":  # where actions have other numbers
        assert known["child_values"][str(result.action)] == known["value_p0"]
        for action, value in known["child_values"].items():
            if abs(value) == 1:
                child = search(state.play(int(action)))
                assert child.proven and child.root_value == -value


def test_positions_of_a_batch_that_are_proven_at_different_times():
    known = json.loads((DATA / "tic_tac_toe_minimax.json").read_text())["positions"]  # what x gets
    later = [
        TTT.initial_state().play(*line[:k])
        for line in ((4, 0, 2, 6, 3, 5, 1), (0, 1, 2, 4, 3, 5, 7), (8, 4, 0, 2, 6, 7))
        for k in range(3, len(line))
    ]
    found = rl.MCTS(TTT, simulations=20_000, solver=True, seed=0)(later)
    assert found.proven.all()
    assert found.root_value.tolist() == [
        known["".join(c for c in str(s) if c in "xo.")][0] * (1 - 2 * s.player) for s in later
    ]


def test_a_proven_loss_is_hardly_visited_again_and_not_played():
    state = TTT.initial_state().play(0, 3, 1)  # o has to stop x at 2
    result = rl.MCTS(TTT, simulations=400, solver=True, seed=1)(state)
    lost = result.values == -1
    assert lost[[4, 5, 6, 7, 8]].all() and result.action == 2
    assert result.visits[lost].max() < 50


class Chances(rl.Game):
    """One player stakes (0) or not (1); a coin then decides about a stake."""

    num_players, num_actions, num_outcomes, max_length, observation_shape = 1, 2, 2, 2, (1,)
    state = [("what", "i8")]

    @staticmethod
    def initial(state):
        state.what = 0

    @staticmethod
    def player(state):
        return -1 if state.what == 1 else 0

    @staticmethod
    def legal_actions(state, mask):
        mask[:] = True

    @staticmethod
    def chance(state, probabilities):
        probabilities[0], probabilities[1] = 0.75, 0.25

    @staticmethod
    def step(state, action):
        state.what = (1 if action == 0 else 2) if state.what == 0 else 3 + action

    @staticmethod
    def terminal(state):
        return state.what > 1

    @staticmethod
    def returns(state, out):
        out[0] = 0.1 if state.what == 2 else 1.0 if state.what == 3 else -1.0

    @staticmethod
    def observe(state, player, out):
        out[0] = state.what


def test_one_player_and_chance():
    result = rl.MCTS(Chances(), simulations=100, solver=True)(Chances().initial_state())
    assert result.proven and result.action == 0
    assert result.root_value == pytest.approx(0.75 - 0.25) and result.values[1] == 0.1


class Dice(rl.Game):
    """Player 0 chooses, a die of three is cast, twice over. Action 0 wins whatever is cast, action 1 loses at 2."""

    num_players, num_actions, num_outcomes, max_length, observation_shape = 2, 2, 3, 4, (1,)
    state = [("n", "i8"), ("action", "i8"), ("lost", "i8")]

    @staticmethod
    def initial(state):
        state.n = 0

    @staticmethod
    def player(state):
        return 0 if state.n % 2 == 0 else -1

    @staticmethod
    def legal_actions(state, mask):
        mask[:] = True

    @staticmethod
    def chance(state, probabilities):
        probabilities[:] = 1 / 3

    @staticmethod
    def step(state, action):
        if state.n % 2 == 0:
            state.action = action
        elif state.action == 1 and action == 2:
            state.lost = 1
        state.n += 1

    @staticmethod
    def terminal(state):
        return state.n == 4

    @staticmethod
    def returns(state, out):
        out[0] = -1.0 if state.lost else 1.0
        out[1] = -out[0]

    @staticmethod
    def observe(state, player, out):
        out[0] = state.n


def test_returns_that_prove_nothing():
    class Large(Dice):
        @staticmethod
        def returns(state, out):
            out[0], out[1] = 5.0, -5.0

    with pytest.raises(rl.SearchError, match=r"Large after \(.*\), node \d+: solver=True needs returns from -1 to 1"):
        rl.MCTS(Large(), solver=True)(Large().initial_state())


class Walk(rl.Game):
    """Three steps to the left (0) or right (1); the left end pays 1, the right end 3, and anything else costs 2."""

    num_players, num_actions, max_length, observation_shape = 1, 2, 3, (1,)
    state = [("place", "i8"), ("n", "i8")]

    @staticmethod
    def initial(state):
        state.place = 0

    @staticmethod
    def player(state):
        return 0

    @staticmethod
    def legal_actions(state, mask):
        mask[:] = True

    @staticmethod
    def step(state, action):
        state.place += 2 * action - 1
        state.n += 1

    @staticmethod
    def terminal(state):
        return state.n == 3

    @staticmethod
    def returns(state, out):
        out[0] = 3.0 if state.place == 3 else 1.0 if state.place == -3 else -2.0

    @staticmethod
    def observe(state, player, out):
        out[0] = state.place


def test_scores_of_one_player_of_any_size():
    state = Walk().initial_state()
    for seed in range(20):
        found = rl.MCTS(Walk(), simulations=500, solver=True, seed=seed)(state)
        assert (found.proven, found.root_value, found.action) == (True, 3.0, 1)
        lost = rl.MCTS(Walk(), simulations=500, solver=True, seed=seed)(state.play(0, 1))
        assert (lost.proven, lost.root_value) == (True, -2.0)


def test_chance_of_thirds_is_summed_exactly():
    found = rl.MCTS(Dice(), simulations=20_000, solver=True, seed=0)(Dice().initial_state())
    assert found.proven and found.root_value == 1.0 and found.simulations < 20_000
    lost = rl.MCTS(Dice(), simulations=20_000, solver=True, seed=0)(Dice().initial_state().play(1, 2))
    assert lost.proven and lost.root_value == -1.0
