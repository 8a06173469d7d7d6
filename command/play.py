"""Play a game against a tree search, in the terminal.

Type a move as the list of legal moves shows it; `quit`, Ctrl-D or Ctrl-C end the game.
"""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triskele.reinforce import Game

__all__ = ["LEVELS", "arguments", "game_of", "run"]

LEVELS = {"easy": 30, "normal": 1000, "hard": 20_000}  # simulations of each search


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("game", help="name of a game of triskele.reinforce.games, such as connect-four")
    parser.add_argument(
        "--level",
        choices=LEVELS,
        default="normal",
        metavar="|".join(LEVELS),
        help="strength of the search: "
        + ", ".join(f"{level} {n:,}" for level, n in LEVELS.items())
        + " simulations a move",
    )
    parser.add_argument(
        "--side",
        choices=["first", "second"],
        default="first",
        metavar="first|second",
        help="who you are; by default you move first",
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the search and of chance")


def run(options: argparse.Namespace) -> None:
    """Play one game."""
    import numpy as np

    from triskele import reinforce as rl

    game = game_of(options.game)
    search = rl.MCTS(game, LEVELS[options.level], seed=options.seed)
    rng = np.random.default_rng(options.seed)
    you = int(options.side == "second" and game.num_players > 1)
    alone = game.num_players == 1
    print(
        f"{game!r}: "
        + (
            "you play alone"
            if alone
            else f"you are {'xo'[you]} and move {options.side}, against a "
            f"search of {search.simulations:,} simulations a move"
        )
    )
    state = game.initial_state()
    while not state.terminal:
        if state.player == rl.CHANCE:
            action = int(rng.choice(len(state.chance), p=state.chance))
            print(f"chance: {game.action_name(state, action)}")
        elif state.player == you:
            print(f"\n{state}")
            if (action := _asked(game, state)) is None:
                print("\nbye")
                return
        else:
            action = search(state).action
            print(f"search: {game.action_name(state, action)}")
        state = state.play(action)
    print(f"\n{state}\n{_outcome(state.returns, you)}")


def game_of(name: str) -> Game:
    """Return the game of that name in any spelling (``connect-four``, ``ConnectFour``); ValueError lists all names."""
    from triskele.core.extend import check, discover

    games = {
        re.sub(r"(?<=[a-z])(?=[A-Z])", "_", known).lower(): cls
        for known, cls in discover.public("triskele.reinforce.games").items()
        if known != "MatrixGame"
    }
    games["2048"] = games["twenty_forty_eight"]
    bare = {known.replace("_", ""): cls for known, cls in games.items()}
    if (cls := bare.get(re.sub(r"[\W_]", "", name).lower())) is None:
        raise ValueError(f"there is no game {name!r}{check.near(name.lower(), games, listing=True)}")
    return cls()


def _asked(game, state):
    """Return the action that is typed, asking again until it is legal; None at the end."""
    legal = ", ".join(game.action_name(state, action) for action in state.legal_actions)
    while True:
        try:
            text = input(f"your move ({legal}): ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if text.lower() in ("quit", "q", "exit") and text not in legal.split(", "):
            return None
        for action in state.legal_actions:
            if game.action_name(state, action).lower() == text.lower():
                return action
        print(f"{text!r} is not a legal move")


def _outcome(returns, you: int) -> str:
    if len(returns) == 1:
        return f"the game is over: {returns[0]:g}"
    mine, best = returns[you], max(value for player, value in enumerate(returns) if player != you)
    return "you win" if mine > best else "the search wins" if mine < best else "a draw"
