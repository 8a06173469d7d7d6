"""Board games: what other programs have counted, played and solved, and how people write moves."""

import gzip
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from triskele import reinforce as rl
from triskele.core.compile.source_modules import load_module

DATA = Path(__file__).parents[2] / "data" / "reinforce"
NAMES = {  # as OpenSpiel writes them
    "tic_tac_toe": lambda: rl.games.TicTacToe(),
    "connect_four": lambda: rl.games.ConnectFour(),
    "connect_four(rows=4,columns=4)": lambda: rl.games.ConnectFour(4, 4),
    "othello": lambda: rl.games.Othello(),
    "breakthrough": lambda: rl.games.Breakthrough(),
    "breakthrough(rows=4,columns=3)": lambda: rl.games.Breakthrough(4, 3),
    "hex(board_size=2)": lambda: rl.games.Hex(2),
    "hex(board_size=3)": lambda: rl.games.Hex(3),
    "hex(board_size=5)": lambda: rl.games.Hex(5),
    "nim": lambda: rl.games.Nim((1, 3, 5, 7), misere=True),
}


@cache
def named(name):
    return NAMES[name]()


@cache
def data(file):
    raw = (DATA / file).read_bytes()
    return json.loads(gzip.decompress(raw) if file.endswith(".gz") else raw)


def ours(name, action):
    """Our number of an action of OpenSpiel, which numbers captures of breakthrough apart, and directions of the two
    players.
    """
    return action // 12 * 3 + action // 2 % 3 if name.startswith("breakthrough") else action


PERFT = '''"""Counts of move sequences. {key}"""
from triskele.core.kernels.njit import kernel


@kernel
def perft(states, masks, actions, counts):
    depth, d = len(counts), 0
    rule_legal_actions(states[0], masks[0])
    actions[0] = -1
    while d >= 0:
        actions[d] += 1
        if actions[d] == masks.shape[1]:
            d -= 1
        elif masks[d, actions[d]]:
            counts[d] += 1
            if d + 1 < depth:
                states[d + 1] = states[d]
                rule_step(states[d + 1], actions[d])
                if not rule_terminal(states[d + 1]):
                    d += 1
                    rule_legal_actions(states[d], masks[d])
                    actions[d] = -1
'''


@pytest.mark.parametrize(
    ("name", "depth"),
    [("tic_tac_toe", 9), ("connect_four", 8), ("othello", 8), ("breakthrough", 4), ("hex(board_size=5)", 4)],
)
def test_number_of_move_sequences(name, depth):
    game = named(name)
    rules = {f"rule_{n}": f for n, f in game.compiled._asdict().items() if f is not None}
    kernels = load_module(PERFT.format(key=game.key), "perft", rules)
    counts = np.zeros(depth, np.int64)
    kernels.perft(game.new_states(depth), np.zeros((depth, game.num_actions), bool), np.zeros(depth, np.int64), counts)
    assert counts.tolist() == data("perft.json")[name][:depth]


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello", "hex(board_size=5)", "breakthrough"])
def test_random_games_of_openspiel(name):
    for played in data("random_playthroughs.json.gz")[name]:
        state = named(name).initial_state()
        for action, count, player in zip(played["actions"], played["n_legal"], played["player"], strict=True):
            assert (state.player, len(state.legal_actions)) == (player, count)
            state = state.play(ours(name, action))
        assert state.returns.tolist() == played["returns"]


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "othello", "breakthrough", "nim"])
def test_boards_and_legal_actions_of_openspiel(name):
    game, told = named(name), data("openspiel_playthroughs.json.gz")[name]
    state = game.initial_state()
    for ply in range(len(told["actions"]) + 1):
        if there := told["positions"].get(str(ply)):
            assert state.legal_actions == sorted(ours(name, a) for a in there["legal"])
            if name == "nim":
                assert [line.count("|") for line in str(state).splitlines()] == [
                    int(n) for n in there["board"][0].split(":")[1].split()
                ]
            else:
                assert shown(str(state)) == shown("\n".join(line for line in there["board"] if not line.endswith(":")))
            if name in ("othello", "breakthrough"):
                theirs = {
                    ours(name, a): text.rstrip("*") for a, text in zip(there["legal"], there["names"], strict=True)
                }
                assert {a: game.action_name(state, a) for a in state.legal_actions} == theirs
            assert state.terminal == (there["player"] == -4)
            assert state.returns.tolist() == there["returns"] if state.terminal else state.player == there["player"]
        if ply < len(told["actions"]):
            state = state.play(ours(name, told["actions"][ply]))
    assert state.terminal


def shown(text):
    """The cells of a drawing."""
    rows = [line for line in text.splitlines() if not "abcdefghijklmnopqrstuvwxyz".startswith(line.replace(" ", ""))]
    return [[ch for ch in row.replace("b", "x").replace("w", "o").replace("-", ".") if ch in "xo."] for row in rows]


def solve(game):
    """Value for player 0 of the first position and of what follows it, and the number of positions, by going through
    all of them.
    """
    layers, states = [], game.new_states(1)
    while len(states):
        n = len(states)
        players, over, masks = np.zeros(n, np.int64), np.zeros(n, bool), np.zeros((n, game.num_actions), bool)
        game.kernels.look(states, players, over, masks, np.zeros((n, 0)))
        returns = np.zeros((n, 2))
        game.kernels.returns(states[over], ended := np.zeros((over.sum(), 2)))
        returns[over] = ended
        parents, actions = np.nonzero(masks & ~over[:, None])
        children = states[parents]
        game.kernels.play(children, actions)
        following, index = np.unique(children.view(f"V{game.dtype.itemsize}"), return_inverse=True)
        layers.append((states, players, over, returns[:, 0], parents, actions, index))
        states = following.view(game.dtype)
    values = np.zeros(0)
    for _, players, over, ended, parents, _actions, index in reversed(layers):
        of_children = values[index]
        sign = np.where(players == 0, 1.0, -1.0)
        best = np.full(len(players), -np.inf)
        np.maximum.at(best, parents, sign[parents] * of_children)
        values = np.where(over, ended, sign * best)
    distinct = np.unique(np.concatenate([layer[0] for layer in layers]).view(f"V{game.dtype.itemsize}"))
    return values[0], dict(zip(layers[0][5].tolist(), of_children.tolist(), strict=True)), len(distinct)


