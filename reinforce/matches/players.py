"""Players of a match: searches, policies, functions, random moves, humans."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import template

from ..errors import GameError, IllegalActionError
from ..game import CHANCE, Game
from ..policy import Policy
from ..random import start
from ..rules.fingerprint import fingerprint, plain
from ..rules.rule_function import rule_function
from ..rules.shipped import rule_options
from ..rules.wiring import wire

__all__ = ["Human", "Player", "Random", "as_player"]


@dataclass(frozen=True)
class Random:
    """Plays legal actions with equal probability.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> rl.play_match(rl.games.TicTacToe(), {'a': rl.Random(), 'b': rl.Random()}, games=10, seed=0).returns.shape
    (10, 2)
    """


@dataclass(frozen=True)
class Human:
    """Asks for moves in the terminal, typed as the game writes them (`action_name`).

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> rl.play_match(rl.games.TicTacToe(), {'you': rl.Human(), 'random': rl.Random()}, games=1)  # doctest: +SKIP
    """

    def ask(self, state: Any) -> int:
        """Show a position, and read a move."""
        print("\n" + "".join(f"{line}\n" for line in _since_own(state)) + str(state))
        while True:
            text = input(f"player {state.player}, your move: ").strip()
            try:
                return _read(state, text)
            except IllegalActionError as error:
                print(error)


def _since_own(state):
    """A line for each move of others since the last one of who is to move, or since the game began."""
    lines: list[str] = []
    try:
        position = state.game.initial_state()
        for action in state.moves:
            who = "chance" if position.player == CHANCE else f"player {position.player}"
            lines = [] if position.player == state.player else [*lines, f"{who}: {position.action_name(action)}"]
            position = position.play(action)
    except IllegalActionError:  # the match did not begin at the first position of the game
        return [f"moves: {', '.join(map(str, state.moves))}"]
    return lines


@dataclass(frozen=True)
class Player:
    """A player of any kind, as a match asks it."""

    name: str
    source: Any  # the object that the player was made from
    # (table, indices, masks, draw, rng) -> actions, in several positions of a table of games; `draw` is (seed, numbers
    # of the games, move), for random streams
    act: Callable


def as_player(game: Any, player: Any, name: str | None = None) -> Player:
    """Return the player that stands for `player` in a match of `game`."""
    called = name or _name(player)
    if isinstance(player, Random):
        return Player(called, player, _random)
    if isinstance(player, Human):
        return Player(
            called, player, lambda table, indices, masks, draw, rng: [player.ask(table.state(k)) for k in indices]
        )
    if isinstance(player, Policy):
        if tuple(player.observation_shape) != tuple(game.observation_shape) or player.num_actions != game.num_actions:
            raise GameError(
                f"play_match: {called} must take observations of shape {tuple(game.observation_shape)} and have "
                f"{game.num_actions} actions as {game.name} has, "
                f"got {tuple(player.observation_shape)} and {player.num_actions}"
            )
        return Player(
            called, player, lambda table, indices, masks, draw, rng: player(table.observations(indices), mask=masks)
        )
    if isinstance(player, type) or not callable(player):
        raise GameError(
            f"play_match: a player must be a search, a policy, a function of a position, Random() or "
            f"Human(), got {player!r:.80}{' (a class: call it)' * isinstance(player, type)}"
        )
    if hasattr(player, "py_func"):
        return Player(called, player, _compiled(game, player, called))
    if hasattr(player, "game"):
        _check_same(game, player.game, called)
        return Player(called, player, _search(player))
    return Player(called, player, _one_by_one(player, called))


def _name(player):
    if getattr(player, "simulations", None) is not None:
        return f"{type(player).__name__} {player.simulations}"
    return getattr(player, "__name__", None) or (repr(player) if len(repr(player)) <= 40 else type(player).__name__)


def _search(search):
    seeded = "seed" in inspect.signature(search).parameters  # else it draws the same numbers for every move

    def act(table, indices, masks, draw, rng):
        seed, numbers, move = draw
        given = (
            {
                "seed": int(
                    np.random.default_rng((seed, numbers[0], move, getattr(search, "seed", 0) % 2**63)).integers(2**62)
                )
            }
            if seeded
            else {}
        )
        return np.atleast_1d(search([table.state(k) for k in indices], **given).action)

    return act


def _one_by_one(function, name):
    def ask(state):
        try:
            return function(state)
        except Exception as error:  # whatever a user's function raises
            raise GameError(
                f"play_match: {name} raised {type(error).__name__}: {error}, in the position of "
                f"{state.game.name} after {state.moves}"
            ) from error

    return lambda table, indices, masks, draw, rng: [ask(table.state(k)) for k in indices]


def _random(table, indices, masks, draw, rng):
    return (masks * (1.0 - rng.random(masks.shape))).argmax(axis=1)  # the factor is positive


def _compiled(game, policy, name):
    if not isinstance(game, Game):
        raise GameError(
            f"play_match: {name} is a compiled function, which needs a game with compiled rules, got {game.name}"
        )
    options = rule_options(plain(policy))
    key = fingerprint(game.key, plain(policy), *options)
    kernel = wire(
        "player", f"Moves of {name}. {key}", [choose], {"policy": rule_function(policy, **options)}, nogil=True
    ).choose

    def act(table, indices, masks, draw, rng):
        actions = np.zeros(len(indices), np.int64)
        kernel(table.states[indices], *draw, actions)
        return actions

    return act


def _check_same(game, own, name):
    same = own.key == game.key if isinstance(own, Game) and isinstance(game, Game) else own is game
    if not same:
        raise GameError(f"play_match: {name} must be a search in {game!r}, got one in {own!r}")


def _read(state, text):
    if isinstance(state.game, Game):
        return state.game.parse_action(state, text)
    for action in state.legal_actions:
        if state.action_name(action) == text:
            return action
    raise IllegalActionError(
        f"{state.game.name}: {text!r} is not legal (legal: {', '.join(map(state.action_name, state.legal_actions))})"
    )


@template
def choose(policy, states, seed, games, move, actions):
    """Write a policy's moves; each game has a random stream of its own."""
    stream = np.empty(1, np.uint64)
    for k in range(len(states)):
        start(stream, seed, games[k], move)
        actions[k] = policy(states[k], stream)
