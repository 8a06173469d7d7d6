"""Games whose rules are Python objects.

Their rules are not compiled, but they are played and searched like other games.
"""

from __future__ import annotations

import functools
import hashlib
import types
import weakref
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ..errors import GameError
from ..game import CHANCE, State
from ..rules.state_dtype import given

__all__ = ["PythonGame", "PythonState"]


class PythonGame:
    """Base of adapters. A *position* is any Python object; `step` changes it in place."""

    name: str  # of the game, for messages
    num_players: int
    num_actions: int
    num_outcomes: int = 0  # of a chance event; 0 without chance
    observation_shape: tuple[int, ...]
    max_length: int  # largest number of moves of a game, including chance events
    reward = None  # returns are sums of all rewards
    # of the records that stand for positions in search trees
    dtype = np.dtype([("hash", np.int64, 2), ("seed", np.int64)])

    def start(self, seed: int) -> Any:
        """The first position; the seed is for games whose first position is drawn."""
        raise NotImplementedError

    def copy(self, position: Any) -> Any:
        """An independent copy."""
        raise NotImplementedError

    def step(self, position: Any, action: int) -> None:
        """Play a legal action, or let a chance outcome happen."""
        raise NotImplementedError

    def player(self, position: Any) -> int:
        """Return the player to move, 0 ... num_players - 1, or CHANCE. Not called in terminal positions."""
        raise NotImplementedError

    def legal_actions(self, position: Any) -> list[int]:
        """Return the legal actions. Not called in terminal positions and at chance nodes."""
        raise NotImplementedError

    def chance(self, position: Any) -> list[tuple[int, float]]:
        """Outcomes with their probabilities, at chance."""
        raise NotImplementedError

    def terminal(self, position: Any) -> bool:
        """Return True if the game is over."""
        raise NotImplementedError

    def returns(self, position: Any) -> Sequence[float] | np.ndarray:
        """Return the score of each player when the game is over."""
        raise NotImplementedError

    def observe(self, position: Any, player: int) -> Any:
        """Array of `observation_shape`: the position as `player` sees it."""
        raise NotImplementedError

    def draw(self, position: Any) -> str:
        """The position as text for a terminal."""
        return str(position)

    def action_name(self, position: Any, action: int) -> str:
        """An action as players write it."""
        return str(action)

    def initial_state(self, seed: int = 0) -> PythonState:
        """The first position, drawn with this seed if it is drawn at all."""
        key = _following(bytes(16) + int(seed).to_bytes(8, "little", signed=True), 0)
        return self.known.get(key) or PythonState(self, self.start(seed), (), key)

    @functools.cached_property
    def known(self) -> weakref.WeakValueDictionary[bytes, PythonState]:
        """All states in use, one for each key."""
        return weakref.WeakValueDictionary()

    @property
    def key(self) -> int:
        """Key of this object: positions of another one are unknown here."""
        return id(self)

    @property
    def kernels(self) -> Any:
        """Rules on arrays of records, as `Game.kernels`; here in Python."""
        return types.SimpleNamespace(look=self._look)

    def _look(self, records, players, over, masks, probabilities):
        for k in range(len(records)):
            state = self.at(records[k : k + 1])
            players[k], over[k], masks[k], probabilities[k] = (
                state.player,
                state.terminal,
                state.legal_mask,
                state.chance,
            )

    def at(self, data: np.ndarray, moves: tuple[int, ...] = ()) -> PythonState:
        """The state of a (1,) record; replayed from its moves if it has been freed."""
        state = self.known.get(data.tobytes())
        if state is None:
            state = self.initial_state(int(data[0]["seed"]))
            for action in moves:
                state = state.child(action)
            if state.data.tobytes() != data.tobytes():
                raise GameError(
                    f"{self.name}: the position has been freed, and cannot be replayed by the moves {moves}"
                )
        return state

    __getstate__ = given

    def __repr__(self) -> str:
        return f"<{self.name}>"


def _following(key: bytes, action: int) -> bytes:
    return hashlib.blake2b(key + action.to_bytes(8, "little"), digest_size=16).digest() + key[16:]


class PythonState(State):
    """An immutable position of a `PythonGame`: playing returns a new one, and `position` must not be changed.

    `data` (1,) is a hash of the moves, which include chance outcomes, and of the seed; it stands for the position in
    search trees.
    """

    __slots__ = ("__weakref__", "position")

    game: Any  # a `PythonGame`, which is not a `Game`

    def __init__(self, game: PythonGame, position: Any, moves: tuple[int, ...], key: bytes):
        super().__init__(game, np.frombuffer(key, game.dtype), moves)  # type: ignore[arg-type]
        self.position = position
        game.known[key] = self

    def __reduce__(self):
        return type(self), (self.game, self.position, self.moves, self.data.tobytes())

    def child(self, action: int) -> Self:
        """See `State.child`."""
        key = _following(self.data.tobytes(), action)
        found = self.game.known.get(key)
        if found is None:
            position = self.game.copy(self.position)
            self.game.step(position, action)
            found = type(self)(self.game, position, (*self.moves, action), key)
        return found

    @property
    def player(self) -> int:
        """Return the player to move, or CHANCE; 0 when the game is over."""
        return 0 if self.terminal else self.game.player(self.position)

    @property
    def terminal(self) -> bool:
        """Return True if the game is over."""
        return self.game.terminal(self.position)

    @property
    def legal_actions(self) -> list[int]:
        """Legal actions; at chance nodes, the possible outcomes."""
        if self.terminal:
            return []
        if self.player == CHANCE:
            return [outcome for outcome, probability in self.game.chance(self.position) if probability > 0]
        return self.game.legal_actions(self.position)

    @property
    def legal_mask(self) -> np.ndarray:
        """(num_actions,) bool; all False at chance and when the game is over."""
        mask = np.zeros(self.game.num_actions, bool)
        if self.player != CHANCE:
            mask[self.legal_actions] = True
        return mask

    @property
    def chance(self) -> np.ndarray:
        """(num_outcomes,) probabilities; all 0 unless chance is to move."""
        out = np.zeros(self.game.num_outcomes)
        if self.player == CHANCE:
            for outcome, probability in self.game.chance(self.position):
                out[outcome] = probability
        return out

    def action_name(self, action: int) -> str:
        """See `State.action_name`."""
        return self.game.action_name(self.position, action)

    def _returns(self):
        return np.array(self.game.returns(self.position), float)

    def _observation(self, player):
        return np.array(self.game.observe(self.position, player), np.float32).reshape(self.game.observation_shape)

    def __str__(self) -> str:
        return self.game.draw(self.position)
