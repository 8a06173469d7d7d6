"""Proximal policy optimization."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele import core
from triskele.core import nn, optim, random
from triskele.core.nn import init

from ..distribution.actors import Port
from ..errors import EnvError
from ..policy import Categorical, Gaussian, MultiCategorical, Policy, units
from ..returns import gae
from ..training.agent import Agent
from ..training.normalize import ReturnScale, RunningMoments
from ..training.rollout import Rollout
from ..vector.env import make
from .networks import Sighted, on_bytes, sighted

__all__ = ["PPO"]

# What CleanRL's ppo.py and ppo_continuous_action.py take where an argument is left out (Huang et al., JMLR 23 (2022)
# 274).
_DISCRETE = {
    "num_envs": 4,
    "num_steps": 128,
    "learning_rate": 2.5e-4,
    "epochs": 4,
    "minibatches": 4,
    "entropy": 0.01,
    "normalize": False,
}
_CONTINUOUS = {
    "num_envs": 1,
    "num_steps": 2048,
    "learning_rate": 3e-4,
    "epochs": 10,
    "minibatches": 32,
    "entropy": 0.0,
    "normalize": True,
}
_ADAM_EPSILON = 1e-5


@dataclass(frozen=True)
class ActorCritic:
    """The trained networks: a policy head, and a network from observations (N, ...) to values (N, 1)."""

    actor: Any
    critic: Any


class PPO(Agent):
    """Policy gradients with clipped probability ratios, for discrete, masked and continuous actions, and for several
    discrete ones at once (`MultiDiscrete`), which are drawn independently.

    Images (bytes from 0 to 255 along three axes, of at least 36 rows and columns) pass through the convolutions of Mnih
    et al. 2015 before the hidden layers.

    Discrete actions may be masked by an environment whose ``info["action_mask"]`` says after every step which are
    allowed. Where CleanRL's defaults differ for continuous actions, those follow a slash.

    A policy of continuous actions begins with means near 0 and widths of 1, where -1 and 1 stand for the lower and the
    upper bound of an action; its numbers are actions where a bound is infinite. With `normalize`, what is learned does
    not depend on the unit of rewards either, nor, after the first update, on that of observations; without it, both
    should be of the order of 1.

    Parameters
    ----------
    env : str, Environment, subclass of Environment, or function
        As `make` takes it.
    seed : int
        Seed of environments, weights, actions and minibatches.
    num_envs : int, optional
        4 / 1.
    num_steps : int, optional
        Number of steps of each environment between updates: 128 / 2048.
    learning_rate : float, optional
        Learning rate of Adam: 2.5e-4 / 3e-4.
    anneal : bool
        If True, the learning rate falls linearly to 0 during the training.
    discount : float
    lam : float
        The lambda of generalized advantage estimation.
    epochs : int, optional
        Number of passes of an update over the collected data: 4 / 10.
    minibatches : int, optional
        Number of minibatches per epoch: 4 / 32.
    clip : float
        Clipping range of probability ratios around 1, and of values around their old ones.
    clip_values : bool
        If True, values are clipped too.
    entropy : float, optional
        Weight of the entropy: 0.01 / 0.
    value_weight : float
        Weight of the loss of the values.
    max_grad_norm : float
    normalize_advantages : bool
        If True, advantages are scaled to mean 0 and variance 1 in each minibatch.
    normalize : bool, optional
        If True, normalize observations by their running moments and rewards by the scale of returns: False / True.
    hidden : sequence of int
        Widths of the hidden layers of actor and critic.
    activation : function
    actor, critic : callable tree, optional
        Custom networks from observations [N, ...] to logits [N, actions] (or means [N, k]) and to values [N, 1].

    Raises
    ------
    ValueError
        For a hyper-parameter out of range.
    EnvError
        If the environment cannot be made, or its spaces are not supported.

    References
    ----------
    Schulman, Wolski, Dhariwal, Radford, Klimov, "Proximal policy optimization algorithms", 2017, eqs. 7 and 9.
    arXiv:1707.06347

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> agent = rl.PPO("CartPole-v1", seed=0).train(1024, progress=False)
    >>> agent.evaluate(episodes=10).returns.shape
    (10,)
    """

    kept = (
        "weights",
        "moments",
        "iteration",
        "observation_moments",
        "return_scale",
        "_player.collections",
        "_rollout.position",
    )

    def __init__(
        self,
        env: Any,
        *,
        seed: int = 0,
        num_envs: int | None = None,
        num_steps: int | None = None,
        learning_rate: float | None = None,
        anneal: bool = True,
        discount: float = 0.99,
        lam: float = 0.95,
        epochs: int | None = None,
        minibatches: int | None = None,
        clip: float = 0.2,
        clip_values: bool = True,
        entropy: float | None = None,
        value_weight: float = 0.5,
        max_grad_norm: float = 0.5,
        normalize_advantages: bool = True,
        normalize: bool | None = None,
        hidden: Sequence[int] = (64, 64),
        activation: Callable = np.tanh,
        actor: Any = None,
        critic: Any = None,
    ):
        given = {k: v for k, v in locals().items() if k not in ("self", "env", "__class__")}
        probe = make(env, seed=seed)
        probe.close()
        usual = _CONTINUOUS if hasattr(probe.action_space, "low") else _DISCRETE
        super().__init__(env, {k: usual[k] if v is None and k in usual else v for k, v in given.items()})
        s = self.settings
        self.check_settings(
            integers=["num_steps", "epochs", "minibatches"],
            positive=["learning_rate", "clip", "max_grad_norm"],
            not_negative=["entropy", "value_weight"],
            fractions=["discount", "lam"],
        )
        if s.num_envs * s.num_steps % s.minibatches:
            raise ValueError(
                f"PPO: num_envs * num_steps must be a multiple of minibatches, got {s.num_envs} * "
                f"{s.num_steps} and {s.minibatches}"
            )
        self.check_layers()
        model = _networks(random.key(seed), self.env, s)
        self._noise = model.actor.noise
        # convolutions scale images themselves
        self._normalizes = s.normalize and not any(isinstance(x, Sighted) for x in (model.actor.network, model.critic))
        leaves, self._structure = core.tree.flatten(model)
        self.weights = tuple(leaves)  # flat: a tree would be taken apart and built again in every iteration
        self.moments = optim.Adam().init(self.weights)
        self.iteration = 0
        observations = self.env.observation_space.shape
        self.observation_moments = RunningMoments.start(observations)
        self.return_scale = ReturnScale.start(s.num_envs)
        self._noise_size = _outputs(self.env.action_space)
        self._act = core.jit(_acting(self._structure))
        self._player = PPOActor(self.env, self._act, self._noise, self._noise_size, s)
        self._rollout = self._player.rollout
        self._actors = 1
        self._update = core.jit(self._updated)

    # -- one iteration -------------------------------------------------------------------------------------------------

    @property
    def ports(self) -> dict[str, Port]:  # type: ignore[override]
        """Experience of a `PPOActor`: time first, then its share of the environments."""
        r, steps = self._rollout, self.settings.num_steps
        ports = {"first": Port(np.int64)}
        for name in ("observations", "values", "actions", "log_probs", "rewards", "terminated", "truncated", "masks"):
            array = getattr(r, name)
            if array is not None:
                ports[name] = Port(array.dtype, steps + (len(array) > steps), "envs", *array.shape[2:])
        return ports

    def actor(self, k: int, actors: int) -> PPOActor:
        """See `Agent`: every actor has as many environments, and together they play as one actor would alone."""
        s = self.settings
        if s.num_envs % actors:
            raise ValueError(
                f"PPO.train: num_envs must be a multiple of the number of actors, got {s.num_envs} and {actors}"
            )
        if actors == 1:
            return self._player
        share = s.num_envs // actors
        # Gymnasium's copies have seeds one after the other
        seed = s.seed if self.env.step_kernel is not None else s.seed + k * share
        return PPOActor(
            make(self._given, num_envs=share, seed=seed), self._act, self._noise, self._noise_size, s, k * share
        )

    def deal(self, actors: int) -> list[Any]:
        """See `Agent`: environments are redistributed among any number of actors."""
        share = self.settings.num_envs // actors
        states = [self._player.part(k * share, (k + 1) * share) for k in range(actors)]
        if states[0] is None and max(actors, self._actors) > 1:  # environments of Gymnasium are created again
            self.episodes.restart()
            self.return_scale.running[:] = 0.0
        self._actors = actors
        return states

    def gather(self, states: Sequence[Any]) -> None:
        """See `Agent`."""
        share = self.settings.num_envs // len(states)
        for k, state in enumerate(states):
            self._player.put(k * share, state)
        self._player.collections = max(self.iteration if state is None else state["collections"] for state in states)

    @property
    def parameters(self) -> tuple[Any, Any]:
        """Weights, and the normalizer of observations or None."""
        return self.weights, self.observation_moments.normalizer() if self._normalizes else None

    def learn_from(self, experiences: Sequence[dict[str, np.ndarray]]) -> dict[str, float]:
        """Estimate advantages and update; see `Agent`."""
        s = self.settings
        rate = (
            s.learning_rate * (1 - (self.steps - self.start) / max(self.target - self.start, 1))
            if s.anneal
            else s.learning_rate
        )
        normalizer = self.parameters[1]
        numbers = self._learned(_joined([self._valued(x) for x in _neighbors(experiences)]), normalizer, rate)
        self.iteration += 1
        self.steps += s.num_steps * s.num_envs
        return {**numbers, "learning_rate": rate}

    def _valued(self, x):
        """Return the batch of `ppo_loss` for some environments, as arrays (num_steps, environments, ...)."""
        s = self.settings
        rewards, terminated, truncated = x["rewards"], x["terminated"], x["truncated"]
        self.check_played(int(x["first"]), observations=x["observations"], rewards=rewards)
        self.check_finite("what the networks give", x["values"], x["log_probs"])
        copies = slice(int(x["first"]), int(x["first"]) + rewards.shape[1])
        valid = self.episodes.add(rewards, terminated, truncated, copies)
        if self._normalizes:
            self.observation_moments.add(x["observations"][:-1].reshape(-1, *x["observations"].shape[2:]))
        if s.normalize:
            rewards = self.return_scale.scaled(rewards, terminated, truncated, s.discount, copies)
        advantages = gae(
            rewards.astype(np.float32),
            x["values"][:-1],
            x["values"][1:],
            terminated,
            truncated,
            discount=s.discount,
            lam=s.lam,
        )
        return {
            "x": x["observations"][:-1],
            "actions": x["actions"],
            "log_probs": x["log_probs"],
            "values": x["values"][:-1],
            "advantages": advantages,
            "weights": valid.astype(np.float32),
            "mask": x["masks"][:-1] if "masks" in x else None,
        }

    def _learned(self, batch, normalizer, rate):
        """All epochs of an update; the parts of the loss."""
        s = self.settings
        steps = np.arange(batch["advantages"].size)
        order = (
            stream(s.seed, 1, self.iteration)
            .permuted(np.tile(steps, (s.epochs, 1)), axis=1)
            .reshape(s.epochs * s.minibatches, -1)
        )
        weights, moments, numbers = self._update(self.weights, self.moments, normalizer, batch, order, np.float32(rate))
        self.check_finite("the loss", *numbers.values())
        self.weights, self.moments = weights, moments
        return {k: float(v) for k, v in numbers.items()}

    def _updated(self, weights, moments, normalizer, batch, order, rate):
        """All epochs: (weights, state of Adam, means of the loss's parts)."""
        s = self.settings
        optimizer = optim.Adam(rate, epsilon=_ADAM_EPSILON)
        flat = core.tree.map(lambda a: np.reshape(a, (a.shape[0] * a.shape[1], *a.shape[2:])), batch)
        flat["x"] = flat["x"] if normalizer is None else normalizer(flat["x"])

        def loss(weights, part):
            return ppo_loss(core.tree.unflatten(self._structure, weights), part, s)

        def step(carry, chosen):
            weights, moments = carry
            part = core.tree.map(lambda a: np.take(a, chosen, axis=0), flat)
            (_, numbers), grads = core.value_and_grad(loss, has_aux=True)(weights, part)
            return optimizer.step(weights, optim.clip_by_global_norm(grads, s.max_grad_norm), moments), numbers

        (weights, moments), numbers = core.scan(step, (weights, moments), order)
        return weights, moments, core.tree.map(np.mean, numbers)

    # -- what comes of it ----------------------------------------------------------------------------------------------

    @property
    def model(self) -> ActorCritic:
        """Policy head and value network, as they are now."""
        return core.tree.unflatten(self._structure, self.weights)

    @property
    def policy(self) -> Policy:
        """Return the learned state; see `Agent`."""
        space = self.env.action_space
        return Policy(self.model.actor, self.env.observation_space.shape, self.parameters[1], getattr(space, "n", None))


class PPOActor:
    """An actor: plays `num_steps` steps in each of some environments, and continues there the next time.

    ``noise(generator, shape, size)`` makes the policy draw. It is that of all environments, of which this actor uses
    its share, from index `first` on: results do not depend on the number of actors. `act` is as `Rollout` takes it.
    """

    def __init__(self, env: Any, act: Any, noise: Callable, size: int, settings: Any, first: int = 0):
        self.settings, self.first, self.collections = settings, first, 0
        self.env, self.rollout = env, Rollout(env, act, settings.num_steps)
        self._noise, self._size = noise, size

    def collect(self, parameters: tuple[Any, Any]) -> dict[str, np.ndarray]:
        """See `Actor`; the arrays are those of `PPO.ports`."""
        s, r, n = self.settings, self.rollout, self.env.num_envs
        noise = self._noise(stream(s.seed, 0, self.collections), (s.num_steps + 1, s.num_envs), self._size)
        r.collect(parameters, np.ascontiguousarray(noise[:, self.first : self.first + n]))
        self.collections += 1
        found = {
            "first": np.array(self.first),
            "observations": r.observations,
            "values": r.values,
            "actions": r.actions,
            "log_probs": r.log_probs,
            "rewards": r.rewards,
            "terminated": r.terminated,
            "truncated": r.truncated,
        }
        return found if r.masks is None else {**found, "masks": r.masks}

    def part(self, begin: int, end: int) -> dict[str, Any] | None:
        """The state of some of the environments here, for `put`; None if they cannot tell it, as those of Gymnasium."""
        if self.env.step_kernel is None:
            return None
        position = {name: array[begin:end] for name, array in self.rollout.position.items()}
        return {"collections": self.collections, "environments": self.env.copies(begin, end), "position": position}

    def put(self, begin: int, state: dict[str, Any] | None) -> None:
        """Set environments from `begin` on to these states."""
        if state is not None:
            position = self.rollout.position  # first: it begins the first episodes
            self.env.set_copies(begin, state["environments"])
            for name, new in state["position"].items():
                position[name][begin : begin + len(new)] = new
            self.rollout.position = position

    @property
    def state(self) -> dict[str, Any] | None:
        """See `Actor`."""
        return self.part(0, self.env.num_envs)

    @state.setter
    def state(self, state: dict[str, Any] | None) -> None:
        self.put(0, state)
        self.collections = self.collections if state is None else state["collections"]


def stream(seed: int, which: int, iteration: int) -> np.random.Generator:
    """Random numbers for noise (0) or the order of minibatches (1) of an iteration."""
    return np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, which, iteration]))


