"""Networks that agents begin with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from triskele.core import nn, random
from triskele.core.nn import static

from ..policy import Bytes, Flat

__all__ = [
    "Convolutions",
    "Dueling",
    "Logits",
    "PolicyValue",
    "Sighted",
    "eyes_of",
    "on_bytes",
    "perceptron",
    "sighted",
]

# (channels, window, stride) of the convolutions of Mnih et al., Nature 518 (2015) 529, Methods
_CONVOLUTIONS = ((32, 8, 4), (64, 4, 2), (64, 3, 1))
_LEAST = 36  # rows and columns, of which the last of them leaves one


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
class Convolutions:
    """Images of bytes [N, rows, columns, channels], scaled to [0, 1], through convolutions with a ReLU after each, to
    features [N, k].
    """

    layers: tuple[Any, ...]
    channels_first: bool = static()  # images are [N, channels, rows, columns]

    def __call__(self, x):
        x = x.astype(np.float32) * np.float32(1 / 255)
        x = np.transpose(x, (0, 2, 3, 1)) if self.channels_first else x
        for layer in self.layers:
            x = nn.relu(layer(x))
        return np.reshape(x, (np.shape(x)[0], -1))


@dataclass(frozen=True)
class Sighted:
    """A network on the features of an image."""

    eyes: Convolutions
    network: Any

    def __call__(self, x):
        return self.network(self.eyes(x))


def eyes_of(key: Any, space: Any) -> tuple[Convolutions | None, int]:
    """Return what makes features of observations, and their number: None and all of them, unless they are images, bytes
    from 0 to 255 along three axes. Images of fewer than 36 rows or columns are scaled alone.
    """
    shape, size = space.shape, math.prod(space.shape)
    if space.dtype != np.uint8 or len(shape) != 3 or np.any(space.low != 0) or np.any(space.high != 255):
        return None, size
    channels_first = shape[0] < min(shape[1:])
    channels, *sides = shape if channels_first else (shape[2], *shape[:2])
    layers: list[Any] = []
    for k, (n, window, stride) in zip(
        random.split(key, 3), _CONVOLUTIONS if min(sides) >= _LEAST else (), strict=False
    ):
        layers.append(nn.Conv2d(k, channels, n, window, stride=stride, padding="valid"))
        channels, sides = n, [(side - window) // stride + 1 for side in sides]
    return Convolutions(tuple(layers), channels_first), channels * math.prod(sides)


def sighted(key: Any, space: Any, make: Callable[[int], Any]) -> Any:
    """Return ``make(n)``, a network on n numbers, as one on observations of a space, of any number of axes."""
    eyes, size = eyes_of(random.fold_in(key, random.Fold.CLASSIFIER), space)
    network = make(size)
    if eyes is not None:
        return Sighted(eyes, network)
    return on_bytes(space, network if len(space.shape) == 1 else Flat(network, len(space.shape)))


def on_bytes(space: Any, network: Any) -> Any:
    """Return a network on float32 as one on observations of a space, which may be bytes."""
    return Bytes(network) if space.dtype == np.uint8 else network


@dataclass(frozen=True)
class Dueling:
    """Values of actions: the value of the observation plus advantages, from which their mean is subtracted (Wang et al.
    2016, eq. 9, arXiv:1511.06581).
    """

    body: Any  # observations (N, ...) to features (N, k)
    value: Any  # features to (N, 1)
    advantages: Any  # features to (N, actions)
    activation: Callable = static(default=nn.relu)  # between body and heads

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
