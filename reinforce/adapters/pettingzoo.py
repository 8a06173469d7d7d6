"""Environments of PettingZoo in which agents act one after the other (AEC)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core.extend import check, optional

from ..errors import GameError
from .cloning import clone
from .python_game import PythonGame

__all__ = ["PettingZooGame", "from_pettingzoo"]


def from_pettingzoo(env_fn: Callable[[], Any], *, clone: Callable[[Any], Any] = clone) -> PettingZooGame:
    """A PettingZoo AEC environment with discrete actions, played and searched like a game of this package.

    Player k is ``possible_agents[k]``; its return is the sum of its rewards. What is legal stands in
    "action_mask", of the observation or of the info. A copy of an environment that draws random numbers draws the same
    ones: searches know what will come.

    Parameters
    ----------
    env_fn : callable
        ``env_fn()`` makes an environment.
    clone : callable
        ``clone(env)`` makes an independent copy of one.

    Raises
    ------
    GameError
        If it is no AEC environment, or its actions are not discrete, or its agents' observations differ in shape.

    Examples
    --------
    >>> from pettingzoo.classic import connect_four_v3  # doctest: +SKIP
    >>> from triskele import reinforce as rl
    >>> rl.from_pettingzoo(connect_four_v3.env).initial_state().play(3, 3).legal_actions  # doctest: +SKIP
    [0, 1, 2, 3, 4, 5, 6]
    """
    pettingzoo = optional.need("pettingzoo", "from_pettingzoo", "rl")
    check.kind(env_fn, Callable, "from_pettingzoo: env_fn", "a function that makes an environment", error=GameError)
    env = check.kind(
        env_fn(),
        pettingzoo.AECEnv,
        "from_pettingzoo: what env_fn makes",
        error=GameError,
        hint="pettingzoo.utils.parallel_to_aec makes one of a ParallelEnv",
    )
    return PettingZooGame(env, clone)


class _Position:
    __slots__ = ("env", "length", "totals")

    def __init__(self, env, totals, length):
        self.env, self.totals, self.length = env, totals, length


class PettingZooGame(PythonGame):
    """See `from_pettingzoo`. `position.env` is the environment in that position."""

    def __init__(self, env: Any, clone: Callable[[Any], Any]):
        from gymnasium.spaces import Box, Dict, Discrete, utils

        env.reset(seed=0)
        self.name, self.agents = str(env), list(env.possible_agents)
        self._env, self._clone = env, clone
        self.num_players = len(self.agents)
        actions = [env.action_space(agent) for agent in self.agents]
        if not all(isinstance(space, Discrete) and space.start == 0 for space in actions):
            raise GameError(
                f"from_pettingzoo: {self.name} must have discrete actions that count from 0, got {actions[0]}"
            )
        self.num_actions = int(max(space.n for space in actions))
        spaces = [env.observation_space(agent) for agent in self.agents]
        own = [s["observation"] if isinstance(s, Dict) and "observation" in s.spaces else s for s in spaces]
        self._flatten = [None if isinstance(s, Box) else functools.partial(utils.flatten, s) for s in own]
        shapes = {s.shape if isinstance(s, Box) else (utils.flatdim(s),) for s in own}
        if len(shapes) > 1:
            raise GameError(
                f"from_pettingzoo: {self.name} must show all agents observations of one shape, got "
                f"{', '.join(map(str, sorted(shapes)))}"
            )
        self.observation_shape = shapes.pop()
        self.max_length = 2**31 - 1  # it is not known

    def start(self, seed: int) -> _Position:
        """The position after a reset with this seed."""
        env = self._clone(self._env)
        env.reset(seed=seed)
        return _Position(env, np.zeros(self.num_players), 0)

    def copy(self, position: _Position) -> _Position:
        """An independent copy."""
        return _Position(self._clone(position.env), position.totals.copy(), position.length)

    def step(self, position: _Position, action: int) -> None:
        """Act for the agent to move. Agents that are out of the game are passed over."""
        env = position.env
        env.step(action)
        position.length += 1
        for k, agent in enumerate(self.agents):
            position.totals[k] += env.rewards.get(agent, 0.0)
        while not self.terminal(position) and self._out(env, env.agent_selection):
            env.step(None)

    @staticmethod
    def _out(env, agent):
        return env.terminations[agent] or env.truncations[agent]

    def player(self, position: _Position) -> int:
        """The agent to act."""
        return self.agents.index(position.env.agent_selection)

    def legal_actions(self, position: _Position) -> list[int]:
        """Return the actions that the mask allows, or all actions."""
        env = position.env
        agent = env.agent_selection
        seen = env.observe(agent)
        mask = seen.get("action_mask") if isinstance(seen, dict) else None
        if mask is None:
            mask = env.infos[agent].get("action_mask")
        return list(range(env.action_space(agent).n)) if mask is None else np.flatnonzero(mask).tolist()

    def terminal(self, position: _Position) -> bool:
        """Return True if all agents are done."""
        return all(self._out(position.env, agent) for agent in position.env.agents)

    def returns(self, position: _Position) -> np.ndarray:
        """Sums of rewards."""
        return position.totals

    def observe(self, position: _Position, player: int) -> np.ndarray:
        """Return the observation of that agent; other values than arrays are flattened (an integer becomes one-hot)."""
        seen, flatten = position.env.observe(self.agents[player]), self._flatten[player]
        seen = seen["observation"] if isinstance(seen, dict) and "observation" in seen else seen
        return np.asarray(seen if flatten is None else flatten(seen), np.float32)

    def draw(self, position: _Position) -> str:
        """Return the environment's text rendering, if it was made with render_mode "ansi"."""
        env = position.env
        return (
            str(env.render())
            if getattr(env, "render_mode", None) == "ansi"
            else f"{self.name}, {env.agent_selection} after {position.length} moves"
        )
