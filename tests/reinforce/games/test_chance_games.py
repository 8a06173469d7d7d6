"""Pig and 2048: rules against OpenSpiel's games, chance, and exact values of small games."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import reinforce as rl

DATA = Path(__file__).parents[2] / "data" / "reinforce"
PIG = json.loads((DATA / "pig_playthroughs.json").read_text())
PLAYED_2048 = json.loads((DATA / "playthrough_2048.json").read_text())


def expectimax(state):
    """Exact value for player 0, and of what can be played."""
    if state.terminal:
        return state.returns[0], {}
    values = {a: expectimax(state.play(a))[0] for a in state.legal_actions}
    if state.player == rl.CHANCE:
        return sum(state.chance[a] * v for a, v in values.items()), values
    return (max if state.player == 0 else min)(values.values()), values


# ---------------------------------------------------------------------------------------------------------------- pig


@pytest.mark.parametrize("played", PIG, ids=lambda played: f"seed {played['seed']}")
def test_games_of_pig(played):
    state = rl.games.Pig().initial_state()
    for action, count, player in zip(played["actions"], played["n_legal"], played["player"], strict=True):
        assert (len(state.legal_actions), state.player, state.terminal) == (count, player, False)
        state = state.play(action)
    assert state.terminal and state.returns.tolist() == played["returns"]


def test_a_turn_of_pig():
    state = rl.games.Pig().initial_state().play(0)
    assert state.player == rl.CHANCE and state.chance.tolist() == [1 / 6] * 6 and not state.legal_mask.any()
    assert [state.game.action_name(state, k) for k in range(6)] == ["1", "2", "3", "4", "5", "6"]
    six = state.play(5)
    assert six.player == 0 and str(six) == "x: 0, o: 0, x has 6 this turn" and str(six.play(0)).endswith("and rolls")
    assert str(six.play(1)) == "x: 6, o: 0, o has 0 this turn"
    assert str(six.play(0, 0)) == "x: 0, o: 0, o has 0 this turn"  # a 1: nothing kept
    assert six.observation().tolist() == np.float32([0, 0, 0.06, 1]).tolist()
    assert six.play(1).observation(1).tolist() == np.float32([0, 0.06, 0, 1]).tolist()


def test_pig_ends_undecided_after_a_thousand_moves():
    state = rl.games.Pig().initial_state().play(*[0, 0] * 500)
    assert state.terminal and state.returns.tolist() == [0.0, 0.0]


def chances_to_win(goal, sides):
    """The player's chance to win pig, own turn, by value iteration: {(own points, other's, this turn's): chance}."""
    win = {(i, j, k): 0.5 for i in range(goal) for j in range(goal) for k in range(goal - i)}
    change = 1.0
    while change > 1e-12:
        change = 0.0
        for i, j, k in win:
            lost = 1 - win[j, i, 0]
            roll = (lost + sum(1.0 if i + k + r >= goal else win[i, j, k + r] for r in range(2, sides + 1))) / sides
            stop = 1 - win[j, i + k, 0]
            new = max(roll, stop)
            change, win[i, j, k] = max(change, abs(new - win[i, j, k])), new
    return win


def value_of_pig(goal, sides, longest):
    """The same with a limit on the length, by expectimax on the game itself; positions that look alike are one."""
    game = rl.games.Pig(goal, sides)
    game.max_length = longest

    @functools.cache
    def value(state):
        if state.terminal:
            return state.returns[0]
        if state.player == rl.CHANCE:
            return sum(p * value(state.play(k)) for k, p in enumerate(state.chance))
        return (max if state.player == 0 else min)(value(state.play(a)) for a in state.legal_actions)

    return value(game.initial_state())


def test_the_value_of_short_pig():
    """With 60 moves few games are cut: returns are 1 and -1, so that the value is 2 win - 1 within the chance of a
    cut.
    """
    # a 2 wins, a 1 hands on: w = 1/2 + 1/2 (1 - w)
    assert chances_to_win(2, 2)[0, 0, 0] == pytest.approx(2 / 3, abs=1e-9)
    for goal, sides in ((2, 2), (4, 3)):
        assert value_of_pig(goal, sides, 60) == pytest.approx(2 * chances_to_win(goal, sides)[0, 0, 0] - 1, abs=1e-3)


def test_a_search_of_pig_knows_when_to_stop():
    """At 5 of 6 points in hand and nothing to lose or win but the game, stopping wins at once; with 2 in hand it rolls
    on.
    """
    game = rl.games.Pig(goal=6)
    winning = game.initial_state().play(0, 5)
    assert winning.legal_actions == [1]
    risky = game.initial_state().play(0, 1)  # 2 in hand
    win = chances_to_win(6, 6)
    lost = 1 - win[0, 0, 0]
    roll = (lost + sum(1.0 if 2 + r >= 6 else win[0, 0, 2 + r] for r in range(2, 7))) / 6
    stop = 1 - win[0, 2, 0]
    result = rl.MCTS(game, 20_000, policy=rl.UCT(c=0.5), seed=0)(risky)
    assert result.action == (0 if roll > stop else 1)
    assert result.root_value == pytest.approx(2 * max(roll, stop) - 1, abs=0.1)


