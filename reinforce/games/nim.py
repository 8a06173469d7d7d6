"""Nim."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import GameError
from ..game import Game, Rules, State
from ..random import below

__all__ = ["Nim"]


class Nim(Game):
    """Take as many as you like, from one heap. Who takes the last one loses (misère), or wins.

    Action (k - 1) heaps + h takes k from heap h. Observation: the sizes of the heaps.

    Parameters
    ----------
    heaps : sequence of int
        At most 26.
    misere : bool

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> print(rl.games.Nim().initial_state().play(1))
    a |
    b ||
    c |||||
    d |||||||
    """

    num_players = 2

    def __init__(self, heaps: Sequence[int] = (1, 3, 5, 7), misere: bool = True):
        self.heaps, self.misere = tuple(heaps), misere
        if not 1 <= len(self.heaps) <= 26 or not all(isinstance(h, int) and h >= 1 for h in self.heaps):
            raise GameError(f"Nim: heaps must be 1 to 26 integers >= 1, got {heaps!r}")
        if sum(self.heaps) > 10_000:
            raise GameError(f"Nim: heaps must have at most 10,000 pieces together, got {sum(self.heaps)}")
        self.state = [("left", "i8", len(self.heaps)), ("player", "i8")]
        self.num_actions, self.max_length = len(self.heaps) * max(self.heaps), sum(self.heaps)
        self.observation_shape = (len(self.heaps),)

    def rules(self) -> Rules:
        """Return the rules; a state holds the sizes of the heaps."""
        heaps, count, largest = self.heaps, len(self.heaps), max(self.heaps)
        value = -1.0 if self.misere else 1.0  # of taking the last one

        def initial(state):
            for h in range(count):
                state.left[h] = heaps[h]

        def player(state):
            return state.player

        def legal_actions(state, mask):
            for k in range(largest):
                for h in range(count):
                    mask[k * count + h] = k < state.left[h]

        def step(state, action):
            state.left[action % count] -= action // count + 1
            state.player = 1 - state.player

        def terminal(state):
            left = 0
            for h in range(count):
                left |= state.left[h]
            return left == 0

        def returns(state, out):
            out[state.player], out[1 - state.player] = 0.0 - value, value

        def observe(state, player, out):
            for h in range(count):
                out[h] = state.left[h]

        def random_action(state, stream):
            left = 0
            for h in range(count):
                left += state.left[h]
            k, h = below(stream, left), 0
            while k >= state.left[h]:
                k -= state.left[h]
                h += 1
            return k * count + h

        return Rules(initial, player, legal_actions, step, terminal, returns, observe, None, random_action)

    def draw(self, state: State) -> str:
        """A line of strokes for each heap."""
        return "\n".join(f"{_LETTERS[h]} {'|' * n}".rstrip() for h, n in enumerate(state.data[0]["left"]))

    def action_name(self, state: State, action: int) -> str:
        """Heap and number taken, as in b2."""
        k, h = divmod(action, len(self.heaps))
        return f"{_LETTERS[h]}{k + 1}"

    def __repr__(self) -> str:
        return f"Nim({self.heaps}, misere={self.misere})"


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
