"""`check_game`: the checks that every game must pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import GameError
from ..game import CHANCE, Game
from .probe import Probe

__all__ = ["check_description", "check_game", "play_rules"]

_UNLIKELY = 1e-9  # a random_action that is this improbable is called wrong
_DRAWS = 500  # of random_action, for each legal action


def check_game(game: Any, *, games: int = 30, seed: int = 0) -> None:
    """Play random games and check in every position that the rules keep their contract (`Rules`).

    Rules run compiled, one at a time, with bounds checked and guard bytes around all they may write: they must write
    everything they are given and nothing else, leave the position alone unless they are `initial` or `step`, and give
    the same for the same moves. Players, legal actions, probabilities, returns and observations must be in range, games
    must end within `max_length`, `random_action` must be uniform, and what is shown to people must be readable back.

    Parameters
    ----------
    game : Game
        Or a game of an adapter, which is checked by its positions.
    games : int
        Number of random games to play.
    seed : int

    Raises
    ------
    GameError
        If a check fails. The message names the rule and the moves.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> rl.check_game(rl.games.TicTacToe(), games=5)
    """
    check_description(game)
    rng = np.random.default_rng(seed)
    if isinstance(game, Game):
        probe = Probe(game)
        for k in range(games):
            play_rules(probe, rng, draws=k < 2)
    for _ in range(min(games, 3) if isinstance(game, Game) else games):
        _play_positions(game, rng)


def check_description(game: Any) -> None:
    """Raise GameError unless the attributes of a game are there and can be right."""
    if isinstance(game, type) or not hasattr(game, "initial_state"):
        raise GameError(
            f"check_game: game must be a Game, got {game!r:.80}"
            f"{' (an object of it, not the class)' if isinstance(game, type) else ''}"
        )
    for name, least in {"num_players": 1, "num_actions": 1, "num_outcomes": 0, "max_length": 1}.items():
        value = getattr(game, name, None)
        check.integer(value, f"{game.name}: {name}", least, error=GameError)
    shape = getattr(game, "observation_shape", None)
    if not isinstance(shape, tuple) or not shape or not all(isinstance(n, (int, np.integer)) and n >= 1 for n in shape):
        raise GameError(f"{game.name}: observation_shape must be a tuple of positive integers, got {shape!r}")
    if isinstance(game, Game):
        if not hasattr(game, "state"):
            raise GameError(
                f"{game.name}: state must be given, the fields of a record such as [('board', np.int8, 9), "
                f"('player', np.int8)]"
            )
        if (game.rules().chance is None) != (game.num_outcomes == 0):
            raise GameError(
                f"{game.name}: num_outcomes must be positive where there is a rule chance, and else 0, got "
                f"{game.num_outcomes}"
            )


def play_rules(probe: Probe, rng: np.random.Generator, *, draws: bool = False, most: float = math.inf) -> None:
    """Play a random game under guard, or the first `most` moves of it; with `draws`, look at `random_action` too."""
    game = probe.game
    probe.start()
    while not probe.terminal():
        if len(probe.moves) >= most:
            return
        if len(probe.moves) >= game.max_length:
            probe.fail("terminal", f"must be True after at most max_length = {game.max_length} moves")
        player = probe.player()
        for k in range(game.num_players):
            probe.observe(k)
        if player == CHANCE:
            p = probe.chance()
            probe.step(int(rng.choice(len(p), p=p / p.sum())))
            continue
        legal = probe.legal_actions()
        if draws and probe.rules.random_action is not None:
            _check_uniform(probe, legal, rng)
        probe.step(int(rng.choice(legal)))
    probe.returns()
    for k in range(game.num_players):
        probe.observe(k)
    moves, end = probe.moves, probe.record
    probe.start()
    for move in moves:
        probe.step(move)
    if probe.record.tobytes() != end.tobytes():
        differing = [name for name in game.dtype.names or () if probe.record[name].tobytes() != end[name].tobytes()]
        probe.fail(
            "step", f"must give the same position for the same moves, got two that differ in {', '.join(differing)}"
        )


def _check_uniform(probe, legal, rng):
    from scipy.special import chdtrc  # the tail of the chi-square distribution

    drawn = probe.random_actions(_DRAWS * len(legal), int(rng.integers(2**63)))
    wrong = np.setdiff1d(drawn, legal)
    if len(wrong):
        probe.fail("random_action", f"drew {wrong[0]}, which is not legal (legal: {legal.tolist()})")
    counts = np.bincount(drawn, minlength=legal[-1] + 1)[legal]
    if len(legal) > 1 and chdtrc(len(legal) - 1, ((counts - _DRAWS) ** 2).sum() / _DRAWS) < _UNLIKELY:
        seldom, often = legal[counts.argmin()], legal[counts.argmax()]
        probe.fail(
            "random_action",
            f"must be uniform, but of {len(drawn)} draws {counts.min()} were {seldom}, and {counts.max()} were {often}",
        )


def _play_positions(game, rng):
    """A random game through the positions that people handle."""
    state = None
    try:
        state = game.initial_state()
        while not state.terminal:
            state = _play_position(game, state, rng)
        _check_end(game, state)
    except GameError:
        raise
    except Exception as error:  # whatever rules in Python raise, and drawing
        raise GameError(
            f"{game.name}: raised {type(error).__name__}: {error}, after {() if state is None else state.moves}"
        ) from error


def _play_position(game, state, rng):
    if len(state.moves) >= game.max_length:
        raise GameError(
            f"{game.name}: the game must be over after at most max_length = {game.max_length} moves, after "
            f"{state.moves}"
        )
    _check_position(game, state, rng)
    legal, before = state.legal_actions, state.observation(0).tobytes()
    p = state.chance[legal] if state.player == CHANCE else np.full(len(legal), 1 / len(legal))
    following = state.play(int(rng.choice(legal, p=p / p.sum())))
    if state.observation(0).tobytes() != before or state.legal_actions != legal:
        raise GameError(
            f"{game.name}: playing {following.moves[-1]} must leave the position as it was, after {state.moves}"
        )
    return following


def _check_end(game, state):
    if state.returns.shape != (game.num_players,) or not np.isfinite(state.returns).all():
        raise GameError(
            f"{game.name}: returns must be {game.num_players} finite numbers, got {state.returns}, after {state.moves}"
        )
    again = game.initial_state().play(*state.moves)
    if not again.terminal or again.observation(0).tobytes() != state.observation(0).tobytes():
        raise GameError(f"{game.name}: the same moves must give the same position, after {state.moves}")


def _check_position(game, state, rng):
    def fail(what):
        raise GameError(f"{game.name}: {what}, after {state.moves}")

    player, legal = state.player, state.legal_actions
    if player != CHANCE and not 0 <= player < game.num_players:
        fail(f"the player must be 0 to {game.num_players - 1}, or CHANCE, got {player}")
    if not legal or min(legal) < 0 or max(legal) >= (game.num_outcomes if player == CHANCE else game.num_actions):
        fail(f"there must be legal actions, in range, got {legal}")
    if player == CHANCE and abs(state.chance.sum() - 1.0) > 1e-9:
        fail(f"chance must give probabilities that sum to 1, got {state.chance.tolist()}")
    for p in range(game.num_players):
        seen = state.observation(p)
        if seen.shape != tuple(game.observation_shape) or not np.isfinite(seen).all():
            fail(f"an observation must be finite and have the shape {game.observation_shape}, got shape {seen.shape}")
    if not isinstance(game, Game):
        return
    text = str(state)
    if not text.strip() or "\x1b" in text:
        fail(f"draw must give text without control sequences, got {text!r:.60}")
    names = [game.action_name(state, a) for a in legal]
    if len(set(names)) < len(names):
        fail(f"action_name must give different actions different names, got {sorted(names)}")
    k = int(rng.integers(len(legal)))
    if game.parse_action(state, names[k]) != legal[k]:
        fail(f"parse_action must read {names[k]!r} as action {legal[k]}, got {game.parse_action(state, names[k])}")