def _acting(structure):
    """The policy that `Rollout` runs in every step."""

    def act(weights_and_normalizer, x, noise, mask=None):
        weights, normalizer = weights_and_normalizer
        model = core.tree.unflatten(structure, weights)
        x = x if normalizer is None else normalizer(x)
        return *model.actor.sample(x, noise, mask), model.critic(x)[:, 0]

    return act


def _neighbors(experiences):
    """Experience of environments that follow each other made one."""
    runs = [[experiences[0]]]
    for x in experiences[1:]:
        last = runs[-1][-1]
        if x["first"] == last["first"] + last["rewards"].shape[1]:
            runs[-1].append(x)
        else:
            runs.append([x])
    return [_joined(run) for run in runs]


def _joined(parts):
    """Arrays of several groups of environments side by side."""
    one = parts[0]
    if len(parts) == 1:
        return one
    return {
        name: x if x is None or x.ndim == 0 else np.concatenate([part[name] for part in parts], axis=1)
        for name, x in one.items()
    }


def ppo_loss(model: ActorCritic, batch: dict[str, Any], settings: Any) -> tuple[Any, dict[str, Any]]:
    """Return the loss of a minibatch, and its parts as they are reported; `settings` has the hyper-parameters of `PPO`.

    `batch` holds arrays (M, ...): observations ``x``, ``actions``; of the policy that took them ``log_probs``,
    ``values`` and ``advantages``; ``weights``, 0 for what does not count; ``mask`` of allowed actions, or None.
    """
    s, w = settings, batch["weights"]
    count = np.maximum(np.sum(w), 1)

    def mean(x):
        return np.sum(w * x) / count

    log_prob, entropy = model.actor.log_prob_entropy(batch["x"], batch["actions"], batch["mask"])
    advantages, old = batch["advantages"], batch["values"]
    targets = advantages + old
    if s.normalize_advantages:
        centered = advantages - mean(advantages)
        advantages = centered / (np.sqrt(np.sum(w * centered * centered) / np.maximum(count - 1, 1)) + 1e-8)
    log_ratio = log_prob - batch["log_probs"]
    ratio = np.exp(log_ratio)
    policy_loss = -mean(np.minimum(ratio * advantages, np.clip(ratio, 1 - s.clip, 1 + s.clip) * advantages))
    values = model.critic(batch["x"])[:, 0]
    error = (values - targets) ** 2
    if s.clip_values:
        error = np.maximum(error, (old + np.clip(values - old, -s.clip, s.clip) - targets) ** 2)
    value_loss, bonus = 0.5 * mean(error), mean(entropy)
    loss = policy_loss + s.value_weight * value_loss - s.entropy * bonus
    parts = {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": bonus,
        "approx_kl": mean(ratio - 1 - log_ratio),
        "clip_fraction": mean(np.abs(ratio - 1) > s.clip),
    }
    return loss, parts


