"""Running statistics that scale observations and rewards, and where both are clipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import kernel

from ..policy import Normalizer

__all__ = ["LIMIT", "ReturnScale", "RunningMoments"]

LIMIT = 10.0  # at which normalized observations and scaled rewards are clipped


@dataclass
class RunningMoments:
    """Mean and variance of all data seen so far, merged batch by batch (Chan, Golub and LeVeque, The American
    Statistician 37 (1983), eq. 2.1).
    """

    mean: Any
    variance: Any
    count: int = 0

    @classmethod
    def start(cls, shape: tuple[int, ...]) -> RunningMoments:
        """Return the statistics before any data: mean 0, variance 1."""
        return cls(np.zeros(shape), np.ones(shape))

    def add(self, batch: np.ndarray) -> None:
        """Take in values [n, ...]."""
        n = len(batch)
        if n == 0:
            return
        batch = np.asarray(batch, np.float64)
        mean, variance = batch.mean(axis=0), batch.var(axis=0)
        total = self.count + n
        difference = mean - self.mean
        spread = (self.variance * self.count + variance * n + difference**2 * (self.count * n / total)) / total
        self.mean, self.variance, self.count = self.mean + difference * (n / total), spread, total

    @property
    def spread(self) -> Any:
        """Standard deviation, but at least what the mean is rounded by in float32; 1 where all data are 0.

        It has the unit of the data: what is divided by it does not depend on that unit.
        """
        spread = np.sqrt(self.variance + (np.finfo(np.float32).eps * self.mean) ** 2)
        return np.where(spread > 0, spread, 1.0)

    def normalizer(self) -> Normalizer:
        """Return the normalizer to mean 0 and variance 1 by the current statistics."""
        return Normalizer(self.mean.astype(np.float32), (1 / self.spread).astype(np.float32), LIMIT)


@kernel(nogil=True)
def _accumulate(rewards, terminated, truncated, running, discount, out):
    for t in range(len(rewards)):
        for n in range(rewards.shape[1]):
            running[n] = running[n] * discount + rewards[t, n]
            out[t, n] = running[n]
            if terminated[t, n] or truncated[t, n]:
                running[n] = 0.0


@dataclass
class ReturnScale:
    """Divides rewards by the standard deviation of the running discounted return, as `NormalizeReward` of Gymnasium
    does, but in any unit of the rewards.
    """

    moments: RunningMoments  # of the discounted returns
    running: np.ndarray  # (N,), discounted return of each environment so far

    @classmethod
    def start(cls, num_envs: int) -> ReturnScale:
        """At the first observations of all environments."""
        return cls(RunningMoments.start(()), np.zeros(num_envs))

    def scaled(
        self,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        discount: float,
        copies: slice = slice(None),
    ) -> np.ndarray:
        """Take in rewards [T, N] of all environments, or some, and return them scaled, clipped to [-LIMIT, LIMIT]."""
        returns = np.empty(rewards.shape)
        _accumulate(rewards, terminated, truncated, self.running[copies], discount, returns)
        self.moments.add(returns.ravel())
        return np.clip(rewards / self.moments.spread, -LIMIT, LIMIT).astype(rewards.dtype)
