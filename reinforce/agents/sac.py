"""Soft actor-critic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from triskele import core
from triskele.core import nn, optim, random
from triskele.core.extend import check

from ..buffers.n_step import Transitions
from ..buffers.replay import ReplayBuffer
from ..errors import EnvError
from ..policy import Policy, SquashedGaussian
from ..training.agent import Agent
from ..training.rollout import Rollout
from .networks import eyes_of, perceptron, sighted

__all__ = ["SAC"]

_REPORT = 100  # steps between reports, about
_WARM_UP = 100  # steps at a time, of those before the first update


@dataclass(frozen=True)
class Critic:
    """A network from observations, or what `eyes` see in them, and actions in (-1, 1), side by side, to a value."""

    network: Any
    eyes: Any = None

    def __call__(self, x, action):
        """[N]"""
        x = np.reshape(x, (x.shape[0], -1)).astype(np.float32) if self.eyes is None else self.eyes(x)
        return self.network(np.concatenate([x, action], axis=-1))[:, 0]


class Model(NamedTuple):
    """The trained networks, and the target networks that follow the critics."""

    actor: SquashedGaussian
    critics: tuple[Critic, Critic]
    targets: tuple[Critic, Critic]
    log_alpha: Any


class Moments(NamedTuple):
    """States of the optimizers."""

    actor: Any
    critics: Any
    alpha: Any


class SAC(Agent):
    """Maximum-entropy reinforcement learning with a stochastic actor and two critics, for continuous actions.

    Actions are learned in half the width of their bounds: actor, critics and entropy see numbers from -1 to 1, and what
    is learned does not depend on the unit of an action. Observations and rewards are taken as they are, and should be
    of the order of 1.

    Parameters
    ----------
    env : str, Environment, subclass of Environment, or function
        As `make` takes it.
    seed : int
        Seed of environments, weights, actions and samples.
    num_envs : int
    actor_rate, critic_rate : float
        Learning rates of Adam; the temperature uses `critic_rate`.
    buffer_size : int
        Number of transitions kept.
    discount : float
    tau : float
        Fraction by which the target critics move towards the critics in an update.
    batch_size : int
    learning_starts : int
        Steps with random actions before the first update.
    train_every : int
        Steps of all environments together between updates; a multiple of `num_envs`.
    actor_every : int
        Number of critic updates between updates of the actor, which then come in equal number.
    alpha : float, optional
        Temperature, the weight of the entropy. None: adapted to keep the entropy near `entropy`.
    entropy : float, optional
        Entropy of actions from -1 to 1. Defaults to minus the number of components of an action.
    n_step : int
        Number of rewards in a target.
    hidden : sequence of int
        Widths of the hidden layers of actor and critics.
    activation : function

    Raises
    ------
    ValueError
        For a hyper-parameter out of range.
    EnvError
        If the environment cannot be made, or its actions are not a bounded Box.

    References
    ----------
    Haarnoja, Zhou, Abbeel, Levine, "Soft actor-critic", ICML 2018, arXiv:1801.01290; Haarnoja et al., "Soft
    actor-critic algorithms and applications", 2018, eqs. 5, 7, 18 and algorithm 1, arXiv:1812.05905. Defaults:
    CleanRL's sac_continuous_action.py (Huang et al., JMLR 23 (2022) 274).

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> agent = rl.SAC("Pendulum-v1", seed=0, learning_starts=200, hidden=(32, 32), batch_size=64)
    >>> agent = agent.train(300, progress=False)
    >>> agent.evaluate(episodes=10).returns.shape
    (10,)
    """

    kept = ("model", "moments", "iteration", "updates", "numbers", "_buffer.state", "_rollout.position")

    def __init__(
        self,
        env: Any,
        *,
        seed: int = 0,
        num_envs: int = 1,
        actor_rate: float = 3e-4,
        critic_rate: float = 1e-3,
        buffer_size: int = 1_000_000,
        discount: float = 0.99,
        tau: float = 0.005,
        batch_size: int = 256,
        learning_starts: int = 5000,
        train_every: int = 1,
        actor_every: int = 2,
        alpha: float | None = None,
        entropy: float | None = None,
        n_step: int = 1,
        hidden: Sequence[int] = (256, 256),
        activation: Callable = nn.relu,
    ):
        given = {k: v for k, v in locals().items() if k not in ("self", "env", "__class__")}
        super().__init__(env, given)
        self._check_settings(self.settings)
        self._key, self._update_key, weights = random.split(random.key(seed), 3)
        self.model = _model(weights, self.env, self.settings)
        self.moments = Moments(
            *(optim.Adam().init(x) for x in (self.model.actor, self.model.critics, self.model.log_alpha))
        )
        self.iteration = self.updates = 0
        self.numbers: dict[str, float | None] = dict.fromkeys(("critic_loss", "actor_loss", "alpha", "entropy"))
        observation = self.env.observation_space
        action: Any = self.env.action_space
        self._size = math.prod(action.shape)
        kind = ((self._size,), np.float32)
        self._buffer = ReplayBuffer(
            buffer_size, observation, kind, num_envs=num_envs, n_step=n_step, discount=discount, seed=seed
        )
        self._range = np.array([action.low, action.high])
        self._entropy = -float(self._size) if entropy is None else float(entropy)
        self._warm_up = Rollout(self.env, explore, math.gcd(learning_starts // num_envs or 1, _WARM_UP))
        self._rollout = Rollout(self.env, act, train_every // num_envs)
        self._uniform, self._normal = (core.jit(f, static_argnames="shape") for f in (uniform, normal))
        self._update_critics, self._update_actor = core.jit(self._updated_critics), core.jit(self._updated_actor)

    def _check_settings(self, s):
        self.check_settings(
            integers=["buffer_size", "batch_size", "train_every", "actor_every", "n_step"],
            positive=["actor_rate", "critic_rate"],
            fractions=["discount", "tau"],
        )
        check.integer(s.learning_starts, "SAC: learning_starts", 0)
        if s.alpha is not None and not (isinstance(s.alpha, (int, float, np.floating)) and 0 < s.alpha < math.inf):
            raise ValueError(f"SAC: alpha must be positive or None, got {s.alpha!r}")
        if s.entropy is not None and not (
            isinstance(s.entropy, (int, float, np.floating)) and math.isfinite(s.entropy)
        ):
            raise ValueError(
                f"SAC: entropy must be a finite number, or None for minus the components of an action, "
                f"got {s.entropy!r}"
            )
        self.check_layers()
        if s.train_every % s.num_envs:
            raise ValueError(f"SAC: train_every must be a multiple of num_envs = {s.num_envs}, got {s.train_every}")
        if s.buffer_size < max(s.batch_size, s.train_every, _WARM_UP):
            raise ValueError(
                f"SAC: buffer_size must hold batch_size = {s.batch_size}, train_every = {s.train_every} "
                f"and {_WARM_UP} transitions, got {s.buffer_size}"
            )

    # -- one iteration -------------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, Any]:
        """Collect and update in turns, for about a hundred steps; see `Agent`."""
        stop = min(self.target, self.steps + _REPORT)
        while self.steps < stop:
            self._collect()
            if self.steps > self.settings.learning_starts and len(self._buffer) >= self.settings.batch_size:
                self._learn()
        return {**self.numbers, "updates": self.updates}

    def _collect(self):
        n, r = self.settings.num_envs, self._rollout
        if self.steps < self.settings.learning_starts:
            r, self._warm_up.position = self._warm_up, r.position
            r.collect(self._range, self._uniform(self._key, self.iteration, shape=(r.length + 1, n, self._size)))
            self._rollout.position = r.position
        else:
            r.collect(self.model.actor, self._normal(self._key, self.iteration, shape=(r.length + 1, n, self._size)))
        self.check_played(observations=r.observations, rewards=r.rewards)
        self.check_finite("the actor's output", r.log_probs)
        self._buffer.extend(r.observations, r.actions, r.rewards, r.terminated, r.truncated)
        self.episodes.add(r.rewards, r.terminated, r.truncated)
        self.iteration += 1
        self.steps += r.length * n

    def _learn(self):
        s = self.settings
        batch = self._buffer.sample(s.batch_size)._replace(indices=None, weights=None)
        self.updates += 1
        count = self.updates * (s.actor_every + 1)  # of the random numbers
        m, (actor_moments, critic_moments, alpha_moments) = self.model, self.moments
        critics, follow, critic_moments, loss = self._update_critics(m, critic_moments, batch, self._update_key, count)
        actor, log_alpha, numbers = m.actor, m.log_alpha, {"critic_loss": loss}
        for k in range(s.actor_every if self.updates % s.actor_every == 0 else 0):
            actor, actor_moments, log_alpha, alpha_moments, found = self._update_actor(
                actor,
                actor_moments,
                log_alpha,
                alpha_moments,
                critics,
                batch.observations,
                self._update_key,
                count + 1 + k,
            )
            numbers.update(found)
        self.check_finite("the losses", *numbers.values())
        self.model, self.moments = (
            Model(actor, critics, follow, log_alpha),
            Moments(actor_moments, critic_moments, alpha_moments),
        )
        self.numbers = {**self.numbers, **{k: float(v) for k, v in numbers.items()}}

    def _noise(self, key, count):
        return random.normal(random.fold_in(key, count), (self.settings.batch_size, self._size), np.float32)

    def _updated_critics(self, model, moments, batch, key, count):
        """(critics, targets, state of Adam, loss) after one update."""
        s, wanted = self.settings, targets(model, batch, self._noise(key, count))

        def critic_loss(critics):
            return sum(np.mean((critic(batch.observations, batch.actions) - wanted) ** 2) for critic in critics)

        loss, grads = core.value_and_grad(critic_loss)(model.critics)
        critics, moments = optim.Adam(s.critic_rate).step(model.critics, grads, moments)
        return critics, core.tree.map(lambda t, p: t + s.tau * (p - t), model.targets, critics), moments, loss

    def _updated_actor(self, actor, moments, log_alpha, alpha_moments, critics, x, key, count):
        """(actor, state of Adam, log of the temperature, state of its Adam, numbers for reports) after one update."""
        s, noise, alpha = self.settings, self._noise(key, count), np.exp(log_alpha)

        def actor_loss(actor):
            action, _, log_prob = actor.sample(x, noise)
            value = np.minimum(*(critic(x, action) for critic in critics))
            return np.mean(alpha * log_prob - value), np.mean(log_prob)

        (loss, log_prob), grads = core.value_and_grad(actor_loss, has_aux=True)(actor)
        actor, moments = optim.Adam(s.actor_rate).step(actor, grads, moments)
        if s.alpha is None:  # the gradient of -alpha (log_prob + entropy) in log alpha
            log_alpha, alpha_moments = optim.Adam(s.critic_rate).step(
                log_alpha, -alpha * (log_prob + self._entropy), alpha_moments
            )
        return (
            actor,
            moments,
            log_alpha,
            alpha_moments,
            {"actor_loss": loss, "alpha": np.exp(log_alpha), "entropy": -log_prob},
        )

    # -- what comes of it ----------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Policy:
        """Return the learned state; see `Agent`."""
        return Policy(self.model.actor, self.env.observation_space.shape)


def targets(model: Model, batch: Transitions, noise: Any) -> Any:
    """Return the target values of the actions taken, (N,): the smaller target critic, plus the entropy of the actor,
    which draws its next actions by `noise` (N, k).
    """
    action, _, log_prob = model.actor.sample(batch.next_observations, noise)
    value = (
        np.minimum(*(critic(batch.next_observations, action) for critic in model.targets))
        - np.exp(model.log_alpha) * log_prob
    )
    return core.stop_gradient(batch.rewards + batch.discounts * value)


def act(actor, x, noise, mask=None):
    """The policy that `Rollout` runs in every step."""
    action, played, log_prob = actor.sample(x, noise, mask)
    return action, played, log_prob, np.zeros_like(log_prob)


def explore(bounds, x, noise, mask=None):
    """The same before the first update: any action, by uniform noise."""
    zero = np.zeros_like(noise[:, 0])
    return 2 * noise - 1, bounds[0] + (bounds[1] - bounds[0]) * np.reshape(noise, (-1, *bounds.shape[1:])), zero, zero


def uniform(key, iteration, shape):
    """Noise of one collection."""
    return random.uniform(random.fold_in(key, iteration), shape, np.float32)


def normal(key, iteration, shape):
    """Noise of one collection."""
    return random.normal(random.fold_in(key, iteration), shape, np.float32)


def _model(key, env, s):
    space, action = env.observation_space, env.action_space
    if (
        not hasattr(action, "low")
        or not (np.subtract(action.high, action.low, dtype=np.float64) <= np.finfo(np.float32).max).all()
    ):
        raise EnvError(f"SAC: actions must be a bounded Box, got {action} (PPO takes all others)")
    k, keys = math.prod(action.shape), random.split(key, 3)
    network = sighted(keys[0], space, lambda n: perceptron(keys[0], [n, *s.hidden, 2 * k], s.activation))
    low, high = (tuple(float(b) for b in np.ravel(bound)) for bound in (action.low, action.high))
    actor = SquashedGaussian(network, low, high, action.shape if len(action.shape) > 1 else ())

    def critic(key):
        """A critic with eyes of its own."""
        eyes, n = eyes_of(random.fold_in(key, random.Fold.CLASSIFIER), space)
        return Critic(perceptron(key, [n + k, *s.hidden, 1], s.activation), eyes)

    critics = critic(keys[1]), critic(keys[2])
    return Model(actor, critics, critics, np.float32(0.0 if s.alpha is None else math.log(s.alpha)))
