"""Connect four, on a board of any size."""

from __future__ import annotations

from triskele.core.extend import device

from ..errors import GameError
from ..game import Game, Rules, State
from ..random import below

__all__ = ["ConnectFour"]


class ConnectFour(Game):
    """Stones fall down the columns; `length` of them in a row, in any of the four directions, win.

    Action c drops a stone into column c; player 0 is x. Observation: own stones, the other's, as drawn (top row first).

    Parameters
    ----------
    rows, columns : int
        (rows + 1) x columns <= 63, and at most 26 columns.
    length : int
        Length of a winning line.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> print(rl.games.ConnectFour(rows=4, columns=5).initial_state().play(2, 2, 1))
    . . . . .
    . . . . .
    . . o . .
    . x x . .
    a b c d e
    """

    num_players = 2
    # A column is rows + 1 bits from its lowest cell up; the highest stays empty, so that no line runs on into the next
    # column.
    state = [("own", "i8"), ("other", "i8"), ("player", "i8")]  # own stones: of the player to move

    def __init__(self, rows: int = 6, columns: int = 7, length: int = 4):
        if not all(isinstance(n, int) and n >= 1 for n in (rows, columns, length)):
            raise GameError(
                f"ConnectFour: rows, columns and length must be integers >= 1, got {rows!r}, {columns!r}, {length!r}"
            )
        if (rows + 1) * columns > 63 or columns > 26:
            raise GameError(
                f"ConnectFour: (rows + 1) * columns must be at most 63, and columns at most 26, got {rows} "
                f"rows and {columns} columns"
            )
        self.rows, self.columns, self.length = rows, columns, length
        self.num_actions, self.max_length = columns, rows * columns
        self.observation_shape = (2, rows, columns)

    def rules(self) -> Rules:
        """Bitboards."""
        rows, columns, height = self.rows, self.columns, self.rows + 1
        bottom = sum(1 << c * height for c in range(columns))
        column, full, top = (1 << rows) - 1, bottom * ((1 << rows) - 1), rows - 1
        doublings = _doublings(self.length)

        def initial(state):
            state.own, state.other, state.player = 0, 0, 0

        def player(state):
            return state.player

        def legal_actions(state, mask):
            taken = state.own | state.other
            for c in range(columns):
                mask[c] = (taken >> (c * height + top)) & 1 == 0

        def step(state, action):
            own, other = state.own, state.other
            lowest = bottom & (column << (action * height))
            own |= ((own | other) + lowest) & (column << (action * height))
            state.own, state.other = other, own
            state.player = 1 - state.player

        @device
        def won(stones):
            up, across, rising, falling = stones, stones, stones, stones
            for n in doublings:
                up &= up >> n
                across &= across >> (n * height)
                rising &= rising >> (n * (height + 1))
                falling &= falling >> (n * (height - 1))
            return up | across | rising | falling != 0

        def terminal(state):
            return won(state.other) or state.own | state.other == full

        def returns(state, out):
            out[:] = 0.0
            if won(state.other):
                out[state.player], out[1 - state.player] = -1.0, 1.0

        def observe(state, player, out):
            mine, theirs = (state.own, state.other) if player == state.player else (state.other, state.own)
            for r in range(rows):
                for c in range(columns):
                    out[0, r, c] = (mine >> (c * height + top - r)) & 1
                    out[1, r, c] = (theirs >> (c * height + top - r)) & 1

        def random_action(state, stream):
            taken = state.own | state.other
            while True:  # most columns are open most of the time
                action = below(stream, columns)
                if (taken >> (action * height + top)) & 1 == 0:
                    return action

        return Rules(initial, player, legal_actions, step, terminal, returns, observe, None, random_action)

    def draw(self, state: State) -> str:
        """Rows of x, o and dots, and the names of the columns."""
        x, o = (int(state.data[0][f]) for f in ("own", "other"))
        if state.data[0]["player"] == 1:
            x, o = o, x
        lines = [
            [
                ".xo"[(x >> bit & 1) + 2 * (o >> bit & 1)]
                for bit in range(r, self.columns * (self.rows + 1), self.rows + 1)
            ]
            for r in reversed(range(self.rows))
        ]
        return "\n".join(" ".join(line) for line in [*lines, _LETTERS[: self.columns]])

    def action_name(self, state: State, action: int) -> str:
        """The column's letter."""
        return _LETTERS[action]

    def __repr__(self) -> str:
        return f"ConnectFour(rows={self.rows}, columns={self.columns}, length={self.length})"


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def _doublings(length):
    """By how many cells stones are shifted and intersected with themselves, until only lines of `length` are left."""
    found, n = [], 1
    while n < length:
        found.append(min(n, length - n))
        n += found[-1]
    return tuple(found or [0])
