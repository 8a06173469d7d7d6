"""Games given by a table of payoffs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from triskele.core.extend import check

from ..errors import GameError
from ..game import Game, Rules, State

__all__ = ["MatrixGame"]


class MatrixGame(Game):
    """Each player moves once, one after the other, and sees what was played before; then a table says what each gets.

    So a search finds what is best for a leader and those who follow (the subgame-perfect equilibrium of von
    Stackelberg's form of the game), and not an equilibrium of simultaneous moves. Observation: one-hot, the move of
    each player.

    Parameters
    ----------
    payoffs : array (num_players, n_0, n_1, ...)
        payoffs[p, a_0, a_1, ...] is what player p gets where player k plays a_k < n_k.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> dilemma = rl.games.MatrixGame([[[3, 0], [5, 1]], [[3, 5], [0, 1]]])
    >>> print(dilemma.initial_state().play(1))
    moves 1: payoffs (5, 0) (1, 1)
    """

    def __init__(self, payoffs: npt.ArrayLike):
        try:
            table = np.array(payoffs, np.float64)
        except (ValueError, TypeError) as error:
            raise GameError(
                "MatrixGame: payoffs must be an array of numbers, got what NumPy cannot make one"
            ) from error
        if table.ndim < 2 or table.shape[0] != table.ndim - 1 or table.size == 0:
            raise GameError(
                f"MatrixGame: payoffs must have the shape (players, actions of player 0, actions of player "
                f"1, ...), got shape {table.shape}"
            )
        self.payoffs = check.finite(table, "MatrixGame: payoffs", error=GameError)
        self.num_players = self.max_length = table.ndim - 1
        self.num_actions = max(table.shape[1:])
        self.state = [("moves", "i8", self.num_players), ("played", "i8")]
        self.observation_shape = (self.num_players, self.num_actions)

    def rules(self) -> Rules:
        """A walk through the table."""
        players, choices, table = self.num_players, self.payoffs.shape[1:], self.payoffs.reshape(self.num_players, -1)

        def initial(state):
            state.played = 0

        def player(state):
            return state.played

        def legal_actions(state, mask):
            for a in range(len(mask)):
                mask[a] = a < choices[state.played]

        def step(state, action):
            state.moves[state.played] = action
            state.played += 1

        def terminal(state):
            return state.played == players

        def returns(state, out):
            entry = 0
            for p in range(players):
                entry = entry * choices[p] + state.moves[p]
            for p in range(players):
                out[p] = table[p, entry]

        def observe(state, player, out):
            out[:] = 0.0
            for p in range(state.played):
                out[p, state.moves[p]] = 1.0

        return Rules(initial, player, legal_actions, step, terminal, returns, observe)

    def draw(self, state: State) -> str:
        """Describe the actions played, and the remaining payoffs."""
        record = state.data[0]
        moves = [int(m) for m in record["moves"][: record["played"]]]
        played: tuple[Any, ...] = (slice(None), *moves)
        rest = self.payoffs[played].reshape(self.num_players, -1)
        shown = " ".join(f"({', '.join(f'{v:g}' for v in entry)})" for entry in rest.T[:12])
        return f"moves {' '.join(map(str, moves)) or 'none'}: payoffs {shown}{' ...' if rest.shape[1] > 12 else ''}"

    def __repr__(self) -> str:
        return f"MatrixGame(<payoffs of shape {self.payoffs.shape}>)"
