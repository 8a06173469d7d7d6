"""MountainCar: a car in a valley, too weak to drive straight up to the flag."""

from __future__ import annotations

import numpy as np

from triskele.core.extend import simd

from .. import random
from ..environment import EnvRules, LaneEnvironment
from ..rules.lane_math import as_float32, clip
from ..spaces import Box, Discrete

__all__ = ["MountainCar", "MountainCarContinuous"]

_LEFT, _RIGHT, _FASTEST, _FLAG, _FORCE, _GRAVITY = -1.2, 0.6, 0.07, 0.5, 0.001, 0.0025
_POWER, _FLAG_CONTINUOUS = 0.0015, 0.45
_LOW, _HIGH = np.array([_LEFT, -_FASTEST], np.float32), np.array([_RIGHT, _FASTEST], np.float32)
# The original keeps its state in float32, and compares and clips with bounds in float32.
_LEFT_32, _RIGHT_32, _FASTEST_32, _FLAG_32, _POWER_32 = (
    float(np.float32(x)) for x in (_LEFT, _RIGHT, _FASTEST, _FLAG_CONTINUOUS, _POWER)
)


class MountainCar(LaneEnvironment):
    """MountainCar-v0 of Gymnasium: -1 a step till the car reaches the flag; actions push left, not at all, right.

    The task is Moore's [1]_. Steps are equal to Gymnasium's to rounding of the last bits of float64.

    Parameters
    ----------
    goal_velocity : float
        Minimum speed of the car at the flag.

    References
    ----------
    .. [1] Moore, "Efficient memory-based learning for robot control", thesis, Cambridge 1990, chapter 4.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> env = rl.make(rl.envs.MountainCar(), num_envs=4, seed=0)
    >>> observations, infos = env.reset()
    >>> observations.shape
    (4, 2)
    """

    state = ("position", "velocity")
    action_space: Box | Discrete = Discrete(3)
    observation_space = Box(_LOW, _HIGH)
    max_steps = 200

    def __init__(self, goal_velocity: float = 0.0):
        self._goal_velocity = float(goal_velocity)

    def rules(self) -> EnvRules:
        """See `LaneEnvironment`."""
        goal_velocity = self._goal_velocity

        def step(state, action):
            position, velocity = state
            velocity = velocity + (simd.convert(action - 1, np.float64) * _FORCE + simd.cos(3.0 * position) * -_GRAVITY)
            velocity = clip(velocity, -_FASTEST, _FASTEST)
            position = clip(position + velocity, _LEFT, _RIGHT)
            velocity = simd.select((position == _LEFT) & (velocity < 0.0), 0.0, velocity)
            terminated = (position >= _FLAG) & (velocity >= goal_velocity)
            return (position, velocity), simd.splat(-1.0, 8), terminated

        return EnvRules(self.reset, step, self.observe)

    @staticmethod
    def reset(stream):
        return -0.6 + 0.2 * random.uniform(stream), 0.0

    @staticmethod
    def observe(state):
        return state


class MountainCarContinuous(MountainCar):
    """MountainCarContinuous-v0 of Gymnasium: the push is a number from -1 to 1 and costs its square; +100 at the flag.

    The original computes in float32 but for the first step of an episode, and so do we: states are equal bit for bit
    unless a cosine is rounded differently. Pushes beyond 1 count as 1, but cost what they are.

    Parameters
    ----------
    goal_velocity : float
        Minimum speed of the car at the flag.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> env = rl.make(rl.envs.MountainCarContinuous(), num_envs=4, seed=0)
    >>> observations, infos = env.reset()
    >>> observations.shape
    (4, 2)
    """

    action_space = Box(-1.0, 1.0, (1,))
    max_steps = 999

    def rules(self) -> EnvRules:
        """See `LaneEnvironment`."""
        goal_velocity = self._goal_velocity

        def step(state, action):
            position, velocity = state
            push, force = action[0], clip(action[0], -1.0, 1.0)
            is_first = position != as_float32(position)  # a float64 of `reset`
            slope = _GRAVITY * simd.cos(simd.select(is_first, 3.0 * position, as_float32(3.0 * position)))
            change = as_float32(as_float32(force * _POWER_32) - as_float32(slope))
            exact = force * _POWER - slope  # a force at the bound is a Python number there, and not rounded
            change = simd.select(force == push, change, simd.select(is_first, exact, as_float32(exact)))
            velocity = velocity + change
            velocity = clip(simd.select(is_first, velocity, as_float32(velocity)), -_FASTEST_32, _FASTEST_32)
            position = clip(as_float32(position + velocity), _LEFT_32, _RIGHT_32)
            velocity = as_float32(simd.select((position == _LEFT_32) & (velocity < 0.0), 0.0, velocity))
            terminated = (position >= _FLAG_32) & (velocity >= goal_velocity)
            return (
                (position, velocity),
                simd.select(terminated, simd.splat(100.0, 8), 0.0) - push * push * 0.1,
                terminated,
            )

        return EnvRules(self.reset, step, self.observe)


ENVS = {"MountainCar-v0": MountainCar, "MountainCarContinuous-v0": MountainCarContinuous}