@pytest.mark.parametrize(("goal", "sides"), [(0, 6), (100, 1), (2.5, 6)])
def test_impossible_pigs(goal, sides):
    with pytest.raises(rl.GameError, match="Pig: goal must be an integer >= 1 and sides of at least 2"):
        rl.games.Pig(goal, sides)


# --------------------------------------------------------------------------------------------------------------- 2048


def board_of(state):
    return [[0 if tile == "." else int(tile) for tile in line.split()] for line in str(state).split("\n")]


def test_the_game_of_2048_of_openspiel():
    states = [rl.games.TwentyFortyEight().initial_state()]
    for action in PLAYED_2048["actions"]:
        states.append(states[-1].play(action))
    for shown in PLAYED_2048["shown"]:
        state = states[shown["history"]]
        assert board_of(state) == shown["board"] and state.terminal == shown["terminal"]
        assert state.legal_actions == shown["legal"] and (state.player == rl.CHANCE) == shown["chance"]
        if shown["chance"]:
            np.testing.assert_allclose(state.chance[state.chance > 0], shown["probabilities"], rtol=1e-5)
        else:
            assert state.data[0]["score"] == shown["score"]
    assert states[-1].returns.tolist() == [496.0]


def position(board, due=0):
    """A position of 2048, the player to move (due=0) or chance."""
    game = rl.games.TwentyFortyEight()
    data = game.new_states(1)
    data["cells"][0] = [0 if tile == 0 else tile.bit_length() - 1 for tile in np.ravel(board).tolist()]
    data["due"] = 1
    if due == 0:  # let chance add the last tile, so that the game itself finds what can be moved
        (k,) = np.flatnonzero(data["cells"][0])[-1:]
        tile, data["cells"][0, k] = int(data["cells"][0, k]), 0
        assert tile <= 2, "the last tile must be one that chance can add"
        return rl.State(game, data, ()).play(2 * int(k) + tile - 1)
    return rl.State(game, data, ())


def pushed_left(row):
    """A row of tiles pushed to the left, and what merging gives: written for people."""
    tiles, out, score = [t for t in row if t], [], 0
    while tiles:
        tile = tiles.pop(0)
        if tiles and tiles[0] == tile:
            tile += tiles.pop(0)
            score += tile
        out.append(tile)
    return out + [0] * (4 - len(out)), score


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([0, 0, 2, 4, 8, 16]), min_size=15, max_size=15))
def test_pushing(tiles):
    board = np.array([*tiles, 2]).reshape(4, 4)
    state = position(board)
    # quarter turns counterclockwise that make the push one to the left
    turns = {"up": 1, "right": 2, "down": 3, "left": 0}
    legal = []
    for action, (name, k) in enumerate([(n, turns[n]) for n in ("up", "right", "down", "left")]):
        rows, scores = zip(*(pushed_left(row) for row in np.rot90(board, k).tolist()), strict=True)
        after = np.rot90(np.array(rows), -k)
        if (after == board).all():
            continue
        legal.append(action)
        played = state.play(action)
        assert board_of(played) == after.tolist(), name
        assert played.data[0]["score"] == sum(scores) and played.player == rl.CHANCE
        np.testing.assert_allclose(
            played.chance.reshape(4, 4, 2)[after == 0],
            np.broadcast_to([0.9, 0.1], ((after == 0).sum(), 2)) / (after == 0).sum(),
        )
        assert not played.chance.reshape(4, 4, 2)[after != 0].any()
    assert state.legal_actions == legal and state.terminal == (not legal)


def test_the_value_of_the_last_moves():
    """Both pushes make a 4. To the left, a new 4 (one in ten) comes beside it and makes 8; all else ends the game."""
    state = position([[4, 8, 16, 32], [8, 16, 32, 64], [16, 32, 64, 128], [256, 512, 2, 2]])
    value, values = expectimax(state)
    assert values == pytest.approx({1: 4.0, 3: 0.9 * 4 + 0.1 * 12}) and value == values[3]


@pytest.mark.slow
@pytest.mark.parametrize("game", [rl.games.Pig(), rl.games.TwentyFortyEight()], ids=repr)
def test_the_rules_keep_the_contract(game):
    rl.check_game(game, games=8)


def test_a_search_of_2048_is_better_than_random_play():
    """Random play scored 1,120 on average, with a standard deviation of 550."""
    game = rl.games.TwentyFortyEight()
    rng, search = np.random.default_rng(0), rl.MCTS(game, 50, policy=rl.UCT(c=500.0), seed=0)
    state = game.initial_state()
    while not state.terminal and state.data[0]["score"] < 3500:
        state = state.play(int(rng.choice(32, p=state.chance)) if state.player == rl.CHANCE else search(state).action)
    assert state.data[0]["score"] >= 3500


def test_names_of_moves_in_2048():
    state = rl.games.TwentyFortyEight().initial_state()
    assert [state.game.action_name(state, k) for k in (0, 1, 13)] == ["2 at 1,1", "4 at 1,1", "4 at 2,3"]
    state = state.play(0, 13)
    assert [state.game.action_name(state, k) for k in range(4)] == ["up", "right", "down", "left"]
    assert (
        np.argwhere(state.observation()[1:]).tolist() == [[0, 0, 0], [1, 1, 2]] and state.observation()[0].sum() == 14
    )
