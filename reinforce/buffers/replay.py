"""Uniform replay."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import BufferError
from . import n_step as kernels
from .n_step import Transitions
from .ring import Ring

__all__ = ["ReplayBuffer", "Transitions"]


class ReplayBuffer(Ring):
    """The last transitions, drawn uniformly with replacement, of one step or several.

    Parameters
    ----------
    capacity : int
        Number of transitions, rounded up to whole steps of all environments.
    observation_space, action_space : space, or pair of shape and dtype
        Anything with `shape` and `dtype`. Data are kept as they are: bytes cost a byte.
    num_envs : int
    n_step : int
        Steps of a transition; fewer where an episode ends, or the newest step is reached.
    discount : float
        Discount factor of rewards within a transition, and of the value after it.
    seed : int
        The same seed and the same calls give the same samples.

    Raises
    ------
    BufferError
        If a number is out of range, a space has no arrays, or the capacity exceeds the memory of the machine.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import reinforce as rl
    >>> buffer = rl.ReplayBuffer(1000, ((3,), np.float32), ((), np.int64), num_envs=2)
    >>> steps = np.arange(18, dtype=np.float32).reshape(3, 2, 3)
    >>> for before, after in zip(steps[:-1], steps[1:]):
    ...     buffer.add(before, [0, 1], [1.0, 2.0], [False, False], [False, False], after)
    >>> buffer
    <ReplayBuffer: 4 of 1000 transitions, 2 environments, 0.0 MiB>
    >>> batch = buffer.sample(3)
    >>> batch.observations.shape, batch.discounts
    ((3, 3), array([0.99, 0.99, 0.99], dtype=float32))
    """

    def __init__(
        self,
        capacity: int,
        observation_space: Any,
        action_space: Any,
        *,
        num_envs: int = 1,
        n_step: int = 1,
        discount: float = 0.99,
        seed: int = 0,
    ):
        super().__init__(capacity, observation_space, action_space, num_envs=num_envs, seed=seed)
        self.n_step = check.integer(n_step, f"{self.name}: n_step", 1, error=BufferError)
        self.discount = check.number(discount, f"{self.name}: discount", 0, 1, error=BufferError)

    def sample(self, batch_size: int) -> Transitions:
        """Draw transitions.

        Parameters
        ----------
        batch_size : int

        Returns
        -------
        Transitions

        Raises
        ------
        BufferError
            If the buffer holds fewer than that.
        """
        indices = np.empty(self._checked_size(f"{self.name}.sample", batch_size), np.int64)
        kernels.draw_uniform(self.flags, self.first, self.steps, *self._key(), self.draws, indices)
        self.draws += 1
        return self._gather(indices, np.ones(len(indices), np.float32))

    def _gather(self, indices, weights):
        n = len(indices)
        (shape, dtype), (action_shape, action_dtype) = self.observation, self.action
        observations, following, actions = (
            np.empty((n, *shape), dtype),
            np.empty((n, *shape), dtype),
            np.empty((n, *action_shape), action_dtype),
        )
        rewards, discounts = np.empty(n, np.float32), np.empty(n, np.float32)
        flat = [x.reshape(n, -1).view(np.uint8) for x in (observations, actions, following)]
        kernels.gather(
            self._bytes(self.observations),
            self._bytes(self.actions),
            self.rewards,
            self.flags,
            indices,
            self.steps,
            self.n_step,
            self.discount,
            flat[0],
            flat[1],
            rewards,
            flat[2],
            discounts,
        )
        return Transitions(observations, actions, rewards, following, discounts, indices, weights)
