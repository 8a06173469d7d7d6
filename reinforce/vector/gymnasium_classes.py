"""Our environments as classes of Gymnasium, which imports this file when one of them is made (see
`register_gymnasium`).
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from ..errors import EnvError
from .env import make

__all__ = ["ManyEnvs", "SingleEnv"]


class NotDrawnError(EnvError, TypeError):
    """A render mode for an environment that cannot be drawn.

    Environments of Gymnasium raise TypeError, upon which others try without it.
    """


class SingleEnv(gymnasium.Env):
    """One environment of `rl.envs`, with its options, whose episodes Gymnasium's wrapper cuts off; it is not drawn."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, name: str, render_mode: str | None = None, **options: Any):
        if render_mode is not None:
            raise NotDrawnError(f"{name}: it cannot be drawn, got render_mode={render_mode!r}")
        self._env = make(name, max_episode_steps=0, **options)
        self.observation_space, self.action_space = (
            self._env.observation_space.to_gymnasium(),
            self._env.action_space.to_gymnasium(),
        )
        self._is_over = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Start an episode."""
        fresh = seed is not None or self._np_random is None
        super().reset(seed=seed)
        observation, info = self._env.reset(
            seed=int(self.np_random.integers(2**63)) if fresh else None, options=options
        )
        self._is_over = False
        return observation[0], {k: v[0] for k, v in info.items()}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Step; EnvError when the episode is over."""
        if self._is_over:
            raise EnvError(f"{self._env.name}: the episode is over; call reset")
        observation, reward, terminated, truncated, info = self._env.step(np.asarray(action)[None])
        self._is_over = bool(terminated[0])
        return observation[0], float(reward[0]), self._is_over, bool(truncated[0]), {k: v[0] for k, v in info.items()}


class ManyEnvs(gymnasium.vector.VectorEnv):
    """Many environments of a name in `rl.envs`, with its options, stepped in machine code."""

    metadata = {"render_modes": [], "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP}

    def __init__(self, name: str, num_envs: int = 1, max_episode_steps: int | None = None, **options: Any):
        from gymnasium.vector.utils import batch_space

        self._env = make(name, num_envs, max_episode_steps=max_episode_steps, **options)
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = (
            self._env.observation_space.to_gymnasium(),
            self._env.action_space.to_gymnasium(),
        )
        self.observation_space, self.action_space = (
            batch_space(self.single_observation_space, num_envs),
            batch_space(self.single_action_space, num_envs),
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Start an episode in every copy."""
        super().reset(seed=seed)
        return self._env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Step every copy; those that are over start an episode."""
        return self._env.step(actions)
