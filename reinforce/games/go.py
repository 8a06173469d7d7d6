"""Go, on a board of any size.

The board is kept with a border of one cell, so that every point has four neighbors: point (r, c) is cell (r + 1) W + c
+ 1 with W = size + 1, where the last cell of a row borders on the first of the next. Stones of a chain are linked into
a ring and name one of them as their head, which counts the chain's *pseudo-liberties*: pairs of a stone and an empty
neighbor. A chain whose only liberty is p has as many of them as p has neighbors in the chain, so no set of liberties
is needed.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import check, device

from ..errors import GameError
from ..game import Game, Rules, State
from ..random import below

__all__ = ["Go"]

_EMPTY, _BORDER = 0, 3  # a stone of player p is p + 1
_LETTERS = "abcdefghjklmnopqrstuvwxyz"  # there is no i
_BITS_PER_POSITION = 6  # of the filter in front of the list of earlier positions, before rounding up to a power of two


class Go(Game):
    """Go with area scoring (Tromp-Taylor): stones, and empty points that reach stones of one player only; suicide is
    not legal.

    Two passes in a row end the game, and so do 2 size^2 moves; the player with the larger area, White's with `komi`
    added, gets 1 and the other -1, or both 0 if the areas are equal. Player 0 is Black. Action r size + c is the point
    of row r from the bottom and column c from the left (a1 is 0), size^2 is a pass.

    Observation, rows from the bottom as in actions: own stones; the other's; ones for Black, zeros for White; ones if
    the move before was a pass.

    Parameters
    ----------
    size : int
        Size of the board, 1 to 25.
    komi : float
        Points that White gets for moving second.
    superko : bool
        Positional superko: a stone may not be played if the whole board has looked like that before, whoever was to
        move. Without, only the stone that took a single stone may not be taken back at once (ko), and a position that
        comes back later ends the game, with 0 for both.

    Raises
    ------
    GameError
        If the board or komi is impossible.

    References
    ----------
    Tromp, "The game of Go", https://tromp.github.io/go.html (rules of area and superko).
    Zobrist, "A new hashing method with application for game playing", ICCA Journal 13 (1990) 69-73.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> go = rl.games.Go(size=5, komi=0.5)
    >>> state = go.initial_state()
    >>> for move in ("b1", "a1", "a2"):
    ...     state = state.play(go.parse_action(state, move))
    >>> print(state)
     5 . . . . .
     4 . . . . .
     3 . . . . .
     2 X . . . .
     1 . X . . .
       a b c d e
    """

    num_players = 2

    def __init__(self, size: int = 9, komi: float = 7.5, superko: bool = True):
        check.integer(size, "Go: size", 1, 25, error=GameError)
        self.size, self.komi, self.superko = int(size), check.number(komi, "Go: komi", error=GameError), bool(superko)
        points, cells = self.size**2, (self.size + 1) * (self.size + 2)
        self.num_actions, self.max_length = points + 1, 2 * points
        self.observation_shape = (4, self.size, self.size)
        index = np.uint8 if cells <= 256 else np.int16
        self.state = [
            ("hash", "i8"),
            ("player", "i8"),
            ("passes", "i8"),  # in a row
            ("moves", "i8"),
            ("ko", "i8"),  # the cell that may not be taken back (without superko)
            ("repeated", "i8"),
            ("num_seen", "i8"),
            ("num_empty", "i8"),
            ("seen", "i8", self.max_length),  # hashes of all positions
            ("filter", "i8", self._filter_bits() // 64),  # bit h of it is set if a hash that ends with h was seen
            ("liberties", "i2", cells),  # pseudo-liberties, at heads; entry 0 takes what is counted for no chain
            ("head", index, cells),  # of the chain; 0 for empty points and the border
            ("link", index, cells),  # of a stone: the next of the chain; of an empty point: its place in `empty`
            ("empty", index, points),  # all empty points, in any order
            ("color", "u1", cells),
        ]

    def _filter_bits(self):
        return 1 << max(6, (_BITS_PER_POSITION * self.max_length - 1).bit_length())

    def rules(self) -> Rules:
        """Chains as linked stones with pseudo-liberties."""
        size, komi, superko, width = self.size, self.komi, self.superko, self.size + 1
        points, cells, longest, low_bits = (
            self.size**2,
            (self.size + 1) * (self.size + 2),
            self.max_length,
            self._filter_bits() - 1,
        )
        zobrist = _zobrist(3 * cells)  # of a color and a cell

        @device
        def cell(action):
            return (action // size + 1) * width + action % size + 1

        @device
        def seen(state, h):
            low = h & low_bits
            if (state.filter[low >> 6] >> (low & 63)) & 1 == 0:
                return False
            found = False
            for k in range(state.num_seen):  # no way out: the loop is vectorized
                found |= state.seen[k] == h
            return found

        @device
        # whether the chain of `a` has no other liberty than the point between a, b, c and d
        def only_liberty(state, a, b, c, d):
            head = state.head[a]
            return state.liberties[head] == 1 + (state.head[b] == head) + (state.head[c] == head) + (
                state.head[d] == head
            )

        @device
        def chain_hash(state, p):
            h, q, color = np.int64(0), np.int64(p), np.int64(state.color[p])
            while True:
                h ^= zobrist[color * cells + q]
                q = np.int64(state.link[q])
                if q == p:
                    return h

        @device
        def playable(state, p):
            mine = state.player + 1
            others = 3 - mine
            w, e, s, n = p - 1, p + 1, p - width, p + width
            cw, ce, cs, cn = (
                np.int64(state.color[w]),
                np.int64(state.color[e]),
                np.int64(state.color[s]),
                np.int64(state.color[n]),
            )
            lw, le, ls, ln = (
                only_liberty(state, w, e, s, n),
                only_liberty(state, e, w, s, n),
                only_liberty(state, s, w, e, n),
                only_liberty(state, n, w, e, s),
            )
            takes = (cw == others and lw) or (ce == others and le) or (cs == others and ls) or (cn == others and ln)
            if not superko:
                if p == state.ko:
                    return False
                if takes:
                    return True
            breathes = cw == _EMPTY or ce == _EMPTY or cs == _EMPTY or cn == _EMPTY
            breathes = (
                breathes
                or (cw == mine and not lw)
                or (ce == mine and not le)
                or (cs == mine and not ls)
                or (cn == mine and not ln)
            )
            if not takes and not breathes:
                return False
            if not superko:
                return True
            h = state.hash ^ zobrist[mine * cells + p]
            if takes:
                hw, he, hs, hn = state.head[w], state.head[e], state.head[s], state.head[n]
                if cw == others and lw:
                    h ^= chain_hash(state, w)
                if ce == others and le and hw != he:
                    h ^= chain_hash(state, e)
                if cs == others and ls and not (hs == hw or hs == he):
                    h ^= chain_hash(state, s)
                if cn == others and ln and not (hn == hw or hn == he or hn == hs):
                    h ^= chain_hash(state, n)
            return not seen(state, h)

        @device
        def join(state, p, q):  # the chain of q becomes part of that of p
            head, old = state.head[p], state.head[q]
            state.liberties[head] += state.liberties[old]
            k = np.int64(q)
            while True:
                state.head[k] = head
                k = np.int64(state.link[k])
                if k == q:
                    break
            state.link[p], state.link[q] = state.link[q], state.link[p]

        @device
        def take(state, p):  # the chain of p off the board; how many stones
            taken, q, color = 0, np.int64(p), np.int64(state.color[p])
            while state.color[q] == color:
                following = np.int64(state.link[q])
                state.color[q] = _EMPTY
                state.head[q] = 0
                state.hash ^= zobrist[color * cells + q]
                state.liberties[state.head[q - 1]] += 1
                state.liberties[state.head[q + 1]] += 1
                state.liberties[state.head[q - width]] += 1
                state.liberties[state.head[q + width]] += 1
                state.link[q] = state.num_empty
                state.empty[state.num_empty] = q
                state.num_empty += 1
                taken += 1
                q = following
            return taken

        @device
        def place(state, p):
            mine = state.player + 1
            others = 3 - mine
            around = (p - 1, p + 1, p - width, p + width)
            free, eye = 0, True
            for q in around:
                state.liberties[state.head[q]] -= 1
                free += state.color[q] == _EMPTY
                eye &= state.color[q] == others or state.color[q] == _BORDER
            state.num_empty -= 1
            last, k = state.empty[state.num_empty], state.link[p]
            state.empty[k] = last
            state.link[last] = k
            state.color[p], state.head[p], state.link[p], state.liberties[p] = mine, p, p, free
            state.hash ^= zobrist[mine * cells + p]
            for q in around:
                if state.color[q] == mine and state.head[q] != state.head[p]:
                    join(state, p, q)
            taken, last_taken = 0, 0
            for q in around:
                if state.color[q] == others and state.liberties[state.head[q]] == 0:
                    taken += take(state, q)
                    last_taken = q
            if not superko:
                state.ko = last_taken if eye and taken == 1 else 0
                state.repeated = seen(state, state.hash)
            low = state.hash & low_bits
            state.filter[low >> 6] |= np.int64(1) << (low & 63)
            state.seen[state.num_seen] = state.hash
            state.num_seen += 1

        def initial(state):
            state.hash, state.player, state.passes, state.moves = 0, 0, 0, 0
            state.ko, state.repeated, state.num_seen, state.num_empty = 0, 0, 0, points
            state.seen[:] = 0
            state.filter[:] = 0
            state.liberties[:] = 0
            state.head[:] = 0
            state.link[:] = 0
            state.color[:] = _BORDER
            for a in range(points):
                p = cell(a)
                state.color[p], state.empty[a], state.link[p] = _EMPTY, p, a

        def player(state):
            return state.player

        def legal_actions(state, mask):
            mask[:] = False
            for k in range(state.num_empty):
                p = np.int64(state.empty[k])
                mask[(p // width - 1) * size + p % width - 1] = playable(state, p)
            mask[points] = True

        # draws until it finds what is legal, so that all that is legal is equally likely
        def random_action(state, stream):
            while True:
                k = below(stream, state.num_empty + 1)
                if k == state.num_empty:
                    return points
                p = np.int64(state.empty[k])
                if playable(state, p):
                    return (p // width - 1) * size + p % width - 1

        def step(state, action):
            if action == points:
                state.passes += 1
                state.ko = 0
            else:
                place(state, cell(action))
                state.passes = 0
            state.player = 1 - state.player
            state.moves += 1

        def terminal(state):
            return state.passes >= 2 or state.moves >= longest or state.repeated != 0

        def returns(state, out):
            out[:] = 0.0
            if state.repeated == 0:
                margin = area(state) - komi
                if margin != 0:
                    out[0] = 1.0 if margin > 0 else -1.0
                    out[1] = -out[0]

        @device
        def area(state):  # Black's minus White's
            margin = 0
            for k in range(width, cells - width):
                margin += (state.color[k] == 1) - (state.color[k] == 2)
            visited, waiting = np.zeros(cells, np.uint8), np.empty(points, np.int16)
            for k in range(state.num_empty):
                if visited[state.empty[k]]:
                    continue
                waiting[0], count, region, reached = state.empty[k], 1, 0, 0
                visited[state.empty[k]] = 1
                while count > 0:
                    count -= 1
                    region += 1
                    p = np.int64(waiting[count])
                    for q in (p - 1, p + 1, p - width, p + width):
                        color = np.int64(state.color[q])
                        if color != _EMPTY:
                            reached |= (1 << color) & 6  # type: ignore[assignment]
                        elif not visited[q]:
                            visited[q] = 1
                            waiting[count] = q
                            count += 1
                margin += region if reached == 2 else -region if reached == 4 else 0
            return margin

        def observe(state, player, out):
            for a in range(points):
                r, c, color = a // size, a % size, np.int64(state.color[cell(a)])
                out[0, r, c] = color == player + 1
                out[1, r, c] = color == 2 - player
                out[2, r, c] = player == 0
                out[3, r, c] = state.passes > 0

        return Rules(initial, player, legal_actions, step, terminal, returns, observe, None, random_action)

    def draw(self, state: State) -> str:
        """Rows from the top with their numbers, X for Black and O for White, and the letters of the columns."""
        color = state.data[0]["color"]
        lines = []
        for r in reversed(range(self.size)):
            first = (r + 1) * (self.size + 1) + 1
            lines.append(f"{r + 1:2} " + " ".join(".XO"[k] for k in color[first : first + self.size]))
        return "\n".join([*lines, "   " + " ".join(_LETTERS[: self.size])])

    def action_name(self, state: State, action: int) -> str:
        """Column and row as in d4, or pass."""
        return "pass" if action == self.size**2 else f"{_LETTERS[action % self.size]}{action // self.size + 1}"

    def __repr__(self) -> str:
        return f"Go(size={self.size}, komi={self.komi:g}, superko={self.superko})"


def _zobrist(count):
    """Fixed random 64-bit numbers: the outputs of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014,
    doi:10.1145/2714064.2660195) from 0.
    """
    with np.errstate(over="ignore"):
        z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))).view(np.int64)
