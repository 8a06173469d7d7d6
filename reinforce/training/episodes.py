"""Returns and lengths of the episodes that end while an agent trains, and which steps are not transitions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from triskele.core.extend import kernel

__all__ = ["Episodes"]

WINDOW = 100  # episodes over which means are taken


@kernel(nogil=True)
def _follow(rewards, terminated, truncated, totals, lengths, over, valid, last_returns, last_lengths, finished):
    for t in range(len(rewards)):
        for n in range(rewards.shape[1]):
            valid[t, n] = not over[n]
            if over[n]:  # this step was the restart
                over[n] = False
                totals[n], lengths[n] = 0.0, 0
                continue
            totals[n] += rewards[t, n]
            lengths[n] += 1
            if terminated[t, n] or truncated[t, n]:
                over[n] = True
                last_returns[finished % len(last_returns)] = totals[n]
                last_lengths[finished % len(last_returns)] = lengths[n]
                finished += 1
    return finished


@dataclass
class Episodes:
    """Follows several environments, which restart in the step after an end, as Gymnasium's NEXT_STEP autoreset does.

    Attributes
    ----------
    totals, lengths, over : (N,) array
        Returns and lengths of the running episodes; `over` is True where the next step is a restart.
    returns : (100,) array
        Returns of the episodes finished last, in a ring.
    steps : (100,) array
        Their lengths.
    finished : int
        How many have ended.

    Examples
    --------
    >>> episodes = Episodes.start(1)
    >>> never = np.zeros((3, 1), bool)
    >>> episodes.add(np.array([[1.0], [2.0], [0.0]]), np.array([[False], [True], [False]]), never).ravel()
    array([ True,  True, False])
    >>> episodes.mean_return, episodes.mean_length
    (3.0, 2.0)
    """

    totals: np.ndarray
    lengths: np.ndarray
    over: np.ndarray
    returns: np.ndarray = field(default_factory=lambda: np.zeros(WINDOW))
    steps: np.ndarray = field(default_factory=lambda: np.zeros(WINDOW, np.int64))
    finished: int = 0

    @classmethod
    def start(cls, num_envs: int) -> Episodes:
        """At the first observations of all environments."""
        return cls(np.zeros(num_envs), np.zeros(num_envs, np.int64), np.zeros(num_envs, bool))

    def add(
        self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray, copies: slice = slice(None)
    ) -> np.ndarray:
        """Take in steps of all environments, or of some, each array [T, N]; returns which are transitions, not
        restarts, bool [T, N].
        """
        valid = np.empty(terminated.shape, bool)
        running = self.totals[copies], self.lengths[copies], self.over[copies]
        self.finished = int(
            _follow(rewards, terminated, truncated, *running, valid, self.returns, self.steps, self.finished)
        )
        return valid

    def finish(self, returns: Any, lengths: Any) -> None:
        """Note whole episodes that have ended, in their order."""
        places = (self.finished + np.arange(len(returns))) % WINDOW  # of those that come twice, the last stays
        self.returns[places], self.steps[places] = returns, lengths
        self.finished += len(returns)

    def restart(self) -> None:
        """Forget the running episodes: all environments are at first observations."""
        self.totals[:], self.lengths[:], self.over[:] = 0.0, 0, False

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last 100 finished episodes, or of all if fewer; None before the first has ended."""
        return float(self.returns[: self.finished].mean()) if self.finished else None

    @property
    def mean_length(self) -> float | None:
        """Mean length of the same episodes."""
        return float(self.steps[: self.finished].mean()) if self.finished else None
