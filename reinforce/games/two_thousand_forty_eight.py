"""2048, a puzzle of sliding tiles against chance."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device

from ..game import CHANCE, Game, State

__all__ = ["TwentyFortyEight"]

_MOVES = ("up", "right", "down", "left")
# of the four lines: first cell and step to the next line; along a line
_STARTS, _STRIDES = ((0, 1), (3, 4), (12, 1), (0, 4)), (4, -1, -4, 1)
_LARGEST = 17  # 2^17 can be reached if a 4 comes at the right moment
_FOUR = 0.1  # probability that a new tile is a 4


@device
def _movable(cells):
    """Bit a is set if action a would change the board."""
    found = 0
    for line in range(4):
        for k in range(3):
            x, y = cells[4 * line + k], cells[4 * line + k + 1]  # left, right
            same = x == y and x != 0
            found |= (same or (x == 0 and y != 0)) << 3 | (same or (y == 0 and x != 0)) << 1
            x, y = cells[line + 4 * k], cells[line + 4 * k + 4]  # upper, lower
            same = x == y and x != 0
            found |= (same or (x == 0 and y != 0)) | (same or (y == 0 and x != 0)) << 2
    return found


@device
def _slide(cells, action):
    """Push all tiles to one side, where equal neighbors merge once; the sum of the merged tiles."""
    gained, stride = np.int64(0), _STRIDES[action]
    for line in range(4):
        start = _STARTS[action][0] + line * _STARTS[action][1]
        filled, last = 0, np.int64(0)
        for k in range(4):
            tile = np.int64(cells[start + k * stride])
            if tile == 0:
                continue
            cells[start + k * stride] = 0
            if tile == last:
                cells[start + (filled - 1) * stride] = tile + 1
                gained += np.int64(1) << (tile + 1)
                last = np.int64(0)
            else:
                cells[start + filled * stride] = tile
                filled += 1
                last = tile
    return gained


class TwentyFortyEight(Game):
    """2048 as Cirulli published it: tiles slide to one side of 4 x 4 cells, equal ones merge, and chance adds a tile.

    One player, who gets the sum of all tiles that were made by merging; the game continues beyond 2048, until nothing
    moves. Actions 0 to 3 push up, right, down, left. Chance puts 2 (in nine of ten cases) or 4 into an empty cell:
    outcome 2 (4 r + c) + k is tile 2^(k + 1) in row r from the top and column c. Two such tiles make the first
    position. Observation: plane k marks the tiles 2^k, plane 0 the empty cells.

    References
    ----------
    Cirulli, 2048 (2014), https://github.com/gabrielecirulli/2048.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> print(rl.games.TwentyFortyEight().initial_state().play(0, 6, 3, 31))
         4     .     .     .
         .     .     .     .
         .     .     .     .
         .     .     .     4
    """

    num_players, num_actions, num_outcomes = 1, 4, 32
    observation_shape = (_LARGEST + 1, 4, 4)
    # two for every tile, which adds 2 or more to a sum that cannot exceed 4 + 8 + ... + 2^17
    max_length = 2**_LARGEST * 2
    # due: tiles to be added; cells: exponents of 2
    state = [("score", "i8"), ("due", "i8"), ("movable", "i8"), ("cells", "u1", 16)]

    @staticmethod
    def initial(state):
        state.cells[:] = 0
        state.score, state.due, state.movable = 0, 2, 0

    @staticmethod
    def player(state):
        return CHANCE if state.due > 0 else 0

    @staticmethod
    def legal_actions(state, mask):
        for a in range(4):
            mask[a] = (state.movable >> a) & 1

    @staticmethod
    def chance(state, probabilities):
        empty = 0
        for k in range(16):
            empty += state.cells[k] == 0
        for k in range(16):
            share = 1 / empty if state.cells[k] == 0 else 0.0
            probabilities[2 * k], probabilities[2 * k + 1] = (1 - _FOUR) * share, _FOUR * share

    @staticmethod
    def step(state, action):
        if state.due == 0:
            state.score += _slide(state.cells, action)
            state.due = 1
        else:
            state.cells[action >> 1] = 1 + (action & 1)
            state.due -= 1
            if state.due == 0:
                state.movable = _movable(state.cells)

    @staticmethod
    def terminal(state):
        return state.due == 0 and state.movable == 0

    @staticmethod
    def returns(state, out):
        out[0] = state.score

    @staticmethod
    def observe(state, player, out):
        out[:] = 0.0
        for k in range(16):
            out[state.cells[k], k // 4, k % 4] = 1.0

    def draw(self, state: State) -> str:
        """The tiles, dots for empty cells."""
        tiles = [str(1 << int(e)) if e else "." for e in state.data[0]["cells"]]
        return "\n".join("".join(f"{t:>6}" for t in tiles[r : r + 4]) for r in range(0, 16, 4))

    def action_name(self, state: State, action: int) -> str:
        """Direction, or the new tile with its row and column, counted from 1."""
        return (
            f"{2 << action % 2} at {action // 8 + 1},{action // 2 % 4 + 1}"
            if state.player == CHANCE
            else _MOVES[action]
        )
