"""Trajectories: whole rollouts, and segments of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import check, kernel

from ..errors import BufferError
from .n_step import uniform
from .ring import RESTART, TERMINATED, TRUNCATED, Ring

__all__ = ["Segments", "TrajectoryBuffer"]

# of two steps that follow each other one is no restart: this many fail only where there is but one step
_ATTEMPTS = 1000


class Segments(NamedTuple):
    """Steps that follow each other, time-major. Episodes may end inside."""

    observations: Any  # (length + 1, batch, ...), before each step, and after the last
    actions: Any  # (length, batch, ...)
    rewards: Any  # (length, batch) float32
    terminated: Any  # (length, batch) bool, True if the step ended an episode
    truncated: Any  # likewise
    valid: Any  # (length, batch) bool, False where the environment only restarted: to be masked in losses
    extras: dict[str, Any]  # (length, batch, ...) arrays


@kernel(nogil=True)
def draw_segments(flags, first, last, k0, k1, draw, starts, environments):
    """Segments that begin with a transition, from steps first to last. False if none was found."""
    rows, envs = flags.shape
    for i in range(starts.size):
        for attempt in range(_ATTEMPTS + 1):
            if attempt == _ATTEMPTS:
                return False
            k = np.int64(uniform(k0, k1, draw, i, attempt) * ((last - first + 1) * envs))
            if not flags[(first + k // envs) % rows, k % envs] & RESTART:
                break
        starts[i], environments[i] = first + k // envs, k % envs
    return True


class TrajectoryBuffer(Ring):
    """The last steps of every environment in order: for updates on whole rollouts, and on segments drawn uniformly.

    Parameters
    ----------
    capacity, observation_space, action_space, num_envs, seed
        As for `ReplayBuffer`.
    extras : dict of spaces, optional
        Further arrays kept of every step, such as the log-probability of the action.

    Raises
    ------
    BufferError
        As for `ReplayBuffer`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import reinforce as rl
    >>> extras = {"log_probs": ((), np.float32)}
    >>> buffer = rl.TrajectoryBuffer(8, ((), np.float32), ((), np.int64), num_envs=2, extras=extras)
    >>> for t in range(4):
    ...     ends, cuts, then = [False, t == 1], [False, False], [t + 1, t + 1]
    ...     buffer.add([t, t], [0, 1], [1.0, 1.0], ends, cuts, then, log_probs=[-0.5, -0.7])
    >>> rollout = buffer.rollout()
    >>> rollout.observations.shape, rollout.valid[:, 1]
    ((5, 2), array([ True,  True, False,  True]))
    """

    def __init__(
        self,
        capacity: int,
        observation_space: Any,
        action_space: Any,
        *,
        num_envs: int = 1,
        extras: dict[str, Any] | None = None,
        seed: int = 0,
    ):
        super().__init__(capacity, observation_space, action_space, num_envs=num_envs, seed=seed, extras=extras)

    def sample(self, batch_size: int, length: int) -> Segments:
        """Draw segments, each of which begins with a transition.

        Parameters
        ----------
        batch_size, length : int

        Returns
        -------
        Segments

        Raises
        ------
        BufferError
            If the buffer holds fewer transitions than `batch_size`, or no segment of this length.
        """
        where = f"{self.name}.sample"
        batch_size = self._checked_size(where, batch_size)
        length = check.integer(length, f"{where}: length", 1, error=BufferError)
        starts, environments = np.empty(batch_size, np.int64), np.empty(batch_size, np.int64)
        have, (k0, k1) = self.steps - self.first, self._key()
        if have < length or not draw_segments(
            self.flags, self.first, self.steps - length, k0, k1, self.draws, starts, environments
        ):
            raise BufferError(
                f"{where}: the buffer must hold a segment of {length} steps that begins with a "
                f"transition, got {have} steps"
            )
        self.draws += 1
        return self._take(starts + np.arange(length + 1)[:, None], environments)

    def rollout(self) -> Segments:
        """All steps that are stored, of all environments, in order: a copy.

        Raises
        ------
        BufferError
            If there are none.
        """
        if self.steps == self.first:
            raise BufferError(f"{self.name}.rollout: the buffer must hold a step, got none")
        return self._take(np.arange(self.first, self.steps + 1)[:, None], np.arange(self.num_envs))

    def clear(self) -> None:
        """Forget the steps, and continue from the present states of the environments."""
        self.observations[0] = self.observations[self.steps % self.rows]
        # the row before the first tells which environments restart
        self.flags[-1] = self.flags[(self.steps - 1) % self.rows]
        self.steps, self._transitions, self._counts[:] = 0, 0, 0

    def _take(self, steps, environments):
        rows, flags = steps % self.rows, self.flags[steps[:-1] % self.rows, environments]
        return Segments(
            self.observations[rows, environments],
            self.actions[rows[:-1], environments],
            self.rewards[rows[:-1], environments],
            (flags & TERMINATED) != 0,
            (flags & TRUNCATED) != 0,
            (flags & RESTART) == 0,
            {k: x[rows[:-1], environments] for k, x in self.extras.items()},
        )
