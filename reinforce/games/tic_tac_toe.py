"""Tic-tac-toe."""

from __future__ import annotations

import numpy as np

from triskele.core.kernels.njit import inner
from triskele.reinforce.game import Game, State

__all__ = ["TicTacToe"]

_LINES = (0b111, 0b111000, 0b111000000, 0b1001001, 0b10010010, 0b100100100, 0b100010001, 0b1010100)


@inner
def _won(stones):
    for line in _LINES:
        if stones & line == line:
            return True
    return False


class TicTacToe(Game):
    """Three in a row on 3 x 3. Action 3 r + c is the cell of row r and column c; player 0 is x."""

    num_players, num_actions, max_length = 2, 9, 9
    observation_shape = (2, 3, 3)  # own stones, the other's
    state = [("stones", np.int64, 2), ("player", np.int64)]

    @staticmethod
    def initial(state):
        state.stones[:] = 0

    @staticmethod
    def player(state):
        return state.player

    @staticmethod
    def legal_actions(state, mask):
        taken = state.stones[0] | state.stones[1]
        for a in range(9):
            mask[a] = (taken >> a) & 1 == 0

    @staticmethod
    def step(state, action):
        state.stones[state.player] |= 1 << action
        state.player = 1 - state.player

    @staticmethod
    def terminal(state):
        return _won(state.stones[1 - state.player]) or state.stones[0] | state.stones[1] == 511

    @staticmethod
    def returns(state, out):
        last = 1 - state.player
        won = _won(state.stones[last])
        out[last], out[1 - last] = won, -won

    @staticmethod
    def observe(state, player, out):
        for a in range(9):
            out[0, a // 3, a % 3] = (state.stones[player] >> a) & 1
            out[1, a // 3, a % 3] = (state.stones[1 - player] >> a) & 1

    def draw(self, state: State) -> str:
        """Three lines of x, o and dots."""
        x, o = (int(s) for s in state.data[0]["stones"])
        cells = ["x" if x >> a & 1 else "o" if o >> a & 1 else "." for a in range(9)]
        return "\n".join("".join(cells[r : r + 3]) for r in (0, 3, 6))
