"""Breakthrough, on a board of any size."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device

from .. import bits
from ..errors import GameError
from ..game import Game, Rules, State
from ..random import below

__all__ = ["Breakthrough"]


class Breakthrough(Game):
    """A stone steps forward, or diagonally forward, where it may also capture; who reaches the other side wins.

    Action 3 (columns r + c) + d moves the stone of row r (0: the top one) and column c to column c + d - 1 of the next
    row. Player 0 (x) starts at the top and moves down. Observation: own stones, the other's, and a plane of the
    player's number.

    Parameters
    ----------
    rows, columns : int
        rows >= 3, columns >= 2, at most 64 cells. Each player has two rows of stones, one where rows < 6.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> game = rl.games.Breakthrough(rows=4, columns=3)
    >>> state = game.initial_state()
    >>> print(state.play(game.parse_action(state, "a4b3")))
      a b c
    4 . x x
    3 . x .
    2 . . .
    1 o o o
    """

    num_players = 2
    # own: of the player to move; cells are bits, row by row from the top
    state = [("own", "u8"), ("other", "u8"), ("player", "i8")]

    def __init__(self, rows: int = 8, columns: int = 8):
        if not (
            isinstance(rows, int) and isinstance(columns, int) and rows >= 3 and columns >= 2 and rows * columns <= 64
        ):
            raise GameError(
                f"Breakthrough: there must be at least 3 rows, 2 columns, and at most 64 cells, got "
                f"{rows!r} rows and {columns!r} columns"
            )
        self.rows, self.columns = rows, columns
        self.num_actions = 3 * rows * columns
        filled = 2 if rows >= 6 else 1
        # each move brings a stone a row forward
        self.max_length = 1 + 2 * columns * sum(rows - 2 - r for r in range(filled))
        self.observation_shape = (3, rows, columns)

    def rules(self) -> Rules:
        """Bitboards."""
        rows, columns, cells = self.rows, self.columns, self.rows * self.columns
        row, one, zero = (1 << columns) - 1, np.uint64(1), np.uint64(0)
        filled = (1 << columns * (2 if rows >= 6 else 1)) - 1
        board = np.uint64((1 << cells) - 1)
        top, bottom = np.uint64(filled), np.uint64(filled << cells - filled.bit_length())
        goals = (np.uint64(row << cells - columns), np.uint64(row))
        right = sum(1 << r * columns for r in range(rows))  # of the cells that a move to the left or right starts from
        from_left, from_right = (
            np.uint64(((1 << cells) - 1) & ~right),
            np.uint64(((1 << cells) - 1) & ~(right << columns - 1)),
        )
        less, straight, more = np.uint64(columns - 1), np.uint64(columns), np.uint64(columns + 1)

        @device
        def sources(state):
            """Stones that can go to the left, straight on, to the right."""
            own, free, empty = state.own, board & ~state.own, board & ~(state.own | state.other)
            if state.player == 0:
                return own & from_left & (free >> less), own & (empty >> straight), own & from_right & (free >> more)
            return own & from_left & (free << more), own & (empty << straight), own & from_right & (free << less)

        def initial(state):
            state.own, state.other, state.player = top, bottom, 0

        def player(state):
            return state.player

        def legal_actions(state, mask):
            left, middle, right = sources(state)
            for cell in range(cells):
                bit = np.uint64(cell)
                mask[3 * cell] = (left >> bit) & one
                mask[3 * cell + 1] = (middle >> bit) & one
                mask[3 * cell + 2] = (right >> bit) & one

        def step(state, action):
            cell, ahead = action // 3, columns if state.player == 0 else -columns
            target = one << np.uint64(cell + ahead + action % 3 - 1)
            own, other = (state.own ^ (one << np.uint64(cell))) | target, state.other & ~target
            state.own, state.other = other, own
            state.player = 1 - state.player

        def terminal(state):
            return state.own == zero or state.other & goals[1 - state.player] != zero

        def returns(state, out):
            out[state.player], out[1 - state.player] = -1.0, 1.0

        def observe(state, player, out):
            mine, theirs = (state.own, state.other) if player == state.player else (state.other, state.own)
            for r in range(rows):
                for c in range(columns):
                    bit = np.uint64(r * columns + c)
                    out[0, r, c] = (mine >> bit) & one
                    out[1, r, c] = (theirs >> bit) & one
                    out[2, r, c] = player

        def random_action(state, stream):
            left, middle, right = sources(state)
            lefts, middles = bits.count(left), bits.count(middle)
            n = below(stream, lefts + middles + bits.count(right))
            if n < lefts:
                return 3 * bits.nth(left, n)
            if n < lefts + middles:
                return 3 * bits.nth(middle, n - lefts) + 1
            return 3 * bits.nth(right, n - lefts - middles) + 2

        return Rules(initial, player, legal_actions, step, terminal, returns, observe, None, random_action)

    def draw(self, state: State) -> str:
        """Rows of x, o and dots, with the names of rows and columns."""
        x, o = (int(state.data[0][f]) for f in (("own", "other") if state.data[0]["player"] == 0 else ("other", "own")))
        cells = [".xo"[(x >> a & 1) + 2 * (o >> a & 1)] for a in range(self.rows * self.columns)]
        width, n = len(str(self.rows)), self.columns
        lines = [f"{self.rows - r:{width}} {' '.join(cells[n * r : n * (r + 1)])}" for r in range(self.rows)]
        return "\n".join([" " * (width + 1) + " ".join(map(_letter, range(n))), *lines])

    def action_name(self, state: State, action: int) -> str:
        """The cells it leads from and to, as in a7b6."""
        row, column = divmod(action // 3, self.columns)
        ahead = 1 if state.player == 0 else -1
        return f"{_letter(column)}{self.rows - row}{_letter(column + action % 3 - 1)}{self.rows - row - ahead}"

    def __repr__(self) -> str:
        return f"Breakthrough(rows={self.rows}, columns={self.columns})"


def _letter(column):
    return "abcdefghijklmnopqrstu"[column]  # 3 rows of 64 cells have 21 columns
