"""Pendulum: swing a pendulum up and hold it there by a torque that is too weak to lift it."""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import device, simd

from .. import random
from ..environment import EnvRules, LaneEnvironment
from ..rules.lane_math import as_float32, clip
from ..spaces import Box

__all__ = ["Pendulum"]

_FASTEST, _TORQUE, _TIME, _MASS, _LENGTH = 8.0, 2.0, 0.05, 1.0, 1.0
_TURN = 2 * math.pi
_TORQUE_COST = float(np.float32(0.001))


@device
def _from_top(angle):
    """The angle in [-pi, pi): remainder of a division, whose quotient may be off by one at first."""
    x = angle + math.pi
    r = simd.fma(-simd.floor(x / _TURN), simd.splat(_TURN, 8), x)
    r = simd.select(r < 0.0, r + _TURN, r)
    return simd.select(r >= _TURN, r - _TURN, r) - math.pi


class Pendulum(LaneEnvironment):
    """Pendulum-v1 of Gymnasium: the reward punishes angle, speed and torque; an episode is 200 steps.

    Torques beyond 2 count as 2. Steps are equal to Gymnasium's to rounding of the last bits of float64 (terms of the
    float32 action alone are rounded to float32, as there).

    Parameters
    ----------
    g : float
        Acceleration of gravity.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> env = rl.make(rl.envs.Pendulum(), num_envs=4, seed=0)
    >>> observations, infos = env.reset()
    >>> observations.shape
    (4, 3)
    """

    state = ("theta", "theta_dot")
    action_space = Box(-_TORQUE, _TORQUE, (1,))
    observation_space = Box(np.array([-1, -1, -_FASTEST], np.float32), np.array([1, 1, _FASTEST], np.float32))
    max_steps = 200

    def __init__(self, g: float = 10.0):
        self._g = float(g)

    def rules(self) -> EnvRules:
        """See `LaneEnvironment`."""
        gravity = 3 * self._g / (2 * _LENGTH)
        drive = 3.0 / (_MASS * _LENGTH**2)

        def step(state, action):
            theta, theta_dot = state
            u = clip(action[0], -_TORQUE, _TORQUE)
            angle = _from_top(theta)
            cost = angle * angle + 0.1 * (theta_dot * theta_dot) + as_float32(as_float32(u * u) * _TORQUE_COST)
            theta_dot = clip(
                theta_dot + (gravity * simd.sin(theta) + as_float32(drive * u)) * _TIME, -_FASTEST, _FASTEST
            )
            never = theta != theta
            return (theta + theta_dot * _TIME, theta_dot), -cost, never

        return EnvRules(self.reset, step, self.observe)

    @staticmethod
    def reset(stream):
        return math.pi * (2.0 * random.uniform(stream) - 1.0), 2.0 * random.uniform(stream) - 1.0

    @staticmethod
    def observe(state):
        theta, theta_dot = state
        return simd.cos(theta), simd.sin(theta), theta_dot


ENVS = {"Pendulum-v1": Pendulum}