@pytest.mark.parametrize(
    "name",
    [
        "tic_tac_toe",
        "hex(board_size=2)",
        "hex(board_size=3)",
        "connect_four(rows=4,columns=4)",
        "breakthrough(rows=4,columns=3)",
        "nim",
    ],
)
def test_values_of_small_games(name):
    known = data("small_game_values.json")[name]
    value, children, distinct = solve(named(name))
    assert value == known["value_p0"]
    assert children == {ours(name, int(a)): v for a, v in known["child_values"].items()}
    assert distinct == known["distinct_states"]


def test_othello_passes_where_nothing_can_be_captured():
    game, played = named("othello"), data("random_playthroughs.json.gz")["othello"][8]["actions"]
    for ply in (k for k, action in enumerate(played) if action == 64):
        state = game.initial_state().play(*played[:ply])
        assert (
            state.legal_actions == [64]
            and game.action_name(state, 64) == "pass"
            and game.parse_action(state, "pass") == 64
        )
        assert str(state.play(64)) == str(state) and state.play(64).player != state.player


@pytest.mark.parametrize(
    ("make", "moves", "actions"),
    [
        (lambda: rl.games.TicTacToe(), ["b2", "a1"], (4, 0)),
        (lambda: rl.games.ConnectFour(), ["d", "g"], (3, 6)),
        (lambda: rl.games.Othello(), ["d3", "c5"], (19, 34)),
        (lambda: rl.games.Breakthrough(), ["a7b6", "h2h3"], (3 * 8 + 2, 3 * 55 + 1)),
        (lambda: rl.games.Hex(3), ["c1", "b3"], (2, 7)),
        (lambda: rl.games.Nim(), ["d7", "a1"], (27, 0)),
    ],
)
def test_moves_as_players_write_them(make, moves, actions):
    state = make().initial_state()
    for text, action in zip(moves, actions, strict=True):
        assert state.game.parse_action(state, text) == action and state.game.action_name(state, action) == text
        state = state.play(action)
    with pytest.raises(rl.IllegalActionError, match="'z9' is not legal after"):
        state.game.parse_action(state, "z9")


def test_who_takes_the_last_one_at_nim_wins_or_loses():
    assert rl.games.Nim((2,), misere=False).initial_state().play(1).returns.tolist() == [1.0, -1.0]
    assert rl.games.Nim((2,), misere=True).initial_state().play(1).returns.tolist() == [-1.0, 1.0]
    # Bouton: in normal play the winning moves are those that leave heaps whose exclusive or is 0
    _, children, _ = solve(rl.games.Nim((3, 4, 6), misere=False))
    for action, value in children.items():
        left = [3, 4, 6]
        left[action % 3] -= action // 3 + 1
        assert value == (-1.0 if np.bitwise_xor.reduce(left) else 1.0)


def test_payoffs_of_three_players():
    payoffs = np.arange(3 * 2 * 3 * 2).reshape(3, 2, 3, 2)
    game = rl.games.MatrixGame(payoffs)
    state = game.initial_state()
    assert (game.num_players, game.num_actions, state.legal_actions) == (3, 3, [0, 1])
    state = state.play(1)
    assert (state.player, state.legal_actions) == (1, [0, 1, 2])
    state = state.play(2)
    assert state.observation().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
    assert state.play(0).returns.tolist() == payoffs[:, 1, 2, 0].tolist()
    assert str(state) == "moves 1 2: payoffs (10, 22, 34) (11, 23, 35)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: rl.games.ConnectFour(8, 8),
            r"ConnectFour: \(rows \+ 1\) \* columns must be at most 63, .* got 8 rows and 8 columns",
        ),
        (lambda: rl.games.ConnectFour(1, 30), "and columns at most 26"),
        (lambda: rl.games.ConnectFour(0, 7), "must be integers >= 1, got 0, 7, 4"),
        (lambda: rl.games.ConnectFour(6.0, 7), "must be integers >= 1, got 6.0"),
        (lambda: rl.games.Breakthrough(9, 8), "at most 64 cells, got 9 rows and 8 columns"),
        (lambda: rl.games.Breakthrough(2, 8), "at least 3 rows"),
        (lambda: rl.games.Hex(27), "Hex: size must be an integer from 1 to 26, got 27"),
        (lambda: rl.games.Nim(()), "heaps must be 1 to 26 integers >= 1"),
        (lambda: rl.games.Nim((1, 0)), "heaps must be 1 to 26 integers >= 1"),
        (lambda: rl.games.MatrixGame([[1, 2], [3, 4]]), r"must have the shape \(players, .* got shape \(2, 2\)"),
        (lambda: rl.games.MatrixGame([[1, np.nan]]), r"must be finite, got nan at 0, 1"),
        (lambda: rl.games.MatrixGame([[1, 2], [3]]), "must be an array of numbers"),
    ],
)
def test_boards_that_cannot_be(make, message):
    with pytest.raises(rl.GameError, match=message):
        make()
