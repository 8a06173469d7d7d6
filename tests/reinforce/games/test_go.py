"""Go: rules against OpenSpiel's games and against a twin that is slow and obvious."""

import functools
import hashlib
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from tests.twins.go import PASS, Board
from triskele import reinforce as rl
from triskele.core.kernels.njit import kernel
from triskele.reinforce import random

DATA = Path(__file__).parents[2] / "data" / "reinforce"
CASES = json.loads((DATA / "go_rule_cases.json").read_text())
PLAYED = json.loads((DATA / "go_playthroughs.json").read_text())


@functools.cache
def go(size, komi=0.5, superko=True):
    return rl.games.Go(size, komi, superko)


def written(state):
    """The board as OpenSpiel writes it."""
    rows = [line[:3] + line[3:].replace(" ", "").replace(".", "+") for line in str(state).split("\n")]
    return "\n".join(
        [
            f"GoState(komi={state.game.komi:g}, to_play={'BW'[len(state.moves) % 2]}, "
            f"history.size()={len(state.moves)})",
            "",
            *rows[:-1],
            rows[-1].upper(),
            "",
        ]
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
@pytest.mark.parametrize("superko", [True, False], ids=["superko", "ko"])
def test_rule_cases(case, superko):
    game = go(case["size"], case["komi"], superko)
    state = game.initial_state()
    for k, move in enumerate(case["moves"]):
        if case["illegal_at"] and k == case["illegal_at"][0]:
            with pytest.raises(rl.IllegalActionError, match=f"Go: '{move}' is not legal after"):
                game.parse_action(state, move)
            break
        state = state.play(game.parse_action(state, move))
    assert written(state).split("\n") == case["board"]
    assert state.terminal == case["terminal"] and len(state.legal_actions) == case["n_legal"]
    if state.terminal:
        assert state.returns.tolist() == case["returns"]


@pytest.mark.parametrize(
    ("name", "size", "komi"), [("go(board_size=5,komi=0.5)", 5, 0.5), ("go(board_size=9,komi=7.5)", 9, 7.5)]
)
def test_games_of_openspiel(name, size, komi):
    for played in PLAYED[name]:
        state = go(size, komi, superko=False).initial_state()
        for action, count, player in zip(played["actions"], played["n_legal"], played["player"], strict=True):
            assert (len(state.legal_actions), state.player, state.terminal) == (count, player, False)
            state = state.play(action)
        assert state.terminal and state.returns.tolist() == played["returns"]
        assert hashlib.sha1(written(state).encode()).hexdigest()[:12] == played["final_sha1"]


@pytest.mark.peer
def test_repetitions_end_games_as_in_openspiel():
    """On 3 x 3, where players pass only if they have to, one game in twelve ends so."""
    pytest.importorskip("pyspiel")
    theirs, ends = rl.from_openspiel("go", board_size=3, komi=0.5), Counter()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        state, same = go(3, 0.5, False).initial_state(), theirs.initial_state()
        while not same.terminal:
            assert state.legal_actions == same.legal_actions and not state.terminal
            action = int(rng.choice(same.legal_actions[:-1] or same.legal_actions))
            state, same = state.play(action), same.play(action)
        assert state.terminal and state.returns.tolist() == same.returns.tolist()
        ends[tuple(same.returns)] += 1
    assert ends[0.0, 0.0] > 0


def test_number_of_games():
    """Perft, passes among the moves, as OpenSpiel counts; position by position, and level by level."""

    def perft(state, depth):
        if state.terminal:
            return 0
        return (
            len(state.legal_actions)
            if depth == 1
            else sum(perft(state.play(a), depth - 1) for a in state.legal_actions)
        )

    assert [perft(go(5).initial_state(), d) for d in (1, 2)] == [26, 651]
    assert [count_games(go(5), d) for d in (3, 4)] == [15650, 361041]
    assert [count_games(go(9, 7.5, False), d) for d in (1, 2, 3)] == [82, 6643, 531522]


def count_games(game, depth):
    states = game.new_states(1)
    for level in range(depth):
        players, over = np.zeros(len(states), np.int64), np.zeros(len(states), bool)
        masks, none = np.zeros((len(states), game.num_actions), bool), np.zeros((len(states), 0))
        game.kernels.look(states, players, over, masks, none)
        if level == depth - 1:
            return int(masks.sum())
        parents, actions = np.nonzero(masks)
        states = states[parents]
        game.kernels.play(states, actions)


@settings(max_examples=20, deadline=None)
@given(size=st.sampled_from([3, 5]), superko=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_random_games_equal_the_twin(size, superko, seed):
    assert_same_as_the_twin(size, superko, seed)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 4, 7])
@pytest.mark.parametrize("superko", [True, False], ids=["superko", "ko"])
def test_random_games_on_other_boards_equal_the_twin(size, superko):
    for seed in range(20):
        assert_same_as_the_twin(size, superko, seed)


