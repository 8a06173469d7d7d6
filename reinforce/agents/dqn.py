"""Deep Q-learning."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triskele import core
from triskele.core import nn, optim, random
from triskele.core.extend import check

from ..buffers.n_step import Transitions
from ..buffers.prioritized import PrioritizedReplayBuffer
from ..buffers.replay import ReplayBuffer
from ..errors import EnvError
from ..policy import Greedy, Policy
from ..spaces import Discrete
from ..training.agent import Agent
from ..training.rollout import Rollout
from .networks import Dueling, on_bytes, perceptron, sighted

__all__ = ["DQN"]

_REPORT = 500  # steps between reports, about


class DQN(Agent):
    """Q-learning with a network, a replay buffer and a target network, for discrete actions.

    Observations and rewards are taken as they are, and should be of the order of 1; images pass through convolutions,
    as those of `PPO` do.

    Parameters
    ----------
    env : str, Environment, subclass of Environment, or function
        As `make` takes it.
    seed : int
        Seed of environments, weights, actions and samples.
    num_envs : int
    learning_rate : float
        Learning rate of Adam.
    buffer_size : int
        Number of transitions kept.
    discount : float
    tau : float
        Fraction by which the target network moves towards the network at a time; 1 copies it.
    target_every : int
        Steps between updates of the target network.
    batch_size : int
    epsilon : pair of float
        Initial and final probability of a random action.
    exploration : float
        Fraction of the training during which `epsilon` falls linearly.
    learning_starts : int
        Steps before the first update.
    train_every : int
        Steps of all environments together between updates; a multiple of `num_envs`.
    double : bool
        If True, the network chooses the next action and the target network values it (double Q-learning).
    dueling : bool
        If True, the network is a sum of state values and advantages (dueling networks).
    prioritized : bool
        If True, transitions are drawn with priorities from their last errors.
    n_step : int
        Number of rewards in a target.
    alpha, beta : float
        Exponents of the priorities, and initial exponent of the importance weights, which rises to 1.
    hidden : sequence of int
        Widths of the hidden layers.
    activation : function
    network : callable tree, optional
        Custom network from observations [N, ...] to values [N, actions].

    Raises
    ------
    ValueError
        For a hyper-parameter out of range.
    EnvError
        If the environment cannot be made, has no Discrete actions, or masks some.

    References
    ----------
    Mnih et al., "Human-level control through deep reinforcement learning", Nature 518 (2015) 529, algorithm 1; van
    Hasselt, Guez, Silver, "Deep reinforcement learning with double Q-learning", AAAI 2016, eq. 4. Defaults: CleanRL's
    dqn.py (Huang et al., JMLR 23 (2022) 274).

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> agent = rl.DQN("CartPole-v1", seed=0, learning_starts=500).train(1000, progress=False)
    >>> agent.evaluate(episodes=10).returns.shape
    (10,)
    """

    kept = (
        "network",
        "target_network",
        "moments",
        "iteration",
        "updates",
        "loss",
        "_buffer.state",
        "_rollout.position",
    )

    def __init__(
        self,
        env: Any,
        *,
        seed: int = 0,
        num_envs: int = 1,
        learning_rate: float = 2.5e-4,
        buffer_size: int = 10_000,
        discount: float = 0.99,
        tau: float = 1.0,
        target_every: int = 500,
        batch_size: int = 128,
        epsilon: tuple[float, float] = (1.0, 0.05),
        exploration: float = 0.5,
        learning_starts: int = 10_000,
        train_every: int = 10,
        double: bool = False,
        dueling: bool = False,
        prioritized: bool = False,
        n_step: int = 1,
        alpha: float = 0.6,
        beta: float = 0.4,
        hidden: Sequence[int] = (120, 84),
        activation: Callable = nn.relu,
        network: Any = None,
    ):
        given = {k: v for k, v in locals().items() if k not in ("self", "env", "__class__")}
        super().__init__(env, given)
        self._check_settings(self.settings)
        action = check.kind(
            self.env.action_space, Discrete, "DQN: actions", "Discrete", error=EnvError, hint="PPO takes all others"
        )
        self._key, weights = random.split(random.key(seed))
        self.network = _network(weights, self.env, self.settings)
        self.target_network = self.network
        self.moments = optim.Adam().init(self.network)
        self.iteration = self.updates = 0
        self.loss: float | None = None
        options: dict[str, Any] = {"num_envs": num_envs, "n_step": n_step, "discount": discount, "seed": seed}
        spaces = self.env.observation_space, Discrete(action.n)  # as the network numbers them
        self._num_actions, self._start = action.n, action.start
        self._buffer: ReplayBuffer = (
            PrioritizedReplayBuffer(buffer_size, *spaces, alpha=alpha, **options)
            if prioritized
            else ReplayBuffer(buffer_size, *spaces, **options)
        )
        self._rollout = Rollout(self.env, functools.partial(act, start=self._start), train_every // num_envs)
        # its targets would value actions that are forbidden
        if getattr(self.env, "has_masks", False) or self._rollout.masks is not None:
            raise EnvError(
                f"DQN: the environment must allow all actions, got an action_mask from {self.env} (PPO takes them)"
            )
        self._noise = core.jit(noise, static_argnames="shape")
        self._update = core.jit(self._updated)

    def _check_settings(self, s):
        self.check_settings(
            integers=["buffer_size", "batch_size", "target_every", "train_every", "n_step"],
            positive=["learning_rate"],
            not_negative=["learning_starts"],
            fractions=["discount", "tau", "exploration", "alpha", "beta"],
        )
        if np.shape(s.epsilon) != (2,) or not all(0 <= e <= 1 for e in s.epsilon):
            raise ValueError(
                f"DQN: epsilon must be two numbers between 0 and 1, the initial and the final one, got {s.epsilon!r}"
            )
        self.check_layers()
        if s.train_every % s.num_envs:
            raise ValueError(f"DQN: train_every must be a multiple of num_envs = {s.num_envs}, got {s.train_every}")
        if s.buffer_size < max(s.batch_size, s.train_every):
            raise ValueError(
                f"DQN: buffer_size must hold batch_size = {s.batch_size} and train_every = "
                f"{s.train_every} transitions, got {s.buffer_size}"
            )

    # -- one iteration -------------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, Any]:
        """Collect and update in turns, for some hundred steps; see `Agent`."""
        stop = min(self.target, self.steps + _REPORT)
        while self.steps < stop:
            self._collect()
            if self.steps >= self.settings.learning_starts and len(self._buffer) >= self.settings.batch_size:
                self._learn()
        return {"loss": self.loss, "epsilon": self.epsilon, "updates": self.updates}

    @property
    def epsilon(self) -> float:
        """Probability of a random action now."""
        first, last = self.settings.epsilon
        return first + (last - first) * min(self._progress / max(self.settings.exploration, 1e-9), 1.0)

    @property
    def _progress(self):
        return (self.steps - self.start) / max(self.target - self.start, 1)

    def _collect(self):
        s, r = self.settings, self._rollout
        draws = self._noise(self._key, self.iteration, shape=(r.length + 1, s.num_envs, 1 + self._num_actions))
        r.collect((self.network, np.array([self.epsilon], np.float32)), draws)
        self._buffer.extend(r.observations, r.actions, r.rewards, r.terminated, r.truncated)
        self.episodes.add(r.rewards, r.terminated, r.truncated)
        self.iteration += 1
        self.steps += r.length * s.num_envs

    def _learn(self):
        s = self.settings
        if isinstance(self._buffer, PrioritizedReplayBuffer):
            batch = self._buffer.sample(s.batch_size, beta=s.beta + (1 - s.beta) * self._progress)
        else:
            batch = self._buffer.sample(s.batch_size)
        # every target_every steps, counted in updates
        due = (self.steps // s.target_every) > ((self.steps - s.train_every) // s.target_every)
        tau = np.float32(s.tau if due else 0.0)
        found = self._update(self.network, self.moments, self.target_network, batch._replace(indices=None), tau)
        self.network, self.moments, self.target_network, loss, errors = found
        self.check_finite("the loss", loss)
        self.loss = float(loss)
        self.updates += 1
        if isinstance(self._buffer, PrioritizedReplayBuffer):
            self._buffer.update_priorities(batch.indices, errors)

    def _updated(self, network, moments, target, batch, tau):
        """(network, state of Adam, target network, loss, temporal-difference errors) after one update."""
        wanted = targets(network, target, batch, self.settings.double)

        def loss_of(network):
            values = np.take_along_axis(network(batch.observations), batch.actions[:, None], axis=-1)[:, 0]
            errors = wanted - values
            return np.mean(batch.weights * errors * errors), errors

        (loss, errors), grads = core.value_and_grad(loss_of, has_aux=True)(network)
        network, moments = optim.Adam(self.settings.learning_rate).step(network, grads, moments)
        target = core.tree.map(lambda t, p: (1 - tau) * t + tau * p, target, network)
        return network, moments, target, loss, errors

    # -- what comes of it ----------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """Return the learned state; see `Agent`."""
        return Policy(Greedy(self.network, self._start), self.env.observation_space.shape, None, self._num_actions)


def targets(network: Any, target: Any, batch: Transitions, double: bool) -> Any:
    """Return the target values of the actions taken, (N,). Networks map observations (N, ...) to values (N, actions).

    With `double`, `network` chooses the action that `target` values (van Hasselt et al. 2016, eq. 4); otherwise
    `target` does both.
    """
    following = target(batch.next_observations)
    if double:
        chosen = np.argmax(network(batch.next_observations), axis=-1)
        best = np.take_along_axis(following, chosen[:, None], axis=-1)[:, 0]
    else:
        best = np.max(following, axis=-1)
    return core.stop_gradient(batch.rewards + batch.discounts * best)


def act(model, x, noise, mask=None, start=0):
    """Epsilon-greedy policy that `Rollout` runs in every step; noise [N, 1 + actions] is uniform, and the environment
    calls the first action `start`.
    """
    network, epsilon = model
    action = np.where(noise[:, 0] < epsilon, np.argmax(noise[:, 1:], axis=-1), np.argmax(network(x), axis=-1))
    zero = np.zeros_like(noise[:, 0])
    return action, action + start if start else action, zero, zero


def noise(key, iteration, shape):
    """Uniform numbers for one collection."""
    return random.uniform(random.fold_in(key, iteration), shape, np.float32)


def _network(key, env, s):
    space, actions = env.observation_space, int(env.action_space.n)

    def made(n):
        """Layers on n numbers."""
        if not s.dueling:
            return perceptron(key, [n, *s.hidden, actions], s.activation)
        body, value, advantages = random.split(key, 3)
        last = [n, *s.hidden][-1]
        return Dueling(
            perceptron(body, [n, *s.hidden], s.activation),
            perceptron(value, [last, 1]),
            perceptron(advantages, [last, actions]),
            s.activation,
        )

    network = sighted(key, space, made) if s.network is None else on_bytes(space, s.network)
    x = np.zeros((2, *space.shape), space.dtype)
    if s.network is not None and not callable(s.network) or np.shape(out := network(x)) != (2, actions):
        got = f"shape {np.shape(out)} for two" if callable(s.network) else type(s.network).__name__
        raise EnvError(f"DQN: network must give {actions} values for each observation {space.shape}, got {got}")
    return network
