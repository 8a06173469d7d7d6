"""Games played side by side: positions in an array where rules are compiled, in a list where they are Python's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..game import Game, State, look

__all__ = ["new_table"]


def new_table(game: Any, count: int) -> Any:
    """`count` games at their beginning."""
    return _Records(game, count) if isinstance(game, Game) else _Objects(game, count)


class _Table:
    """Interface of both tables; indices select games."""

    def __init__(self, game, count):
        self.game = game
        self.moves: list[tuple[int, ...]] = [()] * count

    def told(self, indices: Sequence[int]) -> str:
        """Return where an error happened."""
        return f"the position of {self.game.name} after {self.moves[indices[0]]}" + (
            f", or one of {len(indices) - 1} others" if len(indices) > 1 else ""
        )


class _Records(_Table):
    def __init__(self, game: Game, count: int):
        super().__init__(game, count)
        self.states = game.new_states(count)

    def look(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the player to move, whether the game is over, legal masks, and probabilities of chance."""
        return look(self.game, self.states[indices])

    def play(self, indices: np.ndarray, actions: np.ndarray) -> None:
        """A move in each game."""
        states = self.states[indices]
        self.game.kernels.play(states, actions)
        self.states[indices] = states
        for k, action in zip(indices, actions.tolist(), strict=True):
            self.moves[k] = (*self.moves[k], action)

    def returns(self, index: int) -> np.ndarray:
        """(num_players,) of a game that is over."""
        out = np.zeros((1, self.game.num_players))
        self.game.kernels.returns(self.states[index : index + 1], out)
        return out[0]

    def state(self, index: int) -> State:
        """One of the positions."""
        return State(self.game, self.states[index : index + 1].copy(), self.moves[index])

    def observations(self, indices: np.ndarray) -> np.ndarray:
        """(N, *observation_shape) as the players to move see it."""
        players, _, _, _ = self.look(indices)
        out = np.zeros((len(indices), *self.game.observation_shape), np.float32)
        self.game.kernels.observe(self.states[indices], players, out)
        return out


class _Objects(_Table):
    def __init__(self, game: Any, count: int):
        super().__init__(game, count)
        self.states = [game.initial_state() for _ in range(count)]

    def look(self, indices):
        states = [self.states[k] for k in indices]
        masks, chance = (
            np.array([getattr(s, what) for s in states]).reshape(len(states), -1) for what in ("legal_mask", "chance")
        )
        return np.array([s.player for s in states]), np.array([s.terminal for s in states], bool), masks, chance

    def play(self, indices, actions):
        for k, action in zip(indices, actions.tolist(), strict=True):
            self.states[k] = self.states[k].play(action)
            self.moves[k] = self.states[k].moves

    def returns(self, index):
        return self.states[index].returns

    def state(self, index):
        return self.states[index]

    def observations(self, indices):
        return np.array([self.states[k].observation() for k in indices])