def assert_same_as_the_twin(size, superko, seed):
    """Small boards make chains, captures and repetitions of all kinds; passes are rare, so that games are long."""
    rng, game = np.random.default_rng(seed), go(size, 0.5, superko)
    twin, state = Board(size, 0.5, superko), game.initial_state()
    while not twin.terminal:
        legal = twin.legal()
        assert not state.terminal and state.player == twin.player
        assert state.legal_actions == [size * size if move == PASS else move[0] * size + move[1] for move in legal]
        k = int(rng.integers(len(legal))) if rng.random() < 0.1 else int(rng.integers(max(1, len(legal) - 1)))
        twin.play(legal[k])
        state = state.play(state.legal_actions[k])
        color = state.data[0]["color"].reshape(-1)
        assert {p: int(s) - 1 for p in twin.points if (s := color[(p[0] + 1) * (size + 1) + p[1] + 1])} == twin.stones
    assert state.terminal and state.returns.tolist() == twin.returns()


def test_superko_forbids_what_simple_ko_allows():
    """Sending two stones and returning one: White took c2 and c3, Black would take c1 and make the board of move 4."""
    moves = ["b1", "b3", "c2", "b2", "c3", "c1"]
    with_ko, with_superko = (
        functools.reduce(lambda state, move: state.play(game.parse_action(state, move)), moves, game.initial_state())
        for game in (go(3, 0.5, False), go(3))
    )
    assert str(with_ko) == str(with_superko) == " 3 . O .\n 2 . O .\n 1 . X O\n   a b c"
    c2 = 5
    assert c2 in with_ko.legal_actions and c2 not in with_superko.legal_actions
    over = with_ko.play(c2)
    assert over.terminal and over.returns.tolist() == [0.0, 0.0]


def with_stones(game, black, white):
    """The end of a game in which the players have put their stones there, and have passed otherwise."""
    state = game.initial_state()
    for k in range(max(len(black), len(white))):
        for mine in (black, white):
            state = state.play(game.parse_action(state, mine[k] if k < len(mine) else "pass"))
    return state.play(*[game.size**2] * (2 - int(state.data[0]["passes"])))


COLUMNS = {c: [f"{c}{r}" for r in range(1, 6)] for c in "abcde"}


@pytest.mark.parametrize(
    ("black", "white", "komi", "result"),
    [
        (COLUMNS["b"], COLUMNS["d"], 0, 0),  # ten each: column c reaches both
        (COLUMNS["b"], COLUMNS["d"], 0.5, -1),
        (COLUMNS["c"], COLUMNS["d"], 0.5, 1),  # 15 : 10
        # stones that could be taken live if they are not: column a reaches both, 5 : 11
        (COLUMNS["b"], [*COLUMNS["d"], "a1"], 0, -1),
        (COLUMNS["c"], [], 0.5, 1),
        ([], [], 0, 0),  # an empty board reaches nobody
    ],
)
def test_area(black, white, komi, result):
    state = with_stones(go(5, komi), black, white)
    assert state.terminal and state.returns.tolist() == [result, -result]


@kernel(cache=False)
def _draw(state, rule, counts, n):
    stream = np.empty(1, np.uint64)
    random.start(stream, 7, 0, 0)
    for _ in range(n):
        counts[rule(state, stream)] += 1


def test_random_actions_are_uniform_over_what_is_legal():
    """Chi-square; a right rule fails once in 10,000 seeds, and the seed is fixed."""
    state = go(5).initial_state().play(*PLAYED["go(board_size=5,komi=0.5)"][0]["actions"][:28])
    counts, n = np.zeros(26, np.int64), 20_000
    _draw(state.data[0], go(5).compiled.random_action, counts, n)
    legal = state.legal_mask
    assert counts[~legal].sum() == 0 and 5 < legal.sum() < 20
    expected = n / legal.sum()
    assert ((counts[legal] - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-4, legal.sum() - 1)


def test_observations():
    state = go(3).initial_state().play(0, 4, 9)  # Black a1, White b2, Black passes
    mine, other, black, passed = state.observation()
    assert np.argwhere(mine).tolist() == [[1, 1]] and np.argwhere(other).tolist() == [[0, 0]]
    assert not black.any() and passed.all()
    assert np.argwhere(state.observation(0)[0]).tolist() == [[0, 0]] and state.observation(0)[2].all()


def test_names_of_moves_leave_out_i():
    game = go(9, 7.5, False)
    state = game.initial_state()
    names = Counter(game.action_name(state, a) for a in range(82))
    assert len(names) == 82 and {"a1", "h9", "j9", "pass"} <= set(names) and "i1" not in names
    assert game.parse_action(state, "j1") == 8


@pytest.mark.slow
@pytest.mark.parametrize("superko", [True, False], ids=["superko", "ko"])
def test_the_rules_keep_the_contract(superko):
    rl.check_game(go(4, 2, superko), games=8)


def test_a_search_takes_what_is_in_atari():
    """White's only chain is in atari, and the capture settles who owns the board."""
    game = go(3)
    # White a1, c3
    state = game.initial_state().play(*[game.parse_action(game.initial_state(), m) for m in ("b2", "a1", "a2", "c3")])
    result = rl.MCTS(game, 3000, seed=0)(state)
    assert result.root_value > 0.5
    assert rl.MCTS(game, 3000, seed=0)(state).visits.tolist() == result.visits.tolist()


@pytest.mark.parametrize("size", [0, 26, 9.0, True])
def test_impossible_boards(size):
    with pytest.raises(rl.GameError, match="Go: size must be an integer from 1 to 25"):
        rl.games.Go(size)


@pytest.mark.parametrize("komi", [np.nan, "6.5"])
def test_impossible_komi(komi):
    with pytest.raises(rl.GameError, match="Go: komi must be a finite number"):
        rl.games.Go(9, komi)
