"""Policies: a network with what its outputs mean, and `Policy`, which turns observations into actions.

A saved policy needs nothing but this module. A *head* is a tree like the network that it holds, so that it is
differentiated, optimized and saved whole. Its functions are plain NumPy on batches of observations.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import Spec, nn, random, tree
from triskele.core.extend import TracerError, check, make_graph, short_repr
from triskele.core.nn import static

from . import storage
from .errors import CheckpointError, EnvError

__all__ = [
    "Bytes",
    "Categorical",
    "Flat",
    "Gaussian",
    "Greedy",
    "MultiCategorical",
    "Normalizer",
    "Policy",
    "SquashedGaussian",
    "units",
]

_FORBIDDEN = -1e8  # logit of a masked action: exp of it is 0, and products with 0 stay 0
_LARGEST = 1 << 30  # bytes of a layer's output that a policy from a file may have for one observation
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@short_repr
@dataclass(frozen=True)
class Flat:
    """A network whose input is an array of several axes, the last `axes`, which it sees as one."""

    network: Any
    axes: int = static(default=1)

    def __call__(self, x):
        return self.network(np.reshape(x, (*np.shape(x)[: len(np.shape(x)) - self.axes], -1)))


@short_repr
@dataclass(frozen=True)
class Bytes:
    """A network whose input is bytes, which it sees as float32."""

    network: Any

    def __call__(self, x):
        return self.network(x.astype(np.float32))


@short_repr
@dataclass(frozen=True)
class Categorical:
    """One of several actions, with probabilities softmax(network(x)).

    Attributes
    ----------
    network : callable tree
        Observations [N, ...] to logits [N, actions].
    start : int
        What the environment calls the first action.

    Examples
    --------
    >>> head = Categorical(nn.Linear(np.zeros((3, 2), np.float32), np.array([0, 1], np.float32)))
    >>> head.mode(np.zeros((1, 3), np.float32))
    array([1])
    """

    network: Any
    start: int = static(default=0)

    def logits(self, x, mask=None):
        """[N, actions]; forbidden ones (mask False) are so low that their probability is 0."""
        logits = self.network(x)
        return logits if mask is None else np.where(mask, logits, np.float32(_FORBIDDEN))

    def mode(self, x, mask=None):
        """The most probable action as the environment takes it, [N]."""
        return _from(self.start, np.argmax(self.logits(x, mask), axis=-1))

    def noise(self, rng, shape, size):
        """Draw the noise for `sample`, (*shape, actions) float32, from a NumPy generator or a key of `core.random`."""
        return _gumbel(rng, (*shape, size))

    def sample(self, x, noise, mask=None):
        """(action, the action as the environment takes it, log probability), each [N]; by the Gumbel-max trick."""
        logits = self.logits(x, mask)
        action = np.argmax(logits + noise, axis=-1)
        return action, _from(self.start, action), _pick(nn.log_softmax(logits), action)

    def log_prob_entropy(self, x, action, mask=None):
        """Log probability of actions [N] (int), and entropy, each [N]."""
        log_p = nn.log_softmax(self.logits(x, mask))
        return _pick(log_p, action), -np.sum(np.exp(log_p) * log_p, axis=-1)


@short_repr
@dataclass(frozen=True)
class MultiCategorical:
    """Several independent actions, each with probabilities of its own.

    Attributes
    ----------
    network : callable tree
        Observations [N, ...] to the logits of all actions in a row, [N, sum(counts)].
    counts, start : tuple of int
        Number of values of each of the k actions, and the smallest one.
    shape : tuple of int
        Shape in which the environment takes them.
    """

    network: Any
    counts: tuple[int, ...] = static()
    start: tuple[int, ...] = static()
    shape: tuple[int, ...] = static()

    def _spread(self, row):
        """Numbers [N, sum(counts)] as [N, k, max(counts)]; where an action has fewer values, as if forbidden."""
        counts = np.array(self.counts)[:, None]
        column = np.arange(counts.max())
        place = np.minimum(column, counts - 1) + (np.cumsum(counts) - counts[:, 0])[:, None]
        return np.where(column < counts, np.take(row, place, axis=-1), np.float32(_FORBIDDEN))

    def _played(self, action):
        return np.reshape(action + np.array(self.start), (-1, *self.shape))

    def mode(self, x, _mask=None):
        """The most probable actions as the environment takes them, [N, *shape]."""
        return self._played(np.argmax(self._spread(self.network(x)), axis=-1))

    def noise(self, rng, shape, size):
        """See `Categorical.noise`; `size` is sum(counts)."""
        return _gumbel(rng, (*shape, size))

    def sample(self, x, noise, _mask=None):
        """(actions [N, k] numbered from 0, as the environment takes them, log probability [N])."""
        logits = self._spread(self.network(x))
        action = np.argmax(logits + self._spread(noise), axis=-1)
        return action, self._played(action), np.sum(_pick(nn.log_softmax(logits), action), axis=-1)

    def log_prob_entropy(self, x, action, _mask=None):
        """Log probability of actions [N, k] (int), and entropy, each [N]: sums over the k actions."""
        log_p = nn.log_softmax(self._spread(self.network(x)))
        return np.sum(_pick(log_p, action), axis=-1), -np.sum(np.exp(log_p) * log_p, axis=(-2, -1))


def _pick(values, action):
    return np.take_along_axis(values, action[..., None], axis=-1)[..., 0]


def _from(start, action):
    return action + start if start else action


def _shaped(action, shape):
    """[N, k] as [N, *shape]; () stands for one axis."""
    return np.reshape(action, (-1, *shape)) if shape else action


def _gumbel(rng, shape):
    if not isinstance(rng, np.random.Generator):
        return random.gumbel(rng, shape, dtype=np.float32)
    # once in 10 million draws 0 comes
    return -np.log(np.maximum(rng.standard_exponential(shape, np.float32), np.finfo(np.float32).tiny))


def _normal(rng, shape):
    if not isinstance(rng, np.random.Generator):
        return random.normal(rng, shape, dtype=np.float32)
    return rng.standard_normal(shape, np.float32)


@short_repr
@dataclass(frozen=True)
class Greedy:
    """The action of the highest value; `network` gives values [N, actions] of observations [N, ...], from the action
    `start` on.
    """

    network: Any
    start: int = static(default=0)

    def mode(self, x, mask=None):
        """[N]"""
        values = self.network(x)
        return _from(self.start, np.argmax(values if mask is None else np.where(mask, values, -np.inf), axis=-1))


def units(low: Sequence[float], high: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the units in which actions are learned, half the widths of the bounds, and the middles of the bounds, (k,)
    float32 each; 1 and 0 where a bound is infinite, or as good as that.
    """
    least, most = np.asarray(low, np.float64), np.asarray(high, np.float64)
    with np.errstate(invalid="ignore"):
        bounded = most - least <= np.finfo(np.float32).max
        unit, middle = np.where(bounded, (most - least) / 2, 1.0), np.where(bounded, (most + least) / 2, 0.0)
    return unit.astype(np.float32), middle.astype(np.float32)


