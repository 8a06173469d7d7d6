"""Breakout on 10 x 10 cells, as MinAtar has it."""

from __future__ import annotations

import functools

import numpy as np

from triskele.core.extend import device

from .. import random
from ..environment import Environment, EnvRules
from ..errors import EnvError
from ..spaces import Box, Discrete

__all__ = ["Breakout"]

_ALL_BRICKS = (1 << 30) - 1  # rows 1 to 3: bit 10 (y - 1) + x
_DX, _DY = (-1, 1, 1, -1), (-1, -1, 1, 1)  # of the four directions: up left, up right, down right, down left


@device
def _brick(y, x):
    """The bit of a cell, 0 outside rows 1 to 3."""
    return 1 << (10 * (y - 1) + x) if 1 <= y <= 3 else 0


class Breakout(Environment):
    """MinAtar's Breakout [1]_: +1 for every brick that the ball breaks; over when the paddle misses the ball.

    Observations are 10 x 10 cells of zeros and ones in four channels (paddle, ball, where the ball was, bricks),
    float32 for networks; the original's are booleans. Every step is the original's; the action that may be repeated at
    the start of an episode is "no move" rather than the last one of the episode before.

    Parameters
    ----------
    sticky_action_prob : float
        The chance that the last action is repeated in place of the given one.
    minimal_actions : bool
        Actions are: no move, left, right. Otherwise MinAtar's six, of which 1 is left, 3 is right, and the others do
        not move.

    References
    ----------
    .. [1] Young, Tian, "MinAtar: An Atari-inspired testbed for thorough and reproducible reinforcement learning
       experiments", arXiv:1903.03176 (2019).

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> env = rl.make(rl.envs.Breakout(), num_envs=4, seed=0)
    >>> observations, infos = env.reset()
    >>> observations.shape
    (4, 10, 10, 4)
    """

    state = [("ball_y", np.int64), ("ball_x", np.int64), ("direction", np.int64), ("paddle", np.int64),
             ("bricks", np.int64), ("strike", np.int64),
             ("last_x", np.int64), ("last_y", np.int64), ("last_action", np.int64)]  # fmt: skip
    observation_space = Box(0.0, 1.0, (10, 10, 4))

    def __init__(self, sticky_action_prob: float = 0.1, minimal_actions: bool = True):
        if not 0 <= sticky_action_prob <= 1:
            raise EnvError(f"Breakout: sticky_action_prob must be in [0, 1], got {sticky_action_prob!r}")
        self._sticky, self._minimal = float(sticky_action_prob), bool(minimal_actions)
        self.action_space = Discrete(3 if minimal_actions else 6)

    def rules(self) -> EnvRules:
        """See `Environment`."""
        sticky, right = self._sticky, 2 if self._minimal else 3

        def step(state, action, stream):
            if sticky > 0.0 and random.uniform(stream) < sticky:
                action = state.last_action
            state.last_action = action
            if action == 1:
                state.paddle = max(0, state.paddle - 1)
            elif action == right:
                state.paddle = min(9, state.paddle + 1)
            direction = state.direction
            state.last_x, state.last_y = state.ball_x, state.ball_y
            x, y = state.ball_x + _DX[direction], state.ball_y + _DY[direction]
            if x < 0 or x > 9:
                x = min(9, max(0, x))
                direction ^= 1
            reward, over, is_striking = 0.0, False, False
            if y < 0:
                y, direction = 0, 3 - direction
            elif state.bricks & _brick(y, x):
                is_striking = True
                if not state.strike:
                    state.bricks ^= _brick(y, x)
                    reward, y, direction = 1.0, state.last_y, 3 - direction
            elif y == 9:
                if state.bricks == 0:
                    state.bricks = _ALL_BRICKS
                if state.ball_x == state.paddle:
                    y, direction = state.last_y, 3 - direction
                elif x == state.paddle:
                    y, direction = state.last_y, (direction + 2) % 4
                else:
                    over = True
            state.strike = is_striking
            state.ball_x, state.ball_y, state.direction = x, y, direction
            return reward, over

        return EnvRules(self.reset, step, self.observe)

    @staticmethod
    def reset(state, stream):
        side = random.below(stream, 2)
        state.ball_y, state.ball_x, state.direction = 3, 9 * side, 2 + side
        state.paddle, state.bricks, state.strike, state.last_action = 4, _ALL_BRICKS, 0, 0
        state.last_x, state.last_y = state.ball_x, state.ball_y

    @staticmethod
    def observe(state, out):
        out[:] = 0.0
        for k in range(30):
            out[1 + k // 10, k % 10, 3] = (state.bricks >> k) & 1
        out[9, state.paddle, 0] = 1.0
        out[state.ball_y, state.ball_x, 1] = 1.0
        out[state.last_y, state.last_x, 2] = 1.0


ENVS = {"MinAtar/Breakout-v0": functools.partial(Breakout, minimal_actions=False), "MinAtar/Breakout-v1": Breakout}
