"""Transitions of n steps, put together when they are drawn from the rows of a `ring`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import device, kernel
from triskele.core.random import Counter
from triskele.core.random import numba as draws

from .ring import RESTART, TERMINATED, TRUNCATED

__all__ = ["Transitions"]

_STREAM = int(Counter.BUFFERS)
_ENDED = TERMINATED | TRUNCATED


class Transitions(NamedTuple):
    """A batch of transitions.

    ``rewards + discounts * V(next_observations)`` is the target of V(observations), whatever n is and however it ended.
    """

    observations: Any  # (batch, ...)
    actions: Any  # (batch, ...)
    rewards: Any  # (batch,) float32, discounted sum over the steps
    next_observations: Any  # (batch, ...), after the last of the steps
    discounts: Any  # (batch,) float32, discount to the power of the number of steps; 0 where the last one terminated
    indices: Any  # (batch,) int64, step * num_envs + environment
    weights: Any  # (batch,) float32, importance weights; 1 where draws are uniform


@device
def uniform(k0, k1, draw, i, attempt):
    """In [0, 1): for attempt `attempt` of element i of draw number `draw`."""
    words = draws.block(k0, k1, i, draw & 0xFFFFFFFF, attempt | (draw >> 32) << 16, _STREAM)
    bits = (np.uint64(words[0]) | np.uint64(words[1]) << np.uint64(32)) >> np.uint64(11)
    return np.float64(np.int64(bits)) * 2.0**-53


@kernel(nogil=True)
def draw_uniform(flags, first, steps, k0, k1, draw, indices):
    """indices[i]: a step from first to steps - 1 in some environment that is a transition. There must be one."""
    rows, envs = flags.shape
    for i in range(indices.size):
        attempt = 0
        while True:  # at most every second row is a restart, but for the newest
            k = np.int64(uniform(k0, k1, draw, i, attempt) * ((steps - first) * envs))
            if not flags[(first + k // envs) % rows, k % envs] & RESTART:
                break
            attempt += 1
        indices[i] = first * envs + k


@device
def follow(rewards, flags, step, env, steps, n, discount):
    """Up to n steps from one on, as far as the episode and what is stored go: sum of rewards, discount, step after the
    last.
    """
    rows = flags.shape[0]
    total, factor, at = 0.0, 1.0, step
    while True:
        row = at % rows
        total += factor * rewards[row, env]
        factor *= discount
        at += 1
        if flags[row, env] & _ENDED or at == steps or at == step + n:
            break
    return total, 0.0 if flags[row, env] & TERMINATED else factor, at


@device
def copy(out, i, storage, row, env):
    for j in range(storage.shape[2]):
        out[i, j] = storage[row, env, j]


@kernel(nogil=True)
def gather(
    observations,
    actions,
    rewards,
    flags,
    indices,
    steps,
    n,
    discount,
    out_observations,
    out_actions,
    out_rewards,
    out_next,
    out_discounts,
):
    """Transitions of `indices`; observations and actions [rows, envs, bytes], their results [batch, bytes]."""
    rows, envs = flags.shape
    for i in range(indices.size):
        step, env = indices[i] // envs, indices[i] % envs
        total, factor, after = follow(rewards, flags, step, env, steps, n, discount)
        copy(out_observations, i, observations, step % rows, env)
        copy(out_actions, i, actions, step % rows, env)
        copy(out_next, i, observations, after % rows, env)
        out_rewards[i], out_discounts[i] = total, factor
