"""Networks that agents begin with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import nn, random

__all__ = ["Duelling", "perceptron"]


def perceptron(key: Any, sizes: Sequence[int], activation: Callable = nn.relu) -> nn.MLP:
    """Linear layers whose weights and biases start uniform within 1 / sqrt(inputs), as PyTorch's do.

    Parameters
    ----------
    key : array of uint32, [2]
    sizes : sequence of int
        Widths from input to output.
    activation : function

    Examples
    --------
    >>> perceptron(random.key(0), [3, 8, 2])(np.zeros((5, 3), np.float32)).shape
    (5, 2)
    """
    layers = []
    for k, n_in, n_out in zip(random.split(key, len(sizes) - 1), sizes[:-1], sizes[1:], strict=True):
        weights, biases = random.split(k)
        scale = 1 / math.sqrt(n_in)
        layers.append(nn.Linear(random.uniform(weights, (n_in, n_out), np.float32, -scale, scale), random.uniform(biases, (n_out,), np.float32, -scale, scale)))
    return nn.MLP(tuple(layers), activation)


@dataclass(frozen=True)
class Duelling:
    """Values of actions as the value of the observation plus advantages, whose mean is taken off (Wang et al. 2016, eq. 9, arXiv:1511.06581).

    Attributes
    ----------
    body : callable tree
        Observations [N, ...] to features [N, k].
    value, advantages : callable tree
        Features to [N, 1] and [N, actions].
    activation : function
        Between body and heads.
    """

    body: Any
    value: Any
    advantages: Any
    activation: Callable = nn.static(default=nn.relu)

    def __call__(self, x):
        features = self.activation(self.body(x))
        advantages = self.advantages(features)
        return self.value(features) + advantages - np.mean(advantages, axis=-1, keepdims=True)
