"""Acrobot: two links that hang from a hinge, moved by a torque at the joint between them, are to swing up."""

import math

import numpy as np

from triskele.core.extend import device, simd

from .. import random
from ..environment import LaneEnvironment
from ..rules.lane_math import clip
from ..spaces import Box, Discrete

__all__ = ["Acrobot"]

# Both links: mass 1, length 1, center of mass in the middle, moment of inertia 1.
_CENTER, _GRAVITY, _TIME = 0.5, 9.8, 0.2
_FASTEST_1, _FASTEST_2 = 4 * math.pi, 9 * math.pi
_HALF_TURN, _TURN = math.pi, 2 * math.pi
_BOUNDS = np.array([1, 1, 1, 1, _FASTEST_1, _FASTEST_2], np.float32)


@device
def _slope(state, torque):
    """Time derivatives of angles and speeds, as printed in Sutton and Barto's book."""
    theta1, theta2, speed1, speed2 = state
    cos2, sin2 = simd.cos(theta2), simd.sin(theta2)
    d1 = _CENTER**2 + (1.0 + _CENTER**2 + 2 * _CENTER * cos2) + 1.0 + 1.0
    d2 = (_CENTER**2 + _CENTER * cos2) + 1.0
    phi2 = _CENTER * _GRAVITY * simd.cos(theta1 + theta2 - math.pi / 2)
    phi1 = (
        -_CENTER * (speed2 * speed2) * sin2
        - 2 * _CENTER * speed2 * speed1 * sin2
        + (_CENTER + 1.0) * _GRAVITY * simd.cos(theta1 - math.pi / 2)
        + phi2
    )
    ratio = d2 / d1
    acceleration2 = (torque + ratio * phi1 - _CENTER * (speed1 * speed1) * sin2 - phi2) / (
        _CENTER**2 + 1.0 - d2 * d2 / d1
    )
    return speed1, speed2, -(d2 * acceleration2 + phi1) / d1, acceleration2


@device
def _moved(state, slope, time):
    return (
        state[0] + time * slope[0],
        state[1] + time * slope[1],
        state[2] + time * slope[2],
        state[3] + time * slope[3],
    )


@device
def _wrapped(angle):
    """The angle in [-pi, pi], by whole turns."""
    while simd.any(simd.abs(angle) > _HALF_TURN):
        angle = simd.select(angle > _HALF_TURN, angle - _TURN, simd.select(angle < -_HALF_TURN, angle + _TURN, angle))
    return angle


@device
def _small(stream):
    return np.float64(np.float32(random.uniform(stream) * 0.2 - 0.1))


class Acrobot(LaneEnvironment):
    """Acrobot-v1 of Gymnasium: -1 a step till the free end is one link's length above the hinge.

    The equations are those of Sutton and Barto [1]_, section 11.3 of its first edition; one Runge-Kutta step of fourth
    order a step. Steps are equal to Gymnasium's to rounding of the last bits of float64.

    References
    ----------
    .. [1] Sutton, Barto, "Reinforcement Learning: An Introduction", MIT Press 1998.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> env = rl.make(rl.envs.Acrobot(), num_envs=4, seed=0)
    >>> observations, infos = env.reset()
    >>> observations.shape
    (4, 6)
    """

    state = ("theta1", "theta2", "speed1", "speed2")
    action_space = Discrete(3)
    observation_space = Box(-_BOUNDS, _BOUNDS)
    max_steps = 500

    @staticmethod
    def reset(stream):
        return _small(stream), _small(stream), _small(stream), _small(stream)

    @staticmethod
    def step(state, action):
        torque = simd.convert(action - 1, np.float64)
        k1 = _slope(state, torque)
        k2 = _slope(_moved(state, k1, _TIME / 2), torque)
        k3 = _slope(_moved(state, k2, _TIME / 2), torque)
        k4 = _slope(_moved(state, k3, _TIME), torque)
        mean = (
            k1[0] + 2.0 * k2[0] + 2.0 * k3[0] + k4[0],
            k1[1] + 2.0 * k2[1] + 2.0 * k3[1] + k4[1],
            k1[2] + 2.0 * k2[2] + 2.0 * k3[2] + k4[2],
            k1[3] + 2.0 * k2[3] + 2.0 * k3[3] + k4[3],
        )
        theta1, theta2, speed1, speed2 = _moved(state, mean, _TIME / 6)
        theta1, theta2 = _wrapped(theta1), _wrapped(theta2)
        speed1, speed2 = clip(speed1, -_FASTEST_1, _FASTEST_1), clip(speed2, -_FASTEST_2, _FASTEST_2)
        terminated = -simd.cos(theta1) - simd.cos(theta2 + theta1) > 1.0
        return (theta1, theta2, speed1, speed2), simd.select(terminated, simd.splat(0.0, 8), -1.0), terminated

    @staticmethod
    def observe(state):
        theta1, theta2, speed1, speed2 = state
        return simd.cos(theta1), simd.sin(theta1), simd.cos(theta2), simd.sin(theta2), speed1, speed2


ENVS = {"Acrobot-v1": Acrobot}
