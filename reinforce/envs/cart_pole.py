"""CartPole: a pole on a cart, kept upright by pushing the cart to the left or to the right."""

from __future__ import annotations

import math

import numpy as np

from triskele.core.extend import device, simd

from .. import random
from ..environment import EnvRules, LaneEnvironment
from ..spaces import Box, Discrete

__all__ = ["CartPole"]

_GRAVITY, _CART, _POLE, _HALF_LENGTH, _FORCE, _TIME = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02
_MASS, _POLE_MOMENT = _POLE + _CART, _POLE * _HALF_LENGTH
_FAR, _STEEP = 2.4, 12 * 2 * math.pi / 360
_BOUNDS = np.array([2 * _FAR, np.inf, 2 * _STEEP, np.inf], np.float32)


@device
def _small(stream):
    return random.uniform(stream) * 0.1 - 0.05


class CartPole(LaneEnvironment):
    """CartPole-v1 of Gymnasium: +1 a step, over when the pole leans by 12 degrees or the cart is 2.4 away from the
    middle.

    The equations of motion are those of Barto, Sutton and Anderson [1]_ without friction, by Euler's method. Steps are
    equal to Gymnasium's to rounding of the last bits of float64.

    Parameters
    ----------
    sutton_barto_reward : bool
        Reward 0 a step, -1 at the end, as in the paper.

    References
    ----------
    .. [1] Barto, Sutton, Anderson, "Neuronlike adaptive elements that can solve difficult learning control problems",
       IEEE Trans. Syst. Man Cybern. 13 (1983) 834, appendix. doi:10.1109/TSMC.1983.6313077

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> env = rl.make(rl.envs.CartPole(), num_envs=4, seed=0)
    >>> observations, infos = env.reset()
    >>> observations.shape
    (4, 4)
    """

    state = ("x", "x_dot", "theta", "theta_dot")
    action_space = Discrete(2)
    observation_space = Box(-_BOUNDS, _BOUNDS)
    max_steps = 500

    def __init__(self, sutton_barto_reward: bool = False):
        self._rewards = (0.0, -1.0) if sutton_barto_reward else (1.0, 1.0)

    def rules(self) -> EnvRules:
        """See `LaneEnvironment`."""
        going, over = self._rewards

        def step(state, action):
            x, x_dot, theta, theta_dot = state
            force = simd.select(action == 1, simd.splat(_FORCE, 8), -_FORCE)
            cos, sin = simd.cos(theta), simd.sin(theta)
            push = (force + _POLE_MOMENT * (theta_dot * theta_dot) * sin) / _MASS
            theta_acc = (_GRAVITY * sin - cos * push) / (_HALF_LENGTH * (4.0 / 3.0 - _POLE * (cos * cos) / _MASS))
            x_acc = push - _POLE_MOMENT * theta_acc * cos / _MASS
            x, x_dot = x + _TIME * x_dot, x_dot + _TIME * x_acc
            theta, theta_dot = theta + _TIME * theta_dot, theta_dot + _TIME * theta_acc
            terminated = (simd.abs(x) > _FAR) | (simd.abs(theta) > _STEEP)
            return (x, x_dot, theta, theta_dot), simd.select(terminated, simd.splat(over, 8), going), terminated

        return EnvRules(self.reset, step, self.observe)

    @staticmethod
    def reset(stream):
        return _small(stream), _small(stream), _small(stream), _small(stream)

    @staticmethod
    def observe(state):
        return state


ENVS = {"CartPole-v1": CartPole}
