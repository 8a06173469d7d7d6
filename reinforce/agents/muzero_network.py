"""The three networks of MuZero, and values as they give them. What stands here is all that a saved policy needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from triskele.core import nn, random, tree
from triskele.core.extend import check
from triskele.core.nn import static

from ..errors import EnvError
from ..policy import Flat
from ..value_transforms import from_two_hot, signed_hyperbolic, signed_parabolic, two_hot
from .networks import Sighted, eyes_of

__all__ = ["MuZeroNetwork", "PolicyNetwork", "Support", "scaled"]

_EPSILON = 1e-5  # what embeddings are divided by at least


@dataclass(frozen=True)
class Support:
    """Categorical representation of values and rewards: squashed by `signed_hyperbolic`, then weights of evenly spaced
    numbers, or as they are.

    Attributes
    ----------
    low, high : float
        The least and the greatest of the numbers.
    bins : int
        How many; 1: the squashed value itself.

    References
    ----------
    Schrittwieser et al., Nature 588 (2020), appendix F.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce import Support
    >>> from triskele.reinforce.value_transforms import signed_hyperbolic, two_hot
    >>> support = Support(-5, 5, 11)
    >>> logits = np.log(two_hot(signed_hyperbolic(np.array([7.0])), -5, 5, 11) + 1e-30)
    >>> support.mean(logits)
    array([7.])
    """

    low: float = -30.0
    high: float = 30.0
    bins: int = 61

    def __post_init__(self):
        if (
            isinstance(self.bins, bool)
            or not isinstance(self.bins, (int, np.integer))
            or self.bins < 1
            or not -math.inf < self.low < self.high < math.inf
        ):
            raise ValueError(
                f"Support: there must be at least one bin, and low < high, got {self.bins!r} bins from "
                f"{self.low} to {self.high}"
            )

    def mean(self, outputs: Any) -> Any:
        """Return the values (...) that outputs (..., bins) represent."""
        squashed = outputs[..., 0] if self.bins == 1 else from_two_hot(nn.softmax(outputs), self.low, self.high)
        return signed_parabolic(squashed)

    def loss(self, outputs: Any, targets: Any) -> Any:
        """Cross entropy of outputs [..., bins] to targets [...]; with one bin half the squared error."""
        squashed = signed_hyperbolic(targets)
        if self.bins == 1:
            return 0.5 * (outputs[..., 0] - squashed) ** 2
        return -np.sum(two_hot(squashed, self.low, self.high, self.bins) * nn.log_softmax(outputs), axis=-1)


def scaled(embedding: Any) -> Any:
    """Embeddings [N, E] brought to [0, 1], each by its own least and greatest number (appendix G)."""
    low = np.min(embedding, axis=-1, keepdims=True)
    return (embedding - low) / (np.max(embedding, axis=-1, keepdims=True) - low + np.float32(_EPSILON))


@dataclass(frozen=True)
class MuZeroNetwork:
    """Networks for representation, dynamics and prediction: callable trees."""

    representation: Any  # observations (N, ...) to embeddings (N, E)
    dynamics: Any  # embeddings, and behind them one-hot actions, (N, E + actions), to embeddings, rewards (N, E + bins)
    prediction: Any  # embeddings to logits of actions, values (N, actions + bins)
    num_actions: int = static()
    support: Support = static(default=Support())

    @classmethod
    def init(cls, key: Any, space: Any, num_actions: int, settings: Any) -> MuZeroNetwork:
        """Return the networks of `GumbelMuZero`'s settings: the user's, checked, and for others perceptrons, whose
        policy is uniform and whose values and rewards are 0 at first.
        """
        s, keys = settings, random.split(key, 3)
        bins = s.support.bins

        def network(key, n_in, n_out):
            return nn.MLP.init(key, [n_in, *s.hidden, n_out], activation=s.activation)

        eyes, n = eyes_of(random.fold_in(keys[0], random.Fold.CLASSIFIER), space)
        first = s.representation
        if first is None:
            first = network(keys[0], n, s.embedding)
            first = Flat(first, len(space.shape)) if eyes is None else Sighted(eyes, first)
        size = _width("representation", first, np.zeros((2, *space.shape), np.float32))
        second = _silent(network(keys[1], size + num_actions, size + bins), size) if s.dynamics is None else s.dynamics
        _width("dynamics", second, np.zeros((2, size + num_actions), np.float32), size + bins)
        third = _silent(network(keys[2], size, num_actions + bins), 0) if s.prediction is None else s.prediction
        _width("prediction", third, np.zeros((2, size), np.float32), num_actions + bins)
        return cls(first, second, third, num_actions, s.support)

    def represent(self, observations: Any) -> Any:
        """[N, ...] to embeddings [N, E]."""
        return scaled(self.representation(observations))

    def step(self, embeddings: Any, actions: Any) -> tuple[Any, Any]:
        """(embeddings, rewards [N, bins]) after actions [N]."""
        chosen = (actions[:, None] == np.arange(self.num_actions)).astype(embeddings.dtype)
        out = self.dynamics(np.concatenate([embeddings, chosen], axis=-1))
        size = np.shape(embeddings)[-1]
        return scaled(out[:, :size]), out[:, size:]

    def predict(self, embeddings: Any) -> tuple[Any, Any]:
        """(logits [N, actions], values [N, bins])"""
        out = self.prediction(embeddings)
        return out[:, : self.num_actions], out[:, self.num_actions :]


@dataclass(frozen=True)
class PolicyNetwork:
    """The networks of a saved policy: observations (N, ...) to logits (N, actions)."""

    representation: Any
    prediction: Any
    num_actions: int = static()

    def __call__(self, x):
        return self.prediction(scaled(self.representation(x)))[:, : self.num_actions]


def _silent(network, start):
    """The network with outputs of 0 from `start` on."""
    last = network.layers[-1]
    weight = last.weight.copy()
    weight[:, start:] = 0  # biases begin at 0
    return replace(network, layers=(*network.layers[:-1], replace(last, weight=weight)))


def _width(name, network, x, width=None):
    """Outputs of a network for each row of x."""
    check.kind(network, Callable, f"GumbelMuZero: {name}", "a network (callable, a tree of arrays)", error=EnvError)
    for leaf in tree.leaves(network):
        if not hasattr(leaf, "dtype"):
            raise EnvError(
                f"GumbelMuZero: {name} must be a tree of arrays that can be called, as layers of core.nn "
                f"are, got {type(network).__name__}"
            )
        check.finite(leaf, f"GumbelMuZero: parameters of {name}", error=EnvError)
    try:
        shape = np.shape(network(x))
    except Exception as error:  # whatever a user's network raises
        raise EnvError(
            f"GumbelMuZero: {name} must take arrays of shape (N, {', '.join(map(str, x.shape[1:]))}), but "
            f"raised {type(error).__name__}: {error}"
        ) from error
    if len(shape) != 2 or shape[0] != 2 or width not in (None, shape[1]):
        raise EnvError(
            f"GumbelMuZero: {name} must give (N, {width or 'any width'}) for (N, "
            f"{', '.join(map(str, x.shape[1:]))}), got shape {shape} for N = 2"
        )
    return shape[1]
