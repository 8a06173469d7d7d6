"""Othello on 8 x 8."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, simd

from .. import bits
from ..game import Game, State
from ..random import below

__all__ = ["Othello"]

PASS = 64
# Cells are bits, a1 the lowest, h1 the 8th. A line leads to cells `shift` bits up or down: along rows, diagonals,
# columns.
_ONE, _INSIDE, _ALL = np.uint64(1), np.uint64(0x7E7E7E7E7E7E7E7E), np.uint64(0xFFFFFFFFFFFFFFFF)
_ROW, _RISING, _FALLING, _COLUMN = (np.uint64(n) for n in (1, 7, 9, 8))


@device
def _lanes(a, b, c, d):
    return simd.insert(simd.insert(simd.insert(simd.splat(a, 4), 1, b), 2, c), 3, d)


@device
def _union(v):
    pairs = simd.low(v) | simd.high(v)
    return simd.extract(pairs, 0) | simd.extract(pairs, 1)


@device
def _runs(start, other):
    """From `start`, the runs of other stones that begin beside it: in each of four directions, upwards and
    downwards.
    """
    shift = _lanes(_ROW, _RISING, _FALLING, _COLUMN)
    twice = shift + shift
    over = simd.splat(other, 4) & _lanes(_INSIDE, _INSIDE, _INSIDE, _ALL)  # no run crosses the edge
    start = simd.splat(start, 4)
    up, down = over & (start << shift), over & (start >> shift)
    up, down = up | over & (up << shift), down | over & (down >> shift)
    over_up, over_down = over & (over << shift), over & (over >> shift)
    for _ in range(2):
        up, down = up | over_up & (up << twice), down | over_down & (down >> twice)
    return up, down, shift


@device
def _moves(own, other):
    """Cells where a stone would capture: empty, at the end of a run that begins beside an own stone."""
    up, down, shift = _runs(own, other)
    return _union((up << shift) | (down >> shift)) & ~(own | other)


@device
def _captured(cell, own, other):
    up, down, shift = _runs(cell, other)
    mine = simd.splat(own, 4)
    none = simd.splat(np.uint64(0), 4)
    up = simd.select((up << shift) & mine != none, up, none)
    down = simd.select((down >> shift) & mine != none, down, none)
    return _union(up | down)


class Othello(Game):
    """Stones enclosed in a line between a new stone and an own one change color; who has more in the end wins.

    Action 8 r + c is the cell of row r and column c (row 1 is the top one), and 64 a pass, allowed where nothing can be
    captured. Player 0 is black (x). Returns are 1, 0 or -1. Observation: own stones, the other's, where the player to
    move may play.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> game = rl.games.Othello()
    >>> print(game.initial_state().play(19))
      a b c d e f g h
    1 . . . . . . . .
    2 . . . . . . . .
    3 . . . x . . . .
    4 . . . x x . . .
    5 . . . x o . . .
    6 . . . . . . . .
    7 . . . . . . . .
    8 . . . . . . . .
    """

    num_players, num_actions, max_length = 2, 65, 120  # 60 stones, and two passes are never in a row
    observation_shape = (3, 8, 8)
    # own: of the player to move
    state = [("own", "u8"), ("other", "u8"), ("moves", "u8"), ("player", "i8"), ("over", "i8")]

    @staticmethod
    def initial(state):
        state.own, state.other = np.uint64(1 << 28 | 1 << 35), np.uint64(1 << 27 | 1 << 36)
        state.moves = _moves(state.own, state.other)
        state.player, state.over = 0, 0

    @staticmethod
    def player(state):
        return state.player

    @staticmethod
    def legal_actions(state, mask):
        moves = state.moves
        for a in range(64):
            mask[a] = (moves >> np.uint64(a)) & _ONE != 0
        mask[PASS] = moves == 0

    @staticmethod
    def step(state, action):
        own, other = state.own, state.other
        if action != PASS:
            cell = _ONE << np.uint64(action)
            captured = _captured(cell, own, other)
            own, other = own | captured | cell, other & ~captured
        moves = _moves(other, own)
        if moves == 0:
            state.over = _moves(own, other) == 0
        state.own, state.other, state.moves = other, own, moves
        state.player = 1 - state.player

    @staticmethod
    def terminal(state):
        return state.over != 0

    @staticmethod
    def returns(state, out):
        lead = bits.count(state.own) - bits.count(state.other)
        out[state.player] = min(max(lead, -1), 1)
        out[1 - state.player] = min(max(0 - lead, -1), 1)

    @staticmethod
    def observe(state, player, out):
        mine, theirs = (state.own, state.other) if player == state.player else (state.other, state.own)
        for a in range(64):
            cell = np.uint64(a)
            out[0, a // 8, a % 8] = (mine >> cell) & _ONE
            out[1, a // 8, a % 8] = (theirs >> cell) & _ONE
            out[2, a // 8, a % 8] = (state.moves >> cell) & _ONE

    @staticmethod
    def random_action(state, stream):
        if state.moves == 0:
            return PASS
        return bits.nth(state.moves, below(stream, bits.count(state.moves)))

    def draw(self, state: State) -> str:
        """Rows of x, o and dots, with the names of rows and columns."""
        x, o = (int(state.data[0][f]) for f in (("own", "other") if state.data[0]["player"] == 0 else ("other", "own")))
        cells = [".xo"[(x >> a & 1) + 2 * (o >> a & 1)] for a in range(64)]
        return "\n".join(["  a b c d e f g h", *(f"{r + 1} {' '.join(cells[8 * r : 8 * r + 8])}" for r in range(8))])

    def action_name(self, state: State, action: int) -> str:
        """Column and row, as in d3, or pass."""
        return "pass" if action == PASS else f"{'abcdefgh'[action % 8]}{action // 8 + 1}"
