"""A world of cells, in which moves may go astray."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import random
from ..environment import Environment, EnvRules
from ..errors import EnvError
from ..spaces import Box, Discrete

__all__ = ["GridWorld"]

_CELLS = ".S#GX"
_FREE, _START, _WALL, _GOAL, _PIT = range(5)
_DOWN, _ACROSS = (-1, 0, 1, 0), (0, 1, 0, -1)  # of the actions: up, right, down, left


class GridWorld(Environment):
    """Find the goal and avoid the pits; by default the 4 x 3 world of Russell and Norvig [1]_.

    Actions 0 to 3 go up, right, down, left. With probability `slip` the move goes at a right angle to that, to either
    side with the same chance. A move against a wall or the border does not move. Every step pays `step_reward`;
    entering a goal pays 1 more, entering a pit 1 less, and both end the episode. The observation is the cell as a
    vector of zeros and a one, row by row.

    Parameters
    ----------
    layout : sequence of str
        Rows of cells: ``.`` free, ``S`` start (of several, one is drawn for each episode), ``#`` wall, ``G`` goal,
        ``X`` pit.
    slip : float
        From 0 to 1.
    step_reward : float

    References
    ----------
    .. [1] Russell, Norvig, "Artificial Intelligence: A Modern Approach", 3rd ed. (2010), figures 17.1 and 17.3.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> env = rl.make("GridWorld-v0", layout=["S.G"], slip=0, step_reward=0)
    >>> observation, info = env.reset()
    >>> env.step([1])[0], env.step([1])[1:3]
    (array([[0., 1., 0.]], dtype=float32), (array([1.]), array([ True])))
    """

    state = [("cell", np.int64)]
    action_space = Discrete(4)
    max_steps = 100

    def __init__(self, layout: Sequence[str] = ("...G", ".#.X", "S..."), slip: float = 0.2, step_reward: float = -0.04):
        rows = list(layout) if not isinstance(layout, str) else layout.split()
        if not rows or any(
            not isinstance(r, str) or not r or len(r) != len(rows[0]) or set(r) - set(_CELLS) for r in rows
        ):
            raise EnvError(
                f"GridWorld: layout must be rows of the same length, of the cells {' '.join(_CELLS)}, got "
                f"{layout!r:.80}"
            )
        if not any("S" in r for r in rows):
            raise EnvError(f"GridWorld: layout must have a start S, got {layout!r:.80}")
        if not 0 <= slip <= 1 or not np.isfinite(step_reward):
            raise EnvError(
                f"GridWorld: slip must be in [0, 1] and step_reward finite, got {slip!r} and {step_reward!r}"
            )
        self._cells = np.array([[_CELLS.index(c) for c in r] for r in rows], np.int64)
        self._slip, self._step_reward = float(slip), float(step_reward)
        self.observation_space = Box(0.0, 1.0, (self._cells.size,))

    def rules(self) -> EnvRules:
        """See `Environment`."""
        height, width = self._cells.shape
        cells, starts = self._cells.ravel(), np.flatnonzero(self._cells == _START)
        slip, step_reward = self._slip, self._step_reward

        def reset(state, stream):
            state.cell = starts[random.below(stream, len(starts))]

        def step(state, action, stream):
            u = random.uniform(stream)
            if u < slip:
                action = (action + (1 if 2 * u < slip else 3)) % 4
            row, column = state.cell // width + _DOWN[action], state.cell % width + _ACROSS[action]
            if 0 <= row < height and 0 <= column < width and cells[row * width + column] != _WALL:
                state.cell = row * width + column
            kind = cells[state.cell]
            return step_reward + (kind == _GOAL) - (kind == _PIT), kind == _GOAL or kind == _PIT

        def observe(state, out):
            out[:] = 0.0
            out[state.cell] = 1.0

        return EnvRules(reset, step, observe)


ENVS = {"GridWorld-v0": GridWorld}
