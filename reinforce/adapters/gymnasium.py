"""Environments of Gymnasium that can be copied, as games of one player."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core.extend import check, optional

from ..errors import GameError
from ..game import CHANCE
from ..gymnasium_spaces import leaves
from .cloning import clone
from .python_game import PythonGame

__all__ = ["GymnasiumGame", "from_gymnasium"]


def from_gymnasium(
    env_fn: Callable[[], Any] | str,
    *,
    clone: Callable[[Any], Any] = clone,
    horizon: int | None = None,
    samples: int | None = None,
) -> GymnasiumGame:
    """A Gymnasium environment with discrete actions, played and searched like a game of one player.

    The return at the end (terminated, truncated, or after `horizon` steps) is the sum of the rewards. An
    "action_mask" in the info says what is legal.

    Parameters
    ----------
    env_fn : callable or str
        ``env_fn()`` makes an environment; or the name of a registered one.
    clone : callable
        ``clone(env)`` makes an independent copy of one.
    horizon : int, optional
        Number of steps after which the game is over. Needed for environments without a time limit.
    samples : int, optional
        For environments whose steps draw random numbers: after an action chance decides between this many steps, drawn
        with different numbers, all equally likely (sparse sampling of what can happen [1]_). 1 if the numbers change
        nothing.

    Raises
    ------
    GameError
        If actions are not discrete, observations are of no fixed size, or nothing limits the length; when playing, if a
        step draws random numbers and `samples` is not given.

    References
    ----------
    .. [1] Kearns, Mansour, Ng, "A sparse sampling algorithm for near-optimal planning in large Markov decision
       processes", Machine Learning 49 (2002) 193-208. doi:10.1023/A:1017932429737

    Examples
    --------
    >>> import gymnasium
    >>> from triskele import reinforce as rl
    >>> lake = rl.from_gymnasium(lambda: gymnasium.make("FrozenLake-v1", is_slippery=False), samples=1)
    >>> lake.initial_state().play(1, 1, 2, 2, 1, 2).returns
    array([1.])
    """
    gymnasium = optional.need("gymnasium", "from_gymnasium", "rl")
    env = check.kind(
        gymnasium.make(env_fn) if isinstance(env_fn, str) else env_fn() if callable(env_fn) else env_fn,
        gymnasium.Env,
        "from_gymnasium: env_fn",
        "the name of an environment or a function that makes one",
        error=GameError,
    )
    for name, value in (("horizon", horizon), ("samples", samples)):
        if value is not None:
            check.integer(value, f"from_gymnasium: {name}", 1, error=GameError)
    return GymnasiumGame(env, clone, horizon, samples)


class _Position:
    __slots__ = ("action", "env", "key", "length", "mask", "over", "seen", "total")

    def __init__(self, env, seen, info, key):
        self.env, self.seen, self.mask, self.key = env, seen, info.get("action_mask"), key
        # action: chosen, and chance is to draw the step
        self.total, self.length, self.over, self.action = 0.0, 0, False, -1


class GymnasiumGame(PythonGame):
    """See `from_gymnasium`. `position.env` is the environment in that position."""

    num_players = 1

    def __init__(self, env: Any, clone: Callable[[Any], Any], horizon: int | None, samples: int | None):
        from gymnasium.spaces import Box, Discrete, utils

        self._env, self._clone, self._may_draw, self._samples = env, clone, samples is not None, samples or 1
        self.name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        check.kind(env.action_space, Discrete, f"from_gymnasium: actions of {self.name}", "discrete", error=GameError)
        self.num_actions, self.num_outcomes = int(env.action_space.n), self._samples if self._samples > 1 else 0
        limits = [n for n in (horizon, env.spec and env.spec.max_episode_steps) if n is not None]
        if not limits:
            raise GameError(f"from_gymnasium: {self.name} has no time limit (give a horizon)")
        self._horizon = min(limits)
        self.max_length = self._horizon * (2 if self._samples > 1 else 1)
        space = env.observation_space
        list(leaves(f"from_gymnasium: {self.name}", space, GameError))  # refuses those of no fixed size
        self._flatten = None if isinstance(space, Box) else lambda seen: utils.flatten(space, seen)
        self.observation_shape = space.shape if isinstance(space, Box) else (utils.flatdim(space),)

    def start(self, seed: int) -> _Position:
        """The position after a reset with this seed."""
        env = self._clone(self._env)
        seen, info = env.reset(seed=seed)
        return _Position(env, seen, info, seed)

    def copy(self, position: _Position) -> _Position:
        """An independent copy."""
        other = copy.copy(position)
        other.env = self._clone(position.env)
        return other

    def step(self, position: _Position, action: int) -> None:
        """One step; with samples, choose it, and then let the outcome draw its random numbers."""
        env = position.env
        if self._samples > 1:
            position.key = hash((position.key, action))  # of integers, the same in all processes
            if position.action < 0:
                position.action = action
                return
            action, position.action = position.action, -1
            env.unwrapped.np_random = np.random.default_rng(position.key & (2**63 - 1))
            self._step(position, action)
        elif self._may_draw:
            self._step(position, action)
        else:
            before = env.unwrapped.np_random.bit_generator.state
            self._step(position, action)
            if env.unwrapped.np_random.bit_generator.state != before:
                raise GameError(
                    f"{self.name}: a step draws random numbers (give samples: how many cases a search "
                    f"shall tell apart, 1 if the numbers change nothing)"
                )

    def _step(self, position, action):
        env = position.env
        position.seen, reward, terminated, truncated, info = env.step(action + int(env.action_space.start))
        position.total += float(reward)
        position.length += 1
        position.mask = info.get("action_mask")
        position.over = bool(terminated or truncated) or position.length >= self._horizon

    def player(self, position: _Position) -> int:
        """0, or CHANCE where the step is drawn."""
        return CHANCE if position.action >= 0 else 0

    def legal_actions(self, position: _Position) -> list[int]:
        """Return the actions that the mask allows, or all actions."""
        return list(range(self.num_actions)) if position.mask is None else np.flatnonzero(position.mask).tolist()

    def chance(self, position: _Position) -> list[tuple[int, float]]:
        """The samples, equally likely."""
        return [(k, 1 / self._samples) for k in range(self._samples)]

    def terminal(self, position: _Position) -> bool:
        """Return True if the episode has ended or the horizon is reached."""
        return position.over

    def returns(self, position: _Position) -> list[float]:
        """The sum of rewards."""
        return [position.total]

    def observe(self, position: _Position, player: int) -> np.ndarray:
        """The observation; anything that is not an array is flattened (an integer becomes one-hot)."""
        return np.asarray(position.seen if self._flatten is None else self._flatten(position.seen), np.float32)

    def draw(self, position: _Position) -> str:
        """Return the environment's text rendering, if it was made with render_mode "ansi"."""
        env = position.env
        return (
            str(env.render())
            if env.render_mode == "ansi"
            else f"{self.name} after {position.length} steps: {position.seen}"
        )
