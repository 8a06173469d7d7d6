"""Tic-tac-toe."""

from __future__ import annotations

import numpy as np

from .. import bits
from ..game import Game, State
from ..random import below

__all__ = ["TicTacToe"]

_LINES = (0b111, 0b111000, 0b111000000, 0b1001001, 0b10010010, 0b100100100, 0b100010001, 0b1010100)
_WON = np.array([any(stones & line == line for line in _LINES) for stones in range(512)])
# of each set, in order
_CELLS = np.array([([a for a in range(9) if cells >> a & 1] + 9 * [-1])[:9] for cells in range(512)], np.int8)


class TicTacToe(Game):
    """Three in a row on 3 x 3.

    Action 3 r + c is the cell of row r and column c; player 0 is x. Observation: own stones, the other's.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> print(rl.games.TicTacToe().initial_state().play(4, 0))
      a b c
    1 o . .
    2 . x .
    3 . . .
    """

    num_players, num_actions, max_length = 2, 9, 9
    observation_shape = (2, 3, 3)
    state = [("own", "i8"), ("other", "i8"), ("player", "i8")]  # own: of the player to move; cells are bits

    @staticmethod
    def initial(state):
        state.own, state.other, state.player = 0, 0, 0

    @staticmethod
    def player(state):
        return state.player

    @staticmethod
    def legal_actions(state, mask):
        taken = state.own | state.other
        for a in range(9):
            mask[a] = (taken >> a) & 1 == 0

    @staticmethod
    def step(state, action):
        state.own, state.other = state.other, state.own | 1 << action
        state.player = 1 - state.player

    @staticmethod
    def terminal(state):
        return _WON[state.other] or state.own | state.other == 511

    @staticmethod
    def returns(state, out):
        out[:] = 0.0
        if _WON[state.other]:
            out[state.player], out[1 - state.player] = -1.0, 1.0

    @staticmethod
    def observe(state, player, out):
        mine, theirs = (state.own, state.other) if player == state.player else (state.other, state.own)
        for a in range(9):
            out[0, a // 3, a % 3] = (mine >> a) & 1
            out[1, a // 3, a % 3] = (theirs >> a) & 1

    @staticmethod
    def random_action(state, stream):
        empty = 511 & ~(state.own | state.other)
        return np.int64(_CELLS[empty, below(stream, bits.count(np.uint64(empty)))])

    def draw(self, state: State) -> str:
        """Rows of x, o and dots, with the names of rows and columns."""
        x, o = (int(state.data[0][f]) for f in (("own", "other") if state.data[0]["player"] == 0 else ("other", "own")))
        cells = [".xo"[(x >> a & 1) + 2 * (o >> a & 1)] for a in range(9)]
        return "\n".join(["  a b c", *(f"{r + 1} {' '.join(cells[3 * r : 3 * r + 3])}" for r in range(3))])

    def action_name(self, state: State, action: int) -> str:
        """Column and row, as in b2 for the center."""
        return f"{'abc'[action % 3]}{action // 3 + 1}"
