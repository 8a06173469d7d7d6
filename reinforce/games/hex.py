"""Hex, on a board of any size."""

from __future__ import annotations

from triskele.core.extend import check

from ..errors import GameError
from ..game import Game, Rules, State
from ..random import below

__all__ = ["Hex"]

# What stands on a cell, from the view of player 0; the negative for player 1. The board has a border, which is linked
# (that is, connected with the first edge) on two sides, and the goal on the other two.
_STONE, _LINKED, _GOAL, _WAITING = 1, 2, 3, 4


class Hex(Game):
    """Stones on hexagons; player 0 (x) connects top and bottom, player 1 (o) left and right. There are no draws.

    Action size r + c is the cell of row r and column c. There is no swap of sides.
    Observation: own stones, the other's, and a plane of the player's number.

    Parameters
    ----------
    size : int
        1 to 26: the board has size x size cells.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> game = rl.games.Hex(3)
    >>> print(game.initial_state().play(4, 1, 2))
     a b c
    1 . o x
     2 . x .
      3 . . .
    """

    num_players = 2

    def __init__(self, size: int = 11):
        check.integer(size, "Hex: size", 1, 26, error=GameError)
        self.size = size
        self.state = [("board", "i2", (size + 2) ** 2), ("player", "i4"), ("winner", "i4")]  # winner: 1 or 2 at the end
        self.num_actions = self.max_length = size * size
        self.observation_shape = (3, size, size)

    def rules(self) -> Rules:
        """Each stone is once found to be linked, so a game costs one visit of each cell, however long its chains
        are.
        """
        size, width = self.size, self.size + 2
        neighbors = (-width, 1 - width, -1, 1, width - 1, width)

        def initial(state):
            for k in range(1, size + 1):
                state.board[k], state.board[(size + 1) * width + k] = _LINKED, _GOAL
                state.board[k * width], state.board[k * width + size + 1] = -_LINKED, -_GOAL

        def player(state):
            return state.player

        def legal_actions(state, mask):
            for r in range(size):
                for c in range(size):
                    mask[r * size + c] = state.board[(r + 1) * width + c + 1] == 0

        def step(state, action):
            board, sign = state.board, 1 - 2 * state.player
            cell = (action // size + 1) * width + action % size + 1
            board[cell] = sign * _STONE
            linked = False
            for n in neighbors:
                linked |= sign * board[cell + n] == _LINKED
            if linked:
                # Chains that this stone links: the cells that wait to be looked at hold, each, the next one that waits
                # (0: none).
                waiting = cell
                board[cell] = sign * _WAITING
                while waiting != 0:
                    here = waiting
                    waiting = sign * board[here] - _WAITING
                    board[here] = sign * _LINKED
                    for n in neighbors:
                        what = sign * board[here + n]
                        if what == _STONE:
                            board[here + n] = sign * (_WAITING + waiting)
                            waiting = here + n
                        elif what == _GOAL:
                            state.winner = state.player + 1
            state.player = 1 - state.player

        def terminal(state):
            return state.winner != 0

        def returns(state, out):
            out[state.winner - 1], out[2 - state.winner] = 1.0, -1.0

        def observe(state, player, out):
            sign = 1 - 2 * player
            for r in range(size):
                for c in range(size):
                    what = sign * state.board[(r + 1) * width + c + 1]
                    out[0, r, c] = what > 0
                    out[1, r, c] = what < 0
                    out[2, r, c] = player

        def random_action(state, stream):
            while True:  # random games end before the board is full: 2.4 draws on average on 11 x 11
                action = below(stream, size * size)
                if state.board[(action // size + 1) * width + action % size + 1] == 0:
                    return action

        return Rules(initial, player, legal_actions, step, terminal, returns, observe, None, random_action)

    def draw(self, state: State) -> str:
        """Rows of x, o and dots, each shifted by half a cell, with the names of rows and columns."""
        board = state.data[0]["board"].reshape(self.size + 2, self.size + 2)[1:-1, 1:-1]
        lines = [
            f"{' ' * r}{r + 1} {' '.join('.' if v == 0 else 'x' if v > 0 else 'o' for v in row)}"
            for r, row in enumerate(board)
        ]
        return "\n".join([" " + " ".join(_LETTERS[: self.size]), *lines])

    def action_name(self, state: State, action: int) -> str:
        """Column and row, as in b3."""
        return f"{_LETTERS[action % self.size]}{action // self.size + 1}"

    def __repr__(self) -> str:
        return f"Hex({self.size})"


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
