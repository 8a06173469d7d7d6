"""Hessians of negative log-likelihoods by the outputs of a network: samples, square roots and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import random

__all__ = ["hessian", "roots", "sample"]


def _softmax(z):
    e = np.exp(z - np.max(z, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def _spread(distribution, z, weights):
    """The weights of the losses, in a shape that goes with the outputs."""
    weights = np.maximum(weights, 0)
    return np.reshape(weights, (*np.shape(z)[:-1], 1)) if distribution == "categorical" else weights


def _variance(distribution, z):
    """Second derivative of the losses by the outputs, for distributions of independent entries."""
    if distribution == "normal":
        return np.full(np.shape(z), 2, np.result_type(z))
    p = 1 / (1 + np.exp(-z))
    return p * (1 - p)


def sample(distribution: str, z: Any, weights: Any, key: Any) -> Any:
    """A gradient of the losses by the outputs for targets drawn from the distribution, times the root of the weight."""
    dtype = np.result_type(z)
    root = np.sqrt(_spread(distribution, z, weights))
    if distribution == "categorical":
        classes = np.arange(np.shape(z)[-1])
        drawn = random.categorical(key, z)[..., None] == classes
        return root * (_softmax(z) - np.astype(drawn, dtype))
    if distribution == "bernoulli":
        p = 1 / (1 + np.exp(-z))
        return root * (p - np.astype(random.uniform(key, np.shape(z), dtype) < p, dtype))
    return root * np.sqrt(np.asarray(2, dtype)) * random.normal(key, np.shape(z), dtype)


def roots(distribution: str, z: Any, weights: Any, key: Any) -> Any:
    """Columns of a square root of the Hessian of each row of the outputs, (columns, \\*shape of z).

    Each row has a random sign, so that products of different rows vanish in the mean.
    """
    dtype, shape = np.result_type(z), np.shape(z)
    root = np.sqrt(_spread(distribution, z, weights))
    n = shape[-1] if len(shape) > 1 else 1
    unit = np.eye(n, dtype=dtype).reshape(n, *(1,) * (len(shape) - 1), n) if len(shape) > 1 else np.ones((1, 1), dtype)
    if distribution == "categorical":
        p = _softmax(z)
        columns = np.sqrt(np.moveaxis(p, -1, 0))[..., None] * (p - unit)
    else:
        columns = unit * np.sqrt(_variance(distribution, z))
    rows = (*shape[:-1], 1) if len(shape) > 1 else shape
    signs = np.where(random.bernoulli(key, 0.5, rows), np.ones((), dtype), -np.ones((), dtype))
    return columns * (root * signs)


def hessian(distribution: str, z: Any, weights: Any, t: Any) -> Any:
    """The Hessian of the loss by the outputs, times a tangent."""
    weights = _spread(distribution, z, weights)
    if distribution == "categorical":
        p = _softmax(z)
        return weights * p * (t - np.sum(p * t, axis=-1, keepdims=True))
    return weights * _variance(distribution, z) * t
