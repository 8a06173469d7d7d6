"""Games of a search against itself: where AlphaZero's experience comes from, and symmetries that multiply it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import BufferError, GameError
from ..game import Game, look
from ..mcts.network import Network
from ..mcts.policies.gumbel import Gumbel
from ..mcts.search import MCTS
from ..training.cancellation import Stopped

__all__ = ["PositionBuffer", "SelfPlay", "position_bytes"]

_CLOSE = 1e-6  # how far the sum of two players' returns may be from 0


class SelfPlay:
    """Plays many games side by side, both sides by the same search, one search of all games for each move.

    A finished game is handed out and restarted. The same seed and parameters play the same games, on any number of
    threads.
    """

    def __init__(
        self,
        game: Game,  # of two players whose returns sum to 0
        network: Network,
        policy: Any,
        *,
        num_games: int,
        moves: int,  # games side by side, and moves of each in a collection
        simulations: int,
        temperature_moves: int,  # opening moves, which are drawn from what the search found, unless it is Gumbel's
        value_mix: float,  # share of the search's mean value in the target of a value; the rest is the game's outcome
        seed: int,
        number: int = 0,  # the same seed and another number play other games
        stopped: Callable[[], bool] = bool,  # asked before each move; if True, `collect` raises `Stopped` for good
    ):
        self.game, self.network, self.moves, self.stopped = game, network, moves, stopped
        self.temperature_moves, self.value_mix, self.seed, self.number = temperature_moves, value_mix, seed, number
        self.search = MCTS(game, simulations, policy=policy, evaluator=network)
        self._draws = not isinstance(policy, Gumbel)
        length = game.max_length
        self.collections = 0
        self.states = game.new_states(num_games)
        self.plies = np.zeros(num_games, np.int64)  # moves of the running games, those of chance not counted
        self.positions = np.zeros((num_games, length), game.dtype)  # of the running games
        self.policies = np.zeros((num_games, length, game.num_actions), np.float32)
        self.values = np.zeros((num_games, length), np.float32)
        self.movers = np.zeros((num_games, length), np.int8)

    def collect(self, parameters: Any) -> dict[str, np.ndarray]:
        """Play `moves` moves in each game with these parameters of the network, and return all positions of the games
        that have ended.

        They are ``positions`` uint8 (n, bytes of a record), ``policies`` float32 (n, actions) and ``values`` float32
        (n,) for who moves; ``lengths`` and ``outcomes`` (what player 0 got) are those of the games.
        """
        self.network.params = parameters
        rng = np.random.Generator(np.random.Philox(key=self.seed, counter=[0, 0, self.number, self.collections]))
        every, found = np.arange(len(self.states)), []
        self._settle(rng, every)
        for _ in range(self.moves):
            if self.stopped():
                raise Stopped
            result = self.search(self.states, seed=int(rng.integers(2**62)))
            actions = self._chosen(result, rng)
            self._note(every, result)
            self.game.kernels.play(self.states, actions)
            self.plies += 1
            over = self._settle(rng, every)
            if over.any():
                ended = np.flatnonzero(over)
                found.append(self._ended(ended))
                self.states[ended], self.plies[ended] = self.game.new_states(len(ended)), 0
                self._settle(rng, ended)
        self.collections += 1
        return self._joined(found)

    def _chosen(self, result, rng):
        draws = rng.random(len(self.states))
        if not self._draws:
            return result.action
        sums = np.cumsum(result.policy, axis=1)
        drawn = (sums <= draws[:, None] * sums[:, -1:]).sum(axis=1)
        return np.where(self.plies < self.temperature_moves, drawn, result.action)

    def _note(self, every, result):
        """Keep what was found in the running games."""
        if self.plies.max() >= self.game.max_length:
            raise GameError(
                f"AlphaZero: a game of {self.game.name} is not over after max_length = "
                f"{self.game.max_length} moves (check_game finds such errors)"
            )
        self.positions[every, self.plies], self.policies[every, self.plies] = self.states, result.policy
        self.values[every, self.plies], self.movers[every, self.plies] = (
            result.root_value,
            look(self.game, self.states)[0],
        )

    def _settle(self, rng, which):
        """Let chance move where it is its turn; which games are over."""
        for _ in range(self.game.max_length + 1):
            states = self.states[which]
            players, over, _, chance = look(self.game, states)
            lucky = ~over & (players < 0)
            if not lucky.any():
                return over
            sums = np.cumsum(chance[lucky], axis=1)
            states = states[lucky]
            self.game.kernels.play(states, (sums <= rng.random(len(states))[:, None] * sums[:, -1:]).sum(axis=1))
            self.states[which[lucky]] = states
        raise GameError(
            f"AlphaZero: chance moves more than max_length = {self.game.max_length} times in "
            f"{self.game.name} (check_game finds such errors)"
        )

    def _ended(self, ended):
        """Positions of games that are over, in the order in which they were played."""
        returns = np.zeros((len(ended), self.game.num_players))
        self.game.kernels.returns(self.states[ended], returns)
        if not (np.abs(returns.sum(axis=1)) < _CLOSE).all() or not (np.abs(returns) <= 1).all():
            wrong = np.argmax((np.abs(returns.sum(axis=1)) >= _CLOSE) | (np.abs(returns) > 1).any(axis=1))
            raise GameError(
                f"AlphaZero: returns of {self.game.name} must be from -1 to 1 and sum to 0, got "
                f"{returns[wrong].tolist()}"
            )
        lengths = self.plies[ended]
        played = np.arange(self.positions.shape[1]) < lengths[:, None]
        outcome = np.take_along_axis(returns, np.maximum(self.movers[ended], 0), axis=1)
        values = (1 - self.value_mix) * outcome + self.value_mix * self.values[ended]
        return (
            self.positions[ended][played],
            self.policies[ended][played],
            values[played].astype(np.float32),
            lengths,
            returns[:, 0],
        )

    def _joined(self, found):
        game = self.game
        none = (
            np.zeros(0, game.dtype),
            np.zeros((0, game.num_actions), np.float32),
            np.zeros(0, np.float32),
            np.zeros(0, np.int64),
            np.zeros(0),
        )
        positions, policies, values, lengths, outcomes = (
            np.concatenate(parts) for parts in zip(none, *found, strict=True)
        )
        return {
            "positions": positions.view(np.uint8).reshape(len(positions), game.dtype.itemsize),
            "policies": policies,
            "values": values,
            "lengths": lengths,
            "outcomes": outcomes,
        }

    @property
    def state(self) -> dict[str, Any]:
        """Everything that later games depend on: a copy."""
        return {name: np.copy(getattr(self, name)) for name in _KEPT}

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        for name in _KEPT:
            now, then = getattr(self, name), state[name]
            check.shape(then, np.shape(now), f"SelfPlay.state: {name}", hint="another number of games?")
            setattr(self, name, int(then) if name == "collections" else then.copy())


_KEPT = ("collections", "states", "plies", "positions", "policies", "values", "movers")


def position_bytes(game: Game) -> int:
    """Memory of a position with its targets."""
    return game.dtype.itemsize + 4 * game.num_actions + 5


class PositionBuffer:
    """Ring buffer of positions, with the results of their searches and games. `symmetries` are those of `AlphaZero`."""

    def __init__(self, game: Game, capacity: int, symmetries: Sequence[Callable] = ()):
        self.game, self.capacity, self.count = game, capacity, 0
        self._moved = [_places(game, f) for f in symmetries]
        self.positions = np.zeros(capacity, game.dtype)
        self.policies, self.values = np.zeros((capacity, game.num_actions), np.float32), np.zeros(capacity, np.float32)

    def __len__(self) -> int:
        return min(self.count, self.capacity)

    def extend(self, positions: np.ndarray, policies: np.ndarray, values: np.ndarray) -> None:
        """Add what `SelfPlay.collect` gave; the oldest go."""
        new = min(len(values), self.capacity)
        rows = (self.count + len(values) - new + np.arange(new)) % self.capacity
        self.positions[rows] = (
            positions[-new:].view(self.game.dtype)[:, 0] if new else positions.view(self.game.dtype)[:0, 0]
        )
        self.policies[rows], self.values[rows] = policies[len(values) - new :], values[len(values) - new :]
        self.count += len(values)

    def sample(self, rng: np.random.Generator, size: int) -> dict[str, np.ndarray]:
        """(size, ...) ``x`` observations, ``mask``, ``policy``, ``value`` of positions drawn uniformly with
        replacement, each moved by a random symmetry, or as it is.
        """
        game, rows = self.game, rng.integers(len(self), size=size)
        states = self.positions[rows]
        players, _, mask, _ = look(game, states)
        x = np.zeros((size, *game.observation_shape), np.float32)
        game.kernels.observe(states, players, x)
        batch = {"x": x, "mask": mask, "policy": self.policies[rows], "value": self.values[rows]}
        which, flat = rng.integers(len(self._moved) + 1, size=size), x.reshape(size, -1)
        for k, (places, actions) in enumerate(self._moved):
            chosen = np.flatnonzero(which == k)
            flat[chosen] = flat[chosen][:, places]
            for name in ("policy", "mask"):
                batch[name][chosen] = batch[name][chosen][:, actions]
        return batch

    @property
    def state(self) -> dict[str, Any]:
        """All positions: a copy."""
        n = len(self)
        return {
            "count": self.count,
            "positions": self.positions[:n].copy(),
            "policies": self.policies[:n].copy(),
            "values": self.values[:n].copy(),
        }

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        count = int(state["count"])
        n = min(count, self.capacity)
        if count < 0 or any(
            len(state[name]) != n or state[name].shape[1:] != getattr(self, name).shape[1:]
            for name in ("positions", "policies", "values")
        ):
            raise BufferError(
                f"PositionBuffer.state: must hold {n} positions of {self.game.name} with their policies and values"
            )
        self.count = count
        self.positions[:n], self.policies[:n], self.values[:n] = state["positions"], state["policies"], state["values"]


def _places(game, symmetry):
    """Return the permutations of (flat observation, policy) under a symmetry."""
    name, shape = getattr(symmetry, "__name__", repr(symmetry)), tuple(game.observation_shape)
    size = int(np.prod(shape))
    x, policy = symmetry(np.arange(size).reshape(1, *shape), np.arange(game.num_actions)[None])
    for what, found, n in (("observations", x, (1, *shape)), ("policies", policy, (1, game.num_actions))):
        if np.shape(found) != n or sorted(np.ravel(found)) != list(range(int(np.prod(n)))):
            raise GameError(
                f"AlphaZero: symmetry {name} must only move entries of {what} of shape {n}, got shape {np.shape(found)}"
            )
    return np.ravel(x), np.ravel(policy)