def _networks(key, env, s):
    space, x = env.observation_space, np.zeros((2, *env.observation_space.shape), env.observation_space.dtype)

    def made(name, key, given, width, gain):
        """The caller's network, or one of our own."""
        network = (
            sighted(key, space, lambda n: _perceptron(key, n, s, width, gain))
            if given is None
            else on_bytes(space, given)
        )
        if not (given is None or callable(given)) or np.shape(out := network(x)) != (2, width):
            got = f"shape {np.shape(out)} for two" if callable(given) else type(given).__name__
            raise EnvError(
                f"PPO: {name} must make {width} number{'s' if width > 1 else ''} of each observation "
                f"{space.shape}, got {got}"
            )
        return network

    actor_key, critic_key = random.split(key)
    actor = made("actor", actor_key, s.actor, _outputs(env.action_space), 0.01)
    return ActorCritic(_head(actor, env.action_space), made("critic", critic_key, s.critic, 1, 1.0))


def _outputs(action):
    """Number of outputs of the actor."""
    if hasattr(action, "n"):
        return action.n
    return int(np.sum(action.nvec)) if hasattr(action, "nvec") else math.prod(action.shape)


def _head(actor, action):
    """The policy that a network's outputs stand for."""
    if hasattr(action, "n"):
        return Categorical(actor, action.start)
    if hasattr(action, "nvec"):
        counts, start = (tuple(np.ravel(x).tolist()) for x in (action.nvec, action.start))
        return MultiCategorical(actor, counts, start, action.shape)
    low, high = (tuple(float(b) for b in np.ravel(bound)) for bound in (action.low, action.high))
    middle = units(low, high)[1]
    if (middle < low).any() or (middle > high).any():
        raise EnvError(f"PPO: actions must have finite bounds or allow 0, where the policy begins, got {action}")
    shape = action.shape if len(action.shape) > 1 else ()
    return Gaussian(actor, np.zeros(len(low), np.float32), low, high, scaled=True, shape=shape)


def _perceptron(key, inputs, s, outputs, gain):
    """Orthogonal weights, sqrt(2) times for hidden layers and `gain` times for the last, as CleanRL has them."""
    sizes = [inputs, *s.hidden, outputs]
    gains = [*(math.sqrt(2) for _ in s.hidden), gain]
    keys = random.split(key, len(gains))
    layers = [
        nn.Linear((g * init.orthogonal(k, (a, b))).astype(np.float32), np.zeros(b, np.float32))
        for k, g, a, b in zip(keys, gains, sizes[:-1], sizes[1:], strict=True)
    ]
    return nn.MLP(tuple(layers), s.activation)
