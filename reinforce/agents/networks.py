"""Networks that agents begin with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from triskele.core import nn, random

__all__ = ["Dueling", "Logits", "PolicyValue", "perceptron"]


def perceptron(key: Any, sizes: Sequence[int], activation: Callable = nn.relu) -> nn.MLP:
    """Return linear layers of these sizes, whose parameters start uniform within 1 / sqrt(inputs), as PyTorch's do.

    >>> perceptron(random.key(0), [3, 8, 2])(np.zeros((5, 3), np.float32)).shape
    (5, 2)
    """
    layers = []
    for k, n_in, n_out in zip(random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
        weights, biases = random.split(k)
        scale = 1 / math.sqrt(n_in)
        layers.append(
            nn.Linear(
                random.uniform(weights, (n_in, n_out), np.float32, -scale, scale),
                random.uniform(biases, (n_out,), np.float32, -scale, scale),
            )
        )
    return nn.MLP(tuple(layers), activation)


@dataclass(frozen=True)
class Dueling:
    """Values of actions: the value of the observation plus advantages, from which their mean is subtracted (Wang et al.
    2016, eq. 9, arXiv:1511.06581).
    """

    body: Any  # observations (N, ...) to features (N, k)
    value: Any  # features to (N, 1)
    advantages: Any  # features to (N, actions)
    activation: Callable = nn.static(default=nn.relu)  # between body and heads

    def __call__(self, x):
        features = self.activation(self.body(x))
        advantages = self.advantages(features)
        return self.value(features) + advantages - np.mean(advantages, axis=-1, keepdims=True)


@dataclass(frozen=True)
class PolicyValue:
    """A network for searches: observations [N, ...] to logits of actions [N, actions] and values [N] in (-1, 1) for who
    moves.

    Attributes
    ----------
    body : callable tree
        Observations to features [N, k].
    policy, value : callable tree
        Features to [N, actions] and [N, 1].

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.reinforce import PolicyValue
    >>> net = PolicyValue.residual(random.key(0), (2, 6, 7), 7, channels=8, blocks=1)
    >>> logits, values = net(np.zeros((5, 2, 6, 7), np.float32))
    >>> logits.shape, values.shape
    ((5, 7), (5,))
    """

    body: Any
    policy: Any
    value: Any

    def __call__(self, x):
        features = self.body(x)
        return self.policy(features), np.tanh(self.value(features)[:, 0])

    @classmethod
    def perceptron(
        cls, key: Any, observation_shape: Sequence[int], num_actions: int, hidden: Sequence[int] = (256, 256)
    ) -> PolicyValue:
        """Linear layers with a ReLU after each, on observations of any shape, and two heads."""
        body, policy, value = random.split(key, 3)
        layers = nn.MLP.init(
            body, [math.prod(observation_shape), *hidden], activation=nn.relu, initializer=nn.init.he_normal
        )
        return cls(Features(layers), _head(policy, [hidden[-1], num_actions]), _head(value, [hidden[-1], 1]))

    @classmethod
    def residual(
        cls,
        key: Any,
        observation_shape: Sequence[int],
        num_actions: int,
        channels: int = 16,
        blocks: int = 1,
        hidden: int = 64,
    ) -> PolicyValue:
        """Convolutions 3 x 3 over boards (planes, rows, columns), two in each residual block (He et al.

        2016), and two heads of two layers.
        """
        planes, rows, columns = observation_shape
        first, policy, value, *rest = random.split(key, 3 + 2 * blocks)
        pairs = tuple(
            (nn.Conv2d(a, channels, channels, 3), _scaled(nn.Conv2d(b, channels, channels, 3), 0.5))
            for a, b in zip(rest[::2], rest[1::2], strict=True)
        )
        size = rows * columns * channels
        return cls(
            Tower(nn.Conv2d(first, planes, channels, 3), pairs),
            _head(policy, [size, hidden, num_actions]),
            _head(value, [size, hidden, 1]),
        )


@dataclass(frozen=True)
class Logits:
    """The policy of a `PolicyValue` alone."""

    net: Any

    def __call__(self, x):
        return self.net(x)[0]

    def with_values(self, x):
        """Logits and values, as the network gives them."""
        return self.net(x)


@dataclass(frozen=True)
class Features:
    """A network on observations as one axis, with a ReLU after it."""

    network: Any

    def __call__(self, x):
        return nn.relu(self.network(np.reshape(x, (np.shape(x)[0], -1))))


@dataclass(frozen=True)
class Tower:
    """Boards [N, planes, rows, columns] through a convolution and residual blocks of two, to [N, rows * columns *
    channels].
    """

    first: Any
    blocks: tuple[Any, ...]

    def __call__(self, x):
        x = nn.relu(self.first(np.transpose(x, (0, 2, 3, 1))))
        for one, two in self.blocks:
            x = nn.relu(x + two(nn.relu(one(x))))
        return np.reshape(x, (np.shape(x)[0], -1))


def _head(key, sizes):
    """Layers whose outputs begin near 0."""
    net = nn.MLP.init(key, sizes, activation=nn.relu, initializer=nn.init.he_normal)
    return nn.MLP((*net.layers[:-1], _scaled(net.layers[-1], 0.1)), nn.relu)


def _scaled(layer, factor):
    return replace(layer, weight=layer.weight * np.float32(factor))
