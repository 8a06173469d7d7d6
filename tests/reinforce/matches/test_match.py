"""Matches: who plays, what is counted, and what players may do wrong."""

import numpy as np
import pytest

from tests.twins.countdown import Countdown
from triskele import reinforce as rl
from triskele.core import nn
from triskele.reinforce import policy
from triskele.reinforce.random import below


def first(state):
    return state.legal_actions[0]


def last(state):
    return state.legal_actions[-1]


def play(players, games=10, game=None, **kwargs):
    return rl.play_match(game or rl.games.TicTacToe(), players, games, progress=False, **kwargs)


def test_seats_rotate_and_results_belong_to_players():
    result = play({"low": first, "high": last}, games=4)
    assert result.first.tolist() == [0, 1, 0, 1]
    # both fill the board from their end: who begins has the first row, or the last, after three moves
    assert result.moves == [(0, 8, 1, 7, 2), (8, 0, 7, 1, 6), (0, 8, 1, 7, 2), (8, 0, 7, 1, 6)]
    assert result.returns.tolist() == [[1, -1], [-1, 1], [1, -1], [-1, 1]]
    assert (result.wins.tolist(), result.draws.tolist(), result.losses.tolist()) == ([2, 2], [0, 0], [2, 2])
    assert result.score.tolist() == [0.5, 0.5]
    # the standard deviation of 1 0 1 0 over the root of 4
    assert result.error == pytest.approx([np.sqrt(1 / 3) / 2] * 2)


def test_the_table():
    assert str(play({"low": first, "high": last}, games=4)).splitlines() == [
        "4 games of TicTacToe(), 2 of them different",
        "player    wins  draws losses   score             return",
        "low          2      0      2    50.0 % ± 28.9     0.000",
        "high         2      0      2    50.0 % ± 28.9     0.000",
    ]
    assert str(play([first, last], games=1)).splitlines()[1:] == [
        "player    wins  draws losses   score             return",
        "first        1      0      0   100.0 %            1.000",
        "last         0      0      1     0.0 %           -1.000",
    ]


def test_payoffs_of_many_players():
    payoffs = np.zeros((3, 2, 2, 2))
    payoffs[:, 1, 0, 0], payoffs[:, 0, 1, 0], payoffs[:, 0, 0, 1] = (5, 5, 1), (3, 9, 3), (1, 2, 2)

    def one(state):
        return 1

    def zero(state):
        return 0

    result = play({"one": one, "zero": zero, "nil": zero}, games=3, game=rl.games.MatrixGame(payoffs))
    seat = [[(i - k) % 3 for i in range(3)] for k in range(3)]
    expected = [
        [payoffs[seat[k][i]][tuple(int(s == seat[k][0]) for s in range(3))] for i in range(3)] for k in range(3)
    ]
    assert result.returns.tolist() == expected
    assert (result.wins.sum(), result.draws.sum()) == (1, 4)  # (5, 5, 1) and (1, 2, 2) have two winners each
    assert result.points.sum(axis=1) == pytest.approx([1, 1, 1])


def test_random_players_are_even_and_repeatable():
    game = rl.games.ConnectFour()
    result = play([rl.Random(), rl.Random()], games=600, game=game)
    assert abs(result.score[0] - 0.5) < 4 * result.error[0]
    starts = sum(r[f] > 0 for r, f in zip(result.returns, result.first, strict=True)) / 600
    assert starts == pytest.approx(0.556, abs=0.06)  # who begins wins 55.6 % of random games (10 million were played)
    again, other = (
        play([rl.Random(), rl.Random()], games=600, game=game),
        play([rl.Random(), rl.Random()], games=600, game=game, seed=1),
    )
    assert again.moves == result.moves and other.moves != result.moves


def test_compiled_functions_play():
    def uniform(state, stream):
        taken = state.own | state.other
        while True:
            action = below(stream, 9)
            if (taken >> action) & 1 == 0:
                return action

    import numba

    result = play({"compiled": numba.njit(uniform), "random": rl.Random()}, games=1000)
    assert abs(result.score[0] - 0.5) < 4 * result.error[0] and len(set(result.moves)) > 800
    assert play({"compiled": numba.njit(uniform), "random": rl.Random()}, games=1000).moves == result.moves


