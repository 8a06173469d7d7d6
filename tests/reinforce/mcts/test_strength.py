"""Strength of searches at connect four, against chance and against a solver."""

from pathlib import Path

import numpy as np
import pytest

from triskele import reinforce as rl

DATA = Path(__file__).parents[2] / "data" / "reinforce"


@pytest.fixture(scope="module")
def game():
    return rl.games.ConnectFour()


@pytest.fixture(scope="module")
def solved(game):
    """Positions, their values, and the values of their moves: more is better for who is to move, 0 is a draw, -1000 a
    full column.
    """
    lines = [
        line.split() for line in (DATA / "connect4_scores.txt").read_text().splitlines() if not line.startswith("#")
    ]
    lines = [line for line in lines if len(line) == 9]
    states = [game.initial_state().play(*(int(c) - 1 for c in line[0])) for line in lines]
    scores = np.array([[int(s) for s in line[1:]] for line in lines])
    return states, scores[:, 0], scores[:, 1:]


def test_scores_belong_to_the_positions(solved):
    states, value, moves = solved
    assert len(states) > 130
    assert all(np.array_equal(np.flatnonzero(m > -1000), s.legal_actions) for s, m in zip(states, moves, strict=True))
    assert np.array_equal(moves.max(axis=1), value)


def test_1000_simulations_beat_chance(game):
    result = rl.play_match(game, [rl.MCTS(game, simulations=1000), rl.Random()], 200, progress=False)
    assert result.wins.tolist() == [200, 0]


def test_100_simulations_beat_chance(game):
    result = rl.play_match(game, [rl.MCTS(game, simulations=100), rl.Random()], 100, progress=False)
    assert result.wins[0] >= 94


@pytest.mark.parametrize(("simulations", "least"), [(1000, 0.96), pytest.param(10_000, 0.97, marks=pytest.mark.slow)])
def test_outcomes_are_kept(game, solved, simulations, least):
    states, value, moves = solved
    chosen = rl.MCTS(game, simulations=simulations)(states).action
    kept = np.sign(moves[np.arange(len(states)), chosen]) == np.sign(value)
    assert kept.mean() >= least
