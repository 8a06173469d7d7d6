"""Acting of Gumbel MuZero: each step runs one search over the learned model for all environments."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import check

from ..errors import EnvError
from ..mcts.learned import LearnedModel, MuZero
from ..mcts.policies.gumbel import Gumbel
from .muzero_network import MuZeroNetwork

if TYPE_CHECKING:
    from .gumbel_muzero import GumbelMuZero

__all__ = ["Planner", "MuZeroActor"]


class MuZeroActor:
    """Plays `num_steps` steps in all environments, with one search for them all, and continues there the next time."""

    def __init__(self, env: Any, settings: Any, network: MuZeroNetwork):
        self.env, self.settings = env, settings
        self._search = MuZero(learned_model(network, settings), settings.simulations, settings.search)
        shape, space = (settings.num_steps, env.num_envs), env.observation_space
        self.observations = np.zeros((shape[0] + 1, shape[1], *space.shape), space.dtype)
        self.actions, self.rewards = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
        self.terminated, self.truncated = np.zeros(shape, bool), np.zeros(shape, bool)
        self.policies = np.zeros((*shape, network.num_actions), np.float32)  # improved policies of the searches
        observation, info = env.reset()
        self.position = {
            "observation": self._finite(observation),
            "mask": self._allowed(info, np.zeros(shape[1], bool)),
        }

    def collect(self, network: MuZeroNetwork, collection: int) -> None:
        """Fill the arrays; `collection` is the number of earlier collections."""
        legal, steps = self.position["mask"], self.settings.num_steps
        self.observations[0] = self.position["observation"]
        for t in range(steps):
            # streams of one seed are apart from those of another
            seed = (self.settings.seed * 0x9E3779B97F4A7C15 + collection * steps + t) % 2**63
            found = self._search(self.observations[t].astype(np.float32), legal, network, seed)
            self.actions[t], self.policies[t] = found.action, found.policy
            played = self.actions[t] + self.env.action_space.start
            observation, self.rewards[t], self.terminated[t], self.truncated[t], info = self.env.step(played)
            self.observations[t + 1] = self._finite(observation)
            legal = self._allowed(info, self.terminated[t] | self.truncated[t])
        self.position = {"observation": self.observations[-1].copy(), "mask": legal}

    def _finite(self, observation):
        finite = np.isfinite(observation).reshape(self.env.num_envs, -1).all(axis=1)
        if not finite.all():
            raise EnvError(
                f"{self.env}: observations must be finite, got NaN or infinity in environment {int(np.argmin(finite))}"
            )
        return observation

    def _allowed(self, info, over):
        """Masks [num_envs, actions], or None; where an episode is over, any action does."""
        if "action_mask" not in info:
            return None
        mask, shape = np.asarray(info["action_mask"]), (self.env.num_envs, int(self.env.action_space.n))
        if mask.shape != shape:
            raise EnvError(f"{self.env}: info['action_mask'] must have shape {shape}, got {mask.shape}")
        mask = mask.astype(bool) | over[:, None]
        if not mask.any(axis=1).all():
            raise EnvError(
                f"{self.env}: info['action_mask'] must allow at least one action, got none in environment "
                f"{int(np.argmin(mask.any(axis=1)))}"
            )
        return mask


class Planner:
    """A search for each action, in the place of a `Policy`; `GumbelMuZero.planner` makes it."""

    def __init__(self, agent: GumbelMuZero, simulations: int, deterministic: bool, seed: int):
        search, self._shape = agent.settings.search, agent.env.observation_space.shape
        if deterministic:
            search = (
                replace(search, gumbel_scale=0.0)
                if isinstance(search, Gumbel)
                else replace(search, dirichlet=(1.0, 0.0), temperature=0.0)
            )
        self._search = MuZero(learned_model(agent.network, agent.settings), simulations, search)
        self._seed, self._calls, self._start = seed, 0, agent.first_action

    def __call__(self, observation: Any, *, rng: Any = None, mask: Any = None) -> Any:
        """The action for one observation, or actions [N] for several."""
        x = np.asarray(observation, np.float32)
        single = x.shape == self._shape
        if not single and x.shape[1:] != self._shape:
            raise EnvError(
                f"planner: an observation must have shape {self._shape}, or (N, "
                f"{', '.join(map(str, self._shape))}) for several, got {x.shape}"
            )
        check.finite(x, "planner: an observation", error=EnvError)
        self._calls += 1
        mask = None if mask is None else np.reshape(np.asarray(mask, bool), (1 if single else len(x), -1))
        action = self._search(x[None] if single else x, mask, seed=(self._seed * 2**32 + self._calls) % 2**63).action
        return (action[0] if single else action) + self._start


def learned_model(network: MuZeroNetwork, settings: Any) -> LearnedModel:
    """Return the networks as the model of a search."""
    return LearnedModel(_represent, _dynamics, _predict, network, network.num_actions, discount=settings.discount)


def _represent(network, observations):
    return network.represent(observations)


def _dynamics(network, embeddings, actions):
    following, rewards = network.step(embeddings, actions)
    return following, network.support.mean(rewards)


def _predict(network, embeddings):
    logits, values = network.predict(embeddings)
    return logits, network.support.mean(values)