def test_searches_and_networks_play():
    game = rl.games.TicTacToe()
    weights = np.zeros((18, 9), np.float32)
    center_first = policy.Policy(
        policy.Categorical(policy.Flat(nn.Linear(weights, np.array([1, 0, 2, 0, 9, 0, 3, 0, 4], np.float32)), axes=3)),
        (2, 3, 3),
        num_actions=9,
    )
    result = play({"search": rl.MCTS(game, simulations=500), "network": center_first}, games=6, game=game)
    assert result.losses[0] == 0
    assert all(moves[0] == 4 for moves, f in zip(result.moves, result.first, strict=True) if f == 1)
    other = policy.Policy(center_first.head, (18,), num_actions=9)
    with pytest.raises(
        rl.GameError,
        match=r"must take observations of shape \(2, 3, 3\) and have 9 actions as "
        r"TicTacToe has, got \(18,\) and 9",
    ):
        play([other, first])


def test_searches_play_different_games():
    game = rl.games.TicTacToe()
    players = [rl.MCTS(game, simulations=20, seed=1), rl.MCTS(game, simulations=20, seed=2)]
    result = play(players, games=20, game=game)
    assert len(set(result.moves)) > 10
    assert result.names == ("MCTS 20 (1)", "MCTS 20 (2)")
    assert play(players, games=20, game=game).moves == result.moves != play(players, games=20, game=game, seed=1).moves


def test_chance_plays_by_its_probabilities():
    def roll(state):
        return 0 if 0 in state.legal_actions else 1

    result = play([roll, roll], games=200, game=rl.games.Pig(goal=20))
    outcomes = np.array([m for moves in result.moves for m in moves[1::2]])  # a die follows every roll
    assert np.bincount(outcomes, minlength=6) / len(outcomes) == pytest.approx(np.full(6, 1 / 6), abs=0.03)


def test_games_with_rules_of_python():
    rl.check_game(Countdown())

    def best(state):  # leaves a multiple of three
        return max(state.position[0] % 3 - 1, 0)

    result = play([best, rl.Random()], games=40, game=Countdown())
    assert all(r[0] == 1 for r, f in zip(result.returns, result.first, strict=True) if f == 0)


def test_people_type_their_moves(monkeypatch, capsys):
    typed = iter(["b2", "a1", "z7", "c1", "a3"])
    monkeypatch.setattr("builtins.input", lambda prompt: print(prompt) or next(typed))

    def program(state):
        return state.legal_actions[-1] if len(state.moves) > 1 else 1

    result = rl.play_match(rl.games.TicTacToe(), [rl.Human(), program], games=1)
    assert result.moves == [(4, 1, 0, 8, 2, 7, 6)] and result.wins.tolist() == [1, 0]
    told = capsys.readouterr().out
    assert "player 0, your move:" in told and "'z7' is not legal after (4, 1, 0, 8) (legal: c1, a2, c2, a3, b3)" in told
    assert "\nplayer 1: b1\n  a b c\n" in told and "\nplayer 1: c3\n  a b c\n" in told, "what the other has played"
    assert told.endswith("  a b c\n1 x o x\n2 . x .\n3 x o o\nplayers got 1, -1\n")


@pytest.mark.parametrize(
    ("players", "error", "message"),
    [
        ([first], rl.GameError, "TicTacToe needs 2 players, got 1"),
        (
            [first, "me"],
            rl.GameError,
            r"a player must be a search, a policy, a function of a position, Random\(\) or Human\(\), got 'me'",
        ),
        ([first, rl.Random], rl.GameError, "a player must be a search"),
        (
            [first, lambda state: 0],
            rl.IllegalActionError,
            r"<lambda> played 0, which is not legal in the position of TicTacToe after \(0,\) \(legal: \[1, 2",
        ),
        ([first, lambda state: 1.0], rl.IllegalActionError, "<lambda> played 1.0, which is not legal"),
        ([first, lambda state: None], rl.IllegalActionError, "<lambda> played None, which is not legal"),
        (
            [first, lambda state: [1, 2]],
            rl.GameError,
            r"actions of <lambda> must have shape \(5,\), got \(5, 2\) \(one for each position\)",
        ),
        (
            [first, lambda state: 1 // 0],
            rl.GameError,
            r"<lambda> raised ZeroDivisionError: .*, in the position of TicTacToe after \(\)$",
        ),
    ],
)
def test_players_who_do_wrong(players, error, message):
    with pytest.raises(error, match=f"play_match: {message}"):
        play(players)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"games": 0}, "games must be an integer >= 1, got 0"),
        ({"games": 2.0}, "games must be an integer >= 1, got 2.0"),
        ({"seed": -1}, "seed must be an integer >= 0, got -1"),
    ],
)
def test_matches_that_cannot_be(arguments, message):
    with pytest.raises(rl.GameError, match=message):
        play([first, last], **arguments)


def test_searches_in_another_game():
    search = rl.MCTS(rl.games.ConnectFour(4, 4), simulations=10)
    with pytest.raises(rl.GameError, match="must be a search in TicTacToe"):
        play([search, first])