@short_repr
@dataclass(frozen=True)
class Gaussian:
    """Independent normal distributions, whose widths do not depend on observations; actions are cut to [low, high]."""

    network: Any  # observations (N, ...) to means (N, k)
    log_std: Any  # (k,)
    low: tuple[float, ...] = static()  # k bounds
    high: tuple[float, ...] = static()
    scaled: bool = static(default=False)  # -1 and 1 of the distribution are `low` and `high` where both are finite
    shape: tuple[int, ...] = static(default=())  # in which the environment takes them, if of several axes

    def _cut(self, action):
        if self.scaled:
            unit, middle = units(self.low, self.high)
            action = middle + action * unit
        action = np.clip(action, np.array(self.low, np.float32), np.array(self.high, np.float32))
        return _shaped(action, self.shape)

    def mode(self, x, mask=None):
        """[N, k]"""
        return self._cut(self.network(x))

    def noise(self, rng, shape, size):
        """Draw the noise for `sample`, (*shape, k) float32, from a NumPy generator or a key of `core.random`."""
        return _normal(rng, (*shape, size))

    def sample(self, x, noise, mask=None):
        """(action [N, k], the action as the environment takes it, log probability [N])."""
        action = self.network(x) + np.exp(self.log_std) * noise
        return action, self._cut(action), np.sum(-0.5 * noise * noise - self.log_std - _HALF_LOG_2PI, axis=-1)

    def log_prob_entropy(self, x, action, mask=None):
        """Log probability density of uncut actions [N, k], and entropy, each [N]."""
        z = (action - self.network(x)) * np.exp(-self.log_std)
        log_p = np.sum(-0.5 * z * z - self.log_std - _HALF_LOG_2PI, axis=-1)
        return log_p, np.sum(self.log_std + (0.5 + _HALF_LOG_2PI)) + np.zeros_like(log_p)


