"""Matches: players play many games against each other side by side; the result prints as a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triskele.core.extend import Reports, Work, check, dataframe, html_table, plots, short_repr

from ..errors import GameError, IllegalActionError
from ..game import CHANCE
from .players import Human, Player, as_player
from .positions import new_table

__all__ = ["MatchResult", "play_match"]

_AT_ONCE, _TREES = 4096, 128  # games played side by side; less where searches hold a tree for each


@short_repr
@dataclass(frozen=True)
class MatchResult:
    """Result of a match; prints as a table.

    Attributes
    ----------
    game : str
    names : tuple of str
        Names of the players.
    returns : (games, players) float64
        Return of each player in each game.
    moves : list of tuple of int
        Moves of each game; `game.initial_state().play(*moves)` replays it.
    first : (games,) int
        Index of the player who had the first seat.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> result = rl.play_match(rl.games.TicTacToe(), {'a': rl.Random(), 'b': rl.Random()}, games=10, seed=0)
    >>> result.names, len(result.moves)
    (('a', 'b'), 10)
    """

    game: str
    names: tuple[str, ...]
    returns: np.ndarray
    moves: list[tuple[int, ...]] = field(repr=False)
    first: np.ndarray = field(repr=False)

    @property
    def points(self) -> np.ndarray:
        """(games, players): 1 for a win, 1/k for a tie of k players, else 0."""
        best = self.returns == self.returns.max(axis=1, keepdims=True)
        return best / best.sum(axis=1, keepdims=True)

    @property
    def wins(self) -> np.ndarray:
        """(players,): games in which the player alone had the highest return."""
        return (self.points == 1).sum(axis=0)

    @property
    def draws(self) -> np.ndarray:
        """(players,): games in which the player tied for the highest return."""
        return ((self.points > 0) & (self.points < 1)).sum(axis=0)

    @property
    def losses(self) -> np.ndarray:
        """(players,): games in which another player had a higher return."""
        return (self.points == 0).sum(axis=0)

    @property
    def score(self) -> np.ndarray:
        """(players,) mean of `points`."""
        return self.points.mean(axis=0)

    @property
    def error(self) -> np.ndarray:
        """(players,) standard error of `score`; not a number for one game."""
        n = len(self.returns)
        return self.points.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(len(self.names), np.nan)

    def to_dataframe(self) -> Any:
        """Return the table as a pandas DataFrame with a row for each player."""
        return dataframe(
            {
                "wins": self.wins,
                "draws": self.draws,
                "losses": self.losses,
                "score": self.score,
                "error": self.error,
                "return": self.returns.mean(axis=0),
            },
            "player",
            self.names,
        )

    def plot(self, ax: Any = None, **bars: Any) -> Any:
        """Draw the score of each player with its standard error; the dashed line is that of equal players.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Defaults to new axes.
        **bars
            Options of Matplotlib's ``bar``.

        Returns
        -------
        matplotlib Axes
        """
        n = len(self.names)
        with plots.axes(ax, xlabel="player", ylabel="score [%]", ylim=(0, 100)) as ax:
            ax.bar(
                range(n),
                100 * self.score,
                **{"yerr": 100 * self.error, "color": plots.COLORS[0], "alpha": 0.6, "width": 0.6, **bars},
            )
            ax.axhline(100 / n, color="black", linewidth=0.8, linestyle="--")
            ax.set_xticks(range(n), self.names)
        return ax

    def _repr_html_(self) -> str:
        return html_table(
            f"{len(self.returns)} games of {self.game}",
            {
                "player": self.names,
                "wins": self.wins,
                "draws": self.draws,
                "losses": self.losses,
                "score": self._scores(),
                "return": self.returns.mean(axis=0),
            },
        )

    def _scores(self):
        spread = [f" ± {100 * e:.1f}" if len(self.returns) > 1 else "" for e in self.error]
        return [f"{100 * s:5.1f} %{e}" for s, e in zip(self.score, spread, strict=True)]

    def __str__(self) -> str:
        n, different = len(self.returns), len(set(zip(self.moves, self.first.tolist(), strict=True)))
        lines = [
            f"{n} game{'s' if n > 1 else ''} of "
            f"{self.game}{f', {different} of them different' if different < n else ''}"
        ]
        width = max(len("player"), *map(len, self.names))
        lines.append(f"{'player':{width}}  {'wins':>6} {'draws':>6} {'losses':>6}   score             return")
        for i, (name, score) in enumerate(zip(self.names, self._scores(), strict=True)):
            counts = f"{self.wins[i]:6} {self.draws[i]:6} {self.losses[i]:6}"
            lines.append(f"{name:{width}}  {counts}   {score:16} {self.returns[:, i].mean():7.3f}")
        return "\n".join(line.rstrip() for line in lines)


def play_match(
    game: Any,
    players: Sequence[Any] | Mapping[str, Any],
    games: int = 100,
    *,
    seed: int = 0,
    report: Reports = None,
    progress: bool | None = None,
) -> MatchResult:
    """Let players play a game against each other; seats rotate from game to game.

    Games are played side by side, and each player is asked for its moves in all positions at once.

    Parameters
    ----------
    game : Game
        Or a game of an adapter.
    players : sequence, or mapping from names
        As many as the game has, each one of

        - a search such as `MCTS`: anything with an attribute `game` that, called with positions, gives a result with
          `.action`;
        - a `Policy`, which is given observations and legal masks, and takes the most probable action;
        - a compiled function ``policy(state, stream) -> action``, like the rule `random_action`;
        - a Python function ``policy(state: State) -> action``;
        - `Random()`, or `Human()`, with whom games are played one after the other.
    games : int
        A multiple of the number of players gives everybody every seat equally often.
    seed : int
        Seed of chance, `Random`, compiled functions and, with seeds derived from it, searches.
    report : function or list of functions, optional
        Called when games have ended, with the number of games as ``step`` and each player's sum of returns by name. A
        reporter that raises StopIteration ends the match with the games that are over.
    progress : bool, optional
        Show a progress bar with the returns. By default only on terminals and in notebooks.

    Returns
    -------
    MatchResult

    Raises
    ------
    GameError
        If players do not fit the game, or one raises.
    IllegalActionError
        If a player gives an action that is not legal.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> def lowest(state):
    ...     return state.legal_actions[0]
    >>> def highest(state):
    ...     return state.legal_actions[-1]
    >>> print(rl.play_match(rl.games.TicTacToe(), [lowest, highest], games=4, progress=False))
    4 games of TicTacToe(), 2 of them different
    player     wins  draws losses   score             return
    lowest        2      0      2    50.0 % ± 28.9     0.000
    highest       2      0      2    50.0 % ± 28.9     0.000
    """
    if isinstance(game, type):
        raise GameError(f"play_match: game must be an object, got the class {game.__name__} (call it)")
    named = players.items() if isinstance(players, Mapping) else [(None, p) for p in players]
    entrants = [as_player(game, player, name) for name, player in named]
    if len(entrants) != game.num_players:
        raise GameError(f"play_match: {game.name} needs {game.num_players} players, got {len(entrants)}")
    check.integer(games, "play_match: games", 1, error=GameError)
    check.integer(seed, "play_match: seed", 0, error=GameError)
    names = [e.name for e in entrants]
    names = [f"{n} ({i + 1})" if names.count(n) > 1 else n for i, n in enumerate(names)]
    human = any(isinstance(e.source, Human) for e in entrants)
    at_once = 1 if human else _TREES if any(hasattr(e.source, "game") for e in entrants) else _AT_ONCE
    returns, moves = np.zeros((games, len(entrants))), []
    title = f"{names[0]} against {', '.join(names[1:])}" if names[1:] else names[0]
    over = np.zeros(games, bool)
    with Work("play_match", report, False if human else progress, title=title, unit="game", total=games) as work:

        def ended(numbers):
            over[numbers] = True
            sums = returns.sum(axis=0).tolist()
            work(
                {"step": int(over.sum()), **dict(zip(names, sums, strict=True))},
                "returns " + " : ".join(f"{r:g}" for r in sums),
            )
            return work.stopped is not None

        for begin in range(0, games, at_once):
            numbers = np.arange(begin, min(begin + at_once, games))
            table = _play(game, entrants, numbers, seed, returns, ended)
            moves += table.moves
            if human:
                print(f"\n{table.state(0)}\nplayers got {', '.join(f'{r:g}' for r in table.returns(0))}")
            if work.stopped:
                break
    played = np.flatnonzero(over)
    return MatchResult(repr(game), tuple(names), returns[played], [moves[k] for k in played], played % len(entrants))


def _play(
    game: Any,
    entrants: list[Player],
    numbers: np.ndarray,
    seed: int,
    returns: np.ndarray,
    ended: Callable[[np.ndarray], bool],
) -> Any:
    """Play the games of these numbers to their ends, one move of each at a time; fills in the returns.

    `ended` is told which games are over, and returns True to end the others too.
    """
    table = new_table(game, len(numbers))
    n, going = len(entrants), np.arange(len(numbers))
    seats = (np.arange(n)[None, :] + numbers[:, None]) % n  # who sits where
    for ply in range(game.max_length + 1):
        movers, over, masks, chance = table.look(going)
        for k in going[over]:
            returns[numbers[k], seats[k]] = table.returns(k)
        if over.any() and ended(numbers[going[over]]):
            return table
        going, movers, masks, chance = going[~over], movers[~over], masks[~over], chance[~over]
        if not len(going):
            return table
        rng = np.random.default_rng((seed, numbers[0], ply))
        actions = np.full(len(going), -1)
        lucky = movers == CHANCE
        if lucky.any():
            passed = rng.random(lucky.sum())[:, None] * chance[lucky].sum(axis=1, keepdims=True) < np.cumsum(
                chance[lucky], axis=1
            )
            actions[lucky] = passed.argmax(axis=1)
        for i, entrant in enumerate(entrants):
            mine = np.flatnonzero(~lucky & (seats[going, np.maximum(movers, 0)] == i))
            if len(mine):
                actions[mine] = _ask(entrant, table, going[mine], masks[mine], (seed, numbers[going[mine]], ply), rng)
        table.play(going, actions)
    raise GameError(
        f"play_match: a game of {game.name} is not over after max_length = {game.max_length} moves "
        f"(check_game finds such errors)"
    )


def _ask(entrant, table, indices, masks, draw, rng):
    try:
        given = np.asarray(entrant.act(table, indices, masks, draw, rng))
    except (GameError, KeyboardInterrupt, EOFError):
        raise
    except Exception as error:  # whatever a player raises
        raise GameError(
            f"play_match: {entrant.name} raised {type(error).__name__}: {error}, in {table.told(indices)}"
        ) from error
    check.shape(
        given, (len(indices),), f"play_match: actions of {entrant.name}", error=GameError, hint="one for each position"
    )
    for k, action, mask in zip(indices, given, masks, strict=True):
        if not (isinstance(action, np.integer) and 0 <= action < len(mask) and mask[action]):
            legal = np.flatnonzero(mask).tolist()
            raise IllegalActionError(
                f"play_match: {entrant.name} played {action!s}, which is not legal in "
                f"{table.told([k])} (legal: {legal})"
            )
    return given