@short_repr
@dataclass(frozen=True)
class SquashedGaussian:
    """tanh of a normal distribution, stretched to [low, high] (Haarnoja et al. 2018, arXiv:1801.01290, appendix C)."""

    network: Any  # observations (N, ...) to means and log widths (N, 2 k); the latter are brought to [-5, 2] by tanh
    low: tuple[float, ...] = static()  # k finite bounds
    high: tuple[float, ...] = static()
    shape: tuple[int, ...] = static(default=())  # in which the environment takes actions, if of several axes

    def _parameters(self, x):
        out = self.network(x)
        k = len(self.low)
        return out[..., :k], np.tanh(out[..., k:]) * 3.5 - 1.5

    def mode(self, x, mask=None):
        """[N, k]"""
        unit, middle = units(self.low, self.high)
        return _shaped(np.tanh(self._parameters(x)[0]) * unit + middle, self.shape)

    def noise(self, rng, shape, size):
        """Draw the noise for `sample`, (*shape, k) float32, from a NumPy generator or a key of `core.random`."""
        return _normal(rng, (*shape, size))

    def sample(self, x, noise, mask=None):
        """(action in (-1, 1) [N, k], the action as the environment takes it, log probability density of the former
        [N]).
        """
        mean, log_std = self._parameters(x)
        unit, middle = units(self.low, self.high)
        u = mean + np.exp(log_std) * noise
        # log(1 - tanh(u)^2) = 2 (log 2 - u - softplus(-2 u)), without cancellation
        slope = 2 * (math.log(2) - u - nn.softplus(-2 * u))
        log_p = np.sum(-0.5 * noise * noise - log_std - _HALF_LOG_2PI - slope, axis=-1)
        action = np.tanh(u)
        return action, _shaped(action * unit + middle, self.shape), log_p


@short_repr
@dataclass(frozen=True)
class Normalizer:
    """Normalized observations: (x - mean) * scale, clipped to [-limit, limit]."""

    mean: Any  # float32, of the shape of one observation
    scale: Any  # likewise
    limit: float = static()

    def __call__(self, x):
        return np.clip((x - self.mean) * self.scale, np.float32(-self.limit), np.float32(self.limit))


@short_repr
@dataclass(frozen=True)
class Policy:
    """A trained policy: a function from observations to actions.

    Attributes
    ----------
    head : Categorical, MultiCategorical, Greedy, Gaussian or SquashedGaussian
    observation_shape : tuple of int
    normalizer : Normalizer, optional
    num_actions : int, optional
        Number of actions of a discrete policy.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import reinforce as rl
    >>> policy = rl.PPO("CartPole-v1", seed=0).train(20_000).policy
    >>> policy(np.array([0.0, 0.0, 0.1, 0.0], np.float32)) in (0, 1)
    True
    """

    head: Any
    observation_shape: tuple[int, ...]
    normalizer: Normalizer | None = None
    num_actions: int | None = None

    def __post_init__(self):
        if not all(np.isfinite(x).all() for x in tree.leaves((self.head, self.normalizer))):
            raise FloatingPointError(
                "policy: parameters must be finite, got NaN or infinity (the training has diverged)"
            )

    def __call__(self, observation: Any, *, rng: np.random.Generator | None = None, mask: Any = None) -> Any:
        """Action for one observation, or actions for a batch.

        Parameters
        ----------
        observation : array, observation_shape or [N, *observation_shape]
        rng : numpy.random.Generator, optional
            Draw from the policy's distribution with it. Defaults to the most probable action.
        mask : (actions,) or (N, actions) bool, optional
            Allowed actions.

        Raises
        ------
        EnvError
            If shapes do not fit, an observation is not finite, or nothing is allowed.
        """
        x = np.asarray(observation, np.float32)
        shape = tuple(self.observation_shape)
        single = x.shape == shape
        if not single and x.shape[1:] != shape:
            raise EnvError(
                f"policy: an observation must have shape {shape}, or (N, {', '.join(map(str, shape))}) for "
                f"several, got {x.shape}"
            )
        check.finite(x, "policy: an observation", error=EnvError)
        x = x[None] if single else x
        if mask is not None:
            mask = np.asarray(mask, bool)
            mask = mask[None] if single else mask
            if self.num_actions is None or mask.shape != (len(x), self.num_actions):
                raise EnvError(
                    f"policy: mask must say of {self.num_actions} actions what is allowed, got shape {mask.shape}"
                )
            if not mask.any(axis=-1).all():
                raise EnvError("policy: mask must allow at least one action")
        x = x if self.normalizer is None else self.normalizer(x)
        if rng is None or not hasattr(self.head, "sample"):
            action = self.head.mode(x, mask)
        else:
            size = self.num_actions or sum(getattr(self.head, "counts", ())) or len(self.head.low)
            action = self.head.sample(x, self.head.noise(rng, (len(x),), size), mask)[1]
        return action[0] if single else action

    def save(self, path: str | os.PathLike) -> None:
        """Write it to a safetensors file, all or nothing. `Policy.load` reads it."""
        storage.write(path, "policy", self)

    @staticmethod
    def load(path: str | os.PathLike, known: Sequence[Any] = ()) -> Policy:
        """Read what `save` has written.

        A policy file holds numbers and names, no code. It may name the layers and activations of this suite, ufuncs of
        NumPy and SciPy, and what you pass in `known`; a file that names anything else is refused, so that files from
        untrusted sources are safe to load.

        Parameters
        ----------
        path : path-like
        known : sequence of classes and functions, optional
            Your own networks (dataclasses or namedtuples) and activations that the file may name.

        Raises
        ------
        FileNotFoundError
        CheckpointError
            If the file is damaged, is not a policy, or names a class or function that is not allowed.
        FloatingPointError
            If its parameters are not finite.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> from triskele import reinforce as rl
        >>> path = os.path.join(tempfile.mkdtemp(), "policy.safetensors")
        >>> rl.PPO("CartPole-v1", seed=0).policy.save(path)
        >>> policy = rl.Policy.load(path)
        >>> policy(np.zeros(4, np.float32)) in (0, 1)
        True
        """
        policy = storage.read(path, "policy", known)
        where = f"policy {os.fspath(path)!r}"
        check.kind(policy, Policy, where, error=CheckpointError)
        try:
            _try(policy)
        except TracerError:  # a network of the caller that runs on numbers alone
            pass
        except (
            ArithmeticError,
            AttributeError,
            IndexError,
            KeyError,
            MemoryError,
            NotImplementedError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise CheckpointError(
                f"{where}: its parts do not fit each other: {type(error).__name__} {error}"
            ) from error
        return policy


def _try(policy):
    """Raise unless the policy gives one action for one observation.

    Shapes and types are followed, and nothing is computed.
    """
    shape, actions = policy.observation_shape, policy.num_actions
    if (
        not isinstance(shape, tuple)
        or not all(type(n) is int and n >= 0 for n in shape)
        or not (actions is None or type(actions) is int and actions > 0)
    ):
        raise ValueError(f"observations must have a shape, and actions a number, got {shape!r:.80} and {actions!r:.80}")
    check.kind(policy.normalizer, (Normalizer, None), "the normalizer")
    inputs = [
        Spec((1, *shape), np.dtype(np.float32)),
        *([] if actions is None else [Spec((1, actions), np.dtype(bool))]),
    ]
    graph, _ = make_graph(
        lambda x, *mask: [policy.head.mode(x if policy.normalizer is None else policy.normalizer(x), *mask)], inputs
    )
    size = max((v.spec.nbytes for e in graph.equations for v in e.outputs), default=0)
    if size > _LARGEST:
        raise ValueError(f"one observation must take at most {_LARGEST} bytes in each layer, got {size}")
    if (out := graph.outputs[0].spec.shape)[:1] != (1,):
        raise ValueError(f"one observation must give one action, got shape {out}")
